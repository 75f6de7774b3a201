//! `json.*`: JSON as text and as values.

use ravel_core::effect::{Effect, ErrorClass, Failure};
use ravel_core::expr::exact_json;
use serde_json::{Map, Value, json};

use super::{Call, Room, Tool, Written, flag_of, invalid, no_room, text_of};

pub(super) static PARSE: Tool = Tool {
    name: "json.parse",
    doc: "Reads JSON text. Its result is the value itself.",
    effect: Effect::Pure,
    input: || object(json!({ "text": { "type": "string" } }), &["text"]),
    output: || json!({}),
    example: r#"{"text": "{\"a\": [1, 2]}"}"#,
    rule: None,
    call: Call::Inline(|input| {
        exact_json(text_of(input, "text"))
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
    rule: None,
    call: Call::Inline(|input| {
        let value = input.get("value").unwrap_or(&Value::Null);
        let text = if flag_of(input, "pretty", false) {
            let mut written = Written::default();
            // Writing into memory fails for lack of room only.
            serde_json::to_writer_pretty(&mut written, value).map_err(|_| no_room())?;
            written.into_text()
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
    rule: None,
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
    rule: None,
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
        let change = object(
            json!({ "op": { "enum": ["add", "remove", "replace"] }, "path": { "type": "string" }, "value": {}, "was": {} }),
            &["op", "path"],
        );
        object(
            json!({ "equal": { "type": "boolean" }, "changes": { "type": "array", "items": change } }),
            &["equal", "changes"],
        )
    },
    example: r#"{"from": {"a": 1}, "to": {"a": 2, "b": 3}}"#,
    rule: None,
    call: Call::Inline(|input| {
        let mut changes = Changes {
            all: Vec::new(),
            room: Room::new(),
            path: String::new(),
        };
        let side = |name: &str| input.get(name).unwrap_or(&Value::Null);
        changes.diff(side("from"), side("to"))?;
        Ok(json!({ "equal": changes.all.is_empty(), "changes": changes.all }))
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

/// A comparison under way.
struct Changes {
    all: Vec<Value>,
    room: Room,
    /// The pointer of what is compared now. One text for all: a long key is written once, not for each child.
    path: String,
}

impl Changes {
    fn push(
        &mut self,
        op: &str,
        value: Option<&Value>,
        was: Option<&Value>,
    ) -> Result<(), Failure> {
        self.room.take(self.path.len())?;
        let mut change = Map::new();
        change.insert("op".to_owned(), op.into());
        change.insert("path".to_owned(), self.path.as_str().into());
        for (name, side) in [("value", value), ("was", was)] {
            change.extend(side.map(|side| (name.to_owned(), side.clone())));
        }
        self.all.push(change.into());
        Ok(())
    }

    /// Does something one step further down.
    fn below(
        &mut self,
        step: impl std::fmt::Display,
        work: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let length = self.path.len();
        self.path.push_str(&format!("/{step}"));
        let done = work(self);
        self.path.truncate(length);
        done
    }

    fn diff(&mut self, from: &Value, to: &Value) -> Result<(), Failure> {
        match (from, to) {
            (Value::Object(old), Value::Object(new)) => {
                for (key, was) in old {
                    self.below(escape(key), |changes| match new.get(key) {
                        Some(value) => changes.diff(was, value),
                        None => changes.push("remove", None, Some(was)),
                    })?;
                }
                for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                    self.below(escape(key), |changes| {
                        changes.push("add", Some(value), None)
                    })?;
                }
            }
            (Value::Array(old), Value::Array(new)) => {
                for (at, (was, value)) in old.iter().zip(new).enumerate() {
                    self.below(at, |changes| changes.diff(was, value))?;
                }
                // From the end, so that each index is still right when its turn comes.
                for (at, was) in old.iter().enumerate().skip(new.len()).rev() {
                    self.below(at, |changes| changes.push("remove", None, Some(was)))?;
                }
                for (at, value) in new.iter().enumerate().skip(old.len()) {
                    self.below(at, |changes| changes.push("add", Some(value), None))?;
                }
            }
            (was, value) if was == value => {}
            (was, value) => self.push("replace", Some(value), Some(was))?,
        }
        Ok(())
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
    fn hostile_values_end_in_an_answer() {
        let deep = json!({ "text": "[".repeat(100_000) });
        let failure = call(&PARSE, &deep).unwrap_err();
        let text = "the text is not JSON: recursion limit exceeded at line 1 column 128";
        assert_eq!(failure, invalid(text));
        let many: Vec<u32> = (0..2000).collect();
        let long = "k".repeat(100_000);
        let below =
            json!({ "from": { (long.as_str()): many }, "to": { (long.as_str()): vec![""; 2000] } });
        assert_eq!(call(&DIFF, &below), Err(no_room()));
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
