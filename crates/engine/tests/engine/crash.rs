//! `kill -9` at every commit, before and after it reached the disk: the outcome is the uninterrupted one's.

use ravel_core::port::Job;
use serde_json::json;

use super::support::{Death, Does, Rig, echo, flow, lock};

/// Every kind of leaf and scope that has to survive; its `once` steps say afterwards whether they took place.
const FLOW: &str = "
ravel: 1
name: crashes
input: { items: [integer] }
steps:
  first: { tool: t.look, with: { v: 1 }, effect: read }
  charge:
    tool: t.act
    with: { v: '{{ first.v }}' }
    key: charge
    effect: once
    on_uncertain: { check: { tool: ledger.has, with: { key: charge }, effect: read } }
  all:
    for_each: input.items
    parallel: 2
    steps:
      put: { tool: t.put, with: { v: '{{ item + charge.v | default(0) }}' }, effect: write }
    output: '{{ put.v }}'
  settle: { tool: t.act, with: { v: '{{ all | length }}' }, key: settle, effect: once, on_uncertain: retry }
  loops:
    repeat: { carry: { n: 0 }, until: output.n >= 3, max: 5 }
    steps:
      more: { set: { n: '{{ carry.n + 1 }}' } }
    after: [all]
  end: { tool: t.look, with: { v: '{{ loops.n }}' }, effect: read }
output: { all: '{{ all }}', n: '{{ end.v }}' }
";

fn world(job: &Job) -> Does {
    echo(job)
}

/// Runs the flow with a death, resumes it until it is over, and gives the rig.
fn run_through(death: Option<Death>) -> (Rig, std::sync::Arc<str>, u64) {
    let rig = Rig::new(world);
    let flow = flow(FLOW);
    let mut request = rig.request(&flow, json!({ "items": [1, 2, 3, 4] }));
    let run: std::sync::Arc<str> = "0190-crash".into();
    request.run = Some(run.clone());
    {
        let mut process = rig.engine_that_dies(death);
        let _ = process.engine.begin(request.clone());
        process.drive();
    }
    let commits = lock(&rig.durable).commits;
    // The starter was not told: it starts again under the same id, or resumes what is there.
    let mut process = rig.engine();
    if process.resume(&run).is_err() {
        process.start(request);
    }
    process.ended(&run).unwrap();
    (rig, run, commits)
}

#[test]
fn a_crash_at_any_commit_leaves_the_outcome_as_it_was() {
    let (calm, run, commits) = run_through(None);
    let expected = calm.outcome(&run);
    assert_eq!(expected.0, "succeeded");
    assert!(
        commits > 3,
        "the flow commits often enough to be worth it: {commits}"
    );
    for commit in 1..=commits {
        for written in [false, true] {
            let (rig, run, _) = run_through(Some(Death { commit, written }));
            assert_eq!(
                rig.outcome(&run),
                expected,
                "commit {commit}, written: {written}"
            );
            let state = lock(&rig.world.state);
            assert_eq!(
                state.effects["charge"], 1,
                "commit {commit}, written: {written}"
            );
        }
    }
}

#[test]
fn nothing_that_settled_durably_runs_again() {
    let (_, _, commits) = run_through(None);
    for commit in 1..=commits {
        let rig = Rig::new(world);
        let request = rig.request(&flow(FLOW), json!({ "items": [1, 2, 3, 4] }));
        let run: std::sync::Arc<str> = "0190-again".into();
        let mut process = rig.engine_that_dies(Some(Death {
            commit,
            written: true,
        }));
        let _ = process.engine.begin(ravel_engine::StartRequest {
            run: Some(run.clone()),
            ..request
        });
        process.drive();
        drop(process);
        let settled: Vec<String> = rig
            .fold(&run)
            .nodes()
            .filter(|view| view.state == "succeeded")
            .map(|view| view.path.to_string())
            .collect();
        let before = rig.world.seen().len();
        let mut process = rig.engine();
        process.resume(&run).unwrap();
        process.ended(&run).unwrap();
        let again: Vec<String> = rig.world.paths().split_off(before);
        let repeated: Vec<&String> = again.iter().filter(|path| settled.contains(path)).collect();
        assert_eq!(repeated, Vec::<&String>::new(), "commit {commit}");
    }
}

#[test]
fn a_restart_while_a_sibling_is_queued_runs_it_then_the_join_once() {
    let yaml = "
ravel: 1
name: queued
steps:
  left: { tool: t.act, with: { v: l }, effect: read, concurrency: { key: one, max: 1 } }
  right: { tool: t.act, with: { v: r }, effect: read, concurrency: { key: one, max: 1 } }
  join: { tool: t.act, with: { l: '{{ left.path }}', r: '{{ right.path }}' }, effect: read }
output: '{{ join.path }}'
";
    let rig = Rig::new(|_| Does::Waits);
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(yaml), json!({})));
    assert_eq!(rig.world.open(), ["left"]);
    rig.world.finish("left", json!({ "path": "l" }));
    process.drive();
    // `right` has just begun; its process dies.
    assert_eq!(rig.world.open(), ["right"]);
    drop(process);
    lock(&rig.world.state).open.clear();
    let mut process = rig.engine();
    process.resume(&run).unwrap();
    assert_eq!(rig.world.open(), ["right"]);
    rig.world.finish("right", json!({ "path": "r" }));
    process.drive();
    rig.world.finish("join", json!({ "path": "done" }));
    process.drive();
    assert_eq!(
        process.ended(&run).unwrap().output,
        Some(json!("done").into())
    );
    assert_eq!(rig.world.paths(), ["left", "right", "right", "join"]);
    assert_eq!(
        lock(&rig.world.state).swept,
        [run.to_string()],
        "what was left behind is ended before anything is issued"
    );
}
