//! From a value to a success (contract, gates), and from a failure down the ladder.

use std::sync::Arc;

use super::Turning;
use crate::effect::{ErrorClass, Failure};
use crate::event::{Datum, Event, Node, Settled, Slot as ValueSlot};
use crate::expr::EvalError;
use crate::graph::{Gate, Kind};
use crate::run::env::{Env, Overlay, failure_value};
use crate::run::state::{Phase, Role, Undo};
use crate::value::Val;

impl Turning<'_> {
    /// A step (or the flow) has a value: contract, gates, `finally`, success.
    pub(super) fn accept(&mut self, node: Node, datum: Datum) {
        let datum = match self.keep_contract(node, datum) {
            Ok(datum) => datum,
            Err((failure, output)) => return self.refuse_value(node, failure, output),
        };
        if !self.has_later(node) {
            return match self.sync_gates(node, &datum) {
                Ok(()) => self.finish_success(node, datum),
                Err(failure) => {
                    let output = self.state.resolve(&datum);
                    self.refuse_value(node, failure, output);
                }
            };
        }
        self.emit(Event::Produced { node, value: datum });
        self.next_gate(node);
    }

    /// True when something takes time between the value and the success.
    fn has_later(&self, node: Node) -> bool {
        let finally = self.state.finally_of(node).is_some();
        finally
            || self
                .gates(node)
                .iter()
                .any(|gate| matches!(gate, Gate::Run(_) | Gate::Judge(_)))
    }

    fn gates(&self, node: Node) -> &[Gate] {
        match self.state.node(node).role {
            Role::Step => &self.state.written(node).gates,
            Role::Root(_) | Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => {
                &[]
            }
        }
    }

    /// Holds a value to its contracts; gives the value with defaults filled in.
    fn keep_contract(&self, node: Node, datum: Datum) -> Result<Datum, (Failure, Val)> {
        let graph = self.state.graph.clone();
        let activation = self.state.node(node);
        let mut datum = datum;
        match activation.role {
            Role::Root(flow) => {
                if let Some(returns) = &graph.flow(flow).returns {
                    datum = self.hold(node, returns, datum)?;
                }
            }
            Role::Step => {
                let step = graph.step(activation.step);
                if let Kind::Flow(call) = &step.kind
                    && let Some(returns) = &graph.flow(call.flow).returns
                {
                    datum = self.hold(node, returns, datum)?;
                }
                if let Some(returns) = &self.state.written(node).returns {
                    datum = match &step.kind {
                        Kind::Run(_) => self.hold_json(node, returns, datum)?,
                        _ => self.hold(node, returns, datum)?,
                    };
                }
            }
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => {}
        }
        Ok(datum)
    }

    fn hold(
        &self,
        node: Node,
        returns: &crate::types::Type,
        datum: Datum,
    ) -> Result<Datum, (Failure, Val)> {
        let value = self.state.resolve(&datum);
        match returns.accepts(&value) {
            Ok(held) if held == value => Ok(datum),
            Ok(held) => Ok(Datum::Value(held)),
            Err(problems) => Err((self.breach(node, &problems), value)),
        }
    }

    /// The contract of a `run` is about what it printed.
    fn hold_json(
        &self,
        node: Node,
        returns: &crate::types::Type,
        datum: Datum,
    ) -> Result<Datum, (Failure, Val)> {
        let value = self.state.resolve(&datum);
        let printed = Val::new(value.get_path(&["json"]).cloned().unwrap_or_default());
        match returns.accepts(&printed) {
            Ok(held) if held == printed => Ok(datum),
            Ok(held) => {
                let mut whole = value.into_json();
                whole["json"] = held.into_json();
                Ok(Datum::Value(whole.into()))
            }
            Err(problems) => Err((self.breach(node, &problems), value)),
        }
    }

    fn breach(&self, node: Node, problems: &[crate::types::Violation]) -> Failure {
        let message = crate::run::value_problems("the value", problems);
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let mut failure =
            Failure::new(ErrorClass::InvalidOutput, message).with_data(serde_json::json!(texts));
        failure.step = Some(self.state.path(node));
        failure
    }

    /// Gates that are decided at once.
    fn sync_gates(&mut self, node: Node, datum: &Datum) -> Result<(), Failure> {
        if self.gates(node).is_empty() {
            return Ok(());
        }
        let value = self.state.resolve(datum);
        for gate in 0..self.gates(node).len() {
            self.judge_sync(node, gate, &value)?;
        }
        Ok(())
    }

    fn judge_sync(&mut self, node: Node, gate: usize, value: &Val) -> Result<(), Failure> {
        let overlay = Overlay {
            output: Some(value.clone()),
            ..Overlay::default()
        };
        let (pass, said) = match &self.gates(node)[gate] {
            Gate::Expr(expr) => match Env::of(self.state, node).with(overlay).eval_bool(expr) {
                Ok(pass) => (pass, format!("`{}` is false", expr.source())),
                Err(error) => (
                    false,
                    format!("`{}` cannot be evaluated: {error}", expr.source()),
                ),
            },
            Gate::Schema(schema) => match schema.accepts(value) {
                Ok(_) => (true, String::new()),
                Err(problems) => (false, crate::run::value_problems("the value", &problems)),
            },
            Gate::Run(_) | Gate::Judge(_) => return Ok(()),
        };
        let verdict = (!pass).then(|| Val::new(said.clone().into()));
        self.emit(Event::GateJudged {
            node,
            gate: gate as u32,
            pass,
            verdict: verdict.clone(),
        });
        if pass {
            Ok(())
        } else {
            Err(self.gate_failure(node, gate, said, verdict))
        }
    }

    fn gate_failure(&self, node: Node, gate: usize, said: String, verdict: Option<Val>) -> Failure {
        let mut failure =
            Failure::new(ErrorClass::GateFailed, said).with_code(format!("gate[{gate}]"));
        failure.data = verdict;
        failure.step = Some(self.state.path(node));
        failure
    }

    /// The next gate of a candidate, in order; after the last one the step goes on to its success.
    fn next_gate(&mut self, node: Node) {
        loop {
            let extra = self.state.extra(node);
            let gate = extra.gates_passed as usize;
            let value = extra.candidate.clone().unwrap_or_default();
            match self.gates(node).get(gate) {
                None => return self.conclude(node),
                Some(Gate::Run(_) | Gate::Judge(_)) => {
                    return self.emit(Event::GateStarted {
                        node,
                        gate: gate as u32,
                    });
                }
                Some(Gate::Expr(_) | Gate::Schema(_)) => {
                    if let Err(failure) = self.judge_sync(node, gate, &value) {
                        return self.refuse_value(node, failure, value);
                    }
                }
            }
        }
    }

    /// A gate that is a leaf ended.
    pub(super) fn gate_ended(&mut self, node: Node, leaf: Node, gate: u32) {
        let state = self.state.settled(leaf);
        let value = self.state.node(leaf).value.clone();
        let error = self
            .state
            .node(leaf)
            .extra
            .as_ref()
            .and_then(|extra| extra.error.clone());
        if self.is_stopping(node) {
            return self.conclude(node);
        }
        let is_judge = matches!(self.gates(node)[gate as usize], Gate::Judge(_));
        let output = self.state.extra(node).candidate.clone().unwrap_or_default();
        let (pass, verdict, failure) = match (state, value, error) {
            (Some(Settled::Succeeded), Some(value), _) if is_judge => {
                let pass = value
                    .get_path(&["pass"])
                    .and_then(serde_json::Value::as_bool)
                    .unwrap_or(false);
                let reason = value
                    .get_path(&["reason"])
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or("the judge said no");
                let failure = (!pass).then(|| {
                    self.gate_failure(node, gate as usize, reason.to_owned(), Some(value.clone()))
                });
                (pass, Some(value), failure)
            }
            (Some(Settled::Succeeded), _, _) => (true, None, None),
            (_, _, Some(error)) if error.class == ErrorClass::ToolError => {
                let verdict = Val::new(failure_value(&error));
                let failure = self.gate_failure(
                    node,
                    gate as usize,
                    error.message.to_string(),
                    Some(verdict.clone()),
                );
                (false, Some(verdict), Some(failure))
            }
            // A judge that cannot be asked says nothing about the value: the step fails as the judge did.
            (_, _, error) => {
                let failure = error.unwrap_or_else(|| match state {
                    // Somebody cancelled the gate alone: the value was never accepted.
                    Some(Settled::Cancelled) => {
                        Failure::new(ErrorClass::Cancelled, "its gate was cancelled")
                    }
                    _ => Failure::new(ErrorClass::GateFailed, "the gate did not run"),
                });
                (
                    false,
                    Some(Val::new(failure_value(&failure))),
                    Some(failure),
                )
            }
        };
        self.emit(Event::GateJudged {
            node,
            gate,
            pass,
            verdict,
        });
        match failure {
            None => self.next_gate(node),
            Some(failure) => self.refuse_value(node, failure, output),
        }
    }

    /// A value did not do: repair, or down the ladder.
    fn refuse_value(&mut self, node: Node, failure: Failure, output: Val) {
        let repairable = matches!(
            failure.class,
            ErrorClass::GateFailed | ErrorClass::InvalidOutput
        );
        let used = self
            .state
            .node(node)
            .extra
            .as_ref()
            .map_or(0, |extra| extra.repairs);
        let allowed = match self.state.node(node).role {
            Role::Step => self.state.written(node).repair,
            Role::Root(_) | Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => 0,
        };
        if repairable && used < allowed && self.may_repeat(node) {
            let (round, output) = (used + 1, Some(output));
            self.emit(Event::RepairStarted {
                node,
                round,
                error: failure,
                output,
            });
            return self.open(node);
        }
        let repeatable = self.may_repeat(node);
        self.ladder(node, failure, repeatable);
    }

    /// A done `once` is never done again.
    fn may_repeat(&self, node: Node) -> bool {
        let activation = self.state.node(node);
        if activation.role != Role::Step {
            return true;
        }
        let step = self.state.graph.step(activation.step);
        let is_effect = matches!(step.kind, Kind::Model(_) | Kind::Tool(_) | Kind::Run(_));
        !(is_effect && step.leaf.effect == crate::effect::Effect::Once)
    }

    /// A value passed everything.
    pub(super) fn finish_success(&mut self, node: Node, datum: Datum) {
        let armed_already = self.is_leaf(node) && !self.is_plain(node);
        if !armed_already
            && self.state.node(node).role == Role::Step
            && self.state.written(node).compensate.is_some()
        {
            let value = self.state.resolve(&datum);
            self.arm(node, Some(&value));
        }
        self.succeed(node, datum);
    }

    /// Leaves without an attempt of their own.
    fn is_plain(&self, node: Node) -> bool {
        let kind = &self.state.graph.step(self.state.node(node).step).kind;
        matches!(
            kind,
            Kind::Human(_) | Kind::Wait(_) | Kind::Set(_) | Kind::Return(_) | Kind::Fail(_)
        )
    }

    /// Down the ladder after retries: fallback, then what [`Turning::fail_finally`] does.
    pub(super) fn ladder(&mut self, node: Node, failure: Failure, repeatable: bool) {
        if self.is_leaf(node) && !self.is_stopping(node) && repeatable {
            let used = self
                .state
                .node(node)
                .extra
                .as_ref()
                .map_or(0, |extra| extra.fallbacks);
            if (used as usize) < self.state.written(node).fallback.len() {
                self.permits.remove(&node);
                self.emit(Event::FallbackStarted {
                    node,
                    index: used,
                    error: failure,
                });
                return self.open(node);
            }
        }
        self.fail_finally(node, failure);
    }

    /// No further try: cleans up, then `catch`, then the failure.
    pub(super) fn fail_finally(&mut self, node: Node, failure: Failure) {
        let activation = self.state.node(node);
        let is_simple = activation
            .extra
            .as_ref()
            .is_none_or(|extra| extra.failing.is_none())
            && activation.live == 0
            && self.catches(node).is_empty()
            && self.state.finally_of(node).is_none()
            && !self
                .state
                .armed
                .iter()
                .any(|armed| armed.node == node && armed.progress == Undo::Standing);
        if is_simple && self.is_leaf(node) {
            return self.fail(node, failure);
        }
        if activation.phase == Phase::Pending
            && !self.is_leaf(node)
            && self.catches(node).is_empty()
        {
            return self.fail(node, failure);
        }
        self.fail_scope(node, failure);
    }

    fn catches(&self, node: Node) -> &[crate::graph::Catch] {
        self.state.catches(node)
    }

    /// The last rungs: a `catch` entry that takes the failure, else the failure itself.
    pub(super) fn catch_or_fail(&mut self, node: Node, failure: Failure) {
        let found = self
            .catches(node)
            .iter()
            .position(|entry| match &entry.errors {
                Some(classes) => classes.contains(&failure.class),
                None => failure.class != ErrorClass::Cancelled,
            });
        let Some(index) = found else {
            return self.fail(node, failure);
        };
        self.emit(Event::Caught {
            node,
            index: index as u32,
            error: failure.clone(),
        });
        let graph = self.state.graph.clone();
        let entry = match self.state.node(node).role {
            Role::Root(flow) => &graph.flow(flow).catch[index],
            _ => &graph.step(self.state.written(node).id).catch[index],
        };
        if entry.body.is_some() {
            return;
        }
        let overlay = Overlay {
            error: Some(Val::new(failure_value(&failure))),
            ..Overlay::default()
        };
        let is_call = self.state.node(node).role == Role::Step && self.state.is_flow(node);
        // A call's own `catch` stands beside it: the steps of the flow that it calls are not to be seen there.
        let env = if is_call || self.is_leaf(node) {
            Env::of(self.state, node)
        } else {
            Env::inside(self.state, node)
        };
        let value = entry
            .output
            .as_ref()
            .map(|output| env.with(overlay).datum(output))
            .transpose();
        match value {
            Ok(value) => {
                self.caught_value(node, value.unwrap_or_else(|| Datum::Value(Val::null())))
            }
            Err(error) => {
                let failure = self.catch_broken(node, error);
                self.fail(node, failure);
            }
        }
    }

    fn catch_broken(&self, node: Node, error: EvalError) -> Failure {
        match error {
            EvalError::Absent { step } => {
                self.broken(node, "catch", &format!("step `{step}` did not run"))
            }
            EvalError::Failed { message, .. } => self.broken(node, "catch", &message),
        }
    }

    /// A handler's value is held to the step's contract.
    fn caught_value(&mut self, node: Node, datum: Datum) {
        match self.keep_caught(node, datum) {
            Ok(datum) => self.succeed(node, datum),
            Err((failure, _)) => self.fail(node, failure),
        }
    }

    fn keep_caught(&self, node: Node, datum: Datum) -> Result<Datum, (Failure, Val)> {
        let activation = self.state.node(node);
        if matches!(activation.role, Role::Root(_)) {
            return self.keep_contract(node, datum);
        }
        let Some(returns) = &self.state.written(node).returns else {
            return Ok(datum);
        };
        let is_run = matches!(self.state.graph.step(activation.step).kind, Kind::Run(_));
        if !is_run {
            return self.hold(node, returns, datum);
        }
        // A handler of a `run` may give the whole value or just what the process would have printed.
        let value = self.state.resolve(&datum);
        let whole = match value.get_path(&["json"]) {
            Some(_) => value,
            None => Val::new(serde_json::json!({ "json": value })),
        };
        self.hold_json(
            node,
            returns,
            Datum::Value(super::people::whole_run_value(whole)),
        )
    }

    /// A `catch` handler with steps ended.
    pub(super) fn handler_ended(&mut self, node: Node, handler: Node) {
        let error = self
            .state
            .node(handler)
            .extra
            .as_ref()
            .and_then(|extra| extra.error.clone());
        match self.state.settled(handler) {
            Some(Settled::Succeeded) => {
                let datum = Datum::Ref {
                    node: handler,
                    slot: ValueSlot::Value,
                    at: Vec::new(),
                };
                self.caught_value(node, datum);
            }
            Some(Settled::Failed) => {
                let failure = error
                    .unwrap_or_else(|| Failure::new(ErrorClass::Internal, "the handler failed"));
                self.fail(node, failure);
            }
            Some(Settled::Cancelled) => self.settle(node, Settled::Cancelled),
            Some(Settled::Skipped) | None => {
                let step: Arc<str> = self.state.path(handler);
                let failure = self.broken(node, "catch", &format!("`{step}` did not run"));
                self.fail(node, failure);
            }
        }
    }
}
