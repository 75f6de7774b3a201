//! Fits a step's JSON Schema to what endpoints take. No I/O.
//!
//! Constrained decoding wants an object at the top, every field required and no others. A schema that can be brought
//! into that form without changing which answers are right is sent as `strict`; what comes back is validated against
//! the step's own schema by the core in any case.

use serde_json::{Map, Value, json};

/// The field that holds the answer when its type is no object.
const WRAPPED: &str = "value";
/// Keywords that say nothing about the answer's form and that strict endpoints refuse.
const DROPPED: [&str; 4] = ["default", "examples", "$schema", "title"];

/// A schema as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fitted {
    /// The schema.
    pub(crate) schema: Value,
    /// Every object in it is closed.
    pub(crate) strict: bool,
    /// The answer is in the field [`WRAPPED`].
    pub(crate) wrapped: bool,
    /// It differs from the step's own.
    pub(crate) changed: bool,
}

impl Fitted {
    /// Fits a schema.
    pub(crate) fn new(schema: &Value) -> Self {
        let wrapped = schema.get("type").and_then(Value::as_str) != Some("object");
        let top = if wrapped {
            wrap(schema)
        } else {
            schema.clone()
        };
        let mut fitted = top;
        let strict = close(&mut fitted);
        let changed = fitted != *schema;
        Self {
            schema: fitted,
            strict,
            wrapped,
            changed,
        }
    }

    /// The step's value in an answer.
    pub(crate) fn unwrap(&self, answer: Value) -> Value {
        match answer {
            Value::Object(mut fields)
                if self.wrapped && fields.len() == 1 && fields.contains_key(WRAPPED) =>
            {
                fields.remove(WRAPPED).unwrap_or_default()
            }
            // A server that ignored the schema may have answered without the wrapping.
            other => other,
        }
    }
}

fn wrap(schema: &Value) -> Value {
    let mut inner = schema.clone();
    // References start at the top, so the definitions have to stay there.
    let definitions = inner
        .as_object_mut()
        .and_then(|fields| fields.remove("$defs"));
    let mut top =
        json!({ "type": "object", "properties": { WRAPPED: inner }, "required": [WRAPPED] });
    if let Some(definitions) = definitions {
        top["$defs"] = definitions;
    }
    top
}

/// Closes every object of a schema: all fields required, no others. False when one cannot be closed.
fn close(schema: &mut Value) -> bool {
    let Some(fields) = schema.as_object_mut() else {
        return false;
    };
    for keyword in DROPPED {
        fields.remove(keyword);
    }
    let mut strict = true;
    for keyword in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        for part in fields
            .get_mut(keyword)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            strict &= close(part);
        }
    }
    for keyword in ["$defs", "definitions"] {
        for (_, part) in fields
            .get_mut(keyword)
            .and_then(Value::as_object_mut)
            .into_iter()
            .flatten()
        {
            strict &= close(part);
        }
    }
    if let Some(items) = fields.get_mut("items") {
        strict &= close(items);
    }
    strict && close_object(fields) && says_something(fields)
}

fn close_object(fields: &mut Map<String, Value>) -> bool {
    let object = fields.get("type").and_then(Value::as_str) == Some("object");
    let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) else {
        return !object;
    };
    let mut strict = true;
    for (_, property) in properties.iter_mut() {
        strict &= close(property);
    }
    let names: Vec<Value> = properties.keys().cloned().map(Value::String).collect();
    let open = fields
        .get("additionalProperties")
        .is_some_and(|more| *more != Value::Bool(false));
    if strict && !open {
        fields.insert("required".to_owned(), Value::Array(names));
        fields.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    strict && !open
}

/// An empty schema admits anything, which no grammar can hold an answer to.
fn says_something(fields: &Map<String, Value>) -> bool {
    ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"]
        .iter()
        .any(|keyword| fields.contains_key(*keyword))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_closed_with_every_field_required() {
        let schema = json!({
            "type": "object",
            "properties": {
                "reply": { "type": "string" },
                "refund": { "type": "number", "default": 0 },
                "lines": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": ["string", "null"] } } } }
            },
            "required": ["reply"]
        });
        let expected = Fitted {
            schema: json!({
                "type": "object",
                "properties": {
                    "reply": { "type": "string" },
                    "refund": { "type": "number" },
                    "lines": { "type": "array", "items": {
                        "type": "object", "properties": { "a": { "type": ["string", "null"] } },
                        "required": ["a"], "additionalProperties": false
                    } }
                },
                "required": ["reply", "refund", "lines"],
                "additionalProperties": false
            }),
            strict: true,
            wrapped: false,
            changed: true,
        };
        assert_eq!(Fitted::new(&schema), expected);
    }

    #[test]
    fn what_admits_anything_is_not_strict() {
        for open in [
            json!({ "type": "object" }),
            json!({}),
            json!({ "type": "object", "properties": {}, "additionalProperties": {} }),
        ] {
            let schema = json!({ "type": "object", "properties": { "x": open } });
            assert!(!Fitted::new(&schema).strict, "{schema}");
        }
    }

    #[test]
    fn an_answer_that_is_no_object_travels_in_one_and_back() {
        let schema = json!({ "enum": ["a", "b"], "$defs": { "t": { "type": "string" } } });
        let fitted = Fitted::new(&schema);
        let expected = json!({
            "type": "object", "properties": { "value": { "enum": ["a", "b"] } }, "required": ["value"],
            "$defs": { "t": { "type": "string" } }, "additionalProperties": false
        });
        assert_eq!(
            (fitted.schema.clone(), fitted.wrapped, fitted.strict),
            (expected, true, true)
        );
        assert_eq!(fitted.unwrap(json!({ "value": "a" })), json!("a"));
        assert_eq!(fitted.unwrap(json!("b")), json!("b"));
    }
}
