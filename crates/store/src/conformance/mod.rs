//! What every store promises, as tests that any implementation runs.
//!
//! A [`Cluster`] is one new store that several processes may use; each function shows one fact of the port's
//! documentation on it and panics where the store breaks it. [`conformance_tests!`](crate::conformance_tests) makes a
//! test of each.

mod forking;
mod inbox;
mod listing;
mod owning;
mod racing;
mod retention;
mod writing;

use std::sync::Arc;

use ravel_core::effect::{Effect, Fate, Usage};
use ravel_core::event::{Event, SEMANTICS, Settled, Topic, Turn};
use ravel_core::port::{Question, RunState, Summary};
use ravel_core::port_store::{Batch, Error, Owner, RunCommit, Store};
use ravel_core::value::Val;
use serde_json::json;

pub use forking::*;
pub use inbox::*;
pub use listing::*;
pub use owning::*;
pub use racing::*;
pub use retention::*;
pub use writing::*;

/// One new, empty store and the processes on it.
pub trait Cluster: Sync {
    /// A process's handle. Dropping it is the death of the process.
    type Process: Store;
    /// Starts another process.
    fn process(&self) -> Self::Process;
}

/// Makes a test of every promise. Takes an expression that gives a new [`Cluster`].
#[macro_export]
macro_rules! conformance_tests {
    ($cluster:expr) => {
        $crate::conformance_tests! { @each $cluster;
            a_commit_is_read_back_whole_and_in_order
            values_of_every_shape_survive
            users_keys_that_look_like_references_survive
            big_values_survive
            deep_values_survive
            a_created_run_must_not_exist
            a_start_key_belongs_to_one_run
            a_start_key_outlives_its_run
            a_batch_creates_a_run_once
            turns_must_be_contiguous
            a_batch_is_all_or_nothing
            an_unknown_run_is_said
            bundles_are_kept_by_hash
            the_chain_depends_on_every_turn
            a_fork_continues_a_prefix
            forks_of_forks_share_prefixes
            a_fork_needs_its_turn
            a_fork_does_not_change_its_base
            an_old_epoch_is_fenced
            a_live_owner_keeps_its_runs
            a_dead_owners_runs_are_free_at_once
            a_released_run_is_free
            all_runs_are_released_at_once
            a_final_run_is_owned_by_nobody
            a_token_may_claim_again
            unowned_runs_with_something_to_do_are_listed
            the_next_wake_is_the_earliest_of_free_runs
            messages_come_in_order_to_the_owner
            a_reply_is_written_with_its_turns
            a_rejected_message_records_nothing
            the_first_reply_stays
            a_message_to_a_finished_run_is_rejected
            the_version_changes_with_messages
            runs_are_listed_newest_first
            filters_choose_runs
            a_summary_is_listed_as_given
            questions_are_replaced_and_closed
            retention_removes_what_is_over
            retention_keeps_prefixes_of_forks
            retention_keeps_the_newest
            a_dry_run_removes_nothing
            retention_keeps_shared_values
            retention_keeps_shared_bundles
            a_collected_run_is_gone_whole
            only_one_of_many_claims_wins
            only_one_of_many_creates_wins
            a_fork_and_retention_do_not_mix
            a_claim_and_retention_do_not_mix
            readers_see_whole_commits
            commits_of_many_processes_interleave
        }
    };
    (@each $cluster:expr; $($fact:ident)*) => {
        $(
            #[test]
            fn $fact() {
                $crate::conformance::$fact(&$cluster);
            }
        )*
    };
}

/// The owner of runs in these tests, under its first epoch.
fn owner(token: &str) -> Owner {
    Owner {
        token: token.into(),
        epoch: 1,
    }
}

/// A turn with what a step leaves in the log.
fn turn(number: u64, value: serde_json::Value) -> Turn {
    let path: Arc<str> = format!("step_{number}").into();
    let node = u32::try_from(number).expect("tests have few turns");
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        ..Usage::default()
    };
    Turn {
        turn: number,
        at: 1_000 + number,
        events: vec![
            Event::AttemptStarted {
                node,
                path: path.clone(),
                number: 1,
                effect: Effect::Once,
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
                value: Some(ravel_core::event::Datum::Value(Val::new(value))),
                error: None,
                skip: None,
            },
        ],
    }
}

/// The first turn of a run.
fn start(run: &str, graph: &str) -> Turn {
    Turn {
        turn: 1,
        at: 1_000,
        events: vec![Event::RunStarted {
            semantics: SEMANTICS,
            run: run.into(),
            graph: graph.into(),
            input: Val::new(json!({ "x": 1 })),
            terms: Val::null(),
        }],
    }
}

/// Turns `from..=to`, each with a small value.
fn turns(from: u64, to: u64) -> Vec<Turn> {
    (from..=to)
        .map(|number| turn(number, json!({ "text": format!("value {number}") })))
        .collect()
}

fn summary(run: &str, state: RunState) -> Summary {
    Summary {
        run: run.into(),
        flow: "triage".into(),
        graph: "graph".into(),
        state,
        created: 1_000,
        updated: 2_000,
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

/// The first commit of a run, with turns `1..=last`.
fn create(run: &str, token: &str, last: u64) -> RunCommit {
    RunCommit {
        run: run.into(),
        owner: owner(token),
        create: true,
        turns: turns(1, last),
        summary: summary(run, RunState::Running),
        asked: Vec::new(),
        closed: Vec::new(),
        taken: Vec::new(),
    }
}

/// A later commit of a run.
fn append(run: &str, owner: &Owner, turns: Vec<Turn>) -> RunCommit {
    RunCommit {
        run: run.into(),
        owner: owner.clone(),
        create: false,
        turns,
        summary: summary(run, RunState::Running),
        asked: Vec::new(),
        closed: Vec::new(),
        taken: Vec::new(),
    }
}

/// The first commit of a fork, with turns up to `last` of its own.
fn fork(run: &str, token: &str, base: (&str, u64), last: u64) -> RunCommit {
    let mut commit = create(run, token, 0);
    commit.turns = turns(base.1 + 1, last);
    commit.summary.forked_from = Some((base.0.into(), base.1));
    commit
}

/// The same commit, after which the run is in this state.
fn ending(mut commit: RunCommit, state: RunState) -> RunCommit {
    commit.summary.state = state;
    commit
}

fn batch(runs: impl Into<Vec<RunCommit>>) -> Batch {
    Batch { runs: runs.into() }
}

/// Commits one run's turns.
#[track_caller]
fn write(store: &impl Store, commit: RunCommit) {
    store
        .commit(&batch([commit]))
        .expect("the commit is in order");
}

fn question(id: &str, run: &str, asked: u64) -> Question {
    Question {
        id: id.into(),
        run: run.into(),
        path: "approve".into(),
        topic: Topic::Human,
        ask: "Refund?".into(),
        form: Val::new(json!({ "type": "object", "properties": { "ok": { "type": "boolean" } } })),
        to: Some("ops".into()),
        asked,
        until: Some(asked + 60_000),
    }
}

/// What an error is, for comparing: its text says run and turns.
fn said<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.expect_err("this must be refused").to_string()
}
