//! Why a run ended as it did: the causal chain of a failure, what was skipped because of it, what stands.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure};
use ravel_core::event::{Event, Node, Turn};
use ravel_core::port::RunState;
use ravel_core::run::{NodeView, Run};
use serde_json::Value;

use super::{Reason, is_within};
use crate::cli::past;
use crate::output::{Tone, cut, json_line, one_line, units};
use crate::view::{short, why_skipped};

/// Steps of a kind (failed, skipped) that are listed.
const STEPS_SHOWN_MAX: usize = 20;
/// Items that failed in the same way that are named.
const PATHS_SHOWN_MAX: usize = 5;
/// Ways in which the items of a `for_each` failed that are told.
const WAYS_SHOWN_MAX: usize = 5;

/// Everything that explains the end. `place` gives a step's place in the user's files.
pub(super) fn reasons(
    run: &Run,
    turns: &[Turn],
    place: &dyn Fn(&str) -> Option<String>,
) -> Vec<Reason> {
    let nodes: Vec<NodeView> = run.nodes().filter(|node| !node.path.is_empty()).collect();
    let mut reasons = Vec::new();
    reasons.extend(cancelled(run, turns));
    if let Some(error) = run.error() {
        let text = format!("the run failed with {}", short(error));
        let began = began(run, turns, error);
        reasons.push(Reason::new("", text, Tone::Bad).note(began));
    }
    let failures = Failures::new(run, turns, place);
    // From the step where it began outwards: each scope that failed with it.
    let items = failures.items(&nodes);
    let in_items = |node: &NodeView| items.iter().any(|item| is_within(&node.path, &item.path));
    let failed = nodes.iter().filter(|node| node.state == "failed");
    let mut failed: Vec<&NodeView> = failed.filter(|node| !in_items(node)).collect();
    failed.sort_by_key(|node| (node.ended, Reverse(node.path.len())));
    list(&mut reasons, &failed, "failed", &|node| {
        failures.reason(node)
    });
    reasons.extend(grouped(run, &nodes, &items, place));
    reasons.extend(taken_up(run, turns, place));
    let skipped: Vec<&NodeView> = nodes.iter().filter(|node| node.skip.is_some()).collect();
    list(&mut reasons, &skipped, "were skipped", &|node| {
        let why = node.skip.as_ref().map(why_skipped).unwrap_or_default();
        Reason::new(&node.path, format!("skipped: {why}"), Tone::Faint)
    });
    let undone = undone(run, turns);
    list(
        &mut reasons,
        &undone.iter().collect::<Vec<_>>(),
        "were undone",
        &|node| {
            let text = "its effect was undone by its `compensate`";
            Reason::new(&node.path, text, Tone::Faint)
        },
    );
    for path in run.uncompensated() {
        reasons.push(Reason::new(
            &path,
            "its effect stands: it was not compensated",
            Tone::Warn,
        ));
    }
    if reasons.is_empty() {
        reasons.push(Reason::new("", "every step did what it should", Tone::Good));
    }
    reasons
}

/// Where the failure of a run began, and for a limit of the flow itself what it is and what it stopped.
fn began(run: &Run, turns: &[Turn], error: &Failure) -> Vec<String> {
    match error.step.as_deref() {
        None => return Vec::new(),
        Some("") => {}
        Some(step) => return vec![format!("it began in {step}")],
    }
    let is_end = |event: &Event| matches!(event, Event::Stopping { node: 0, .. });
    let from = turns
        .iter()
        .skip_while(|turn| !turn.events.iter().any(is_end));
    let stopped = from.flat_map(|turn| &turn.events).filter_map(|event| {
        let Event::AttemptStopping { node, .. } = event else {
            return None;
        };
        run.node(*node)
    });
    let mut paths: Vec<String> = stopped.map(|node| format!("`{}`", node.path)).collect();
    let more = paths.len().saturating_sub(PATHS_SHOWN_MAX);
    paths.truncate(PATHS_SHOWN_MAX);
    let limit = run
        .graph()
        .main()
        .budget
        .as_ref()
        .and_then(|budget| budget.time);
    let is_budget = error.class == ErrorClass::BudgetExceeded;
    let limit = limit.filter(|_| is_budget).map_or_else(String::new, |ms| {
        format!(": its `budget.time` is {}", units::duration(ms))
    });
    let mut notes = vec![format!("it began in the flow itself{limit}")];
    if !paths.is_empty() {
        let more = and_more(more);
        notes.push(format!("it stopped {}{more}", paths.join(", ")));
    }
    notes
}

