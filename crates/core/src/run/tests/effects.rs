//! Effects and people: retries, uncertainty, compensation, cancel, questions, signals, time, money.

use serde_json::json;

use super::world::{Does, World, echo, survives_every_crash};
use crate::effect::{ErrorClass, Fate};
use crate::event::Input;
use crate::port::Job;

#[test]
fn a_retry_pauses_and_counts_all_tries() {
    let world = World::settled(
        "
ravel: 1
name: retrying
steps:
  a: { tool: test.echo, with: {}, effect: read, retry: { attempts: 3, backoff: 1s..30s } }
",
        json!({}),
        Box::new(|_| Does::Fails(Fate::NotDone, ErrorClass::Unavailable)),
    );
    assert_eq!(
        world.started,
        [
            ("a".to_owned(), 1),
            ("a".to_owned(), 2),
            ("a".to_owned(), 3)
        ]
    );
    assert_eq!(world.now - 1_000_000, 1_000 + 2_000);
    assert_eq!(world.error_class(), Some(ErrorClass::Unavailable));
}

#[test]
fn a_process_that_dies_by_itself_is_tried_as_often_as_retry_says() {
    for (retry, tries) in [("{ attempts: 3, backoff: 1s..30s }", 3), ("1", 1)] {
        for effect in ["read", "write"] {
            let flow = format!(
                "
ravel: 1
name: dying
steps:
  a: {{ run: 'kill -9 $$', effect: {effect}, retry: {retry} }}
"
            );
            let dies = |_: &Job| Does::Fails(Fate::Unknown, ErrorClass::Crashed);
            let world = World::settled(&flow, json!({}), Box::new(dies));
            assert_eq!(world.started.len(), tries, "{effect} {retry}");
            assert_eq!(world.error_class(), Some(ErrorClass::Crashed));
        }
    }
}

const ONCE: &str = "
ravel: 1
name: charging
steps:
  charge: { tool: test.charge, with: { amount: 5 }, effect: once, retry: { attempts: 3 } }
output: '{{ charge }}'
";

#[test]
fn a_once_is_repeated_only_when_it_certainly_did_not_happen() {
    let world = World::settled(
        ONCE,
        json!({}),
        Box::new(|job| {
            if job.attempt.number == 1 {
                Does::Fails(Fate::NotDone, ErrorClass::Unavailable)
            } else {
                echo(job)
            }
        }),
    );
    assert_eq!(world.started.len(), 2);
    assert_eq!(world.run.state().name(), "succeeded");
    let world = World::settled(
        ONCE,
        json!({}),
        Box::new(|_| Does::Fails(Fate::Done, ErrorClass::Unavailable)),
    );
    assert_eq!(world.started.len(), 1);
    assert_eq!(world.run.state().name(), "failed");
}

#[test]
fn a_once_of_unknown_fate_is_asked_about_before_anything_else() {
    let unknown = || -> Box<dyn Fn(&Job) -> Does> {
        Box::new(|job| {
            if job.attempt.number == 1 {
                Does::Fails(Fate::Unknown, ErrorClass::Timeout)
            } else {
                echo(job)
            }
        })
    };
    let mut world = World::settled(ONCE, json!({}), unknown());
    let question = world.questions()[0].id.clone();
    assert_eq!(world.state_of("charge"), "waiting");
    assert_eq!(
        world
            .answer(&question, json!({ "maybe": 1 }))
            .unwrap_err()
            .code,
        "invalid_answer"
    );
    world
        .answer(
            &question,
            json!({ "happened": true, "output": { "id": 7 } }),
        )
        .unwrap();
    assert_eq!(
        (world.output(), world.started.len()),
        (json!({ "id": 7 }), 1)
    );

    let mut world = World::settled(ONCE, json!({}), unknown());
    let question = world.questions()[0].id.clone();
    world
        .answer(&question, json!({ "not_done": "retry" }))
        .unwrap();
    world.drive();
    assert_eq!(
        (world.output(), world.started.len()),
        (json!({ "amount": 5 }), 2)
    );
    assert_eq!(
        world
            .answer(&question, json!({ "not_done": "retry" }))
            .unwrap_err()
            .code,
        "unknown_question"
    );
}

