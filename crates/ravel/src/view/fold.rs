//! Folding a log into rows. Tolerant: what it does not know it leaves out, since what is shown is never the truth.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ravel_core::effect::Failure;
use ravel_core::event::{Datum, Event, Node, Settled, Skip, Slot, Stop, Topic, Turn};
use ravel_core::graph::{BodyId, Graph, Kind};
use ravel_core::value::Val;

use super::offer::without_retry;
use super::{Question, RunView, State, Step, body_of, kind_of, parent_path, resolve};
use crate::live::sample_output;
use crate::output::one_line;
use crate::output::units::time;

/// Bytes of live text that are kept of a step: more than a terminal shows of one line.
const TEXT_BYTES_MAX: usize = 4_096;

/// The end of a text, of so many bytes at the most.
fn ending(text: &str, most: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(most))..]
}

/// Folds turns into a [`RunView`].
#[derive(Debug)]
pub(crate) struct Folder {
    graph: Arc<Graph>,
    view: RunView,
    by_path: HashMap<String, usize>,
    by_node: HashMap<Node, usize>,
    /// Values that later events may refer to.
    values: HashMap<(Node, &'static str), Val>,
    /// Activations that are being stopped: they are not tried again.
    stopping: HashSet<Node>,
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
            stopping: HashSet::new(),
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
        self.view.away.turn(turn);
        self.view.waits_for_others = false;
        turn.events
            .iter()
            .filter_map(|event| self.event(event, turn.at))
            .collect()
    }

    /// Takes in what the run's summary says of its waits, which holds until the next turn.
    pub(crate) const fn waits_for_others(&mut self, waits: bool) {
        self.view.waits_for_others = waits;
    }

