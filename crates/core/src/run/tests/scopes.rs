//! Groups, loops, branches, races, sub-flows, catch and finally.

use serde_json::json;

use super::world::{Does, World, echo, survives_every_crash};
use crate::effect::{ErrorClass, Fate};
use crate::event::Input;
use crate::port::{Job, Request};

const FAN_OUT: &str = "
ravel: 1
name: fan_out
input: { docs: [string] }
steps:
  notes:
    for_each: input.docs
    as: doc
    parallel: 2
    tolerate: 1
    steps:
      summary: { tool: test.echo, with: { text: '{{ doc }}' }, effect: read }
    output: '{{ summary.text }}'
output: '{{ notes }}'
";

fn bad_doc(job: &Job) -> Does {
    match &job.request {
        Request::Tool { input, .. } if input.json()["text"] == "bad" => {
            Does::Fails(Fate::NotDone, ErrorClass::InvalidInput)
        }
        _ => echo(job),
    }
}

#[test]
fn for_each_keeps_input_order_and_tolerates_what_it_says() {
    let input = json!({ "docs": ["x", "bad", "y"] });
    let mut world = World::new(FAN_OUT, input.clone(), Box::new(bad_doc));
    assert_eq!(world.open_paths(), ["notes[0]/summary", "notes[1]/summary"]);
    world.youngest_first = true;
    world.drive();
    assert_eq!(world.output(), json!(["x", "y"]));
    let world = World::settled(
        FAN_OUT,
        json!({ "docs": ["bad", "x", "bad", "y"] }),
        Box::new(bad_doc),
    );
    assert_eq!(
        (world.run.state().name(), world.error_class()),
        ("failed", Some(ErrorClass::InvalidInput))
    );
    survives_every_crash(FAN_OUT, &input, bad_doc);
}

#[test]
fn an_empty_fan_out_is_an_empty_list() {
    let world = World::settled(FAN_OUT, json!({ "docs": [] }), Box::new(echo));
    assert_eq!(world.output(), json!([]));
}

const REPEAT: &str = "
ravel: 1
name: rounds
steps:
  grow:
    repeat: { carry: 1, until: output >= 8, max: 10 }
    steps:
      double: { tool: test.echo, with: { v: '{{ carry * 2 }}' }, effect: read }
    output: '{{ double.v }}'
output: '{{ grow }}'
";

#[test]
fn repeat_carries_until_its_condition_holds() {
    let world = World::settled(REPEAT, json!({}), Box::new(echo));
    assert_eq!(world.output(), json!(8));
    assert_eq!(
        world.ran(),
        ["grow[0]/double", "grow[1]/double", "grow[2]/double"]
    );
    survives_every_crash(REPEAT, &json!({}), echo);
}

#[test]
fn repeat_fails_as_exhausted_after_its_last_round() {
    let world = World::settled(
        &REPEAT.replace("max: 10", "max: 2"),
        json!({}),
        Box::new(echo),
    );
    assert_eq!(world.error_class(), Some(ErrorClass::Exhausted));
    let world = World::settled(
        &REPEAT.replace("max: 10", "max: 2, on_max: return"),
        json!({}),
        Box::new(echo),
    );
    assert_eq!(world.output(), json!(4));
}

#[test]
fn switch_runs_the_case_of_its_value() {
    let yaml = "
ravel: 1
name: switching
input: { team: { enum: [billing, tech] } }
steps:
  route:
    switch: input.team
    cases:
      billing: { set: { to: money } }
      tech: { set: { to: bits } }
output: '{{ route.to }}'
";
    for (team, to) in [("billing", "money"), ("tech", "bits")] {
        let world = World::settled(yaml, json!({ "team": team }), Box::new(echo));
        assert_eq!(world.output(), json!(to));
    }
}

#[test]
fn a_race_takes_the_first_success_and_stops_the_others() {
    let world = World::settled(
        "
ravel: 1
name: racing
steps:
  quickest:
    race:
      slow: { tool: test.slow, with: {}, effect: read }
      fast: { tool: test.echo, with: { v: 1 }, effect: read }
output: '{{ quickest }}'
",
        json!({}),
        Box::new(|job| {
            if &*job.path == "quickest/slow" {
                Does::Hangs
            } else {
                echo(job)
            }
        }),
    );
    assert_eq!(
        world.output(),
        json!({ "winner": "fast", "value": { "v": 1 } })
    );
    assert_eq!(world.state_of("quickest/slow"), "cancelled");
}

