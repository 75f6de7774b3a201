//! Items that a `for_each` takes while their producer is at work: what runs ahead, what waits, what is taken back.

use serde_json::{Value, json};

use super::world::{Does, Script, World, echo, survives_every_crash};
use crate::effect::{ErrorClass, Fate};
use crate::event::{Input, Skip, Wait};
use crate::port::{Job, Request};

/// Each item is looked at and then paid for.
const LOOK_AND_PAY: &str = "
ravel: 1
name: streaming
steps:
  list: { tool: test.list, with: { items: [1, 2, 3] }, effect: read, retry: { attempts: 2, backoff: 1s..1s } }
  all:
    for_each: { stream: list.items }
    as: i
    steps:
      look: { tool: test.look, with: { i: '{{ i }}' }, effect: read }
      pay: { tool: test.pay, with: { i: '{{ look.i }}' }, effect: once }
    output: '{{ pay.i }}'
output: '{{ all }}'
";

/// A producer that streams these items on its attempts, in order, and ends so; others echo.
fn streaming(attempts: Vec<(Vec<Value>, Does)>) -> Script {
    Box::new(move |job| match &*job.path {
        "list" => {
            let (items, end) = attempts[job.attempt.number as usize - 1].clone();
            Does::Streams(items, Box::new(end))
        }
        _ => echo(job),
    })
}

fn items(items: &[i64]) -> Vec<Value> {
    items.iter().map(|item| json!(item)).collect()
}

fn list(list: &[i64]) -> Does {
    Does::Value(json!({ "items": list }))
}

fn exact(job: &Job) -> Does {
    let Request::Tool { input, .. } = &job.request else {
        return echo(job);
    };
    match input.json()["items"].as_array() {
        Some(items) => Does::Streams(items.clone(), Box::new(echo(job))),
        None => echo(job),
    }
}

#[test]
fn reads_run_ahead_and_effects_wait_for_the_producer() {
    let mut world = World::new(
        LOOK_AND_PAY,
        json!({}),
        streaming(vec![(items(&[1, 2]), Does::Hangs)]),
    );
    world.rest();
    assert_eq!(world.ran(), ["list", "all[0]/look", "all[1]/look"]);
    assert_eq!(world.effects_of("look"), ["all[0]/look", "all[1]/look"]);
    let more = Wait::Items {
        path: "all".into(),
        from: "list".into(),
    };
    assert_eq!(
        (world.state_of("all"), world.run.waits_on().last()),
        ("running", Some(&more))
    );
    world.set_script(streaming(vec![(items(&[1, 2]), list(&[1, 2, 3]))]));
    world.drive();
    assert_eq!(
        world.ran()[3..],
        ["all[0]/pay", "all[1]/pay", "all[2]/look", "all[2]/pay"]
    );
    assert_eq!(world.output(), json!([1, 2, 3]));
    assert!(!world.run.waits_on().contains(&more));
}

#[test]
fn a_stream_cut_after_its_first_items_has_led_to_no_effect() {
    let broken = Does::Fails(Fate::Done, ErrorClass::ToolError);
    let mut world = World::new(
        LOOK_AND_PAY,
        json!({}),
        streaming(vec![(items(&[1, 2]), broken)]),
    );
    world.drive();
    assert_eq!(world.effects_of("pay"), Vec::<&str>::new());
    let nodes: Vec<_> = world.run.nodes().collect();
    let all = nodes.iter().find(|view| &*view.path == "all").unwrap();
    assert_eq!(
        (all.state, &all.skip, world.error_class()),
        (
            "skipped",
            &Some(Skip::UpstreamFailed("list".into())),
            Some(ErrorClass::ToolError)
        )
    );
}

