//! Beginnings and waits of single activations: deadlines, repairs, questions, effects that can be undone.

use std::sync::Arc;

use crate::effect::{Failure, Millis};
use crate::event::{Node, Topic};
use crate::mutant::{self, Mutant};
use crate::run::state::{Armed, Last, NOBODY, Open, Phase, Role, Slot, State, Task, Timer, Undo};
use crate::value::Val;

impl State {
    pub(in crate::run) fn set_deadline(&mut self, node: Node, after: Millis) {
        let at = self.now.saturating_add(after);
        self.extra(node).deadline = Some(at);
        self.timers.insert((at, node, Timer::Deadline));
    }

    /// Another activation of the same step: after a failed gate, or with a fallback.
    pub(in crate::run) fn again(&mut self, node: Node, last: Last) {
        self.queued.remove(&node);
        self.end_wait(node);
        let extra = self.extra(node);
        extra.again += 1;
        extra.tries = 0;
        extra.last = Some(last);
        extra.candidate = None;
        extra.gates_passed = 0;
        extra.failing = None;
        extra.failed_kids = 0;
        extra.winner = None;
        extra.returned = None;
        extra.uncertain = None;
        extra.listed_kids.clear();
        extra.intake = None;
        let activation = self.node_mut(node);
        activation.kids = (0, 0);
        activation.live = 0;
    }

    pub(in crate::run) fn fallback_started(&mut self, node: Node, index: u32, error: &Failure) {
        self.again(node, Last::from_failure(error, None));
        let written = self.written(node).id;
        let next = self.graph.step(written).fallback[index as usize];
        let extra = self.extra(node);
        extra.written = Some(written);
        extra.fallbacks = index + 1;
        self.node_mut(node).step = next;
    }

    pub(in crate::run) fn caught(&mut self, node: Node, index: u32, error: &Failure) {
        self.queued.remove(&node);
        self.end_wait(node);
        let body = self.catches(node)[index as usize].body;
        self.extra(node).caught = Some((index, error.clone()));
        if body.is_some() {
            self.add_block(node, Role::Handler(index), Slot::Handler);
        }
    }

    pub(in crate::run) fn wait_started(
        &mut self,
        node: Node,
        until: Option<Millis>,
        signal: Option<&Arc<str>>,
    ) {
        self.begin(node);
        let extra = self.extra(node);
        extra.wait_until = until;
        extra.wait_signal = signal.cloned();
        if let Some(until) = until {
            self.timers.insert((until, node, Timer::Wait));
        }
        if let Some(signal) = signal {
            self.waiting
                .entry(signal.clone())
                .or_default()
                .push_back(node);
            self.agenda.push_back(Task::Mail);
        }
    }

    pub(in crate::run) fn asked(&mut self, question: &Arc<str>, open: Open) {
        let (node, until) = (open.node, open.until);
        if open.topic != Topic::Compensation {
            // A compensation is asked about for a step that has settled, and stays so.
            self.begin(node);
        }
        if let Some(old) = self.questions.insert(question.clone(), open)
            && let Some(until) = old.until
        {
            self.timers.remove(&(until, node, Timer::Question));
        }
        if let Some(until) = until
            && !mutant::is(Mutant::QuestionNeverDue)
        {
            self.timers.insert((until, node, Timer::Question));
        }
        self.extra(node).question = Some(question.clone());
    }

    /// An answered leaf whose effect was uncertain wants to go on.
    pub(in crate::run) fn answered(&mut self, node: Node, question: &Arc<str>) {
        let topic = self.questions.get(question).map(|open| open.topic);
        self.close_question(node, question);
        if topic == Some(Topic::Uncertain) {
            self.queued.insert(node);
        }
    }

    pub(in crate::run) fn close_question(&mut self, node: Node, question: &Arc<str>) {
        if let Some(open) = self.questions.shift_remove(question)
            && let Some(until) = open.until
        {
            self.timers.remove(&(until, node, Timer::Question));
        }
        self.extra(node).question = None;
    }

    /// What became of a compensation is known: nobody has to be asked about it any more.
    pub(in crate::run) fn close_compensation_question(&mut self, node: Node) {
        let question = self.extra(node).question.clone();
        if let Some(question) = question
            && self
                .questions
                .get(&question)
                .is_some_and(|open| open.topic == Topic::Compensation)
        {
            self.close_question(node, &question);
        }
    }

    /// A leaf leaves `pending` by its first own event.
    pub(in crate::run) fn begin(&mut self, node: Node) {
        let now = self.now;
        let activation = self.node_mut(node);
        activation.phase = Phase::Open;
        if activation.began == 0 {
            activation.began = now;
        }
    }

    /// One effect of a step is compensated, however many attempts it took: the latest that may have taken place.
    pub(in crate::run) fn arm(&mut self, node: Node, request: &Val) {
        let standing = |armed: &&mut Armed| armed.node == node && armed.progress == Undo::Standing;
        if let Some(armed) = self.armed.iter_mut().find(standing) {
            armed.request = request.clone();
            return;
        }
        self.armed.push(Armed {
            node,
            request: request.clone(),
            inherited: false,
            progress: Undo::Standing,
        });
    }

    pub(in crate::run) fn compensation_started(&mut self, node: Node) {
        self.armed_mut(node).progress = Undo::Running;
        let step = self
            .written(node)
            .compensate
            .expect("a step without `compensate` is never armed");
        self.add_hidden(node, Role::Step, Slot::Compensation, step);
    }

    /// The armed effect of a node: the latest, since each repair of a write arms again.
    pub(in crate::run) fn armed_mut(&mut self, node: Node) -> &mut Armed {
        let found = self
            .armed
            .iter_mut()
            .rev()
            .find(|armed| armed.node == node && armed.progress != Undo::Done);
        found.expect("only an armed effect is compensated")
    }

    /// Downtime is not active time: open spans end with the last turn before, and go on now.
    pub(in crate::run) fn skip_downtime(&mut self) {
        let (before, now) = (self.before, self.now);
        let flights = self.flights.iter().copied();
        let nodes: Vec<Node> = flights.filter(|node| self.is_metered(*node)).collect();
        for node in nodes {
            let mut at = node;
            while at != NOBODY {
                if self
                    .budget_of(at)
                    .is_some_and(|budget| budget.time.is_some())
                {
                    self.end_span(at, before);
                    self.begin_span(at, now);
                }
                at = self.node(at).parent;
            }
        }
    }
}
