//! Expectations held against what is seen. Each kind of expectation says what differs in the words of the case.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use ravel_core::effect::Failure;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::case::{Expect, Fault, Group, Outcome, Used, WaitsFor};
use super::seen::{MICROUSD, expected_failure, failure};
use super::world::World;

/// One thing that is not as expected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// Where in the case: `at the end`, `in move 3 (expect)`.
    pub(crate) at: String,
    /// What was looked at.
    pub(crate) what: String,
    pub(crate) expected: Value,
    pub(crate) got: Value,
}

/// Holds what is seen against an expectation.
pub(super) fn compare(world: &World, expect: &Expect, at: &str, last: bool) -> Vec<Difference> {
    let mut differ = Differ {
        at,
        found: Vec::new(),
    };
    if last {
        differ.says_enough(world, expect);
    }
    differ.run(world, expect);
    differ.activations(world, expect);
    differ.order(world, expect);
    differ.open(world, expect, last);
    differ.outside(world, expect);
    differ.found
}

struct Differ<'a> {
    at: &'a str,
    found: Vec<Difference>,
}

impl Differ<'_> {
    fn differs(&mut self, what: &str, expected: Value, got: Value) {
        self.found.push(Difference {
            at: self.at.to_owned(),
            what: what.to_owned(),
            expected,
            got,
        });
    }

    fn equal(&mut self, what: &str, expected: &Option<impl Serialize>, got: Value) {
        if let Some(expected) = expected {
            let expected = json!(expected);
            if expected != got {
                self.differs(what, expected, got);
            }
        }
    }

    /// The end of a case is explicit: nothing may go unsaid.
    fn says_enough(&mut self, world: &World, expect: &Expect) {
        let said = json!("must be said at the end of a case");
        if expect.state.is_none() {
            self.differs("state", said.clone(), json!(world.run.state().name()));
        }
        if expect.outcomes.is_none() {
            self.differs("outcomes", said.clone(), world.outcomes().into());
        }
        if expect.started.is_none() {
            self.differs("started", said.clone(), groups_shown(&world.started()));
        }
        if let (None, Some(output)) = (&expect.output, world.run.output()) {
            self.differs("output", said.clone(), output.json().clone());
        }
        if let (None, Some(error)) = (&expect.error, world.run.error()) {
            self.differs("error", said.clone(), failure(error));
        }
        let waits = world.waits();
        if expect.waits.is_none() && !waits.is_empty() && !world.run.is_final() {
            self.differs("waits", said, waits.into());
        }
    }

    fn run(&mut self, world: &World, expect: &Expect) {
        self.equal("state", &expect.state, json!(world.run.state().name()));
        let output = world.run.output();
        if let Some(expected) = &expect.output
            && output.map(|output| output.json()) != Some(expected)
        {
            let got = output.map_or_else(|| json!("no output"), |output| output.json().clone());
            self.differs("output", expected.clone(), got);
        }
        if let Some(expected) = &expect.error {
            match world.run.error() {
                Some(error) if fits(expected, error) => {}
                Some(error) => {
                    self.differs("error", expected_failure(expected), failure(error));
                }
                None => self.differs("error", expected_failure(expected), json!("no error")),
            }
        }
        if let Some(used) = expect.usage {
            let (expected, got) = (json!(rounded(used)), json!(rounded(world.usage())));
            if !says_all(&expected, &got) {
                self.differs("usage", expected, got);
            }
        }
        self.equal("time", &expect.time, world.time());
    }

    fn activations(&mut self, world: &World, expect: &Expect) {
        let seen = world.outcomes();
        if let Some(outcomes) = &expect.outcomes {
            self.some("outcomes", outcomes, &seen);
            for (path, got) in seen
                .iter()
                .filter(|(path, _)| !outcomes.contains_key(*path))
            {
                self.differs(
                    &of("outcomes", path),
                    json!("no such activation"),
                    got.clone(),
                );
            }
        }
        if let Some(states) = &expect.states {
            self.some("states", states, &seen);
        }
    }

    fn some(
        &mut self,
        what: &str,
        expected: &IndexMap<String, Outcome>,
        seen: &Map<String, Value>,
    ) {
        for (path, outcome) in expected {
            let Some(got) = seen.get(path) else {
                let got = json!("no such activation");
                self.differs(&of(what, path), shown(outcome), got);
                continue;
            };
            if !outcome_fits(outcome, got) {
                self.differs(&of(what, path), shown(outcome), got.clone());
            }
        }
    }

    fn order(&mut self, world: &World, expect: &Expect) {
        if let Some(started) = &expect.started {
            self.groups("started", started, world.started());
        }
        let only = |expected: &[Group], got: Vec<String>| -> Vec<String> {
            let named = |one: &String| expected.iter().any(|group| group.0.contains(one));
            got.into_iter().filter(named).collect()
        };
        if let Some(settled) = &expect.settled {
            self.groups("settled", settled, each(only(settled, world.settlements())));
        }
        if let Some(history) = &expect.history {
            self.groups("history", history, each(only(history, world.history())));
        }
    }

    /// Groups in order; what is in one group may come in any order.
    fn groups(&mut self, what: &str, expected: &[Group], seen: Vec<Group>) {
        let got: Vec<String> = seen.iter().flat_map(|group| group.0.clone()).collect();
        let count: usize = expected.iter().map(|group| group.0.len()).sum();
        let mut rest = got.as_slice();
        let fits = count == got.len()
            && expected.iter().all(|group| {
                let (these, others) = rest.split_at(group.0.len());
                rest = others;
                sorted(these) == sorted(&group.0)
            });
        if !fits {
            self.differs(what, groups_shown(expected), groups_shown(&seen));
        }
    }

    fn open(&mut self, world: &World, expect: &Expect, last: bool) {
        let none = || last.then(Vec::new);
        let attempts = |named: &Option<Vec<String>>| {
            let named = named.clone().or_else(none);
            named.map(|paths| sorted(&paths))
        };
        let under_way = attempts(&expect.under_way);
        self.equal("under_way", &under_way, json!(world.attempts(false)));
        let stopping = attempts(&expect.stopping);
        self.equal("stopping", &stopping, json!(world.attempts(true)));
        let Some(expected) = &expect.waits else {
            return;
        };
        let got = world.waits();
        let all_fit = expected.len() == got.len() && pairs_up(expected, &got);
        if !all_fit {
            self.differs("waits", json!(expected), got.into());
        }
    }

    fn outside(&mut self, world: &World, expect: &Expect) {
        for (path, expected) in expect.sent.iter().flatten() {
            let got = world.sent_to(path);
            if got.as_ref() != Some(expected) {
                let got = got.unwrap_or_else(|| json!("nothing was sent"));
                self.differs(&of("sent", path), expected.clone(), got);
            }
        }
        let keys = world.keys();
        for (path, expected) in expect.keys.iter().flatten() {
            let got = keys.get(path).cloned().unwrap_or_default();
            if got != *expected {
                self.differs(&of("keys", path), json!(expected), json!(got));
            }
        }
        let stands = expect.uncompensated.as_deref().map(sorted);
        let got = sorted(&world.uncompensated());
        self.equal("uncompensated", &stands, json!(got));
        let peaks: BTreeMap<String, u32> = world
            .permits
            .peak
            .iter()
            .map(|(key, peak)| (key.to_string(), *peak))
            .collect();
        self.equal("peak", &expect.peak, json!(peaks));
    }
}

