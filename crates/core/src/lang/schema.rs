//! The language as JSON Schema, for editors: made from the tables that the parser reads its keys from.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::keys::{self, Key, Kind, Table, Takes};
use crate::effect::ErrorClass;

/// The JSON Schema (draft 2020-12) of a flow.
pub fn json_schema() -> Value {
    let mut defs = Map::new();
    defs.insert("flow".to_owned(), table_schema(&keys::FLOW));
    defs.insert("step".to_owned(), step_schema());
    defs.insert("steps".to_owned(), steps_schema());
    defs.insert("type".to_owned(), type_schema());
    defs.insert(
        "fields".to_owned(),
        json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/type" } }),
    );
    defs.insert(
        "duration".to_owned(),
        pattern(
            r"^([0-9.]+(ms|s|m|h|d|w) ?)+$",
            "A number and a unit: 5m, 1h30m.",
        ),
    );
    for table in keys::tables() {
        if is_part(table) {
            defs.insert(def_name(table), table_schema(table));
        }
    }
    for kind in keys::KINDS.iter().filter(|kind| kind.available) {
        defs.insert(format!("{}_step", kind.name), kind_schema(kind));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Ravel flow",
        "$ref": "#/$defs/flow",
        "$defs": defs,
    })
}

/// Tables that stand below keys, not the ones that steps are made of.
fn is_part(table: &Table) -> bool {
    let of_step = [&keys::FLOW, &keys::ANY, &keys::LEAF, &keys::SCOPE]
        .iter()
        .any(|known| std::ptr::eq(*known, table));
    !of_step
        && !keys::KINDS
            .iter()
            .any(|kind| std::ptr::eq(kind.table, table))
}

/// A name that is unique among the tables: two of them (`wait` the kind, `wait` the map) share a title.
fn def_name(table: &Table) -> String {
    let title: String = table
        .name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let keys: Vec<&str> = table.keys.iter().map(|key| key.name).take(2).collect();
    format!("{title}_with_{}", keys.join("_"))
}

fn table_schema(table: &Table) -> Value {
    object(table.keys.iter(), table.required, table.doc)
}

fn object(keys: impl Iterator<Item = &'static Key>, required: &[&str], doc: &str) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let mut schema = takes(key.takes);
        if let Value::Object(map) = &mut schema {
            map.insert(
                "description".to_owned(),
                json!(format!(
                    "{}\n\nExample: `{}: {}`",
                    key.doc, key.name, key.example
                )),
            );
        }
        properties.insert(key.name.to_owned(), schema);
    }
    json!({
        "type": "object",
        "description": doc,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// A step is of one kind, and has the keys of that kind.
fn step_schema() -> Value {
    let kinds: Vec<&Kind> = keys::KINDS.iter().filter(|kind| kind.available).collect();
    let variants: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({ "if": { "required": [kind.name] }, "then": { "$ref": format!("#/$defs/{}_step", kind.name) } }))
        .collect();
    let names: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({ "required": [kind.name] }))
        .collect();
    json!({ "type": "object", "anyOf": names, "allOf": variants })
}

/// The keys that a step of a kind may have.
fn kind_keys(kind: &Kind) -> impl Iterator<Item = &'static Key> {
    let common = if kind.leaf { &keys::LEAF } else { &keys::SCOPE };
    let keys = keys::ANY.keys.iter().chain(common.keys);
    keys.chain(kind.table.keys)
}

fn kind_schema(kind: &Kind) -> Value {
    let own = object(kind_keys(kind), kind.table.required, kind.table.doc);
    // `steps` stands in loops, too: there the loop's own table speaks for it.
    if kind.name == "steps" {
        let loops: Vec<Value> = ["for_each", "repeat"]
            .iter()
            .map(|name| json!({ "required": [name] }))
            .collect();
        return json!({ "if": { "anyOf": loops }, "else": own });
    }
    own
}

fn steps_schema() -> Value {
    let step = json!({ "$ref": "#/$defs/step" });
    let names = json!({ "pattern": "^[a-z][a-z0-9_]*$" });
    json!({
        "anyOf": [
            { "type": "object", "propertyNames": names, "additionalProperties": step, "minProperties": 1 },
            {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "propertyNames": names,
                    "additionalProperties": step,
                    "minProperties": 1,
                    "maxProperties": 1,
                },
            },
        ],
    })
}

fn type_schema() -> Value {
    json!({
        "description": "A name (string, integer, number, boolean, object, any, file, or one of types), `T | null`, `[T]`, or a JSON Schema.",
        "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "$ref": "#/$defs/type" }, "minItems": 1, "maxItems": 1 },
            { "type": "object" },
        ],
    })
}

fn pattern(pattern: &str, description: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "description": description })
}

fn text() -> Value {
    let file = format!("#/$defs/{}", def_name(&keys::FILE));
    json!({ "anyOf": [{ "type": ["string", "number", "boolean"] }, { "$ref": file }] })
}

