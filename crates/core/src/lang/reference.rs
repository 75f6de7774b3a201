//! The reference of the language, made from the tables that the parser reads its keys from.

use std::fmt::Write;

use super::codes;
use super::keys::{self, Kind, Table, Takes};
use super::lower::{BASIC, RESERVED};
use crate::effect::ErrorClass;
use crate::types::FORMATS;

/// The language reference in Markdown.
pub fn language() -> String {
    let mut out = String::from(
        "# The language\n\nThis page is made from the tables that the parser uses. `ravel schema` prints the same as JSON Schema, for editors.\n\n",
    );
    section(&mut out, 2, "A flow", &keys::FLOW, None);
    out.push_str("## Keys of every step\n\n");
    section(&mut out, 3, "Any step", &keys::ANY, None);
    section(&mut out, 3, "Leaves", &keys::LEAF, None);
    section(&mut out, 3, "Scopes", &keys::SCOPE, None);
    out.push_str("## Kinds of steps\n\nA step has the key of one kind.\n\n");
    for kind in keys::KINDS {
        kind_section(&mut out, kind);
    }
    out.push_str("## Parts\n\nMaps below keys.\n\n");
    let of_step = |table: &&Table| {
        [&keys::FLOW, &keys::ANY, &keys::LEAF, &keys::SCOPE]
            .iter()
            .any(|known| std::ptr::eq(*known, *table))
            || keys::KINDS
                .iter()
                .any(|kind| std::ptr::eq(kind.table, *table))
    };
    for table in keys::tables().into_iter().filter(|table| !of_step(table)) {
        section(&mut out, 3, &format!("`{}`", table.name), table, None);
    }
    out.push_str("## Types\n\n");
    out.push_str(&types());
    out.push_str("## Durations, counts and sizes\n\n");
    out.push_str(UNITS);
    names_section(&mut out);
    out
}

/// Durations and the like, as they are written.
const UNITS: &str = "A duration is a number and a unit, `500ms`, `30s`, `5m`, `1h30m`, `2d`, `1w`; a bare number has no meaning, also in \
    `wait: 5`, and is refused with the unit to write. What a template works out for `wait` may be a number: of seconds. A count is `500`, \
    `200k` or `1.5M`; a size `512MiB` or `1GB`; a share `5%`.\n\n";

/// How types are written, in Markdown.
pub fn types() -> String {
    let basic: Vec<String> = BASIC.iter().map(|name| format!("`{name}`")).collect();
    let formats: Vec<String> = FORMATS.iter().map(|name| format!("`{name}`")).collect();
    let mut out = String::from(
        "A type stands in `input`, `returns`, `form`, `signals`, `types` and in the `schema` of a gate. In these places a map is \
         fields; a map within fields is a JSON Schema.\n\n| type | written as |\n|---|---|\n",
    );
    let _ = writeln!(out, "| basic | {} |", basic.join(", "));
    for (what, written) in [
        ("list", "`[string]`, `[Reply]`"),
        (
            "record",
            "`{ reply: string, tags: [string] }`; no other fields may be there",
        ),
        (
            "optional",
            "`string \\| null`: an absent field is then null",
        ),
        (
            "default",
            "`{ type: integer, default: 3 }`: the field may be left out",
        ),
        ("one of some values", "`{ enum: [billing, tech] }`"),
        ("one of some types", "`integer \\| string`"),
        (
            "named",
            "`Reply`, an entry of `types:`, which may name itself: `{ types: { Tree: { left: Tree \\| null } } }`",
        ),
        (
            "constrained",
            "`{ type: integer, minimum: 0, maximum: 9 }`, `{ type: string, minLength: 1, maxLength: 80 }`, `{ type: string, pattern: \"^[A-Z]+$\" }`, `{ type: array, items: string, minItems: 1, uniqueItems: true }`",
        ),
        ("text in a format", "`{ type: string, format: date }`"),
        (
            "described",
            "`{ type: string, description: One sentence. }`: models and people are told",
        ),
        (
            "schema of a file",
            "`{ $ref: reply.json }`, `{ $ref: all.json#/reply }`",
        ),
        (
            "whole JSON Schema",
            "a map with a key that begins with `$`: `{ $schema: https://json-schema.org/draft/2020-12/schema, type: object }`",
        ),
    ] {
        let _ = writeln!(out, "| {what} | {written} |");
    }
    let _ = write!(
        out,
        "\nThe formats that are held are {}. Any other is refused (RV0301).\n\n",
        formats.join(", ")
    );
    out
}

