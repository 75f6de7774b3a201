//! Two engines on one store.

use ravel_core::port_store::{Error, Ownership};
use ravel_engine::{EngineError, Pending};
use serde_json::json;

use super::support::{Does, Rig, echo, flow, lock};

const ONE: &str = "
ravel: 1
name: one
steps:
  a: { tool: t.look, with: {}, effect: read }
  b: { tool: t.act, with: { v: '{{ a.path }}' }, effect: once }
output: '{{ b.path }}'
";

#[test]
fn a_run_that_a_live_process_owns_is_refused_to_another() {
    let rig = Rig::new(|_| Does::Waits);
    let mut owner = rig.engine();
    let run = owner.start(rig.request(&flow(ONE), json!({})));
    let mut other = rig.engine();
    assert!(matches!(other.resume(&run), Err(EngineError::Held { .. })));
    assert_eq!(rig.world.paths(), ["a"], "the refused one did nothing");
    drop(owner);
    lock(&rig.world.state).open.clear();
    other.resume(&run).unwrap();
    assert_eq!(
        rig.world.paths(),
        ["a", "a"],
        "a read that was under way runs again"
    );
}

#[test]
fn a_run_that_was_taken_over_is_dropped_and_the_others_of_its_commit_are_not() {
    let rig = Rig::new(|_| Does::Waits);
    let flow = flow(ONE);
    let mut process = rig.engine();
    let lost = process.start(rig.request(&flow, json!({})));
    let kept = process.start(rig.request(&flow, json!({})));
    let (then, lost_ended) = Pending::new();
    process.engine.wait_then(&lost, then);
    // Behind its back, as after a partition.
    let owner = rig.memory.owner(&lost).unwrap().unwrap();
    rig.memory.claim(&lost, &owner).unwrap();
    rig.world.finish("a", json!({ "path": "x" }));
    rig.world.finish("a", json!({ "path": "x" }));
    process.drive();
    assert_eq!(
        lost_ended.poll().unwrap(),
        Err(EngineError::Fenced { run: lost.clone() })
    );
    assert_eq!(rig.world.open(), ["b"], "only the other run's `once` left");
    rig.world.finish("b", json!({ "path": "done" }));
    process.drive();
    assert_eq!(
        process.ended(&kept).unwrap().output,
        Some(json!("done").into())
    );
    assert_eq!(process.driver.status().counters.fenced, 1);
}

#[test]
fn a_server_adopts_what_a_dead_process_left_and_what_becomes_due() {
    let mut rig = Rig::new(echo);
    let later = flow(
        "ravel: 1\nname: later\nsteps:\n  - w: { wait: 1h }\n  - a: { tool: t.look, with: { v: 1 }, effect: read }\noutput: '{{ a.v }}'\n",
    );
    let mut dead = rig.engine();
    let run = dead.start(rig.request(&later, json!({})));
    drop(dead);
    rig.serve = true;
    let mut server = rig.engine();
    server.drive();
    assert_eq!(
        server.driver.status().counters.live,
        0,
        "a run that only waits is not read"
    );
    rig.clock.advance(3_600_000);
    server.drive();
    assert_eq!(server.ended(&run).unwrap().output, Some(json!(1).into()));
}

#[test]
fn a_server_does_not_try_a_broken_run_again_at_once() {
    let mut rig = Rig::new(|_| Does::Waits);
    let mut dead = rig.engine();
    let run = dead.start(rig.request(&flow(ONE), json!({})));
    drop(dead);
    rig.serve = true;
    rig.forget_graphs();
    let mut server = rig.engine();
    server.drive();
    let status = server.driver.status().counters;
    assert_eq!((status.live, status.waking), (0, 0));
    assert_eq!(
        rig.memory.owner(&run).unwrap(),
        None,
        "it is free for somebody who can"
    );
}

#[test]
fn an_unknown_run_is_said_to_be_unknown() {
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    let unknown = EngineError::UnknownRun { run: "nope".into() };
    assert_eq!(process.resume("nope"), Err(unknown.clone()));
    assert_eq!(process.ended("nope"), Err(unknown.clone()));
    assert_eq!(
        process.call(|engine, then| engine.pause_then("nope", then)),
        Err(unknown.clone())
    );
    let message = ravel_core::port_store::Message::Cancel {
        path: None,
        by: None,
        reason: None,
    };
    assert_eq!(process.post("nope", message), Err(unknown));
}

#[test]
fn a_damaged_store_stops_the_engine_with_a_reason() {
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    *lock(&process.spy.refuse) = Some(Error::Io {
        message: "disk gone".into(),
    });
    let (then, pending) = Pending::<std::sync::Arc<str>>::new();
    process
        .engine
        .start_then(rig.request(&flow(ONE), json!({})), then);
    process.drive();
    let why = ravel_engine::StopReason::Store {
        message: "the store failed: disk gone".into(),
    };
    assert_eq!(pending.poll().unwrap(), Err(EngineError::Stopped { why }));
}
