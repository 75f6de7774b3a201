//! What is seen of a run, in the words of cases: plain data that an expectation is compared with.

use std::collections::BTreeMap;
use std::sync::Arc;

use ravel_core::effect::{Failure, Millis};
use ravel_core::event::Wait;
use ravel_core::port::{Job, Request, RunCommand};
use ravel_core::run::NodeView;
use serde_json::{Map, Value, json};

use super::case::{Fault, Group, Span, Used, WaitsFor};
use super::world::{Deed, START, World};

/// Micro-dollars of a dollar.
pub(super) const MICROUSD: f64 = 1e6;

impl World {
    /// Every activation but the flow's own: path to outcome.
    pub(super) fn outcomes(&self) -> Map<String, Value> {
        let nodes = self.run.nodes().filter(|view| !view.path.is_empty());
        nodes
            .map(|view| (view.path.to_string(), outcome(&view)))
            .collect()
    }

    /// Starts of attempts in order, those of one turn together.
    pub(super) fn started(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut before = None;
        for deed in &self.deeds {
            let Deed::Started(path, turn) = deed else {
                continue;
            };
            match groups.last_mut().filter(|_| before == Some(turn)) {
                Some(group) => group.0.push(path.to_string()),
                None => groups.push(Group(vec![path.to_string()])),
            }
            before = Some(turn);
        }
        groups
    }

    pub(super) fn settlements(&self) -> Vec<String> {
        let settled = self.deeds.iter().filter_map(|deed| match deed {
            Deed::Settled(path) if !path.is_empty() => Some(path.to_string()),
            Deed::Settled(_) | Deed::Started(..) => None,
        });
        settled.collect()
    }

    pub(super) fn history(&self) -> Vec<String> {
        let deeds = self.deeds.iter().map(|deed| match deed {
            Deed::Started(path, _) => format!("start {path}"),
            Deed::Settled(path) => format!("settle {path}"),
        });
        deeds.collect()
    }

    /// Paths of attempts without an end: those that go on, or those that were told to stop.
    pub(super) fn attempts(&self, stopping: bool) -> Vec<String> {
        let open = self.open.values().filter(|open| open.stopping == stopping);
        let mut paths: Vec<String> = open.map(|open| open.path.to_string()).collect();
        paths.sort();
        paths
    }

    /// What the run waits for besides attempts.
    pub(super) fn waits(&self) -> Vec<Value> {
        let questions = self.run.questions();
        let to = |path: &Arc<str>| {
            let question = questions.iter().find(|question| question.path == *path);
            question.and_then(|question| question.to.as_deref().map(str::to_owned))
        };
        let waits = self.run.waits_on();
        let seen = waits.into_iter().filter_map(|wait| waits_for(wait, &to));
        let mut seen: Vec<Value> = seen
            .filter_map(|wait| serde_json::to_value(wait).ok())
            .collect();
        seen.sort_by_key(Value::to_string);
        seen
    }

    /// What was last sent out for a path.
    pub(super) fn sent_to(&self, path: &str) -> Option<Value> {
        let last = self.sent.iter().rev().find(|job| *job.path == *path)?;
        Some(request(last))
    }

    /// Keys of each path's attempts, numbered by their first use.
    pub(super) fn keys(&self) -> BTreeMap<String, Vec<u32>> {
        let mut numbers = BTreeMap::<&str, u32>::new();
        let mut keys = BTreeMap::<String, Vec<u32>>::new();
        for job in &self.sent {
            let next = numbers.len() as u32 + 1;
            let number = *numbers.entry(&job.key).or_insert(next);
            keys.entry(job.path.to_string()).or_default().push(number);
        }
        keys
    }

    pub(super) fn usage(&self) -> Used {
        let usage = self.run.usage();
        Used {
            input_tokens: Some(usage.input_tokens),
            output_tokens: Some(usage.output_tokens),
            usd: Some(usage.cost_microusd as f64 / MICROUSD),
        }
    }

    pub(super) fn uncompensated(&self) -> Vec<String> {
        let paths = self.run.uncompensated();
        paths.iter().map(ToString::to_string).collect()
    }

    /// Time of the last turn since the start.
    pub(super) fn time(&self) -> Value {
        span(self.run.last_at())
    }
}

fn span(at: Millis) -> Value {
    serde_json::to_value(Span(at.saturating_sub(START))).unwrap_or_default()
}

/// A failure with everything that a case may say of it.
pub(super) fn failure(error: &Failure) -> Value {
    let mut seen = json!({ "class": error.class });
    if let Some(code) = &error.code {
        seen["code"] = json!(code);
    }
    if let Some(step) = &error.step {
        seen["step"] = json!(step);
    }
    seen
}

/// An expected failure: what it does not say is left out of what is seen, too.
pub(super) fn expected_failure(fault: &Fault) -> Value {
    let mut expected = json!({ "class": fault.class });
    if let Some(code) = &fault.code {
        expected["code"] = json!(code);
    }
    if let Some(step) = &fault.step {
        expected["step"] = json!(step);
    }
    expected
}

fn outcome(view: &NodeView) -> Value {
    match view.state {
        "succeeded" => json!({ "succeeded": view.value }),
        "failed" => json!({ "failed": view.error.as_ref().map(failure) }),
        "skipped" => json!({ "skipped": view.skip }),
        word => json!(word),
    }
}

fn waits_for(wait: Wait, to: &dyn Fn(&Arc<str>) -> Option<String>) -> Option<WaitsFor> {
    let text = |text: Arc<str>| Some(text.to_string());
    let until = |at: Option<Millis>| at.map(|at| Span(at.saturating_sub(START)));
    let none = WaitsFor::default();
    match wait {
        Wait::Attempt { .. } => None,
        Wait::Permit { path, keys: _ } => Some(WaitsFor {
            permit: text(path),
            ..none
        }),
        Wait::Budget { path } => Some(WaitsFor {
            budget: text(path),
            ..none
        }),
        Wait::Person {
            path,
            ask,
            topic,
            until: at,
            question: _,
        } => Some(WaitsFor {
            to: to(&path),
            person: text(path),
            about: Some(topic.name().to_owned()),
            ask: text(ask),
            until: until(at),
            ..none
        }),
        Wait::Time {
            path,
            until: at,
            why,
        } => Some(WaitsFor {
            time: text(path),
            why: Some(why.to_owned()),
            until: until(Some(at)),
            ..none
        }),
        Wait::Signal {
            path,
            name,
            until: at,
        } => Some(WaitsFor {
            signal: text(path),
            inbox: text(name),
            until: until(at),
            ..none
        }),
        Wait::Items { path, from } => Some(WaitsFor {
            items: text(path),
            from: text(from),
            ..none
        }),
    }
}

/// What an attempt was asked to do: a tool's arguments, a model's last message, a program's text or words.
fn request(job: &Job) -> Value {
    match &job.request {
        Request::Tool { input, .. } => input.json().clone(),
        Request::Model(model) => {
            let last = model.messages.last();
            last.map(|message| message.json()["content"].clone())
                .unwrap_or_default()
        }
        Request::Run(run) => match &run.program {
            RunCommand::Shell(text) | RunCommand::Python(text) | RunCommand::Node(text) => {
                json!(text)
            }
            RunCommand::Command(words) => json!(words),
        },
    }
}
