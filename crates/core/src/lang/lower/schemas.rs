//! JSON Schemas within types: maps of keywords, whole schemas, schemas in files.

use serde_json::{Map as JsonMap, Value as Json};

use super::Lower;
use crate::lang::bundle::{resolve, unreadable};
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, nearest};
use crate::lang::source::Span;
use crate::lang::tree::{Map, Node, Value};
use crate::types::{FORMATS, Type};

/// The types of JSON Schema.
const JSON_TYPES: &[&str] = &[
    "string", "integer", "number", "boolean", "object", "array", "null",
];
/// Keywords of JSON Schema whose value is a schema.
const SCHEMA_WORDS: &[&str] = &[
    "items",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentSchema",
];
/// Keywords whose value is a list of schemas.
const LIST_WORDS: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords whose value is a map of schemas.
const MAP_WORDS: &[&str] = &[
    "properties",
    "patternProperties",
    "dependentSchemas",
    "$defs",
];
/// The other keywords.
const OTHER_WORDS: &[&str] = &[
    "type",
    "enum",
    "const",
    "required",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "$schema",
    "$id",
    "$ref",
    "$anchor",
    "$comment",
];

/// Words that are used for those of JSON Schema, and what says the same.
const FOREIGN_WORDS: &[(&[&str], &str)] = &[
    (
        &["optional", "nullable", "required"],
        "every field is required, but one whose type is `T | null` or that has a `default`",
    ),
    (
        &["values", "choices", "options", "one_of"],
        "for one of some values write `{ enum: [a, b] }`",
    ),
    (&["min"], "did you mean `minimum`?"),
    (&["max"], "did you mean `maximum`?"),
    (&["regex"], "did you mean `pattern`?"),
    (&["desc", "help", "doc"], "did you mean `description`?"),
    (
        &["of", "element", "elements", "item", "items_type"],
        "did you mean `items`? A list of strings is `[string]`",
    ),
    (&["fields", "props"], "did you mean `properties`?"),
];

fn is_keyword(word: &str) -> bool {
    [SCHEMA_WORDS, LIST_WORDS, MAP_WORDS, OTHER_WORDS]
        .iter()
        .any(|words| words.contains(&word))
}

