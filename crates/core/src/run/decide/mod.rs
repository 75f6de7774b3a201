//! Deciding: what an input leads to.
//!
//! A turn begins with one input and ends when the agenda is empty. Each decision is an event that is folded at once,
//! so the next decision sees it. Folding puts on the agenda whatever may now be able to move; nothing else is looked
//! at, which keeps the cost of a settled step proportional to its out-degree.
//!
//! ```text
//! pending --dependencies settled--> (join, when) --no--> skipped
//!                                        |yes
//! open:   leaf  attempt -> retry* -> contract -> gates -> succeeded
//!         scope children ----------> output -> contract -> gates -> finally -> succeeded
//!         on failure: repair* -> fallback* -> finally -> compensation -> catch -> failed
//! ```

mod join;
mod leaf;
mod made;
mod open;
mod people;
mod scope;
mod stop;
mod stream;
mod timer;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::{Phase, Role, Slot, State, Task, Undo};
use crate::effect::{ErrorClass, Failure, Outcome};
use crate::event::{Attempt, Command, Datum, Event, Input, Node, Reject, Settled, Skip, Stop};
use crate::expr::EvalError;
use crate::mutant::{self, Mutant};
use crate::port::without_marks;
use crate::value::Val;

/// Permits of queued leaves. Not part of the state: they live and die with the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// Asked for.
    Wished,
    /// Granted.
    Held,
}

/// One turn in the making.
pub(super) struct Turning<'r> {
    pub(super) state: &'r mut State,
    pub(super) permits: &'r mut BTreeMap<Node, Permit>,
    /// No new attempt may start.
    pub(super) held: bool,
    pub(super) events: Vec<Event>,
    pub(super) commands: Vec<Command>,
}

