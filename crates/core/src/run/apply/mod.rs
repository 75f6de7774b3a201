//! Folding events into the state: the one place where a run's state changes, live and in replay alike.

mod look;
mod money;
mod settle;
pub(in crate::run) mod stream;
mod tree;
mod waits;

use std::sync::Arc;

use super::state::{
    Activation, Last, Mail, NOBODY, Open, Phase, Role, Slot, State, Task, Timer, Undo,
};
use crate::event::{Datum, Event, Node, Slot as ValueSlot, Topic};
use crate::graph::{Gate, OnUncertain, StepId};
use crate::mutant::{self, Mutant};
use crate::value::Val;

impl State {
    /// Folds one event.
    ///
    /// # Panics
    /// When the event cannot follow this state: a broken log must stop the run, loudly.
    pub(in crate::run) fn apply(&mut self, event: &Event) {
        match event {
            Event::RunStarted {
                semantics: _,
                run,
                graph,
                input,
                terms,
            } => {
                self.run_started(run, graph, input, terms);
            }
            Event::Forked { run, from, turn } => self.forked(run, from, *turn),
            Event::Opened {
                node,
                path: _,
                with,
                keys,
                case,
            } => {
                self.opened(*node, with.as_ref(), keys.as_deref(), *case);
            }
            Event::Streamed { node, field, items } => self.streamed(*node, field, items),
            Event::ItemsTaken { node, at, keys } => self.items_taken(*node, at, keys.as_deref()),
            Event::StreamEnded {
                node,
                with,
                at,
                keys,
            } => self.stream_ended(*node, with, at, keys.as_deref()),
            Event::RoundStarted { node, carry } => self.round_started(*node, carry),
            Event::AttemptStarted {
                node,
                path: _,
                number,
                effect,
                reserved,
            } => {
                self.attempt_started(*node, *number, *effect, *reserved);
            }
            Event::AttemptStopping { node, why } => self.attempt_stopping(*node, *why),
            Event::AttemptFinished {
                node,
                number,
                fate,
                error,
                usage,
                meta: _,
            } => {
                self.attempt_finished(*node, *number, *fate, error.as_ref(), *usage);
            }
            Event::Produced { node, value } => {
                let value = self.resolve(value);
                self.queued.remove(node);
                let extra = self.extra(*node);
                extra.candidate = Some(value);
                extra.gates_passed = 0;
            }
            Event::RetryScheduled { node, at, error } => {
                self.queued.remove(node);
                let extra = self.extra(*node);
                extra.retry_at = Some(*at);
                extra.error = Some(error.clone());
                self.timers.insert((*at, *node, Timer::Retry));
            }
            Event::GateStarted { node, gate } => {
                let step = match &self.written(*node).gates[*gate as usize] {
                    Gate::Run(step) | Gate::Judge(step) => *step,
                    Gate::Expr(_) | Gate::Schema(_) => unreachable!("only leaves are started"),
                };
                self.add_hidden(*node, Role::Step, Slot::Gate(*gate), step);
            }
            Event::CheckStarted { node } => {
                let activation = self.node(*node);
                let OnUncertain::Check(step) = self.graph.step(activation.step).leaf.on_uncertain
                else {
                    unreachable!("only a step with a check is checked")
                };
                let attempt = activation.extra.as_ref().map_or(0, |extra| extra.attempts);
                self.add_hidden(*node, Role::Step, Slot::Check(attempt), step);
            }
            Event::GateJudged {
                node,
                gate,
                pass,
                verdict: _,
            } => {
                let extra = self.extra(*node);
                if *pass {
                    extra.gates_passed = gate + 1;
                }
            }
            Event::RepairStarted {
                node,
                round,
                error,
                output,
            } => {
                self.again(*node, Last::from_failure(error, output.clone()));
                self.extra(*node).repairs = *round;
            }
            Event::FallbackStarted { node, index, error } => {
                self.fallback_started(*node, *index, error)
            }
            Event::Caught { node, index, error } => self.caught(*node, *index, error),
            Event::WaitStarted {
                node,
                until,
                signal,
            } => self.wait_started(*node, *until, signal.as_ref()),
            Event::Asked {
                node,
                path: _,
                question,
                topic,
                ask,
                form,
                to,
                until,
                level,
            } => {
                self.queued.remove(node);
                let open = Open {
                    node: *node,
                    topic: *topic,
                    ask: ask.clone(),
                    form: form.clone(),
                    to: to.clone(),
                    asked: self.now,
                    until: *until,
                    level: *level,
                };
                self.asked(question, open);
            }
            Event::Answered {
                question,
                node,
                value: _,
                by: _,
            } => self.answered(*node, question),
            Event::SignalReceived { name, value, id } => {
                self.inbox.entry(name.clone()).or_default().push_back(Mail {
                    value: value.clone(),
                });
                if let Some(id) = id {
                    self.seen_signals.insert((name.clone(), id.clone()));
                }
                self.agenda.push_back(Task::Mail);
            }
            Event::SignalTaken { node, name } => {
                let mail = self.inbox.get_mut(name).and_then(|queue| queue.pop_front());
                if let Some(queue) = self.waiting.get_mut(name) {
                    queue.retain(|waiter| waiter != node);
                }
                self.extra(*node).message = mail.map(|mail| mail.value);
            }
            Event::Failing { node, error } => {
                self.begin(*node);
                self.queued.remove(node);
                self.cut_intake(*node);
                self.extra(*node).failing = Some(error.clone());
                self.agenda.push_back(Task::Conclude(*node));
            }
            Event::Stopping { node, why } => {
                self.drop_deadline(*node);
                self.cut_intake(*node);
                self.extra(*node).stopping = Some(*why);
                self.agenda.push_back(Task::Conclude(*node));
            }
            Event::Returned { node, value } => {
                let value = self.resolve(value);
                self.extra(*node).returned = Some(value);
            }
            Event::FinallyStarted { node } => self.add_block(*node, Role::Finally, Slot::Finally),
            Event::Armed { node, request } => self.arm(*node, request),
            Event::CompensationStarted { node } => self.compensation_started(*node),
            Event::CompensationFinished { node, done } => {
                let progress = if *done { Undo::Done } else { Undo::GivenUp };
                self.armed_mut(*node).progress = progress;
                self.close_compensation_question(*node);
            }
            Event::GraphEdited { version, .. } => self.version = version + 1,
            Event::CancelRequested { .. } => {}
            Event::Recovered { .. } => self.skip_downtime(),
            Event::Settled {
                node,
                path: _,
                state,
                value,
                error,
                skip,
            } => {
                let value = value.as_ref().map(|value| self.resolve(value));
                self.settle(*node, *state, value, error.as_ref(), skip.as_ref());
            }
        }
    }

