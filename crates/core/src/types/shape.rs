//! A JSON Schema as the checker sees it.

use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::Type;

/// The structure of a type, without the keywords that only a validator understands.
#[derive(Clone)]
pub enum Shape {
    /// Every value.
    Any,
    /// Only null.
    Null,
    /// `true`, `false`.
    Boolean,
    /// Whole numbers.
    Integer,
    /// Numbers.
    Number,
    /// Text.
    Text,
    /// One of some values.
    Enum(Vec<Value>),
    /// A file.
    File,
    /// A list.
    List(Type),
    /// An object.
    Fields {
        /// The known fields.
        properties: IndexMap<String, Property>,
        /// What further fields hold; `None` when there are none.
        rest: Option<Type>,
    },
    /// Another type or null.
    Nullable(Type),
    /// Any of some types.
    OneOf(Vec<Type>),
    /// A type that refers to itself.
    Named(Named),
    /// A schema that only a validator understands.
    Opaque,
}

impl Shape {
    /// Types in it, itself included.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Any
            | Self::Null
            | Self::Boolean
            | Self::Integer
            | Self::Number
            | Self::Text
            | Self::Enum(_)
            | Self::File
            | Self::Named(_)
            | Self::Opaque => 1,
            Self::List(inner) | Self::Nullable(inner) => 1 + inner.0.size,
            Self::OneOf(types) => 1 + types.iter().map(|ty| ty.0.size).sum::<usize>(),
            Self::Fields { properties, rest } => {
                let fields = properties
                    .values()
                    .map(|property| property.ty.0.size)
                    .sum::<usize>();
                1 + fields + rest.as_ref().map_or(0, |rest| rest.0.size)
            }
        }
    }

    /// The JSON Schema that says it, complete in itself.
    pub(super) fn schema(&self) -> Value {
        let schema = match self {
            Self::Any | Self::Opaque => json!({}),
            Self::Null => json!({ "type": "null" }),
            Self::Boolean => json!({ "type": "boolean" }),
            Self::Integer => json!({ "type": "integer" }),
            Self::Number => json!({ "type": "number" }),
            Self::Text => json!({ "type": "string" }),
            Self::Enum(values) => json!({ "enum": values }),
            Self::File => file_schema(),
            Self::List(item) => json!({ "type": "array", "items": item.schema() }),
            Self::Nullable(inner) => nullable_schema(inner.schema().clone()),
            Self::OneOf(types) => {
                json!({ "anyOf": types.iter().map(Type::schema).collect::<Vec<_>>() })
            }
            Self::Named(named) => named.resolve().schema().clone(),
            Self::Fields { properties, rest } => fields_schema(properties, rest.as_ref()),
        };
        lift_defs(schema)
    }
}

fn fields_schema(properties: &IndexMap<String, Property>, rest: Option<&Type>) -> Value {
    let fields: Map<String, Value> = properties
        .iter()
        .map(|(name, property)| (name.clone(), property.ty.schema().clone()))
        .collect();
    let required: Vec<&String> = properties
        .iter()
        .filter(|(_, property)| property.required)
        .map(|(name, _)| name)
        .collect();
    let rest = rest.map_or(Value::Bool(false), |rest| rest.schema().clone());
    json!({ "type": "object", "properties": fields, "required": required, "additionalProperties": rest })
}

/// A field of an object.
#[derive(Clone)]
pub struct Property {
    /// Its type.
    pub ty: Type,
    /// It must be there.
    pub required: bool,
    /// What stands in when it is absent.
    pub default: Option<Value>,
}

/// A reference into the `$defs` of a schema, resolved at first use.
#[derive(Clone)]
pub struct Named {
    name: String,
    defs: Arc<Value>,
    resolved: Arc<OnceLock<Type>>,
}

impl Named {
    /// The name in `types:`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type it names.
    pub fn resolve(&self) -> &Type {
        self.resolved.get_or_init(|| {
            let schema = self
                .defs
                .get(&self.name)
                .cloned()
                .unwrap_or_else(|| json!({}));
            Type::read(with_defs(schema, &self.defs), &self.defs)
        })
    }
}

