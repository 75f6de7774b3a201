//! The shard alone, while a commit is under way: what the driver never shows, since it waits for its disk.

use ravel_core::event::{Event, Input};
use ravel_engine::cache::MemoryCache;
use ravel_engine::message::{Ending, In, NewRun, Out, Sender, Wish};
use ravel_engine::shard::Shard;
use ravel_engine::{EngineError, Limits};
use serde_json::json;

use super::support::flow;

const ONE: &str = "
ravel: 1
name: one
steps:
  ask: { human: { ask: 'Go on?', form: { ok: boolean } } }
";

fn shard_with_a_commit_under_way(yaml: &str) -> (Shard, ravel_core::port_store::Batch) {
    let mut shard = Shard::new(
        "me".into(),
        Limits::default(),
        Box::new(MemoryCache::new(1, 1, 1)),
    );
    let mut out = Vec::new();
    let new = Box::new(NewRun {
        run: "r1".into(),
        graph: flow(yaml).graph,
        terms: ravel_core::run::Terms::default().into(),
        input: json!({}).into(),
        start_key: None,
    });
    shard.step(1_000, In::Start { ticket: 1, new }, &mut out);
    assert_eq!(out.len(), 0, "nothing leaves before it is on disk: {out:?}");
    let batch = shard.cut().expect("the start has to be written");
    (shard, batch)
}

#[test]
fn a_run_is_given_up_only_when_its_commit_has_ended() {
    let (mut shard, batch) = shard_with_a_commit_under_way(ONE);
    let mut out = Vec::new();
    shard.step(
        1_000,
        In::Pause {
            ticket: 2,
            run: "r1".into(),
        },
        &mut out,
    );
    assert_eq!(out.len(), 0, "the disk has the run: {out:?}");
    shard.committed(1_000, batch, &mut out);
    let left = out.iter().any(|message| {
        matches!(
            message,
            Out::Ended {
                ending: Ending::Left(EngineError::Paused { .. }),
                ..
            }
        )
    });
    assert!(left, "{out:?}");
}

#[test]
fn an_end_at_once_takes_back_what_has_not_left_and_asks_for_the_time_no_more() {
    let once = "{ravel: 1, name: act, steps: {act: {tool: t.act, with: {}, effect: once}}}";
    let (mut shard, batch) = shard_with_a_commit_under_way(once);
    let mut out = Vec::new();
    shard.step(1_000, In::Shutdown { now: true }, &mut out);
    assert_eq!(shard.next_wake(), None, "its grace is over");
    shard.committed(1_000, batch, &mut out);
    let launched = out
        .iter()
        .any(|message| matches!(message, Out::Launch { .. }));
    assert!(!launched, "{out:?}");
    let rest = shard
        .cut()
        .expect("that it did not leave has to be written");
    shard.committed(1_000, rest, &mut out);
    assert!(matches!(out.last(), Some(Out::Stopped { .. })), "{out:?}");
}

#[test]
fn an_attempt_that_nobody_listens_to_any_more_is_never_said_not_to_have_happened() {
    let yaml = "
ravel: 1
name: act
steps:
  act: { tool: t.act, with: {}, effect: once, timeout: 1s }
  ask: { human: { ask: 'Go on?', form: { ok: boolean } } }
";
    let (mut shard, batch) = shard_with_a_commit_under_way(yaml);
    let question = batch.runs[0].asked[0].id.clone();
    let mut out = Vec::new();
    shard.committed(1_000, batch, &mut out);
    let launched = out
        .iter()
        .any(|message| matches!(message, Out::Launch { .. }));
    assert!(launched, "{out:?}");
    let answer = Input::Answer {
        question,
        value: json!({ "ok": true }).into(),
        by: None,
    };
    let posted = In::Posted {
        from: Sender::Caller(2),
        run: "r1".into(),
        at: 1_000,
        wish: Wish::Input(Box::new(answer)),
    };
    shard.step(1_000, posted, &mut out);
    let batch = shard.cut().expect("the answer has to be written");
    shard.step(1_000, In::Shutdown { now: true }, &mut out);
    // The disk is slow: the timeout of the attempt comes before the run is given up.
    shard.step(2_000, In::Tick, &mut out);
    let mut written = batch.runs[0].turns.clone();
    shard.committed(2_000, batch, &mut out);
    while let Some(rest) = shard.cut() {
        written.extend(rest.runs[0].turns.clone());
        shard.committed(2_000, rest, &mut out);
    }
    assert!(matches!(out.last(), Some(Out::Stopped { .. })), "{out:?}");
    let ends: Vec<_> = written
        .iter()
        .flat_map(|turn| &turn.events)
        .filter(|event| matches!(event, Event::AttemptFinished { .. }))
        .collect();
    assert_eq!(ends, Vec::<&Event>::new(), "nobody knows how it ended");
}