/// What of the language has this name: every key with its entry, every part and every kind but those that [`kind`] tells.
/// `type` is how types are written.
pub fn entry(name: &str) -> Option<String> {
    if matches!(name, "type" | "types") {
        return Some(types());
    }
    let mut out = String::new();
    let mut parts: Vec<&'static Table> = Vec::new();
    for table in keys::tables() {
        let found = table.keys.iter().filter(|key| key.name == name);
        for key in found {
            let _ = write!(
                out,
                "In {}: {} It takes {}, as in\n\n```yaml\n{}: {}\n```\n\n",
                place(table),
                key.doc,
                takes(key.takes),
                key.name,
                key.example
            );
            parts.extend(key.takes.tables());
        }
        if table.name == name {
            parts.push(table);
        }
    }
    let mut told: Vec<*const Table> = Vec::new();
    for part in parts {
        if !told.contains(&std::ptr::from_ref(part)) {
            told.push(part);
            section(&mut out, 4, &format!("Keys of {}", place(part)), part, None);
        }
    }
    (!out.is_empty()).then_some(out)
}

/// The names that [`entry`] tells about, each once.
pub fn entries() -> Vec<&'static str> {
    let mut names = vec!["type"];
    for table in keys::tables() {
        names.extend(table.keys.iter().map(|key| key.name));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// The keys of every place, for the page of the code of unknown keys.
pub fn all_keys() -> String {
    let mut out = String::new();
    for table in keys::tables() {
        let keys: Vec<String> = table
            .keys
            .iter()
            .map(|key| format!("`{}`", key.name))
            .collect();
        let _ = writeln!(out, "* {}: {}", place(table), keys.join(", "));
    }
    out
}

/// A code's page, with what it promises to list.
pub fn page(entry: &codes::Entry) -> String {
    let mut page = entry.page.trim_end().to_owned();
    page.push('\n');
    if entry.code == codes::UNKNOWN_KEY {
        let _ = write!(page, "\n## The keys\n\n{}", all_keys());
    }
    page
}

/// A table in a sentence.
fn place(table: &Table) -> String {
    let common = [
        (&keys::ANY, "any step"),
        (&keys::LEAF, "leaves"),
        (&keys::SCOPE, "scopes"),
    ];
    if let Some((_, name)) = common.iter().find(|(known, _)| std::ptr::eq(*known, table)) {
        return (*name).to_owned();
    }
    if table.name.contains(' ') {
        return table.name.to_owned();
    }
    let is_kind = keys::KINDS
        .iter()
        .any(|kind| std::ptr::eq(kind.table, table));
    if is_kind {
        format!("a `{}` step", table.name)
    } else {
        format!("the map of `{}`", table.name)
    }
}

/// One kind of step in Markdown, for `ravel explain KIND`.
pub fn kind(name: &str) -> Option<String> {
    let kind = keys::KINDS.iter().find(|kind| kind.name == name)?;
    let mut out = String::new();
    kind_section(&mut out, kind);
    let common = if kind.leaf { &keys::LEAF } else { &keys::SCOPE };
    section(
        &mut out,
        4,
        if kind.leaf {
            "Keys of leaves"
        } else {
            "Keys of scopes"
        },
        common,
        None,
    );
    section(&mut out, 4, "Keys of any step", &keys::ANY, None);
    Some(out)
}

/// How names are spelt.
const NAMES: &str = "\
Steps, items (`as`) and signals are called by lower-case letters, digits and `_`, a letter first: `draft_2`. A step or item \
has no name that another one in sight of it has. Flows are never read by expressions: their names may also have upper-case \
letters, `-` and `.`, as in `send-mail`. Types are called by letters, digits and `_`, no digit first, and not as a basic type.";

/// Names of the kinds of steps.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    keys::KINDS.iter().map(|kind| kind.name)
}

/// The codes of diagnostics in Markdown, page after page.
pub fn errors() -> String {
    let mut out = String::from(
        "# Errors of the checker\n\nEach has its own page: `ravel explain RV0102`.\n\n| code | what |\n|---|---|\n",
    );
    for entry in codes::TABLE {
        let _ = writeln!(out, "| [{0}](#{0}) | {1} |", entry.code, entry.title);
    }
    for entry in codes::TABLE {
        let page = page(entry)
            .replacen("# ", "## ", 1)
            .replace("\n## ", "\n### ");
        let page = page.replacen("### ", "## ", usize::from(page.starts_with("### ")));
        let _ = write!(out, "\n<a id=\"{}\"></a>\n\n{page}", entry.code);
    }
    out
}