#[test]
fn a_crash_makes_a_once_uncertain_and_repeats_a_read_with_the_same_key() {
    let yaml = "
ravel: 1
name: crashing
steps:
  look: { tool: test.look, with: {}, effect: read }
  put: { tool: test.put, with: {}, effect: write }
  charge: { tool: test.charge, with: {}, effect: once }
";
    let mut world = World::new(yaml, json!({}), Box::new(echo));
    world.crash();
    let paths: Vec<_> = world
        .questions()
        .iter()
        .map(|question| question.path.to_string())
        .collect();
    assert_eq!(paths, ["charge"]);
    assert_eq!(world.open_paths(), ["look", "put"]);
    assert_eq!(
        world
            .started
            .iter()
            .filter(|(path, _)| path == "charge")
            .count(),
        1
    );
}

#[test]
fn a_cancel_stops_the_tree_and_starts_nothing_but_compensations() {
    let mut world = World::new(
        "
ravel: 1
name: cancelling
flows:
  sub:
    steps:
      t1: { tool: test.slow, with: {}, effect: read }
      t2: { tool: test.slow, with: {}, effect: read }
      t3: { tool: test.slow, with: {}, effect: read }
      later: { after: [t1], tool: test.echo, with: {}, effect: read }
    output: 1
steps:
  paid: { tool: test.charge, with: {}, effect: once, compensate: { tool: test.refund, with: {} } }
  call: { flow: sub }
",
        json!({}),
        Box::new(|job| {
            if job.path.starts_with("call/") {
                Does::Hangs
            } else {
                echo(job)
            }
        }),
    );
    world.step();
    assert_eq!(world.state_of("paid"), "succeeded");
    world
        .input(Input::Cancel {
            path: Some("call/t2".into()),
            by: None,
            reason: None,
        })
        .unwrap();
    world.step();
    assert_eq!(
        (world.state_of("call/t2"), world.state_of("call/t1")),
        ("cancelled", "running")
    );
    world
        .input(Input::Cancel {
            path: None,
            by: Some("me".into()),
            reason: None,
        })
        .unwrap();
    world.drive();
    assert_eq!(world.run.state().name(), "cancelled");
    assert_eq!(world.state_of("call/later"), "cancelled");
    assert_eq!(world.ran().last(), Some(&"paid/compensate"));
    assert_eq!(
        world
            .input(Input::Cancel {
                path: None,
                by: None,
                reason: None,
            })
            .unwrap_err()
            .code,
        "already_settled"
    );
}

const PEOPLE: &str = "
ravel: 1
name: people
steps:
  charge: { tool: test.charge, with: {}, effect: once }
  ask1: { after: [charge], human: { ask: 'First?', form: { ok: boolean } } }
  ask2: { after: [charge], human: { ask: 'Second?', form: { n: integer } } }
  ship: { when: ask1.ok, tool: test.ship, with: { n: '{{ ask2.n }}' }, effect: once }
output: '{{ ship.n | default(0) }}'
";

#[test]
fn two_questions_are_answered_in_any_order_and_nothing_before_them_repeats() {
    let mut world = World::settled(PEOPLE, json!({}), Box::new(echo));
    assert_eq!(world.run.state().name(), "waiting");
    world.crash();
    world.drive();
    let questions = world.questions();
    assert_eq!(questions.len(), 2);
    assert_eq!(
        world
            .answer(&questions[1].id, json!({ "n": "three" }))
            .unwrap_err()
            .code,
        "invalid_answer"
    );
    world.answer(&questions[1].id, json!({ "n": 3 })).unwrap();
    world.crash();
    world
        .answer(&questions[0].id, json!({ "ok": true }))
        .unwrap();
    world.drive();
    assert_eq!(world.output(), json!(3));
    assert_eq!(
        (world.effect_count("charge"), world.effect_count("ship")),
        (1, 1)
    );
}

#[test]
fn a_deadline_answers_for_a_person() {
    let world = World::settled(
        "
ravel: 1
name: hurried
steps:
  ask: { human: { ask: 'Well?', form: { ok: boolean }, deadline: 1h, on_deadline: { ok: false } } }
output: '{{ ask.ok }}'
",
        json!({}),
        Box::new(echo),
    );
    assert_eq!(
        (world.output(), world.now - 1_000_000),
        (json!(false), 3_600_000)
    );
}

