//! Runs that only wait leave memory and come back.

use ravel_core::port_store::{Listing, Message, Reply};
use serde_json::json;

use super::support::{Rig, T0, echo, flow, lock};

const WAITING: &str = "
ravel: 1
name: waiting
steps:
  - w: { wait: 1h }
  - a: { tool: t.look, with: { v: 1 }, effect: read }
output: '{{ a.v }}'
";

const ASKING: &str = "
ravel: 1
name: asking
steps:
  q: { human: { ask: 'well?', form: { ok: boolean } } }
output: '{{ q.ok }}'
";

#[test]
fn ten_thousand_runs_that_wait_are_parked_and_woken_by_their_clock() {
    let mut rig = Rig::new(echo);
    rig.limits.live_runs = 20_000;
    rig.limits.queue_messages = 20_000;
    let flow = flow(WAITING);
    let mut process = rig.engine();
    let pending: Vec<_> = (0..10_000)
        .map(|_| process.engine.begin(rig.request(&flow, json!({}))))
        .collect();
    process.drive();
    let runs: Vec<_> = pending
        .into_iter()
        .map(|pending| pending.poll().unwrap().unwrap())
        .collect();
    rig.clock.advance(rig.limits.park_after_ms);
    process.drive();
    let counters = process.driver.status().counters;
    assert_eq!((counters.live, counters.parked), (0, 10_000));
    assert_eq!(process.driver.next_wake(), Some(T0 + 3_600_000));
    rig.clock.set(T0 + 3_600_000);
    process.drive();
    let counters = process.driver.status().counters;
    assert_eq!((counters.live, counters.parked), (0, 0));
    for run in [&runs[0], &runs[9_999]] {
        assert_eq!(process.ended(run).unwrap().output, Some(json!(1).into()));
    }
}

#[test]
fn a_parked_run_takes_an_answer_and_its_log_shows_no_recovery() {
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(ASKING), json!({})));
    rig.clock.advance(rig.limits.park_after_ms);
    process.drive();
    assert_eq!(process.driver.status().counters.parked, 1);
    let question = rig.memory.questions(Some(&run)).unwrap()[0].id.clone();
    let message = Message::Answer {
        question,
        value: json!({ "ok": true }).into(),
        by: None,
    };
    assert!(matches!(
        process.post(&run, message),
        Ok(Reply::Accepted { .. })
    ));
    assert_eq!(
        process.ended(&run).unwrap().output,
        Some(json!(true).into())
    );
    let recovered = rig
        .log(&run)
        .iter()
        .flat_map(|turn| &turn.events)
        .filter(|event| matches!(event, ravel_core::event::Event::Recovered { .. }))
        .count();
    assert_eq!(recovered, 0, "nothing was lost: it stayed owned");
}

#[test]
fn a_message_of_another_process_wakes_a_parked_run() {
    use ravel_core::port_store::Inbox;
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(ASKING), json!({})));
    rig.clock.advance(rig.limits.park_after_ms);
    process.drive();
    let row = rig
        .memory
        .post(
            &run,
            T0,
            &Message::Cancel {
                path: None,
                by: None,
                reason: None,
            },
        )
        .unwrap();
    process.drive();
    assert_eq!(process.ended(&run).unwrap().state.name(), "cancelled");
    assert!(matches!(
        rig.memory.reply(row).unwrap(),
        Some(Reply::Accepted { .. })
    ));
}

#[test]
fn a_run_with_an_attempt_under_way_is_not_parked() {
    let rig = Rig::new(|_| super::support::Does::Waits);
    let mut process = rig.engine();
    let flow = flow(
        "ravel: 1\nname: busy\nsteps:\n  a: { tool: t.look, with: {}, effect: read, timeout: 1h }\n",
    );
    process.start(rig.request(&flow, json!({})));
    rig.clock.advance(2 * rig.limits.park_after_ms);
    process.drive();
    assert_eq!(process.driver.status().counters.live, 1);
}

#[test]
fn every_live_run_has_something_that_will_move_it_also_after_a_restart() {
    let flows = [
        WAITING,
        "ravel: 1\nname: q\nsteps:\n  q: { human: { ask: 'well?', form: { ok: boolean }, deadline: 1h, on_deadline: fail } }\n",
        "ravel: 1\nname: s\nsignals: { go: { n: integer } }\nsteps:\n  s: { wait: { signal: go, deadline: 1h, on_deadline: fail } }\n",
        "ravel: 1\nname: t\nsteps:\n  t: { tool: t.hang, with: {}, effect: read, timeout: 1h, retry: { attempts: 1 } }\n",
        "ravel: 1\nname: d\ndeadline: 1h\nsteps:\n  d: { tool: t.hang, with: {}, effect: read }\n",
    ];
    for yaml in flows {
        let rig = Rig::new(|job| {
            if job.path.starts_with(['t', 'd']) {
                super::support::Does::Waits
            } else {
                echo(job)
            }
        });
        let mut process = rig.engine();
        let run = process.start(rig.request(&flow(yaml), json!({})));
        let waker = process.driver.next_wake();
        assert!(
            waker.is_some_and(|at| at > T0),
            "nothing will move this run: {yaml}"
        );
        drop(process);
        lock(&rig.world.state).open.clear();
        let mut process = rig.engine();
        process.resume(&run).unwrap();
        // Each time something may become due the clock goes there; it must end within a few steps.
        for _ in 0..20 {
            let Some(at) = process.driver.next_wake() else {
                break;
            };
            rig.clock.set(at);
            process.drive();
        }
        assert!(process.ended(&run).is_ok(), "the run is stuck: {yaml}");
    }
}