fn kind_section(out: &mut String, kind: &Kind) {
    let title = format!("`{}`", kind.name);
    let note = (!kind.available).then_some("Not available in this version.");
    section(out, 3, &title, kind.table, note);
    let _ = write!(out, "```yaml\nmy_step: {}\n```\n\n", kind.example);
}

fn section(out: &mut String, level: usize, title: &str, table: &Table, note: Option<&str>) {
    let _ = write!(out, "{} {title}\n\n{}\n\n", "#".repeat(level), table.doc);
    if let Some(note) = note {
        let _ = write!(out, "{note}\n\n");
    }
    out.push_str("| key | takes | what for | example |\n|---|---|---|---|\n");
    for key in table.keys {
        let required = if table.required.contains(&key.name) {
            " (required)"
        } else {
            ""
        };
        let cell = |text: &str| text.replace('|', "\\|");
        let _ = writeln!(
            out,
            "| `{}`{required} | {} | {} | `{}` |",
            key.name,
            cell(&takes(key.takes)),
            cell(key.doc),
            cell(key.example)
        );
    }
    out.push('\n');
}

fn names_section(out: &mut String) {
    let reserved: Vec<String> = RESERVED.iter().map(|word| format!("`{word}`")).collect();
    let _ = write!(
        out,
        "## Names\n\n{NAMES}\n\nWords that no step or item may be called: {}.\n\n",
        reserved.join(", ")
    );
    let classes: Vec<String> = ErrorClass::ALL
        .iter()
        .map(|class| format!("`{class}`"))
        .collect();
    let _ = write!(out, "## Error classes\n\n{}.\n", classes.join(", "));
}

fn takes(what: Takes) -> String {
    match what {
        Takes::Text => "text with `{{ }}`, or `{file, with}`".to_owned(),
        Takes::Plain => "text".to_owned(),
        Takes::Condition => "a condition".to_owned(),
        Takes::Expression => "an expression".to_owned(),
        Takes::Value => "a value with `{{ }}`".to_owned(),
        Takes::Scalar => "text with `{{ }}`".to_owned(),
        Takes::List => "a list".to_owned(),
        Takes::Values => "names to values".to_owned(),
        Takes::Name => "a name".to_owned(),
        Takes::Names => "a name, or a list of names".to_owned(),
        Takes::Texts => "text, or a list of texts".to_owned(),
        Takes::PlainMap => "names to texts".to_owned(),
        Takes::Integer { min, max: i64::MAX } => format!("a whole number from {min}"),
        Takes::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Takes::Number { min, max } => format!("a number from {min} to {max}"),
        Takes::Boolean => "`true` or `false`".to_owned(),
        Takes::Duration => "a duration".to_owned(),
        Takes::DurationRange => "two durations".to_owned(),
        Takes::Count => "a count".to_owned(),
        Takes::Bytes => "a size".to_owned(),
        Takes::Tolerance => "a share, or a number".to_owned(),
        Takes::Choice(words) => words
            .iter()
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", "),
        Takes::Errors => "error classes".to_owned(),
        Takes::ExitCodes => "exit codes".to_owned(),
        Takes::Type => "a type".to_owned(),
        Takes::Fields => "fields with their types".to_owned(),
        Takes::Types => "names to types".to_owned(),
        Takes::Steps => "steps: a map, or a list".to_owned(),
        Takes::StepMap => "a map of steps".to_owned(),
        Takes::Step => "a step".to_owned(),
        Takes::Overlays => "keys of a step, or a list of such".to_owned(),
        Takes::Cases => "values to steps".to_owned(),
        Takes::Flows => "names to paths or flows".to_owned(),
        Takes::Map(table) => format!("the keys of `{}`", table.name),
        Takes::Maps(table) => format!("the keys of `{}`, or a list of such", table.name),
        Takes::Either(choices) => {
            let mut words: Vec<String> = choices.iter().map(|choice| takes(*choice)).collect();
            words.dedup();
            words.join("; or ")
        }
        Takes::Defaults => "kinds to their keys".to_owned(),
        Takes::Any => "see the text".to_owned(),
    }
}