#[test]
fn return_settles_the_flow_and_cancels_the_rest() {
    let world = World::settled(
        "
ravel: 1
name: returning
steps:
  slow: { tool: test.slow, with: {}, effect: read }
  group:
    steps:
      done: { return: { answer: 42 } }
",
        json!({}),
        Box::new(|job| {
            if &*job.path == "slow" {
                Does::Hangs
            } else {
                echo(job)
            }
        }),
    );
    assert_eq!(
        (world.output(), world.run.state().name()),
        (json!({ "answer": 42 }), "succeeded")
    );
    assert_eq!(world.state_of("slow"), "cancelled");
}

#[test]
fn catch_takes_the_classes_it_names_and_finally_always_runs() {
    let yaml = "
ravel: 1
name: catching
steps:
  work:
    steps:
      a: { tool: test.echo, with: {}, effect: read }
    catch: [{ errors: [tool_error], output: 'caught {{ error.class }} of {{ error.step }}' }]
    finally: { tidy: { tool: test.tidy, with: {}, effect: read } }
output: '{{ work }}'
";
    let class = |class: ErrorClass| -> Box<dyn Fn(&Job) -> Does> {
        Box::new(move |job| {
            if &*job.path == "work/a" {
                Does::Fails(Fate::NotDone, class)
            } else {
                echo(job)
            }
        })
    };
    let world = World::settled(yaml, json!({}), class(ErrorClass::ToolError));
    assert_eq!(world.output(), json!("caught tool_error of work/a"));
    assert_eq!(world.ran(), ["work/a", "work/finally/tidy"]);
    let world = World::settled(yaml, json!({}), class(ErrorClass::Refused));
    assert_eq!(world.error_class(), Some(ErrorClass::Refused));
    assert_eq!(world.ran(), ["work/a", "work/finally/tidy"]);
}

const SUB_FLOW: &str = "
ravel: 1
name: parent
flows:
  sub:
    input: { n: integer }
    returns: { n: integer }
    steps:
      a: { tool: test.echo, with: { n: '{{ input.n + 1 }}' }, effect: read }
      b: { tool: test.echo, with: { n: '{{ a.n + 1 }}' }, effect: read }
    output: { n: '{{ b.n }}' }
steps:
  call: { flow: sub, with: { n: 1 } }
output: '{{ call.n }}'
";

#[test]
fn a_sub_flow_sees_its_own_input_and_gives_its_output() {
    let world = World::settled(SUB_FLOW, json!({}), Box::new(echo));
    assert_eq!(world.output(), json!(3));
    assert_eq!(world.ran(), ["call/a", "call/b"]);
    survives_every_crash(SUB_FLOW, &json!({}), echo);
}

#[test]
fn a_for_each_over_a_stream_takes_every_item_of_its_producer() {
    let yaml = "
ravel: 1
name: streaming
steps:
  list: { tool: test.list, with: { items: [1, 2, 3] }, effect: read }
  all:
    for_each: { stream: list.items }
    as: i
    steps: { one: { tool: test.echo, with: { i: '{{ i }}' }, effect: once } }
    output: '{{ one.i }}'
output: '{{ all }}'
";
    let mut world = World::new(yaml, json!({}), Box::new(echo));
    assert_eq!(world.open_paths(), ["list"]);
    world.drive();
    assert_eq!(world.output(), json!([1, 2, 3]));
}

#[test]
fn loop_knows_its_length_only_where_it_is_known() {
    let flow = "
ravel: 1
name: looping
steps:
  each:
    for_each: [a, b]
    steps:
      seen: { set: '{{ loop }}' }
    output: '{{ seen }}'
  tries:
    repeat: { until: loop.index == 1, max: 5 }
    steps:
      seen: { set: '{{ loop }}' }
    output: '{{ seen }}'
output: { each: '{{ each }}', tries: '{{ tries }}' }
";
    let world = World::settled(flow, json!({}), Box::new(echo));
    let expected = json!({
        "each": [
            { "index": 0, "key": null, "length": 2 },
            { "index": 1, "key": null, "length": 2 },
        ],
        "tries": { "index": 1, "key": null, "length": null },
    });
    assert_eq!(world.output(), expected);
}