/// ` and 3 more`, or nothing.
fn and_more(more: usize) -> String {
    if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    }
}

/// Steps whose effects were undone, oldest first.
fn undone(run: &Run, turns: &[Turn]) -> Vec<NodeView> {
    let events = turns.iter().flat_map(|turn| &turn.events);
    let done = events.filter_map(|event| {
        let Event::CompensationFinished { node, done: true } = event else {
            return None;
        };
        run.node(*node)
    });
    done.collect()
}

/// The items of a `for_each` that failed apart from the failure of the run, a reason for each `for_each`: a line for
/// each way in which they failed.
fn grouped(
    run: &Run,
    nodes: &[NodeView],
    items: &[&NodeView],
    place: &dyn Fn(&str) -> Option<String>,
) -> Vec<Reason> {
    let mut by_scope: BTreeMap<Node, Vec<&NodeView>> = BTreeMap::new();
    for item in items {
        let scope = item.parent.unwrap_or_default();
        by_scope.entry(scope).or_default().push(item);
    }
    let reason = |(scope, items): (Node, Vec<&NodeView>)| {
        let node = run.node(scope)?;
        let all = nodes
            .iter()
            .filter(|node| node.parent == Some(scope) && node.kind == "item");
        let left_out = if node.state == "succeeded" {
            ", which `tolerate` allows: they are not in its value"
        } else {
            " (this alone did not fail the run)"
        };
        let text = format!("{} of {} items failed{left_out}", items.len(), all.count());
        let tone = if node.state == "succeeded" {
            Tone::Warn
        } else {
            Tone::Bad
        };
        Some(Reason::new(&node.path, text, tone).note(ways_to_fail(&items, place)))
    };
    by_scope.into_iter().filter_map(reason).collect()
}

/// `all[1], all[4]: tool_error: exited with code 1 (flow.yaml:9:7)`, a line for each error and place.
fn ways_to_fail(items: &[&NodeView], place: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut ways: Vec<(String, Vec<&str>)> = Vec::new();
    for item in items {
        let Some(error) = &item.error else { continue };
        let at = place(error.step.as_deref().unwrap_or(&item.path));
        let at = at.map(|at| format!(" ({at})")).unwrap_or_default();
        let way = format!("{}{at}", short(error));
        match ways.iter_mut().find(|(known, _)| *known == way) {
            Some((_, paths)) => paths.push(&item.path),
            None => ways.push((way, vec![&item.path])),
        }
    }
    let more = ways.len().saturating_sub(WAYS_SHOWN_MAX);
    let line = |(way, paths): &(String, Vec<&str>)| {
        let shown = &paths[..paths.len().min(PATHS_SHOWN_MAX)];
        let more = and_more(paths.len() - shown.len());
        format!("{}{more}: {way}", shown.join(", "))
    };
    let mut lines: Vec<String> = ways.iter().take(WAYS_SHOWN_MAX).map(line).collect();
    if more > 0 {
        lines.push(format!(
            "and {more} more ways to fail; `ravel runs show` has all"
        ));
    }
    lines
}

fn list(
    reasons: &mut Vec<Reason>,
    nodes: &[&NodeView],
    verb: &str,
    reason: &dyn Fn(&NodeView) -> Reason,
) {
    reasons.extend(nodes.iter().take(STEPS_SHOWN_MAX).map(|node| reason(node)));
    if nodes.len() > STEPS_SHOWN_MAX {
        let text = format!(
            "and {} more {verb}; `ravel runs show` has all",
            nodes.len() - STEPS_SHOWN_MAX
        );
        reasons.push(Reason::new("", text, Tone::Faint));
    }
}

