//! Runs for tests.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test binary uses its part"
)]

use std::sync::Arc;

use ravel_core::effect::{Effect, Fate, Usage};
use ravel_core::event::{Datum, Event, SEMANTICS, Settled, Turn};
use ravel_core::port::{RunState, Summary};
use ravel_core::port_store::{Batch, Owner, RunCommit};
use ravel_core::value::Val;
use serde_json::{Value, json};

pub(crate) fn owner() -> Owner {
    Owner {
        token: "a".into(),
        epoch: 1,
    }
}

pub(crate) fn start(run: &str, graph: &str) -> Turn {
    let event = Event::RunStarted {
        semantics: SEMANTICS,
        run: run.into(),
        graph: graph.into(),
        input: Val::new(json!({ "ticket": "It is broken" })),
        terms: Val::null(),
    };
    Turn {
        turn: 1,
        at: 1_764_000_000_000,
        events: vec![event],
    }
}

/// A step that starts, ends and settles in one turn.
pub(crate) fn step(turn: u64, path: &str, value: Value) -> Turn {
    let node = u32::try_from(turn).unwrap();
    let path: Arc<str> = path.into();
    let usage = Usage {
        input_tokens: 100,
        cached_tokens: 0,
        output_tokens: 20,
        cost_microusd: 1_500,
    };
    Turn {
        turn,
        at: 1_764_000_000_000 + turn * 250,
        events: vec![
            Event::AttemptStarted {
                node,
                path: path.clone(),
                number: 1,
                effect: Effect::Read,
                reserved: Usage::default(),
            },
            Event::AttemptFinished {
                node,
                number: 1,
                fate: Fate::Done,
                error: None,
                usage,
                meta: None,
            },
            Event::Settled {
                node,
                path,
                state: Settled::Succeeded,
                value: Some(Datum::Value(Val::new(value))),
                error: None,
                skip: None,
            },
        ],
    }
}

pub(crate) fn steps(from: u64, to: u64) -> Vec<Turn> {
    (from..=to)
        .map(|turn| {
            step(
                turn,
                &format!("step_{turn}"),
                json!({ "text": format!("value {turn}") }),
            )
        })
        .collect()
}

pub(crate) fn summary(run: &str, state: RunState) -> Summary {
    Summary {
        run: run.into(),
        flow: "triage".into(),
        graph: "graph".into(),
        state,
        created: 1_764_000_000_000,
        updated: 1_764_000_002_000,
        wake_at: None,
        usage: Usage::default(),
        output: None,
        error: None,
        start_key: None,
        forked_from: None,
        waits: Vec::new(),
        uncompensated: Vec::new(),
    }
}

pub(crate) fn commit(run: &str, create: bool, turns: Vec<Turn>) -> RunCommit {
    RunCommit {
        run: run.into(),
        owner: owner(),
        create,
        turns,
        summary: summary(run, RunState::Running),
        asked: Vec::new(),
        closed: Vec::new(),
        taken: Vec::new(),
    }
}

pub(crate) fn batch(commit: RunCommit) -> Batch {
    Batch { runs: vec![commit] }
}

/// Text that does not compress to nothing, the same for the same seed.
pub(crate) fn noise(seed: u64, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while text.len() < bytes {
        // xorshift64: any fixed sequence does.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{state:016x}"));
    }
    text.truncate(bytes);
    text
}
