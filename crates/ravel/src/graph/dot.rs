//! DOT for Graphviz: scopes are clusters; an edge of a scope is tied to its first inner step and cut at the frame.

use std::fmt::Write as _;

use super::model::{Body, Diagram, How, Item};
use crate::view::State;

/// The picture as DOT.
pub(crate) fn draw(diagram: &Diagram) -> String {
    let mut text = format!("digraph {} {{\n", quoted(&diagram.title));
    text.push_str("  compound=true; rankdir=TB; node [shape=box, style=\"rounded,filled\", fillcolor=white];\n");
    let label = diagram.subtitle.as_ref().map_or_else(
        || diagram.title.clone(),
        |run| format!("{}\n{run}", diagram.title),
    );
    let _ = writeln!(text, "  label={}; labelloc=t;", quoted(&label));
    body(&mut text, &diagram.body, 1);
    text.push_str("}\n");
    text
}

fn body(text: &mut String, of: &Body, depth: usize) {
    let indent = "  ".repeat(depth);
    for each in &of.items {
        item(text, each, depth);
    }
    for edge in &of.edges {
        let (from, to) = (&of.items[edge.from], &of.items[edge.to]);
        let mut attributes = vec![format!(
            "style={}",
            match edge.how {
                How::Value => "solid",
                How::After => "dashed",
                How::Weak => "dotted",
            }
        )];
        if is_frame(from) {
            attributes.push(format!(
                "ltail={}",
                quoted(&format!("cluster:{}", from.path))
            ));
        }
        if is_frame(to) {
            attributes.push(format!("lhead={}", quoted(&format!("cluster:{}", to.path))));
        }
        if edge.critical {
            attributes.push("color=red, penwidth=2".into());
        }
        let _ = writeln!(
            text,
            "{indent}{} -> {} [{}];",
            quoted(anchor(from)),
            quoted(anchor(to)),
            attributes.join(", ")
        );
    }
}

fn item(text: &mut String, item: &Item, depth: usize) {
    let indent = "  ".repeat(depth);
    let label = item.lines(true).join("\n");
    let color = item.state.map_or("black", color);
    let width = if item.critical { 2 } else { 1 };
    if !is_frame(item) {
        let _ = writeln!(
            text,
            "{indent}{} [label={}, color={color}, penwidth={width}];",
            quoted(&item.path),
            quoted(&label)
        );
        return;
    }
    let _ = writeln!(
        text,
        "{indent}subgraph {} {{",
        quoted(&format!("cluster:{}", item.path))
    );
    let _ = writeln!(
        text,
        "{indent}  label={}; color={color}; penwidth={width}; style=rounded;",
        quoted(&label)
    );
    for part in item.parts.iter().filter(|part| !part.body.items.is_empty()) {
        match &part.label {
            Some(label) if item.parts.len() > 1 => {
                let name = quoted(&format!("cluster:{}/{label}", item.path));
                let _ = writeln!(
                    text,
                    "{indent}  subgraph {name} {{\n{indent}    label={}; style=dashed;",
                    quoted(label)
                );
                body(text, &part.body, depth + 2);
                let _ = writeln!(text, "{indent}  }}");
            }
            Some(_) | None => body(text, &part.body, depth + 1),
        }
    }
    let _ = writeln!(text, "{indent}}}");
}

fn is_frame(item: &Item) -> bool {
    item.parts.iter().any(|part| !part.body.items.is_empty())
}

/// The innermost first step of an item: DOT ties edges to nodes only.
fn anchor(item: &Item) -> &str {
    let first = item.parts.iter().find_map(|part| part.body.items.first());
    first.map_or(&item.path, |first| anchor(first))
}

const fn color(state: State) -> &'static str {
    match state {
        State::Pending | State::Skipped => "gray",
        State::Running => "deepskyblue",
        State::Waiting => "orange",
        State::Succeeded => "forestgreen",
        State::Failed => "red",
        State::Cancelled => "purple",
    }
}

fn quoted(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    )
}