/// What did not go as written and was taken up: failures that another way, a handler or another try made good, and
/// deadlines in whose place a value stands. The last of a kind for each step.
fn taken_up(run: &Run, turns: &[Turn], place: &dyn Fn(&str) -> Option<String>) -> Vec<Reason> {
    let mut found: BTreeMap<(Node, Rung), String> = BTreeMap::new();
    for event in turns.iter().flat_map(|turn| &turn.events) {
        if let Some((node, rung, text)) = rung(event) {
            found.insert((node, rung), text);
        }
    }
    for node in deadlines(turns) {
        let text = "nobody answered in time: it went on with the value of `on_deadline`";
        found.insert((node, Rung::Deadline), text.to_owned());
    }
    let shown = found.into_iter().filter_map(|((node, rung), text)| {
        let step = run.node(node)?;
        let is_told = rung == Rung::Caught || step.state == "succeeded";
        let text = if step.path.is_empty() {
            format!("the flow {text}")
        } else {
            text
        };
        is_told.then(|| Reason::new(&step.path, text, Tone::Warn).note(place(&step.path)))
    });
    let mut shown: Vec<Reason> = shown.collect();
    if shown.len() > STEPS_SHOWN_MAX {
        let more = shown.len() - STEPS_SHOWN_MAX;
        shown.truncate(STEPS_SHOWN_MAX);
        let text = format!("and {more} more that was taken up; `ravel runs log` has all");
        shown.push(Reason::new("", text, Tone::Faint));
    }
    shown
}

/// The rungs of the ladder that a failure climbs, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rung {
    Retry,
    Repair,
    Fallback,
    Caught,
    Deadline,
}

fn rung(event: &Event) -> Option<(Node, Rung, String)> {
    if let Event::RetryScheduled { node, error, .. } = event {
        let text = format!("was tried again after {}", short(error));
        return Some((*node, Rung::Retry, text));
    }
    if let Event::RepairStarted {
        node, round, error, ..
    } = event
    {
        let text = format!("was repaired in round {round} after {}", short(error));
        return Some((*node, Rung::Repair, text));
    }
    if let Event::FallbackStarted { node, index, error } = event {
        let text = format!("went on with fallback {} after {}", index + 1, short(error));
        return Some((*node, Rung::Fallback, text));
    }
    if let Event::Caught { node, index, error } = event {
        let text = format!("failed, and `catch[{index}]` took it up: {}", short(error));
        return Some((*node, Rung::Caught, text));
    }
    None
}

/// Steps that ended by a deadline of their own which the log tells by no failure.
fn deadlines(turns: &[Turn]) -> Vec<Node> {
    let mut until: BTreeMap<Node, u64> = BTreeMap::new();
    let mut over = Vec::new();
    for turn in turns {
        for event in &turn.events {
            if let Event::Asked {
                node,
                until: Some(at),
                ..
            }
            | Event::WaitStarted {
                node,
                until: Some(at),
                signal: Some(_),
            } = event
            {
                until.insert(*node, *at);
            }
            if let Event::SignalTaken { node, .. }
            | Event::Failing { node, .. }
            | Event::Caught { node, .. } = event
            {
                until.remove(node);
            }
            if let Event::Answered {
                node, by, value, ..
            } = event
                && (by.is_some() || !value.json().is_null())
            {
                until.remove(node);
            }
            if let Event::Settled { node, .. } = event
                && until.remove(node).is_some_and(|until| until <= turn.at)
            {
                over.push(*node);
            }
        }
    }
    over
}

/// Who cancelled what, and when.
fn cancelled(run: &Run, turns: &[Turn]) -> Vec<Reason> {
    let now = units::now();
    let asked = past::cancels(turns);
    let mut reasons: Vec<Reason> = asked
        .iter()
        .filter_map(|cancel| {
            let node = run.node(cancel.node)?;
            let what = if cancel.node == 0 {
                "the run"
            } else {
                "the step"
            };
            let end = if node.state == "cancelled" {
                String::new()
            } else {
                format!("; it {} all the same", node.state)
            };
            let who = cancel.who_and_when(now);
            let text = format!("{what} was cancelled{who}{end}");
            Some(Reason::new(&node.path, text, Tone::Warn))
        })
        .collect();
    if run.state() == RunState::Cancelled && asked.iter().all(|cancel| cancel.node != 0) {
        let text = format!("the run was cancelled {}", past::when(run.last_at(), now));
        reasons.push(Reason::new("", text, Tone::Warn));
    }
    reasons
}