#[test]
fn a_signal_that_arrives_before_its_wait_is_kept() {
    let mut world = World::new(
        "
ravel: 1
name: mail
signals: { user: { text: string } }
steps:
  slow: { tool: test.echo, with: {}, effect: read }
  first: { after: [slow], wait: { signal: user } }
  second: { after: [first], wait: { signal: user } }
output: '{{ first.text }} {{ second.text }}'
",
        json!({}),
        Box::new(echo),
    );
    let signal = |text: &str, id: &str| Input::Signal {
        name: "user".into(),
        value: json!({ "text": text }).into(),
        id: Some(id.into()),
    };
    world.input(signal("hello", "1")).unwrap();
    world.input(signal("hello", "1")).unwrap();
    world.drive();
    world.crash();
    world.input(signal("world", "2")).unwrap();
    assert_eq!(world.output(), json!("hello world"));
}

#[test]
fn a_timeout_aborts_the_attempt_and_is_classed() {
    let world = World::settled(
        "
ravel: 1
name: slow
steps:
  a: { tool: test.slow, with: {}, effect: read, timeout: 5s, retry: { attempts: 1 } }
",
        json!({}),
        Box::new(|_| Does::Hangs),
    );
    assert_eq!(
        (world.error_class(), world.now - 1_000_000),
        (Some(ErrorClass::Timeout), 5_000)
    );
}

#[test]
fn limits_hold_and_drop_nothing() {
    for max in [1, 2, 16] {
        let yaml = format!(
            "
ravel: 1
name: limits
steps:
  all:
    for_each: range(40) | list
    as: i
    steps:
      one: {{ tool: test.echo, with: {{ i: '{{{{ i }}}}' }}, effect: read, concurrency: {{ key: shop, max: {max} }} }}
    output: '{{{{ one.i }}}}'
output: '{{{{ all }}}}'
"
        );
        let world = World::settled(&yaml, json!({}), Box::new(echo));
        assert_eq!(
            world.output(),
            serde_json::Value::from((0..40).collect::<Vec<i32>>())
        );
        assert_eq!(world.peak("shop"), max);
    }
}

#[test]
fn a_failed_gate_repairs_with_the_verdict() {
    let yaml = "
ravel: 1
name: repairing
steps:
  draft:
    tool: test.write
    with: { tries: '{{ 1 if last.output is none else last.output.tries + 1 }}' }
    effect: read
    gates: [{ expr: output.tries >= 3 }]
    repair: 2
output: '{{ draft.tries }}'
";
    let world = World::settled(yaml, json!({}), Box::new(echo));
    assert_eq!((world.output(), world.started.len()), (json!(3), 3));
    let world = World::settled(
        &yaml.replace("repair: 2", "repair: 1"),
        json!({}),
        Box::new(echo),
    );
    assert_eq!(world.error_class(), Some(ErrorClass::GateFailed));
    survives_every_crash(yaml, &json!({}), echo);
}

#[test]
fn a_fallback_takes_over_when_tries_are_used_up() {
    let yaml = "
ravel: 1
name: falling_back
steps:
  a: { tool: test.bad, with: {}, effect: read, fallback: { set: { v: 1 } } }
output: '{{ a.v }}'
";
    let script = |_: &Job| Does::Fails(Fate::NotDone, ErrorClass::Refused);
    let world = World::settled(yaml, json!({}), Box::new(script));
    assert_eq!(world.output(), json!(1));
}