    /// Shows live text under a step.
    pub(crate) fn text(&mut self, path: &str, text: &str) {
        if let Some(index) = self.by_path.get(path) {
            let step = &mut self.view.steps[*index];
            let kept = step.text.get_or_insert_default();
            // The last line alone, and of a long one its end: what is kept is looked at again with each piece of text.
            let piece = ending(text, TEXT_BYTES_MAX);
            if piece.len() < text.len() {
                kept.clear();
            }
            kept.push_str(piece);
            if let Some((_, last)) = kept.trim_end_matches('\n').rsplit_once('\n') {
                *kept = last.to_owned();
            }
            if kept.len() > TEXT_BYTES_MAX {
                *kept = ending(kept, TEXT_BYTES_MAX).to_owned();
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
            Event::Forked { run, .. } => {
                self.view.id = run.to_string();
                // The run's own time begins here; what its steps took before belongs to them.
                self.view.started = Some(at);
                if let Some(root) = self.view.steps.first_mut() {
                    root.opened = Some(at);
                }
            }
            Event::Opened {
                node,
                path,
                with,
                keys,
                ..
            } => {
                self.opened(*node, path, with.as_ref(), keys.as_ref(), at);
            }
            Event::AttemptStarted {
                node, path, number, ..
            } => self.attempt_started(*node, path, *number, at),
            Event::AttemptFinished { node, usage, .. } => {
                if let Some(step) = self.step(*node) {
                    step.tokens += usage.tokens();
                    step.microusd += usage.cost_microusd;
                    step.text = None;
                }
            }
            Event::RetryScheduled { .. } | Event::WaitStarted { .. } => self.waiting(event),
            Event::Asked { .. } | Event::Answered { .. } => self.question(event, at),
            Event::AttemptStopping { .. }
            | Event::RepairStarted { .. }
            | Event::FallbackStarted { .. }
            | Event::Caught { .. }
            | Event::Failing { .. }
            | Event::CompensationStarted { .. }
            | Event::CompensationFinished { .. }
            | Event::CancelRequested { .. } => self.remark(event),
            Event::Stopping { node, .. } => {
                self.stopping(*node);
                self.remark(event);
            }
            Event::Settled { node, path, .. } => return Some(self.settled(*node, path, event, at)),
            Event::Streamed { .. }
            | Event::ItemsTaken { .. }
            | Event::StreamEnded { .. }
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

    fn attempt_started(&mut self, node: Node, path: &str, number: u32, at: u64) {
        let index = self.open(node, path, at);
        let step = &mut self.view.steps[index];
        step.state = State::Running;
        step.attempts = number;
        step.note = None;
        step.text = None;
    }

    /// Events after which a step waits for a clock or a signal.
    fn waiting(&mut self, event: &Event) {
        if let Event::RetryScheduled { node, at, error } = event {
            self.wait(*node, format!("again at {}: {}", time(*at), short(error)));
        }
        if let Event::WaitStarted {
            node,
            until,
            signal,
        } = event
        {
            let what = signal
                .as_ref()
                .map_or_else(|| "a clock".to_owned(), |name| format!("signal {name}"));
            let until = until.map(|until| format!(" until {}", time(until)));
            self.wait(
                *node,
                format!("waits for {what}{}", until.unwrap_or_default()),
            );
        }
    }

    /// Questions opened and closed.
    fn question(&mut self, event: &Event, at: u64) {
        if let Event::Asked {
            node,
            path,
            question,
            topic,
            ask,
            form,
            until,
            ..
        } = event
        {
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
                ask: one_line(ask),
                form: if self.stopping.contains(node) {
                    without_retry(form.json())
                } else {
                    form.json().clone()
                },
                topic: *topic,
                output: (*topic == Topic::Uncertain)
                    .then(|| sample_output(&self.graph, path))
                    .flatten(),
                until: *until,
            });
        }
        if let Event::Answered { question, node, .. } = event {
            self.view.questions.retain(|open| open.id != **question);
            if let Some(step) = self.step(*node).filter(|step| !step.state.is_settled()) {
                step.state = State::Running;
                step.note = None;
            }
        }
    }

    /// A step that is being stopped is not tried again.
    fn stopping(&mut self, node: Node) {
        self.stopping.insert(node);
        let Some(path) = self.step(node).map(|step| step.path.clone()) else {
            return;
        };
        let of_it = |open: &&mut Question| open.topic == Topic::Uncertain && open.path == path;
        for open in self.view.questions.iter_mut().filter(of_it) {
            open.form = without_retry(&open.form);
        }
    }

    /// Events that are shown as a remark beside the step.
    fn remark(&mut self, event: &Event) {
        let (node, note) = match event {
            Event::AttemptStopping { node, why } | Event::Stopping { node, why } => {
                (node, format!("stopping: {}", stop(*why)))
            }
            Event::RepairStarted {
                node, round, error, ..
            } => (node, format!("repair {round}: {}", short(error))),
            Event::FallbackStarted { node, index, error } => {
                (node, format!("fallback {}: {}", index + 1, short(error)))
            }
            Event::Caught { node, error, .. } => (node, format!("caught: {}", short(error))),
            Event::Failing { node, error } => (node, format!("failing: {}", short(error))),
            Event::CompensationStarted { node } => (node, "compensating".to_owned()),
            Event::CompensationFinished { node, done: true } => (node, "compensated".to_owned()),
            Event::CompensationFinished { node, done: false } => {
                (node, "not compensated".to_owned())
            }
            Event::CancelRequested { node, reason, .. } => {
                let why = reason.as_ref().map(|why| format!(": {}", one_line(why)));
                (node, format!("cancel requested{}", why.unwrap_or_default()))
            }
            _ => return,
        };
        if let Some(step) = self.step(*node) {
            step.note = Some(note);
        }
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
        if self.view.steps[index].kind != step.kind.name() {
            return;
        }
        if let Kind::ForEach(_) = &step.kind {
            let listed = keys.map(Vec::len);
            let items = with.as_ref().and_then(|with| match with.json() {
                serde_json::Value::Array(list) => Some(list.len()),
                serde_json::Value::Object(map) => Some(map.len()),
                _ => None,
            });
            self.view.steps[index].items = listed.or(items);
        }
        if let Kind::Steps(_) | Kind::Race(_) | Kind::Flow(_) = &step.kind
            && let Some(body) = body_of(&graph, step)
        {
            self.pending(index, body);
        }
    }

    fn settled(&mut self, node: Node, path: &str, event: &Event, at: u64) -> usize {
        let index = self.at(path);
        self.by_node.insert(node, index);
        let Event::Settled {
            state,
            value,
            error,
            skip,
            ..
        } = event
        else {
            return index;
        };
        if let Some(value) = value.as_ref().and_then(|value| self.resolve(value)) {
            self.values.insert((node, "value"), value);
        }
        let step = &mut self.view.steps[index];
        step.settled = Some(at);
        step.text = None;
        step.state = match state {
            Settled::Succeeded => State::Succeeded,
            Settled::Failed => State::Failed,
            Settled::Skipped => State::Skipped,
            Settled::Cancelled => State::Cancelled,
        };
        step.note = error
            .as_ref()
            .map(short)
            .or_else(|| skip.as_ref().map(why_skipped));
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

/// Where an error began: its step, or the flow itself.
pub(crate) fn origin(error: &Failure) -> String {
    match error.step.as_deref() {
        None | Some("") => "the flow".to_owned(),
        Some(path) => path.to_owned(),
    }
}

/// One line for an error.
pub(crate) fn short(error: &Failure) -> String {
    let code = error.code.as_ref().map(|code| format!(" ({code})"));
    one_line(&format!(
        "{}{}: {}",
        error.class.name(),
        code.unwrap_or_default(),
        error.message
    ))
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

#[cfg(test)]
mod tests {
    use ravel_core::lang::Bundle;
    use serde_json::json;

    use super::*;

    const FLOW: &str = "
ravel: 1
name: notes
input: { docs: [string] }
steps:
  each:
    for_each: input.docs
    as: doc
    steps: { said: { human: { ask: \"{{ doc }}?\", form: { ok: boolean } } } }
    output: \"{{ said.ok }}\"
  tail: { set: \"{{ each }}\", when: \"false\" }
";

    fn events(list: serde_json::Value) -> Vec<Event> {
        serde_json::from_value(list).unwrap()
    }

    #[test]
    fn a_log_becomes_rows_with_what_is_still_to_come() {
        let graph = Bundle::from_text("notes.yaml", FLOW)
            .unwrap()
            .compile()
            .unwrap();
        let mut folder = Folder::new("r", Arc::new(graph));
        let first = events(json!([
            {"type": "run_started", "semantics": 1, "run": "r", "graph": "g", "input": {"docs": ["a", "b"]}, "terms": {}},
            {"type": "opened", "node": 1, "path": "each", "with": {"ref": {"node": 0, "slot": "input", "at": ["docs"]}}},
            {"type": "opened", "node": 3, "path": "each[0]"},
            {"type": "asked", "node": 5, "path": "each[0]/said", "question": "q", "topic": "human", "ask": "a?",
             "form": {"type": "object"}},
            {"type": "settled", "node": 2, "path": "tail", "state": "skipped", "skip": "when"}
        ]));
        let settled = folder.turn(&Turn {
            turn: 1,
            at: 10,
            events: first,
        });
        let view = folder.view();
        let rows: Vec<(&str, &str, &str, Option<&str>)> = view
            .steps
            .iter()
            .map(|step| {
                (
                    step.path.as_str(),
                    step.kind,
                    step.state.name(),
                    step.note.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("", "flow", "running", None),
                ("each", "for_each", "running", None),
                ("tail", "set", "skipped", Some("`when` was false")),
                ("each[0]", "item", "running", None),
                ("each[0]/said", "human", "waiting", Some("asks a person")),
            ]
        );
        assert_eq!(
            (settled, view.steps[1].items, view.questions.len()),
            (vec![2], Some(2), 1)
        );
        assert_eq!(view.state(), State::Running);
        folder.waits_for_others(true);
        assert_eq!(folder.view().state(), State::Waiting);
    }

    #[test]
    fn of_live_text_the_end_of_the_last_line_is_kept() {
        let graph = Bundle::from_text("notes.yaml", FLOW)
            .unwrap()
            .compile()
            .unwrap();
        let mut folder = Folder::new("r", Arc::new(graph));
        let started = events(json!([
            {"type": "run_started", "semantics": 1, "run": "r", "graph": "g", "input": {"docs": []}, "terms": {}}
        ]));
        folder.turn(&Turn {
            turn: 1,
            at: 10,
            events: started,
        });
        let mut shown = |text: &str| {
            folder.text("tail", text);
            let step = folder.view().steps.iter().find(|step| step.path == "tail");
            step.and_then(|step| step.text.clone()).unwrap()
        };
        assert_eq!(shown("one\ntw"), "tw");
        assert_eq!(shown("o\n"), "two\n");
        let long = "日".repeat(TEXT_BYTES_MAX);
        let end = "日".repeat(TEXT_BYTES_MAX / 3);
        assert_eq!(shown(&long), end);
        assert_eq!(shown("\nthree"), "three");
        assert_eq!(
            shown(&"z".repeat(TEXT_BYTES_MAX)),
            "z".repeat(TEXT_BYTES_MAX)
        );
    }
}
