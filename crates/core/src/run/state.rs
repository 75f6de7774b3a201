//! The state of a run: a fold over its events.
//!
//! Everything a run knows is here, and everything here follows from the log. Fields that can be derived from others
//! (counters of unsettled children, timers) are kept up to date by [`apply`](super::apply) alone.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

use super::terms::SharedTerms;
use crate::effect::{Effect, Failure, Millis, Usage};
use crate::event::{Node, Settled, Skip, Stop, Topic};
use crate::graph::{FlowId, Graph, StepId};
use crate::value::Val;

/// Parent of the root.
pub(super) const NOBODY: Node = Node::MAX;

/// Adds `/` and a segment; nothing stands before the first one.
fn push_segment(out: &mut String, segment: &str) {
    if !out.is_empty() {
        out.push('/');
    }
    out.push_str(segment);
}

/// Adds a number between two texts. Paths are made for every activation, and `write!` costs more than the rest of it.
fn push_number(out: &mut String, before: &str, number: u32, after: &str) {
    let mut digits = [b'0'; 10];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.push_str(before);
    out.extend(digits[at..].iter().map(|digit| char::from(*digit)));
    out.push_str(after);
}

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
pub(super) struct Made(OnceCell<Arc<str>>);

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

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The attempt's timeout.
    Timeout,
    /// A stopped attempt that does not end.
    Grace,
    /// The pause before a retry.
    Retry,
    /// A `wait`.
    Wait,
    /// A question's deadline.
    Question,
    /// The step's or flow's deadline.
    Deadline,
    /// Active time of a budget.
    Budget,
}

/// An open question.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) node: Node,
    pub(super) topic: Topic,
    pub(super) ask: Arc<str>,
    pub(super) form: Val,
    pub(super) to: Option<Arc<str>>,
    pub(super) asked: Millis,
    pub(super) until: Option<Millis>,
    pub(super) level: u32,
}

/// An effect that can be compensated.
#[derive(Clone, Debug)]
pub(super) struct Armed {
    pub(super) node: Node,
    pub(super) request: Val,
    /// The effect belongs to the run this one was forked from.
    pub(super) inherited: bool,
    pub(super) progress: Undo,
}

/// How far a compensation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    /// Not needed so far.
    Standing,
    /// Under way.
    Running,
    /// Compensated.
    Done,
    /// Given up by a person.
    GivenUp,
}

/// A message in an inbox.
#[derive(Clone, Debug)]
pub(super) struct Mail {
    pub(super) value: Val,
}

/// The fold.
#[derive(Debug)]
pub(super) struct State {
    pub(super) id: Arc<str>,
    pub(super) graph: Arc<Graph>,
    pub(super) version: u32,
    pub(super) terms: SharedTerms,
    pub(super) turn: u64,
    pub(super) now: Millis,
    /// Time of the turn before.
    pub(super) before: Millis,
    pub(super) created: Millis,
    pub(super) nodes: Vec<Activation>,
    pub(super) timers: BTreeSet<(Millis, Node, Timer)>,
    pub(super) questions: IndexMap<Arc<str>, Open>,
    /// Waits for a signal in the order in which they began, per inbox.
    pub(super) waiting: BTreeMap<Arc<str>, VecDeque<Node>>,
    pub(super) inbox: BTreeMap<Arc<str>, VecDeque<Mail>>,
    pub(super) seen_signals: BTreeSet<(Arc<str>, Arc<str>)>,
    pub(super) armed: Vec<Armed>,
    /// Leaves with an attempt under way.
    pub(super) flights: BTreeSet<Node>,
    /// Leaves that are open without an attempt, a pause or a question: they wish for permits or budget.
    pub(super) queued: BTreeSet<Node>,
    /// Each `for_each` whose producer is still at work.
    pub(super) streams: BTreeSet<Node>,
    /// Steps that may not begin before the item above them is final.
    pub(super) kept_back: BTreeSet<Node>,
    /// A `for_each` took items ahead at some time: until then nobody looks for provisional items.
    pub(super) took_ahead: bool,
    pub(super) usage: Usage,
    pub(super) forked_from: Option<(Arc<str>, u64)>,
    /// What the decider has to look at before the turn ends. Empty between turns.
    pub(super) agenda: VecDeque<Task>,
}

/// Something to look at within a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// The dependencies of a pending activation changed.
    Decide(Node),
    /// A child of an activation settled.
    Child { parent: Node, child: Node },
    /// A scope or a stopped leaf may be able to take its next step.
    Conclude(Node),
    /// An item of a stream was taken back.
    Stale(Node),
    /// Budget was given back: leaves that wait for it may start.
    Budget,
    /// Mail arrived in, or a wait began on, this inbox's owner.
    Mail,
}