#[test]
fn a_mark_of_a_secret_in_an_input_names_no_secret() {
    let yaml = "
ravel: 1
name: marks
input: { text: string }
steps:
  call: { run: 'true', env: { A: '{{ input.text }}', B: '{{ secrets.TOKEN }}', C: '{{ input.text | from_json }}' }, effect: read }
";
    let mark = |name: &str| {
        format!(
            "{}{name}{}",
            crate::port::SECRET_OPEN,
            crate::port::SECRET_CLOSE
        )
    };
    let env = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = env.clone();
    let text = format!("\"{}\"", mark("OTHER"));
    World::settled(
        &yaml
            .replace("run: 'true', env", "run: { program: ['true'], env")
            .replace("| from_json }}' }, effect", "| from_json }}' } }, effect"),
        json!({ "text": text }),
        Box::new(move |job| {
            if let crate::port::Request::Run(run) = &job.request {
                seen.borrow_mut()
                    .extend(run.env.iter().map(|(_, value)| value.to_string()));
            }
            echo(job)
        }),
    );
    let harmless = "\u{FFFD}OTHER\u{FFFD}".to_owned();
    assert_eq!(
        *env.borrow(),
        [format!("\"{harmless}\""), mark("TOKEN"), harmless]
    );
}

#[test]
fn a_resume_repeats_nothing_before_a_pause_at_any_depth() {
    let yaml = "
ravel: 1
name: deep
flows:
  inner:
    steps:
      - charge: { tool: test.charge, with: {}, effect: once }
      - first: { human: { ask: 'Charged. Ship?', form: { ok: boolean } } }
      - ship: { tool: test.ship, with: {}, effect: once }
      - second: { human: { ask: 'Shipped. Close?', form: { ok: boolean } } }
    output: '{{ second.ok }}'
steps:
  outer: { steps: { call: { flow: inner } }, output: '{{ call }}' }
output: '{{ outer }}'
";
    let mut world = World::settled(yaml, json!({}), Box::new(echo));
    for _ in 0..2 {
        world.crash();
        world.drive();
        let question = world.questions()[0].id.clone();
        world.answer(&question, json!({ "ok": true })).unwrap();
        world.drive();
    }
    assert_eq!(world.output(), json!(true));
    assert_eq!(
        (
            world.effect_count("outer/call/charge"),
            world.effect_count("outer/call/ship")
        ),
        (1, 1)
    );
}

#[test]
fn a_restart_while_a_sibling_is_queued_runs_it_and_joins_once() {
    let yaml = "
ravel: 1
name: queued
steps:
  l: { tool: test.echo, with: { v: 1 }, effect: once, concurrency: { key: one, max: 1 } }
  r: { tool: test.echo, with: { v: 2 }, effect: once, concurrency: { key: one, max: 1 } }
  j: { tool: test.echo, with: { l: '{{ l.v }}', r: '{{ r.v }}' }, effect: once }
output: '{{ j }}'
";
    let mut world = World::new(yaml, json!({}), Box::new(echo));
    while world.state_of("l") != "succeeded" {
        assert!(world.step(), "l ends");
    }
    assert_eq!(world.state_of("r"), "ready");
    world.crash();
    world.drive();
    assert_eq!(world.output(), json!({ "l": 1, "r": 2 }));
    assert_eq!(world.ran(), ["l", "r", "j"]);
}

#[test]
fn an_answer_about_a_lost_run_gives_a_value_that_its_readers_can_read() {
    let yaml = "
ravel: 1
name: lost
steps:
  a: { run: 'echo a' }
  b: { set: { x: '{{ a.stdout }}' } }
output: '{{ b.x }}'
";
    let mut world = World::new(yaml, json!({}), Box::new(echo));
    world.crash();
    let question = world.questions()[0].id.clone();
    for wrong in [
        json!({ "happened": true }),
        json!({ "happened": true, "output": "hi" }),
        json!({ "happened": true, "output": { "stdout": 5 } }),
    ] {
        assert_eq!(
            world.answer(&question, wrong).unwrap_err().code,
            "invalid_answer"
        );
    }
    world
        .answer(
            &question,
            json!({ "happened": true, "output": { "stdout": "a" } }),
        )
        .unwrap();
    world.drive();
    assert_eq!(world.output(), json!("a"));
}

#[test]
fn a_handler_of_a_run_gives_what_the_process_would_have_printed() {
    let yaml = "
ravel: 1
name: printed
steps:
  n: { run: 'echo nope', effect: read, returns: { a: integer }, catch: [{ output: { a: 1 } }] }
output: '{{ n.json.a }}'
";
    let world = World::settled(yaml, json!({}), Box::new(echo));
    assert_eq!(world.output(), json!(1));
}
