//! What flows are compiled to: edges, hidden steps, merged keys.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use ravel_core::graph::{Gate, Graph, Join, Kind, OnUncertain, StepDef};
use ravel_core::lang::Bundle;

fn graph(text: &str) -> Graph {
    let bundle = Bundle::from_text("flow.yaml", text).unwrap();
    bundle.compile().unwrap_or_else(|diagnostics| {
        let text: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        panic!("{}", text.join("\n"))
    })
}

/// `name <- dependency:Kind, …; outer` of each step, in the order of the graph.
fn edges(graph: &Graph) -> Vec<String> {
    let mut lines = Vec::new();
    for body in &graph.bodies {
        for step in &body.steps {
            let step = graph.step(*step);
            let deps: Vec<String> = step
                .deps
                .iter()
                .map(|dep| {
                    format!(
                        "{}:{:?}",
                        graph.step(body.steps[dep.on as usize]).name,
                        dep.how
                    )
                })
                .collect();
            lines.push(format!(
                "{} <- [{}] {:?}",
                step.name,
                deps.join(" "),
                step.outer
            ));
        }
    }
    lines
}

fn find<'g>(graph: &'g Graph, name: &str) -> &'g StepDef {
    graph.steps.iter().find(|step| &*step.name == name).unwrap()
}

#[test]
fn references_are_edges_of_the_kind_of_their_place() {
    let graph = graph(
        r#"
steps:
  a: { set: 1 }
  b: { set: 2 }
  reads: { set: "{{ a + b }}" }
  ordered: { set: 1, after: [a] }
  both: { set: "{{ a }}", after: [a] }
  meta: { set: "{{ steps.a.state }}" }
  gated: { set: 1, gates: [{ expr: output > b }] }
  group:
    steps:
      inner: { set: "{{ a }}" }
      other: { set: "{{ inner }}" }
    output: "{{ b + other }}"
  chosen:
    switch: a
    cases: { "1": { set: "{{ b }}" } }
    else: { set: 0 }
"#,
    );
    assert_eq!(
        edges(&graph),
        [
            "a <- [] []",
            "b <- [] []",
            "reads <- [a:Value b:Value] []",
            "ordered <- [a:After] []",
            "both <- [a:Value] []",
            "meta <- [a:Weak] []",
            "gated <- [b:Weak] []",
            "group <- [a:Weak b:Weak] []",
            "chosen <- [a:Value b:Weak] []",
            "inner <- [] [\"a\"]",
            "other <- [inner:Value] []",
        ]
    );
    assert_eq!(find(&graph, "case[1]").outer, ["b".into()]);
}

#[test]
fn a_list_runs_in_order() {
    let graph = graph(
        r#"
steps:
  - a: { run: one }
  - b: { run: two }
  - c: { set: "{{ a.stdout }}" }
"#,
    );
    assert_eq!(
        edges(&graph),
        [
            "a <- [] []",
            "b <- [a:After] []",
            "c <- [a:Value b:After] []"
        ]
    );
    assert!(graph.body(graph.main().body).list);
}

#[test]
fn a_fallback_is_a_whole_step_with_the_gates_of_its_host() {
    let graph = graph(
        r#"
steps:
  a:
    model: fast
    prompt: Hi
    temperature: 0.5
    returns: { n: integer }
    gates: [{ expr: output.n > 3 }]
    retry: 2
    fallback: [{ model: strong }, { set: { n: 4 } }]
"#,
    );
    let host = find(&graph, "a");
    assert_eq!(host.fallback.len(), 2);
    let (second, third) = (graph.step(host.fallback[0]), graph.step(host.fallback[1]));
    let Kind::Model(model) = &second.kind else {
        panic!("a model")
    };
    assert_eq!(
        (&*model.name, model.temperature, second.leaf.retry.attempts),
        ("strong", Some(0.5), 2)
    );
    assert_eq!(
        (second.gates.len(), second.returns.is_some(), &*second.name),
        (1, true, "a")
    );
    assert!(matches!(third.kind, Kind::Set(_)));
    assert_eq!((third.gates.len(), third.returns.is_some()), (1, true));
}

#[test]
fn defaults_are_merged_under_the_steps_own_keys() {
    let graph = graph(
        r#"
defaults: { run: { timeout: 10m, effect: read }, model: { retry: { attempts: 7 } } }
steps:
  a: { run: one }
  b: { run: two, timeout: 5s }
  c: { model: fast, prompt: Hi }
"#,
    );
    let of = |name: &str| {
        let leaf = &find(&graph, name).leaf;
        (
            leaf.timeout,
            format!("{:?}", leaf.effect),
            leaf.retry.attempts,
        )
    };
    assert_eq!(of("a"), (600_000, "Read".to_owned(), 1));
    assert_eq!(of("b"), (5_000, "Read".to_owned(), 1));
    assert_eq!(of("c"), (600_000, "Read".to_owned(), 7));
}

#[test]
fn gates_checks_and_compensations_are_hidden_steps() {
    let graph = graph(
        r#"
steps:
  a:
    tool: crm.pay
    with: { id: 1 }
    effect: once
    gates: [{ run: "test 1" }, { judge: { model: strong, rubric: Polite } }, { schema: { id: integer } }]
    on_uncertain: { check: { tool: crm.find, with: { id: "{{ args.id }}" }, effect: read } }
    compensate: { tool: crm.undo, with: { id: "{{ output.id }}" } }
"#,
    );
    let step = find(&graph, "a");
    let OnUncertain::Check(check) = step.leaf.on_uncertain else {
        panic!("a check")
    };
    let names: Vec<&str> = step
        .gates
        .iter()
        .map(|gate| match gate {
            Gate::Run(step) | Gate::Judge(step) => &*graph.step(*step).name,
            Gate::Expr(_) => "expr",
            Gate::Schema(_) => "schema",
        })
        .collect();
    assert_eq!(names, ["gate[0]", "gate[1]", "schema"]);
    assert_eq!(&*graph.step(check).name, "check");
    assert_eq!(&*graph.step(step.compensate.unwrap()).name, "compensate");
    assert_eq!(graph.body(graph.main().body).steps.len(), 1);
}

#[test]
fn sub_flows_are_flows_of_the_graph_and_may_call_themselves() {
    let graph = graph(
        r#"
name: walk
input: { n: integer }
returns: integer
flows:
  plus:
    input: { n: { type: integer, default: 5 } }
    steps: { sum: { set: "{{ input.n + 1 }}" } }
steps:
  one: { flow: plus }
  deeper: { when: input.n > 0, flow: walk, with: { n: "{{ input.n - 1 }}" }, max_depth: 4 }
output: "{{ one + (deeper | default(0)) }}"
"#,
    );
    let names: Vec<&str> = graph.flows.iter().map(|flow| &*flow.name).collect();
    assert_eq!(names, ["walk", "plus"]);
    let Kind::Flow(call) = &find(&graph, "deeper").kind else {
        panic!("a call")
    };
    assert_eq!((call.flow.0, call.max_depth), (0, 4));
}

#[test]
fn places_are_lines_of_the_users_file() {
    let graph = graph("steps:\n  a: { set: 1 }\n  b:\n    set: 2\n    join: any\n    after: a\n");
    let step = find(&graph, "b");
    assert_eq!(
        (&*step.at.file, step.at.line, step.at.column),
        ("flow.yaml", 3, 3)
    );
    assert_eq!(step.join, Join::First(1));
}
