//! One source of configuration: a file, the environment or the command line, read into entries with positions.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde_json::{Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, Known, Shape};
use crate::error::nearest;

/// Largest `ravel.toml`, bytes.
pub(crate) const CONFIG_FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `ravel.toml` of the user or the project.
    File {
        path: PathBuf,
        /// 1-based.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// `--config` or an option of its own on the command line.
    CommandLine(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "${name}"),
            Self::CommandLine(option) => f.write_str(option),
        }
    }
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) path: Vec<String>,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// A mistake in a source, rendered with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) label: String,
    pub(crate) hint: Option<String>,
    pub(crate) span: Range<usize>,
}

impl Problem {
    fn new(span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            label: label.into(),
            hint: None,
            span,
        }
    }

    /// The problem with the lines that it is in.
    pub(crate) fn render(&self, name: &str, text: &str, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let title = Level::ERROR.primary_title(self.message.as_str());
        let snippet = Snippet::source(text).path(name).annotation(
            AnnotationKind::Primary
                .span(self.span.clone())
                .label(self.label.as_str()),
        );
        let mut group = title.element(snippet);
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.with_name("hint").message(hint.as_str()));
        }
        renderer.decor_style(DecorStyle::Ascii).render(&[group])
    }
}

/// Reads the text of a `ravel.toml`.
pub(crate) fn from_toml(path: &Path, text: &str) -> Result<Vec<Entry>, Vec<Problem>> {
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        vec![Problem::new(
            span,
            format!("this is no TOML: {}", error.message()),
            "here",
        )]
    })?;
    let mut reader = Reader {
        file: path,
        text,
        entries: Vec::new(),
        problems: Vec::new(),
    };
    reader.table(&mut Vec::new(), table.get_ref());
    reader.problems.sort_by_key(|problem| problem.span.start);
    if reader.problems.is_empty() {
        Ok(reader.entries)
    } else {
        Err(reader.problems)
    }
}

/// Reads one `KEY=VALUE`; the value is TOML, or text when it is not.
pub(crate) fn from_assignment(key: &str, value: &str, origin: Origin) -> Result<Entry, String> {
    let path: Vec<String> = key
        .split('.')
        .map(|segment| segment.trim_matches('"').to_owned())
        .collect();
    let Known::Key(known) = keys::find(&path) else {
        let near = nearest(key, keys::KEYS.iter().map(|key| key.pattern));
        let hint = near
            .map(|near| format!(" (did you mean `{near}`?)"))
            .unwrap_or_default();
        return Err(format!("`{key}` is no key of the configuration{hint}"));
    };
    let parsed = DeValue::parse(value)
        .ok()
        .and_then(|value| to_json(value.get_ref()));
    let value = match (known.shape, parsed) {
        (Shape::Text | Shape::Path, Some(Value::String(text))) => Value::String(text),
        (Shape::Text | Shape::Path, _) | (_, None) => Value::String(value.to_owned()),
        (_, Some(parsed)) => parsed,
    };
    if !known.shape.fits(&value) {
        return Err(format!("`{key}` must be {}", known.shape.name()));
    }
    Ok(Entry {
        path,
        value,
        origin,
    })
}

struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn table(&mut self, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            match (keys::find(path), value.get_ref()) {
                (Known::Key(known), DeValue::Table(inner))
                    if known.shape != Shape::Anything && keys::has_below(path) =>
                {
                    self.table(path, inner);
                }
                (Known::Key(known), _) => self.value(path, known.shape, value),
                (Known::Table, DeValue::Table(inner)) => self.table(path, inner),
                (Known::Table, other) => {
                    let message = format!("`{}` must be a table", path.join("."));
                    let label = format!("this is {}", article(other.type_str()));
                    self.problems
                        .push(Problem::new(value.span(), message, label));
                }
                (Known::Unknown, _) => self.unknown(path, key.span()),
            }
            path.pop();
        }
    }

    fn value(&mut self, path: &[String], shape: Shape, value: &Spanned<DeValue<'_>>) {
        match to_json(value.get_ref()) {
            Some(json) if shape.fits(&json) => self.entries.push(Entry {
                path: path.to_vec(),
                value: json,
                origin: Origin::File {
                    path: self.file.to_owned(),
                    line: line_of(self.text, value.span().start),
                },
            }),
            Some(_) | None => {
                let message = format!("`{}` must be {}", path.join("."), shape.name());
                let label = format!("this is {}", article(value.get_ref().type_str()));
                self.problems
                    .push(Problem::new(value.span(), message, label));
            }
        }
    }

    fn unknown(&mut self, path: &[String], span: Range<usize>) {
        let (name, prefix) = path.split_last().expect("a key has a name");
        let known = keys::names_after(prefix);
        let place = if prefix.is_empty() {
            "ravel.toml".to_owned()
        } else {
            format!("[{}]", prefix.join("."))
        };
        let mut problem = Problem::new(
            span,
            format!("unknown key `{name}` in {place}"),
            "not known",
        );
        problem.hint = nearest(name, known.iter().copied())
            .map(|near| format!("did you mean `{near}`?"))
            .or_else(|| (!known.is_empty()).then(|| format!("known here: {}", known.join(", "))));
        self.problems.push(problem);
    }
}

/// A TOML value as JSON; times become text. `None`: a number that JSON cannot hold.
fn to_json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            Value::from(i64::from_str_radix(number.as_str(), number.radix()).ok()?)
        }
        DeValue::Float(number) => Value::Number(Number::from_f64(number.as_str().parse().ok()?)?),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(list) => Value::Array(
            list.iter()
                .map(|item| to_json(item.get_ref()))
                .collect::<Option<_>>()?,
        ),
        DeValue::Table(table) => Value::Object(
            table
                .iter()
                .map(|(key, item)| Some((key.get_ref().to_string(), to_json(item.get_ref())?)))
                .collect::<Option<_>>()?,
        ),
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

fn article(word: &str) -> String {
    let vowel = word.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {word}", if vowel { "an" } else { "a" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> String {
        let problems = from_toml(Path::new("ravel.toml"), text).expect_err("the file has mistakes");
        problems
            .iter()
            .map(|problem| problem.render("ravel.toml", text, false))
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    #[test]
    fn entries_know_their_lines() {
        let text = "[providers.local]\nurl = \"http://x/v1\"\n\n[models]\nfast = \"local/m\"\n";
        let entries = from_toml(Path::new("r.toml"), text).expect("the file is fine");
        let seen: Vec<(String, String)> = entries
            .iter()
            .map(|entry| (entry.path.join("."), entry.origin.to_string()))
            .collect();
        assert_eq!(
            seen,
            [
                ("models.fast", "r.toml:5"),
                ("providers.local.url", "r.toml:2")
            ]
            .map(|(path, origin)| (path.to_owned(), origin.to_owned()))
        );
    }

    #[test]
    fn unknown_keys_are_shown_with_the_nearest_name() {
        insta::assert_snapshot!(problems(
            "[store]\npth = \"x\"\n[provider.a]\nurl = \"y\"\n"
        ));
    }

    #[test]
    fn wrong_shapes_are_shown() {
        insta::assert_snapshot!(problems(
            "store = 3\n[providers.a]\nquirks.stream = \"many\"\n"
        ));
    }

    #[test]
    fn broken_toml_is_shown_where_it_breaks() {
        insta::assert_snapshot!(problems("[store\npath = 1"));
    }

    #[test]
    fn assignments_are_typed_by_the_key() {
        let read = |key: &str, value: &str| {
            from_assignment(key, value, Origin::CommandLine("--config")).map(|entry| entry.value)
        };
        assert_eq!(read("limits.queue_messages", "4"), Ok(Value::from(4)));
        assert_eq!(read("models.fast", "4"), Ok(Value::from("4")));
        assert_eq!(read("models.fast", "\"a/b\""), Ok(Value::from("a/b")));
        assert_eq!(
            read("limits.queue_messages", "x"),
            Err("`limits.queue_messages` must be a whole number".into())
        );
        assert_eq!(
            read("store.pat", "x"),
            Err("`store.pat` is no key of the configuration (did you mean `store.path`?)".into())
        );
    }
}
