//! People and messages: questions, answers, waits, signals.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Turning;
use crate::effect::{ErrorClass, Failure, Millis};
use crate::event::{Datum, Event, Node, Reject, Topic};
use crate::expr::{EvalError, ValueTemplate};
use crate::graph::{Human, Kind, OnDeadline, Wait};
use crate::lang::formats;
use crate::mutant::{self, Mutant};
use crate::run::env::{Env, shared};
use crate::value::Val;

/// The answer to "did it happen?".
pub(super) fn uncertain_form() -> Val {
    json!({
        "type": "object",
        "properties": {
            "happened": { "type": "boolean", "description": "true: the effect took place" },
            "output": { "description": "the value of the step, when it happened" },
            "not_done": { "enum": ["retry", "fail"], "description": "it did not take place: try again, or fail" },
        },
        "additionalProperties": false,
    })
    .into()
}

/// The answer to "was it undone?".
pub(super) fn compensation_form() -> Val {
    json!({
        "type": "object",
        "properties": { "action": { "enum": ["done", "retry", "give_up"] } },
        "required": ["action"],
        "additionalProperties": false,
    })
    .into()
}

fn invalid(message: impl Into<String>) -> Reject {
    Reject {
        code: "invalid_answer",
        message: message.into(),
    }
}

impl Turning<'_> {
    pub(super) fn open_human(&mut self, node: Node, human: &Human) {
        let env = Env::of(self.state, node);
        let ask = env.text(&human.ask);
        let to = human.to.as_ref().map(|to| env.render(to)).transpose();
        match (ask, to) {
            (Ok(ask), Ok(to)) => self.ask(
                node,
                ask,
                human.form.schema().clone().into(),
                to,
                human.deadline,
                0,
            ),
            (Err(error), _) => self.not_evaluated(node, "ask", error),
            (_, Err(error)) => self.not_evaluated(node, "to", error),
        }
    }

    fn ask(
        &mut self,
        node: Node,
        ask: String,
        form: Val,
        to: Option<String>,
        deadline: Option<Millis>,
        level: u32,
    ) {
        self.emit(Event::Asked {
            node,
            path: self.state.path(node),
            question: self.state.question_id(node, Topic::Human),
            topic: Topic::Human,
            ask: shared(ask),
            form,
            to: to.map(shared),
            until: deadline.map(|deadline| self.state.now.saturating_add(deadline)),
            level,
        });
    }

    /// An answer arrived.
    pub(super) fn answer(
        &mut self,
        question: &Arc<str>,
        value: Val,
        by: Option<Arc<str>>,
    ) -> Result<(), Reject> {
        let Some(open) = self.state.questions.get(question).cloned() else {
            let message =
                format!("no question `{question}` is open: it was answered, or its step is over");
            return Err(Reject {
                code: "unknown_question",
                message,
            });
        };
        match open.topic {
            Topic::Human => self.answer_human(open.node, question, &value, by),
            Topic::Uncertain => self.answer_uncertain(open.node, question, value, by),
            Topic::Compensation => self.answer_compensation(open.node, question, value, by),
        }
    }

    fn answered(&mut self, node: Node, question: &Arc<str>, value: Val, by: Option<Arc<str>>) {
        self.emit(Event::Answered {
            question: question.clone(),
            node,
            value,
            by,
        });
    }

    fn answer_human(
        &mut self,
        node: Node,
        question: &Arc<str>,
        value: &Val,
        by: Option<Arc<str>>,
    ) -> Result<(), Reject> {
        let graph = self.state.graph.clone();
        let Kind::Human(human) = &graph.step(self.state.node(node).step).kind else {
            unreachable!("a human question belongs to a human step")
        };
        let held = match human.form.accepts(value) {
            Err(_) if mutant::is(Mutant::AnswerUnchecked) => value.clone(),
            held => held
                .map_err(|problems| invalid(crate::run::value_problems("the answer", &problems)))?,
        };
        self.answered(node, question, held.clone(), by);
        self.accept(node, Datum::Value(held));
        Ok(())
    }

    fn answer_uncertain(
        &mut self,
        node: Node,
        question: &Arc<str>,
        value: Val,
        by: Option<Arc<str>>,
    ) -> Result<(), Reject> {
        let Value::Object(fields) = value.json() else {
            return Err(invalid(
                "the answer must be `happened: true` with an `output`, or `not_done: retry` or `fail`",
            ));
        };
        let unknown = fields
            .keys()
            .find(|key| !["happened", "output", "not_done"].contains(&key.as_str()));
        if let Some(key) = unknown {
            return Err(invalid(format!(
                "the answer has no field `{key}`; it has `happened`, `output`, `not_done`"
            )));
        }
        let failure = self
            .state
            .extra(node)
            .uncertain
            .clone()
            .expect("an uncertain question has a failure");
        match (fields.get("happened"), fields.get("not_done")) {
            (Some(Value::Bool(true)), None) => {
                let output = self.presumed_output(node, fields.get("output"))?;
                self.answered(node, question, value, by);
                self.happened(node, output);
            }
            (None | Some(Value::Bool(false)), Some(Value::String(then)))
                if then == "retry" || then == "fail" =>
            {
                let again = then == "retry";
                self.answered(node, question, value, by);
                self.did_not_happen(node, failure, Some(again));
            }
            _ => {
                return Err(invalid(
                    "say either `happened: true` (with the `output`, if it is read) or `not_done: retry` or `not_done: fail`",
                ));
            }
        }
        Ok(())
    }

    /// The value of an effect that a person vouches for, held to what the step gives before it is taken.
    fn presumed_output(&self, node: Node, output: Option<&Value>) -> Result<Val, Reject> {
        let step = self.state.graph.step(self.state.node(node).step);
        let is_run = matches!(step.kind, Kind::Run(_));
        let returns = &self.state.written(node).returns;
        let Some(output) = output else {
            if let Some(reader) = self.reader(node) {
                let message = format!("{reader} reads the value of the step: say `output` too");
                return Err(invalid(message));
            }
            return match returns {
                Some(_) => Err(invalid(
                    "the step has a type for its value: say `output` too",
                )),
                None => Ok(Val::null()),
            };
        };
        let value = Val::new(output.clone());
        let problems = if is_run {
            run_value(returns.as_ref()).accepts(&value).err()
        } else {
            returns
                .as_ref()
                .and_then(|returns| returns.accepts(&value).err())
        };
        match problems {
            None if is_run => Ok(whole_run_value(value)),
            None => Ok(value),
            Some(problems) => Err(invalid(crate::run::value_problems(
                "the `output` of the answer",
                &problems,
            ))),
        }
    }

    /// Who reads the value of a step: a sibling, something inside one, or the output of the scope.
    fn reader(&self, node: Node) -> Option<String> {
        let activation = self.state.node(node);
        let body = self
            .state
            .graph
            .body(self.state.body_of(activation.parent)?);
        let reads = |step: &&crate::graph::StepDef| {
            step.deps
                .iter()
                .any(|dep| dep.on == activation.position && dep.how != crate::graph::DepKind::After)
        };
        let siblings = body.dependents.get(activation.position as usize)?;
        let siblings = siblings
            .iter()
            .map(|at| self.state.graph.step(body.steps[*at as usize]));
        if let Some(reader) = siblings
            .filter(|step| reads(step))
            .map(|step| format!("`{}`", step.name))
            .next()
        {
            return Some(reader);
        }
        let name = &self.state.graph.step(activation.step).name;
        let shown = match &body.output {
            Some(output) => output
                .refs()
                .iter()
                .any(|reference| *reference.root == **name),
            None => body.steps.len() == 1 && activation.parent != 0,
        };
        shown.then(|| "the output".to_owned())
    }

    fn answer_compensation(
        &mut self,
        node: Node,
        question: &Arc<str>,
        value: Val,
        by: Option<Arc<str>>,
    ) -> Result<(), Reject> {
        let action = value
            .get_path(&["action"])
            .and_then(Value::as_str)
            .map(str::to_owned);
        match action.as_deref() {
            Some("done" | "give_up") => {
                self.answered(node, question, value, by);
                self.emit(Event::CompensationFinished {
                    node,
                    done: action.as_deref() == Some("done"),
                });
                self.conclude_outwards(node);
            }
            Some("retry") => {
                self.answered(node, question, value, by);
                self.emit(Event::CompensationStarted { node });
            }
            _ => return Err(invalid("`action` must be `done`, `retry` or `give_up`")),
        }
        Ok(())
    }

    /// Nobody answered in time.
    pub(super) fn question_over(&mut self, node: Node) {
        let question = self
            .state
            .extra(node)
            .question
            .clone()
            .expect("the timer belongs to an open question");
        let open = self.state.questions[&question].clone();
        if open.topic != Topic::Human {
            let failure = self.state.extra(node).uncertain.clone();
            self.answered(node, &question, Val::null(), None);
            if let Some(failure) = failure {
                self.uncertain_fails(node, &failure);
            }
            return;
        }
        let graph = self.state.graph.clone();
        let Kind::Human(human) = &graph.step(self.state.node(node).step).kind else {
            unreachable!("a human question belongs to a human step")
        };
        let Some(rung) = human.escalate.get(open.level as usize) else {
            self.answered(node, &question, Val::null(), None);
            return self.on_deadline(
                node,
                &human.on_deadline,
                "nobody answered",
                Some(&human.form),
            );
        };
        let env = Env::of(self.state, node);
        let ask = rung
            .ask
            .as_ref()
            .map_or_else(|| Ok(open.ask.to_string()), |ask| env.text(ask));
        let to = rung.to.as_ref().map(|to| env.render(to)).transpose();
        match (ask, to) {
            (Ok(ask), Ok(to)) => self.ask(node, ask, open.form, to, rung.deadline, open.level + 1),
            (Err(error), _) | (_, Err(error)) => {
                self.answered(node, &question, Val::null(), None);
                self.not_evaluated(node, "escalate", error);
            }
        }
    }

    fn on_deadline(
        &mut self,
        node: Node,
        then: &OnDeadline,
        what: &str,
        form: Option<&crate::types::Type>,
    ) {
        match then {
            OnDeadline::Fail => {
                let mut failure =
                    Failure::new(ErrorClass::Deadline, format!("{what} before the deadline"));
                failure.step = Some(self.state.path(node));
                self.ladder(node, failure, true);
            }
            OnDeadline::Answer(template) => match Env::of(self.state, node).value(template) {
                Ok(value) => match form.map_or(Ok(value.clone()), |form| form.accepts(&value)) {
                    Ok(held) => self.accept(node, Datum::Value(held)),
                    Err(problems) => {
                        let message =
                            crate::run::value_problems("the value of `on_deadline`", &problems);
                        let failure = self.broken(node, "on_deadline", &message);
                        self.ladder(node, failure, false);
                    }
                },
                Err(error) => self.not_evaluated(node, "on_deadline", error),
            },
        }
    }

    pub(super) fn open_wait(&mut self, node: Node, wait: &Wait) {
        let (until, signal) = match wait {
            Wait::For(span) => (self.time(node, span, true), None),
            Wait::Until(time) => (self.time(node, time, false), None),
            Wait::Signal { name, deadline, .. } => (
                Ok(deadline.map(|deadline| self.state.now.saturating_add(deadline))),
                Some(name.clone()),
            ),
        };
        match until {
            Ok(until) => self.emit(Event::WaitStarted {
                node,
                until,
                signal,
            }),
            Err(error) => self.not_evaluated(node, "wait", error),
        }
    }

    fn time(
        &self,
        node: Node,
        template: &ValueTemplate,
        is_span: bool,
    ) -> Result<Option<Millis>, EvalError> {
        let value = Env::of(self.state, node).value(template)?;
        let time = if is_span {
            formats::span(value.json())
        } else {
            formats::instant(value.json())
        };
        let time = time.map_err(|message| EvalError::Failed {
            message,
            offset: 0,
            pointer: String::new(),
        })?;
        Ok(Some(if is_span {
            self.state.now.saturating_add(time)
        } else {
            time
        }))
    }

    /// The time of a `wait` is over.
    pub(super) fn wait_over(&mut self, node: Node) {
        let graph = self.state.graph.clone();
        let Kind::Wait(wait) = &graph.step(self.state.node(node).step).kind else {
            unreachable!("the timer belongs to a `wait`")
        };
        match wait {
            Wait::For(_) | Wait::Until(_) => self.accept(node, Datum::Value(Val::null())),
            Wait::Signal {
                name, on_deadline, ..
            } => {
                let what = format!("no message arrived in `{name}`");
                self.on_deadline(node, on_deadline, &what, graph_signal(&graph, name));
            }
        }
    }

    /// A message for an inbox.
    pub(super) fn signal(
        &mut self,
        name: Arc<str>,
        value: &Val,
        id: Option<Arc<str>>,
    ) -> Result<(), Reject> {
        if self.state.nodes.is_empty() || self.state.settled(0).is_some() {
            return Err(Reject {
                code: "already_settled",
                message: "the run is over".to_owned(),
            });
        }
        let graph = self.state.graph.clone();
        let Some(kind) = graph_signal(&graph, &name) else {
            let known: Vec<&str> = graph
                .flows
                .iter()
                .flat_map(|flow| flow.signals.keys())
                .map(|name| &**name)
                .collect();
            let message = format!(
                "the flow has no signal `{name}`; it has: {}",
                if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                }
            );
            return Err(Reject {
                code: "unknown_signal",
                message,
            });
        };
        if let Some(id) = &id
            && !mutant::is(Mutant::SignalTwice)
            && self
                .state
                .seen_signals
                .contains(&(name.clone(), id.clone()))
        {
            return Ok(());
        }
        let most = self.state.terms.limits.inbox_max as usize;
        if self
            .state
            .inbox
            .get(&name)
            .is_some_and(|queue| queue.len() >= most)
        {
            let message = format!("{most} messages wait in `{name}` already (inbox_max)");
            return Err(Reject {
                code: "inbox_full",
                message,
            });
        }
        let value = kind.accepts(value).map_err(|problems| Reject {
            code: "invalid_signal",
            message: crate::run::value_problems("the message", &problems),
        })?;
        self.emit(Event::SignalReceived { name, value, id });
        Ok(())
    }

    /// Hands each message to the oldest wait of its inbox.
    pub(super) fn deliver_mail(&mut self) {
        let names: Vec<Arc<str>> = self
            .state
            .waiting
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            loop {
                let has_mail = self
                    .state
                    .inbox
                    .get(&name)
                    .is_some_and(|queue| !queue.is_empty());
                let waiter = self
                    .state
                    .waiting
                    .get(&name)
                    .and_then(|queue| queue.front().copied());
                let (true, Some(node)) = (has_mail, waiter) else {
                    break;
                };
                self.emit(Event::SignalTaken {
                    node,
                    name: name.clone(),
                });
                let value = self.state.extra(node).message.clone().unwrap_or_default();
                self.accept(node, Datum::Value(value));
            }
        }
    }
}

/// The type of what a `run` gives.
fn run_value(returns: Option<&crate::types::Type>) -> crate::types::Type {
    use crate::types::Type;
    let json = returns.map(|returns| ("json", returns.clone(), true));
    let fields = [
        ("code", Type::integer(), false),
        ("stdout", Type::string(), false),
        ("stderr", Type::string(), false),
        ("files", Type::object(), false),
    ];
    Type::fields(fields.into_iter().chain(json))
}

/// The value of a `run` that was not made by a process, with what every `run` gives filled in.
pub(super) fn whole_run_value(value: Val) -> Val {
    let mut whole = json!({ "code": 0, "stdout": "", "stderr": "", "files": {} });
    if let (Value::Object(whole), Value::Object(given)) = (&mut whole, value.into_json()) {
        whole.extend(given);
    }
    whole.into()
}

fn graph_signal<'g>(graph: &'g crate::graph::Graph, name: &str) -> Option<&'g crate::types::Type> {
    graph.flows.iter().find_map(|flow| flow.signals.get(name))
}
