//! The value that steps hand to each other: immutable JSON, shared instead of copied.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// An immutable JSON value that is cheap to clone.
///
/// A value is made once, by its producer, and read by many: events, scopes and expressions hold the same
/// allocation. It serializes as the JSON it holds.
#[derive(Clone)]
pub struct Val(Arc<Value>);

static NULL: LazyLock<Val> = LazyLock::new(|| Val(Arc::new(Value::Null)));

impl Val {
    /// Wraps a JSON value.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// The shared `null`.
    pub fn null() -> Self {
        NULL.clone()
    }

    /// The JSON that this value holds.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// The JSON that this value holds, copied only if somebody else still shares it.
    pub fn into_json(self) -> Value {
        Arc::try_unwrap(self.0).unwrap_or_else(|shared| shared.as_ref().clone())
    }

    /// Follows field names, and indexes written as digits, from the top. `None` if a part is missing.
    pub fn get_path<S: AsRef<str>>(&self, path: &[S]) -> Option<&Value> {
        path.iter()
            .try_fold(self.json(), |value, part| match value {
                Value::Object(fields) => fields.get(part.as_ref()),
                Value::Array(items) => items.get(part.as_ref().parse::<usize>().ok()?),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            })
    }

    /// Whether two values are the same allocation (equal without looking).
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<Value> for Val {
    fn from(value: Value) -> Self {
        Self::new(value)
    }
}

impl PartialEq for Val {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || self.0 == other.0
    }
}

impl Eq for Val {}

impl Default for Val {
    fn default() -> Self {
        Self::null()
    }
}

impl fmt::Debug for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Val {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Val {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_serializes_as_the_json_it_holds() {
        let value = Val::new(json!({ "b": [1, 2.5, null], "a": "x" }));
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(text, r#"{"b":[1,2.5,null],"a":"x"}"#);
        assert_eq!(serde_json::from_str::<Val>(&text).unwrap(), value);
    }

    #[test]
    fn a_path_follows_fields_and_indexes() {
        let value = Val::new(json!({ "a": [{ "b": 7 }] }));
        assert_eq!(value.get_path(&["a", "0", "b"]), Some(&json!(7)));
        assert_eq!(value.get_path(&["a", "1", "b"]), None);
        assert_eq!(value.get_path::<&str>(&[]), Some(value.json()));
    }

    #[test]
    fn a_clone_is_the_same_allocation_until_it_is_taken_out() {
        let value = Val::new(json!([1]));
        assert!(value.clone().same(&value));
        assert_eq!(value.clone().into_json(), json!([1]));
    }
}
