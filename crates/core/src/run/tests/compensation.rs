//! Compensations: what took place, or may have, is undone once.

use serde_json::json;

use super::world::{Does, World, echo};
use crate::effect::{ErrorClass, Fate};
use crate::event::Input;
use crate::port::Job;

const COMPENSATED: &str = "
ravel: 1
name: booking
steps:
  - flight: { tool: test.book, with: { what: flight }, effect: once, compensate: { tool: test.cancel, with: { id: '{{ output.what }}' } } }
  - hotel: { tool: test.book, with: { what: hotel }, effect: once, compensate: { tool: test.cancel, with: { id: '{{ output.what }}' } } }
  - car: { tool: test.book, with: { what: car }, effect: once }
catch: [{ output: sorry }]
output: ok
";

fn no_car(job: &Job) -> Does {
    if &*job.path == "car" {
        Does::Fails(Fate::NotDone, ErrorClass::Refused)
    } else {
        echo(job)
    }
}

#[test]
fn effects_are_compensated_in_reverse_before_the_catch() {
    let world = World::settled(COMPENSATED, json!({}), Box::new(no_car));
    assert_eq!(
        world.ran(),
        [
            "flight",
            "hotel",
            "car",
            "hotel/compensate",
            "flight/compensate"
        ]
    );
    assert_eq!(world.output(), json!("sorry"));
    assert_eq!(world.run.uncompensated(), Vec::<std::sync::Arc<str>>::new());
}

#[test]
fn a_question_about_a_compensation_leaves_its_settled_step_as_it_is() {
    let mut world = World::settled(
        COMPENSATED,
        json!({}),
        Box::new(|job| {
            if &*job.path == "hotel/compensate" {
                Does::Fails(Fate::NotDone, ErrorClass::Refused)
            } else {
                no_car(job)
            }
        }),
    );
    let asked: Vec<(String, &str)> = world
        .run
        .questions()
        .iter()
        .map(|question| (question.path.to_string(), world.state_of(&question.path)))
        .collect();
    assert_eq!(asked, [("hotel".to_owned(), "succeeded")]);
    world.crash();
    world.drive();
    let question = world.run.questions()[0].id.clone();
    world
        .input(Input::Answer {
            question,
            value: json!({ "action": "give_up" }).into(),
            by: None,
        })
        .unwrap();
    world.drive();
    assert_eq!(world.state_of("hotel"), "succeeded");
    assert_eq!(world.output(), json!("sorry"));
    assert_eq!(world.run.uncompensated(), ["hotel".into()]);
}

#[test]
fn an_attempt_that_may_have_charged_is_compensated_whatever_the_next_one_says() {
    let yaml = "
ravel: 1
name: retried
steps:
  charge:
    tool: test.charge
    effect: once
    on_uncertain: retry
    retry: { attempts: 2, backoff: 0s, errors: [timeout] }
    compensate: { tool: test.refund }
output: 1
";
    let script = |job: &Job| match (&*job.path, job.attempt.number) {
        ("charge", 1) => Does::Fails(Fate::Unknown, ErrorClass::Timeout),
        ("charge", _) => Does::Fails(Fate::NotDone, ErrorClass::Refused),
        _ => echo(job),
    };
    let world = World::settled(yaml, json!({}), Box::new(script));
    assert_eq!(world.ran(), ["charge", "charge", "charge/compensate"]);
    assert_eq!(world.state_of(""), "failed");
}

#[test]
fn a_deadline_does_not_answer_the_question_about_a_compensation() {
    let yaml = "
ravel: 1
name: late
steps:
  charge:
    tool: test.charge
    effect: write
    retry: { attempts: 1 }
    deadline: 15s
    compensate: { tool: test.refund }
output: 1
";
    let script = |job: &Job| match &*job.path {
        "charge" => Does::Fails(Fate::Unknown, ErrorClass::Unavailable),
        _ => Does::Fails(Fate::NotDone, ErrorClass::Refused),
    };
    let mut world = World::settled(yaml, json!({}), Box::new(script));
    let question = world.questions()[0].id.clone();
    assert_eq!(
        world.run.wake_at(),
        None,
        "the deadline has passed, and nothing but the answer is waited for"
    );
    world
        .answer(&question, json!({ "action": "done" }))
        .unwrap();
    assert_eq!(world.state_of("charge"), "failed");
    assert_eq!(world.run.uncompensated(), Vec::<std::sync::Arc<str>>::new());
}

