//! Folding events into the state: the one place where a run's state changes, live and in replay alike.

use std::sync::Arc;

use super::state::{
    Activation, Armed, Flight, Last, Mail, NOBODY, Open, Phase, Role, Slot, State, Task, Timer,
    Undo,
};
use crate::effect::{Failure, Fate, Millis, Usage};
use crate::event::{Datum, Event, Node, Settled, Skip, Slot as ValueSlot, Stop, Topic};
use crate::graph::{BodyId, DepKind, Gate, Join, Kind, OnUncertain, StepId};
use crate::value::Val;

impl State {
    /// Folds one event.
    ///
    /// # Panics
    /// When the event cannot follow this state: a broken log must stop the run, loudly.
    pub(super) fn apply(&mut self, event: &Event) {
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
            Event::Streamed { node, field, items } => {
                self.extra(*node)
                    .streamed
                    .entry(field.clone())
                    .or_default()
                    .extend(items.iter().cloned());
            }
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
                self.extra(*node).failing = Some(error.clone());
                self.agenda.push_back(Task::Conclude(*node));
            }
            Event::Stopping { node, why } => {
                self.drop_deadline(*node);
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
            }
            Event::GraphEdited { version, .. } => self.version = version + 1,
            Event::CancelRequested { .. } => {}
            Event::Recovered { .. } => self.recovered(),
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
    pub(super) fn resolve(&self, datum: &Datum) -> Val {
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

    pub(super) fn slot_value(&self, node: Node, slot: ValueSlot) -> Option<Val> {
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
                    parent.and_then(|extra| extra.items.get(index as usize).cloned())
                }
                Role::Round(_) => extra.and_then(|extra| extra.input.clone()),
                Role::Root(_) | Role::Step | Role::Handler(_) | Role::Finally => None,
            },
        }
    }

    fn item_values(&self, node: Node) -> Val {
        let values = self
            .main_children(node)
            .filter_map(|item| self.node(item).value.as_ref());
        Val::new(serde_json::Value::Array(
            values.map(|value| value.json().clone()).collect(),
        ))
    }

    fn run_started(&mut self, run: &Arc<str>, graph: &Arc<str>, input: &Val, terms: &Val) {
        assert!(self.nodes.is_empty(), "a run starts once");
        assert_eq!(
            *graph, self.graph.hash,
            "a run replays on the graph that it recorded"
        );
        self.id = run.clone();
        self.terms = serde_json::from_value(terms.json().clone())
            .expect("terms were written by this program");
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

    fn forked(&mut self, run: &Arc<str>, from: &Arc<str>, turn: u64) {
        self.forked_from = Some((from.clone(), turn));
        self.id = run.clone();
        self.created = self.now;
        for armed in &mut self.armed {
            armed.inherited = true;
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
    pub(super) fn question_id(&self, node: Node, topic: Topic) -> Arc<str> {
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

    fn opened(
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
                    self.extra(parent).next_item = index + 1;
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

    fn open_step(
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
                self.agenda.push_back(Task::Decide(child));
            }
        }
    }

    /// The body that an item, round, handler or `finally` runs.
    pub(super) fn block_body(&self, node: Node) -> BodyId {
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

    fn add(&mut self, activation: Activation) -> Node {
        let node = Node::try_from(self.nodes.len()).expect("activations are limited");
        self.nodes.push(activation);
        node
    }

    pub(super) fn again_of(&self, node: Node) -> u32 {
        self.node(node)
            .extra
            .as_ref()
            .map_or(0, |extra| extra.again)
    }

    fn add_body(&mut self, owner: Node, body: BodyId) {
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

    fn add_items(&mut self, node: Node, with: Option<Val>, keys: Option<&[Arc<str>]>) {
        let items: Vec<Val> = match with.as_ref().map(Val::json) {
            Some(serde_json::Value::Array(items)) => items.iter().cloned().map(Val::new).collect(),
            Some(serde_json::Value::Object(fields)) => fields
                .iter()
                .map(|(key, value)| Val::new(serde_json::json!({ "key": key, "value": value })))
                .collect(),
            _ => Vec::new(),
        };
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
        extra.failed_kids = 0;
        let owner = self.node_mut(node);
        owner.kids = (first, count);
        owner.live = count;
        self.agenda.push_back(Task::Conclude(node));
    }

    fn add_round(&mut self, node: Node, carry: Option<Val>) {
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

    fn round_started(&mut self, node: Node, carry: &Datum) {
        let carry = self.resolve(carry);
        self.add_round(node, Some(carry));
    }

    /// Adds a hidden activation: a block, or a leaf of a hidden step.
    fn add_hidden(&mut self, owner: Node, role: Role, slot: Slot, step: StepId) {
        let again = self.again_of(owner);
        let child = self.add(Activation {
            again,
            ..Activation::new(owner, role, slot, step, 0)
        });
        self.extra(owner).aux = Some(child);
        self.queued.remove(&owner);
        self.agenda.push_back(Task::Decide(child));
    }

    fn add_block(&mut self, owner: Node, role: Role, slot: Slot) {
        let step = self.node(owner).step;
        if slot == Slot::Finally {
            self.extra(owner).finally_done = true;
        }
        self.add_hidden(owner, role, slot, step);
    }

    fn set_deadline(&mut self, node: Node, after: Millis) {
        let at = self.now.saturating_add(after);
        self.extra(node).deadline = Some(at);
        self.timers.insert((at, node, Timer::Deadline));
    }

    /// Another activation of the same step: after a failed gate, or with a fallback.
    fn again(&mut self, node: Node, last: Last) {
        self.queued.remove(&node);
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
        extra.edited_kids.clear();
        let activation = self.node_mut(node);
        activation.kids = (0, 0);
        activation.live = 0;
    }

    fn fallback_started(&mut self, node: Node, index: u32, error: &Failure) {
        self.again(node, Last::from_failure(error, None));
        let written = self.written(node).id;
        let next = self.graph.step(written).fallback[index as usize];
        let extra = self.extra(node);
        extra.written = Some(written);
        extra.fallbacks = index + 1;
        self.node_mut(node).step = next;
    }

    fn caught(&mut self, node: Node, index: u32, error: &Failure) {
        self.queued.remove(&node);
        let body = self.catches(node)[index as usize].body;
        self.extra(node).caught = Some((index, error.clone()));
        if body.is_some() {
            self.add_block(node, Role::Handler(index), Slot::Handler);
        }
    }

    fn wait_started(&mut self, node: Node, until: Option<Millis>, signal: Option<&Arc<str>>) {
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

    fn asked(&mut self, question: &Arc<str>, open: Open) {
        let (node, until) = (open.node, open.until);
        self.begin(node);
        if let Some(old) = self.questions.insert(question.clone(), open)
            && let Some(until) = old.until
        {
            self.timers.remove(&(until, node, Timer::Question));
        }
        if let Some(until) = until {
            self.timers.insert((until, node, Timer::Question));
        }
        self.extra(node).question = Some(question.clone());
    }

    /// An answered leaf whose effect was uncertain wants to go on.
    fn answered(&mut self, node: Node, question: &Arc<str>) {
        let topic = self.questions.get(question).map(|open| open.topic);
        self.close_question(node, question);
        if topic == Some(Topic::Uncertain) {
            self.queued.insert(node);
        }
    }

    fn close_question(&mut self, node: Node, question: &Arc<str>) {
        if let Some(open) = self.questions.shift_remove(question)
            && let Some(until) = open.until
        {
            self.timers.remove(&(until, node, Timer::Question));
        }
        self.extra(node).question = None;
    }

    /// A leaf leaves `pending` by its first own event.
    fn begin(&mut self, node: Node) {
        let now = self.now;
        let activation = self.node_mut(node);
        activation.phase = Phase::Open;
        if activation.began == 0 {
            activation.began = now;
        }
    }

    /// One effect of a step is compensated, however many attempts it took: the latest that may have taken place.
    fn arm(&mut self, node: Node, request: &Val) {
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

    fn compensation_started(&mut self, node: Node) {
        self.armed_mut(node).progress = Undo::Running;
        let step = self
            .written(node)
            .compensate
            .expect("a step without `compensate` is never armed");
        self.add_hidden(node, Role::Step, Slot::Compensation, step);
    }

    /// The armed effect of a node: the latest, since each repair of a write arms again.
    pub(super) fn armed_mut(&mut self, node: Node) -> &mut Armed {
        let found = self
            .armed
            .iter_mut()
            .rev()
            .find(|armed| armed.node == node && armed.progress != Undo::Done);
        found.expect("only an armed effect is compensated")
    }

    fn recovered(&mut self) {
        // Downtime is not active time: open spans end with the last turn before.
        let before = self.before;
        let nodes: Vec<Node> = self.flights.iter().copied().collect();
        for node in nodes {
            let mut at = node;
            while at != NOBODY {
                if self
                    .budget_of(at)
                    .is_some_and(|budget| budget.time.is_some())
                {
                    self.end_span(at, before);
                }
                at = self.node(at).parent;
            }
        }
    }

    fn settle(
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
                if self.node(node).role == Role::Step {
                    self.tell_dependents(parent, position, state);
                }
            }
            Slot::Check(_) => {
                self.extra(parent).aux = None;
                self.queued.insert(parent);
            }
            Slot::Gate(_) | Slot::Handler | Slot::Finally | Slot::Compensation => {
                self.extra(parent).aux = None;
            }
        }
    }

    fn count_child(&mut self, parent: Node, child: Node, state: Settled) {
        if state == Settled::Failed {
            self.extra(parent).failed_kids += 1;
        }
        if state == Settled::Succeeded && self.is_race(parent) {
            let extra = self.extra(parent);
            extra.winner = extra.winner.or(Some(child));
        }
    }

    pub(super) fn is_race(&self, node: Node) -> bool {
        let activation = self.node(node);
        activation.role == Role::Step
            && matches!(self.graph.step(activation.step).kind, Kind::Race(_))
    }

    fn tell_dependents(&mut self, parent: Node, position: u32, state: Settled) {
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

    /// The body whose steps are a node's main children.
    pub(super) fn body_of(&self, node: Node) -> Option<BodyId> {
        let activation = self.node(node);
        match activation.role {
            Role::Root(flow) => Some(self.graph.flow(flow).body),
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => {
                Some(self.block_body(node))
            }
            Role::Step => match &self.graph.step(activation.step).kind {
                Kind::Steps(body) | Kind::Race(body) => Some(*body),
                Kind::Flow(call) => Some(self.graph.flow(call.flow).body),
                Kind::Model(_)
                | Kind::Tool(_)
                | Kind::Run(_)
                | Kind::Human(_)
                | Kind::Wait(_)
                | Kind::Set(_)
                | Kind::Return(_)
                | Kind::Fail(_)
                | Kind::ForEach(_)
                | Kind::Repeat(_)
                | Kind::Switch(_) => None,
            },
        }
    }

    /// Drops what a settling activation waited for.
    fn forget_waits(&mut self, node: Node) {
        self.queued.remove(&node);
        let Some(extra) = self.nodes[node as usize].extra.as_deref_mut() else {
            return;
        };
        let timers = [
            (extra.retry_at.take(), Timer::Retry),
            (extra.wait_until, Timer::Wait),
            (extra.deadline, Timer::Deadline),
        ];
        let (question, signal) = (extra.question.take(), extra.wait_signal.clone());
        for (at, timer) in timers {
            if let Some(at) = at {
                self.timers.remove(&(at, node, timer));
            }
        }
        if let Some(question) = question {
            self.close_question(node, &question);
        }
        if let Some(queue) = signal.and_then(|signal| self.waiting.get_mut(&signal)) {
            queue.retain(|waiter| *waiter != node);
        }
    }

    /// The step as written, whatever fallback it is at.
    pub(super) fn written(&self, node: Node) -> &crate::graph::StepDef {
        let activation = self.node(node);
        let written = activation.extra.as_ref().and_then(|extra| extra.written);
        self.graph.step(written.unwrap_or(activation.step))
    }

    /// `catch:` of a step or of the root flow.
    pub(super) fn catches(&self, node: Node) -> &[crate::graph::Catch] {
        match self.node(node).role {
            Role::Root(flow) => &self.graph.flow(flow).catch,
            Role::Step => &self.written(node).catch,
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => &[],
        }
    }

    /// `finally:` of a step or of the root flow.
    pub(super) fn finally_of(&self, node: Node) -> Option<BodyId> {
        match self.node(node).role {
            Role::Root(flow) => self.graph.flow(flow).finally,
            Role::Step => self.written(node).finally,
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => None,
        }
    }

    pub(super) fn last_usage(&self, node: Node) -> Usage {
        self.node(node)
            .extra
            .as_ref()
            .map(|extra| extra.spent)
            .unwrap_or_default()
    }
}

/// Hex digits of a question's id: 48 bits, unique within any store that people answer from.
const QUESTION_ID_HEX: usize = 12;

fn counts(step: &crate::graph::StepDef, position: u32) -> bool {
    step.deps
        .iter()
        .any(|dep| dep.on == position && dep.how != DepKind::Weak)
}

impl Activation {
    pub(super) fn new(parent: Node, role: Role, slot: Slot, step: StepId, position: u32) -> Self {
        Self {
            parent,
            role,
            slot,
            step,
            position,
            again: 0,
            phase: Phase::Pending,
            unmet: 0,
            kids: (0, 0),
            live: 0,
            began: 0,
            ended: 0,
            value: None,
            extra: None,
        }
    }
}

impl Last {
    pub(super) fn from_failure(error: &Failure, output: Option<Val>) -> Self {
        let verdict = error.data.clone();
        Self {
            output,
            error: Some(error.clone()),
            verdict,
        }
    }
}

/// The attempts of leaves: flights, money and active time.
impl State {
    fn attempt_started(
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

    /// An activation that is being stopped has no deadline any more.
    fn drop_deadline(&mut self, node: Node) {
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

    fn attempt_stopping(&mut self, node: Node, why: Stop) {
        self.drop_deadline(node);
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

    fn attempt_finished(
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

    fn each_ancestor(&mut self, node: Node, mut change: impl FnMut(&mut super::state::Extra)) {
        let mut at = node;
        while at != NOBODY {
            change(self.extra(at));
            at = self.node(at).parent;
        }
    }

    fn each_budget(&mut self, node: Node, mut change: impl FnMut(&mut super::state::Extra)) {
        let mut at = node;
        while at != NOBODY {
            if self.budget_of(at).is_some() {
                change(self.extra(at));
            }
            at = self.node(at).parent;
        }
    }

    /// `budget:` at a node.
    pub(super) fn budget_of(&self, node: Node) -> Option<crate::graph::Budget> {
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
    fn count_active(&mut self, node: Node, starts: bool) {
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

    fn begin_span(&mut self, node: Node, now: Millis) {
        self.extra(node).active_since = now;
        self.timers
            .insert((self.span_due(node), node, Timer::Budget));
    }

    fn end_span(&mut self, node: Node, now: Millis) {
        let due = self.span_due(node);
        self.timers.remove(&(due, node, Timer::Budget));
        let extra = self.extra(node);
        extra.active_ms += now.saturating_sub(extra.active_since);
        extra.active_since = now;
    }

    /// When the active time of a node's budget is used up, should its present span go on.
    fn span_due(&self, node: Node) -> Millis {
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
