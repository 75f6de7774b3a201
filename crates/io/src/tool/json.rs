//! `json.*`: JSON as text and as values.

use ravel_core::effect::{Effect, ErrorClass, Failure};
use serde_json::{Map, Value, json};

use super::{Call, Tool, flag_of, invalid, text_of};

pub(super) static PARSE: Tool = Tool {
    name: "json.parse",
    doc: "Reads JSON text. Its result is the value itself.",
    effect: Effect::Pure,
    input: || object(json!({ "text": { "type": "string" } }), &["text"]),
    output: || json!({}),
    example: r#"{"text": "{\"a\": [1, 2]}"}"#,
    call: Call::Inline(|input| {
        serde_json::from_str(text_of(input, "text"))
            .map_err(|error| invalid(format!("the text is not JSON: {error}")))
    }),
};

pub(super) static FORMAT: Tool = Tool {
    name: "json.format",
    doc: "Writes a value as JSON text, in one line or indented.",
    effect: Effect::Pure,
    input: || {
        object(
            json!({ "value": {}, "pretty": { "type": "boolean", "default": false } }),
            &["value"],
        )
    },
    output: text_output,
    example: r#"{"value": {"a": 1}, "pretty": true}"#,
    call: Call::Inline(|input| {
        let value = input.get("value").unwrap_or(&Value::Null);
        let text = if flag_of(input, "pretty", false) {
            serde_json::to_string_pretty(value).map_err(|error| invalid(error.to_string()))?
        } else {
            value.to_string()
        };
        Ok(json!({ "text": text }))
    }),
};

pub(super) static QUERY: Tool = Tool {
    name: "json.query",
    doc: "Takes the part of a value that a JSON Pointer (RFC 6901) names. Its result is that part; without `default`, a part that is not there is the error `not_found`.",
    effect: Effect::Pure,
    input: || {
        let pointer = json!({ "type": "string", "pattern": "^(/.*)?$" });
        object(
            json!({ "value": {}, "pointer": pointer, "default": {} }),
            &["value", "pointer"],
        )
    },
    output: || json!({}),
    example: r#"{"value": {"a": [{"b": 7}]}, "pointer": "/a/0/b"}"#,
    call: Call::Inline(|input| {
        let pointer = text_of(input, "pointer");
        let found = input
            .get("value")
            .and_then(|value| value.pointer(pointer))
            .or_else(|| input.get("default"));
        let missing = || {
            Failure::new(
                ErrorClass::NotFound,
                format!("the value has nothing at `{pointer}`"),
            )
        };
        found.cloned().ok_or_else(missing)
    }),
};

pub(super) static MERGE: Tool = Tool {
    name: "json.merge",
    doc: "Puts `patch` over `base` (RFC 7396): objects are merged at every depth, null removes a field, anything else replaces. Its result is the merged value.",
    effect: Effect::Pure,
    input: || object(json!({ "base": {}, "patch": {} }), &["base", "patch"]),
    output: || json!({}),
    example: r#"{"base": {"a": 1, "b": {"c": 2}}, "patch": {"a": null, "b": {"d": 3}}}"#,
    call: Call::Inline(|input| {
        let mut merged = input.get("base").cloned().unwrap_or_default();
        merge(&mut merged, input.get("patch").unwrap_or(&Value::Null));
        Ok(merged)
    }),
};

pub(super) static DIFF: Tool = Tool {
    name: "json.diff",
    doc: "Says how to get from one value to another: a JSON Patch (RFC 6902) of `add`, `remove` and `replace`, with the old value as `was`. Lists are compared position by position.",
    effect: Effect::Pure,
    input: || object(json!({ "from": {}, "to": {} }), &["from", "to"]),
    output: || {
        let change = json!({
            "type": "object",
            "properties": { "op": { "enum": ["add", "remove", "replace"] }, "path": { "type": "string" }, "value": {}, "was": {} },
            "required": ["op", "path"],
        });
        object(
            json!({ "equal": { "type": "boolean" }, "changes": { "type": "array", "items": change } }),
            &["equal", "changes"],
        )
    },
    example: r#"{"from": {"a": 1}, "to": {"a": 2, "b": 3}}"#,
    call: Call::Inline(|input| {
        let mut changes = Vec::new();
        let side = |name: &str| input.get(name).unwrap_or(&Value::Null);
        diff(side("from"), side("to"), "", &mut changes);
        Ok(json!({ "equal": changes.is_empty(), "changes": changes }))
    }),
};

