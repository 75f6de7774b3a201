//! What all stores check or say in the same way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ravel_core::event::{Event, Turn};
use ravel_core::port_store::{Error, Reply, RunCommit};

/// The reply to a message for a run that has ended.
pub(crate) fn run_over() -> Reply {
    Reply::Rejected {
        code: "run_over".into(),
        message: "the run is over".into(),
    }
}

/// Refuses turns that do not follow each other from `expected` on.
pub(crate) fn contiguous(commit: &RunCommit, expected: u64) -> Result<(), Error> {
    for (turn, expected) in commit.turns.iter().zip(expected..) {
        if turn.turn != expected {
            return Err(Error::Gap {
                run: commit.run.clone(),
                expected,
                got: turn.turn,
            });
        }
    }
    Ok(())
}

/// Hashes of the graphs that turns refer to.
pub(crate) fn graphs(turns: &[Turn]) -> impl Iterator<Item = Arc<str>> + '_ {
    turns
        .iter()
        .flat_map(|turn| &turn.events)
        .filter_map(|event| {
            if let Event::RunStarted { graph, .. } | Event::GraphEdited { graph, .. } = event {
                Some(graph.clone())
            } else {
                None
            }
        })
}

/// The run that a batch creates twice, or under one start key.
pub(crate) fn created_twice(runs: &[RunCommit]) -> Option<Arc<str>> {
    let mut ids = HashSet::with_capacity(runs.len());
    let mut keys: HashMap<&str, &Arc<str>> = HashMap::new();
    for commit in runs.iter().filter(|commit| commit.create) {
        if !ids.insert(&*commit.run) {
            return Some(commit.run.clone());
        }
        let key = commit.summary.start_key.as_deref();
        if let Some(first) = key.and_then(|key| keys.insert(key, &commit.run)) {
            return Some(first.clone());
        }
    }
    None
}