    /// The value that a datum means.
    pub(in crate::run) fn resolve(&self, datum: &Datum) -> Val {
        match datum {
            Datum::Value(value) => value.clone(),
            Datum::Items { node } => self.item_values(*node),
            Datum::Ref { node, slot, at } => {
                let whole = self
                    .slot_value(*node, *slot)
                    .expect("an event refers to a value that an earlier event gave");
                if at.is_empty() {
                    return whole;
                }
                let part = whole
                    .get_path(at)
                    .expect("an event refers to a part that the value has");
                Val::new(part.clone())
            }
        }
    }

    pub(in crate::run) fn slot_value(&self, node: Node, slot: ValueSlot) -> Option<Val> {
        let activation = self.node(node);
        let extra = activation.extra.as_deref();
        match slot {
            ValueSlot::Value => activation.value.clone(),
            ValueSlot::Input => extra.and_then(|extra| extra.input.clone()),
            ValueSlot::Candidate => extra.and_then(|extra| extra.candidate.clone()),
            ValueSlot::Returned => extra.and_then(|extra| extra.returned.clone()),
            ValueSlot::Item => match activation.role {
                Role::Item(index) => {
                    let parent = self.node(activation.parent).extra.as_deref();
                    let taken = extra.and_then(|extra| extra.taken.as_ref());
                    taken.map(|taken| taken.value.clone()).or_else(|| {
                        parent.and_then(|extra| extra.items.get(index as usize).cloned())
                    })
                }
                Role::Round(_) => extra.and_then(|extra| extra.input.clone()),
                Role::Root(_) | Role::Step | Role::Handler(_) | Role::Finally => None,
            },
        }
    }