/// What is known of the failures of a run.
struct Failures<'a> {
    /// Where the failure of the run began.
    origin: Option<&'a str>,
    /// Failures that a `catch` took up: the scope or step that has it, and which one.
    caught: Vec<(Arc<str>, u32, &'a Failure)>,
    place: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Failures<'a> {
    fn new(run: &'a Run, turns: &'a [Turn], place: &'a dyn Fn(&str) -> Option<String>) -> Self {
        let events = turns.iter().flat_map(|turn| &turn.events);
        let caught = events.filter_map(|event| {
            let Event::Caught { node, index, error } = event else {
                return None;
            };
            Some((run.node(*node)?.path, *index, error))
        });
        Self {
            origin: run.error().and_then(|error| error.step.as_deref()),
            caught: caught.collect(),
            place,
        }
    }

    /// Items that failed and did not fail the run: the outermost ones.
    fn items<'n>(&self, nodes: &'n [NodeView]) -> Vec<&'n NodeView> {
        let mut items: Vec<&NodeView> = Vec::new();
        for node in nodes {
            let is_item = node.kind == "item" && node.state == "failed";
            let of_run = self
                .origin
                .is_some_and(|origin| is_within(origin, &node.path));
            let within = || items.iter().any(|item| is_within(&node.path, &item.path));
            if is_item && !of_run && self.taken_up(node).is_none() && !within() {
                items.push(node);
            }
        }
        items
    }

    /// The `catch` around a failed step that took its failure up.
    fn taken_up(&self, node: &NodeView) -> Option<String> {
        let step = node.error.as_ref()?.step.as_ref()?;
        let takes = |(scope, _, error): &&(Arc<str>, u32, &Failure)| {
            error.step.as_ref() == Some(step) && is_within(&node.path, scope)
        };
        let (scope, index, _) = self.caught.iter().find(takes)?;
        let of = match &**scope {
            "" => "the flow".to_owned(),
            path => format!("`{path}`"),
        };
        Some(format!(" (`catch[{index}]` of {of} took it up)"))
    }

    fn reason(&self, node: &NodeView) -> Reason {
        let error = node.error.as_ref().map(short).unwrap_or_default();
        let place = (self.place)(&node.path);
        let taken_up = self.taken_up(node).unwrap_or_default();
        let step = node.error.as_ref().and_then(|error| error.step.as_deref());
        if step.is_some_and(|step| step != &*node.path && is_within(step, &node.path)) {
            let text = format!("failed with it: {error}{taken_up}");
            return Reason::new(&node.path, text, Tone::Bad).note(place);
        }
        let tries = if node.attempts > 1 {
            format!(" after {} attempts", node.attempts)
        } else {
            String::new()
        };
        let absorbed = if taken_up.is_empty() && self.origin != Some(&*node.path) {
            " (this alone did not fail the run)".to_owned()
        } else {
            taken_up
        };
        let data = node
            .error
            .as_ref()
            .and_then(|error| error.data.as_ref())
            .map(|data| detail(data.json()));
        let text = format!("{} failed{tries}: {error}{absorbed}", node.kind);
        Reason::new(&node.path, text, Tone::Bad).note(place.into_iter().chain(data))
    }
}

/// The part of an error's detail that people look for first.
fn detail(data: &Value) -> String {
    const SHOWN_COLUMNS_MAX: usize = 300;
    let stderr = data.get("stderr").and_then(Value::as_str).map(str::trim);
    match stderr.filter(|text| !text.is_empty()) {
        Some(text) => cut(&one_line(text), SHOWN_COLUMNS_MAX),
        None => json_line(data, SHOWN_COLUMNS_MAX),
    }
}
