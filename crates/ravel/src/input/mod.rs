//! Values that people type: `-i ticket=…`, `ok=true`, `--input @file.json`, held to a JSON Schema as they are read.

mod ask;
mod schema;

use std::io::Read as _;
use std::path::Path;

use ravel_core::expr::exact_json;
use serde_json::{Map, Value};

pub(crate) use ask::{Dialog, Taken, ask};
pub(crate) use schema::{describe, fields, sample, sample_value};

use crate::error::{Error, Result, nearest};

/// Most bytes taken from a file or from stdin.
pub(crate) const INPUT_BYTES_MAX: u64 = 64 << 20;

/// Reads `--input`: `@file.json`, `-` (stdin), or JSON itself. It must be an object.
pub(crate) fn whole(argument: &str) -> Result<Map<String, Value>> {
    let (text, name) = if argument == "-" {
        (
            read_limited(&mut std::io::stdin(), "stdin")?,
            "stdin".to_owned(),
        )
    } else if let Some(path) = argument.strip_prefix('@') {
        (read_file(Path::new(path))?, path.to_owned())
    } else {
        (argument.to_owned(), "--input".to_owned())
    };
    match exact_json(&text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(other) => Err(Error::usage(format!(
            "the input in {name} is {}, not an object",
            kind(&other)
        ))),
        Err(error) => Err(Error::usage(format!("{name} holds no JSON"))
            .because(error)
            .maybe_hint((!argument.starts_with(['@', '-', '{', '[', '"'])).then(|| {
                format!("for one field write -i {argument}; for a file write --input @{argument}")
            }))),
    }
}

/// Reads `name=text`, `name=@file` and `name:=json` pairs into an object, each typed by its field of `schema`.
pub(crate) fn pairs(arguments: &[String], schema: &Value) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    for argument in arguments {
        let (name, value) = pair(argument, schema)?;
        if map.insert(name.clone(), value).is_some() {
            return Err(Error::usage(format!("`{name}` is given twice")));
        }
    }
    Ok(map)
}

fn pair(argument: &str, root: &Value) -> Result<(String, Value)> {
    let Some((left, right)) = argument.split_once('=') else {
        return Err(Error::usage(format!("`{argument}` has no `=`"))
            .hint("write name=value, name=@file or name:=json"));
    };
    let (name, json) = left
        .strip_suffix(':')
        .map_or((left, false), |name| (name, true));
    let known = fields(root);
    let Some(field) = known.iter().find(|field| field.name == name) else {
        if schema::is_open(root) {
            return Ok((
                name.to_owned(),
                if json {
                    parse(name, right)?
                } else {
                    loose(&text_of(right)?)
                },
            ));
        }
        let names: Vec<&str> = known.iter().map(|field| field.name).collect();
        let error = Error::usage(format!("there is no field `{name}`"));
        return Err(
            match (nearest(name, names.iter().copied()), names.is_empty()) {
                (Some(near), _) => error.hint(format!("did you mean `{near}`?")),
                (None, false) => error.hint(format!("fields: {}", names.join(", "))),
                (None, true) => error.hint("nothing is asked for here"),
            },
        );
    };
    let value = if json {
        parse(name, right)?
    } else {
        typed(name, &text_of(right)?, field.schema, root)?
    };
    Ok((name.to_owned(), value))
}

/// Reads text as a value of this schema.
pub(crate) fn typed(name: &str, text: &str, wanted: &Value, root: &Value) -> Result<Value> {
    schema::coerce(text, wanted, root).ok_or_else(|| {
        Error::usage(format!(
            "`{name}` must be {}, and `{}` is not",
            describe(wanted, root),
            shortened(text)
        ))
    })
}

fn parse(name: &str, json: &str) -> Result<Value> {
    exact_json(json)
        .map_err(|error| Error::usage(format!("`{name}:=` holds no JSON")).because(error))
}

fn text_of(right: &str) -> Result<String> {
    right
        .strip_prefix('@')
        .map_or_else(|| Ok(right.to_owned()), |path| read_file(Path::new(path)))
}

