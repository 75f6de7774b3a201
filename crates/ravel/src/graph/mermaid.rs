//! Mermaid: scopes are subgraphs; ids are numbers, since Mermaid has reserved words and no escapes for ids.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::model::{Body, Diagram, How, Item};
use crate::view::State;

/// The picture as Mermaid.
pub(crate) fn draw(diagram: &Diagram) -> String {
    let mut drawing = Drawing {
        text: String::from("flowchart TD\n"),
        ids: BTreeMap::new(),
        critical: Vec::new(),
        edges: 0,
    };
    let _ = writeln!(drawing.text, "  %% {}", escaped(&one_line(&diagram.title)));
    drawing.body(&diagram.body, 1);
    for (state, color) in COLORS {
        let _ = writeln!(drawing.text, "  classDef {} stroke:{color}", state.name());
    }
    if !drawing.critical.is_empty() {
        let list: Vec<String> = drawing.critical.iter().map(usize::to_string).collect();
        let _ = writeln!(
            drawing.text,
            "  linkStyle {} stroke:#d33,stroke-width:3px",
            list.join(",")
        );
    }
    drawing.text
}

const COLORS: [(State, &str); 7] = [
    (State::Pending, "#999"),
    (State::Running, "#09c"),
    (State::Waiting, "#e90"),
    (State::Succeeded, "#292"),
    (State::Failed, "#d33"),
    (State::Skipped, "#bbb"),
    (State::Cancelled, "#939"),
];

struct Drawing<'a> {
    text: String,
    ids: BTreeMap<&'a str, usize>,
    critical: Vec<usize>,
    edges: usize,
}

impl<'a> Drawing<'a> {
    fn id(&mut self, path: &'a str) -> String {
        let next = self.ids.len();
        format!("n{}", self.ids.entry(path).or_insert(next))
    }

    fn body(&mut self, body: &'a Body, depth: usize) {
        let indent = "  ".repeat(depth);
        for item in &body.items {
            self.item(item, depth);
        }
        for edge in &body.edges {
            let from = self.id(&body.items[edge.from].path);
            let to = self.id(&body.items[edge.to].path);
            let arrow = match edge.how {
                How::Value => "-->",
                How::After | How::Weak => "-.->",
            };
            let _ = writeln!(self.text, "{indent}{from} {arrow} {to}");
            if edge.critical {
                self.critical.push(self.edges);
            }
            self.edges += 1;
        }
    }

    fn item(&mut self, item: &'a Item, depth: usize) {
        let indent = "  ".repeat(depth);
        let id = self.id(&item.path);
        let label = escaped(&item.lines(true).join("\n"));
        let frame = item.parts.iter().any(|part| !part.body.items.is_empty());
        if frame {
            let _ = writeln!(self.text, "{indent}subgraph {id}[\"{label}\"]");
            for (index, part) in item
                .parts
                .iter()
                .enumerate()
                .filter(|(_, part)| !part.body.items.is_empty())
            {
                match &part.label {
                    Some(label) if item.parts.len() > 1 => {
                        let _ = writeln!(
                            self.text,
                            "{indent}  subgraph {id}p{index}[\"{}\"]",
                            escaped(label)
                        );
                        self.body(&part.body, depth + 2);
                        let _ = writeln!(self.text, "{indent}  end");
                    }
                    Some(_) | None => self.body(&part.body, depth + 1),
                }
            }
            let _ = writeln!(self.text, "{indent}end");
        } else {
            let (open, close) = match item.kind {
                "human" => ("{{\"", "\"}}"),
                "wait" => ("([\"", "\"])"),
                _ => ("[\"", "\"]"),
            };
            let _ = writeln!(self.text, "{indent}{id}{open}{label}{close}");
        }
        if let Some(state) = item.state {
            let _ = writeln!(self.text, "{indent}class {id} {}", state.name());
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\n', "<br/>")
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}