impl State {
    pub(super) fn new(id: Arc<str>, graph: Arc<Graph>, terms: SharedTerms) -> Self {
        Self {
            id,
            graph,
            version: 1,
            terms,
            turn: 0,
            now: 0,
            before: 0,
            created: 0,
            nodes: Vec::new(),
            timers: BTreeSet::new(),
            questions: IndexMap::new(),
            waiting: BTreeMap::new(),
            inbox: BTreeMap::new(),
            seen_signals: BTreeSet::new(),
            armed: Vec::new(),
            flights: BTreeSet::new(),
            queued: BTreeSet::new(),
            streams: BTreeSet::new(),
            kept_back: BTreeSet::new(),
            took_ahead: false,
            usage: Usage::default(),
            forked_from: None,
            agenda: VecDeque::new(),
        }
    }

    pub(super) fn node(&self, node: Node) -> &Activation {
        &self.nodes[node as usize]
    }

    pub(super) fn node_mut(&mut self, node: Node) -> &mut Activation {
        &mut self.nodes[node as usize]
    }

    /// The extra of a node, made when it has none.
    pub(super) fn extra(&mut self, node: Node) -> &mut Extra {
        self.nodes[node as usize]
            .extra
            .get_or_insert_with(Box::default)
    }

    /// The nearest flow at or above a node: the root or a `flow:` step.
    pub(super) fn flow_of(&self, node: Node) -> Node {
        let mut at = node;
        while !self.is_flow(at) {
            at = self.around(at);
        }
        at
    }

    /// What is around an activation where it is written. The handlers, gates and the like of a call stand beside the
    /// call, not in the flow that it calls.
    pub(super) fn around(&self, node: Node) -> Node {
        let activation = self.node(node);
        let parent = activation.parent;
        let belongs_to_call = parent != NOBODY
            && !matches!(activation.slot, Slot::Main | Slot::Stale)
            && self.node(parent).role == Role::Step
            && self.is_flow(parent);
        if belongs_to_call {
            self.node(parent).parent
        } else {
            parent
        }
    }

    pub(super) fn is_flow(&self, node: Node) -> bool {
        let activation = self.node(node);
        match activation.role {
            Role::Root(_) => true,
            Role::Step => matches!(
                self.graph.step(activation.step).kind,
                crate::graph::Kind::Flow(_)
            ),
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => false,
        }
    }

    /// The activation's path: stable, and the same after every replay.
    pub(super) fn path(&self, node: Node) -> Arc<str> {
        let made = || {
            let mut text = String::new();
            self.push_path(node, &mut text);
            text.into()
        };
        self.node(node).path.0.get_or_init(made).clone()
    }

    fn push_path(&self, node: Node, out: &mut String) {
        let activation = self.node(node);
        if activation.parent == NOBODY {
            return;
        }
        match self.node(activation.parent).path.0.get() {
            Some(path) => out.push_str(path),
            None => self.push_path(activation.parent, out),
        }
        if activation.again > 0 {
            push_number(out, "~", activation.again + 1, "");
        }
        match (activation.role, activation.slot) {
            (Role::Item(index), _) => {
                match self.item_key(node) {
                    Some(key) => out.extend(["[", key, "]"]),
                    None => push_number(out, "[", index, "]"),
                }
                let revision = self.revision(node);
                if revision > 0 {
                    push_number(out, "~", revision + 1, "");
                }
            }
            (Role::Round(index), _) => push_number(out, "[", index, "]"),
            (Role::Handler(index), _) => {
                push_segment(out, "catch");
                push_number(out, "[", index, "]");
            }
            (Role::Finally, _) => push_segment(out, "finally"),
            (_, Slot::Gate(index)) => push_number(out, "/gate[", index, "]"),
            (_, Slot::Check(attempt)) => push_number(out, "/check[", attempt, "]"),
            (_, Slot::Compensation) => out.push_str("/compensate"),
            (Role::Root(_) | Role::Step, _) => {
                push_segment(out, &self.graph.step(activation.step).name);
            }
        }
    }

    pub(super) fn settled(&self, node: Node) -> Option<Settled> {
        match self.node(node).phase {
            Phase::Settled(state) => Some(state),
            Phase::Pending | Phase::Open => None,
        }
    }

    /// The main children of the present activation of a node's body.
    pub(super) fn main_children(&self, node: Node) -> Children {
        let activation = self.node(node);
        match &activation.extra {
            Some(extra) if !extra.listed_kids.is_empty() => {
                Children::Listed(extra.listed_kids.clone().into_iter())
            }
            _ => Children::Range(activation.kids.0..activation.kids.0 + activation.kids.1),
        }
    }

    /// The child at a position of the body.
    pub(super) fn kid(&self, node: Node, position: u32) -> Node {
        let activation = self.node(node);
        match &activation.extra {
            Some(extra) if !extra.listed_kids.is_empty() => extra.listed_kids[position as usize],
            _ => activation.kids.0 + position,
        }
    }

    /// True for the node itself and everything below it.
    pub(super) fn is_below(&self, node: Node, scope: Node) -> bool {
        let mut at = node;
        loop {
            if at == scope {
                return true;
            }
            if at == NOBODY || at == 0 {
                return false;
            }
            at = self.node(at).parent;
        }
    }
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