#[test]
fn items_that_the_value_does_not_confirm_are_activated_anew() {
    let mut world = World::new(
        LOOK_AND_PAY,
        json!({}),
        streaming(vec![(items(&[1, 9, 3, 4]), list(&[1, 2, 3]))]),
    );
    world.drive();
    assert_eq!(world.output(), json!([1, 2, 3]));
    let mut paid = world.effects_of("pay");
    paid.sort_unstable();
    assert_eq!(paid, ["all[0]/pay", "all[1]~2/pay", "all[2]/pay"]);
    assert_eq!(
        ["all[1]", "all[1]/pay", "all[3]", "all[1]~2"].map(|path| world.state_of(path)),
        ["cancelled", "cancelled", "cancelled", "succeeded"]
    );
    assert_eq!(world.effect_count("all[1]~2/look"), 1);
}

#[test]
fn an_item_that_settled_ahead_is_replaced_like_any_other() {
    let yaml = LOOK_AND_PAY.replace("effect: once", "effect: read");
    let mut world = World::new(
        &yaml,
        json!({}),
        streaming(vec![(items(&[1, 9]), Does::Hangs)]),
    );
    world.rest();
    assert_eq!(world.state_of("all[1]"), "succeeded");
    world.set_script(streaming(vec![(items(&[1, 9]), list(&[1, 2]))]));
    world.drive();
    assert_eq!(world.output(), json!([1, 2]));
    assert_eq!(
        ["all[1]", "all[1]~2"].map(|path| world.value_of(path)),
        [json!(9), json!(2)]
    );
}

#[test]
fn a_new_attempt_that_streams_again_activates_no_item_twice() {
    let failed = Does::Fails(Fate::NotDone, ErrorClass::Unavailable);
    let mut world = World::new(
        LOOK_AND_PAY,
        json!({}),
        streaming(vec![
            (items(&[1, 2]), failed),
            (items(&[1, 2, 3]), list(&[1, 2, 3])),
        ]),
    );
    world.drive();
    assert_eq!(world.output(), json!([1, 2, 3]));
    for index in 0..3 {
        for step in ["look", "pay"] {
            assert_eq!(world.effect_count(&format!("all[{index}]/{step}")), 1);
        }
    }
}

#[test]
fn a_new_attempt_that_streams_something_else_replaces_what_was_taken() {
    let failed = Does::Fails(Fate::NotDone, ErrorClass::Unavailable);
    let mut world = World::new(
        LOOK_AND_PAY,
        json!({}),
        streaming(vec![
            (items(&[7, 8]), failed),
            (items(&[1, 8]), Does::Hangs),
        ]),
    );
    world.rest();
    world.step();
    world.rest();
    assert_eq!(
        ["all[0]", "all[0]~2", "all[1]"].map(|path| world.state_of(path)),
        ["cancelled", "running", "running"]
    );
    assert_eq!(world.effects_of("pay"), Vec::<&str>::new());
}

#[test]
fn a_stream_may_be_cut_anywhere_by_a_crash() {
    survives_every_crash(
        &LOOK_AND_PAY.replace("effect: once", "effect: write"),
        &json!({}),
        exact,
    );
    let keyed = LOOK_AND_PAY
        .replace(
            "as: i",
            "as: i\n    item_key: \"'k' ~ (i % 2)\"\n    parallel: 1",
        )
        .replace("effect: once", "effect: write");
    survives_every_crash(&keyed, &json!({}), exact);
}

#[test]
fn keys_stay_distinct_when_an_item_is_replaced() {
    let yaml = LOOK_AND_PAY.replace("as: i", "as: i\n    item_key: \"'k' ~ (i % 2)\"");
    let mut world = World::new(
        &yaml,
        json!({}),
        streaming(vec![(items(&[1, 2, 3]), list(&[1, 4, 3, 5]))]),
    );
    world.drive();
    assert_eq!(world.output(), json!([1, 4, 3, 5]));
    let mut paid = world.effects_of("pay");
    paid.sort_unstable();
    assert_eq!(
        paid,
        [
            "all[k0#2]~2/pay",
            "all[k1#2]/pay",
            "all[k1#3]/pay",
            "all[k1]/pay"
        ]
    );
}

