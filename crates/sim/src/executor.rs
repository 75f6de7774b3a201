//! What attempts do in the simulated world: a function of the seed and the attempt's place.

use ravel_core::effect::{Effect, ErrorClass, Failure, Millis, Outcome, Usage};
use ravel_core::port::{Job, Request};
use serde_json::{Value, json};

use crate::dice::chance;

/// What one attempt does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// When its effect takes place, ms after its start; absent: never.
    pub(crate) effect: Option<Millis>,
    /// When it reports its end, ms after its start; absent: it hangs until it is stopped.
    pub(crate) end: Option<Millis>,
    /// What it reports.
    pub(crate) outcome: Outcome,
    /// Items that it streams before.
    pub(crate) items: Vec<Value>,
    /// How long it takes to report its end when it is stopped, ms.
    pub(crate) stop: Millis,
}

/// What the attempt does in this world. `run` is the run's name, `failing` the share of bad ends.
pub(crate) fn plan(seed: u64, run: &str, job: &Job, failing: u64) -> Plan {
    let place = format!("{run}/{}", job.path);
    let draw = |what: &str, below: u64| {
        chance(seed, what, &place, u64::from(job.attempt.number)) % below.max(1)
    };
    let end = match draw("delay", 4) {
        0 => 0,
        1 => draw("short", 20),
        _ => draw("long", 3_000),
    };
    let good = Plan {
        effect: Some(draw("when", end + 1)),
        end: Some(end),
        outcome: done(seed, &place, job),
        items: items(job, draw("items", 4)),
        stop: draw("stop", 3) * draw("stopping", 8_000),
    };
    if draw("fails", 100) >= failing {
        return good;
    }
    let fails = |outcome: fn(Failure) -> Outcome, class| outcome(Failure::new(class, "simulated"));
    match draw("how", 8) {
        0 | 1 => Plan {
            effect: None,
            outcome: fails(Outcome::not_done, ErrorClass::Unavailable),
            ..good
        },
        2 => Plan {
            effect: None,
            outcome: fails(Outcome::not_done, ErrorClass::Refused),
            ..good
        },
        3 => Plan {
            outcome: fails(Outcome::done_with, ErrorClass::ToolError),
            ..good
        },
        4 => Plan {
            outcome: fails(Outcome::unknown, ErrorClass::Unavailable),
            ..good
        },
        5 => Plan {
            effect: None,
            outcome: fails(Outcome::unknown, ErrorClass::Unavailable),
            ..good
        },
        6 => Plan { end: None, ..good },
        _ => Plan {
            effect: None,
            end: None,
            ..good
        },
    }
}

/// A value of the right shape, with what it cost.
fn done(seed: u64, place: &str, job: &Job) -> Outcome {
    let good = !chance(seed, "good", place, u64::from(job.attempt.number)).is_multiple_of(3);
    match &job.request {
        Request::Tool { input, .. } => {
            let mut value = input.json().clone();
            if !value.is_object() {
                value = json!({});
            }
            value["good"] = good.into();
            Outcome::done(value.into())
        }
        Request::Model(model) => {
            let value = if model.schema.is_some() {
                json!({ "pass": good, "reason": "so", "score": 1 })
            } else {
                json!({ "text": "words" })
            };
            let most = u64::from(model.max_tokens);
            let output = 1 + chance(seed, "tokens", place, 0) % most;
            Outcome::done(value.into()).with_usage(used(output))
        }
        Request::Run(_) => {
            Outcome::done(json!({ "code": 0, "stdout": "", "stderr": "", "files": {} }).into())
        }
    }
}

/// Micro-dollars of a token of the simulated model.
pub(crate) const MICROUSD_PER_TOKEN: u64 = 10;

fn used(output: u64) -> Usage {
    Usage {
        input_tokens: 1,
        output_tokens: output,
        cost_microusd: (1 + output) * MICROUSD_PER_TOKEN,
        ..Usage::default()
    }
}

/// What a producer streams need not be what its value says in the end.
fn items(job: &Job, how: u64) -> Vec<Value> {
    let (Request::Tool { input, .. }, Some(_)) = (&job.request, &job.stream) else {
        return Vec::new();
    };
    let mut items = input.json()["items"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    match how {
        0 => items.insert(0, json!(77)),
        1 => items.push(json!(78)),
        2 => items.truncate(1),
        _ => {}
    }
    items
}

/// True for what changes the world outside.
pub(crate) fn changes(effect: Effect) -> bool {
    matches!(effect, Effect::Write | Effect::Once)
}
