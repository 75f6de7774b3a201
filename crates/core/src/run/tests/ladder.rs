//! The rungs of the failure ladder and what surrounds a value: judges, checks, escalation, deadlines, `finally`.

use serde_json::json;

use super::world::{Does, World, echo, survives_every_crash};
use crate::effect::{ErrorClass, Fate};
use crate::event::{Input, Skip};
use crate::port::{Job, Request};

const JUDGED: &str = "
ravel: 1
name: judged
steps:
  draft:
    model: strong
    prompt: 'Answer. {{ last.verdict.reason | default(\"\") }}'
    returns: { reply: string }
    gates: [{ judge: { model: strong, rubric: polite } }]
    repair: 1
output: '{{ draft.reply }}'
";

fn judging(job: &Job) -> Does {
    let Request::Model(model) = &job.request else {
        return echo(job);
    };
    let prompt = model
        .messages
        .last()
        .map(|message| message.json()["content"].to_string())
        .unwrap_or_default();
    if job.path.contains("gate[") {
        let pass = prompt.contains("second");
        return Does::Value(json!({ "pass": pass, "reason": "be polite", "score": null }));
    }
    Does::Value(json!({ "reply": if prompt.contains("be polite") { "second" } else { "first" } }))
}

#[test]
fn a_judge_is_a_child_and_its_verdict_reaches_the_repair() {
    let world = World::settled(JUDGED, json!({}), Box::new(judging));
    assert_eq!(
        world.ran(),
        ["draft", "draft/gate[0]", "draft", "draft~2/gate[0]"].map(|path| path)
    );
    assert_eq!(world.output(), json!("second"));
    survives_every_crash(JUDGED, &json!({}), judging);
}

#[test]
fn an_output_that_breaks_its_contract_is_invalid_and_can_be_repaired() {
    let yaml = "
ravel: 1
name: contract
steps:
  draft: { tool: test.draft, with: {}, effect: read, returns: { n: integer }, repair: 1 }
output: '{{ draft.n }}'
";
    let world = World::settled(
        yaml,
        json!({}),
        Box::new(|job| {
            Does::Value(
                json!({ "n": if job.attempt.number == 1 { json!("one") } else { json!(1) } }),
            )
        }),
    );
    assert_eq!(world.output(), json!(1));
    let world = World::settled(
        yaml,
        json!({}),
        Box::new(|_| Does::Value(json!({ "n": "one" }))),
    );
    assert_eq!(world.error_class(), Some(ErrorClass::InvalidOutput));
}

#[test]
fn a_check_settles_what_a_lost_effect_did() {
    let yaml = "
ravel: 1
name: checked
steps:
  charge:
    tool: test.charge
    with: { id: 7 }
    effect: once
    on_uncertain: { check: { tool: test.look, with: { id: '{{ args.id }}' }, effect: read } }
output: '{{ charge.id }}'
";
    let happened = |yes: bool| -> super::world::Script {
        Box::new(move |job| match &*job.path {
            "charge" if job.attempt.number == 1 => Does::Fails(Fate::Unknown, ErrorClass::Timeout),
            "charge/check[1]" => Does::Value(json!({ "happened": yes, "output": { "id": 8 } })),
            _ => echo(job),
        })
    };
    let world = World::settled(yaml, json!({}), happened(true));
    assert_eq!(world.output(), json!(8));
    assert_eq!(world.ran(), ["charge", "charge/check[1]"]);
    let world = World::settled(yaml, json!({}), happened(false));
    assert_eq!(world.ran(), ["charge", "charge/check[1]", "charge"]);
    assert_eq!(world.output(), json!(7));
}

#[test]
fn a_question_climbs_its_escalation_and_keeps_its_id() {
    let mut world = World::new(
        "
ravel: 1
name: escalating
steps:
  ask:
    human:
      ask: 'Well?'
      form: { ok: boolean }
      deadline: 1h
      escalate: [{ to: boss, deadline: 2h }]
",
        json!({}),
        Box::new(echo),
    );
    let first = world.questions()[0].clone();
    world.step();
    let second = world.questions()[0].clone();
    assert_eq!(
        (&second.id, second.to.as_deref()),
        (&first.id, Some("boss"))
    );
    world.drive();
    assert_eq!(
        (world.error_class(), world.now - 1_000_000),
        (Some(ErrorClass::Deadline), 3 * 3_600_000)
    );
}

#[test]
fn a_deadline_of_a_scope_stops_what_is_inside_and_can_be_caught() {
    let world = World::settled(
        "
ravel: 1
name: late
steps:
  work:
    deadline: 1m
    steps:
      slow: { tool: test.slow, with: {}, effect: read, timeout: 10m }
      next: { after: [slow], set: 1 }
    output: '{{ next }}'
    catch: [{ errors: [deadline], output: late }]
output: '{{ work }}'
",
        json!({}),
        Box::new(|_| Does::Hangs),
    );
    assert_eq!(
        (world.output(), world.now - 1_000_000),
        (json!("late"), 60_000)
    );
    assert_eq!(
        (world.state_of("work/slow"), world.state_of("work/next")),
        ("cancelled", "cancelled")
    );
}