#[test]
fn a_caught_failure_leaves_no_charge_standing() {
    let yaml = "
ravel: 1
name: caught
steps:
  order:
    steps:
      - charge: { tool: test.charge, with: {}, effect: once, compensate: { tool: test.refund, with: {} } }
      - pack: { tool: test.bad, with: {}, effect: read }
    output: done
    catch: [{ output: sorry }]
output: '{{ order }}'
";
    let script = |job: &Job| {
        if job.path.ends_with("/pack") {
            Does::Fails(Fate::NotDone, ErrorClass::Refused)
        } else {
            echo(job)
        }
    };
    let world = World::settled(yaml, json!({}), Box::new(script));
    assert_eq!(world.output(), json!("sorry"));
    assert_eq!(
        world.ran(),
        ["order/charge", "order/pack", "order/charge/compensate"]
    );
    ends_alike_after_every_cut(yaml);
}

/// The flow's `once` steps are vouched for as not done when a crash loses them.
fn ends_alike_after_every_cut(yaml: &str) {
    let script = |job: &Job| {
        if job.path.ends_with("/pack") {
            Does::Fails(Fate::NotDone, ErrorClass::Refused)
        } else {
            echo(job)
        }
    };
    for cut in 0..6 {
        let mut world = World::new(yaml, json!({}), Box::new(script));
        for _ in 0..cut {
            world.step();
        }
        world.crash();
        while let Some(question) = world.questions().first().cloned() {
            world
                .answer(&question.id, json!({ "not_done": "retry" }))
                .unwrap();
        }
        world.drive();
        assert_eq!(world.output(), json!("sorry"), "cut after {cut} moves");
        let charged = world.effect_count("order/charge");
        assert_eq!(
            (charged, world.effect_count("order/charge/compensate")),
            (1, 1),
            "cut after {cut} moves"
        );
    }
}

#[test]
fn a_cleanup_that_a_crash_lost_runs_again_when_a_person_says_so() {
    let yaml = "
ravel: 1
name: cleanup
steps:
  - book: { tool: test.book, with: {}, effect: once, compensate: { tool: test.undo, with: {}, effect: once } }
  - bad: { fail: { message: broken } }
finally: { tidy: { tool: test.tidy, with: {}, effect: once } }
";
    let mut world = World::new(yaml, json!({}), Box::new(echo));
    for lost in ["finally/tidy", "book/compensate"] {
        while !world.open_paths().iter().any(|path| path == lost) {
            assert!(world.step(), "{lost} starts");
        }
        world.crash();
        let question = world.questions()[0].clone();
        assert_eq!(&*question.path, lost);
        world
            .answer(&question.id, json!({ "not_done": "retry" }))
            .unwrap();
    }
    world.drive();
    assert_eq!(
        (
            world.effect_count("finally/tidy"),
            world.effect_count("book/compensate")
        ),
        (1, 1)
    );
    assert_eq!(world.run.uncompensated(), Vec::<std::sync::Arc<str>>::new());
}

/// A booking whose fate is not known and which counts as failed. `ID` is what its compensation reads.
const LOST: &str = "
ravel: 1
name: lost
input: { none: string | null }
steps:
  book:
    tool: test.book
    with: { what: car }
    effect: once
    on_uncertain: fail
    compensate: { tool: test.cancel, with: { id: \"ID\" } }
catch: [{ output: sorry }]
";

fn lost_booking(id: &str) -> World {
    let script = |job: &Job| {
        if &*job.path == "book" {
            Does::Fails(Fate::Unknown, ErrorClass::Unavailable)
        } else {
            echo(job)
        }
    };
    World::settled(
        &LOST.replace("ID", id),
        json!({ "none": null }),
        Box::new(script),
    )
}

#[test]
fn a_person_undoes_what_gave_no_value_when_the_compensation_reads_it() {
    for id in ["{{ output.what }}", "{{ output }}", "no {{ output }}"] {
        let mut world = lost_booking(id);
        let question = world.questions()[0].clone();
        assert_eq!(
            (&*question.path, &*question.ask),
            (
                "book",
                "The effect of `book` could not be compensated: it reads `output`, and the step gave no value. Was it \
                 undone by hand?"
            )
        );
        world
            .answer(&question.id, json!({ "action": "done" }))
            .unwrap();
        world.drive();
        assert_eq!(
            (world.ran(), world.output()),
            (vec!["book"], json!("sorry"))
        );
    }
}

#[test]
fn a_guard_stands_in_for_the_value_of_a_compensated_step_that_gave_none() {
    for id in [
        "{{ output.what | default('car') }}",
        "{{ output.what if output is defined else 'car' }}",
    ] {
        let world = lost_booking(id);
        assert_eq!(world.ran(), ["book", "book/compensate"]);
        assert!(world.story().contains(r#""id":"car""#), "{}", world.story());
        assert_eq!(world.output(), json!("sorry"));
    }
}
