//! Types as users write them, to JSON Schema.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::{Map as JsonMap, Value as Json, json};

use super::Lower;
use super::schemas::is_plain;
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, names, nearest};
use crate::lang::limits::TYPE_SCHEMA_BYTES_MAX;
use crate::lang::source::Span;
use crate::lang::tree::{Map, Node, Value};
use crate::types::Type;

/// Names that are types by themselves.
pub(crate) const BASIC: &[&str] = &[
    "string", "integer", "number", "boolean", "object", "any", "file", "null",
];

/// The named types of a flow, resolved when they are first used.
#[derive(Debug, Default)]
pub(crate) struct NamedTypes {
    entries: IndexMap<String, (Span, Node)>,
    done: IndexMap<String, Option<Json>>,
    active: Vec<String>,
    /// Names that were met while they were being resolved.
    recursive: BTreeSet<String>,
    used: BTreeSet<String>,
    /// Types by the text that names them: `Reply`, `[Reply]`, `string | null`.
    finished: IndexMap<String, Type>,
}

impl NamedTypes {
    pub(crate) fn new(entries: IndexMap<String, (Span, Node)>) -> Self {
        Self {
            entries,
            ..Self::default()
        }
    }

    /// Names that nothing uses, with their places.
    pub(crate) fn unused(&self) -> Vec<(String, Span)> {
        let unused = |name: &&String| !self.used.contains(*name);
        self.entries
            .keys()
            .filter(unused)
            .map(|name| (name.clone(), self.entries[name].0))
            .collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }
}