fn one_or_list(item: Value) -> Value {
    json!({ "anyOf": [item, { "type": "array", "items": item }] })
}

fn takes(takes_what: Takes) -> Value {
    match takes_what {
        Takes::Text => text(),
        Takes::Plain | Takes::Name => json!({ "type": "string" }),
        Takes::Condition => json!({ "type": ["string", "boolean"] }),
        Takes::Expression => json!({ "type": ["string", "number", "boolean"] }),
        Takes::Value | Takes::Any => json!({}),
        Takes::Scalar => json!({ "type": ["string", "number"] }),
        Takes::List => json!({ "type": "array" }),
        Takes::Values => json!({ "type": "object" }),
        Takes::Names | Takes::Texts => one_or_list(json!({ "type": "string" })),
        Takes::PlainMap => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        Takes::Integer { min, max } => {
            let mut schema = json!({ "type": "integer", "minimum": min });
            if max < i64::MAX {
                schema["maximum"] = json!(max);
            }
            schema
        }
        Takes::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Takes::Boolean => json!({ "type": "boolean" }),
        Takes::Duration => json!({ "$ref": "#/$defs/duration" }),
        Takes::DurationRange => pattern(
            r"^[0-9.]+(ms|s|m|h|d)(\.\.[0-9.]+(ms|s|m|h|d))?$",
            "1s..30s",
        ),
        Takes::Count => json!({ "type": ["integer", "string"], "pattern": "^[0-9.]+[kKmMGB]?$" }),
        Takes::Bytes => {
            json!({ "type": ["integer", "string"], "pattern": "^[0-9.]+ ?([kKMG]i?B?|B)?$" })
        }
        Takes::Tolerance => {
            json!({ "type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9.]+%$" })
        }
        Takes::Choice(words) => json!({ "enum": words }),
        Takes::Errors => {
            let classes: Vec<&str> = ErrorClass::ALL.iter().map(|class| class.name()).collect();
            one_or_list(json!({ "enum": classes }))
        }
        Takes::ExitCodes => one_or_list(json!({ "type": "integer" })),
        Takes::Type => json!({ "$ref": "#/$defs/type" }),
        Takes::Fields => json!({ "$ref": "#/$defs/fields" }),
        Takes::Types => {
            json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/type" } })
        }
        Takes::Steps => json!({ "$ref": "#/$defs/steps" }),
        Takes::StepMap => {
            json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/step" } })
        }
        Takes::Step => json!({ "$ref": "#/$defs/step" }),
        Takes::Overlays => {
            let names: BTreeSet<&str> = keys::KINDS
                .iter()
                .flat_map(kind_keys)
                .map(|key| key.name)
                .collect();
            one_or_list(json!({ "type": "object", "propertyNames": { "enum": names } }))
        }
        Takes::Cases => {
            let steps = json!({ "type": "array", "$ref": "#/$defs/steps" });
            let case = json!({ "anyOf": [{ "$ref": "#/$defs/step" }, steps] });
            json!({ "type": "object", "additionalProperties": case })
        }
        Takes::Flows => {
            let flow = json!({ "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/flow" }] });
            json!({ "type": "object", "additionalProperties": flow })
        }
        Takes::Map(table) => json!({ "$ref": format!("#/$defs/{}", def_name(table)) }),
        Takes::Maps(table) => {
            one_or_list(json!({ "$ref": format!("#/$defs/{}", def_name(table)) }))
        }
        Takes::Either(choices) => {
            json!({ "anyOf": choices.iter().map(|choice| takes(*choice)).collect::<Vec<_>>() })
        }
        Takes::Defaults => {
            let kinds: Map<String, Value> = keys::KINDS
                .iter()
                .map(|kind| {
                    (
                        kind.name.to_owned(),
                        object(kind_keys(kind), &[], kind.table.doc),
                    )
                })
                .collect();
            json!({ "type": "object", "properties": kinds, "additionalProperties": false })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_valid_and_takes_the_examples_of_every_kind() {
        let schema = json_schema();
        let validator =
            jsonschema::validator_for(&schema).expect("the schema of the language is a schema");
        for kind in keys::KINDS.iter().filter(|kind| kind.available) {
            let text = format!("steps: {{ it: {} }}", kind.example);
            let flow = crate::lang::Bundle::from_text("x.yaml", &text)
                .expect("the example parses")
                .flows["x.yaml"]
                .clone();
            let problems: Vec<String> = validator
                .iter_errors(&flow)
                .map(|error| error.to_string())
                .collect();
            assert_eq!(problems, Vec::<String>::new(), "{}", kind.name);
        }
        let wrong = json!({ "steps": { "a": { "model": "fast", "promt": "x" } } });
        assert!(!validator.is_valid(&wrong));
    }
}