/// A closed object schema.
pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The schema of `{text}`.
pub(super) fn text_output() -> Value {
    object(json!({ "text": { "type": "string" } }), &["text"])
}

fn merge(base: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *base = patch.clone();
        return;
    };
    if !base.is_object() {
        *base = Value::Object(Map::new());
    }
    let Value::Object(target) = base else { return };
    for (key, field) in fields {
        if field.is_null() {
            target.shift_remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), field);
        }
    }
}

fn diff(from: &Value, to: &Value, path: &str, changes: &mut Vec<Value>) {
    match (from, to) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, was) in old {
                let place = format!("{path}/{}", escape(key));
                match new.get(key) {
                    Some(value) => diff(was, value, &place, changes),
                    None => changes.push(json!({ "op": "remove", "path": place, "was": was })),
                }
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                changes.push(json!({ "op": "add", "path": format!("{path}/{}", escape(key)), "value": value }));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (at, (was, value)) in old.iter().zip(new).enumerate() {
                diff(was, value, &format!("{path}/{at}"), changes);
            }
            // From the end, so that each index is still right when its turn comes.
            for (at, was) in old.iter().enumerate().skip(new.len()).rev() {
                changes.push(json!({ "op": "remove", "path": format!("{path}/{at}"), "was": was }));
            }
            for (at, value) in new.iter().enumerate().skip(old.len()) {
                changes
                    .push(json!({ "op": "add", "path": format!("{path}/{at}"), "value": value }));
            }
        }
        (was, value) if was == value => {}
        (was, value) => {
            changes.push(json!({ "op": "replace", "path": path, "value": value, "was": was }))
        }
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &Tool, input: &Value) -> Result<Value, Failure> {
        match tool.call {
            Call::Inline(call) => call(input),
            Call::Task(_) => unreachable!("pure tools are inline"),
        }
    }

    #[test]
    fn merge_removes_nulls_and_replaces_what_is_no_object() {
        let input = json!({ "base": { "a": 1, "b": { "c": 2 }, "l": [1] }, "patch": { "a": null, "b": { "d": 3 }, "l": [] } });
        assert_eq!(
            call(&MERGE, &input),
            Ok(json!({ "b": { "c": 2, "d": 3 }, "l": [] }))
        );
    }

    #[test]
    fn a_diff_names_each_change_by_its_pointer() {
        let input =
            json!({ "from": { "a/b": 1, "l": [1, 2, 3] }, "to": { "l": [1, 5], "n": null } });
        let changes = json!([
            { "op": "remove", "path": "/a~1b", "was": 1 },
            { "op": "replace", "path": "/l/1", "value": 5, "was": 2 },
            { "op": "remove", "path": "/l/2", "was": 3 },
            { "op": "add", "path": "/n", "value": null },
        ]);
        assert_eq!(
            call(&DIFF, &input),
            Ok(json!({ "equal": false, "changes": changes }))
        );
        let same = json!({ "from": [1, { "a": 2 }], "to": [1, { "a": 2 }] });
        assert_eq!(
            call(&DIFF, &same),
            Ok(json!({ "equal": true, "changes": [] }))
        );
    }

    #[test]
    fn a_missing_part_is_not_found_unless_there_is_a_default() {
        let input = json!({ "value": { "a": null }, "pointer": "/a" });
        assert_eq!(call(&QUERY, &input), Ok(Value::Null));
        let input = json!({ "value": { "a": 1 }, "pointer": "/b", "default": 2 });
        assert_eq!(call(&QUERY, &input), Ok(json!(2)));
        let input = json!({ "value": { "a": 1 }, "pointer": "/b" });
        let failure = Failure::new(ErrorClass::NotFound, "the value has nothing at `/b`");
        assert_eq!(call(&QUERY, &input), Err(failure));
    }
}
