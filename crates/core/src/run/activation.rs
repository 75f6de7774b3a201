//! Activations: one time that a step is to run, and what is kept of it. A part of the [state](super::state).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::effect::{Effect, Failure, Millis, Usage};
use crate::event::{Node, Settled, Skip, Stop};
use crate::graph::{FlowId, StepId};
use crate::value::Val;

/// What an activation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The run's flow: node 0.
    Root(FlowId),
    /// A step, hidden ones included. Its definition is [`Activation::step`].
    Step,
    /// The i-th item of a `for_each`.
    Item(u32),
    /// The i-th round of a `repeat`.
    Round(u32),
    /// The handler of a `catch` entry.
    Handler(u32),
    /// `finally` of a scope.
    Finally,
}

/// Where a hidden activation hangs on its owner; main children count in the owner's `live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A child of the body, an item, a round, the chosen case.
    Main,
    /// An item that its producer took back: it is being stopped and counts for nothing but its end.
    Stale,
    /// The i-th gate.
    Gate(u32),
    /// The check of an uncertain effect, by the attempt it is about.
    Check(u32),
    /// A `catch` handler.
    Handler,
    /// `finally`.
    Finally,
    /// The compensation of the owner's effect.
    Compensation,
}

/// How far an activation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for its dependencies.
    Pending,
    /// Open: a leaf that wants to start or is under way, a scope with children.
    Open,
    /// Settled, and never changes again.
    Settled(Settled),
}

/// A path that was made once. It follows from the rest of the state, so it is no part of it: two states are equal
/// whether or not somebody asked for their paths.
#[derive(Default)]
pub(super) struct Made(pub(super) OnceCell<Arc<str>>);

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// One activation.
#[derive(Debug)]
pub(super) struct Activation {
    pub(super) parent: Node,
    pub(super) role: Role,
    pub(super) slot: Slot,
    /// The step's present definition (a fallback replaces it). For items, rounds, handlers and `finally`: the
    /// step that owns them. Unused for the root.
    pub(super) step: StepId,
    /// Position among the body's steps.
    pub(super) position: u32,
    /// Which activation of its parent it belongs to: 0, then one more for each repair and fallback.
    pub(super) again: u32,
    pub(super) phase: Phase,
    /// Dependencies that are not settled yet.
    pub(super) unmet: u32,
    /// First main child and how many: bodies and items are contiguous.
    pub(super) kids: (Node, u32),
    /// Main children that are not settled yet.
    pub(super) live: u32,
    /// When it left `pending` and when it settled; 0 = not yet.
    pub(super) began: Millis,
    pub(super) ended: Millis,
    /// The value of a success.
    pub(super) value: Option<Val>,
    /// Its path, once somebody asked.
    pub(super) path: Made,
    /// What only some activations have.
    pub(super) extra: Option<Box<Extra>>,
}

