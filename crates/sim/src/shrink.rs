//! Cuts a failing case down to what a person can read.

use serde_json::Value;

use crate::case::{Case, Weather};
use crate::world::{Violation, simulate};

/// Worlds that are tried at most.
const TRIES_MAX: u32 = 3_000;

/// A smaller case that breaks the same promise, and how. `None`: the case breaks none.
#[must_use]
pub fn shrink(case: &Case) -> Option<(Case, Box<Violation>)> {
    let violation = simulate(case).err()?;
    let wanted = kind(&violation.what);
    let mut best = (case.clone(), violation);
    let mut tries = 0;
    loop {
        let smaller = candidates(&best.0).into_iter().find_map(|candidate| {
            tries += 1;
            if tries > TRIES_MAX {
                return None;
            }
            let violation = simulate(&candidate).err()?;
            (kind(&violation.what) == wanted).then_some((candidate, violation))
        });
        match smaller {
            Some(smaller) => best = smaller,
            None => return Some(best),
        }
    }
}

/// A message without names and numbers.
fn kind(what: &str) -> String {
    let mut quoted = false;
    what.chars()
        .take_while(|c| *c != '\n' && *c != '{' && *c != '[')
        .filter(|c| {
            quoted ^= *c == '`';
            !quoted && !c.is_ascii_digit() && *c != '`'
        })
        .collect()
}

/// Smaller cases, the smallest first.
fn candidates(case: &Case) -> Vec<Case> {
    let mut smaller = Vec::new();
    for index in (0..case.flows.len()).rev().filter(|_| case.flows.len() > 1) {
        let mut without = case.clone();
        without.flows.remove(index);
        smaller.push(without);
    }
    for index in 0..case.acts.len() {
        let mut without = case.clone();
        without.acts.remove(index);
        smaller.push(without);
    }
    let calm = Weather {
        live_runs: 100,
        park_ms: 60_000,
        ..Weather::default()
    };
    let weathers = [
        calm,
        Weather {
            failing: 0,
            ..case.weather
        },
        Weather {
            twice: 0,
            ..case.weather
        },
        Weather {
            disk_ms: 0,
            ..case.weather
        },
        Weather {
            live_runs: 100,
            ..case.weather
        },
        Weather {
            park_ms: 60_000,
            ..case.weather
        },
    ];
    for weather in weathers
        .into_iter()
        .filter(|weather| *weather != case.weather)
    {
        smaller.push(Case {
            weather,
            ..case.clone()
        });
    }
    for (index, flow) in case.flows.iter().enumerate() {
        let mut flows = Vec::new();
        cuts(flow, &mut |cut| flows.push(cut));
        for flow in flows {
            let mut with = case.clone();
            with.flows[index] = flow;
            smaller.push(with);
        }
    }
    smaller
}

/// The value with one part left out, for each part that can be.
fn cuts(value: &Value, found: &mut dyn FnMut(Value)) {
    match value {
        Value::Object(fields) => {
            for key in fields.keys() {
                let mut cut = fields.clone();
                cut.shift_remove(key);
                found(Value::Object(cut));
            }
            for (key, field) in fields {
                cuts(field, &mut |smaller| {
                    let mut cut = fields.clone();
                    cut.insert(key.clone(), smaller);
                    found(Value::Object(cut));
                });
            }
        }
        Value::Array(items) => {
            for index in 0..items.len() {
                let mut cut = items.clone();
                cut.remove(index);
                found(Value::Array(cut));
            }
            for (index, item) in items.iter().enumerate() {
                cuts(item, &mut |smaller| {
                    let mut cut = items.clone();
                    cut[index] = smaller;
                    found(Value::Array(cut));
                });
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
