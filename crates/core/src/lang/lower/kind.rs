//! Steps whose kind is not told, or told twice: what was most probably meant.

use super::Lower;
use super::foreign::{foreign_kind, known_anywhere};
use crate::graph::StepId;
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, nearest};
use crate::lang::keys::{self, Kind};
use crate::lang::source::Span;
use crate::lang::tree::{Map, Value};
use crate::types::Shape;

impl Lower<'_> {
    pub(super) fn two_kinds(
        &mut self,
        id: StepId,
        map: &Map,
        first: &'static Kind,
        second: &'static Kind,
    ) {
        let name = self.info(id).name.clone();
        let message = format!(
            "step `{name}` has two kinds, `{}` and `{}`",
            first.name, second.name
        );
        let is_loop = |kind: &&&Kind| matches!(kind.name, "for_each" | "repeat");
        let pair = [first, second];
        let inner = pair.iter().find(|kind| !is_loop(kind));
        let hint = match (pair.iter().find(is_loop), inner) {
            (Some(around), Some(inner)) => format!(
                "what a `{}` does stands in its steps: `steps: {{ work: {{ {}: … }} }}`",
                around.name, inner.name
            ),
            (_, _) => "make two steps of it".to_owned(),
        };
        let problem = Problem::new(codes::KIND, map[second.name].key, message)
            .related(map[first.name].key, "the first");
        self.problem(problem.hint(hint));
    }

    pub(super) fn no_kind(&mut self, id: StepId, map: &Map, span: Span) {
        let name = self.info(id).name.clone();
        let kinds = || {
            keys::KINDS
                .iter()
                .filter(|kind| kind.available)
                .map(|kind| kind.name)
        };
        if let Some((span, hint)) = worded_otherwise(map) {
            let message = format!("step `{name}` has no kind");
            self.problem(Problem::new(codes::KIND, span, message).hint(hint));
            return;
        }
        let foreign = map.iter().find_map(|(key, entry)| {
            let meant = foreign_kind(key).filter(|_| known_anywhere(key).is_none())?;
            Some((meant, entry.key))
        });
        if let Some((meant, key)) = foreign {
            let message = format!("step `{name}` has no kind");
            self.problem(Problem::new(codes::KIND, key, message).hint(meant));
            return;
        }
        let close = map.iter().find_map(|(key, entry)| {
            known_anywhere(key)
                .is_none()
                .then(|| nearest(key, kinds()).map(|near| (near, entry.key)))?
        });
        let by_key = keys::KINDS
            .iter()
            .filter(|kind| kind.available)
            .find(|kind| {
                map.keys().any(|key| {
                    kind.table.get(key).is_some()
                        && !matches!(key.as_str(), "with" | "output" | "steps")
                })
            });
        let problem = match (close, by_key) {
            (Some((near, key)), _) => {
                Problem::new(codes::KIND, key, format!("step `{name}` has no kind"))
                    .hint(format!("did you mean `{near}`?"))
            }
            (None, Some(kind)) => Problem::new(
                codes::KIND,
                self.info(id).name_span,
                format!("step `{name}` has no kind"),
            )
            .hint(format!(
                "its keys are those of `{}`: add `{0}: {1}`",
                kind.name, kind.table.keys[0].example
            )),
            (None, None) => {
                let at = if map.is_empty() {
                    span
                } else {
                    self.info(id).name_span
                };
                Problem::new(codes::KIND, at, format!("step `{name}` has no kind")).hint(format!(
                    "a step has one of {}",
                    kinds().collect::<Vec<_>>().join(", ")
                ))
            }
        };
        self.problem(problem);
    }

    /// Arguments of a tool that stand beside it instead of under `with`.
    pub(super) fn arguments_beside(&self, map: &Map) -> Vec<String> {
        let tool = map.get("tool").and_then(|entry| entry.node.text());
        let Some(info) = tool.and_then(|tool| self.tool_info(tool)) else {
            return Vec::new();
        };
        let Shape::Fields { properties, .. } = info.input.shape() else {
            return Vec::new();
        };
        let is_argument =
            |key: &&String| properties.contains_key(*key) && known_anywhere(key).is_none();
        map.keys().filter(is_argument).cloned().collect()
    }
}

/// `type: run` and `parallel: { … }`: the kind as a value, and steps that need no word to run side by side.
fn worded_otherwise(map: &Map) -> Option<(Span, String)> {
    for key in ["type", "kind"] {
        let Some(entry) = map.get(key) else { continue };
        let Some(word) = entry.node.text() else {
            continue;
        };
        let known = keys::KINDS
            .iter()
            .find(|kind| kind.available && kind.name == word);
        if let Some(kind) = known {
            let example = kind.table.get(kind.name).map_or("…", |key| key.example);
            let hint = format!("the kind is the key itself: `{word}: {example}`");
            return Some((entry.key, hint));
        }
        if let Some(meant) = foreign_kind(word) {
            return Some((entry.key, format!("the kind is the key itself; {meant}")));
        }
    }
    let tool = map.iter().find(|(key, _)| {
        let parts = key.split_once('.');
        parts.is_some_and(|(space, verb)| !space.is_empty() && !verb.is_empty())
    });
    if let Some((tool, entry)) = tool {
        let hint = format!(
            "a tool is called by its name under `tool`: `tool: {tool}`, with its arguments under `with`"
        );
        return Some((entry.key, hint));
    }
    let entry = map.get("parallel")?;
    let hint = match &entry.node.value {
        Value::Map(steps) => {
            let names: Vec<String> = steps.keys().take(2).map(|name| format!("{name}: …")).collect();
            format!(
                "steps of a map run side by side as it is: write `steps: {{ {} }}`",
                names.join(", ")
            )
        }
        Value::List(_) => "steps of a map run side by side as it is: write `steps: { a: { … }, b: { … } }`, with a name for each".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => return None,
    };
    Some((entry.key, hint))
}