impl Lower<'_> {
    /// A JSON Schema map, in which a type of the language may stand wherever a schema may.
    pub(super) fn schema_map(&mut self, flow: usize, map: &Map) -> Option<Json> {
        if self.foreign_type(map).is_some() {
            return None;
        }
        if let Some((word, entry)) = map.iter().find(|(word, _)| !is_keyword(word)) {
            let known = [SCHEMA_WORDS, LIST_WORDS, MAP_WORDS, OTHER_WORDS].concat();
            let nested = "a map within fields is a JSON Schema; for nested fields name a type under `types:`";
            let foreign = FOREIGN_WORDS
                .iter()
                .find(|(words, _)| words.contains(&word.as_str()));
            let hint = match (foreign, nearest(word, known.iter().copied())) {
                // A field may be called so, and then there are others beside it that are no words of JSON Schema either.
                (Some((_, hint)), _) if map.contains_key("type") || map.len() == 1 => {
                    (*hint).to_owned()
                }
                (_, Some(near)) => format!("did you mean `{near}`? {nested}"),
                (_, None) => nested.to_owned(),
            };
            self.problem(
                Problem::new(
                    codes::BAD_TYPE,
                    entry.key,
                    format!("`{word}` is no keyword of JSON Schema"),
                )
                .hint(hint),
            );
            return None;
        }
        if map.contains_key("$ref") {
            return self.schema_file(flow, map);
        }
        let mut schema = JsonMap::new();
        for (word, entry) in map {
            self.good_keyword(word, &entry.node)?;
            let value = self.keyword(flow, word, &entry.node)?;
            match (word.as_str(), value) {
                ("type", Json::Object(named)) => schema.extend(named),
                (_, value) => {
                    schema.insert(word.clone(), value);
                }
            }
        }
        Some(Json::Object(schema))
    }

    /// Whether a keyword's value is of the kind that JSON Schema wants.
    fn good_keyword(&mut self, word: &str, node: &Node) -> Option<()> {
        let number = matches!(node.value, Value::Number(_));
        let count = node.to_json().as_u64().is_some();
        let (good, wanted) = match word {
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                (number, "a number")
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minContains" | "maxContains"
            | "minProperties" | "maxProperties" => (count, "a whole number from 0"),
            "enum" => (
                node.list().is_some_and(|values| !values.is_empty()),
                "a list of values",
            ),
            "required" => (
                node.list()
                    .is_some_and(|names| names.iter().all(|name| name.text().is_some())),
                "a list of names",
            ),
            "pattern" | "format" | "title" | "description" | "contentEncoding"
            | "contentMediaType" => (node.text().is_some(), "text"),
            "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => {
                (matches!(node.value, Value::Bool(_)), "`true` or `false`")
            }
            word if MAP_WORDS.contains(&word) => (node.map().is_some(), "a map of types"),
            word if LIST_WORDS.contains(&word) => (
                node.list().is_some_and(|types| !types.is_empty()),
                "a list of types",
            ),
            _ => (true, ""),
        };
        if good && word == "format" {
            return self.known_format(node.text().unwrap_or_default(), node.span);
        }
        if good {
            return Some(());
        }
        let message = format!("`{word}` takes {wanted}, and this is {}", node.what());
        let hint = (word == "required").then(|| FOREIGN_WORDS[0].1.to_owned());
        self.problem(Problem::new(codes::BAD_TYPE, node.span, message).maybe_hint(hint));
        None
    }

    /// A format that nobody holds would be a promise without effect.
    fn known_format(&mut self, format: &str, span: Span) -> Option<()> {
        if FORMATS.contains(&format) {
            return Some(());
        }
        let hint = match nearest(format, FORMATS.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "the formats are {}; anything else is said by `pattern`",
                FORMATS.join(", ")
            ),
        };
        let message = format!("there is no format `{format}`");
        self.problem(Problem::new(codes::BAD_TYPE, span, message).hint(hint));
        None
    }

    /// `type: [string, "null"]`: names of JSON Schema, of which the value is one.
    fn type_names(&mut self, node: &Node, items: &[Node]) -> Option<Json> {
        let mut names = Vec::new();
        for item in items {
            let name = match &item.value {
                Value::Null => Some("null"),
                Value::Text(name) if JSON_TYPES.contains(&name.as_str()) => Some(name.as_str()),
                Value::Text(_)
                | Value::Bool(_)
                | Value::Number(_)
                | Value::List(_)
                | Value::Map(_) => None,
            };
            names.extend(name);
        }
        let (message, hint) = match (names.as_slice(), items) {
            ([name], [_]) => (
                format!("to JSON Schema `type: [{name}]` is one {name}, and not a list"),
                format!("write `[{name}]` for a list, `{name}` for one"),
            ),
            (all, _) if all.len() == items.len() && !items.is_empty() => {
                return Some(names.into());
            }
            (_, _) => (
                "a list of types holds names of JSON Schema".to_owned(),
                "write `T | null` for a type that may be null, `[T]` for a list".to_owned(),
            ),
        };
        self.problem(Problem::new(codes::BAD_TYPE, node.span, message).hint(hint));
        None
    }

    /// `{ type: list, items: string }`, `{ type: enum, values: [a, b] }`.
    fn foreign_type(&mut self, map: &Map) -> Option<()> {
        let node = &map.get("type")?.node;
        let name = node.text()?;
        let hint = match name.to_ascii_lowercase().as_str() {
            "enum" | "literal" | "choice" => "leave `type` out: `{ enum: [a, b] }`".to_owned(),
            "list" | "array" | "sequence" if name != "array" => {
                let item = map.get("items").and_then(|entry| entry.node.text());
                let item = item.filter(|item| item.chars().all(char::is_alphanumeric));
                format!("did you mean `[{}]`?", item.unwrap_or("any"))
            }
            _ => return None,
        };
        let message = format!("there is no type `{name}`");
        self.problem(Problem::new(codes::BAD_TYPE, node.span, message).hint(hint));
        Some(())
    }

    fn keyword(&mut self, flow: usize, word: &str, node: &Node) -> Option<Json> {
        match (word, &node.value) {
            // `type: Reply`, `type: string | null`: types of the language in the place of a JSON Schema's.
            ("type", Value::Text(name)) if !matches!(name.as_str(), "array" | "object") => {
                let schema = self.spelt_schema(flow, name, node.span)?;
                let only = schema
                    .as_object()
                    .filter(|map| map.len() == 1)
                    .and_then(|map| map.get("type"))
                    .cloned();
                Some(only.unwrap_or(schema))
            }
            ("type", Value::List(items)) => self.type_names(node, items),
            (word, Value::Map(schemas)) if MAP_WORDS.contains(&word) => {
                let mut out = JsonMap::new();
                for (name, entry) in schemas {
                    out.insert(name.clone(), self.field_schema(flow, &entry.node)?);
                }
                Some(Json::Object(out))
            }
            (word, Value::List(schemas)) if LIST_WORDS.contains(&word) => {
                let mut out = Vec::new();
                for schema in schemas {
                    out.push(self.field_schema(flow, schema)?);
                }
                Some(Json::Array(out))
            }
            (word, Value::Bool(value)) if SCHEMA_WORDS.contains(&word) => Some(Json::Bool(*value)),
            (word, _) if SCHEMA_WORDS.contains(&word) => self.field_schema(flow, node),
            (
                _,
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Text(_)
                | Value::List(_)
                | Value::Map(_),
            ) => Some(node.to_json()),
        }
    }

    /// A map with a `$` key: JSON Schema as it stands.
    pub(super) fn whole_schema(&mut self, flow: usize, map: &Map) -> Option<Json> {
        if map.contains_key("$ref") {
            return self.schema_file(flow, map);
        }
        let mut schema = JsonMap::new();
        for (word, entry) in map {
            schema.insert(word.clone(), entry.node.to_json());
        }
        schema.shift_remove("$schema");
        let span = map
            .first()
            .map_or(self.flows[flow].node.span, |(_, entry)| entry.key);
        self.valid_schema(Json::Object(schema), span)
    }

    /// A schema that is taken as it stands has to be a valid one.
    fn valid_schema(&mut self, schema: Json, span: Span) -> Option<Json> {
        let mut formats = Vec::new();
        formats_in(&schema, &mut formats);
        for format in formats {
            self.known_format(&format, span)?;
        }
        if let Err(why) = Type::from_schema(crate::types::lift_defs(schema.clone())) {
            self.problem(Problem::new(
                codes::BAD_TYPE,
                span,
                format!("this is no valid JSON Schema: {why}"),
            ));
            return None;
        }
        Some(schema)
    }

    /// `$ref: file.json`, `$ref: file.json#/part`.
    pub(super) fn schema_file(&mut self, flow: usize, map: &Map) -> Option<Json> {
        let entry = map.get("$ref")?;
        let Some(reference) = entry.node.text() else {
            self.problem(Problem::new(
                codes::BAD_TYPE,
                entry.node.span,
                "`$ref` takes the path of a file",
            ));
            return None;
        };
        let (path, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        if path.is_empty() {
            return Some(Node::made(Value::Map(map.clone()), entry.key).to_json());
        }
        let path = resolve(&self.flows[flow].path, path);
        let Some(file) = self.bundle.schemas.get(&path) else {
            let error = self.origin.unreadable.get(&path).cloned();
            let error = error.unwrap_or_else(|| crate::lang::ReadError::new("it was not read"));
            self.problem(unreadable(&path, &error, entry.node.span));
            return None;
        };
        let Some(part) = file.pointer(pointer) else {
            let message = format!("`{path}` has nothing at `{pointer}`");
            self.problem(Problem::new(codes::BAD_TYPE, entry.node.span, message));
            return None;
        };
        let mut schema = part.clone();
        if let Json::Object(schema) = &mut schema {
            schema.shift_remove("$schema");
            schema.shift_remove("$id");
            if let (Some(defs), false) = (file.get("$defs"), pointer.is_empty()) {
                schema.insert("$defs".to_owned(), defs.clone());
            }
            for (word, entry) in map
                .iter()
                .filter(|(word, _)| *word == "default" || *word == "description")
            {
                schema.insert(word.clone(), entry.node.to_json());
            }
        }
        self.valid_schema(schema, entry.node.span)
    }
}

