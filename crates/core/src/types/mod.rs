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
use std::sync::{Arc, LazyLock, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

pub use accept::{VIOLATIONS_MAX, Violation};
pub use field::Field;
pub use fit::Fit;
pub use shape::{Named, Property, Shape};
pub(crate) use shape::{lift_defs, nullable_schema};

/// A type of the language.
#[derive(Clone)]
pub struct Type(Arc<Inner>);

struct Inner {
    /// Read from outside, or made from the shape when it is first asked for.
    schema: OnceLock<Value>,
    shape: Shape,
    /// True when the schema says more than the shape, here or below.
    more: bool,
    /// Types in it, itself included.
    size: usize,
    validator: OnceLock<Option<jsonschema::Validator>>,
}

/// Types in one inferred type. A value that holds the one before it, step after step, has a type that grows with each; beyond
/// this it is `any`.
pub const TYPE_SIZE_MAX: usize = 1_000;

/// Formats of text that are held. Others are refused where a flow writes them, and mean nothing in the schemas of tools.
pub const FORMATS: &[&str] = &[
    "date",
    "date-time",
    "time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "uuid",
    "regex",
];

/// What holds values to a schema, formats included.
fn validator(schema: &Value) -> Result<jsonschema::Validator, String> {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(schema).map_err(|error| error.to_string())
}

impl Type {
    /// The type of a schema. Fails with a sentence when it is no valid JSON Schema.
    pub fn from_schema(schema: Value) -> Result<Self, String> {
        let ty = Self::known(schema);
        if ty.0.more {
            validator(ty.schema())?;
        }
        Ok(ty)
    }

    fn read(schema: Value, defs: &Arc<Value>) -> Self {
        let (shape, more) = shape::read(&schema, defs);
        Self(Arc::new(Inner {
            schema: OnceLock::from(schema),
            size: shape.size(),
            shape,
            more,
            validator: OnceLock::new(),
        }))
    }

    /// A type whose schema follows from its shape.
    fn of(shape: Shape, more: bool) -> Self {
        let size = shape.size();
        if size > TYPE_SIZE_MAX {
            return Self::any();
        }
        Self(Arc::new(Inner {
            schema: OnceLock::new(),
            shape,
            more,
            size,
            validator: OnceLock::new(),
        }))
    }

    /// The type of a schema that is known to be valid: made by this crate, or its keywords checked one by one.
    pub(crate) fn known(schema: Value) -> Self {
        let defs = Arc::new(schema.get("$defs").cloned().unwrap_or(Value::Null));
        Self::read(schema, &defs)
    }

    /// The JSON Schema, complete in itself.
    pub fn schema(&self) -> &Value {
        self.0.schema.get_or_init(|| self.0.shape.schema())
    }

    /// What the checker reasons about.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// Every value.
    pub fn any() -> Self {
        static TYPE: LazyLock<Type> = LazyLock::new(|| Type::known(json!({})));
        TYPE.clone()
    }

    /// Text.
    pub fn string() -> Self {
        static TYPE: LazyLock<Type> = LazyLock::new(|| Type::of(Shape::Text, false));
        TYPE.clone()
    }

    /// A whole number.
    pub fn integer() -> Self {
        static TYPE: LazyLock<Type> = LazyLock::new(|| Type::of(Shape::Integer, false));
        TYPE.clone()
    }

    /// A number.
    pub fn number() -> Self {
        static TYPE: LazyLock<Type> = LazyLock::new(|| Type::of(Shape::Number, false));
        TYPE.clone()
    }

    /// `true` or `false`.
    pub fn boolean() -> Self {
        static TYPE: LazyLock<Type> = LazyLock::new(|| Type::of(Shape::Boolean, false));
        TYPE.clone()
    }

    /// Only null.
    pub fn null() -> Self {
        static TYPE: LazyLock<Type> = LazyLock::new(|| Type::of(Shape::Null, false));
        TYPE.clone()
    }

    /// An object with any fields.
    pub fn object() -> Self {
        static TYPE: LazyLock<Type> = LazyLock::new(|| Type::known(json!({ "type": "object" })));
        TYPE.clone()
    }

    /// A file: an object whose `$file` is the name of its content in the blob store.
    pub fn file() -> Self {
        static TYPE: LazyLock<Type> = LazyLock::new(|| Type::known(shape::file_schema()));
        TYPE.clone()
    }

    /// One of some values.
    pub fn choice(values: Vec<Value>) -> Self {
        Self::of(Shape::Enum(values), false)
    }

    /// A list of this type.
    #[must_use]
    pub fn list(&self) -> Self {
        Self::of(Shape::List(self.clone()), self.0.more)
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
            | Shape::Opaque => Self::of(Shape::Nullable(self.clone()), self.0.more),
        }
    }

    /// A closed object of fields: name, type, whether it must be there.
    pub fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, Self, bool)>) -> Self {
        let mut more = false;
        let properties = fields
            .into_iter()
            .map(|(name, ty, required)| {
                more |= ty.0.more;
                let property = Property {
                    ty,
                    required,
                    default: None,
                };
                (name.to_owned(), property)
            })
            .collect();
        Self::of(
            Shape::Fields {
                properties,
                rest: None,
            },
            more,
        )
    }

    /// Any of some types.
    pub fn one_of(types: &[Self]) -> Self {
        if let [one] = types {
            return one.clone();
        }
        let mut distinct: Vec<Self> = Vec::new();
        let mut null = false;
        for ty in types {
            let inner = match ty.shape() {
                Shape::Any => return Self::any(),
                Shape::Null => {
                    null = true;
                    continue;
                }
                Shape::Nullable(inner) => {
                    null = true;
                    inner
                }
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
                | Shape::Opaque => ty,
            };
            if !distinct.contains(inner) {
                distinct.push(inner.clone());
            }
        }
        let more = distinct.iter().any(|ty| ty.0.more);
        let union = match distinct.len() {
            0 => return Self::null(),
            1 => distinct.remove(0),
            _ => Self::of(Shape::OneOf(distinct), more),
        };
        if null { union.nullable() } else { union }
    }

    /// This type with every object open to more fields: what a producer outside the flow may add is not its fault.
    #[must_use]
    pub fn open(&self) -> Self {
        Self::known(shape::open_schema(self.schema()))
    }
}

