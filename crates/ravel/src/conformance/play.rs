//! Plays a case: its moves one after the other, to the first that is not as it must be.

use ravel_core::effect::{ErrorClass, Failure, Outcome, Usage};
use ravel_core::event::Input;
use ravel_core::run::{Price, RunLimits, Terms};
use serde_json::{Value, json};

use super::case::{Answer, Case, CaseTerms, Edit, End, Fault, Move, Refusal, Used};
use super::compare::{Difference, compare};
use super::seen::MICROUSD;
use super::world::{START, Trouble, World, compile};
use crate::cli::first_turn;

/// What stopped a case.
enum Stopped {
    /// It is not as expected.
    Differs(Vec<Difference>),
    /// The machine broke a promise, or the case cannot be played.
    Wrong(String),
}

/// Plays a case to its end. Empty: everything is as expected.
pub(super) fn play(case: &Case) -> Vec<Difference> {
    let mut at = "at the start".to_owned();
    match played(case, &mut at) {
        Ok(()) => Vec::new(),
        Err(Stopped::Differs(found)) => found,
        Err(Stopped::Wrong(message)) => vec![Difference {
            at,
            what: "case".to_owned(),
            expected: json!("it can be played"),
            got: json!(message),
        }],
    }
}

fn played(case: &Case, at: &mut String) -> Result<(), Stopped> {
    let Some(mut world) = started(case, at)? else {
        return Ok(());
    };
    for (index, one) in case.script.iter().enumerate() {
        *at = format!("in move {} ({})", index + 1, one.name());
        moved(&mut world, one, at)?;
    }
    "at the end".clone_into(at);
    let found = compare(&world, &case.expect, at, true);
    if !found.is_empty() {
        return Err(Stopped::Differs(found));
    }
    world.look_back().map_err(|trouble| unexpected(trouble, at))
}

/// The run, or `None` when there is none and must be none.
fn started(case: &Case, at: &str) -> Result<Option<World>, Stopped> {
    let expected = case.expect.refused;
    let graph = match compile(&case.flow) {
        Ok(graph) => graph,
        Err(_) if expected == Some(Refusal::Check) => return Ok(None),
        Err(report) => {
            return Err(Stopped::Wrong(format!(
                "the flow does not check:\n{report}"
            )));
        }
    };
    if expected == Some(Refusal::Check) {
        return Err(differs(
            at,
            "refused",
            json!("check"),
            json!("the flow checks"),
        ));
    }
    let terms = terms(&case.terms).map_err(Stopped::Wrong)?;
    let started = World::start(&graph, case.input.clone(), terms);
    match (started, expected) {
        (Ok(world), None) => Ok(Some(world)),
        (Ok(_), Some(_)) => {
            let got = json!("the run starts");
            Err(differs(at, "refused", json!("input"), got))
        }
        (Err(Trouble::Refused(reject)), Some(_)) if reject.code == "invalid_input" => Ok(None),
        (Err(trouble), _) => Err(unexpected(trouble, at)),
    }
}

fn terms(written: &CaseTerms) -> Result<Terms, String> {
    let mut limits = json!(RunLimits::default());
    for (name, value) in &written.limits {
        if limits.get(name).is_none() {
            return Err(format!("there is no limit `{name}` of a run"));
        }
        limits[name] = json!(value);
    }
    let limits = serde_json::from_value(limits).map_err(|error| error.to_string())?;
    let price = |usd: f64| (usd * MICROUSD).round() as u64;
    let models = written.prices.iter().map(|(model, cost)| {
        let cost = Price {
            input_microusd_per_mtok: price(cost.input),
            output_microusd_per_mtok: price(cost.output),
        };
        (model.as_str().into(), cost)
    });
    Ok(Terms {
        limits,
        models: models.collect(),
        folder: None,
    })
}

fn moved(world: &mut World, one: &Move, at: &str) -> Result<(), Stopped> {
    let wrong = |message: String| Stopped::Wrong(message);
    let through = |result: Result<(), Trouble>| result.map_err(|trouble| unexpected(trouble, at));
    match one {
        Move::End(end) => ended(world, end, at),
        Move::Items(items) => {
            let attempt = attempt_of(world, &items.path)?;
            let input = Input::Chunk {
                attempt,
                field: items.field.as_str().into(),
                items: items.items.iter().cloned().map(Into::into).collect(),
            };
            given(world.input(input), None, at)
        }
        Move::Answer(answer) => answered(world, answer, at),
        Move::Signal(signal) => {
            let input = Input::Signal {
                name: signal.name.as_str().into(),
                value: signal.value.clone().into(),
                id: signal.id.as_deref().map(Into::into),
            };
            given(world.input(input), signal.refused.as_deref(), at)
        }
        Move::Cancel(cancel) => {
            let input = Input::Cancel {
                path: cancel.path.as_deref().map(Into::into),
                by: Some(SOMEBODY.into()),
                reason: None,
            };
            given(world.input(input), cancel.refused.as_deref(), at)
        }
        Move::Edit(edit) => edited(world, edit, at),
        Move::Crash(crash) => through(world.crash(crash.down.map_or(0, |down| down.0))),
        Move::Time(time) if START + time.0 < world.now => {
            Err(wrong("the clock does not go back".to_owned()))
        }
        Move::Time(time) => through(world.pass(START + time.0)),
        Move::Mark(name) => {
            world.mark(name);
            Ok(())
        }
        Move::Fork(mark) => {
            let turns = world.marked(mark);
            let turns = turns.ok_or_else(|| wrong(format!("there is no mark `{mark}`")))?;
            through(world.fork(turns))
        }
        Move::RetryFrom(path) => {
            let found = world.run.nodes().find(|view| *view.path == **path);
            let turn = found.and_then(|view| first_turn(&world.log, view.node));
            let turn = turn.ok_or_else(|| wrong(format!("`{path}` never became ready")))?;
            through(world.fork(turn as usize))
        }
        Move::Expect(expect) => match compare(world, expect, at, false) {
            found if found.is_empty() => Ok(()),
            found => Err(Stopped::Differs(found)),
        },
    }
}