    pub(in crate::run) fn item_values(&self, node: Node) -> Val {
        let values = self
            .main_children(node)
            .filter_map(|item| self.node(item).value.as_ref());
        Val::new(serde_json::Value::Array(
            values.map(|value| value.json().clone()).collect(),
        ))
    }

    pub(in crate::run) fn run_started(
        &mut self,
        run: &Arc<str>,
        graph: &Arc<str>,
        input: &Val,
        terms: &Val,
    ) {
        assert!(self.nodes.is_empty(), "a run starts once");
        assert_eq!(
            *graph, self.graph.hash,
            "a run replays on the graph that it recorded"
        );
        self.id = run.clone();
        if !self.terms.json().same(terms) {
            self.terms = super::terms::SharedTerms::recorded(terms);
        }
        self.created = self.now;
        let flow = crate::graph::FlowId(0);
        self.nodes.push(Activation {
            phase: Phase::Open,
            began: self.now,
            ..Activation::new(NOBODY, Role::Root(flow), Slot::Main, StepId(0), 0)
        });
        self.extra(0).input = Some(input.clone());
        if let Some(deadline) = self.graph.flow(flow).deadline {
            self.set_deadline(0, deadline);
        }
        let body = self.graph.flow(flow).body;
        self.add_body(0, body);
    }

    pub(in crate::run) fn forked(&mut self, run: &Arc<str>, from: &Arc<str>, turn: u64) {
        self.forked_from = Some((from.clone(), turn));
        self.id = run.clone();
        self.created = self.now;
        for armed in &mut self.armed {
            armed.inherited = !mutant::is(Mutant::ForkOwnsEffects);
        }
        self.skip_downtime();
        // Attempts that the last turn of the prefix started are this run's, from now on; some are being stopped already.
        let now = self.now;
        let grace = self.terms.limits.stop_grace_ms;
        for node in self.flights.clone() {
            let timeout = self.graph.step(self.node(node).step).leaf.timeout;
            let Some(flight) = self
                .extra(node)
                .flight
                .as_mut()
                .filter(|flight| flight.turn == turn)
            else {
                continue;
            };
            let before = flight.until;
            (flight.started, flight.until) = (now, now.saturating_add(timeout));
            let (old, new) = match &mut flight.stopping {
                Some((_, since)) => {
                    let before = std::mem::replace(since, now);
                    let end = |since: u64| (since.saturating_add(grace), node, Timer::Grace);
                    (end(before), end(now))
                }
                None => (
                    (before, node, Timer::Timeout),
                    (flight.until, node, Timer::Timeout),
                ),
            };
            self.timers.remove(&old);
            self.timers.insert(new);
            self.node_mut(node).began = now;
        }
        // A question of the new run is another question: it has an id of its own.
        let questions: Vec<Open> = std::mem::take(&mut self.questions).into_values().collect();
        for open in questions {
            let id = self.question_id(open.node, open.topic);
            if let Some(until) = open.until {
                self.timers.insert((until, open.node, Timer::Question));
            }
            self.extra(open.node).question = Some(id.clone());
            self.questions.insert(id, open);
        }
    }

    /// The stable id of a question: the same for all escalations, another for each attempt it is about.
    pub(in crate::run) fn question_id(&self, node: Node, topic: Topic) -> Arc<str> {
        let attempts = self
            .node(node)
            .extra
            .as_ref()
            .map_or(0, |extra| extra.attempts);
        let topic = match topic {
            Topic::Human => "human",
            Topic::Uncertain => "uncertain",
            Topic::Compensation => "compensation",
        };
        let again = self
            .node(node)
            .extra
            .as_ref()
            .map_or(0, |extra| extra.again);
        let text = format!(
            "{}\n{}~{again}\n{topic}\n{attempts}",
            self.id,
            self.path(node)
        );
        let hex = blake3::hash(text.as_bytes()).to_hex();
        format!("q{}", &hex[..QUESTION_ID_HEX]).into()
    }
}

/// Hex digits of a question's id: 48 bits, unique within any store that people answer from.
const QUESTION_ID_HEX: usize = 12;