/// A sub-flow with policies of its own, called by a step with policies of its own.
const POLICIES: &str = "
ravel: 1
name: policies
input: { fails: boolean, slow: boolean }
flows:
  sub:
    input: { fails: boolean, slow: boolean }
    deadline: 10s
    steps:
      work: { when: not input.slow, tool: test.work, with: { n: 1 }, effect: read }
      rest: { when: input.slow, wait: { for: 60s } }
      bad: { after: [work, rest], when: input.fails, fail: broken }
    catch:
      - errors: [deadline]
        output: late
      - steps: { note: { tool: test.note, with: { why: '{{ error.message }}' }, effect: read } }
        output: caught
    finally:
      tell: { tool: test.tell, with: { fails: '{{ input.fails }}', state: '{{ run.state }}' }, effect: read }
    output: fine
steps:
  before: { set: 7 }
  call:
    flow: sub
    with: { fails: '{{ input.fails }}', slow: '{{ input.slow }}' }
    finally: { after: { tool: test.after, with: {}, effect: read } }
output: '{{ call }}'
";

#[test]
fn a_called_flow_has_its_catch_its_finally_and_its_deadline() {
    for (fails, slow, output, last) in [
        (false, false, "fine", "succeeded"),
        (true, false, "caught", "failed"),
        (false, true, "late", "cancelled"),
    ] {
        let input = json!({ "fails": fails, "slow": slow });
        let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let heard = std::sync::Arc::clone(&told);
        let script = move |job: &Job| {
            if let Request::Tool { name, input } = &job.request
                && &**name == "test.tell"
            {
                heard.lock().unwrap().push(input.json().clone());
            }
            echo(job)
        };
        let world = World::settled(POLICIES, input.clone(), Box::new(script));
        assert_eq!(world.output(), json!(output), "{}", world.story());
        let mut ran = vec!["call/flow/work"];
        if slow {
            ran.clear();
        }
        ran.push("call/flow/finally/tell");
        if fails {
            ran.push("call/flow/catch[1]/note");
        }
        ran.push("call/finally/after");
        assert_eq!(world.ran(), ran);
        assert_eq!(
            *told.lock().unwrap(),
            [json!({ "fails": fails, "state": last })]
        );
        survives_every_crash(POLICIES, &input, echo);
    }
}

#[test]
fn a_call_s_own_handlers_see_what_is_around_the_call() {
    let flow = "
ravel: 1
name: around
input: { who: string }
flows:
  sub:
    input: { n: integer }
    steps:
      before: { set: hidden }
      bad: { after: before, fail: '{{ input.n }} is bad' }
    output: '{{ bad }}'
steps:
  before: { set: 7 }
  call:
    flow: sub
    with: { n: 3 }
    after: before
    catch: [{ output: '{{ input.who }} {{ before }} {{ error.message }}' }]
output: '{{ call }}'
";
    let world = World::settled(flow, json!({ "who": "me" }), Box::new(echo));
    assert_eq!(world.output(), json!("me 7 3 is bad"));
}

