//! Flows that call themselves and have `catch`, `finally` and `deadline`, and edits of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::world::{World, compile, echo, survives_every_crash};
use crate::event::Input;
use crate::lang::{Bundle, TextLimits};
use crate::port::{Job, Request};
use crate::run::Terms;

/// Counts down by calling itself; the innermost call fails, is slow, or ends well.
const DOWN: &str = "
ravel: 1
name: down
input: { n: integer, last: string }
deadline: 10s
steps:
  work: { when: input.n > 0, tool: test.work, with: { n: '{{ input.n }}' }, effect: read }
  deeper: { when: input.n > 0, flow: down, max_depth: 5, with: { n: '{{ input.n - 1 }}', last: '{{ input.last }}' } }
  bad: { when: \"input.n == 0 and input.last == 'fails'\", fail: bottom }
  slow: { when: \"input.n == 0 and input.last == 'slow'\", wait: 60s }
catch:
  - errors: [deadline]
    output: 'late at {{ input.n }}'
  - output: 'caught at {{ input.n }}: {{ error.message }}'
finally:
  tell: { tool: test.tell, with: { n: '{{ input.n }}', state: '{{ run.state }}' }, effect: read }
output: \"{{ deeper | default('bottom') }} < {{ input.n }}\"
";

fn in_itself(yaml: &str) -> String {
    yaml.replace("input: {", "flows: { down: flow.yaml }\ninput: {")
}

#[test]
fn every_level_has_its_own_catch_finally_and_deadline() {
    let flow = in_itself(DOWN);
    for (last, output, states) in [
        ("well", "bottom < 0 < 1 < 2", ["succeeded"; 3]),
        (
            "fails",
            "caught at 0: bottom < 1 < 2",
            ["failed", "succeeded", "succeeded"],
        ),
        ("slow", "late at 2", ["cancelled"; 3]),
    ] {
        let input = json!({ "n": 2, "last": last });
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let script = move |job: &Job| {
            if let Request::Tool { name, input } = &job.request
                && &**name == "test.tell"
            {
                heard.lock().unwrap().push(input.json().clone());
            }
            echo(job)
        };
        let world = World::settled(&flow, input.clone(), Box::new(script));
        assert_eq!(world.output(), json!(output), "{}", world.story());
        let expected: Vec<Value> = states
            .iter()
            .enumerate()
            .map(|(n, state)| json!({ "n": n, "state": state }))
            .collect();
        assert_eq!(*told.lock().unwrap(), expected, "{last}");
        survives_every_crash(&flow, &input, echo);
    }
}

const EDITED: &str = "
ravel: 1
name: down
input: { n: integer }
steps:
  deeper: { when: input.n > 0, flow: down, max_depth: 5, with: { n: '{{ input.n - 1 }}' } }
  work: { human: { ask: 'Well?', form: { ok: boolean } } }
  rest: { after: work, set: old }
catch: [{ output: caught }]
finally: { tell: { tool: test.tell, with: {}, effect: read } }
output: '{{ rest }}{{ deeper | default(0) }}'
";

fn edit(world: &mut World, yaml: &str) -> Result<(), crate::event::Reject> {
    let graph = compile(yaml);
    world.knows(&graph);
    world.input(Input::Edit {
        base: 1,
        graph,
        note: json!("by hand").into(),
    })
}

fn answer_all(world: &mut World) {
    for question in world.questions() {
        world.answer(&question.id, json!({ "ok": true })).unwrap();
    }
    world.drive();
}

#[test]
fn a_flow_that_calls_itself_is_edited_where_it_has_not_begun() {
    let flow = in_itself(EDITED);
    let mut world = World::settled(&flow, json!({ "n": 1 }), Box::new(echo));
    edit(&mut world, &flow.replace("set: old", "set: new")).unwrap();
    world.crash();
    answer_all(&mut world);
    assert_eq!(world.output(), json!("newnew0"), "{}", world.story());
}

#[test]
fn an_edit_of_policies_that_a_call_is_under_is_refused() {
    let flow = in_itself(EDITED);
    let mut world = World::settled(&flow, json!({ "n": 1 }), Box::new(echo));
    let changed = flow.replace("output: caught", "output: other");
    assert_eq!(
        edit(&mut world, &changed).unwrap_err().message,
        "the edit changes `deeper/flow`, which has been activated"
    );
}

#[test]
fn called_flows_with_one_name_are_told_apart_in_an_edit() {
    let files = |last: &str| {
        BTreeMap::from([
            (
                "flow.yaml".to_owned(),
                "
ravel: 1
name: two
flows: { one: a/sub.yaml, other: b/sub.yaml }
steps: { a: { flow: one }, b: { flow: other } }
output: '{{ a }} {{ b }}'
"
                .to_owned(),
            ),
            (
                "a/sub.yaml".to_owned(),
                "steps: { x: { tool: test.x, with: { v: 1 }, effect: read } }\noutput: '{{ x.v }}'"
                    .to_owned(),
            ),
            (
                "b/sub.yaml".to_owned(),
                format!(
                    "steps: {{ y: {{ human: {{ ask: 'Well?', form: {{ ok: boolean }} }} }}, z: {{ after: y, set: {last} }} }}\noutput: '{{{{ z }}}}'"
                ),
            ),
        ])
    };
    let load = |last: &str| {
        let bundle = Bundle::load("flow.yaml", &files(last), None, &TextLimits::default());
        Arc::new(bundle.unwrap().compile().unwrap())
    };
    let mut world = World::of_graph(load("old"), json!({}), Box::new(echo), Terms::default());
    world.drive();
    let graph = load("new");
    world.knows(&graph);
    let note = json!("by hand").into();
    let edit = Input::Edit {
        base: 1,
        graph,
        note,
    };
    world.input(edit).unwrap();
    world.crash();
    answer_all(&mut world);
    assert_eq!(world.output(), json!("1 new"), "{}", world.story());
}