/// Equal types take the same values; two that are written differently may be called different.
impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        let simple = !self.0.more && !other.0.more;
        match (self.shape(), other.shape()) {
            (Shape::Text, Shape::Text)
            | (Shape::Integer, Shape::Integer)
            | (Shape::Number, Shape::Number)
            | (Shape::Boolean, Shape::Boolean)
            | (Shape::Null, Shape::Null)
                if simple =>
            {
                true
            }
            (one, two) if std::mem::discriminant(one) != std::mem::discriminant(two) => false,
            (_, _) => self.schema() == other.schema(),
        }
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
            Shape::Fields {
                properties,
                rest: Some(_),
            } if properties.is_empty() => f.write_str("object"),
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
        self.schema().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let schema = Value::deserialize(deserializer)?;
        Self::from_schema(schema).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Val;

    fn reply() -> Type {
        Type::known(json!({
            "type": "object",
            "properties": {
                "text": { "type": "string" },
                "refund": { "type": "number", "default": 0 },
                "note": { "type": ["string", "null"] },
            },
            "required": ["text"],
            "additionalProperties": false,
        }))
    }

    fn accepted(ty: &Type, value: Value) -> Result<Value, Vec<String>> {
        let said =
            |violations: Vec<Violation>| violations.iter().map(ToString::to_string).collect();
        ty.accepts(&Val::new(value))
            .map(Val::into_json)
            .map_err(said)
    }

    #[test]
    fn defaults_are_filled_in_and_absent_nullables_are_null() {
        let whole = json!({ "text": "x", "refund": 0, "note": null });
        assert_eq!(
            accepted(&reply(), json!({ "text": "x" })),
            Ok(whole.clone())
        );
        let value = Val::new(whole);
        assert!(reply().accepts(&value).is_ok_and(|same| same.same(&value)));
        assert_eq!(
            accepted(&reply().list(), json!([{ "text": "x", "note": "y" }])),
            Ok(json!([{ "text": "x", "note": "y", "refund": 0 }]))
        );
    }

    #[test]
    fn violations_say_where_and_what() {
        assert_eq!(
            accepted(&reply(), json!({ "refund": "much", "txt": 1 })),
            Err(vec![
                "the field `text` is missing".to_owned(),
                "/refund: \"much\" is not a number".to_owned(),
                "/txt: there is no field `txt` here; the fields are `text`, `refund` and `note`"
                    .to_owned(),
            ])
        );
        let bounded = Type::known(json!({ "type": "integer", "minimum": 1 }));
        assert_eq!(
            accepted(&bounded, json!(0)).map_err(|all| all.len()),
            Err(1)
        );
        assert_eq!(accepted(&bounded, json!(1.0)), Ok(json!(1.0)));
    }

    #[test]
    fn fits_tells_never_from_maybe() {
        let choice = |words: &[&str]| Type::known(json!({ "enum": words }));
        let cases = [
            (Type::integer(), Type::number(), Fit::Yes),
            (Type::number(), Type::integer(), Fit::Maybe),
            (Type::string(), Type::integer(), Fit::No),
            (Type::string(), Type::string().nullable(), Fit::Yes),
            (Type::string().nullable(), Type::string(), Fit::Maybe),
            (Type::null(), Type::string(), Fit::No),
            (Type::any(), Type::string(), Fit::Maybe),
            (Type::string(), Type::any(), Fit::Yes),
            (choice(&["a", "b"]), Type::string(), Fit::Yes),
            (choice(&["a", "b"]), choice(&["b", "c"]), Fit::Maybe),
            (choice(&["a"]), choice(&["c"]), Fit::No),
            (Type::string(), choice(&["a"]), Fit::Maybe),
            (Type::string().list(), Type::integer().list(), Fit::No),
            (
                Type::fields([("text", Type::string(), true)]),
                reply(),
                Fit::Yes,
            ),
            (
                Type::fields([("other", Type::string(), true)]),
                reply(),
                Fit::No,
            ),
            (Type::object(), reply(), Fit::Maybe),
            (Type::file(), Type::string(), Fit::No),
            (
                Type::string(),
                Type::known(json!({ "type": "string", "minLength": 3 })),
                Fit::Maybe,
            ),
        ];
        for (from, to, expected) in cases {
            assert_eq!(from.fits(&to), expected, "{from} to {to}");
        }
    }

    #[test]
    fn a_type_that_refers_to_itself_is_followed_as_far_as_the_value_goes() {
        let tree = Type::from_schema(json!({
            "$ref": "#/$defs/Tree",
            "$defs": { "Tree": {
                "type": "object",
                "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#/$defs/Tree" } } },
                "required": ["name", "children"],
            } },
        }))
        .expect("a valid schema");
        assert_eq!(
            tree.at(&["children", "0", "children", "1", "name"]),
            Field::Found(Type::string())
        );
        let good = json!({ "name": "a", "children": [{ "name": "b", "children": [] }] });
        assert_eq!(accepted(&tree, good.clone()), Ok(good));
        let bad = json!({ "name": "a", "children": [{ "name": 1, "children": [] }] });
        assert_eq!(
            accepted(&tree, bad),
            Err(vec!["/children/0/name: 1 is not a string".to_owned()])
        );
        assert_eq!(tree.fits(&tree), Fit::Yes);
    }

    #[test]
    fn a_type_is_stored_as_its_schema() {
        let text = serde_json::to_string(&reply()).expect("serializes");
        assert_eq!(
            serde_json::from_str::<Type>(&text).expect("parses"),
            reply()
        );
        assert!(serde_json::from_str::<Type>(r#"{ "type": "strin" }"#).is_err());
    }
}
