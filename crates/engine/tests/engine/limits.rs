//! `concurrency` over all runs of the process.

use serde_json::json;

use super::support::{Does, Rig, flow, lock};

fn wide(max: u32) -> String {
    format!(
        "
ravel: 1
name: wide
input: {{ items: [integer] }}
steps:
  all:
    for_each: input.items
    steps:
      call: {{ tool: t.look, with: {{ v: '{{{{ item }}}}' }}, effect: read, concurrency: {{ key: api, max: {max} }} }}
    output: '{{{{ call.path }}}}'
output: '{{{{ all }}}}'
"
    )
}

#[test]
fn the_observed_peak_is_the_limit_and_nothing_is_dropped() {
    for max in [1_u32, 2, 16] {
        let rig = Rig::new(|_| Does::Waits);
        let flow = flow(&wide(max));
        let mut process = rig.engine();
        let items: Vec<u32> = (0..100).collect();
        // Two runs share the key.
        let runs = [0, 1].map(|_| process.start(rig.request(&flow, json!({ "items": items }))));
        while rig.world.finish_oldest() {
            process.drive();
        }
        let expected: Vec<String> = items
            .iter()
            .map(|item| format!("all[{item}]/call"))
            .collect();
        for run in &runs {
            assert_eq!(
                process.ended(run).unwrap().output,
                Some(json!(expected).into()),
                "max {max}"
            );
        }
        let mut ran = rig.world.paths();
        ran.sort();
        ran.dedup();
        assert_eq!(
            (rig.world.paths().len(), ran.len()),
            (200, 100),
            "each once in each run, max {max}"
        );
        assert_eq!(lock(&rig.world.state).open_max, max as usize);
        assert_eq!(process.driver.status().permits, []);
    }
}

#[test]
fn runs_take_turns_at_a_limit() {
    let rig = Rig::new(|_| Does::Waits);
    let flow = flow(&wide(1));
    let mut process = rig.engine();
    let many: Vec<u32> = (0..50).collect();
    process.start(rig.request(&flow, json!({ "items": many })));
    process.start(rig.request(&flow, json!({ "items": [0, 1] })));
    for _ in 0..4 {
        rig.world.finish_oldest();
        process.drive();
    }
    let small = rig
        .world
        .paths()
        .iter()
        .filter(|path| *path == "all[1]/call")
        .count();
    assert_eq!(
        small,
        2,
        "the small run is not behind all of the large one: {:?}",
        rig.world.paths()
    );
}

#[test]
fn starts_beyond_the_room_in_memory_wait_and_beyond_that_are_refused() {
    let mut rig = Rig::new(|_| Does::Waits);
    rig.limits.live_runs = 2;
    rig.limits.waiting_starts = 1;
    let flow = flow("ravel: 1\nname: one\nsteps:\n  a: { tool: t.look, with: {}, effect: read }\n");
    let mut process = rig.engine();
    let pending: Vec<_> = (0..4)
        .map(|_| process.engine.begin(rig.request(&flow, json!({}))))
        .collect();
    process.drive();
    let answers: Vec<bool> = pending
        .iter()
        .map(|pending| pending.poll().is_ok())
        .collect();
    assert_eq!(
        answers,
        [true, true, false, true],
        "the third waits, the fourth is refused at once"
    );
    assert_eq!(rig.world.open().len(), 2);
    rig.world.finish_oldest();
    process.drive();
    assert!(
        pending[2].poll().is_ok_and(|answer| answer.is_ok()),
        "there is room for the third now"
    );
    assert_eq!(process.driver.status().counters.live, 2);
}

#[test]
fn an_equal_request_is_answered_from_the_cache_while_it_is_good() {
    let rig = Rig::new(super::support::echo);
    let flow = flow(
        "ravel: 1\nname: cached\nsteps:\n  a: { tool: t.look, with: { v: 7 }, effect: read, cache: 1m }\noutput: '{{ a.v }}'\n",
    );
    let mut process = rig.engine();
    for _ in 0..2 {
        let run = process.start(rig.request(&flow, json!({})));
        assert_eq!(process.ended(&run).unwrap().output, Some(json!(7).into()));
    }
    assert_eq!(
        (
            rig.world.paths().len(),
            process.driver.status().counters.cache_hits
        ),
        (1, 1)
    );
    rig.clock.advance(60_000);
    let run = process.start(rig.request(&flow, json!({})));
    process.ended(&run).unwrap();
    assert_eq!(rig.world.paths().len(), 2);
}

#[test]
fn a_permit_of_a_run_that_is_over_goes_to_whoever_waits() {
    use ravel_core::port_store::Message;
    let rig = Rig::new(|_| Does::Waits);
    let flow = flow(&wide(1));
    let mut process = rig.engine();
    let first = process.start(rig.request(&flow, json!({ "items": [1, 2] })));
    let second = process.start(rig.request(&flow, json!({ "items": [3] })));
    assert_eq!(rig.world.open(), ["all[0]/call"]);
    let cancel = Message::Cancel {
        path: None,
        by: None,
        reason: None,
    };
    process.post(&first, cancel).unwrap();
    assert_eq!(process.ended(&first).unwrap().state.name(), "cancelled");
    assert_eq!(rig.world.open(), ["all[0]/call"], "the second run's");
    rig.world.finish("all[0]/call", json!({ "path": "x" }));
    process.drive();
    assert_eq!(
        process.ended(&second).unwrap().output,
        Some(json!(["x"]).into())
    );
}
