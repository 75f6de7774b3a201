//! Each renderer on one picture with everything in it, and on a large one.

use super::model::{Body, Diagram, Edge, How, Item, Part};
use super::{Canvas, to_dot, to_mermaid, to_outline, to_svg, to_terminal};
use crate::output::Paint;
use crate::view::State;

fn canvas(width: usize) -> Canvas {
    Canvas {
        paint: Paint::new(false),
        width,
        unicode: true,
    }
}

fn edge(from: usize, to: usize, how: How) -> Edge {
    Edge {
        from,
        to,
        how,
        critical: false,
    }
}

fn item(path: &str, kind: &'static str, state: Option<State>, notes: &[&str]) -> Item {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut item = Item::new(path, name, kind);
    item.state = state;
    item.notes = notes.iter().map(|note| (*note).to_owned()).collect();
    item
}

/// Triage of a run: a fan-out, a switch with two cases, a critical path.
fn triage() -> Diagram {
    let mut notes = item(
        "notes",
        "for_each",
        Some(State::Running),
        &["12/16", "3.1 s"],
    );
    let body = Body {
        items: vec![item(
            "notes/summary",
            "model",
            Some(State::Running),
            &["12/16"],
        )],
        edges: vec![],
    };
    notes.parts.push(Part {
        label: Some("steps".into()),
        body,
    });
    let mut route = item("route", "switch", Some(State::Succeeded), &[]);
    for case in ["billing", "tech"] {
        let path = format!("route/case[{case}]");
        let body = Body {
            items: vec![item(&path, "set", None, &[])],
            edges: vec![],
        };
        route.parts.push(Part {
            label: Some(format!("case[{case}]")),
            body,
        });
    }
    let mut classify = item(
        "classify",
        "model",
        Some(State::Succeeded),
        &["1.2 s", "$0.0010"],
    );
    classify.critical = true;
    let mut body = Body {
        items: vec![
            classify,
            notes,
            route,
            item("approve", "human", Some(State::Waiting), &["when"]),
            item("refund", "tool", None, &[]),
        ],
        edges: vec![
            edge(0, 2, How::Value),
            edge(0, 3, How::Value),
            edge(1, 3, How::Weak),
            edge(2, 4, How::After),
            edge(3, 4, How::Value),
        ],
    };
    body.edges[1].critical = true;
    Diagram {
        title: "triage".into(),
        subtitle: Some("0193  running  4.2 s".into()),
        body,
    }
}

#[test]
fn boxes_when_they_fit() {
    insta::assert_snapshot!(to_terminal(&triage(), canvas(100)));
}

#[test]
fn boxes_in_ascii() {
    insta::assert_snapshot!(to_terminal(
        &triage(),
        Canvas {
            unicode: false,
            ..canvas(100)
        }
    ));
}

#[test]
fn an_outline_when_boxes_do_not_fit() {
    let text = to_terminal(&triage(), canvas(40));
    assert_eq!(text, to_outline(&triage(), canvas(40)));
    insta::assert_snapshot!(text);
}

#[test]
fn mermaid_has_subgraphs_states_and_the_critical_path() {
    insta::assert_snapshot!(to_mermaid(&triage()));
}

#[test]
fn dot_ties_scopes_by_their_frames() {
    insta::assert_snapshot!(to_dot(&triage()));
}

#[test]
fn svg_stands_alone() {
    insta::assert_snapshot!(to_svg(&triage()));
}

#[test]
fn names_cannot_break_out_of_a_format() {
    let nasty = "a\"]<script>\n";
    let body = Body {
        items: vec![item(nasty, "set", None, &["<b>"])],
        edges: vec![],
    };
    let diagram = Diagram {
        title: nasty.into(),
        subtitle: None,
        body,
    };
    assert!(!to_svg(&diagram).contains("<script>") && !to_svg(&diagram).contains("<b>"));
    assert!(
        !to_mermaid(&diagram)
            .lines()
            .any(|line| line.contains("<script>"))
    );
    assert!(!to_dot(&diagram).contains("\"a\"]"));
}

#[test]
fn two_thousand_steps_are_drawn() {
    let count = 2_000;
    let items = (0..count)
        .map(|index| item(&format!("s{index}"), "set", None, &[]))
        .collect();
    let edges = (1..count).flat_map(|to| [((to * 7919) % to, to), ((to * 31) % to, to)]);
    let mut edges: Vec<Edge> = edges.map(|(from, to)| edge(from, to, How::Value)).collect();
    edges.dedup();
    let diagram = Diagram {
        title: "large".into(),
        subtitle: None,
        body: Body { items, edges },
    };
    assert_eq!(to_svg(&diagram).matches("<rect").count(), count);
    assert_eq!(to_outline(&diagram, canvas(80)).lines().count(), count + 1);
}
