//! Growing the tree of activations: bodies, items, rounds, hidden activations.

use std::sync::Arc;

use crate::event::{Datum, Node};
use crate::graph::{BodyId, Items, Kind, StepId};
use crate::run::apply::stream::items_of;
use crate::run::state::{Activation, Phase, Role, Slot, State, Task, Timer};
use crate::value::Val;

impl State {
    pub(in crate::run) fn opened(
        &mut self,
        node: Node,
        with: Option<&Datum>,
        keys: Option<&[Arc<str>]>,
        case: Option<u32>,
    ) {
        let now = self.now;
        let value = with.map(|datum| self.resolve(datum));
        let activation = self.node_mut(node);
        activation.phase = Phase::Open;
        if activation.began == 0 {
            activation.began = now;
        }
        let (role, step) = (activation.role, activation.step);
        match role {
            Role::Root(_) => unreachable!("the root is opened by its start"),
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => {
                if let Role::Item(index) = role {
                    let parent = self.node(node).parent;
                    let extra = self.extra(parent);
                    // Those in between have settled before.
                    let passed = index.saturating_sub(extra.next_item);
                    extra.passed_items = extra.passed_items.saturating_sub(passed);
                    extra.next_item = index + 1;
                    self.item_opened(parent, index);
                }
                let body = self.block_body(node);
                self.add_body(node, body);
            }
            Role::Step => {
                if let Some(deadline) = self.written(node).deadline
                    && self
                        .node(node)
                        .extra
                        .as_ref()
                        .is_none_or(|extra| extra.deadline.is_none())
                {
                    self.set_deadline(node, deadline);
                }
                self.open_step(node, step, value, keys, case);
            }
        }
    }

    pub(in crate::run) fn open_step(
        &mut self,
        node: Node,
        step: StepId,
        with: Option<Val>,
        keys: Option<&[Arc<str>]>,
        case: Option<u32>,
    ) {
        let graph = self.graph.clone();
        match &graph.step(step).kind {
            Kind::Model(_) | Kind::Tool(_) | Kind::Run(_) => {
                if let Some(at) = self.extra(node).retry_at.take() {
                    self.timers.remove(&(at, node, Timer::Retry));
                }
                self.queued.insert(node);
            }
            Kind::Human(_) | Kind::Wait(_) | Kind::Set(_) | Kind::Return(_) | Kind::Fail(_) => {}
            Kind::Steps(body) | Kind::Race(body) => self.add_body(node, *body),
            Kind::Flow(call) => {
                self.extra(node).input = with;
                self.add_body(node, graph.flow(call.flow).body);
            }
            Kind::ForEach(spec) if with.is_none() && matches!(spec.items, Items::Stream { .. }) => {
                self.open_intake(node);
            }
            Kind::ForEach(_) => self.add_items(node, with, keys),
            Kind::Repeat(_) => {
                let extra = self.extra(node);
                extra.input = with.clone();
                extra.rounds.clear();
                self.add_round(node, with);
            }
            Kind::Switch(switch) => {
                let case = case.expect("an opened switch says its case");
                self.extra(node).case = Some(case);
                let chosen = switch
                    .cases
                    .get(case as usize)
                    .map(|(_, step)| *step)
                    .or(switch.otherwise);
                let chosen = chosen.expect("the chosen case exists");
                let child = self.add(Activation {
                    again: self.again_of(node),
                    ..Activation::new(node, Role::Step, Slot::Main, chosen, 0)
                });
                let owner = self.node_mut(node);
                owner.kids = (child, 1);
                owner.live = 1;
                self.keep_back(child);
                self.agenda.push_back(Task::Decide(child));
            }
        }
    }

    /// The body that an item, round, handler or `finally` runs.
    pub(in crate::run) fn block_body(&self, node: Node) -> BodyId {
        let activation = self.node(node);
        let owner = self.node(activation.parent);
        let catch = |index: u32| match owner.role {
            Role::Root(flow) => &self.graph.flow(flow).catch[index as usize],
            _ => &self.catches(activation.parent)[index as usize],
        };
        match activation.role {
            Role::Item(_) | Role::Round(_) => match &self.graph.step(owner.step).kind {
                Kind::ForEach(spec) => spec.body,
                Kind::Repeat(spec) => spec.body,
                other => unreachable!(
                    "items and rounds belong to loops, not to `{}`",
                    other.name()
                ),
            },
            Role::Handler(index) => catch(index)
                .body
                .expect("a handler with a body was activated"),
            Role::Finally => self
                .finally_of(activation.parent)
                .expect("a scope with `finally` was activated"),
            Role::Root(_) | Role::Step => unreachable!("a step is not a block"),
        }
    }

