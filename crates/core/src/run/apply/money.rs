//! The attempts of leaves: flights, money and active time.

use crate::effect::{Failure, Fate, Millis, Usage};
use crate::event::{Node, Stop};
use crate::graph::Kind;
use crate::run::state::{Flight, NOBODY, Role, Slot, State, Task, Timer};

impl State {
    pub(in crate::run) fn attempt_started(
        &mut self,
        node: Node,
        number: u32,
        effect: crate::effect::Effect,
        reserved: Usage,
    ) {
        self.begin(node);
        self.queued.remove(&node);
        let now = self.now;
        let until = now.saturating_add(self.graph.step(self.node(node).step).leaf.timeout);
        let turn = self.turn + 1;
        let extra = self.extra(node);
        assert_eq!(
            number,
            extra.attempts + 1,
            "attempts are numbered without a gap"
        );
        extra.attempts = number;
        extra.tries += 1;
        extra.uncertain = None;
        extra.streamed.clear();
        let retry_at = extra.retry_at.take();
        extra.flight = Some(Flight {
            number,
            effect,
            started: now,
            turn,
            until,
            reserved,
            stopping: None,
        });
        if let Some(at) = retry_at {
            self.timers.remove(&(at, node, Timer::Retry));
        }
        self.timers.insert((until, node, Timer::Timeout));
        self.flights.insert(node);
        if !reserved.is_zero() {
            self.each_budget(node, |extra| extra.reserved.add(&reserved));
        }
        self.count_active(node, true);
    }

    /// An activation that is being stopped has no deadline any more. (An attempt whose timeout passed is another matter:
    /// its activation goes on.)
    pub(in crate::run) fn drop_deadline(&mut self, node: Node) {
        if let Some(at) = self.extra(node).deadline.take() {
            self.timers.remove(&(at, node, Timer::Deadline));
        }
        if self
            .budget_of(node)
            .is_some_and(|budget| budget.time.is_some())
        {
            let due = self.span_due(node);
            self.timers.remove(&(due, node, Timer::Budget));
        }
    }

    pub(in crate::run) fn attempt_stopping(&mut self, node: Node, why: Stop) {
        if why != Stop::Timeout {
            self.drop_deadline(node);
        }
        let (now, grace) = (self.now, self.terms.limits.stop_grace_ms);
        let extra = self.extra(node);
        let flight = extra
            .flight
            .as_mut()
            .expect("only an attempt under way is stopped");
        let first = flight.stopping.is_none();
        let (until, since) = (
            flight.until,
            flight.stopping.map_or(now, |(_, since)| since),
        );
        flight.stopping = Some((why, since));
        if first {
            self.timers.remove(&(until, node, Timer::Timeout));
            self.timers
                .insert((now.saturating_add(grace), node, Timer::Grace));
        }
    }

    pub(in crate::run) fn attempt_finished(
        &mut self,
        node: Node,
        number: u32,
        fate: Fate,
        error: Option<&Failure>,
        usage: Usage,
    ) {
        let grace = self.terms.limits.stop_grace_ms;
        let extra = self.extra(node);
        let flight = extra.flight.take().expect("only an attempt under way ends");
        assert_eq!(
            flight.number, number,
            "the attempt that ends is the one under way"
        );
        if fate == Fate::Unknown && error.is_some() {
            extra.uncertain = error.cloned();
        }
        match flight.stopping {
            None => self.timers.remove(&(flight.until, node, Timer::Timeout)),
            Some((_, since)) => {
                self.timers
                    .remove(&(since.saturating_add(grace), node, Timer::Grace))
            }
        };
        self.flights.remove(&node);
        self.queued.insert(node);
        if !usage.is_zero() {
            self.usage.add(&usage);
            self.each_ancestor(node, |extra| extra.spent.add(&usage));
        }
        if !flight.reserved.is_zero() {
            self.each_budget(node, |extra| extra.reserved.sub(&flight.reserved));
            self.agenda.push_back(Task::Budget);
        }
        self.count_active(node, false);
    }

    pub(in crate::run) fn each_ancestor(
        &mut self,
        node: Node,
        mut change: impl FnMut(&mut crate::run::state::Extra),
    ) {
        let mut at = node;
        while at != NOBODY {
            change(self.extra(at));
            at = self.node(at).parent;
        }
    }

    pub(in crate::run) fn each_budget(
        &mut self,
        node: Node,
        mut change: impl FnMut(&mut crate::run::state::Extra),
    ) {
        let mut at = node;
        while at != NOBODY {
            if self.budget_of(at).is_some() {
                change(self.extra(at));
            }
            at = self.node(at).parent;
        }
    }

    /// `budget:` at a node.
    pub(in crate::run) fn budget_of(&self, node: Node) -> Option<crate::graph::Budget> {
        let activation = self.node(node);
        match activation.role {
            Role::Root(flow) => self.graph.flow(flow).budget,
            Role::Step if activation.slot == Slot::Main => {
                let own = self.written(node).budget;
                match &self.graph.step(activation.step).kind {
                    Kind::Flow(call) => own.or_else(|| self.graph.flow(call.flow).budget),
                    _ => own,
                }
            }
            Role::Step | Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => None,
        }
    }

    /// Active time of budgets: the time in which an attempt is under way.
    pub(in crate::run) fn count_active(&mut self, node: Node, starts: bool) {
        if !self.is_metered(node) {
            return;
        }
        let mut at = node;
        while at != NOBODY {
            if self
                .budget_of(at)
                .is_some_and(|budget| budget.time.is_some())
            {
                let now = self.now;
                if starts {
                    self.extra(at).active += 1;
                    if self.extra(at).active == 1 {
                        self.begin_span(at, now);
                    }
                } else {
                    self.extra(at).active -= 1;
                    if self.extra(at).active == 0 {
                        self.end_span(at, now);
                    }
                }
            }
            at = self.node(at).parent;
        }
    }

    /// Whether the time of an attempt counts. A compensation runs whatever is left, also for a scope that is over.
    pub(in crate::run) fn is_metered(&self, node: Node) -> bool {
        self.node(node).slot != Slot::Compensation
    }

    pub(in crate::run) fn begin_span(&mut self, node: Node, now: Millis) {
        self.extra(node).active_since = now;
        self.timers
            .insert((self.span_due(node), node, Timer::Budget));
    }

    pub(in crate::run) fn end_span(&mut self, node: Node, now: Millis) {
        let due = self.span_due(node);
        self.timers.remove(&(due, node, Timer::Budget));
        let extra = self.extra(node);
        extra.active_ms += now.saturating_sub(extra.active_since);
        extra.active_since = now;
    }

    /// When the active time of a node's budget is used up, should its present span go on.
    pub(in crate::run) fn span_due(&self, node: Node) -> Millis {
        let limit = self
            .budget_of(node)
            .and_then(|budget| budget.time)
            .unwrap_or(Millis::MAX);
        let extra = self.node(node).extra.as_deref();
        extra.map_or(Millis::MAX, |extra| {
            extra
                .active_since
                .saturating_add(limit.saturating_sub(extra.active_ms))
        })
    }
}
