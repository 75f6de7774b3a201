//! The state of a run: a fold over its events.
//!
//! Everything a run knows is here, and everything here follows from the log. Fields that can be derived from others
//! (counters of unsettled children, timers) are kept up to date by [`apply`](super::apply) alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use indexmap::IndexMap;

pub(super) use super::activation::{
    Activation, Children, Extra, Flight, Flow, Intake, Last, Phase, Role, Slot, Taken,
};
use super::terms::SharedTerms;
use crate::effect::{Millis, Usage};
use crate::event::{Node, Settled, Topic};
use crate::graph::Graph;
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