/// The parts of an activation that most never need.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// The definition as written, when a fallback replaced [`Activation::step`].
    pub(super) written: Option<StepId>,
    /// Fallbacks used.
    pub(super) fallbacks: u32,
    /// Repair rounds used (over all fallbacks).
    pub(super) repairs: u32,
    /// Activations of the scope's body, or rounds of the leaf: repairs and fallbacks alike. 0 = the first.
    pub(super) again: u32,
    /// What the repair or fallback may look at.
    pub(super) last: Option<Last>,
    /// `input` of a flow, `carry` of a round.
    pub(super) input: Option<Val>,
    /// Children in the order of the body or of the items, once an edit or a stream made them other than contiguous.
    pub(super) listed_kids: Vec<Node>,
    /// Items of a `for_each` that was opened, keys of them.
    pub(super) items: Vec<Val>,
    pub(super) keys: Vec<Arc<str>>,
    /// Items not opened yet begin here.
    pub(super) next_item: u32,
    /// Items from `next_item` on that settled before their turn came: somebody cancelled them.
    pub(super) passed_items: u32,
    /// Settled children that failed (for_each, race) and that succeeded (joins of this activation).
    pub(super) failed_kids: u32,
    pub(super) joined: u32,
    /// Rounds of a `repeat` (they are not contiguous), in order.
    pub(super) rounds: Vec<Node>,
    /// Chosen case.
    pub(super) case: Option<u32>,
    /// First successful child of a race.
    pub(super) winner: Option<Node>,
    /// The hidden activation under way: gate, check, handler, finally, compensation.
    pub(super) aux: Option<Node>,
    /// `finally` ran.
    pub(super) finally_done: bool,
    /// The handler of this `catch` entry is at work, and the failure that it handles.
    pub(super) caught: Option<(u32, Failure)>,
    /// The value that the gates look at, and how many of them passed.
    pub(super) candidate: Option<Val>,
    pub(super) gates_passed: u32,
    /// The value a `return` gave.
    pub(super) returned: Option<Val>,
    /// The scope is failing with this.
    pub(super) failing: Option<Failure>,
    /// The activation is being cut short.
    pub(super) stopping: Option<Stop>,
    /// Error of a failure, after settling.
    pub(super) error: Option<Failure>,
    /// Why it was skipped.
    pub(super) skip: Option<Skip>,
    /// Leaf: the attempt under way.
    pub(super) flight: Option<Flight>,
    /// Leaf: attempts started in all, and in this round.
    pub(super) attempts: u32,
    pub(super) tries: u32,
    /// Leaf: next attempt not before.
    pub(super) retry_at: Option<Millis>,
    /// Leaf: a failure whose effect is not known and that is asked about or checked.
    pub(super) uncertain: Option<Failure>,
    /// Leaf: wait until, inbox.
    pub(super) wait_until: Option<Millis>,
    pub(super) wait_signal: Option<Arc<str>>,
    /// Leaf: the message that a `wait` took.
    pub(super) message: Option<Val>,
    /// The open question.
    pub(super) question: Option<Arc<str>>,
    /// `deadline` of the step, absolute.
    pub(super) deadline: Option<Millis>,
    /// Booked and open reservations at or below this activation, when it has a budget; for leaves what they used.
    pub(super) spent: Usage,
    pub(super) reserved: Usage,
    /// Active time for `budget.time`: closed spans, attempts under way, begin of the present span.
    pub(super) active_ms: Millis,
    pub(super) active: u32,
    pub(super) active_since: Millis,
    /// What the attempt under way, or the last one, streamed, by field.
    pub(super) streamed: IndexMap<Arc<str>, Vec<Val>>,
    /// A `for_each` that took items while they were produced.
    pub(super) intake: Option<Box<Intake>>,
    /// An item that was taken so.
    pub(super) taken: Option<Box<Taken>>,
}

/// How a `for_each` takes items from a producer that is still at work.
///
/// ```text
/// Open --producer succeeded--> Whole    the items are final
///   | it fails or is cut short
///   v
/// Cut                                   no item ever became final
/// ```
#[derive(Debug, Default)]
pub(super) struct Intake {
    pub(super) phase: Flow,
    /// The producer's attempt that items were last taken from, and how many of its items.
    pub(super) attempt: u32,
    pub(super) seen: u32,
    /// Indexes of items that are not opened yet.
    pub(super) unopened: BTreeSet<u32>,
    /// Keys in use; for a text that came more than once, how often.
    pub(super) keys: BTreeMap<Arc<str>, u32>,
}

/// How far the intake of a stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flow {
    #[default]
    Open,
    Whole,
    Cut,
}

/// An item of a stream.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) value: Val,
    pub(super) key: Option<Arc<str>>,
    /// How many items stood at its index before it.
    pub(super) revision: u32,
    /// Steps below it that wait until the item is final.
    pub(super) kept_back: Vec<Node>,
}

/// Main children: contiguous, unless an edit or a stream made them.
pub(super) enum Children {
    Range(std::ops::Range<Node>),
    Listed(std::vec::IntoIter<Node>),
}

impl Iterator for Children {
    type Item = Node;

    fn next(&mut self) -> Option<Node> {
        match self {
            Self::Range(range) => range.next(),
            Self::Listed(list) => list.next(),
        }
    }
}

/// What a repair or a fallback knows of the try before.
#[derive(Clone, Debug, Default)]
pub(super) struct Last {
    pub(super) output: Option<Val>,
    pub(super) error: Option<Failure>,
    pub(super) verdict: Option<Val>,
}

/// An attempt under way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) number: u32,
    pub(super) effect: Effect,
    pub(super) started: Millis,
    /// The turn that started it.
    pub(super) turn: u64,
    /// When the engine stops it.
    pub(super) until: Millis,
    pub(super) reserved: Usage,
    /// It is being stopped, since when and why.
    pub(super) stopping: Option<(Stop, Millis)>,
}

impl Activation {
    pub(super) fn new(parent: Node, role: Role, slot: Slot, step: StepId, position: u32) -> Self {
        Self {
            parent,
            role,
            slot,
            step,
            position,
            again: 0,
            phase: Phase::Pending,
            unmet: 0,
            kids: (0, 0),
            live: 0,
            began: 0,
            ended: 0,
            value: None,
            path: Made::default(),
            extra: None,
        }
    }
}

impl Last {
    pub(super) fn from_failure(error: &Failure, output: Option<Val>) -> Self {
        let verdict = error.data.clone();
        Self {
            output,
            error: Some(error.clone()),
            verdict,
        }
    }
}
