//! Events, turns, inputs and commands: what the run state machine takes, records and asks for.
//!
//! An *input* is what arrived, an *event* is a past fact in the log, a *command* is what to do. Events carry
//! decisions **and values**: folding them evaluates no expression and asks no policy, so an old log replays under a
//! newer engine. Events of one input form a [`Turn`], which is atomic everywhere.

mod command;
mod wait;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use command::Command;
pub use wait::Wait;

use crate::effect::{Effect, Failure, Fate, Millis, Outcome, Usage};
use crate::value::Val;

/// The version of the semantics that a log was written under. A reader refuses a newer one by name.
pub const SEMANTICS: u32 = 1;

/// Number of an activation in its run: dense, in order of creation, the same after every replay. 0 is the flow.
pub type Node = u32;

/// One try of a leaf's activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The activation.
    pub node: Node,
    /// 1-based, counted over retries, repairs and fallbacks of the activation.
    pub number: u32,
}

/// A value in an event: itself, or where in the run it already is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Datum {
    /// The value.
    Value(Val),
    /// A value (or a part of it, by keys and indexes) that an earlier event carried.
    Ref {
        /// Whose value.
        node: Node,
        /// Which of its values.
        #[serde(default, skip_serializing_if = "Slot::is_value")]
        slot: Slot,
        /// Keys and indexes into it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        at: Vec<Arc<str>>,
    },
    /// The values of the successful items of a `for_each`, in input order.
    Items {
        /// The `for_each`.
        node: Node,
    },
}

/// Which value of a node a [`Datum::Ref`] means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// The value that it settled with.
    #[default]
    Value,
    /// The input of a flow or the arguments of a call.
    Input,
    /// The item of a `for_each` iteration, the carry of a `repeat` round.
    Item,
    /// The value that its gates looked at.
    Candidate,
    /// The value that a `return` gave a flow.
    Returned,
}

impl Slot {
    const fn is_value(&self) -> bool {
        matches!(self, Self::Value)
    }
}

/// The final state of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are the glossary's")]
pub enum Settled {
    Succeeded,
    Failed,
    Skipped,
    Cancelled,
}

impl Settled {
    /// The word that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why an activation was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// `when` was false.
    When,
    /// It reads the value of a step that has none.
    Uses(Arc<str>),
    /// A step that it depends on failed.
    UpstreamFailed(Arc<str>),
    /// `join: failed` and nothing failed.
    NothingFailed,
    /// Its scope was failing, returned, or was cut short before it began.
    ScopeEnded,
}

/// What an open question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// A `human` step.
    Human,
    /// A `once` that may or may not have happened.
    Uncertain,
    /// A compensation that does not succeed.
    Compensation,
}

/// Why an attempt is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Its `timeout` passed.
    Timeout,
    /// A `deadline` of the step or of a scope around it passed.
    Deadline,
    /// It was cancelled: by a person, by a failing scope, by a race or a join that is decided.
    Cancelled,
    /// Active time of a budget is used up.
    Budget,
    /// A `return` gave the flow its value: what is left is cut short and nothing is compensated.
    Returned,
}