#[test]
fn finally_runs_after_a_success_too_and_its_failure_fails_the_scope() {
    let yaml = "
ravel: 1
name: tidy
steps:
  work:
    steps: { a: { set: 1 } }
    finally: { tidy: { tool: test.tidy, with: {}, effect: read } }
output: '{{ work }}'
";
    let world = World::settled(yaml, json!({}), Box::new(echo));
    assert_eq!(
        (world.output(), world.ran()),
        (json!(1), vec!["work/finally/tidy"])
    );
    let world = World::settled(
        yaml,
        json!({}),
        Box::new(|_| Does::Fails(Fate::NotDone, ErrorClass::Refused)),
    );
    assert_eq!(world.error_class(), Some(ErrorClass::Refused));
    survives_every_crash(yaml, &json!({}), echo);
}

#[test]
fn a_handler_with_steps_sees_the_error_and_gives_the_value() {
    let world = World::settled(
        "
ravel: 1
name: handled
steps:
  work:
    steps: { a: { tool: test.bad, with: {}, effect: read } }
    catch:
      - steps: { note: { tool: test.note, with: { was: '{{ error.class }}' }, effect: read } }
        output: '{{ note.was }}'
output: '{{ work }}'
",
        json!({}),
        Box::new(|job| {
            if &*job.path == "work/a" {
                Does::Fails(Fate::NotDone, ErrorClass::Refused)
            } else {
                echo(job)
            }
        }),
    );
    assert_eq!(world.output(), json!("refused"));
}

#[test]
fn an_inner_step_is_judged_by_a_failed_step_outside() {
    let world = World::settled(
        "
ravel: 1
name: outside
steps:
  bad: { tool: test.bad, with: {}, effect: read, catch: [{ errors: [timeout], output: 0 }] }
  good: { set: { v: 1 } }
  any_of: { after: [bad, good], join: any, set: 1 }
  group:
    steps:
      reads_bad: { set: '{{ bad }}' }
      reads_good: { set: '{{ good.v }}' }
    output: '{{ reads_good }}'
",
        json!({}),
        Box::new(|_| Does::Fails(Fate::NotDone, ErrorClass::Refused)),
    );
    let skip = world
        .run
        .nodes()
        .find(|view| &*view.path == "group/reads_bad")
        .and_then(|view| view.skip);
    assert_eq!(skip, Some(Skip::UpstreamFailed("bad".into())));
    assert_eq!(world.value_of("group"), json!(1));
}

#[test]
fn retry_after_longer_than_the_deadline_is_not_waited_for() {
    let world = World::settled(
        "
ravel: 1
name: impatient
steps:
  a: { tool: test.a, with: {}, effect: read, deadline: 2s, retry: { attempts: 5, backoff: 10s..20s } }
",
        json!({}),
        Box::new(|_| Does::Fails(Fate::NotDone, ErrorClass::RateLimited)),
    );
    assert_eq!((world.started.len(), world.now), (1, 1_000_000));
}

#[test]
fn a_wait_that_is_given_up_leaves_no_clock_behind() {
    for instead in [
        "catch: [{ steps: { tell: { tool: test.tell, with: {}, effect: read } }, output: late }]",
        "fallback: [{ wait: { signal: other, deadline: 20s, on_deadline: late } }]",
    ] {
        let yaml = format!(
            "
ravel: 1
name: patience
signals: {{ user: string, other: string }}
steps:
  reply: {{ wait: {{ signal: user, deadline: 10s }}, {instead} }}
output: '{{{{ reply }}}}'
"
        );
        let world = World::settled(&yaml, json!({}), Box::new(echo));
        assert_eq!(world.output(), json!("late"), "{instead}");
        survives_every_crash(&yaml, &json!({}), echo);
    }
}

#[test]
fn a_step_whose_gate_is_cancelled_alone_fails_as_cancelled() {
    let yaml = "
ravel: 1
name: judged
steps:
  draft:
    model: fast
    prompt: Write.
    gates: [{ judge: { model: strong, rubric: polite } }]
    repair: 2
  after: { after: [draft], join: settled, set: 1 }
output: 1
";
    let script = |job: &Job| {
        if job.path.ends_with("gate[0]") {
            Does::Hangs
        } else {
            Does::Value(json!({ "text": "Hi" }))
        }
    };
    let mut world = World::new(yaml, json!({}), Box::new(script));
    while world.open_paths() != ["draft/gate[0]"] {
        assert!(world.step(), "the gate is reached");
    }
    world
        .input(Input::Cancel {
            path: Some("draft/gate[0]".into()),
            by: None,
            reason: None,
        })
        .unwrap();
    world.drive();
    let states = ["draft", "draft/gate[0]", "after", ""].map(|path| world.state_of(path));
    assert_eq!(states, ["failed", "cancelled", "succeeded", "failed"]);
    assert_eq!(world.error_class(), Some(ErrorClass::Cancelled));
    assert_eq!(world.ran(), ["draft", "draft/gate[0]"], "no repair");
}
