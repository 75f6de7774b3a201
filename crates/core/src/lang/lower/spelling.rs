//! Types as other languages spell them, for hints: `string[]`, `List[str]`, `Optional[int]`, `"a" | "b"`.

use super::types::{BASIC, split_union};
use crate::lang::diagnostic::quoted;

/// Other names of the basic types.
const ALIASES: &[(&str, &[&str])] = &[
    (
        "string",
        &[
            "str",
            "text",
            "char",
            "varchar",
            "date",
            "datetime",
            "timestamp",
            "time",
            "uuid",
            "url",
            "uri",
            "email",
            "path",
        ],
    ),
    (
        "integer",
        &[
            "int", "long", "uint", "int32", "int64", "i32", "i64", "u32", "u64",
        ],
    ),
    (
        "number",
        &[
            "float", "double", "decimal", "real", "f32", "f64", "float64",
        ],
    ),
    ("boolean", &["bool"]),
    (
        "object",
        &["dict", "map", "record", "struct", "hash", "mapping", "json"],
    ),
    (
        "[any]",
        &["list", "array", "sequence", "tuple", "set", "vec"],
    ),
    ("null", &["none", "nil", "undefined", "void"]),
    ("any", &["unknown", "mixed", "dynamic"]),
    ("file", &["blob", "attachment"]),
];
/// Generic types of one parameter that are lists.
const LISTS: &[&str] = &[
    "list",
    "array",
    "sequence",
    "set",
    "iterable",
    "vec",
    "readonlyarray",
];
/// Generic types that are objects.
const OBJECTS: &[&str] = &["dict", "map", "record", "hashmap", "mapping"];

/// How deep spellings within spellings are followed.
const DEPTH_MAX: usize = 8;

/// The type that a text means in another language, as it is written here. `is_own`: names of the flow's `types`.
pub(super) fn respelt(text: &str, is_own: &dyn Fn(&str) -> bool) -> Option<String> {
    respelt_within(text, is_own, DEPTH_MAX)
}

fn respelt_within(text: &str, is_own: &dyn Fn(&str) -> bool, depth: usize) -> Option<String> {
    let text = text.trim();
    let depth = depth.checked_sub(1)?;
    let inner = |text: &str| respelt_within(text, is_own, depth);
    if BASIC.contains(&text) || is_own(text) {
        return Some(text.to_owned());
    }
    if let Some(word) = alias(text) {
        return Some(word.to_owned());
    }
    if let Some(values) = literals(&alternatives(text)) {
        return Some(format!("{{ enum: [{values}] }}"));
    }
    let parts = alternatives(text);
    if parts.len() > 1 {
        let parts: Option<Vec<String>> = parts.iter().map(|part| inner(part)).collect();
        return parts.map(|parts| parts.join(" | "));
    }
    if let Some(of) = text.strip_suffix('?') {
        return inner(of).map(|of| format!("{of} | null"));
    }
    if let Some(item) = text.strip_suffix("[]") {
        return inner(item).map(|item| format!("[{item}]"));
    }
    for words in ["list of ", "array of "] {
        if let Some(item) = text.strip_prefix(words) {
            let item = inner(item).or_else(|| inner(item.trim_end_matches('s')));
            return item.map(|item| format!("[{item}]"));
        }
    }
    if let Some(item) = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return inner(item).map(|item| format!("[{item}]"));
    }
    let (name, parameters) = generic(text)?;
    match name.to_ascii_lowercase().as_str() {
        list if LISTS.contains(&list) => inner(parameters).map(|item| format!("[{item}]")),
        "optional" | "maybe" | "nullable" | "option" => {
            inner(parameters).map(|of| format!("{of} | null"))
        }
        object if OBJECTS.contains(&object) => Some("object".to_owned()),
        "tuple" => Some("[any]".to_owned()),
        "union" => {
            let parts: Option<Vec<String>> = parameters.split(',').map(inner).collect();
            parts.map(|parts| parts.join(" | "))
        }
        "literal" | "enum" => {
            let values: Vec<&str> = parameters.split(',').map(str::trim).collect();
            let values: Vec<String> = values.iter().map(|value| as_value(value)).collect();
            Some(format!("{{ enum: [{}] }}", values.join(", ")))
        }
        _ => None,
    }
}

fn alias(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    let basic = BASIC.iter().find(|word| **word == lower).copied();
    basic.or_else(|| {
        let found = ALIASES
            .iter()
            .find(|(_, words)| words.contains(&lower.as_str()));
        found.map(|(word, _)| *word)
    })
}

/// `a | b`, `a or b`.
fn alternatives(text: &str) -> Vec<&str> {
    let parts = split_union(text);
    if parts.len() > 1 {
        return parts;
    }
    text.split(" or ").map(str::trim).collect()
}

/// The values, when all parts are texts in quotes.
fn literals(parts: &[&str]) -> Option<String> {
    let values: Option<Vec<String>> = parts
        .iter()
        .map(|part| {
            let is_quoted = ['"', '\'']
                .iter()
                .any(|quote| part.len() > 1 && part.starts_with(*quote) && part.ends_with(*quote));
            is_quoted.then(|| as_value(part))
        })
        .collect();
    values.map(|values| values.join(", "))
}

/// A value as YAML has it: without quotes where it is a plain word.
fn as_value(text: &str) -> String {
    let bare = text.trim_matches(['"', '\'']);
    let plain = bare.starts_with(|c: char| c.is_ascii_alphabetic())
        && bare
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let ambiguous = matches!(
        crate::lang::parse_scalar(bare),
        serde_json::Value::String(_)
    );
    if plain && ambiguous {
        bare.to_owned()
    } else {
        quoted(bare)
    }
}

/// `Name<parameters>`, `Name[parameters]`, `name(parameters)`.
fn generic(text: &str) -> Option<(&str, &str)> {
    let open = text.find(['<', '[', '('])?;
    let (name, rest) = text.split_at(open);
    let close = match rest.chars().next()? {
        '<' => '>',
        '[' => ']',
        _ => ')',
    };
    let parameters = rest.get(1..)?.strip_suffix(close)?;
    let name = name.rsplit('.').next().unwrap_or(name);
    (!name.is_empty()).then_some((name, parameters))
}

#[cfg(test)]
mod tests {
    use super::respelt;

    #[test]
    fn spellings_of_other_languages_are_understood() {
        let cases = [
            ("str", "string"),
            ("String", "string"),
            ("int", "integer"),
            ("string[]", "[string]"),
            ("Array<string>", "[string]"),
            ("List[str]", "[string]"),
            ("list[dict[str, int]]", "[object]"),
            ("typing.Optional[int]", "integer | null"),
            ("string?", "string | null"),
            ("Reply[] | undefined", "[Reply] | null"),
            ("Union[int, None]", "integer | null"),
            ("string or null", "string | null"),
            ("list of strings", "[string]"),
            ("Record<string, number>", "object"),
            ("'low' | 'high'", "{ enum: [low, high] }"),
            ("Literal[\"on\", \"b c\"]", "{ enum: [on, \"b c\"] }"),
            ("array", "[any]"),
        ];
        for (text, expected) in cases {
            let found = respelt(text, &|name| name == "Reply");
            assert_eq!(found.as_deref(), Some(expected), "{text}");
        }
        assert_eq!(respelt("strin", &|_| false), None);
    }
}
