//! Settling: the last change of an activation, and who hears of it.

use crate::effect::Failure;
use crate::event::{Node, Settled, Skip};
use crate::graph::{DepKind, Join, Kind};
use crate::run::state::{NOBODY, Phase, Role, Slot, State, Task, Timer};
use crate::value::Val;

impl State {
    pub(in crate::run) fn settle(
        &mut self,
        node: Node,
        state: Settled,
        value: Option<Val>,
        error: Option<&Failure>,
        skip: Option<&Skip>,
    ) {
        let now = self.now;
        assert!(
            self.settled(node).is_none(),
            "a settled activation never changes again: {}",
            self.path(node)
        );
        self.forget_waits(node);
        let activation = self.node_mut(node);
        let waited = activation.phase == Phase::Pending;
        activation.phase = Phase::Settled(state);
        activation.ended = now;
        if activation.began == 0 {
            activation.began = now;
        }
        activation.value = value;
        let (parent, slot, position) = (activation.parent, activation.slot, activation.position);
        if error.is_some() || skip.is_some() {
            let extra = self.extra(node);
            extra.error = error.cloned();
            extra.skip = skip.cloned();
        }
        if parent == NOBODY {
            return;
        }
        // The parent hears of it before the siblings: a failure ends the scope before anything else begins in it.
        self.agenda.push_back(Task::Child {
            parent,
            child: node,
        });
        match slot {
            Slot::Main => {
                self.node_mut(parent).live -= 1;
                self.count_child(parent, node, state);
                match self.node(node).role {
                    Role::Step => self.tell_dependents(parent, position, state),
                    Role::Item(index) => {
                        self.item_opened(parent, index);
                        self.extra(parent).passed_items += u32::from(waited);
                    }
                    Role::Root(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => {}
                }
            }
            Slot::Stale => self.node_mut(parent).live -= 1,
            Slot::Check(_) => {
                self.extra(parent).aux = None;
                self.queued.insert(parent);
            }
            Slot::Gate(_) | Slot::Handler | Slot::Finally | Slot::Compensation => {
                self.extra(parent).aux = None;
            }
        }
    }

    pub(in crate::run) fn count_child(&mut self, parent: Node, child: Node, state: Settled) {
        if state == Settled::Failed {
            self.extra(parent).failed_kids += 1;
        }
        if state == Settled::Succeeded && self.is_race(parent) {
            let extra = self.extra(parent);
            extra.winner = extra.winner.or(Some(child));
        }
    }

    pub(in crate::run) fn is_race(&self, node: Node) -> bool {
        let activation = self.node(node);
        activation.role == Role::Step
            && matches!(self.graph.step(activation.step).kind, Kind::Race(_))
    }

    pub(in crate::run) fn tell_dependents(&mut self, parent: Node, position: u32, state: Settled) {
        let graph = self.graph.clone();
        let Some(body) = self.body_of(parent) else {
            return;
        };
        for dependent in &graph.body(body).dependents[position as usize] {
            let sibling = self.kid(parent, *dependent);
            let step = graph.step(self.node(sibling).step);
            self.node_mut(sibling).unmet -= 1;
            let first_of = matches!(step.join, Join::First(_));
            if first_of && state == Settled::Succeeded && counts(step, position) {
                self.extra(sibling).joined += 1;
            }
            if self.node(sibling).unmet == 0 || first_of {
                self.agenda.push_back(Task::Decide(sibling));
            }
        }
    }

    /// Drops what a settling activation waited for.
    pub(in crate::run) fn forget_waits(&mut self, node: Node) {
        self.queued.remove(&node);
        self.kept_back.remove(&node);
        self.streams.remove(&node);
        let Some(extra) = self.nodes[node as usize].extra.as_deref_mut() else {
            return;
        };
        let timers = [
            (extra.retry_at.take(), Timer::Retry),
            (extra.deadline, Timer::Deadline),
        ];
        let question = extra.question.take();
        // Whoever takes the items reads them from the value now.
        extra.streamed.clear();
        for (at, timer) in timers {
            if let Some(at) = at {
                self.timers.remove(&(at, node, timer));
            }
        }
        if let Some(question) = question {
            self.close_question(node, &question);
        }
        self.end_wait(node);
    }

    /// A `wait` is over, or given up for what its step does instead.
    pub(in crate::run) fn end_wait(&mut self, node: Node) {
        let Some(extra) = self.nodes[node as usize].extra.as_deref_mut() else {
            return;
        };
        let (until, signal) = (extra.wait_until.take(), extra.wait_signal.take());
        if let Some(until) = until {
            self.timers.remove(&(until, node, Timer::Wait));
        }
        if let Some(queue) = signal.and_then(|signal| self.waiting.get_mut(&signal)) {
            queue.retain(|waiter| *waiter != node);
        }
    }
}

/// Whether a step counts the sibling at a position in its join.
fn counts(step: &crate::graph::StepDef, position: u32) -> bool {
    step.deps
        .iter()
        .any(|dep| dep.on == position && dep.how != DepKind::Weak)
}
