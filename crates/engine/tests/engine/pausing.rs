//! Pause, shutdown, fork.

use ravel_core::effect::Millis;
use ravel_core::event::Stop;
use ravel_core::port_store::Listing as _;
use ravel_engine::{EngineError, Pending, Progress, StopReason};
use serde_json::json;

use super::support::{Does, Rig, echo, flow, lock};

const CHAIN: &str = "
ravel: 1
name: chain
steps:
  - a: { tool: t.act, with: { v: 1 }, effect: once }
  - b: { tool: t.act, with: { v: 2 }, effect: once }
  - c: { tool: t.look, with: { v: 3 }, effect: read }
output: '{{ c.path }}'
";

#[test]
fn a_pause_starts_nothing_new_waits_for_what_is_under_way_and_gives_the_run_up() {
    let rig = Rig::new(|_| Does::Waits);
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(CHAIN), json!({})));
    let (then, paused) = Pending::new();
    process.engine.pause_then(&run, then);
    process.drive();
    assert!(paused.poll().is_err(), "`a` is still under way");
    rig.world.finish("a", json!({ "path": "a" }));
    process.drive();
    assert_eq!(paused.poll().unwrap(), Ok(()));
    assert_eq!(rig.world.paths(), ["a"], "`b` did not leave");
    let states = rig.outcome(&run).1;
    assert_eq!((&*states["a"].0, &*states["c"].0), ("succeeded", "pending"));

    let mut other = rig.engine();
    other.resume(&run).unwrap();
    assert_eq!(
        rig.world.open(),
        ["b"],
        "no question: it is certain that `b` had not left"
    );
    rig.world.finish("b", json!({ "path": "b" }));
    other.drive();
    rig.world.finish("c", json!({ "path": "c" }));
    assert_eq!(other.ended(&run).unwrap().output, Some(json!("c").into()));
}

#[test]
fn an_attempt_that_outlasts_the_grace_of_a_pause_is_stopped_and_lost() {
    let rig = Rig::new(|_| Does::Waits);
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(CHAIN), json!({})));
    let (then, paused) = Pending::new();
    process.engine.pause_then(&run, then);
    process.drive();
    rig.clock.advance(rig.limits.pause_grace_ms);
    process.drive();
    assert_eq!(paused.poll().unwrap(), Ok(()));
    assert_eq!(
        lock(&rig.world.state).aborted,
        [("a".to_owned(), Stop::Cancelled)]
    );
    let mut other = rig.engine();
    other.resume(&run).unwrap();
    let waits = rig.fold(&run).questions();
    assert_eq!(
        waits
            .iter()
            .map(|question| question.topic.name())
            .collect::<Vec<_>>(),
        ["uncertain"]
    );
}

#[test]
fn a_shutdown_at_once_takes_back_what_had_not_left() {
    let rig = Rig::new(|_| Does::Waits);
    let mut process = rig.engine();
    let (then, started) = Pending::new();
    process
        .engine
        .start_then(rig.request(&flow(CHAIN), json!({})), then);
    process.engine.shut_down(true);
    assert_eq!(process.drive(), Progress::Stopped(StopReason::Shutdown));
    let run = started.poll().unwrap().unwrap();
    assert_eq!(rig.world.paths(), Vec::<String>::new());
    let mut other = rig.engine();
    other.resume(&run).unwrap();
    assert_eq!(
        rig.world.open(),
        ["a"],
        "no question: it is certain that `a` had not left"
    );
}

#[test]
fn a_graceful_shutdown_pauses_every_run_and_says_so() {
    let rig = Rig::new(|_| Does::Waits);
    let mut process = rig.engine();
    let flow = flow(CHAIN);
    let runs = [0, 1].map(|_| process.start(rig.request(&flow, json!({}))));
    let ends = runs.clone().map(|run| {
        let (then, end) = Pending::new();
        process.engine.wait_then(&run, then);
        end
    });
    process.engine.shut_down(false);
    assert_eq!(process.drive(), Progress::Idle);
    while rig.world.finish_oldest() {}
    assert_eq!(process.drive(), Progress::Stopped(StopReason::Shutdown));
    for (run, end) in runs.iter().zip(ends) {
        assert_eq!(
            end.poll().unwrap(),
            Err(EngineError::Paused { run: run.clone() })
        );
        assert_eq!(&*rig.outcome(run).1["a"].0, "succeeded");
    }
}

#[test]
fn a_fork_goes_on_from_its_turn_with_a_run_of_its_own() {
    let rig = Rig::new(|job| {
        if &*job.path == "c" {
            Does::Waits
        } else {
            echo(job)
        }
    });
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(CHAIN), json!({})));
    assert_eq!(rig.world.paths(), ["a", "b", "c"]);
    let turn = rig.log(&run).last().unwrap().turn;
    let fork = process
        .call(|engine, then| engine.fork_then(&run, turn, then))
        .unwrap();
    assert_eq!(
        rig.world.paths(),
        ["a", "b", "c", "c"],
        "what had settled does not run again"
    );
    rig.world.finish("c", json!({ "path": "first" }));
    rig.world.finish("c", json!({ "path": "second" }));
    assert_eq!(
        process.ended(&run).unwrap().output,
        Some(json!("first").into())
    );
    let forked = process.ended(&fork).unwrap();
    assert_eq!(forked.output, Some(json!("second").into()));
    assert_eq!(forked.forked_from, Some((run, turn)));
}

#[test]
fn a_fork_at_a_turn_that_does_not_exist_is_refused() {
    let rig = Rig::new(|_| Does::Waits);
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(CHAIN), json!({})));
    let refused = process.call(|engine, then| engine.fork_then(&run, 99, then));
    assert!(
        matches!(refused, Err(EngineError::Rejected { ref code, .. }) if code == "unknown_turn"),
        "{refused:?}"
    );
}

#[test]
fn a_fork_of_a_run_that_is_removed_meanwhile_is_refused_alone() {
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    let flow = flow(CHAIN);
    let base = process.start(rig.request(&flow, json!({})));
    process.ended(&base).unwrap();
    let outcome = rig.outcome(&base);
    *lock(&process.spy.meanwhile) = Some(Box::new(|store| {
        store.collect(Millis::MAX, 0, false).unwrap();
    }));
    // Both are in the batch that is refused.
    let (then, fork) = Pending::new();
    process.engine.fork_then(&base, 1, then);
    let other = process.engine.begin(rig.request(&flow, json!({})));
    process.drive();
    assert_eq!(
        fork.poll().unwrap(),
        Err(EngineError::UnknownRun { run: base })
    );
    let other = other.poll().unwrap().unwrap();
    assert_eq!(rig.outcome(&other), outcome);
}

#[test]
fn a_fork_at_the_end_of_a_run_is_refused_and_leaves_nothing_behind() {
    let rig = Rig::new(|_| Does::Waits);
    let mut process = rig.engine();
    let done = "{ravel: 1, name: done, steps: {a: {set: 1}}}";
    let run = process.start(rig.request(&flow(done), json!({})));
    process.drive();
    let last = rig.log(&run).last().unwrap().turn;
    let (then, forked) = Pending::new();
    process.engine.fork_then(&run, last, then);
    process.drive();
    let refused = forked.poll().unwrap().unwrap_err();
    assert!(
        matches!(&refused, EngineError::Rejected { code, .. } if code == "already_settled"),
        "{refused}"
    );
    process.engine.shut_down(false);
    assert_eq!(process.drive(), Progress::Stopped(StopReason::Shutdown));
}