    pub(in crate::run) fn add(&mut self, activation: Activation) -> Node {
        let node = Node::try_from(self.nodes.len()).expect("activations are limited");
        self.nodes.push(activation);
        node
    }

    pub(in crate::run) fn again_of(&self, node: Node) -> u32 {
        self.node(node)
            .extra
            .as_ref()
            .map_or(0, |extra| extra.again)
    }

    pub(in crate::run) fn add_body(&mut self, owner: Node, body: BodyId) {
        let graph = self.graph.clone();
        let body = graph.body(body);
        let again = self.again_of(owner);
        let first = self.nodes.len() as Node;
        let count = body.steps.len() as u32;
        for (position, step) in body.steps.iter().enumerate() {
            let unmet = graph.step(*step).deps.len() as u32;
            let child = self.add(Activation {
                unmet,
                again,
                ..Activation::new(owner, Role::Step, Slot::Main, *step, position as u32)
            });
            self.keep_back(child);
            if unmet == 0 {
                self.agenda.push_back(Task::Decide(child));
            }
        }
        let owner_node = self.node_mut(owner);
        owner_node.kids = (first, count);
        owner_node.live = count;
        if count == 0 {
            self.agenda.push_back(Task::Conclude(owner));
        }
    }

    pub(in crate::run) fn add_items(
        &mut self,
        node: Node,
        with: Option<Val>,
        keys: Option<&[Arc<str>]>,
    ) {
        let items = with.as_ref().and_then(items_of).unwrap_or_default();
        let count = items.len() as u32;
        let (step, again) = (self.node(node).step, self.again_of(node));
        let first = self.nodes.len() as Node;
        for index in 0..count {
            self.add(Activation {
                again,
                ..Activation::new(node, Role::Item(index), Slot::Main, step, index)
            });
        }
        let extra = self.extra(node);
        extra.items = items;
        extra.keys = keys.map(<[_]>::to_vec).unwrap_or_default();
        extra.next_item = 0;
        extra.passed_items = 0;
        extra.failed_kids = 0;
        let owner = self.node_mut(node);
        owner.kids = (first, count);
        owner.live = count;
        self.agenda.push_back(Task::Conclude(node));
    }

    pub(in crate::run) fn add_round(&mut self, node: Node, carry: Option<Val>) {
        let index = self.extra(node).rounds.len() as u32;
        let (step, again) = (self.node(node).step, self.again_of(node));
        let round = self.add(Activation {
            again,
            ..Activation::new(node, Role::Round(index), Slot::Main, step, index)
        });
        self.extra(round).input = carry;
        self.extra(node).rounds.push(round);
        let owner = self.node_mut(node);
        owner.kids = (round, 1);
        owner.live = 1;
        self.agenda.push_back(Task::Decide(round));
    }

    pub(in crate::run) fn round_started(&mut self, node: Node, carry: &Datum) {
        let carry = self.resolve(carry);
        self.add_round(node, Some(carry));
    }

    /// Adds a hidden activation: a block, or a leaf of a hidden step.
    pub(in crate::run) fn add_hidden(&mut self, owner: Node, role: Role, slot: Slot, step: StepId) {
        let again = self.again_of(owner);
        let child = self.add(Activation {
            again,
            ..Activation::new(owner, role, slot, step, 0)
        });
        if role == Role::Step {
            self.keep_back(child);
        }
        self.extra(owner).aux = Some(child);
        self.queued.remove(&owner);
        self.agenda.push_back(Task::Decide(child));
    }

    pub(in crate::run) fn add_block(&mut self, owner: Node, role: Role, slot: Slot) {
        let step = self.node(owner).step;
        if slot == Slot::Finally {
            self.extra(owner).finally_done = true;
        }
        self.add_hidden(owner, role, slot, step);
    }
}
