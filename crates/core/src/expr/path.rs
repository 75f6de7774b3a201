//! Names and the static steps below them.

use serde_json::Value;

use super::ast::Root;
use super::hint::did_you_mean;
use super::scope::{Lookup, Scope};
use super::{PathStep, ops};

/// Looks a root up. In a namespace the first member is part of the name, so one step of the path is taken.
pub(crate) fn look_up(scope: &dyn Scope, root: &Root) -> (Lookup, usize) {
    match (scope.lookup(&root.name), &root.member) {
        (Lookup::Members, Some(member)) => (scope.member(&root.name, member), 1),
        (found, _) => (found, 0),
    }
}

/// The value one step below; negative indexes count from the end.
pub(crate) fn step_into<'j>(value: &'j Value, step: &PathStep) -> Option<&'j Value> {
    match (value, step) {
        (Value::Object(fields), PathStep::Key(key)) => fields.get(key),
        (Value::Array(items), PathStep::Index(index)) => {
            let index = if *index < 0 {
                *index + items.len() as i64
            } else {
                *index
            };
            items.get(usize::try_from(index).ok()?)
        }
        _ => None,
    }
}

/// One character of a text: a new value, and so not a step into an old one.
pub(crate) fn character(value: &Value, step: &PathStep) -> Option<Value> {
    let (Value::String(text), PathStep::Index(index)) = (value, step) else {
        return None;
    };
    let found = match usize::try_from(*index) {
        Ok(index) => text.chars().nth(index),
        Err(_) => text
            .chars()
            .nth_back(usize::try_from(index.checked_neg()? - 1).ok()?),
    };
    found.map(|char| Value::String(char.to_string()))
}

/// The sentence for a name that nobody has.
pub(crate) fn unknown(root: &Root) -> String {
    match &root.member {
        Some(member) => format!("`{}.{member}` is not known here", root.name),
        None => format!("`{}` is not known here", root.name),
    }
}

/// The sentence for a step that leads nowhere.
pub(crate) fn lacks(value: &Value, step: &PathStep) -> String {
    match (value, step) {
        (Value::Object(fields), PathStep::Key(key)) => {
            let mut sentence = format!("the object has no field `{key}`");
            if let Some(near) = did_you_mean(key, fields.keys().map(String::as_str)) {
                sentence.push_str(&format!("; it has `{near}`"));
            }
            sentence
        }
        (Value::Array(items), PathStep::Index(index)) => {
            format!("the list has {} items, so none at {index}", items.len())
        }
        (Value::String(text), PathStep::Index(index)) => {
            let length = text.chars().count();
            format!("the string has {length} characters, so none at {index}")
        }
        (other, PathStep::Key(key)) => format!("{} has no field `{key}`", ops::a_kind(other)),
        (other, PathStep::Index(index)) => format!("{} has no item {index}", ops::a_kind(other)),
    }
}