impl Lower<'_> {
    /// A type in a place where a map is fields: `returns`, `form`, a signal.
    pub(crate) fn read_type(&mut self, flow: usize, node: &Node) -> Option<Type> {
        if let Some(text) = node.text()
            && let Some(known) = self.flows[flow].types.finished.get(text)
        {
            return Some(known.clone());
        }
        let schema = self.type_schema(flow, node)?;
        let ty = self.finish_type(schema, node.span)?;
        let types = &mut self.flows[flow].types;
        if let Some(text) = node.text()
            && types.active.is_empty()
        {
            types.finished.insert(text.to_owned(), ty.clone());
        }
        Some(ty)
    }

    /// The input of a flow: a map of fields.
    pub(crate) fn read_fields(&mut self, flow: usize, node: &Node) -> Option<Type> {
        if node.map().is_none() {
            let what = node.what();
            self.problem(
                Problem::new(
                    codes::WRONG_SHAPE,
                    node.span,
                    format!("a map of fields is expected here, and this is {what}"),
                )
                .hint("write `{ name: type }`, such as `{ ticket: string }`"),
            );
            return None;
        }
        self.read_type(flow, node)
    }

    fn finish_type(&mut self, schema: Json, span: Span) -> Option<Type> {
        let schema = crate::types::lift_defs(schema);
        if schema.to_string().len() > TYPE_SCHEMA_BYTES_MAX {
            let message = format!(
                "this type is larger than {TYPE_SCHEMA_BYTES_MAX} bytes when its named types are written out"
            );
            self.problem(
                Problem::new(codes::TOO_LARGE, span, message)
                    .hint("let a named type refer to itself, or use `any`"),
            );
            return None;
        }
        if is_plain(&schema) {
            return Some(Type::known(schema));
        }
        match Type::from_schema(schema) {
            Ok(ty) => Some(ty),
            Err(why) => {
                self.problem(
                    Problem::new(
                        codes::BAD_TYPE,
                        span,
                        format!("this is no valid JSON Schema: {why}"),
                    )
                    .hint("`ravel explain RV0301` shows the forms of a type"),
                );
                None
            }
        }
    }

    fn type_schema(&mut self, flow: usize, node: &Node) -> Option<Json> {
        match &node.value {
            Value::Map(map) if map.keys().any(|key| key.starts_with('$')) => {
                self.whole_schema(flow, map)
            }
            Value::Map(map) => self.fields_schema(flow, map),
            Value::Text(_) | Value::List(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.field_schema(flow, node)
            }
        }
    }

    /// A map of fields: closed, and required unless nullable or defaulted.
    fn fields_schema(&mut self, flow: usize, map: &Map) -> Option<Json> {
        let mut properties = JsonMap::new();
        let mut required = Vec::new();
        let mut whole = true;
        for (name, entry) in map {
            if self.misplaced_keyword(name, &entry.node, entry.key) {
                whole = false;
                continue;
            }
            let Some(schema) = self.field_schema(flow, &entry.node) else {
                whole = false;
                continue;
            };
            if let Some(default) = schema.get("default") {
                self.check_default(&schema, default, &entry.node);
            } else if !takes_null(&schema) {
                required.push(Json::from(name.as_str()));
            }
            properties.insert(name.clone(), schema);
        }
        whole.then(|| {
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
        })
    }

    /// `returns: {enum: […]}` would be a field named `enum`: nobody means that.
    fn misplaced_keyword(&mut self, name: &str, node: &Node, key: Span) -> bool {
        let meant = match name {
            "enum" => node.list().is_some_and(|items| items.len() != 1),
            "properties" | "items" => node.map().is_some(),
            "type" => node
                .text()
                .is_some_and(|text| text == "object" || text == "array"),
            _ => false,
        };
        if meant {
            self.problem(
                Problem::new(codes::BAD_TYPE, key, format!("a map is always fields here, so this declares a field named `{name}`"))
                    .hint(
                        "for a whole JSON Schema add a `$` key: `{ $schema: \"https://json-schema.org/draft/2020-12/schema\", … }`",
                    ),
            );
        }
        meant
    }

    fn check_default(&mut self, schema: &Json, default: &Json, node: &Node) {
        let span = node.get("default").map_or(node.span, |node| node.span);
        let ty = Type::known(crate::types::lift_defs(schema.clone()));
        if let Err(violations) = ty.takes(default) {
            let why = violations
                .first()
                .map(ToString::to_string)
                .unwrap_or_default();
            self.problem(Problem::new(
                codes::LITERAL_MISFIT,
                span,
                format!("the default is not of its type: {why}"),
            ));
        }
    }

    /// The type of one field: a name, `T | null`, `[T]`, a JSON Schema map.
    pub(super) fn field_schema(&mut self, flow: usize, node: &Node) -> Option<Json> {
        match &node.value {
            Value::Text(text) => self.spelt_schema(flow, text, node.span),
            Value::Map(map) => self.schema_map(flow, map),
            Value::List(items) => match items.as_slice() {
                [item] => Some(json!({ "type": "array", "items": self.field_schema(flow, item)? })),
                _ => self.bad_list(node, items),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.problem(
                    Problem::new(
                        codes::BAD_TYPE,
                        node.span,
                        format!("a type is expected here, and this is {}", node.what()),
                    )
                    .hint(format!(
                        "the basic types are {}",
                        names(BASIC.iter().copied())
                    )),
                );
                None
            }
        }
    }

    fn bad_list(&mut self, node: &Node, items: &[Node]) -> Option<Json> {
        let problem = Problem::new(
            codes::BAD_TYPE,
            node.span,
            "a list type has one type between its brackets",
        );
        let hint = if items.is_empty() {
            "write `[any]` for a list of anything".to_owned()
        } else {
            let words: Vec<String> = items
                .iter()
                .map(|item| item.to_json().to_string())
                .collect();
            format!(
                "for one of some values write `{{ enum: [{}] }}`",
                words.join(", ")
            )
        };
        self.problem(problem.hint(hint));
        None
    }

    /// A type as text, with a hint where another language spells it so.
    pub(super) fn spelt_schema(&mut self, flow: usize, text: &str, span: Span) -> Option<Json> {
        let own = &self.flows[flow].types.entries;
        let is_own = |name: &str| own.contains_key(name);
        if !is_spelt(text, &is_own)
            && let Some(right) = super::spelling::respelt(text, &is_own)
        {
            let message = format!("there is no type `{}`", text.trim());
            let hint = format!("did you mean `{right}`?");
            self.problem(Problem::new(codes::BAD_TYPE, span, message).hint(hint));
            return None;
        }
        self.named_schema(flow, text, span)
    }

    /// `string`, `Reply | null`, `[string]` as text.
    pub(super) fn named_schema(&mut self, flow: usize, text: &str, span: Span) -> Option<Json> {
        let text = text.trim();
        let parts = split_union(text);
        if parts.len() > 1 {
            let mut schemas = Vec::new();
            for part in &parts {
                schemas.push(self.named_schema(flow, part, span)?);
            }
            return Some(union(schemas));
        }
        if let Some(inner) = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            return Some(
                json!({ "type": "array", "items": self.named_schema(flow, inner, span)? }),
            );
        }
        match text {
            "any" => Some(json!({})),
            "file" => Some(Type::file().schema().clone()),
            _ if BASIC.contains(&text) => Some(json!({ "type": text })),
            _ => self.user_type(flow, text, span),
        }
    }

    /// An entry of `types:`.
    fn user_type(&mut self, flow: usize, name: &str, span: Span) -> Option<Json> {
        let types = &mut self.flows[flow].types;
        types.used.insert(name.to_owned());
        if types.active.iter().any(|active| active == name) {
            types.recursive.insert(name.to_owned());
            return Some(json!({ "$ref": format!("#/$defs/{name}") }));
        }
        if let Some(done) = types.done.get(name) {
            return done.clone();
        }
        let Some((_, node)) = types.entries.get(name) else {
            self.unknown_type(flow, name, span);
            return None;
        };
        let node = node.clone();
        types.active.push(name.to_owned());
        let schema = self.type_schema(flow, &node);
        let types = &mut self.flows[flow].types;
        types.active.pop();
        let recursive = types.recursive.remove(name);
        let schema = schema.map(|schema| match recursive {
            true => json!({ "$ref": format!("#/$defs/{name}"), "$defs": { name: schema } }),
            false => schema,
        });
        // While an outer name is still open, what refers to it is complete only below that name.
        if types.recursive.is_empty() {
            types.done.insert(name.to_owned(), schema.clone());
        }
        schema
    }

    fn unknown_type(&mut self, flow: usize, name: &str, span: Span) {
        let own = if self.has_names_left() {
            self.flows[flow].types.names()
        } else {
            Vec::new()
        };
        self.compared(own.len());
        let known = BASIC.iter().copied().chain(own.iter().map(String::as_str));
        let hint = match nearest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "the basic types are {}; others are named under `types:`",
                names(BASIC.iter().copied())
            ),
        };
        self.problem(
            Problem::new(codes::BAD_TYPE, span, format!("there is no type `{name}`")).hint(hint),
        );
    }
}