/// Who answers and cancels.
const SOMEBODY: &str = "somebody";

fn answered(world: &mut World, answer: &Answer, at: &str) -> Result<(), Stopped> {
    let Some(question) = world.asked.get(answer.path.as_str()).cloned() else {
        let message = format!("`{}` has not asked anything", answer.path);
        return Err(Stopped::Wrong(message));
    };
    let input = Input::Answer {
        question,
        value: answer.value.clone().into(),
        by: Some(SOMEBODY.into()),
    };
    given(world.input(input), answer.refused.as_deref(), at)
}

fn attempt_of(world: &World, path: &str) -> Result<ravel_core::event::Attempt, Stopped> {
    world.under_way(path).ok_or_else(|| {
        let open = [world.attempts(false), world.attempts(true)].concat();
        Stopped::Wrong(format!(
            "no attempt of `{path}` is under way; under way: {}",
            if open.is_empty() {
                "none".to_owned()
            } else {
                open.join(", ")
            }
        ))
    })
}

fn ended(world: &mut World, end: &End, at: &str) -> Result<(), Stopped> {
    let attempt = match end.attempt {
        None => attempt_of(world, &end.path)?,
        Some(number) => world
            .attempt(&end.path, number)
            .ok_or_else(|| Stopped::Wrong(format!("`{}` never had attempt {number}", end.path)))?,
    };
    let outcome = outcome(end).map_err(Stopped::Wrong)?;
    let changed = world
        .ended(attempt, outcome)
        .map_err(|trouble| unexpected(trouble, at))?;
    if changed == end.ignored {
        let word = |changed| {
            if changed {
                "something changes"
            } else {
                "nothing changes"
            }
        };
        let (expected, got) = (word(!end.ignored), word(changed));
        return Err(differs(at, "end", json!(expected), json!(got)));
    }
    Ok(())
}

fn outcome(end: &End) -> Result<Outcome, String> {
    let outcome = match (&end.done, &end.failed, &end.not_done, &end.unknown) {
        (Some(value), None, None, None) => Outcome::done(value.clone().into()),
        (None, Some(fault), None, None) => Outcome::done_with(failure(fault)),
        (None, None, Some(fault), None) => Outcome::not_done(failure(fault)),
        (None, None, None, Some(fault)) => Outcome::unknown(failure(fault)),
        _ => return Err("an end is one of `done`, `failed`, `not_done`, `unknown`".to_owned()),
    };
    Ok(match end.usage {
        Some(used) => outcome.with_usage(usage(used)),
        None => outcome,
    })
}

fn usage(used: Used) -> Usage {
    Usage {
        input_tokens: used.input_tokens.unwrap_or(0),
        cached_tokens: 0,
        output_tokens: used.output_tokens.unwrap_or(0),
        cost_microusd: (used.usd.unwrap_or(0.0) * MICROUSD).round() as u64,
    }
}

fn failure(fault: &Fault) -> Failure {
    let mut failure = Failure::new(fault.class, scripted(fault.class));
    failure.code = fault.code.as_deref().map(Into::into);
    failure.step = fault.step.as_deref().map(Into::into);
    failure.retry_after_ms = fault.retry_after.map(|span| span.0);
    failure
}

/// The message of every failure that comes from a script.
fn scripted(class: ErrorClass) -> String {
    format!("scripted {class}")
}

fn edited(world: &mut World, edit: &Edit, at: &str) -> Result<(), Stopped> {
    let graph = compile(&edit.flow)
        .map_err(|report| Stopped::Wrong(format!("the edited flow does not check:\n{report}")))?;
    given(world.edit(edit.base, graph), edit.refused.as_deref(), at)
}

/// An input went in, or was refused, as it must be.
fn given(result: Result<bool, Trouble>, refused: Option<&str>, at: &str) -> Result<(), Stopped> {
    match (result, refused) {
        (Ok(_), None) => Ok(()),
        (Ok(_), Some(code)) => Err(differs(at, "refused", json!(code), json!("it is taken in"))),
        (Err(Trouble::Refused(reject)), Some(code)) if reject.code == code => Ok(()),
        (Err(Trouble::Refused(reject)), Some(code)) => {
            Err(differs(at, "refused", json!(code), json!(reject.code)))
        }
        (Err(trouble), None) | (Err(trouble @ Trouble::Broken(_)), Some(_)) => {
            Err(unexpected(trouble, at))
        }
    }
}

fn unexpected(trouble: Trouble, at: &str) -> Stopped {
    match trouble {
        Trouble::Refused(reject) => {
            let got = json!(format!("{}: {}", reject.code, reject.message));
            differs(at, "refused", json!("it is taken in"), got)
        }
        Trouble::Broken(message) => {
            differs(at, "promise", json!("every promise holds"), json!(message))
        }
    }
}

fn differs(at: &str, what: &str, expected: Value, got: Value) -> Stopped {
    Stopped::Differs(vec![Difference {
        at: at.to_owned(),
        what: what.to_owned(),
        expected,
        got,
    }])
}
