//! What is drawn: bodies of items with edges, nested as scopes nest. Made from a flow, then dressed with the states and
//! times of a run; the renderers know nothing else.

use serde::Serialize;

use crate::view::State;

/// A whole picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Diagram {
    /// The flow's name.
    pub(crate) title: String,
    /// The run and its outcome, when a run is drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subtitle: Option<String>,
    pub(crate) body: Body,
}

/// Sibling steps and the edges between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Body {
    pub(crate) items: Vec<Item>,
    pub(crate) edges: Vec<Edge>,
}

/// A step. One that has parts is drawn as a frame around them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Item {
    /// Its path without indexes: unique in the picture.
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<State>,
    /// Short facts: `12/16`, `1.3 s`, `$0.02`, `2 gates`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// On the run's critical path.
    pub(crate) critical: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Part>,
    /// When it was opened and settled in the run, epoch ms.
    #[serde(skip)]
    pub(crate) span: Option<(u64, u64)>,
}

/// A body inside a step: its steps, a case, `catch`, `finally`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    pub(crate) body: Body,
}

/// What an edge means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// Only the settling matters.
    Weak,
    /// Order only.
    After,
    /// The value is read.
    Value,
}

/// An edge between two items of a body, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) how: How,
    pub(crate) critical: bool,
}

impl Item {
    /// An item without anything to say about a run.
    pub(crate) fn new(
        path: impl Into<String>,
        name: impl Into<String>,
        kind: &'static str,
    ) -> Self {
        Self {
            path: path.into(),
            name: name.into(),
            kind,
            state: None,
            notes: Vec::new(),
            critical: false,
            parts: Vec::new(),
            span: None,
        }
    }

    /// The lines of its box: state and name, then kind and notes.
    pub(crate) fn lines(&self, unicode: bool) -> [String; 2] {
        let glyph = self.state.map(|state| {
            if unicode {
                state.glyph()
            } else {
                state.ascii()
            }
        });
        let first = glyph.map_or_else(
            || self.name.clone(),
            |glyph| format!("{glyph} {}", self.name),
        );
        let mut second = self.kind.to_owned();
        for note in &self.notes {
            second.push_str(if unicode { " · " } else { ", " });
            second.push_str(note);
        }
        [first, second]
    }
}

impl Body {
    /// Marks the critical path: from the item that settled last, back over the dependency that settled last.
    pub(crate) fn mark_critical(&mut self) {
        let settled = |item: &Item| item.span.map(|(_, settled)| settled);
        let last = (0..self.items.len()).filter(|index| settled(&self.items[*index]).is_some());
        let mut at = last.max_by_key(|index| settled(&self.items[*index]));
        while let Some(index) = at {
            self.items[index].critical = true;
            for part in &mut self.items[index].parts {
                part.body.mark_critical();
            }
            let edge = (0..self.edges.len())
                .filter(|edge| {
                    self.edges[*edge].to == index && !self.items[self.edges[*edge].from].critical
                })
                .filter(|edge| settled(&self.items[self.edges[*edge].from]).is_some())
                .max_by_key(|edge| settled(&self.items[self.edges[*edge].from]));
            if let Some(edge) = edge {
                self.edges[edge].critical = true;
            }
            at = edge.map(|edge| self.edges[edge].from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, span: (u64, u64)) -> Item {
        let mut item = Item::new(name, name, "set");
        item.span = Some(span);
        item
    }

    #[test]
    fn the_critical_path_follows_the_latest_dependency() {
        let edge = |from, to| Edge {
            from,
            to,
            how: How::Value,
            critical: false,
        };
        let mut body = Body {
            items: vec![
                item("a", (0, 5)),
                item("b", (0, 9)),
                item("c", (9, 12)),
                item("d", (5, 6)),
            ],
            edges: vec![edge(0, 2), edge(1, 2), edge(0, 3)],
        };
        body.mark_critical();
        let critical: Vec<&str> = body
            .items
            .iter()
            .filter(|item| item.critical)
            .map(|item| item.name.as_str())
            .collect();
        assert_eq!(critical, ["b", "c"]);
        assert_eq!(
            body.edges
                .iter()
                .map(|edge| edge.critical)
                .collect::<Vec<_>>(),
            [false, true, false]
        );
    }
}