/// Keywords that say nothing about values.
const ANNOTATIONS: &[&str] = &[
    "$defs",
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
];

/// Reads a schema. The second value is true when the schema says more than the shape.
pub(super) fn read(schema: &Value, defs: &Arc<Value>) -> (Shape, bool) {
    let Value::Object(map) = schema else {
        return match schema {
            Value::Bool(true) => (Shape::Any, false),
            Value::Bool(false)
            | Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => (Shape::Opaque, true),
        };
    };
    if map.get("type").is_some_and(|ty| ty == "object")
        && map
            .get("properties")
            .is_some_and(|p| p.get("$file").is_some())
    {
        return (Shape::File, false);
    }
    let keys: Vec<&str> = map
        .keys()
        .map(String::as_str)
        .filter(|key| !ANNOTATIONS.contains(key))
        .collect();
    let extra = |known: &[&str]| keys.iter().any(|key| !known.contains(key));
    if keys.is_empty() {
        return (Shape::Any, false);
    }
    if let Some(Value::Array(values)) = map.get("enum") {
        return (Shape::Enum(values.clone()), extra(&["enum", "type"]));
    }
    if let Some(value) = map.get("const") {
        return (Shape::Enum(vec![value.clone()]), extra(&["const", "type"]));
    }
    if let Some(Value::String(reference)) = map.get("$ref") {
        return match reference.strip_prefix("#/$defs/") {
            Some(name) if keys == ["$ref"] => {
                let named = Named {
                    name: name.to_owned(),
                    defs: defs.clone(),
                    resolved: Arc::default(),
                };
                // A definition may say more than its shape; to know would mean to follow it, which may not end.
                (Shape::Named(named), true)
            }
            Some(_) | None => (Shape::Opaque, true),
        };
    }
    for word in ["anyOf", "oneOf"] {
        if let (Some(Value::Array(variants)), [only]) = (map.get(word), keys.as_slice())
            && *only == word
        {
            return union(variants, defs, word == "oneOf");
        }
    }
    match map.get("type") {
        Some(Value::String(name)) => typed(name, map, &keys, defs),
        Some(Value::Array(names)) => {
            let variants: Vec<Value> = names
                .iter()
                .map(|name| {
                    let mut one = map.clone();
                    one.insert("type".to_owned(), name.clone());
                    one.shift_remove("default");
                    Value::Object(one)
                })
                .collect();
            union(&variants, defs, false)
        }
        Some(_) => (Shape::Opaque, true),
        None if map.contains_key("properties") => typed("object", map, &keys, defs),
        None if map.contains_key("items") => typed("array", map, &keys, defs),
        None => (Shape::Opaque, true),
    }
}

fn typed(name: &str, map: &Map<String, Value>, keys: &[&str], defs: &Arc<Value>) -> (Shape, bool) {
    let extra = |known: &[&str]| keys.iter().any(|key| !known.contains(key));
    match name {
        "null" => (Shape::Null, extra(&["type"])),
        "boolean" => (Shape::Boolean, extra(&["type"])),
        "integer" => (Shape::Integer, extra(&["type"])),
        "number" => (Shape::Number, extra(&["type"])),
        "string" => (Shape::Text, extra(&["type"])),
        "array" => {
            let item = map.get("items").map_or_else(Type::any, |items| {
                Type::read(with_defs(items.clone(), defs), defs)
            });
            let more = item.0.more || extra(&["type", "items"]);
            (Shape::List(item), more)
        }
        "object" => object(map, keys, defs),
        _ => (Shape::Opaque, true),
    }
}

