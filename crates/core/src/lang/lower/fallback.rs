//! Fallbacks, each written out as a whole step.

use super::Lower;
use super::step::Part;
use crate::graph::StepId;
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::keys::{self, Kind};
use crate::lang::source::Span;
use crate::lang::tree::{Map, Node, Value};

/// Keys that belong to the step as a whole, not to one way of doing it.
const WHOLE_KEYS: &[&str] = &[
    "when",
    "after",
    "join",
    "cancel_rest",
    "fallback",
    "catch",
    "finally",
    "deadline",
    "compensate",
    "priority",
    "labels",
];
/// Keys that stay as they are in every fallback.
const KEPT_KEYS: &[&str] = &["gates", "returns", "repair"];
/// Keys that describe the old kind's effect.
const EFFECT_KEYS: &[&str] = &["effect", "on_uncertain"];

impl Lower<'_> {
    /// `fallback:`, one or a list.
    pub(crate) fn fallbacks(
        &mut self,
        id: StepId,
        kind: &'static Kind,
        base: &Map,
        node: &Node,
        span: Span,
    ) -> Vec<StepId> {
        let nodes = match &node.value {
            Value::List(items) => items.as_slice(),
            Value::Map(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {
                std::slice::from_ref(node)
            }
        };
        let mut steps = Vec::new();
        for node in nodes {
            let Some(overlay) = self.map(node, "fallback") else {
                continue;
            };
            self.refuse_whole_keys(overlay);
            let merged = self.merge(id, kind, base, overlay);
            let name = self.info(id).name.clone();
            let frame = self.info(id).frame;
            let whole = Node::made(
                Value::Map(merged),
                if overlay.is_empty() { span } else { node.span },
            );
            steps.push(self.hidden_step(id, &name, frame, &whole, Part::Fallback));
        }
        steps
    }

    fn refuse_whole_keys(&mut self, overlay: &Map) {
        for (key, entry) in overlay {
            let why = if WHOLE_KEYS.contains(&key.as_str()) {
                "it belongs to the step as a whole"
            } else if KEPT_KEYS.contains(&key.as_str()) {
                "gates, `returns` and `repair` stay as they are in every fallback"
            } else {
                continue;
            };
            self.problem(
                Problem::new(
                    codes::WRONG_PLACE,
                    entry.key,
                    format!("`{key}` has no place in a fallback"),
                )
                .hint(why),
            );
        }
    }

    fn merge(&mut self, id: StepId, kind: &'static Kind, base: &Map, overlay: &Map) -> Map {
        let new_kind = keys::KINDS
            .iter()
            .find(|other| other.name != kind.name && overlay.contains_key(other.name));
        let mut merged = Map::new();
        for (key, entry) in base {
            let own_key = kind.table.get(key).is_some();
            let dropped = match new_kind {
                Some(new) => {
                    own_key
                        || EFFECT_KEYS.contains(&key.as_str())
                        || (keys::LEAF.get(key).is_some() && !new.leaf)
                }
                None => false,
            };
            if !dropped && !WHOLE_KEYS.contains(&key.as_str()) {
                merged.insert(key.clone(), entry.clone());
            }
        }
        let replaced = overlay.iter().filter(|(key, _)| {
            !WHOLE_KEYS.contains(&key.as_str()) && !KEPT_KEYS.contains(&key.as_str())
        });
        for (key, entry) in replaced {
            merged.insert(key.clone(), entry.clone());
        }
        if let Some(new) = new_kind {
            let defaults = self.flows[self.info(id).flow]
                .defaults
                .get(new.name)
                .cloned()
                .unwrap_or_default();
            for (key, entry) in defaults {
                if !WHOLE_KEYS.contains(&key.as_str()) {
                    merged.entry(key).or_insert(entry);
                }
            }
        }
        merged
    }
}