#[test]
fn steps_in_a_call_s_own_handlers_see_what_is_around_the_call() {
    let flow = "
ravel: 1
name: around
input: { who: string }
flows:
  sub:
    input: { n: integer }
    steps:
      before: { set: hidden }
      bad: { after: before, fail: '{{ input.n }} is bad' }
    output: '{{ bad }}'
steps:
  before: { set: 7 }
  call:
    flow: sub
    with: { n: 3 }
    after: before
    catch:
      - steps: { note: { set: '{{ input.who }} {{ before }} {{ error.message }}' } }
        output: '{{ note }}'
    finally: { tell: { tool: test.tell, with: { who: '{{ input.who }}', n: '{{ before }}' }, effect: read } }
output: '{{ call }}'
";
    let input = json!({ "who": "me" });
    let world = World::settled(flow, input.clone(), Box::new(echo));
    assert_eq!(world.output(), json!("me 7 3 is bad"), "{}", world.story());
    assert!(world.story().contains(r#""value":{"who":"me","n":7}"#));
    survives_every_crash(flow, &input, echo);
}

#[test]
fn an_item_that_was_cancelled_before_its_turn_never_begins_and_the_others_do() {
    let yaml = "
ravel: 1
name: queue
steps:
  all:
    for_each: range(4) | list
    parallel: 1
    tolerate: 4
    steps: { ask: { human: { ask: 'ok?', form: { ok: boolean } } } }
    output: 1
";
    let mut world = World::settled(yaml, json!({}), Box::new(echo));
    for path in ["all[1]", "all[2]"] {
        world
            .input(Input::Cancel {
                path: Some(path.into()),
                by: None,
                reason: None,
            })
            .unwrap();
    }
    for path in ["all[0]/ask", "all[3]/ask"] {
        let question = world.questions()[0].clone();
        assert_eq!(&*question.path, path);
        world.answer(&question.id, json!({ "ok": true })).unwrap();
    }
    assert!(world.run.is_final(), "{}", world.story());
    let states = ["all[0]", "all[1]", "all[2]", "all[3]"].map(|path| world.state_of(path));
    assert_eq!(states, ["succeeded", "cancelled", "cancelled", "succeeded"]);
}

#[test]
fn a_return_waits_for_the_compensations_of_a_scope_that_failed_before_it() {
    let yaml = "
ravel: 1
name: leaving
steps:
  trip:
    steps:
      - book: { tool: test.book, with: {}, effect: once, compensate: { tool: test.undo, with: {}, effect: write } }
      - go: { tool: test.bad, with: {}, effect: once }
    catch: [{ output: 0 }]
  ready: { human: { ask: 'ready?', form: { ok: boolean } } }
  leave: { after: [ready], return: 1 }
";
    let script = |job: &Job| match &*job.path {
        "trip/go" => Does::Fails(Fate::NotDone, ErrorClass::Refused),
        _ => echo(job),
    };
    let mut world = World::new(yaml, json!({}), Box::new(script));
    while world.open_paths() != ["trip/book/compensate"] {
        assert!(world.step(), "{}", world.story());
    }
    let question = world.questions()[0].id.clone();
    world.answer(&question, json!({ "ok": true })).unwrap();
    assert!(!world.run.is_final(), "its compensation is under way");
    world.drive();
    assert_eq!(world.output(), json!(1));
    assert_eq!(world.run.uncompensated(), Vec::<std::sync::Arc<str>>::new());
}

#[test]
fn a_wait_for_a_time_that_is_none_fails_and_says_why() {
    let wait = |wait: &str, value: serde_json::Value| {
        let yaml = format!(
            "ravel: 1\nname: waits\ninput: {{ at: number }}\nsteps:\n  a: {{ wait: {wait} }}\n"
        );
        let world = World::settled(&yaml, json!({ "at": value }), Box::new(echo));
        let error = world.run.error();
        error.map(|error| (error.class, error.message.to_string()))
    };
    let late = |number: &str| {
        let text = format!(
            "`wait` cannot be evaluated: {number} is a time after the year 9999; the number is of seconds since 1970, not of milliseconds"
        );
        Some((ErrorClass::InvalidInput, text))
    };
    let long =
        "`wait` cannot be evaluated: 18446744073709551615 seconds are longer than a hundred years";
    let until = "{ until: '{{ input.at }}' }";
    assert_eq!(wait(until, json!(1e30)), late("1e+30"));
    assert_eq!(
        wait(until, json!(9_007_199_254_740_993_u64)),
        late("9007199254740993")
    );
    assert_eq!(
        wait("'{{ input.at }}'", json!(u64::MAX)),
        Some((ErrorClass::InvalidInput, long.to_owned()))
    );
}

#[test]
fn a_carry_that_is_not_given_is_guarded_in_the_first_round() {
    let yaml = "
ravel: 1
name: rounds
steps:
  count:
    repeat: { max: 3 }
    steps: { add: { set: '{{ (carry | default(0)) + 1 }}' } }
output: '{{ count }}'
";
    let world = World::settled(yaml, json!({}), Box::new(echo));
    assert_eq!(world.output(), json!(3));
}

#[test]
fn a_conversation_that_is_no_list_fails_before_the_model_is_asked() {
    let yaml = "
ravel: 1
name: talk
input: { talk: any }
steps:
  a: { model: strong, messages: '{{ input.talk }}' }
";
    let world = World::settled(yaml, json!({ "talk": "Hi" }), Box::new(echo));
    let said = world
        .run
        .error()
        .map(|error| (error.class, error.message.to_string()));
    let text =
        "`model` cannot be evaluated: `messages` is a list of {role, content}, and this is \"Hi\"";
    assert_eq!(said, Some((ErrorClass::InvalidInput, text.to_owned())));
    assert_eq!(world.ran(), Vec::<String>::new());
}
