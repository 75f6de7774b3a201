//! An engine with its own thread, under load: the same promises whatever turns share a commit.

use ravel_core::port_store::Error;
use ravel_engine::{Engine, EngineError, Limits, StopReason};
use serde_json::json;

use super::support::{Rig, echo, flow};

/// Reads, a fan-out of effects and an effect behind it.
const EFFECTS: &str = "
ravel: 1
name: effects
steps:
  look: { tool: data.look, with: { n: 1 }, effect: read }
  each:
    for_each: [1, 2, 3, 4, 5, 6, 7, 8]
    as: item
    steps:
      act: { tool: data.act, with: { n: '{{ item }}' }, effect: once }
  finish: { after: each, tool: data.act, with: { n: '{{ look.n }}' }, effect: once }
output: '{{ finish.n }}'
";

/// Runs started at once.
const RUNS: usize = 40;

#[test]
fn effects_start_only_after_their_start_is_on_disk_however_small_the_groups_are() {
    for most in [1, 7, Limits::default().commit_turns] {
        let mut rig = Rig::new(echo);
        rig.limits.commit_turns = most;
        let engine = Engine::open(rig.config(None).0).unwrap();
        let flow = flow(EFFECTS);
        let begun: Vec<_> = (0..RUNS)
            .map(|_| engine.begin(rig.request(&flow, json!({}))))
            .collect();
        let runs: Vec<_> = begun.into_iter().map(|run| run.wait().unwrap()).collect();
        for run in &runs {
            let summary = engine.wait(run).unwrap();
            assert_eq!(summary.output, Some(json!(1).into()), "{most}: {summary:?}");
        }
        engine.shut_down(false);
        assert_eq!(engine.join(), Some(StopReason::Shutdown));

        let early: Vec<_> = rig
            .world
            .seen()
            .into_iter()
            .filter(|seen| !seen.durable && seen.path != "look")
            .collect();
        assert_eq!(
            early,
            [],
            "{most}: effects that began before their start was on disk"
        );
        let effects = rig.world.seen().len();
        assert_eq!(effects, RUNS * 10, "{most}: each step ran once");
        let expected = rig.outcome(&runs[0]);
        for run in &runs {
            assert_eq!(rig.outcome(run), expected, "{most}");
        }
    }
}

#[test]
fn a_full_disk_stops_the_engine_and_everybody_who_waits_is_told() {
    let rig = Rig::new(echo);
    let (config, spy) = rig.config(None);
    let full = Error::Full {
        message: "no space".into(),
    };
    *spy.refuse.lock().unwrap() = Some(full);
    let engine = Engine::open(config).unwrap();
    let why = StopReason::Full {
        message: "no space".into(),
    };
    let refused = engine.start(rig.request(&flow(EFFECTS), json!({})));
    assert_eq!(refused, Err(EngineError::Stopped { why: why.clone() }));
    assert_eq!(engine.join(), Some(why));
    assert_eq!(rig.world.paths(), ["look"], "only the read had begun");
}
