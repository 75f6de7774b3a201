//! Why a run ended as it did: the causal chain of a failure, what was skipped because of it, what stands.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ravel_core::event::{Event, Node, Turn};
use ravel_core::port::RunState;
use ravel_core::run::{NodeView, Run};
use serde_json::Value;

use super::Reason;
use crate::cli::past;
use crate::output::{Tone, cut, one_line, units};
use crate::view::{short, why_skipped};

/// Steps of a kind (failed, skipped) that are listed.
const STEPS_SHOWN_MAX: usize = 20;

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
        let began = error
            .step
            .as_ref()
            .map(|step| format!("it began in {step}"));
        reasons.push(
            Reason::new(
                "",
                format!("the run failed with {}", short(error)),
                Tone::Bad,
            )
            .note(began),
        );
    }
    let origin = run.error().and_then(|error| error.step.clone());
    // From the step where it began outwards: each scope that failed with it.
    let mut failures: Vec<&NodeView> = nodes.iter().filter(|node| node.state == "failed").collect();
    failures.sort_by_key(|node| (node.ended, Reverse(node.path.len())));
    list(&mut reasons, &failures, "failed", &|node| {
        failed(node, origin.as_deref(), place)
    });
    reasons.extend(taken_up(run, turns, place));
    let skipped: Vec<&NodeView> = nodes.iter().filter(|node| node.skip.is_some()).collect();
    list(&mut reasons, &skipped, "were skipped", &|node| {
        let why = node.skip.as_ref().map(why_skipped).unwrap_or_default();
        Reason::new(&node.path, format!("skipped: {why}"), Tone::Faint)
    });
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

fn failed(node: &NodeView, origin: Option<&str>, place: &dyn Fn(&str) -> Option<String>) -> Reason {
    let error = node.error.as_ref().map(short).unwrap_or_default();
    let around = |origin: &str| {
        origin
            .strip_prefix(&*node.path)
            .is_some_and(|rest| rest.starts_with(['/', '[', '~']))
    };
    if origin.is_some_and(around) {
        return Reason::new(&node.path, format!("failed with it: {error}"), Tone::Bad)
            .note(place(&node.path));
    }
    let tries = if node.attempts > 1 {
        format!(" after {} attempts", node.attempts)
    } else {
        String::new()
    };
    let absorbed = if origin == Some(&*node.path) {
        ""
    } else {
        " (this alone did not fail the run)"
    };
    let data = node
        .error
        .as_ref()
        .and_then(|error| error.data.as_ref())
        .map(|data| detail(data.json()));
    Reason::new(
        &node.path,
        format!("{} failed{tries}: {error}{absorbed}", node.kind),
        Tone::Bad,
    )
    .note(place(&node.path).into_iter().chain(data))
}

/// The part of an error's detail that people look for first.
fn detail(data: &Value) -> String {
    const SHOWN_COLUMNS_MAX: usize = 300;
    let stderr = data.get("stderr").and_then(Value::as_str).map(str::trim);
    let text = stderr
        .filter(|text| !text.is_empty())
        .map_or_else(|| data.to_string(), str::to_owned);
    cut(&one_line(&text), SHOWN_COLUMNS_MAX)
}