/// A past fact. The order of variants is the order in which a run meets them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run began. Always the first event of a log that is not a fork.
    RunStarted {
        /// [`SEMANTICS`] of the writer.
        semantics: u32,
        /// The run's id.
        run: Arc<str>,
        /// Hash of the graph.
        graph: Arc<str>,
        /// The input, defaults filled in.
        input: Val,
        /// Limits and prices that the run was started under.
        terms: Val,
    },
    /// This log continues a prefix of another run's.
    Forked {
        /// The new run's id.
        run: Arc<str>,
        /// The run it came from.
        from: Arc<str>,
        /// The last turn of the prefix.
        turn: u64,
    },
    /// An activation left `pending`: its joins are met, its `when` is true. Scopes: its children exist from here on.
    Opened {
        /// Which.
        node: Node,
        /// Its path.
        path: Arc<str>,
        /// What its kind needs to open: items, carry, the chosen case, a flow's input. Absent for a plain body, and
        /// for a `for_each` whose producer is still at work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        with: Option<Datum>,
        /// `for_each`: the items' keys when they have any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<Arc<str>>>,
        /// `switch`: the position of the chosen case (`cases.len()` = `else`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        case: Option<u32>,
    },
    /// An attempt streamed items of a field of the value that it is making.
    Streamed {
        /// The producer.
        node: Node,
        /// The field of its value.
        field: Arc<str>,
        /// The items, in order.
        items: Vec<Val>,
    },
    /// A `for_each` takes what its producer has streamed so far: provisional items, activated ahead.
    ItemsTaken {
        /// The `for_each`.
        node: Node,
        /// Which items it activates, by index. At the others it has the same items already.
        at: Vec<u32>,
        /// Keys of these items when they have any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<Arc<str>>>,
    },
    /// The producer of a stream succeeded: the items of its value are the ones that count. Activations of the same
    /// items go on, the others are stale.
    StreamEnded {
        /// The `for_each`.
        node: Node,
        /// All items.
        with: Datum,
        /// Which items it activates now, by index: new ones, and in place of stale ones.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        at: Vec<u32>,
        /// Keys of these items when they have any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<Arc<str>>>,
    },
    /// A `repeat` goes on to its next round.
    RoundStarted {
        /// The `repeat`.
        node: Node,
        /// The carry of the new round.
        carry: Datum,
    },
    /// A leaf's attempt may leave.
    AttemptStarted {
        /// Which activation.
        node: Node,
        /// Its path.
        path: Arc<str>,
        /// 1-based.
        number: u32,
        /// The class it leaves under.
        effect: Effect,
        /// Reserved for it (zero when not metered).
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        reserved: Usage,
    },
    /// An attempt is being stopped; its end is still to come.
    AttemptStopping {
        /// Which activation.
        node: Node,
        /// Why.
        why: Stop,
    },
    /// An attempt ended.
    AttemptFinished {
        /// Which activation.
        node: Node,
        /// Which attempt.
        number: u32,
        /// What is known about its effect.
        fate: Fate,
        /// Its failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
        /// What it used, as booked: a lost attempt is booked at its reservation.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
        /// How it was carried out ([`Outcome::meta`]).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<Val>,
    },
    /// A value is there and asynchronous gates look at it; `settled` refers to it by [`Slot::Candidate`].
    Produced {
        /// Whose value.
        node: Node,
        /// The value.
        value: Datum,
    },
    /// The next attempt comes after a pause.
    RetryScheduled {
        /// Which activation.
        node: Node,
        /// When.
        at: Millis,
        /// Why the last one did not do.
        error: Failure,
    },
    /// A gate that is a leaf of its own (`run`, `judge`) began.
    GateStarted {
        /// Whose value.
        node: Node,
        /// Position in `gates`.
        gate: u32,
    },
    /// The `check` of an uncertain effect began.
    CheckStarted {
        /// Whose effect.
        node: Node,
    },
    /// A gate looked at a value.
    GateJudged {
        /// Whose value.
        node: Node,
        /// Position in `gates`; the contract (`returns`) is not a gate and fails as `invalid_output`.
        gate: u32,
        /// The verdict.
        pass: bool,
        /// What a judge or a failing gate said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<Val>,
    },
    /// The step is tried again with what is known now (`last`).
    RepairStarted {
        /// Which.
        node: Node,
        /// 1-based.
        round: u32,
        /// The failure that led here.
        error: Failure,
        /// The value that did not do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Val>,
    },
    /// The step goes on with its next fallback.
    FallbackStarted {
        /// Which.
        node: Node,
        /// Position in `fallback`.
        index: u32,
        /// The failure that led here.
        error: Failure,
    },
    /// A `catch` entry took the failure.
    Caught {
        /// Whose.
        node: Node,
        /// Position in `catch`.
        index: u32,
        /// The failure.
        error: Failure,
    },
    /// A timer of a `wait` runs.
    WaitStarted {
        /// Which.
        node: Node,
        /// Until when; absent = a signal without a deadline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Millis>,
        /// The inbox it waits on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<Arc<str>>,
    },
    /// A person is asked. `level` > 0: an escalation of the same question (same id).
    Asked {
        /// Which activation.
        node: Node,
        /// Its path.
        path: Arc<str>,
        /// The question's stable id.
        question: Arc<str>,
        /// What it is about.
        topic: Topic,
        /// The text.
        ask: Arc<str>,
        /// The answer's type, as JSON Schema.
        form: Val,
        /// Who should answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Arc<str>>,
        /// Until when.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Millis>,
        /// Rung of the escalation.
        #[serde(default)]
        level: u32,
    },
    /// A person answered, or the deadline did.
    Answered {
        /// The question.
        question: Arc<str>,
        /// The activation.
        node: Node,
        /// The answer.
        value: Val,
        /// Who (a name the surface knows); absent = `on_deadline`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A message arrived in an inbox.
    SignalReceived {
        /// The inbox.
        name: Arc<str>,
        /// The message.
        value: Val,
        /// The sender's id for it: a second one with the same id is dropped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Arc<str>>,
    },
    /// The oldest matching wait took the oldest message.
    SignalTaken {
        /// The wait.
        node: Node,
        /// The inbox.
        name: Arc<str>,
    },
    /// A scope will fail: one of its children failed and nothing absorbs it.
    Failing {
        /// The scope.
        node: Node,
        /// The failure.
        error: Failure,
    },
    /// A scope is being cut short: cancelled, or decided (`return`, race, join).
    Stopping {
        /// The activation.
        node: Node,
        /// Why.
        why: Stop,
    },
    /// A `return` step gave the flow its value.
    Returned {
        /// The flow's activation.
        node: Node,
        /// The value.
        value: Datum,
    },
    /// `finally` of a scope began.
    FinallyStarted {
        /// The scope.
        node: Node,
    },
    /// A done (or uncertain) effect can be compensated; its arguments are fixed here.
    Armed {
        /// Whose effect.
        node: Node,
        /// The request of the compensation.
        request: Val,
    },
    /// Compensation of one effect began.
    CompensationStarted {
        /// Whose effect.
        node: Node,
    },
    /// Compensation of one effect ended.
    CompensationFinished {
        /// Whose effect.
        node: Node,
        /// False: given up by a person; the effect stands.
        done: bool,
    },
    /// The run works under another graph from here on.
    GraphEdited {
        /// 1-based version of the run's graph.
        version: u32,
        /// Hash of the new graph.
        graph: Arc<str>,
        /// Who and why, as given.
        note: Val,
    },
    /// Somebody asked to cancel the run (`node` 0) or one activation.
    CancelRequested {
        /// What.
        node: Node,
        /// Who.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// Why, as given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// Another owner took the run over; attempts that were under way are lost.
    Recovered {
        /// The new owner's epoch.
        epoch: u64,
    },
    /// An activation reached its final state. Never followed by another event of the same activation but
    /// compensation.
    Settled {
        /// Which.
        node: Node,
        /// Its path.
        path: Arc<str>,
        /// The state.
        state: Settled,
        /// The value of a success.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Datum>,
        /// The error of a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
        /// Why it was skipped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skip: Option<Skip>,
    },
}

/// The events that one input caused: atomic on disk, in the hash chain, in replay and in forks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// 1-based, contiguous within a run.
    pub turn: u64,
    /// When: max(clock, time of the last turn).
    pub at: Millis,
    /// What happened.
    pub events: Vec<Event>,
}

