//! Just enough JSON Schema to read typed text and to say in words what is wanted. The run holds the value to the whole
//! schema later.

use ravel_core::expr::exact_json;
use serde_json::{Map, Value};

/// Most `$ref`s followed from one place.
const REFERENCES_MAX: usize = 16;

/// A field of an object schema.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    pub(crate) schema: &'a Value,
    pub(crate) required: bool,
}

/// The fields of an object schema, in order.
pub(crate) fn fields(root: &Value) -> Vec<Field<'_>> {
    let object = resolve(root, root);
    let required = |name: &str| {
        object
            .get("required")
            .and_then(Value::as_array)
            .is_some_and(|list| list.iter().any(|item| item == name))
    };
    object
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
        .map(|(name, schema)| Field {
            name,
            schema,
            required: required(name),
        })
        .collect()
}

/// True when an object schema takes fields that it does not name.
pub(crate) fn is_open(root: &Value) -> bool {
    let object = resolve(root, root);
    match object.get("additionalProperties") {
        Some(Value::Bool(open)) => *open,
        Some(_) => true,
        None => object.get("properties").is_none(),
    }
}

/// Follows `$ref` into the same document.
pub(crate) fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..REFERENCES_MAX {
        let Some(target) = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|text| text.strip_prefix('#'))
        else {
            break;
        };
        let Some(found) = root.pointer(target) else {
            break;
        };
        schema = found;
    }
    schema
}

/// The types that a schema admits; empty when it does not say.
fn types<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a str> {
    let schema = resolve(schema, root);
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => variants(schema)
            .iter()
            .flat_map(|variant| {
                if variant.is_null() {
                    vec!["null"]
                } else {
                    types(variant, root)
                }
            })
            .collect(),
    }
}

fn variants(schema: &Value) -> &[Value] {
    ["anyOf", "oneOf"]
        .iter()
        .find_map(|key| schema.get(*key).and_then(Value::as_array))
        .map_or(&[], Vec::as_slice)
}

/// The values that a schema lists.
pub(crate) fn choices<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a Value> {
    let schema = resolve(schema, root);
    if let Some(list) = schema.get("enum").and_then(Value::as_array) {
        return list.iter().collect();
    }
    if let Some(only) = schema.get("const") {
        return vec![only];
    }
    let all: Vec<Vec<&Value>> = variants(schema)
        .iter()
        .map(|variant| choices(variant, root))
        .collect();
    if all.iter().all(|list| !list.is_empty()) {
        all.into_iter().flatten().collect()
    } else {
        Vec::new()
    }
}

/// Text as a value of the schema; `None` when it cannot be one.
pub(crate) fn coerce(text: &str, schema: &Value, root: &Value) -> Option<Value> {
    let listed = choices(schema, root);
    if !listed.is_empty() {
        return listed
            .into_iter()
            .find(|choice| shown(choice) == text)
            .cloned();
    }
    let types = types(schema, root);
    if types.is_empty() {
        return Some(exact_json(text).unwrap_or_else(|_| Value::String(text.to_owned())));
    }
    // The narrow types first: `12` for `integer | string` is the number, `x` is the text.
    let order = [
        "null", "boolean", "integer", "number", "array", "object", "string",
    ];
    order
        .iter()
        .filter(|name| types.contains(name))
        .find_map(|name| coerce_to(name, text, schema, root))
}

fn coerce_to(name: &str, text: &str, schema: &Value, root: &Value) -> Option<Value> {
    let parsed = || exact_json(text).ok();
    match name {
        "null" => (text == "null").then_some(Value::Null),
        "boolean" => boolean(text).map(Value::Bool),
        "integer" => parsed().filter(|value| value.is_i64() || value.is_u64()),
        "number" => parsed().filter(Value::is_number),
        "object" => parsed().filter(Value::is_object),
        "array" => parsed()
            .filter(Value::is_array)
            .or_else(|| list(text, schema, root)),
        _ => Some(Value::String(text.to_owned())),
    }
}

/// What people type for a boolean.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" => Some(true),
        "false" | "no" | "n" => Some(false),
        _ => None,
    }
}

/// `a,b,c` for a list of simple values.
fn list(text: &str, schema: &Value, root: &Value) -> Option<Value> {
    let schema = resolve(schema, root);
    let item = schema.get("items")?;
    let simple = types(item, root)
        .iter()
        .all(|name| !matches!(*name, "array" | "object"));
    if text.trim_start().starts_with('[') || !simple {
        return None;
    }
    if text.is_empty() {
        return Some(Value::Array(Vec::new()));
    }
    text.split(',')
        .map(|part| coerce(part.trim(), item, root))
        .collect::<Option<_>>()
        .map(Value::Array)
}