/// The formats that a schema asks for. What stands in examples and the like is data.
fn formats_in(schema: &Json, found: &mut Vec<String>) {
    let Json::Object(map) = schema else {
        return;
    };
    for (word, value) in map {
        match (word.as_str(), value) {
            ("format", Json::String(format)) => found.push(format.clone()),
            (word, Json::Object(schemas)) if MAP_WORDS.contains(&word) => {
                schemas
                    .values()
                    .for_each(|schema| formats_in(schema, found));
            }
            (word, Json::Array(schemas)) if LIST_WORDS.contains(&word) => {
                schemas.iter().for_each(|schema| formats_in(schema, found));
            }
            (word, schema) if SCHEMA_WORDS.contains(&word) => formats_in(schema, found),
            (_, _) => {}
        }
    }
}

/// Keywords whose values [`Lower::good_keyword`] and the readers of types know to be right.
const PLAIN_WORDS: &[&str] = &[
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "default",
    "title",
    "description",
    "examples",
];

/// Whether a schema holds nothing that only a validator can find wrong, such as a pattern. Compiling one takes longer than all else
/// that is done for a step, so it is done where it tells something.
pub(super) fn is_plain(schema: &Json) -> bool {
    let Json::Object(map) = schema else {
        return schema.is_boolean();
    };
    map.iter()
        .all(|(word, value)| match (word.as_str(), value) {
            ("properties", Json::Object(fields)) => fields.values().all(is_plain),
            ("anyOf", Json::Array(types)) => types.iter().all(is_plain),
            ("items" | "additionalProperties", value) => is_plain(value),
            (word, _) => PLAIN_WORDS.contains(&word),
        })
}
