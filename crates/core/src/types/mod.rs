//! Types: JSON Schemas with a shape that the checker reasons about.
//!
//! A [`Type`] holds its schema, normalised and complete in itself, and the [`Shape`] read from it. The shape answers what JSON Schema
//! is not made for: which field has which type, whether values of one type can be used as another, which defaults to fill in. Keywords
//! that no shape expresses (`pattern`, `minimum`, …) are left to a validator that is compiled at first use.

mod accept;
mod field;
mod fit;
mod shape;

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

pub use accept::Violation;
pub use field::Field;
pub use fit::Fit;
pub use shape::{Named, Property, Shape};
pub(crate) use shape::{lift_defs, nullable_schema};

/// A type of the language.
#[derive(Clone)]
pub struct Type(Arc<Inner>);

struct Inner {
    schema: Value,
    shape: Shape,
    /// True when the schema says more than the shape, here or below.
    more: bool,
    validator: OnceLock<Option<jsonschema::Validator>>,
}

impl Type {
    /// The type of a schema. Fails with a sentence when it is no valid JSON Schema.
    pub fn from_schema(schema: Value) -> Result<Self, String> {
        let defs = Arc::new(schema.get("$defs").cloned().unwrap_or(Value::Null));
        let ty = Self::read(schema, &defs);
        if ty.0.more {
            jsonschema::validator_for(&ty.0.schema).map_err(|error| error.to_string())?;
        }
        Ok(ty)
    }

    fn read(schema: Value, defs: &Arc<Value>) -> Self {
        let (shape, more) = shape::read(&schema, defs);
        Self::of(schema, shape, more)
    }

    fn of(schema: Value, shape: Shape, more: bool) -> Self {
        Self(Arc::new(Inner {
            schema,
            shape,
            more,
            validator: OnceLock::new(),
        }))
    }

    /// A type of a schema that this crate has made itself.
    pub(crate) fn known(schema: Value) -> Self {
        let defs = Arc::new(schema.get("$defs").cloned().unwrap_or(Value::Null));
        Self::read(schema, &defs)
    }

    /// The JSON Schema, complete in itself.
    pub fn schema(&self) -> &Value {
        &self.0.schema
    }

    /// What the checker reasons about.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// Every value.
    pub fn any() -> Self {
        Self::known(json!({}))
    }

    /// Text.
    pub fn string() -> Self {
        Self::known(json!({ "type": "string" }))
    }

    /// A whole number.
    pub fn integer() -> Self {
        Self::known(json!({ "type": "integer" }))
    }

    /// A number.
    pub fn number() -> Self {
        Self::known(json!({ "type": "number" }))
    }

    /// `true` or `false`.
    pub fn boolean() -> Self {
        Self::known(json!({ "type": "boolean" }))
    }

    /// Only null.
    pub fn null() -> Self {
        Self::known(json!({ "type": "null" }))
    }

    /// An object with any fields.
    pub fn object() -> Self {
        Self::known(json!({ "type": "object" }))
    }

    /// A file: an object whose `$file` is the name of its content in the blob store.
    pub fn file() -> Self {
        Self::known(shape::file_schema())
    }

    /// A list of this type.
    #[must_use]
    pub fn list(&self) -> Self {
        self.wrap(|schema| json!({ "type": "array", "items": schema }))
    }

    /// This type or null.
    #[must_use]
    pub fn nullable(&self) -> Self {
        match &self.0.shape {
            Shape::Any | Shape::Null | Shape::Nullable(_) => self.clone(),
            Shape::Boolean
            | Shape::Integer
            | Shape::Number
            | Shape::Text
            | Shape::Enum(_)
            | Shape::File
            | Shape::List(_)
            | Shape::Fields { .. }
            | Shape::OneOf(_)
            | Shape::Named(_)
            | Shape::Opaque => self.wrap(nullable_schema),
        }
    }

    /// A closed object of fields: name, type, whether it must be there.
    pub fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, Self, bool)>) -> Self {
        let mut properties = serde_json::Map::new();
        let mut required = Vec::new();
        for (name, ty, must) in fields {
            properties.insert(name.to_owned(), ty.0.schema.clone());
            if must {
                required.push(Value::from(name));
            }
        }
        Self::known(json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        }))
    }

    /// Any of some types.
    pub fn one_of(types: &[Self]) -> Self {
        match types {
            [one] => one.clone(),
            _ if types.iter().any(|ty| matches!(ty.shape(), Shape::Any)) => Self::any(),
            _ => {
                let mut distinct: Vec<&Value> = Vec::new();
                for ty in types {
                    if !distinct.contains(&ty.schema()) {
                        distinct.push(ty.schema());
                    }
                }
                match distinct.as_slice() {
                    [one] => Self::known((*one).clone()),
                    _ => Self::known(lift_defs(json!({ "anyOf": distinct }))),
                }
            }
        }
    }

    /// This type with every object open to more fields: what a producer outside the flow may add is not its fault.
    #[must_use]
    pub fn open(&self) -> Self {
        Self::known(shape::open_schema(&self.0.schema))
    }

    fn wrap(&self, make: impl FnOnce(Value) -> Value) -> Self {
        Self::known(lift_defs(make(self.0.schema.clone())))
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.schema == other.0.schema
    }
}

impl Eq for Type {}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Type({self})")
    }
}

/// Fields of an object shown in a message; longer lists are cut.
const FIELDS_SHOWN_MAX: usize = 6;

/// As a user would write it, shortened: `[string]`, `{reply, refund}`, `number | null`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.shape {
            Shape::Any | Shape::Opaque => f.write_str("any"),
            Shape::Null => f.write_str("null"),
            Shape::Boolean => f.write_str("boolean"),
            Shape::Integer => f.write_str("integer"),
            Shape::Number => f.write_str("number"),
            Shape::Text => f.write_str("string"),
            Shape::File => f.write_str("file"),
            Shape::Enum(values) => write!(f, "{}", list_of(values.iter(), " | ")),
            Shape::List(item) => write!(f, "[{item}]"),
            Shape::Nullable(inner) => write!(f, "{inner} | null"),
            Shape::OneOf(types) => f.write_str(&list_of(types.iter(), " | ")),
            Shape::Named(name) => f.write_str(name.name()),
            Shape::Fields { properties, .. } if properties.is_empty() => f.write_str("object"),
            Shape::Fields { properties, .. } => {
                write!(f, "{{{}}}", list_of(properties.keys(), ", "))
            }
        }
    }
}

fn list_of<T: fmt::Display>(items: impl ExactSizeIterator<Item = T>, separator: &str) -> String {
    let more = items.len() > FIELDS_SHOWN_MAX;
    let mut shown: Vec<String> = items
        .take(FIELDS_SHOWN_MAX)
        .map(|item| item.to_string())
        .collect();
    if more {
        shown.push("…".to_owned());
    }
    shown.join(separator)
}

impl Serialize for Type {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.schema.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let schema = Value::deserialize(deserializer)?;
        Self::from_schema(schema).map_err(serde::de::Error::custom)
    }
}
