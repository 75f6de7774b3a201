//! The reference of all tools, made from their table.

use std::fmt::Write as _;

use ravel_core::effect::Effect;
use serde_json::Value;

use super::{TOOLS, Tool};

/// The page `docs/tools.md`.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    for tool in TOOLS {
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "| [`{}`](#{}) | {} | {} |",
            tool.name,
            anchor(tool.name),
            effect(tool.effect),
            first(tool.doc)
        );
    }
    for tool in TOOLS {
        page.push_str(&section(tool));
    }
    page
}

const INTRODUCTION: &str = "\
# Tools

<!-- Generated from the table of tools in crates/io/src/tool.rs; a test keeps it so. -->

A `tool` step calls one of these by name, with its arguments under `with`. Arguments are held to the schema before
anything happens: what does not fit is the error `invalid_input`, and certainly nothing was done.

The effect says what may be repeated: `pure` computes, `read` looks, `write` may be repeated with the same key, `once`
never without being asked. A step may state a stricter `effect:` of its own.

| tool | effect | what it does |
|---|---|---|
";

fn section(tool: &Tool) -> String {
    let mut text = format!(
        "\n## {}\n\n{}\n\nEffect: `{}`.\n\n",
        tool.name,
        tool.doc,
        effect(tool.effect)
    );
    let input = (tool.input)();
    let required = |name: &str| {
        let listed = input.get("required").and_then(Value::as_array);
        listed.is_some_and(|names| names.iter().any(|one| one == name))
    };
    if let Some(fields) = input.get("properties").and_then(Value::as_object) {
        text.push_str("| argument | type | |\n|---|---|---|\n");
        for (name, schema) in fields {
            let need = match schema.get("default") {
                Some(default) => format!("default `{default}`"),
                None if required(name) => "required".to_owned(),
                None => "optional".to_owned(),
            };
            let note = schema.get("description").and_then(Value::as_str);
            let note = note.map_or_else(String::new, |note| format!("; {note}"));
            let _ = writeln!(text, "| `{name}` | {} | {need}{note} |", kind(schema));
        }
    } else {
        text.push_str("Takes any arguments.\n");
    }
    let _ = write!(text, "\nResult: {}\n\n", kind(&(tool.output)()));
    let _ = write!(
        text,
        "```yaml\ncall:\n  tool: {}\n  with: {}\n```\n",
        tool.name, tool.example
    );
    text
}

/// A schema in a few words.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = values
            .iter()
            .map(|value| format!("`{}`", value.as_str().unwrap_or_default()))
            .collect();
        return words.join(", ");
    }
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        return any.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => match schema.get("items") {
            Some(items) => format!("list of {}", kind(items)),
            None => "list".to_owned(),
        },
        Some(Value::String(name)) if name == "object" => {
            match schema.get("properties").and_then(Value::as_object) {
                Some(fields) if fields.contains_key("$file") => "file".to_owned(),
                Some(fields) => {
                    let names: Vec<String> = fields
                        .iter()
                        .map(|(name, field)| format!("{name}: {}", kind(field)))
                        .collect();
                    format!("{{ {} }}", names.join(", "))
                }
                None => "object".to_owned(),
            }
        }
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            "any".to_owned()
        }
    }
}

fn first(doc: &str) -> &str {
    doc.split_once(". ")
        .map_or(doc, |(sentence, _)| sentence)
        .trim_end_matches('.')
}

fn anchor(name: &str) -> String {
    name.replace('.', "")
}

const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Pure => "pure",
        Effect::Read => "read",
        Effect::Write => "write",
        Effect::Once => "once",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");
        let page = reference();
        if std::env::var_os("RAVEL_GENERATE").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            there == page,
            "docs/tools.md is not up to date: run this test with RAVEL_GENERATE=1"
        );
    }
}