#[test]
fn no_more_items_are_open_than_parallel_allows() {
    let yaml = LOOK_AND_PAY.replace("as: i", "as: i\n    parallel: 2");
    let mut world = World::new(
        &yaml,
        json!({}),
        streaming(vec![(items(&[1, 2, 3]), Does::Hangs)]),
    );
    world.rest();
    assert_eq!(
        [0, 1, 2].map(|index| world.state_of(&format!("all[{index}]"))),
        ["running", "running", "pending"]
    );
    world.set_script(streaming(vec![(items(&[1, 2, 3]), list(&[5, 2, 3]))]));
    world.drive();
    assert_eq!(world.output(), json!([5, 2, 3]));
}

#[test]
fn a_failed_item_counts_when_it_is_final() {
    let bad = |end: Does| -> Script {
        Box::new(move |job| match (&*job.path, &job.request) {
            ("list", _) => Does::Streams(items(&[1, 2]), Box::new(end.clone())),
            (_, Request::Tool { input, .. }) if input.json()["i"] == 2 => {
                Does::Fails(Fate::NotDone, ErrorClass::Refused)
            }
            _ => echo(job),
        })
    };
    let mut world = World::new(LOOK_AND_PAY, json!({}), bad(Does::Hangs));
    world.rest();
    assert_eq!(
        ["all[1]", "all"].map(|path| world.state_of(path)),
        ["failed", "running"]
    );
    let ends = [
        (list(&[1, 2]), "failed", json!(null)),
        (list(&[1, 3]), "succeeded", json!([1, 3])),
        (list(&[1]), "succeeded", json!([1])),
    ];
    for (end, state, output) in ends {
        let mut world = World::new(LOOK_AND_PAY, json!({}), bad(Does::Hangs));
        world.rest();
        world.set_script(bad(end.clone()));
        world.drive();
        assert_eq!(
            (world.run.state().name(), world.output()),
            (state, output),
            "{end:?}"
        );
    }
    let tolerant = LOOK_AND_PAY.replace("as: i", "as: i\n    tolerate: 50%");
    let mut world = World::new(&tolerant, json!({}), bad(list(&[1, 2])));
    world.drive();
    assert_eq!(world.output(), json!([1]));
}

#[test]
fn a_cancelled_for_each_lets_its_producer_go_on() {
    let mut world = World::new(
        LOOK_AND_PAY,
        json!({}),
        streaming(vec![(items(&[1, 2]), Does::Hangs)]),
    );
    world.rest();
    let cancel = Input::Cancel {
        path: Some("all".into()),
        by: None,
        reason: None,
    };
    world.input(cancel).unwrap();
    world.set_script(streaming(vec![(items(&[1, 2]), list(&[1, 2, 3]))]));
    world.drive();
    assert_eq!(
        ["list", "all", "all[0]/pay"].map(|path| world.state_of(path)),
        ["succeeded", "cancelled", "cancelled"]
    );
    assert_eq!(world.effects_of("pay"), Vec::<&str>::new());
}

#[test]
fn what_is_left_to_do_for_an_item_that_was_taken_back_has_no_effect() {
    let yaml = "
ravel: 1
name: tidying
steps:
  list: { tool: test.list, with: {}, effect: read }
  all:
    for_each: { stream: list.items }
    as: i
    steps:
      work:
        steps: { look: { tool: test.look, with: { i: '{{ i }}' }, effect: read } }
        finally: { tell: { tool: test.tell, with: { i: '{{ i }}' }, effect: once } }
      note: { after: [work], join: settled, tool: test.note, with: { i: '{{ i }}' }, effect: once }
    output: '{{ work.i }}'
output: '{{ all }}'
";
    let mut world = World::new(
        yaml,
        json!({}),
        streaming(vec![(items(&[1, 9]), list(&[1]))]),
    );
    world.drive();
    assert_eq!(world.output(), json!([1]));
    assert_eq!(
        (world.effects_of("tell"), world.effects_of("note")),
        (vec!["all[0]/work/finally/tell"], vec!["all[0]/note"])
    );
}