fn object(map: &Map<String, Value>, keys: &[&str], defs: &Arc<Value>) -> (Shape, bool) {
    let required: Vec<&str> = map
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut more = keys
        .iter()
        .any(|key| !["type", "properties", "required", "additionalProperties"].contains(key));
    let mut properties = IndexMap::new();
    for (name, schema) in map
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let ty = Type::read(with_defs(schema.clone(), defs), defs);
        more |= ty.0.more;
        let property = Property {
            required: required.contains(&name.as_str()),
            default: schema.get("default").cloned(),
            ty,
        };
        properties.insert(name.clone(), property);
    }
    // A name that is required and not described holds anything.
    for name in &required {
        if !properties.contains_key(*name) {
            let property = Property {
                ty: Type::any(),
                required: true,
                default: None,
            };
            properties.insert((*name).to_owned(), property);
        }
    }
    let rest = match map.get("additionalProperties") {
        Some(Value::Bool(false)) => None,
        Some(Value::Bool(true)) | None => Some(Type::any()),
        Some(schema) => {
            let ty = Type::read(with_defs(schema.clone(), defs), defs);
            more |= ty.0.more;
            Some(ty)
        }
    };
    (Shape::Fields { properties, rest }, more)
}

fn union(variants: &[Value], defs: &Arc<Value>, exclusive: bool) -> (Shape, bool) {
    let types: Vec<Type> = variants
        .iter()
        .map(|variant| Type::read(with_defs(variant.clone(), defs), defs))
        .collect();
    let more = exclusive || types.iter().any(|ty| ty.0.more);
    let (nulls, mut others): (Vec<Type>, Vec<Type>) = types
        .into_iter()
        .partition(|ty| matches!(ty.shape(), Shape::Null));
    let inner = match (others.len(), others.pop()) {
        (0, _) | (_, None) => return (Shape::Null, more),
        (1, Some(one)) => one,
        (_, Some(last)) => {
            others.push(last);
            if nulls.is_empty() {
                return (Shape::OneOf(others), more);
            }
            Type::of(Shape::OneOf(others), more)
        }
    };
    if nulls.is_empty() {
        return (inner.shape().clone(), more);
    }
    (Shape::Nullable(inner), more)
}

/// A schema with the definitions it may refer to.
fn with_defs(mut schema: Value, defs: &Arc<Value>) -> Value {
    if let (Value::Object(map), Value::Object(_)) = (&mut schema, defs.as_ref())
        && !map.contains_key("$defs")
        && refers(&Value::Object(map.clone()))
    {
        map.insert("$defs".to_owned(), defs.as_ref().clone());
    }
    schema
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| key == "$ref" || refers(value)),
        Value::Array(items) => items.iter().any(refers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Moves the `$defs` of the parts of a schema to its top, where `#/$defs/…` looks for them.
pub(crate) fn lift_defs(mut schema: Value) -> Value {
    fn take(schema: &mut Value, defs: &mut Map<String, Value>) {
        match schema {
            Value::Object(map) => {
                if let Some(Value::Object(found)) = map.shift_remove("$defs") {
                    defs.extend(found);
                }
                map.values_mut().for_each(|value| take(value, defs));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| take(item, defs)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut defs = Map::new();
    take(&mut schema, &mut defs);
    if let (Value::Object(map), false) = (&mut schema, defs.is_empty()) {
        map.insert("$defs".to_owned(), Value::Object(defs));
    }
    schema
}

/// The schema of a type or null, in the form that models and people read best.
pub(crate) fn nullable_schema(schema: Value) -> Value {
    match &schema {
        Value::Object(map) if map.len() == 1 && map.get("type").is_some_and(Value::is_string) => {
            json!({ "type": [map["type"], "null"] })
        }
        _ => json!({ "anyOf": [schema, { "type": "null" }] }),
    }
}

/// The schema of `file`.
pub(super) fn file_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "$file": { "type": "string", "description": "BLAKE3 of the content, in hex" },
            "name": { "type": "string" },
            "bytes": { "type": "integer" },
        },
        "required": ["$file"],
    })
}

/// A schema whose objects take further fields.
pub(super) fn open_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| {
                    !(*key == "additionalProperties" && **value == Value::Bool(false))
                })
                .map(|(key, value)| (key.clone(), open_schema(value)))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(open_schema).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}