/// What arrived.
#[derive(Clone, Debug)]
pub enum Input {
    /// Begin. Once, first.
    Start {
        /// The input, checked against the flow's type here.
        input: Val,
    },
    /// An attempt ended.
    Finished {
        /// Which.
        attempt: Attempt,
        /// How.
        outcome: Outcome,
    },
    /// An attempt streamed items of a field of its value.
    Chunk {
        /// Which.
        attempt: Attempt,
        /// The field.
        field: Arc<str>,
        /// The items since the last chunk.
        items: Vec<Val>,
    },
    /// All permits of an [`Command::Acquire`] were granted.
    Granted {
        /// For whom.
        attempt: Attempt,
    },
    /// The permits will never be granted.
    Denied {
        /// For whom.
        attempt: Attempt,
        /// Why.
        failure: Failure,
    },
    /// Time passed: all timers that are due at `now` fire.
    Tick,
    /// A message for an inbox.
    Signal {
        /// The inbox.
        name: Arc<str>,
        /// The message, held to the inbox's type.
        value: Val,
        /// The sender's id, for deduplication.
        id: Option<Arc<str>>,
    },
    /// An answer to an open question, held to its form.
    Answer {
        /// The question's id.
        question: Arc<str>,
        /// The answer.
        value: Val,
        /// Who answers.
        by: Option<Arc<str>>,
    },
    /// Another graph for the rest of the run.
    Edit {
        /// The version of the run's graph that the edit was made from.
        base: u32,
        /// The new graph, whole and checked.
        graph: Arc<crate::graph::Graph>,
        /// Who and why.
        note: Val,
    },
    /// Cancel the run (`None`) or one activation by path.
    Cancel {
        /// Path of the activation.
        path: Option<Arc<str>>,
        /// Who.
        by: Option<Arc<str>>,
        /// Why, for the log.
        reason: Option<Arc<str>>,
    },
    /// A new owner took the run over after the log was folded.
    Recovered {
        /// Its epoch.
        epoch: u64,
    },
}

/// Why the machine refused an input: nothing was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Reject {
    /// A stable code for surfaces (`unknown_question`, `invalid_answer`, `already_settled`, …).
    pub code: &'static str,
    /// One sentence.
    pub message: String,
}