#[test]
fn people_are_asked_about_final_items_only() {
    let yaml = "
ravel: 1
name: asking
steps:
  list: { tool: test.list, with: {}, effect: read }
  all:
    for_each: { stream: list.items }
    as: i
    steps: { ok: { human: { ask: 'Is {{ i }} right?', form: { ok: boolean } } } }
";
    let mut world = World::new(
        yaml,
        json!({}),
        streaming(vec![(items(&[1, 9]), Does::Hangs)]),
    );
    world.rest();
    assert_eq!(world.questions(), []);
    world.set_script(streaming(vec![(items(&[1, 9]), list(&[1, 2]))]));
    world.drive();
    let asked: Vec<_> = world.questions().into_iter().map(|open| open.ask).collect();
    assert_eq!(asked, ["Is 1 right?".into(), "Is 2 right?".into()]);
}

#[test]
fn a_step_that_reads_its_producer_otherwise_waits_for_its_end() {
    for (from, to) in [
        (
            "i: '{{ i }}'",
            "i: '{{ i }}', n: '{{ list.items | length }}'",
        ),
        ("as: i", "as: i\n    after: [list]"),
        ("as: i", "as: i\n    join: settled"),
    ] {
        let yaml = LOOK_AND_PAY.replacen(from, to, 1);
        let mut world = World::new(
            &yaml,
            json!({}),
            streaming(vec![(items(&[1, 2, 3]), list(&[1, 2, 3]))]),
        );
        assert_eq!(world.open_paths(), ["list"]);
        world.rest();
        assert_eq!(world.output(), json!([1, 2, 3]), "{to}");
        let first = world.log.iter().flat_map(|turn| &turn.events);
        let ahead = first
            .filter(|event| matches!(event, crate::event::Event::ItemsTaken { .. }))
            .count();
        assert_eq!(ahead, 0, "{to}");
    }
}

#[test]
fn the_items_of_a_text_are_its_lines() {
    let yaml = "
ravel: 1
name: lines
steps:
  list: { run: 'ls' }
  all:
    for_each: { stream: list.stdout }
    as: line
    steps: { one: { tool: test.echo, with: { line: '{{ line }}' }, effect: read } }
    output: '{{ one.line }}'
output: '{{ all }}'
";
    let value = json!({ "code": 0, "stdout": "a\r\n\nb", "stderr": "", "files": {} });
    let script = move |streamed: Vec<Value>| -> Script {
        let end = Does::Value(value.clone());
        Box::new(move |job| match &*job.path {
            "list" => {
                assert_eq!(job.stream.as_deref(), Some("stdout"));
                Does::Streams(streamed.clone(), Box::new(end.clone()))
            }
            _ => echo(job),
        })
    };
    for streamed in [vec![], vec![json!("a"), json!("")]] {
        let mut world = World::new(yaml, json!({}), script(streamed));
        world.drive();
        assert_eq!(world.output(), json!(["a", "", "b"]));
        assert_eq!(world.effect_count("all[0]/one"), 1);
    }
}

#[test]
fn a_producer_is_waited_for_whatever_the_join_is_content_with() {
    let yaml = "
ravel: 1
name: joining
steps:
  quick: { set: 1 }
  list: { tool: test.list, with: { items: [1, 2] }, effect: read }
  all:
    for_each: { stream: list.items }
    after: [quick]
    join: any
    as: i
    steps: { one: { tool: test.echo, with: { i: '{{ i }}' }, effect: read } }
    output: '{{ one.i }}'
output: '{{ all | default(none) }}'
";
    let world = World::settled(yaml, json!({}), Box::new(exact));
    assert_eq!(world.output(), json!([1, 2]));
}