impl Turning<'_> {
    /// Decides one input whole.
    pub(super) fn run(&mut self, input: Input) -> Result<(), Reject> {
        match input {
            Input::Start { input } => self.start(&without_marks(input))?,
            Input::Finished { attempt, outcome } => self.finished(attempt, outcome),
            Input::Chunk {
                attempt,
                field,
                items,
            } => self.chunk(attempt, field, items),
            Input::Granted { attempt } => self.granted(attempt),
            Input::Denied { attempt, failure } => self.denied(attempt, failure),
            Input::Tick => self.tick(),
            Input::Signal { name, value, id } => self.signal(name, &without_marks(value), id)?,
            Input::Answer {
                question,
                value,
                by,
            } => self.answer(&question, without_marks(value), by)?,
            Input::Edit { base, graph, note } => self.edit(base, graph, note)?,
            Input::Cancel { path, by, reason } => self.cancel(path.as_deref(), by, reason)?,
            Input::Recovered { epoch } => self.recover(epoch),
        }
        self.drain();
        Ok(())
    }

    /// Works the agenda off.
    pub(super) fn drain(&mut self) {
        while let Some(task) = self.state.agenda.pop_front() {
            match task {
                Task::Decide(node) => self.decide(node),
                Task::Child { parent, child } => self.child(parent, child),
                Task::Conclude(node) => self.conclude(node),
                Task::Stale(item) => self.stop(item, Stop::Cancelled),
                Task::Budget => self.budget_freed(),
                Task::Mail => self.deliver_mail(),
            }
        }
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.state.apply(&event);
        if let Event::RetryScheduled { node, .. } = &event
            && mutant::is(Mutant::RetryBesideTheLog)
        {
            self.state.extra(*node).tries += 1;
        }
        self.events.push(event);
    }

    pub(super) fn settle(&mut self, node: Node, state: Settled) {
        let path = self.state.path(node);
        self.give_back(node);
        self.emit(Event::Settled {
            node,
            path,
            state,
            value: None,
            error: None,
            skip: None,
        });
    }

    pub(super) fn succeed(&mut self, node: Node, value: Datum) {
        let path = self.state.path(node);
        self.give_back(node);
        let (value, state) = (Some(value), Settled::Succeeded);
        self.emit(Event::Settled {
            node,
            path,
            state,
            value,
            error: None,
            skip: None,
        });
    }

    pub(super) fn fail(&mut self, node: Node, error: Failure) {
        let path = self.state.path(node);
        self.give_back(node);
        let (error, state) = (Some(error), Settled::Failed);
        self.emit(Event::Settled {
            node,
            path,
            state,
            value: None,
            error,
            skip: None,
        });
    }

    pub(super) fn skip(&mut self, node: Node, skip: Skip) {
        let path = self.state.path(node);
        self.give_back(node);
        let (skip, state) = (Some(skip), Settled::Skipped);
        self.emit(Event::Settled {
            node,
            path,
            state,
            value: None,
            error: None,
            skip,
        });
    }

    /// A wish for permits, or permits without an attempt, are given back.
    fn give_back(&mut self, node: Node) {
        if self.permits.remove(&node).is_some() {
            let attempt = self.next_attempt(node);
            self.commands.push(Command::Release { attempt });
        }
    }

    fn start(&mut self, input: &Val) -> Result<(), Reject> {
        if !self.state.nodes.is_empty() {
            return Err(Reject {
                code: "already_started",
                message: "the run has been started already".to_owned(),
            });
        }
        let graph = self.state.graph.clone();
        let input = graph
            .main()
            .input
            .accepts(input)
            .map_err(|problems| Reject {
                code: "invalid_input",
                message: super::value_problems("the input", &problems),
            })?;
        let terms = self.state.terms.json().clone();
        self.emit(Event::RunStarted {
            semantics: crate::event::SEMANTICS,
            run: self.state.id.clone(),
            graph: graph.hash.clone(),
            input,
            terms,
        });
        Ok(())
    }

    fn recover(&mut self, epoch: u64) {
        self.permits.clear();
        self.emit(Event::Recovered { epoch });
        self.lose_attempts(
            Outcome::unknown,
            "the engine stopped while the attempt was under way",
            |_, _| !mutant::is(Mutant::LostNotNoticed),
        );
        self.resume_queued();
    }

    /// A continuation of a prefix. Attempts that the last turn of the prefix started are this run's to carry out, under
    /// keys of its own; those that were under way before the cut belong to the other run and are lost here.
    pub(super) fn fork(&mut self, run: Arc<str>, from: Arc<str>, turn: u64) {
        self.emit(Event::Forked { run, from, turn });
        self.leave_compensations();
        self.lose_attempts(
            Outcome::unknown,
            "the attempt was under way at the turn that the run was forked at",
            |_, flight| flight.turn < turn,
        );
        // The permits that they hold are the other run's: they never left here, and stand in line again.
        self.lose_attempts(
            Outcome::not_done,
            "the attempt has to wait for permits of this run's own",
            |step, _| !step.leaf.concurrency.is_empty(),
        );
        self.resume_queued();
        self.drain();
    }

    /// What the prefix was compensating is compensated by the run that did it, not here.
    fn leave_compensations(&mut self) {
        let running = self.state.armed.iter();
        let running = running.filter(|armed| armed.inherited && armed.progress == Undo::Running);
        let running: Vec<Node> = running.map(|armed| armed.node).collect();
        for node in running {
            self.emit(Event::CompensationFinished { node, done: false });
            let Some(leaf) = self.state.extra(node).aux else {
                self.conclude_outwards(node);
                continue;
            };
            match self.flight_number(leaf) {
                Some(number) => {
                    self.emit(Event::AttemptStopping {
                        node: leaf,
                        why: Stop::Cancelled,
                    });
                    let failure = Failure::lost("the other run compensates");
                    let attempt = Attempt { node: leaf, number };
                    self.finished(attempt, Outcome::not_done(failure));
                }
                None => self.stop(leaf, Stop::Cancelled),
            }
        }
    }

    fn resume_queued(&mut self) {
        let queued: Vec<Node> = self.state.queued.iter().copied().collect();
        for node in queued {
            self.resume_leaf(node);
        }
    }

    fn edit(
        &mut self,
        base: u32,
        graph: Arc<crate::graph::Graph>,
        note: Val,
    ) -> Result<(), Reject> {
        super::edit::check(self.state, base, &graph)?;
        self.emit(Event::GraphEdited {
            version: self.state.version,
            graph: graph.hash.clone(),
            note,
        });
        self.state.adopt(graph);
        Ok(())
    }

    /// True when a scope accepts no new ordinary steps.
    pub(super) fn is_ending(&self, scope: Node) -> bool {
        let extra = self.state.node(scope).extra.as_deref();
        extra.is_some_and(|extra| {
            extra.failing.is_some()
                || extra.stopping.is_some()
                || extra.returned.is_some()
                || extra.winner.is_some()
        })
    }

    pub(super) fn is_open(&self, node: Node) -> bool {
        self.state.node(node).phase == Phase::Open
    }

    pub(super) fn is_leaf(&self, node: Node) -> bool {
        let activation = self.state.node(node);
        activation.role == Role::Step && self.state.graph.step(activation.step).kind.is_leaf()
    }

    /// Turns an evaluation error into a skip or a failure of a step.
    pub(super) fn not_evaluated(&mut self, node: Node, field: &str, error: EvalError) {
        match error {
            EvalError::Absent { step } => self.skip(node, Skip::Uses(step)),
            EvalError::Failed { message, .. } => {
                let failure = self.broken(node, field, &message);
                self.ladder(node, failure, false);
            }
        }
    }

    /// The failure of an expression.
    pub(super) fn broken(&self, node: Node, field: &str, message: &str) -> Failure {
        let mut failure = Failure::new(
            ErrorClass::InvalidInput,
            format!("`{field}` cannot be evaluated: {message}"),
        )
        .with_code("expression");
        failure.step = Some(self.state.path(node));
        failure
    }

    pub(super) fn slot(&self, node: Node) -> Slot {
        self.state.node(node).slot
    }
}