/// Text for a field of which nothing is known: JSON when it is, else itself.
fn loose(text: &str) -> Value {
    exact_json(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn read_file(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path)
        .map_err(|error| Error::usage(format!("cannot read {}", path.display())).because(error))?;
    read_limited(&mut file, &path.display().to_string())
}

fn read_limited(from: &mut dyn std::io::Read, name: &str) -> Result<String> {
    let mut text = String::new();
    from.take(INPUT_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| Error::usage(format!("cannot read {name}")).because(error))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(Error::usage(format!(
            "{name} is larger than {INPUT_BYTES_MAX} bytes"
        )));
    }
    Ok(text)
}

/// The JSON kind of a value, with its article.
pub(crate) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shortened(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 40;
    crate::output::cut(text, SHOWN_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "ok": {"type": "boolean"},
                "team": {"enum": ["billing", "tech"]},
                "list": {"type": "array", "items": {"type": "integer"}},
                "words": {"type": "array", "items": {"type": "string"}},
                "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "hook": {"type": ["string", "null"]},
                "any": true,
                "person": {"$ref": "#/$defs/Person"}
            },
            "$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "additionalProperties": false
        })
    }

    fn read(arguments: &[&str]) -> std::result::Result<Value, String> {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect();
        pairs(&arguments, &schema())
            .map(Value::Object)
            .map_err(|error| {
                std::iter::once(error.to_string())
                    .chain(error.hints().iter().cloned())
                    .collect::<Vec<_>>()
                    .join(" | ")
            })
    }

    #[test]
    fn each_field_is_read_as_its_type() {
        let arguments = [
            "text=42",
            "count=42",
            "ratio=0.5",
            "ok=yes",
            "team=tech",
            "list=[1,2]",
            "words=a,b",
            "maybe=7",
            "hook=null",
            "any={\"a\":1}",
            "person={\"name\":\"Ada\"}",
        ];
        assert_eq!(
            read(&arguments),
            Ok(json!({
                "text": "42", "count": 42, "ratio": 0.5, "ok": true, "team": "tech", "list": [1, 2],
                "words": ["a", "b"], "maybe": 7, "hook": null, "any": {"a": 1}, "person": {"name": "Ada"}
            }))
        );
    }

    #[test]
    fn json_is_taken_as_it_is_for_the_run_to_check() {
        assert_eq!(
            read(&["text:=\"null\"", "count:=[1]"]),
            Ok(json!({"text": "null", "count": [1]}))
        );
    }

    #[test]
    fn wrong_texts_are_refused_with_the_type() {
        assert_eq!(
            read(&["count=many"]),
            Err("`count` must be an integer, and `many` is not".into())
        );
        assert_eq!(
            read(&["team=sales"]),
            Err("`team` must be one of billing, tech, and `sales` is not".into())
        );
        assert_eq!(
            read(&["ok=perhaps"]),
            Err("`ok` must be true or false, and `perhaps` is not".into())
        );
        assert_eq!(
            read(&["cuont=1"]),
            Err("there is no field `cuont` | did you mean `count`?".into())
        );
        assert_eq!(
            read(&["text"]),
            Err("`text` has no `=` | write name=value, name=@file or name:=json".into())
        );
        assert_eq!(
            read(&["text=a", "text=b"]),
            Err("`text` is given twice".into())
        );
    }

    #[test]
    fn an_at_sign_reads_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.txt");
        std::fs::write(&path, "two\nlines\n").unwrap();
        assert_eq!(
            read(&[&format!("text=@{}", path.display())]),
            Ok(json!({"text": "two\nlines\n"}))
        );
    }

    #[test]
    fn whole_inputs_are_objects() {
        assert_eq!(
            whole("{\"a\": 1}").map(Value::Object).unwrap(),
            json!({"a": 1})
        );
        assert_eq!(
            whole("[1]").unwrap_err().to_string(),
            "the input in --input is a list, not an object"
        );
        assert_eq!(
            whole("a=1").unwrap_err().hints(),
            ["for one field write -i a=1; for a file write --input @a=1"]
        );
    }
}