/// Whether every name in a type is one.
fn is_spelt(text: &str, is_own: &dyn Fn(&str) -> bool) -> bool {
    let text = text.trim();
    let parts = split_union(text);
    if parts.len() > 1 {
        return parts.into_iter().all(|part| is_spelt(part, is_own));
    }
    match text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(item) => is_spelt(item, is_own),
        None => BASIC.contains(&text) || is_own(text),
    }
}

/// Splits at `|` outside brackets.
pub(super) fn split_union(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            '|' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn union(mut schemas: Vec<Json>) -> Json {
    let null = json!({ "type": "null" });
    let nullable = schemas.contains(&null);
    schemas.retain(|schema| *schema != null);
    let inner = match schemas.len() {
        0 => return null,
        1 => schemas.remove(0),
        _ => json!({ "anyOf": schemas }),
    };
    if nullable {
        crate::types::nullable_schema(inner)
    } else {
        inner
    }
}

fn takes_null(schema: &Json) -> bool {
    let null = |ty: &Json| ty == "null";
    match schema.get("type") {
        Some(Json::Array(types)) => types.iter().any(null),
        Some(ty) if null(ty) => true,
        Some(_) | None => {
            let among = |word: &str| {
                schema
                    .get(word)
                    .and_then(Json::as_array)
                    .is_some_and(|all| all.iter().any(takes_null))
            };
            let listed = schema
                .get("enum")
                .and_then(Json::as_array)
                .is_some_and(|all| all.contains(&Json::Null));
            among("anyOf") || among("oneOf") || listed
        }
    }
}
