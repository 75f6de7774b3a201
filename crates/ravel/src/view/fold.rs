//! Folding a log into rows. Tolerant: what it does not know it leaves out, since what is shown is never the truth.

use std::collections::HashMap;
use std::sync::Arc;

use ravel_core::effect::Failure;
use ravel_core::event::{Datum, Event, Node, Settled, Skip, Slot, Stop, Topic, Turn};
use ravel_core::graph::{BodyId, Graph, Kind};
use ravel_core::value::Val;

use super::{Question, RunView, State, Step, kind_of, parent_path, resolve};

/// Folds turns into a [`RunView`].
#[derive(Debug)]
pub(crate) struct Folder {
    graph: Arc<Graph>,
    view: RunView,
    by_path: HashMap<String, usize>,
    by_node: HashMap<Node, usize>,
    /// Values that later events may refer to.
    values: HashMap<(Node, &'static str), Val>,
}

impl Folder {
    /// An empty view of a run of this graph.
    pub(crate) fn new(id: &str, graph: Arc<Graph>) -> Self {
        let view = RunView {
            id: id.to_owned(),
            flow: graph.main().name.to_string(),
            ..RunView::default()
        };
        Self {
            graph,
            view,
            by_path: HashMap::new(),
            by_node: HashMap::new(),
            values: HashMap::new(),
        }
    }

    /// The view so far.
    pub(crate) const fn view(&self) -> &RunView {
        &self.view
    }

    /// Takes in one turn; gives the positions of the steps that settled in it.
    pub(crate) fn turn(&mut self, turn: &Turn) -> Vec<usize> {
        self.view.started.get_or_insert(turn.at);
        self.view.updated = Some(turn.at);
        turn.events
            .iter()
            .filter_map(|event| self.event(event, turn.at))
            .collect()
    }

    /// Shows live text under a step.
    pub(crate) fn text(&mut self, path: &str, text: &str) {
        if let Some(index) = self.by_path.get(path) {
            let step = &mut self.view.steps[*index];
            let kept = step.text.get_or_insert_default();
            kept.push_str(text);
            if let Some((_, last)) = kept.trim_end_matches('\n').rsplit_once('\n') {
                *kept = last.to_owned();
            }
        }
    }

