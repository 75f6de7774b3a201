//! Forks and edits.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{Does, World, compile, echo};
use crate::effect::{ErrorClass, Fate};
use crate::event::{Input, Reject};
use crate::run::Run;

const NESTED: &str = "
ravel: 1
name: nested
flows:
  sub:
    steps:
      a: { tool: test.a, with: { v: 1 }, effect: once }
      b: { tool: test.b, with: { v: '{{ a.v + 1 }}' }, effect: once }
      c: { tool: test.c, with: { v: '{{ b.v + 1 }}' }, effect: once }
      review: { human: { ask: 'Good? {{ c.v }}', form: { ok: boolean } } }
    output: '{{ review.ok }}'
steps:
  call: { flow: sub }
output: '{{ call }}'
";

#[test]
fn a_fork_inside_a_sub_flow_runs_what_comes_after_the_cut_and_nothing_before() {
    let whole = World::settled(NESTED, json!({}), Box::new(echo));
    assert_eq!(whole.ran(), ["call/a", "call/b", "call/c"]);
    // The turn in which b ended and c became ready.
    let ready = whole
        .log
        .iter()
        .position(|turn| format!("{:?}", turn.events).contains("call/c"))
        .unwrap();
    let mut forked = whole.fork(ready + 1, "r2");
    forked.drive();
    assert_eq!(forked.ran(), ["call/c"]);
    assert_eq!(forked.questions().len(), 1);
    assert_ne!(forked.questions()[0].id, whole.questions()[0].id);
    let question = forked.questions()[0].id.clone();
    forked.answer(&question, json!({ "ok": true })).unwrap();
    assert_eq!(
        (forked.output(), forked.run.id().as_ref()),
        (json!(true), "r2")
    );
}

#[test]
fn two_forks_of_one_turn_each_join_once_with_both_inputs() {
    let yaml = "
ravel: 1
name: fan_in
steps:
  a: { tool: test.a, with: { v: 1 }, effect: read }
  b: { human: { ask: 'b?', form: { v: integer } } }
  s: { tool: test.sum, with: { a: '{{ a.v }}', b: '{{ b.v }}' }, effect: once }
output: '{{ s }}'
";
    let whole = World::settled(yaml, json!({}), Box::new(echo));
    for (run, v) in [("r2", 2), ("r3", 3)] {
        let mut forked = whole.fork(whole.log.len(), run);
        let question = forked.questions()[0].id.clone();
        forked.answer(&question, json!({ "v": v })).unwrap();
        forked.drive();
        assert_eq!(forked.output(), json!({ "a": 1, "b": v }));
        assert_eq!(forked.ran(), ["s"]);
    }
}

#[test]
fn inherited_effects_are_compensated_by_their_owner_alone() {
    let yaml = "
ravel: 1
name: owner
steps:
  - book: { tool: test.book, with: {}, effect: once, compensate: { tool: test.cancel, with: {} } }
  - ask: { human: { ask: 'Go on?', form: { ok: boolean } } }
  - go: { when: ask.ok, tool: test.bad, with: {}, effect: once }
";
    let script = || -> super::world::Script {
        Box::new(|job| {
            if &*job.path == "go" {
                Does::Fails(Fate::NotDone, ErrorClass::Refused)
            } else {
                echo(job)
            }
        })
    };
    let mut owner = World::settled(yaml, json!({}), script());
    let mut forked = owner.fork(owner.log.len(), "r2");
    forked.set_script(script());
    for world in [&mut owner, &mut forked] {
        let question = world.questions()[0].id.clone();
        world.answer(&question, json!({ "ok": true })).unwrap();
        world.drive();
    }
    assert_eq!(owner.ran(), ["book", "go", "book/compensate"]);
    assert_eq!(forked.ran(), ["go"]);
}

#[test]
fn a_compensation_under_way_at_the_cut_is_left_to_its_owner() {
    let yaml = "
ravel: 1
name: owner
steps:
  trip:
    steps:
      - book: { tool: test.book, effect: once, compensate: { tool: test.cancel, retry: { attempts: 2, backoff: 1s } } }
      - pay: { tool: test.bad, effect: once }
    output: 1
    catch: [{ output: 0 }]
  after: { after: [trip], tool: test.after, effect: read }
output: '{{ trip }}'
";
    // The compensation fails twice: it is under way, in its pause, under way again, then asked about.
    let script = || -> super::world::Script {
        Box::new(|job| match &*job.path {
            "trip/pay" => Does::Fails(Fate::NotDone, ErrorClass::Refused),
            "trip/book/compensate" => Does::Fails(Fate::NotDone, ErrorClass::Unavailable),
            _ => echo(job),
        })
    };
    let mut owner = World::settled(yaml, json!({}), script());
    assert_eq!(owner.questions().len(), 1);
    let begun = owner
        .log
        .iter()
        .position(|turn| format!("{:?}", turn.events).contains("CompensationStarted"))
        .unwrap();
    for turns in begun + 1..=owner.log.len() {
        let mut forked = owner.fork(turns, "r2");
        forked.drive();
        assert_eq!(forked.ran(), ["after"], "forked at turn {turns}");
        assert_eq!(forked.output(), json!(0), "forked at turn {turns}");
        assert_eq!(forked.run.uncompensated(), Vec::<Arc<str>>::new());
    }
    let question = owner.questions()[0].id.clone();
    owner
        .answer(&question, json!({ "action": "give_up" }))
        .unwrap();
    owner.drive();
    assert_eq!(owner.run.uncompensated(), ["trip/book".into()]);
}

