//! Scopes: what a settled child means for its parent, and how a scope comes to its end.
//!
//! ```text
//! open --all children settled--> output -> contract -> gates -> finally -> succeeded
//!   | a failure that nothing absorbs: failing
//!   | a cancel, deadline, return, decided race: stopping
//!   v
//! children stopped, `failed`/`settled` steps done -> fallback? -> finally -> compensation -> catch? -> failed/cancelled
//! ```

use super::Turning;
use super::made::Made;
use crate::effect::{ErrorClass, Failure};
use crate::event::{Datum, Event, Node, Settled, Skip, Slot as ValueSlot, Stop, Topic};
use crate::graph::{Join, Kind, Tolerate};
use crate::mutant::{self, Mutant};
use crate::run::state::{Phase, Role, Slot, Task, Undo};

impl Turning<'_> {
    /// A child settled.
    pub(super) fn child(&mut self, parent: Node, child: Node) {
        match self.slot(child) {
            Slot::Main => self.main_child(parent, child),
            Slot::Stale => self.conclude(parent),
            // It was cut short after its last part ended, in the same turn: what is settled stays so.
            Slot::Gate(_) | Slot::Check(_) | Slot::Handler | Slot::Finally
                if !self.is_open(parent) => {}
            Slot::Gate(gate) => self.gate_ended(parent, child, gate),
            Slot::Check(_) => self.checked(parent, child),
            Slot::Handler => self.handler_ended(parent, child),
            Slot::Finally => self.finally_ended(parent, child),
            Slot::Compensation => self.compensation_ended(parent, child),
        }
    }

    fn main_child(&mut self, parent: Node, child: Node) {
        if !self.is_open(parent) {
            return;
        }
        let state = self.state.settled(child);
        if self.state.is_race(parent) && state == Some(Settled::Succeeded) {
            return self.race_decided(parent, child);
        }
        // A failed item of an open stream may yet be taken back.
        let counts = !self.is_ending(parent) && !self.state.streams.contains(&parent);
        if state == Some(Settled::Failed) && counts {
            let error = self
                .state
                .node(child)
                .extra
                .as_ref()
                .and_then(|extra| extra.error.clone());
            let error = error.expect("a failed activation has an error");
            if let Some(error) = self.unabsorbed(parent, child, error) {
                return self.fail_scope(parent, error);
            }
        }
        self.conclude(parent);
    }

    fn race_decided(&mut self, race: Node, winner: Node) {
        let is_first = self.state.extra(race).winner == Some(winner);
        if is_first {
            for child in self.state.main_children(race) {
                if self.state.settled(child).is_none() {
                    self.stop(child, Stop::Cancelled);
                }
            }
        }
        self.conclude(race);
    }

    /// The failure of a child as the failure of its scope, unless something takes it up.
    fn unabsorbed(&self, parent: Node, child: Node, error: Failure) -> Option<Failure> {
        let activation = self.state.node(parent);
        let graph = self.state.graph.clone();
        if activation.role == Role::Step {
            match &graph.step(activation.step).kind {
                Kind::Race(_) => return None,
                Kind::ForEach(spec) => {
                    let failed = activation
                        .extra
                        .as_ref()
                        .map_or(0, |extra| extra.failed_kids);
                    let count = activation.kids.1;
                    let tolerated = match spec.tolerate {
                        Tolerate::Count(most) => failed <= most,
                        Tolerate::Percent(most) => {
                            f64::from(failed) * 100.0 <= most * f64::from(count)
                        }
                    };
                    return (!tolerated).then_some(error);
                }
                _ => {}
            }
        }
        (!self.is_absorbed(parent, child)).then_some(error)
    }

    /// A scope (or a leaf with something to clean up) begins to fail.
    pub(super) fn fail_scope(&mut self, node: Node, error: Failure) {
        self.emit(Event::Failing { node, error });
        for child in self.state.main_children(node) {
            self.end_child(node, child, Stop::Cancelled);
        }
    }

    /// A child of a scope that ends early: what has not begun does not begin, what runs is stopped, and steps that
    /// are there for this case are left alone.
    fn end_child(&mut self, scope: Node, child: Node, why: Stop) {
        let activation = self.state.node(child);
        let join = match activation.role {
            Role::Step => self.state.graph.step(activation.step).join,
            _ => Join::All,
        };
        let phase = activation.phase;
        let failing = self.state.extra(scope).stopping.is_none();
        let stays = join == Join::Settled || (join == Join::Failed && failing);
        match phase {
            Phase::Settled(_) => {}
            _ if stays => {}
            Phase::Pending => self.state.agenda.push_back(Task::Decide(child)),
            Phase::Open => self.stop(child, why),
        }
        if self.state.node(child).role != Role::Step
            && self.state.node(child).phase == Phase::Pending
        {
            self.skip(child, Skip::ScopeEnded);
        }
    }

    /// For `return`: like [`Self::end_child`], from outside.
    pub(super) fn stop_child(&mut self, scope: Node, child: Node, why: Stop) {
        self.end_child(scope, child, why);
    }

    /// A scope or a leaf may be able to take its next step.
    pub(super) fn conclude(&mut self, node: Node) {
        if !self.is_open(node) {
            return;
        }
        self.fill_window(node);
        let activation = self.state.node(node);
        let extra = activation.extra.as_deref();
        let busy = activation.live > 0
            || extra.is_some_and(|extra| {
                extra.aux.is_some() || extra.flight.is_some() || extra.caught.is_some()
            });
        if busy || (self.is_leaf(node) && self.has_open_question(node)) {
            return;
        }
        let ending = extra.is_some_and(|extra| extra.failing.is_some() || extra.stopping.is_some());
        let judged = extra.is_some_and(|extra| extra.candidate.is_some());
        if ending {
            return self.wind_down(node);
        }
        if judged {
            return self.conclude_candidate(node);
        }
        if self.is_leaf(node) || self.state.streams.contains(&node) {
            return;
        }
        if let Some(error) = self.failed_child(node) {
            return self.fail_scope(node, error);
        }
        match self.make(node) {
            Made::Value(datum) => self.made(node, datum),
            Made::Failed(failure) => self.fail_scope(node, failure),
            Made::Skipped(step) => self.skip_scope(node, step),
            Made::More => {}
        }
    }

    /// The failure of a child that nothing takes up and that the scope has not heard of yet.
    pub(super) fn failed_child(&self, node: Node) -> Option<Failure> {
        let failed = self
            .state
            .node(node)
            .extra
            .as_ref()
            .map_or(0, |extra| extra.failed_kids);
        if failed == 0 {
            return None;
        }
        self.state.main_children(node).find_map(|child| {
            let error = self
                .state
                .node(child)
                .extra
                .as_ref()
                .and_then(|extra| extra.error.clone())?;
            (self.state.settled(child) == Some(Settled::Failed)).then_some(())?;
            self.unabsorbed(node, child, error)
        })
    }

    fn has_open_question(&self, node: Node) -> bool {
        self.state
            .node(node)
            .extra
            .as_ref()
            .is_some_and(|extra| extra.question.is_some())
    }

    fn made(&mut self, node: Node, datum: Datum) {
        match self.state.node(node).role {
            Role::Root(_) | Role::Step => self.accept(node, datum),
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => {
                self.succeed(node, datum)
            }
        }
    }

    /// All gates of a candidate passed.
    fn conclude_candidate(&mut self, node: Node) {
        let extra = self.state.extra(node);
        let (passed, finally_done) = (extra.gates_passed as usize, extra.finally_done);
        let gates = match self.state.node(node).role {
            Role::Step => self.state.written(node).gates.len(),
            _ => 0,
        };
        if passed < gates {
            return;
        }
        if self.state.finally_of(node).is_some() && !finally_done {
            return self.emit(Event::FinallyStarted { node });
        }
        let datum = Datum::Ref {
            node,
            slot: ValueSlot::Candidate,
            at: Vec::new(),
        };
        self.finish_success(node, datum);
    }

    /// Opens items up to the limit of a `for_each`.
    fn fill_window(&mut self, node: Node) {
        let activation = self.state.node(node);
        if activation.role != Role::Step || self.is_ending(node) {
            return;
        }
        let graph = self.state.graph.clone();
        let Kind::ForEach(spec) = &graph.step(activation.step).kind else {
            return;
        };
        let window = spec
            .parallel
            .unwrap_or(self.state.terms.limits.for_each_parallel)
            .max(1)
            + u32::from(mutant::is(Mutant::ItemBeyondParallel));
        loop {
            let (next, waiting) = self.state.next_item(node);
            let open = self.state.node(node).live - waiting;
            match next {
                Some(item) if open < window => self.open_block(item),
                Some(_) | None => return,
            }
        }
    }

    /// The end of a scope that failed or was cut short, one step after the other.
    fn wind_down(&mut self, node: Node) {
        let extra = self.state.extra(node);
        let (failing, stopping) = (extra.failing.clone(), extra.stopping);
        let (finally_done, fallbacks) = (extra.finally_done, extra.fallbacks as usize);
        let is_step = self.state.node(node).role == Role::Step;
        if let Some(skip) = self.lost_producer(node) {
            return self.skip(node, skip);
        }
        // A `return` leaves what was done; a scope that failed before it is undone all the same.
        let undo = stopping != Some(Stop::Returned) || failing.is_some();
        let falls_back = stopping.is_none()
            && is_step
            && !self.is_leaf(node)
            && fallbacks < self.state.written(node).fallback.len();
        if !falls_back && self.state.finally_of(node).is_some() && !finally_done {
            return self.emit(Event::FinallyStarted { node });
        }
        if undo && self.compensate_below(node) {
            return;
        }
        match (stopping, failing) {
            (None, Some(error)) if falls_back => {
                self.emit(Event::FallbackStarted {
                    node,
                    index: fallbacks as u32,
                    error,
                });
                self.open(node);
            }
            (Some(Stop::Cancelled | Stop::Returned), _) => self.settle(node, Settled::Cancelled),
            (Some(why @ (Stop::Deadline | Stop::Budget | Stop::Timeout)), _) => {
                let failure = self.cut_failure(node, why);
                self.last_rungs(node, failure);
            }
            (None, Some(error)) => self.last_rungs(node, error),
            (None, None) => unreachable!("a scope winds down because it fails or is cut short"),
        }
    }

    fn last_rungs(&mut self, node: Node, failure: Failure) {
        match self.state.node(node).role {
            Role::Root(_) | Role::Step => self.catch_or_fail(node, failure),
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => {
                self.fail(node, failure)
            }
        }
    }

    fn cut_failure(&self, node: Node, why: Stop) -> Failure {
        let mut failure = match why {
            Stop::Budget => {
                return self.over_budget(node, node, "its active time is spent".to_owned());
            }
            Stop::Deadline | Stop::Timeout | Stop::Cancelled | Stop::Returned => {
                let message = match node {
                    0 => "the deadline of the flow passed",
                    _ => "the deadline passed",
                };
                Failure::new(ErrorClass::Deadline, message)
            }
        };
        failure.step = Some(self.state.path(node));
        failure
    }

    fn finally_ended(&mut self, node: Node, finally: Node) {
        let error = self
            .state
            .node(finally)
            .extra
            .as_ref()
            .and_then(|extra| extra.error.clone());
        let extra = self.state.extra(node);
        let already = extra.failing.is_some() || extra.stopping.is_some();
        match error {
            Some(error) if !already => self.fail_scope(node, error),
            _ => self.conclude(node),
        }
    }

    /// Starts the next compensation of what stands below a scope, latest effect first. False: nothing is left.
    fn compensate_below(&mut self, scope: Node) -> bool {
        if self.state.armed.is_empty() {
            return false;
        }
        let below = |armed: &&crate::run::state::Armed| self.state.is_below(armed.node, scope);
        if self
            .state
            .armed
            .iter()
            .filter(below)
            .any(|armed| armed.progress == Undo::Running)
        {
            return true;
        }
        let next = self.state.armed.iter().rev().filter(below);
        let next = next
            .into_iter()
            .find(|armed| armed.progress == Undo::Standing && !armed.inherited)
            .map(|armed| armed.node);
        let Some(next) = next else { return false };
        self.emit(Event::CompensationStarted { node: next });
        true
    }

    fn compensation_ended(&mut self, node: Node, leaf: Node) {
        let running = |armed: &crate::run::state::Armed| {
            armed.node == node && armed.progress == Undo::Running
        };
        if !self.state.armed.iter().any(running) {
            // A fork leaves it to the other run.
            return self.conclude_outwards(node);
        }
        if self.state.settled(leaf) == Some(Settled::Succeeded) {
            self.emit(Event::CompensationFinished { node, done: true });
            return self.conclude_outwards(node);
        }
        let error = self
            .state
            .node(leaf)
            .extra
            .as_ref()
            .and_then(|extra| extra.error.clone());
        let skip = || self.state.node(leaf).extra.as_ref()?.skip.clone();
        let why = match (error, skip()) {
            (Some(error), _) => error.message,
            (None, Some(Skip::Uses(name))) if &*name == "output" => {
                "it reads `output`, and the step gave no value".into()
            }
            (None, Some(_) | None) => "it did not run".into(),
        };
        let path = self.state.path(node);
        let ask = format!(
            "The effect of `{path}` could not be compensated: {why}. Was it undone by hand?"
        );
        let question = self.state.question_id(node, Topic::Compensation);
        self.emit(Event::Asked {
            node,
            path,
            question,
            topic: Topic::Compensation,
            ask: ask.into(),
            form: super::people::compensation_form(),
            to: None,
            until: None,
            level: 0,
        });
    }

    /// Scopes around a compensated effect may go on winding down.
    pub(super) fn conclude_outwards(&mut self, node: Node) {
        let mut at = node;
        loop {
            self.state.agenda.push_back(Task::Conclude(at));
            if at == 0 {
                return;
            }
            at = self.state.node(at).parent;
        }
    }
}
