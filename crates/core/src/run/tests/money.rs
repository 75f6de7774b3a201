//! Budgets: reserved before, settled after, under any interleaving and over a crash.

use serde_json::json;

use super::world::{Does, World, echo};
use crate::effect::{ErrorClass, Fate, Usage};
use crate::port::Job;
use crate::run::{Price, Terms};

fn priced(yaml: &str) -> World {
    let mut terms = Terms::default();
    // One output token costs 1,500 micro-dollars; prompts are free.
    terms.models.insert(
        "m".into(),
        Price {
            input_microusd_per_mtok: 0,
            output_microusd_per_mtok: 1_500_000_000,
        },
    );
    World::with_terms(yaml, json!({}), Box::new(costly), terms)
}

fn costly(job: &Job) -> Does {
    match echo(job) {
        Does::Value(value) => Does::Costs(
            value,
            Usage {
                output_tokens: 100,
                cost_microusd: 150_000,
                ..Usage::default()
            },
        ),
        other => other,
    }
}

const FIVE: &str = "
ravel: 1
name: five
budget: { usd: 0.45 }
steps:
  calls:
    for_each: range(5) | list
    as: i
    tolerate: 5
    steps: { call: { model: m, prompt: 'n {{ i }}', max_tokens: 100 } }
    output: '{{ i }}'
output: '{{ calls }}'
";

#[test]
fn five_calls_under_a_budget_for_three_spend_what_three_cost() {
    let mut world = priced(FIVE);
    world.drive();
    assert_eq!(world.output(), json!([0, 1, 2]));
    assert_eq!(world.run.usage().cost_microusd, 450_000);
    let failed: Vec<_> = world
        .run
        .nodes()
        .filter(|view| view.kind == "model" && view.state == "failed")
        .filter_map(|view| view.error)
        .map(|error| error.class)
        .collect();
    assert_eq!(
        failed,
        [ErrorClass::BudgetExceeded, ErrorClass::BudgetExceeded]
    );
}

#[test]
fn a_lost_call_is_booked_at_its_reservation() {
    let mut world = priced(FIVE);
    assert_eq!(world.open_paths().len(), 3);
    world.crash();
    // Three reservations are booked as spent: nothing is left to try again with.
    world.drive();
    assert_eq!(world.run.usage().cost_microusd, 450_000);
    assert_eq!(world.effects.len(), 0);
}

#[test]
fn a_call_waits_while_reservations_may_be_given_back() {
    let mut world = priced(&FIVE.replace("usd: 0.45", "usd: 0.50"));
    assert_eq!(world.open_paths().len(), 3);
    assert!(
        world
            .run
            .waits_on()
            .iter()
            .any(|wait| matches!(wait, crate::event::Wait::Budget { .. }))
    );
    world.drive();
    assert_eq!(world.run.usage().cost_microusd, 450_000);
}

#[test]
fn active_time_is_budgeted_without_people_and_waits() {
    let mut world = World::new(
        "
ravel: 1
name: timed
budget: { time: 1m }
steps:
  pause: { wait: 1h }
  ask: { after: [pause], human: { ask: 'Well?', form: { ok: boolean }, deadline: 1h, on_deadline: { ok: true } } }
  slow: { after: [ask], tool: test.slow, with: {}, effect: read, timeout: 10m }
",
        json!({}),
        Box::new(|_| Does::Hangs),
    );
    world.drive();
    assert_eq!(
        (world.error_class(), world.now - 1_000_000),
        (Some(ErrorClass::BudgetExceeded), 2 * 3_600_000 + 60_000)
    );
}

#[test]
fn time_in_which_nobody_worked_is_not_taken_from_a_budget() {
    let flow = "
ravel: 1
name: timed
budget: { time: 4s }
steps:
  a: { tool: test.a, with: {}, effect: read }
  b: { after: a, tool: test.b, with: {}, effect: read }
";
    let script = |job: &Job| {
        if &*job.path == "a" && job.attempt.number == 1 {
            Does::Hangs
        } else {
            echo(job)
        }
    };
    let mut world = World::new(flow, json!({}), Box::new(script));
    world.now += 60_000;
    let mut forked = world.fork(world.log.len(), "r2");
    forked.drive();
    assert_eq!(forked.run.state().name(), "succeeded", "{}", forked.story());
    world.crash();
    world.drive();
    assert_eq!(world.run.state().name(), "succeeded", "{}", world.story());
}

const PAID: &str = "
ravel: 1
name: paid
budget: { usd: 0.45, tokens: 100k }
steps:
  call: { model: MODEL, prompt: hi, max_tokens: 100 }
output: '{{ call.text }}'
";

#[test]
fn a_model_without_a_price_is_not_called_under_a_budget_of_money() {
    let mut world = priced(&PAID.replace("MODEL", "own"));
    world.drive();
    let error = world.run.error().cloned().unwrap();
    assert_eq!(
        (error.class, error.code.as_deref(), &*error.message),
        (
            ErrorClass::BudgetExceeded,
            Some("price_unknown"),
            "the budget of the flow is in dollars, and the price of model `own` was not known when the run started: \
             give it `prices` under its provider in ravel.toml (`providers.*.models.*.prices`), 0 if it costs nothing"
        )
    );
    assert_eq!(world.effects.len(), 0);
}

#[test]
fn a_model_of_a_price_of_nothing_is_called_under_a_budget_of_money() {
    let mut terms = Terms::default();
    terms.models.insert("own".into(), Price::default());
    let flow = PAID.replace("MODEL", "own");
    let mut world = World::with_terms(&flow, json!({}), Box::new(echo), terms);
    world.drive();
    assert_eq!(world.output(), json!("words"));
}

#[test]
fn a_model_without_a_price_is_called_under_a_budget_of_tokens() {
    let mut world = priced(&PAID.replace("MODEL", "own").replace("usd: 0.45, ", ""));
    world.drive();
    assert_eq!(world.output(), json!("words"));
}

#[test]
fn a_fallback_with_a_price_takes_over_from_a_model_without() {
    let flow = PAID
        .replace("MODEL", "own")
        .replace("max_tokens: 100", "max_tokens: 100, fallback: { model: m }");
    let mut world = priced(&flow);
    world.drive();
    assert_eq!(world.output(), json!("words"), "{}", world.story());
}

#[test]
fn a_compensation_runs_whatever_the_active_time_of_a_budget_is() {
    let yaml = "
ravel: 1
name: undo
steps:
  book:
    budget: { time: 10s }
    steps: { pay: { tool: test.pay, with: {}, effect: once, compensate: { tool: test.undo, with: {}, effect: write, timeout: 1m } } }
  ship: { after: [book], tool: test.ship, with: {}, effect: once }
";
    let script = |job: &Job| match &*job.path {
        "ship" => Does::Fails(Fate::NotDone, ErrorClass::Refused),
        // It takes until its timeout, far longer than the budget of the scope that is over, and is asked about.
        "book/pay/compensate" => Does::Hangs,
        _ => echo(job),
    };
    let mut world = World::settled(yaml, json!({}), Box::new(script));
    let question = world.questions()[0].id.clone();
    world
        .answer(&question, json!({ "action": "give_up" }))
        .unwrap();
    assert_eq!(world.state_of("book"), "succeeded");
    assert_eq!(world.error_class(), Some(ErrorClass::Refused));
}
