//! Joins, skips, failures, absent values.

use serde_json::json;

use super::world::{Does, World, echo, survives_every_crash};
use crate::effect::{ErrorClass, Fate};
use crate::port::Job;

fn failing(names: &'static [&'static str]) -> Box<dyn Fn(&Job) -> Does> {
    Box::new(move |job| {
        if names.contains(&&*job.path) {
            Does::Fails(Fate::NotDone, ErrorClass::ToolError)
        } else {
            echo(job)
        }
    })
}

const UNEQUAL: &str = "
ravel: 1
name: unequal
steps:
  a: { tool: test.echo, with: { v: 1 }, effect: read }
  b: { tool: test.echo, with: { v: '{{ a.v }}' }, effect: read }
  b2: { tool: test.echo, with: { v: '{{ b.v }}' }, effect: read }
  c: { tool: test.echo, with: { v: '{{ a.v }}' }, effect: read }
  d: { tool: test.echo, with: { left: '{{ b2.v }}', right: '{{ c.v }}' }, effect: read }
output: '{{ d }}'
";

#[test]
fn unequal_branches_fire_a_join_once_with_both_inputs() {
    for youngest_first in [false, true] {
        let mut world = World::new(UNEQUAL, json!({}), Box::new(echo));
        world.youngest_first = youngest_first;
        world.drive();
        assert_eq!(world.ran().iter().filter(|path| **path == "d").count(), 1);
        assert_eq!(world.output(), json!({ "left": 1, "right": 1 }));
    }
    survives_every_crash(UNEQUAL, &json!({}), echo);
}

#[test]
fn a_skipped_branch_does_not_starve_a_join() {
    let world = World::settled(
        "
ravel: 1
name: skipped
input: { left: boolean }
steps:
  a: { when: input.left, set: { v: a } }
  b: { when: not input.left, set: { v: b } }
  c: { set: { v: '{{ first_of(a.v, b.v) }}' } }
  d: { set: { v: '{{ c.v }}' } }
output: '{{ d.v }}'
",
        json!({ "left": true }),
        Box::new(echo),
    );
    assert_eq!(world.output(), json!("a"));
    assert_eq!(world.state_of("b"), "skipped");
}

#[test]
fn a_failed_parent_skips_its_child_and_fails_the_run() {
    let world = World::settled(
        "
ravel: 1
name: failed_parent
steps:
  a: { tool: test.echo, with: {}, effect: read }
  b: { tool: test.charge, with: { amount: '{{ a.amount }}' } }
",
        json!({}),
        failing(&["a"]),
    );
    assert_eq!(world.ran(), ["a"]);
    assert_eq!(world.state_of("b"), "skipped");
    assert_eq!(
        world
            .run
            .nodes()
            .find(|view| &*view.path == "b")
            .unwrap()
            .skip,
        Some(crate::event::Skip::UpstreamFailed("a".into()))
    );
    assert_eq!(world.error_class(), Some(ErrorClass::ToolError));
    assert_eq!(world.run.error().unwrap().step.as_deref(), Some("a"));
    assert_eq!(world.run.state().name(), "failed");
}

#[test]
fn a_value_of_a_skipped_step_skips_its_unguarded_reader() {
    let world = World::settled(
        "
ravel: 1
name: absent
steps:
  a: { when: 1 > 2, set: { ok: true } }
  b: { when: a.ok, set: { v: 1 } }
  c: { set: { v: '{{ a.ok | default(false) }}' } }
output: '{{ c.v }}'
",
        json!({}),
        Box::new(echo),
    );
    assert_eq!(
        world
            .run
            .nodes()
            .find(|view| &*view.path == "b")
            .unwrap()
            .skip,
        Some(crate::event::Skip::Uses("a".into()))
    );
    assert_eq!(world.output(), json!(false));
}

#[test]
fn any_absorbs_a_failure_while_it_can_be_met() {
    let yaml = "
ravel: 1
name: any
steps:
  a: { tool: test.echo, with: { v: a }, effect: read }
  b: { tool: test.echo, with: { v: b }, effect: read }
  c: { after: [a, b], join: any, set: { v: '{{ first_of(a.v, b.v) }}' } }
output: '{{ c.v }}'
";
    let world = World::settled(yaml, json!({}), failing(&["a"]));
    assert_eq!(
        (world.output(), world.run.state().name()),
        (json!("b"), "succeeded")
    );
    let world = World::settled(yaml, json!({}), failing(&["a", "b"]));
    assert_eq!(world.error_class(), Some(ErrorClass::JoinUnmet));
}

#[test]
fn failed_and_settled_steps_run_when_their_scope_fails() {
    let yaml = "
ravel: 1
name: cleanup
steps:
  a: { tool: test.echo, with: {}, effect: read }
  on_failure: { after: [a], join: failed, tool: test.echo, with: {}, effect: read }
  always: { after: [a], join: settled, tool: test.echo, with: {}, effect: read }
  never: { after: [a], tool: test.echo, with: {}, effect: read }
";
    let world = World::settled(yaml, json!({}), failing(&["a"]));
    assert_eq!(world.ran(), ["a", "on_failure", "always"]);
    assert_eq!(world.run.state().name(), "failed");
    let world = World::settled(yaml, json!({}), Box::new(echo));
    assert_eq!(world.ran(), ["a", "always", "never"]);
    assert_eq!(world.state_of("on_failure"), "skipped");
}

#[test]
fn a_step_starts_as_soon_as_its_data_is_there() {
    let mut world = World::new(
        "
ravel: 1
name: barriers
steps:
  a: { tool: test.echo, with: {}, effect: read }
  b: { tool: test.echo, with: { v: '{{ a }}' }, effect: read }
  c: { tool: test.slow, with: { v: '{{ a }}' }, effect: read }
  d: { tool: test.echo, with: { v: '{{ b }}' }, effect: read }
",
        json!({}),
        Box::new(|job| {
            if &*job.path == "c" {
                Does::Hangs
            } else {
                echo(job)
            }
        }),
    );
    for _ in 0..3 {
        world.step();
    }
    assert_eq!(world.state_of("d"), "succeeded");
    assert_eq!(world.state_of("c"), "running");
}

#[test]
fn a_list_runs_in_order_and_shares_a_workspace() {
    let world = World::settled(
        "
ravel: 1
name: list
steps:
  - one: { run: 'echo 1' }
  - two: { run: 'echo 2' }
",
        json!({}),
        Box::new(|job| {
            assert_eq!(job.workspace.as_deref(), Some("."));
            echo(job)
        }),
    );
    assert_eq!(world.ran(), ["one", "two"]);
    assert_eq!(world.run.state().name(), "succeeded");
}