const EDITED: &str = "
ravel: 1
name: edited
steps:
  a: { human: { ask: 'a?', form: { v: integer } } }
  b: { set: { v: '{{ a.v + 1 }}' } }
output: '{{ b.v }}'
";

fn edit(world: &mut World, base: u32, yaml: &str) -> Result<(), Reject> {
    let graph = compile(yaml);
    world.knows(&graph);
    world.input(Input::Edit {
        base,
        graph,
        note: Value::from("by hand").into(),
    })
}

#[test]
fn an_edit_changes_what_has_not_begun_and_survives_a_crash() {
    let mut world = World::settled(EDITED, json!({}), Box::new(echo));
    let changed = "
ravel: 1
name: edited
steps:
  a: { human: { ask: 'a?', form: { v: integer } } }
  between: { tool: test.double, with: { v: '{{ a.v * 2 }}' }, effect: read }
  b: { set: { v: '{{ between.v + 1 }}' } }
output: '{{ b.v }}'
";
    edit(&mut world, 1, changed).unwrap();
    world.crash();
    let question = world.questions()[0].id.clone();
    world.answer(&question, json!({ "v": 5 })).unwrap();
    world.drive();
    assert_eq!((world.output(), world.run.version()), (json!(11), 2));
}

#[test]
fn an_edit_is_refused_whole_when_it_touches_what_was_activated_or_is_out_of_date() {
    let mut world = World::settled(EDITED, json!({}), Box::new(echo));
    let touching = EDITED.replace("'a?'", "'another?'");
    assert_eq!(
        edit(&mut world, 1, &touching).unwrap_err().code,
        "edit_touches_activated"
    );
    let removing = "{ravel: 1, name: edited, steps: {b: {set: {v: 1}}}, output: '{{ b.v }}'}";
    assert_eq!(
        edit(&mut world, 1, removing).unwrap_err().code,
        "edit_touches_activated"
    );
    assert_eq!(
        edit(&mut world, 7, EDITED).unwrap_err().code,
        "edit_conflict"
    );
    assert_eq!(world.run.version(), 1);
}

#[test]
fn a_newer_log_is_refused_by_name() {
    let world = World::settled(EDITED, json!({}), Box::new(echo));
    let text = serde_json::to_string(&world.log)
        .unwrap()
        .replace("\"semantics\":1", "\"semantics\":99");
    let newer: Vec<crate::event::Turn> = serde_json::from_str(&text).unwrap();
    let graph: Arc<_> = world.graph.clone();
    let error = Run::replay(&newer, &mut |_| Ok(graph.clone())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the log was written under semantics 99, this program knows up to 1"
    );
}

#[test]
fn a_fork_at_a_turn_that_stops_what_it_started_has_no_clock_without_an_attempt() {
    let yaml = "
ravel: 1
name: decided
steps:
  first: { race: { left: { tool: test.slow, with: {}, effect: read }, right: { set: 3 } } }
  then: { human: { ask: 'Go on?', form: { ok: boolean } } }
output: '{{ first.winner }}'
";
    let whole = World::settled(yaml, json!({}), Box::new(echo));
    let mut forked = whole.fork(1, "r2");
    forked.drive();
    let question = forked.questions()[0].id.clone();
    forked.answer(&question, json!({ "ok": true })).unwrap();
    assert_eq!(forked.output(), json!("right"));
}

#[test]
fn what_a_fork_starts_anew_stands_in_line_for_permits_of_its_own() {
    let yaml = "
ravel: 1
name: line
steps:
  go: { tool: test.go, with: {}, effect: once, concurrency: [{ key: shop, max: 1 }] }
output: '{{ go }}'
";
    let mut whole = World::new(yaml, json!({}), Box::new(echo));
    whole.step();
    assert_eq!(whole.open_paths(), ["go"]);
    let mut forked = whole.fork(whole.log.len(), "r2");
    // The other run holds the permit: here nothing is under way before one is granted.
    assert_eq!(forked.open_paths(), [""; 0]);
    forked.drive();
    assert_eq!((forked.ran(), forked.peak("shop")), (vec!["go"], 1));
    assert_eq!(forked.questions(), []);
}