    fn event(&mut self, event: &Event, at: u64) -> Option<usize> {
        match event {
            Event::RunStarted { input, .. } => {
                self.values.insert((0, "input"), input.clone());
                let root = self.open(0, "", at);
                self.pending(root, self.graph.main().body);
            }
            Event::Forked { run, .. } => self.view.id = run.to_string(),
            Event::Opened {
                node,
                path,
                with,
                keys,
                ..
            } => self.opened(*node, path, with.as_ref(), keys.as_ref(), at),
            Event::AttemptStarted {
                node, path, number, ..
            } => {
                let index = self.open(*node, path, at);
                let step = &mut self.view.steps[index];
                step.state = State::Running;
                step.attempts = *number;
                step.note = None;
                step.text = None;
            }
            Event::AttemptStopping { node, why } => {
                self.note(*node, format!("stopping: {}", stop(*why)))
            }
            Event::AttemptFinished { node, usage, .. } => {
                if let Some(step) = self.step(*node) {
                    step.tokens += usage.tokens();
                    step.microusd += usage.cost_microusd;
                    step.text = None;
                }
            }
            Event::RetryScheduled { node, at, error } => {
                self.wait(
                    *node,
                    format!(
                        "again at {}: {}",
                        crate::output::units::time(*at),
                        short(error)
                    ),
                );
            }
            Event::RepairStarted {
                node, round, error, ..
            } => {
                self.note(*node, format!("repair {round}: {}", short(error)));
            }
            Event::FallbackStarted { node, index, error } => {
                self.note(*node, format!("fallback {}: {}", index + 1, short(error)));
            }
            Event::Caught { node, error, .. } => {
                self.note(*node, format!("caught: {}", short(error)))
            }
            Event::WaitStarted {
                node,
                until,
                signal,
            } => {
                let what = signal
                    .as_ref()
                    .map_or_else(|| "a clock".to_owned(), |name| format!("signal {name}"));
                let until =
                    until.map(|until| format!(" until {}", crate::output::units::time(until)));
                self.wait(
                    *node,
                    format!("waits for {what}{}", until.unwrap_or_default()),
                );
            }
            Event::Asked {
                node,
                path,
                question,
                topic,
                ask,
                form,
                until,
                ..
            } => {
                self.open(*node, path, at);
                let about = match topic {
                    Topic::Human => "asks a person",
                    Topic::Uncertain => "uncertain: asks what happened",
                    Topic::Compensation => "its compensation needs a person",
                };
                self.wait(*node, about.to_owned());
                self.view.questions.retain(|open| open.id != **question);
                self.view.questions.push(Question {
                    id: question.to_string(),
                    path: path.to_string(),
                    ask: ask.to_string(),
                    form: form.json().clone(),
                    until: *until,
                });
            }
            Event::Answered { question, node, .. } => {
                self.view.questions.retain(|open| open.id != **question);
                if let Some(step) = self.step(*node).filter(|step| !step.state.is_settled()) {
                    step.state = State::Running;
                    step.note = None;
                }
            }
            Event::Failing { node, error } => {
                self.note(*node, format!("failing: {}", short(error)))
            }
            Event::Stopping { node, why } => self.note(*node, format!("stopping: {}", stop(*why))),
            Event::CompensationStarted { node } => self.note(*node, "compensating".to_owned()),
            Event::CompensationFinished { node, done } => {
                self.note(
                    *node,
                    if *done {
                        "compensated"
                    } else {
                        "not compensated"
                    }
                    .to_owned(),
                );
            }
            Event::CancelRequested { node, .. } => self.note(*node, "cancel requested".to_owned()),
            Event::Settled {
                node,
                path,
                state,
                value,
                error,
                skip,
            } => {
                return Some(self.settled(
                    *node,
                    path,
                    *state,
                    value.as_ref(),
                    error.as_ref(),
                    skip.as_ref(),
                    at,
                ));
            }
            Event::Streamed { .. }
            | Event::RoundStarted { .. }
            | Event::Produced { .. }
            | Event::GateStarted { .. }
            | Event::CheckStarted { .. }
            | Event::GateJudged { .. }
            | Event::SignalReceived { .. }
            | Event::SignalTaken { .. }
            | Event::Returned { .. }
            | Event::FinallyStarted { .. }
            | Event::Armed { .. }
            | Event::GraphEdited { .. }
            | Event::Recovered { .. } => {}
        }
        None
    }
}

impl Folder {
    fn opened(
        &mut self,
        node: Node,
        path: &str,
        with: Option<&Datum>,
        keys: Option<&Vec<Arc<str>>>,
        at: u64,
    ) {
        let index = self.open(node, path, at);
        let with = with.and_then(|datum| self.resolve(datum));
        if let Some(with) = &with {
            self.values.insert((node, "input"), with.clone());
        }
        let graph = self.graph.clone();
        let Some(step) = resolve(&graph, path) else {
            return;
        };
        let own = self.view.steps[index].kind == step.kind.name();
        match &step.kind {
            Kind::ForEach(_) if own => {
                let listed = keys.map(Vec::len);
                let items = with.as_ref().and_then(|with| match with.json() {
                    serde_json::Value::Array(list) => Some(list.len()),
                    serde_json::Value::Object(map) => Some(map.len()),
                    _ => None,
                });
                self.view.steps[index].items = listed.or(items);
            }
            Kind::Steps(body) | Kind::Race(body) if own => self.pending(index, *body),
            Kind::Flow(call) if own => self.pending(index, graph.flow(call.flow).body),
            Kind::ForEach(_)
            | Kind::Steps(_)
            | Kind::Race(_)
            | Kind::Flow(_)
            | Kind::Repeat(_)
            | Kind::Switch(_)
            | Kind::Model(_)
            | Kind::Tool(_)
            | Kind::Run(_)
            | Kind::Human(_)
            | Kind::Wait(_)
            | Kind::Set(_)
            | Kind::Return(_)
            | Kind::Fail(_) => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    fn settled(
        &mut self,
        node: Node,
        path: &str,
        state: Settled,
        value: Option<&Datum>,
        error: Option<&Failure>,
        skip: Option<&Skip>,
        at: u64,
    ) -> usize {
        if let Some(value) = value.and_then(|value| self.resolve(value)) {
            self.values.insert((node, "value"), value);
        }
        let index = self.at(path);
        self.by_node.insert(node, index);
        let step = &mut self.view.steps[index];
        step.settled = Some(at);
        step.text = None;
        step.state = match state {
            Settled::Succeeded => State::Succeeded,
            Settled::Failed => State::Failed,
            Settled::Skipped => State::Skipped,
            Settled::Cancelled => State::Cancelled,
        };
        step.note = error.map(short).or_else(|| skip.map(why_skipped));
        index
    }

    fn open(&mut self, node: Node, path: &str, at: u64) -> usize {
        let index = self.at(path);
        self.by_node.insert(node, index);
        let step = &mut self.view.steps[index];
        if step.opened.is_none() {
            step.opened = Some(at);
            step.state = State::Running;
        }
        index
    }

    /// Rows of the steps of a body before they begin.
    fn pending(&mut self, parent: usize, body: BodyId) {
        let names: Vec<Arc<str>> = self
            .graph
            .body(body)
            .steps
            .iter()
            .map(|id| self.graph.step(*id).name.clone())
            .collect();
        for name in names {
            let path = match self.view.steps[parent].path.as_str() {
                "" => name.to_string(),
                scope => format!("{scope}/{name}"),
            };
            self.at(&path);
        }
    }

    /// The row of a path; made, with the rows above it, when there is none.
    fn at(&mut self, path: &str) -> usize {
        if let Some(index) = self.by_path.get(path) {
            return *index;
        }
        let parent = parent_path(path).map(|parent| self.at(parent));
        let index = self.view.steps.len();
        let name = parent_path(path)
            .and_then(|parent| path.strip_prefix(parent))
            .unwrap_or(path);
        self.view.steps.push(Step {
            path: path.to_owned(),
            name: name.trim_start_matches('/').to_owned(),
            kind: kind_of(&self.graph, path),
            parent,
            children: Vec::new(),
            state: State::Pending,
            attempts: 0,
            opened: None,
            settled: None,
            tokens: 0,
            microusd: 0,
            note: None,
            items: None,
            text: None,
        });
        self.by_path.insert(path.to_owned(), index);
        if let Some(parent) = parent {
            self.view.steps[parent].children.push(index);
        }
        index
    }

    fn step(&mut self, node: Node) -> Option<&mut Step> {
        self.by_node
            .get(&node)
            .map(|index| &mut self.view.steps[*index])
    }

    fn note(&mut self, node: Node, note: String) {
        if let Some(step) = self.step(node) {
            step.note = Some(note);
        }
    }

    fn wait(&mut self, node: Node, note: String) {
        if let Some(step) = self.step(node) {
            step.state = State::Waiting;
            step.note = Some(note);
        }
    }

    fn resolve(&self, datum: &Datum) -> Option<Val> {
        match datum {
            Datum::Value(value) => Some(value.clone()),
            Datum::Items { .. } => None,
            Datum::Ref { node, slot, at } => {
                let slot = match slot {
                    Slot::Value => "value",
                    Slot::Input | Slot::Item => "input",
                    Slot::Candidate | Slot::Returned => return None,
                };
                let whole = self.values.get(&(*node, slot))?;
                if at.is_empty() {
                    Some(whole.clone())
                } else {
                    whole.get_path(at).cloned().map(Val::new)
                }
            }
        }
    }
}

/// One line for an error.
pub(crate) fn short(error: &Failure) -> String {
    let code = error
        .code
        .as_ref()
        .map(|code| format!(" ({code})"))
        .unwrap_or_default();
    format!("{}{code}: {}", error.class.name(), error.message)
}

/// One line for a skip.
pub(crate) fn why_skipped(skip: &Skip) -> String {
    match skip {
        Skip::When => "`when` was false".to_owned(),
        Skip::Uses(step) => format!("it reads `{step}`, which has no value"),
        Skip::UpstreamFailed(step) => format!("`{step}` failed"),
        Skip::NothingFailed => "nothing failed".to_owned(),
        Skip::ScopeEnded => "its scope ended before".to_owned(),
    }
}

const fn stop(why: Stop) -> &'static str {
    match why {
        Stop::Timeout => "its timeout passed",
        Stop::Deadline => "a deadline passed",
        Stop::Cancelled => "cancelled",
        Stop::Budget => "its budget of time is used up",
        Stop::Returned => "the flow returned",
    }
}
