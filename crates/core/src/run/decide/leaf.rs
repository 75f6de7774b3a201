//! Leaves with effects: permits, money, attempts, retries, and effects whose fate is not known.

use super::{Permit, Turning};
use crate::effect::{Effect, ErrorClass, Failure, Fate, Millis, Outcome, Usage};
use crate::event::{Attempt, Command, Datum, Event, Node, Stop, Topic};
use crate::graph::{OnUncertain, StepDef};
use crate::mutant::{self, Mutant};
use crate::run::env::Env;
use crate::run::request::{Rendered, render};
use crate::run::state::{Flight, Slot};
use crate::value::Val;

/// Whether money and tokens allow an attempt.
enum Funds {
    Reserve(Usage),
    /// Others hold reservations that may be given back.
    Wait,
    Denied(Failure),
}

/// The code of a failure for want of a price.
const PRICE_UNKNOWN: &str = "price_unknown";

impl Turning<'_> {
    pub(super) fn next_attempt(&self, node: Node) -> Attempt {
        let attempts = self
            .state
            .node(node)
            .extra
            .as_ref()
            .map_or(0, |extra| extra.attempts);
        Attempt {
            node,
            number: attempts + 1,
        }
    }

    /// Starts the next attempt, or asks for what it lacks.
    pub(super) fn try_attempt(&mut self, node: Node) {
        if self.held {
            // The leaf stays queued; a recovery goes on from there.
            return;
        }
        let graph = self.state.graph.clone();
        let step = graph.step(self.state.node(node).step);
        let attempt = self.next_attempt(node);
        let rendered = match render(self.state, node, attempt) {
            Ok(rendered) => rendered,
            Err(error) => return self.not_evaluated(node, step.kind.name(), error),
        };
        if !rendered.permits.is_empty() && self.permits.get(&node) != Some(&Permit::Held) {
            return self.wish_permits(node, step, attempt, rendered);
        }
        match self.funds(node, &rendered) {
            Funds::Reserve(reserved) => self.launch(node, step, rendered, reserved),
            Funds::Wait => {}
            Funds::Denied(failure) => self.ladder(node, failure, true),
        }
    }

    fn wish_permits(&mut self, node: Node, step: &StepDef, attempt: Attempt, rendered: Rendered) {
        if self.permits.insert(node, Permit::Wished).is_none() {
            let permits = rendered.permits;
            self.commands.push(Command::Acquire {
                attempt,
                permits,
                priority: step.priority,
            });
        }
    }

    fn launch(&mut self, node: Node, step: &StepDef, rendered: Rendered, reserved: Usage) {
        let path = self.state.path(node);
        let number = self.next_attempt(node).number;
        self.permits.remove(&node);
        self.emit(Event::AttemptStarted {
            node,
            path: path.clone(),
            number,
            effect: step.leaf.effect,
            reserved,
        });
        let job = super::super::request::job(self.state, node, path, rendered);
        self.commands.push(Command::Start(Box::new(job)));
    }

    /// True when a budget of money or tokens is around a node.
    pub(super) fn is_budgeted(&self, node: Node) -> bool {
        self.budgets(node)
            .any(|(_, budget)| budget.microusd.is_some() || budget.tokens.is_some())
    }

    fn budgets(&self, node: Node) -> impl Iterator<Item = (Node, crate::graph::Budget)> + '_ {
        let mut at = Some(node);
        std::iter::from_fn(move || {
            let here = at?;
            at = (here != 0).then(|| self.state.node(here).parent);
            Some((here, self.state.budget_of(here)))
        })
        .filter_map(|(node, budget)| budget.map(|budget| (node, budget)))
    }

    fn funds(&self, node: Node, rendered: &Rendered) -> Funds {
        if rendered.bound.is_zero() || self.slot(node) == Slot::Compensation {
            return Funds::Reserve(Usage::default());
        }
        let mut wait = false;
        let mut budgeted = false;
        for (at, budget) in self.budgets(node) {
            if let (Some(_), Some(model)) = (budget.microusd, &rendered.unpriced) {
                return Funds::Denied(self.unpriced(node, at, model));
            }
            let extra = self.state.node(at).extra.as_deref();
            let (spent, reserved) = extra
                .map(|extra| (extra.spent, extra.reserved))
                .unwrap_or_default();
            let checks = [
                (
                    budget.microusd,
                    spent.cost_microusd,
                    reserved.cost_microusd,
                    rendered.bound.cost_microusd,
                    "micro-dollars",
                ),
                (
                    budget.tokens,
                    spent.tokens(),
                    reserved.tokens(),
                    rendered.bound.tokens(),
                    "tokens",
                ),
            ];
            for (limit, spent, reserved, bound, unit) in checks {
                let Some(limit) = limit else { continue };
                budgeted = true;
                if spent + bound > limit {
                    return Funds::Denied(self.over_budget(
                        node,
                        at,
                        format!(
                            "the call may use {bound} {unit}, and {} of {limit} are left",
                            limit.saturating_sub(spent)
                        ),
                    ));
                }
                let reserved = if mutant::is(Mutant::ReservationIgnored) {
                    0
                } else {
                    reserved
                };
                wait |= spent + reserved + bound > limit;
            }
        }
        match (budgeted, wait) {
            (false, _) => Funds::Reserve(Usage::default()),
            (true, true) => Funds::Wait,
            (true, false) => Funds::Reserve(rendered.bound),
        }
    }

    /// A budget of money cannot be kept for a model whose price nobody knows.
    fn unpriced(&self, node: Node, at: Node, model: &str) -> Failure {
        let whose = self.whose(at);
        let message = format!(
            "the budget of {whose} is in dollars, and the price of model `{model}` was not known when the run started: \
             give it `prices` under its provider in ravel.toml (`providers.*.models.*.prices`), 0 if it costs nothing"
        );
        let mut failure =
            Failure::new(ErrorClass::BudgetExceeded, message).with_code(PRICE_UNKNOWN);
        failure.step = Some(self.state.path(node));
        failure
    }

    /// The owner of a budget, for messages.
    fn whose(&self, at: Node) -> String {
        let path = self.state.path(at);
        if path.is_empty() {
            "the flow".to_owned()
        } else {
            format!("`{path}`")
        }
    }

    pub(super) fn over_budget(&self, node: Node, at: Node, message: String) -> Failure {
        let whose = self.whose(at);
        let mut failure = Failure::new(
            ErrorClass::BudgetExceeded,
            format!("the budget of {whose} is used up: {message}"),
        );
        failure.step = Some(self.state.path(node));
        failure
    }

    /// Reservations were given back: whoever waits for budget tries again, in order of their activation.
    pub(super) fn budget_freed(&mut self) {
        let waiting: Vec<Node> = self.state.queued.iter().copied().collect();
        for node in waiting {
            if self.state.queued.contains(&node) && self.permits.get(&node) != Some(&Permit::Wished)
            {
                self.try_attempt(node);
            }
        }
    }

    pub(super) fn granted(&mut self, attempt: Attempt) {
        let wished = self.permits.get(&attempt.node) == Some(&Permit::Wished);
        if wished
            && self.next_attempt(attempt.node) == attempt
            && self.state.queued.contains(&attempt.node)
        {
            self.permits.insert(attempt.node, Permit::Held);
            self.try_attempt(attempt.node);
        } else {
            self.commands.push(Command::Release { attempt });
        }
    }

    pub(super) fn denied(&mut self, attempt: Attempt, mut failure: Failure) {
        let wished = self.permits.get(&attempt.node) == Some(&Permit::Wished);
        if wished && self.next_attempt(attempt.node) == attempt {
            self.permits.remove(&attempt.node);
            failure.step = failure.step.or_else(|| Some(self.state.path(attempt.node)));
            self.ladder(attempt.node, failure, true);
        }
    }

    /// A queued leaf goes on after a recovery: the same question again, or the next attempt.
    pub(super) fn resume_leaf(&mut self, node: Node) {
        if self.state.queued.contains(&node) && !self.is_stopping(node) {
            self.try_attempt(node);
        }
    }

    pub(super) fn is_stopping(&self, node: Node) -> bool {
        self.state
            .node(node)
            .extra
            .as_ref()
            .is_some_and(|extra| extra.stopping.is_some())
    }

    /// Ends attempts under way as lost, with what is known about them.
    pub(super) fn lose_attempts(
        &mut self,
        lost: fn(Failure) -> Outcome,
        message: &str,
        is_lost: impl Fn(&StepDef, &Flight) -> bool,
    ) {
        let graph = self.state.graph.clone();
        let flights: Vec<Node> = self.state.flights.iter().copied().collect();
        for node in flights {
            let flight = self
                .state
                .node(node)
                .extra
                .as_ref()
                .and_then(|extra| extra.flight.as_ref());
            let step = graph.step(self.state.node(node).step);
            let Some(number) = flight
                .filter(|flight| is_lost(step, flight))
                .map(|flight| flight.number)
            else {
                continue;
            };
            let outcome = lost(Failure::lost(message));
            self.finished(Attempt { node, number }, outcome);
            self.drain();
        }
    }

    pub(super) fn flight_number(&self, node: Node) -> Option<u32> {
        let extra = self.state.node(node).extra.as_ref()?;
        extra.flight.as_ref().map(|flight| flight.number)
    }

    /// An attempt ended.
    pub(super) fn finished(&mut self, attempt: Attempt, outcome: Outcome) {
        let Attempt { node, number } = attempt;
        if (node as usize) >= self.state.nodes.len() || self.flight_number(node) != Some(number) {
            return;
        }
        let flight = self
            .state
            .extra(node)
            .flight
            .clone()
            .expect("checked above");
        let Outcome {
            fate,
            result,
            usage,
            meta,
        } = outcome;
        let usage = if fate == Fate::Unknown && usage.is_zero() {
            flight.reserved
        } else {
            usage
        };
        let stopped = flight.stopping.map(|(why, _)| why);
        let error = result
            .as_ref()
            .err()
            .map(|failure| self.localise(node, failure.clone(), stopped));
        self.emit(Event::AttemptFinished {
            node,
            number,
            fate,
            error: error.clone(),
            usage,
            meta,
        });
        match (fate, result, error) {
            (Fate::Done, Ok(value), _) => self.attempt_done(node, flight.effect, stopped, value),
            (Fate::NotDone | Fate::Unknown, Ok(_), _) => {
                let mut failure = Failure::new(
                    ErrorClass::Internal,
                    "the executor gave a value for an effect that it does not vouch for",
                );
                failure.step = Some(self.state.path(node));
                self.attempt_failed(node, failure, false, stopped);
            }
            (Fate::Unknown, Err(_), Some(error)) if self.must_ask(flight.effect, stopped) => {
                self.uncertain(node, error, stopped);
            }
            (fate, Err(_), Some(error)) => {
                let repeatable = flight.effect != Effect::Once
                    || fate == Fate::NotDone
                    || mutant::is(Mutant::OnceRepeatedBlindly);
                if fate != Fate::NotDone && !mutant::is(Mutant::UnknownNotCompensated) {
                    self.arm(node, None);
                }
                self.attempt_failed(node, error, repeatable, stopped);
            }
            (_, Err(_), None) => unreachable!("a failed result has an error"),
        }
    }

    /// A `once` of unknown fate is never passed over; nor is a `write` that nobody will repeat.
    fn must_ask(&self, effect: Effect, stopped: Option<Stop>) -> bool {
        let cancelled = matches!(stopped, Some(Stop::Cancelled | Stop::Returned));
        let asks = effect == Effect::Once && !mutant::is(Mutant::OnceRepeatedBlindly);
        asks || (effect == Effect::Write && cancelled)
    }

    /// The class of an attempt that the engine stopped is why it was stopped.
    fn localise(&self, node: Node, mut failure: Failure, stopped: Option<Stop>) -> Failure {
        let lost = failure.is_lost();
        match stopped {
            Some(Stop::Timeout) if !lost => {
                let timeout = self
                    .state
                    .graph
                    .step(self.state.node(node).step)
                    .leaf
                    .timeout;
                failure.class = ErrorClass::Timeout;
                failure.message = format!(
                    "the attempt took longer than its timeout of {}",
                    super::super::span(timeout)
                )
                .into();
            }
            Some(Stop::Deadline) if !lost => failure.class = ErrorClass::Deadline,
            Some(Stop::Budget) if !lost => failure.class = ErrorClass::BudgetExceeded,
            Some(Stop::Cancelled | Stop::Returned) if !lost => {
                failure.class = ErrorClass::Cancelled
            }
            Some(_) | None => {}
        }
        failure.step = failure.step.or_else(|| Some(self.state.path(node)));
        failure
    }

    fn attempt_done(&mut self, node: Node, effect: Effect, stopped: Option<Stop>, value: Val) {
        self.arm(node, Some(&value));
        match stopped {
            Some(Stop::Cancelled | Stop::Returned) => match effect {
                // What was done is done: it counts, and can be compensated.
                Effect::Write | Effect::Once => self.succeed(node, Datum::Value(value)),
                Effect::Pure | Effect::Read => self.settle(node, crate::event::Settled::Cancelled),
            },
            Some(Stop::Timeout | Stop::Deadline | Stop::Budget) | None => {
                self.accept(node, Datum::Value(value))
            }
        }
    }

    /// An attempt failed, and its fate is known or does not matter.
    fn attempt_failed(
        &mut self,
        node: Node,
        failure: Failure,
        repeatable: bool,
        stopped: Option<Stop>,
    ) {
        match stopped {
            Some(Stop::Cancelled | Stop::Returned) => {
                return self.settle(node, crate::event::Settled::Cancelled);
            }
            Some(Stop::Deadline | Stop::Budget) => return self.fail_finally(node, failure),
            Some(Stop::Timeout) | None => {}
        }
        if failure.is_lost() && repeatable {
            // The engine's fault, not the step's: it does not count as a try.
            return self.try_attempt(node);
        }
        match self.retry_at(node, &failure).filter(|_| repeatable) {
            Some(at) => self.emit(Event::RetryScheduled {
                node,
                at,
                error: failure,
            }),
            None => self.ladder(node, failure, repeatable),
        }
    }

    /// When the next attempt may start, if the step's policy has one.
    fn retry_at(&self, node: Node, failure: &Failure) -> Option<Millis> {
        let step = self.state.graph.step(self.state.node(node).step);
        let retry = &step.leaf.retry;
        let extra = self.state.node(node).extra.as_deref()?;
        let wanted = match &retry.errors {
            Some(classes) => classes.contains(&failure.class),
            None => failure.class.is_transient(),
        };
        if !wanted || extra.tries >= retry.attempts {
            return None;
        }
        let doubled = retry
            .backoff_min
            .saturating_mul(1 << (extra.tries.saturating_sub(1)).min(32));
        let pause = match failure.retry_after_ms {
            Some(asked) if asked > self.state.terms.limits.retry_after_max_ms => return None,
            Some(asked) => asked.max(doubled.min(retry.backoff_max)),
            None => doubled.min(retry.backoff_max),
        };
        let at = self.state.now.saturating_add(pause);
        // A pause that outlasts the deadline is no pause but the end.
        let deadline = self.nearest_deadline(node);
        deadline.is_none_or(|deadline| at < deadline).then_some(at)
    }

    fn nearest_deadline(&self, node: Node) -> Option<Millis> {
        let mut nearest: Option<Millis> = None;
        let mut at = node;
        loop {
            if let Some(deadline) = self
                .state
                .node(at)
                .extra
                .as_ref()
                .and_then(|extra| extra.deadline)
            {
                nearest = Some(nearest.map_or(deadline, |nearest| nearest.min(deadline)));
            }
            if at == 0 {
                return nearest;
            }
            at = self.state.node(at).parent;
        }
    }

    /// A `once` that may or may not have happened. Comes before any rung of the ladder.
    fn uncertain(&mut self, node: Node, failure: Failure, stopped: Option<Stop>) {
        if let Some(why @ (Stop::Cancelled | Stop::Returned)) = stopped {
            // Whatever comes out of it, the step itself does not go on.
            self.emit(Event::Stopping { node, why });
        }
        let graph = self.state.graph.clone();
        let step = graph.step(self.state.node(node).step);
        match &step.leaf.on_uncertain {
            OnUncertain::Ask { deadline } => self.ask_uncertain(node, &failure, *deadline),
            OnUncertain::Fail => self.uncertain_fails(node, &failure),
            OnUncertain::Check(_) => self.emit(Event::CheckStarted { node }),
            OnUncertain::Retry => {
                let cancelled = matches!(stopped, Some(Stop::Cancelled | Stop::Returned));
                if cancelled {
                    self.ask_uncertain(node, &failure, None)
                } else {
                    // Whatever comes of the next attempt, this one may have taken place.
                    self.arm(node, None);
                    self.attempt_failed(node, failure, true, stopped)
                }
            }
        }
    }

    pub(super) fn uncertain_fails(&mut self, node: Node, failure: &Failure) {
        self.arm(node, None);
        let message = format!(
            "it is not known whether the effect took place: {}",
            failure.message
        );
        let mut uncertain = Failure::new(ErrorClass::Uncertain, message);
        uncertain.code = failure.code.clone();
        uncertain.step = failure.step.clone();
        uncertain.data = failure.data.clone();
        self.fail_finally(node, uncertain);
    }

    fn ask_uncertain(&mut self, node: Node, failure: &Failure, deadline: Option<Millis>) {
        let path = self.state.path(node);
        let limit = self.cut_by(node);
        let ask = format!(
            "Did `{path}` take place? Its effect is not known: {}{}",
            failure.message,
            limit.unwrap_or_default()
        );
        let question = self.state.question_id(node, Topic::Uncertain);
        let until = deadline.map(|deadline| self.state.now.saturating_add(deadline));
        self.emit(Event::Asked {
            node,
            path,
            question,
            topic: Topic::Uncertain,
            ask: ask.into(),
            form: super::people::uncertain_form(),
            to: None,
            until,
            level: 0,
        });
    }

    /// The limit of a scope around a step that cut it short: for the step itself that is a cancel like any other.
    fn cut_by(&self, node: Node) -> Option<String> {
        let mut scope = node;
        while scope != 0 {
            scope = self.state.node(scope).parent;
            let extra = self.state.node(scope).extra.as_ref();
            let limit = match extra.and_then(|extra| extra.stopping) {
                Some(Stop::Deadline) => "the deadline",
                Some(Stop::Budget) => "the budget",
                Some(Stop::Timeout) => "the timeout",
                Some(Stop::Cancelled | Stop::Returned) | None => continue,
            };
            let whose = match &*self.state.path(scope) {
                "" => "the run".to_owned(),
                path => format!("`{path}`"),
            };
            return Some(format!(" ({limit} of {whose} passed)"));
        }
        None
    }

    /// The check of an uncertain effect ended.
    pub(super) fn checked(&mut self, node: Node, check: Node) {
        let value = self.state.node(check).value.clone();
        let failure = self.state.extra(node).uncertain.clone();
        let Some(failure) = failure else { return };
        let happened = value
            .as_ref()
            .and_then(|value| value.get_path(&["happened"]))
            .and_then(serde_json::Value::as_bool);
        match happened {
            Some(true) => {
                let output = value
                    .as_ref()
                    .and_then(|value| value.get_path(&["output"]).cloned());
                self.happened(node, output.unwrap_or_default().into());
            }
            Some(false) => self.did_not_happen(node, failure, None),
            // The world does not say: a person has to.
            None => self.ask_uncertain(node, &failure, None),
        }
    }

    /// An uncertain effect took place.
    pub(super) fn happened(&mut self, node: Node, output: Val) {
        self.arm(node, Some(&output));
        if self.is_stopping(node) {
            self.succeed(node, Datum::Value(output));
        } else {
            self.accept(node, Datum::Value(output));
        }
    }

    /// An uncertain effect did not take place. `again`: a person said to try again (or not to).
    pub(super) fn did_not_happen(&mut self, node: Node, failure: Failure, again: Option<bool>) {
        if self.is_stopping(node) {
            return self.settle(node, crate::event::Settled::Cancelled);
        }
        match again {
            Some(true) => self.try_attempt(node),
            Some(false) => self.ladder(node, failure, true),
            None => self.attempt_failed(node, failure, true, None),
        }
    }

    /// Fixes the arguments of a compensation, once an effect took place or may have. `output` is absent when the step
    /// gave no value.
    pub(super) fn arm(&mut self, node: Node, output: Option<&Val>) {
        let graph = self.state.graph.clone();
        let Some(compensate) = self.state.written(node).compensate else {
            return;
        };
        let overlay = crate::run::env::Overlay {
            output: output.cloned(),
            ..Default::default()
        };
        let env = Env::of(self.state, node).with(overlay);
        // A request that cannot be rendered becomes a question to a person when its time comes.
        let request = super::super::request::request(&env, graph.step(compensate)).ok();
        let request =
            request.map(|request| serde_json::to_value(request).expect("requests are plain data"));
        self.emit(Event::Armed {
            node,
            request: Val::new(request.unwrap_or_default()),
        });
    }
}