/// What a schema wants, in words: `an integer`, `one of a, b`, `a list of strings or null`.
pub(crate) fn describe(schema: &Value, root: &Value) -> String {
    let listed = choices(schema, root);
    if !listed.is_empty() {
        let names: Vec<String> = listed.into_iter().map(shown).collect();
        return if names.len() == 1 {
            names[0].clone()
        } else {
            format!("one of {}", names.join(", "))
        };
    }
    let words: Vec<&str> = types(schema, root)
        .into_iter()
        .map(|name| match name {
            "null" => "null",
            "boolean" => "true or false",
            "integer" => "an integer",
            "number" => "a number",
            "array" => "a list",
            "object" => "an object",
            _ => "text",
        })
        .collect();
    if words.is_empty() {
        "any value".to_owned()
    } else {
        words.join(" or ")
    }
}

/// A value that shows what to type: `true`, `1`, the first choice, `TEXT`.
pub(crate) fn sample(schema: &Value, root: &Value) -> String {
    let listed = choices(schema, root);
    if let Some(first) = listed.first() {
        return shown(first);
    }
    match types(schema, root).into_iter().find(|name| *name != "null") {
        Some("boolean") => "true",
        Some("integer" | "number") => "1",
        Some("array") => "[]",
        Some("object") => "{}",
        Some(_) | None => "TEXT",
    }
    .to_owned()
}

/// Nesting of a sample value.
const SAMPLE_DEPTH_MAX: usize = 8;

/// A value of the shape that a schema wants: what is required, and the first choice where there are some.
pub(crate) fn sample_value(schema: &Value, root: &Value) -> Value {
    sample_within(schema, root, SAMPLE_DEPTH_MAX)
}

fn sample_within(schema: &Value, root: &Value, depth: usize) -> Value {
    let schema = resolve(schema, root);
    if let Some(first) = choices(schema, root).first() {
        return (*first).clone();
    }
    match types(schema, root).into_iter().find(|name| *name != "null") {
        Some("boolean") => Value::Bool(true),
        Some("integer" | "number") => Value::from(1),
        Some("array") => Value::Array(Vec::new()),
        Some("object") if depth > 0 => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let required = schema.get("required").and_then(Value::as_array);
            let wanted = |name: &str| {
                required.is_some_and(|required| required.iter().any(|item| item == name))
            };
            properties
                .into_iter()
                .flatten()
                .filter(|(name, _)| wanted(name))
                .map(|(name, schema)| (name.clone(), sample_within(schema, root, depth - 1)))
                .collect::<Map<String, Value>>()
                .into()
        }
        Some("object") => Value::Object(Map::new()),
        Some(_) | None => Value::String("TEXT".to_owned()),
    }
}

/// A value as people type it.
pub(crate) fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unions_take_the_narrow_type_first() {
        let schema = json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]});
        let read = |text: &str| coerce(text, &schema, &schema);
        assert_eq!(
            [read("12"), read("x"), read("null")],
            [Some(json!(12)), Some(json!("x")), Some(json!(null))]
        );
        assert_eq!(describe(&schema, &schema), "text or an integer or null");
    }

    #[test]
    fn enums_may_hold_numbers() {
        let schema = json!({"enum": [1, "two"]});
        assert_eq!(coerce("1", &schema, &schema), Some(json!(1)));
        assert_eq!(coerce("two", &schema, &schema), Some(json!("two")));
        assert_eq!(coerce("3", &schema, &schema), None);
    }

    #[test]
    fn a_sample_has_what_is_required() {
        let schema = json!({
            "type": "object", "required": ["n", "who", "kind"],
            "properties": {
                "n": {"type": "integer"}, "free": {"type": "string"}, "kind": {"enum": ["a", "b"]},
                "who": {"$ref": "#/$defs/who"}
            },
            "$defs": {"who": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}
        });
        assert_eq!(
            sample_value(&schema, &schema),
            json!({"n": 1, "kind": "a", "who": {"name": "TEXT"}})
        );
    }

    #[test]
    fn a_reference_loop_ends() {
        let schema = json!({"$ref": "#"});
        assert_eq!(describe(&schema, &schema), "any value");
    }

    #[test]
    fn fields_say_which_are_required() {
        let schema = json!({"properties": {"a": {}, "b": {}}, "required": ["b"]});
        let seen: Vec<(&str, bool)> = fields(&schema)
            .iter()
            .map(|field| (field.name, field.required))
            .collect();
        assert_eq!(seen, [("a", false), ("b", true)]);
    }
}