/// Groups as cases write them.
fn groups_shown(groups: &[Group]) -> Value {
    let shown = groups.iter().map(|group| match group.0.as_slice() {
        [one] => json!(one),
        several => json!(several),
    });
    shown.collect()
}

/// Things that came one after the other.
fn each(things: Vec<String>) -> Vec<Group> {
    things.into_iter().map(|one| Group(vec![one])).collect()
}

/// `states of a/b`.
fn of(what: &str, path: &str) -> String {
    format!("{what} of {path}")
}

fn sorted(paths: &[String]) -> Vec<String> {
    let mut paths = paths.to_vec();
    paths.sort();
    paths
}

/// Dollars to the micro-dollar.
fn rounded(used: Used) -> Used {
    Used {
        usd: used.usd.map(|usd| (usd * MICROUSD).round() / MICROUSD),
        ..used
    }
}

fn fits(expected: &Fault, got: &Failure) -> bool {
    let is = |expected: &Option<String>, got: &Option<std::sync::Arc<str>>| {
        expected.is_none() || expected.as_deref() == got.as_deref()
    };
    expected.class == got.class && is(&expected.code, &got.code) && is(&expected.step, &got.step)
}

fn outcome_fits(expected: &Outcome, got: &Value) -> bool {
    match expected {
        Outcome::Failed(fault) => got.get("failed").is_some_and(|got| {
            let expected = expected_failure(fault);
            says_all(&expected, got)
        }),
        other => shown(other) == *got,
    }
}

fn shown(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Pending => json!("pending"),
        Outcome::Ready => json!("ready"),
        Outcome::Running => json!("running"),
        Outcome::Waiting => json!("waiting"),
        Outcome::Cancelled => json!("cancelled"),
        Outcome::Succeeded(value) => json!({ "succeeded": value }),
        Outcome::Failed(fault) => json!({ "failed": expected_failure(fault) }),
        Outcome::Skipped(skip) => json!({ "skipped": skip }),
    }
}

/// True when everything that is expected stands in what was got.
fn says_all(expected: &Value, got: &Value) -> bool {
    let Value::Object(fields) = expected else {
        return expected == got;
    };
    fields
        .iter()
        .all(|(key, value)| got.get(key) == Some(value))
}

/// Each expected wait is one of those that are there.
fn pairs_up(expected: &[WaitsFor], got: &[Value]) -> bool {
    let mut left: Vec<&Value> = got.iter().collect();
    expected.iter().all(|wait| {
        let wait = json!(wait);
        let found = left.iter().position(|one| says_all(&wait, one));
        found.map(|position| left.remove(position)).is_some()
    })
}
