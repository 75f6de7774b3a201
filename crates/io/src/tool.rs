//! Tools: named operations with a schema for what goes in, one for what comes out, and a stated effect.
//!
//! A tool is a [`Tool`] constant in a file of its namespace and one line in `TOOLS`. Arguments are held to the
//! schema before a tool sees them, so a tool reads fields without doubt.

mod csv;
pub mod debug;
mod docs;
pub mod file;
pub mod http;
mod json;
pub mod text;

use std::collections::HashMap;
use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use ravel_core::effect::{Effect, ErrorClass, Failure, Fate, Outcome};
use ravel_core::lang::{ArgumentRule, CheckArguments, ToolInfo, WrongArgument};
use ravel_core::port::Job;
use ravel_core::types::{Type, Violation};
use ravel_core::value::Val;
use serde_json::Value;

use crate::abort::Abort;
use crate::files::Files;
use crate::jail::Jail;
use crate::model::transport::Transport;
use crate::secret::{self, Secrets};

pub use docs::reference;

/// Largest result that a tool computes from its arguments, bytes. Small arguments can ask for very much: without a limit
/// a single `text.replace` would take the whole engine along.
pub const RESULT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What each value in a result weighs besides its text, bytes.
const VALUE_BYTES: usize = 64;

/// Every built-in tool: one line each.
static TOOLS: &[&Tool] = &[
    &csv::FORMAT,
    &csv::PARSE,
    &debug::COUNT,
    &debug::ECHO,
    &debug::FAIL,
    &debug::SLEEP,
    &file::APPEND,
    &file::DELETE,
    &file::EXISTS,
    &file::LIST,
    &file::READ,
    &file::WRITE,
    &http::DELETE,
    &http::GET,
    &http::HEAD,
    &http::PATCH,
    &http::POST,
    &http::PUT,
    &json::DIFF,
    &json::FORMAT,
    &json::MERGE,
    &json::PARSE,
    &json::QUERY,
    &text::CHUNK,
    &text::LINES,
    &text::MATCH,
    &text::REPLACE,
    &text::SPLIT,
];

/// A tool.
#[derive(Debug)]
pub struct Tool {
    /// `namespace.verb`.
    pub name: &'static str,
    /// What it does, for people and models.
    pub doc: &'static str,
    /// What it does to the world.
    pub effect: Effect,
    /// JSON Schema of its arguments.
    pub input: fn() -> Value,
    /// JSON Schema of its result.
    pub output: fn() -> Value,
    /// Arguments that work, as JSON.
    pub example: &'static str,
    /// What it knows of arguments beyond the schema: said when a flow that writes them out is checked.
    pub(crate) rule: Option<CheckArguments>,
    pub(crate) call: Call,
}

/// A failure of the arguments, as a rule tells it.
pub(crate) fn wrong(field: Option<&'static str>, failure: &Failure) -> WrongArgument {
    WrongArgument {
        field,
        message: failure.message.to_string(),
    }
}

/// How a tool is carried out.
pub(crate) enum Call {
    /// Computed at once on the caller's thread: no I/O, nothing that waits.
    Inline(fn(&Value) -> Result<Value, Failure>),
    /// A task of its own.
    Task(for<'a> fn(&'a Context, Ask<'a>) -> BoxFuture<'a, Outcome>),
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Inline(_) => "Inline",
            Self::Task(_) => "Task",
        })
    }
}

/// What tools have in common.
#[derive(Debug)]
pub(crate) struct Context {
    /// Secrets, for headers.
    pub(crate) secrets: Secrets,
    /// Connections.
    pub(crate) transport: Transport,
    /// Result files.
    pub(crate) files: Files,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    /// The attempt.
    pub(crate) job: &'a Job,
    /// Checked arguments.
    pub(crate) input: &'a Value,
    /// The folder that `file.*` works in.
    pub(crate) jail: &'a Jail,
    /// Stops it.
    pub(crate) abort: &'a Abort,
}

/// All tools, in order of their names.
#[must_use]
pub fn all() -> &'static [&'static Tool] {
    TOOLS
}

/// The tool with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Tool> {
    static INDEX: LazyLock<HashMap<&'static str, &'static Tool>> =
        LazyLock::new(|| TOOLS.iter().map(|tool| (tool.name, *tool)).collect());
    INDEX.get(name).copied()
}

/// Where secrets may stand in a tool's arguments.
const HEADERS: &str = "headers";

impl Tool {
    /// The arguments as the tool wants them, defaults filled in; or what is wrong with them.
    ///
    /// # Errors
    /// `invalid_input` that names each field.
    pub(crate) fn check(&self, input: &Val) -> Result<Val, Failure> {
        let fields = input.json().as_object();
        let marked =
            |(name, field): (&String, &Value)| name != HEADERS && secret::value_has_mark(field);
        if fields.is_some_and(|fields| fields.iter().any(marked)) {
            return Err(secret::misplaced("`with`"));
        }
        let Some(info) = CATALOG.get(self.name) else {
            return Err(Failure::new(
                ErrorClass::Internal,
                format!("`{}` has no valid schema", self.name),
            ));
        };
        info.input.accepts(input).map_err(|violations| {
            let problems: Vec<String> = violations.iter().take(PROBLEMS_MAX).map(problem).collect();
            let text = format!(
                "the arguments of `{}` are not right: {}",
                self.name,
                problems.join("; ")
            );
            Failure::new(ErrorClass::InvalidInput, text).with_code("bad_arguments")
        })
    }
}

/// Most problems named in one failure.
const PROBLEMS_MAX: usize = 5;

fn problem(violation: &Violation) -> String {
    let place = violation.pointer.trim_start_matches('/').replace('/', ".");
    if place.is_empty() {
        violation.message.clone()
    } else {
        format!("{place}: {}", violation.message)
    }
}

static CATALOG: LazyLock<IndexMap<String, ToolInfo>> = LazyLock::new(|| {
    let info = |tool: &&'static Tool| {
        let input = Type::from_schema((tool.input)()).ok()?;
        let output = Type::from_schema((tool.output)()).ok()?;
        Some((
            tool.name.to_owned(),
            ToolInfo {
                input,
                output,
                effect: tool.effect,
                rule: ArgumentRule(tool.rule),
            },
        ))
    };
    TOOLS.iter().filter_map(info).collect()
});

/// All tools as the checker of flows wants them.
#[must_use]
pub fn catalog() -> IndexMap<String, ToolInfo> {
    CATALOG.clone()
}

/// A failure and what is known about the effect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    fate: Fate,
    failure: Failure,
}

impl Fault {
    /// Nothing happened.
    pub(crate) const fn not_done(failure: Failure) -> Self {
        Self {
            fate: Fate::NotDone,
            failure,
        }
    }

    /// It happened, and the result is a failure.
    pub(crate) const fn done(failure: Failure) -> Self {
        Self {
            fate: Fate::Done,
            failure,
        }
    }

    /// The same, for another reason.
    pub(crate) fn because(self, failure: Failure) -> Self {
        Self { failure, ..self }
    }

    /// It may have happened.
    pub(crate) const fn unknown(failure: Failure) -> Self {
        Self {
            fate: Fate::Unknown,
            failure,
        }
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        match fault.fate {
            Fate::Done => Self::done_with(fault.failure),
            Fate::NotDone => Self::not_done(fault.failure),
            Fate::Unknown => Self::unknown(fault.failure),
        }
    }
}

/// A failure of a tool that changed nothing.
pub(crate) fn invalid(text: impl Into<String>) -> Failure {
    Failure::new(ErrorClass::InvalidInput, text.into())
}

/// The room that is left for a result.
#[derive(Debug)]
pub(crate) struct Room(usize);

impl Room {
    pub(crate) const fn new() -> Self {
        Self(RESULT_BYTES_MAX)
    }

    /// Takes room for a value with so much text.
    pub(crate) fn take(&mut self, text_bytes: usize) -> Result<(), Failure> {
        match self.0.checked_sub(text_bytes.saturating_add(VALUE_BYTES)) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(no_room()),
        }
    }
}

/// Text that is written up to the limit of a result.
#[derive(Debug, Default)]
pub(crate) struct Written(Vec<u8>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > RESULT_BYTES_MAX - self.0.len() {
            return Err(std::io::Error::other(no_room().message.to_string()));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Written {
    pub(crate) fn into_text(self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// The failure of a result that is too large.
pub(crate) fn no_room() -> Failure {
    let text =
        format!("the result would be larger than {RESULT_BYTES_MAX} bytes; work on smaller pieces");
    Failure::new(ErrorClass::InvalidOutput, text).with_code("too_large")
}

/// A text argument. Present and text by the schema, or empty.
pub(crate) fn text_of<'a>(input: &'a Value, field: &str) -> &'a str {
    input.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A yes or no with its default.
pub(crate) fn flag_of(input: &Value, field: &str, default: bool) -> bool {
    input.get(field).and_then(Value::as_bool).unwrap_or(default)
}

/// A whole number with its default. `1e6` is a whole number, too.
pub(crate) fn number_of(input: &Value, field: &str, default: u64) -> u64 {
    let whole = |number: f64| number.fract() == 0.0 && number >= 0.0;
    let given = input.get(field).and_then(|value| {
        let float = || value.as_f64().filter(|number| whole(*number));
        value
            .as_u64()
            .or_else(|| float().map(|number| number as u64))
    });
    given.unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_sorted_documented_and_their_examples_fit_their_schemas() {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
        assert_eq!(
            catalog().keys().map(String::as_str).collect::<Vec<_>>(),
            names
        );
        for tool in TOOLS {
            assert!(tool.doc.ends_with('.'), "{}", tool.name);
            let example: Value = serde_json::from_str(tool.example).unwrap();
            let input = tool.check(&example.into()).unwrap();
            if let Call::Inline(call) = tool.call {
                let output = call(input.json()).unwrap();
                catalog()[tool.name].output.accepts(&output.into()).unwrap();
            }
        }
    }

    /// Whether every object of a schema that lists fields says that there are no others.
    fn is_closed(schema: &Value) -> bool {
        match schema {
            Value::Object(map) => {
                let fields = map.get("properties").and_then(Value::as_object);
                let open = fields.is_some_and(|fields| !fields.contains_key("$file"))
                    && map.get("additionalProperties") != Some(&Value::Bool(false));
                !open && map.values().all(is_closed)
            }
            Value::Array(items) => items.iter().all(is_closed),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    #[test]
    fn a_result_with_fields_has_no_others_so_that_a_misspelt_one_is_found() {
        let open: Vec<&str> = TOOLS
            .iter()
            .filter(|tool| !is_closed(&(tool.output)()))
            .map(|tool| tool.name)
            .collect();
        assert_eq!(open, Vec::<&str>::new());
    }

    /// What the checker says of a flow: each message, and its hint.
    fn said(flow: &str) -> Vec<String> {
        use ravel_core::lang::{Bundle, Catalog, TextLimits};
        let files = std::collections::BTreeMap::from([("flow.yaml".to_owned(), flow.to_owned())]);
        let known = Catalog {
            tools: Some(catalog()),
            folder: Some("/home/ada/flows".to_owned()),
            ..Catalog::default()
        };
        let bundle = Bundle::load("flow.yaml", &files, Some(known), &TextLimits::default());
        bundle
            .unwrap()
            .check()
            .diagnostics
            .into_iter()
            .map(|found| match found.hint {
                Some(hint) => format!("{} ({hint})", found.message),
                None => found.message,
            })
            .collect()
    }

    #[test]
    fn a_field_that_a_tool_never_returns_is_found_before_the_run() {
        let flow = r#"
steps:
  got: { tool: http.get, with: { url: "https://example.org" } }
  notes: { tool: file.read, with: { path: notes.md } }
  found: { tool: text.match, with: { text: a, pattern: a } }
  changes: { tool: json.diff, with: { from: 1, to: 2 } }
  parsed: { tool: json.parse, with: { text: "{}" } }
  all:
    set:
      - "{{ got.bdy }} {{ got.statos }} {{ got.headers.anything }} {{ got.json.anything }}"
      - "{{ notes.content }} {{ notes.text }}"
      - "{{ found.matches[0].group }} {{ found.matches[0].named.anything }}"
      - "{{ changes.changes[0].old }}"
      - "{{ parsed.anything }}"
"#;
        assert_eq!(
            said(flow),
            [
                "step `all` reads `got.bdy`, but `got` returns `status`, `headers`, `json`, `text` and `file` (did you mean `{{ got.json }}` or `{{ got.text }}`?)",
                "step `all` reads `got.statos`, but `got` returns `status`, `headers`, `json`, `text` and `file` (did you mean `{{ got.status }}`?)",
                "step `all` reads `notes.content`, but `notes` returns `text`, `json`, `file` and `bytes` (did you mean `{{ notes.text }}` or `{{ notes.json }}`?)",
                "step `all` reads `found.matches[0].group`, but `found.matches[0]` has `text`, `at`, `groups` and `named` (did you mean `{{ found.matches[0].groups }}`?)",
                "step `all` reads `changes.changes[0].old`, but `changes.changes[0]` has `op`, `path`, `value` and `was`",
            ]
        );
    }

    #[test]
    fn arguments_that_can_never_work_are_found_before_the_run() {
        let flow = r#"
input: { path: string, text: string }
steps:
  outside: { tool: file.read, with: { path: ../x } }
  beside: { tool: file.exists, with: { path: ./../x } }
  absolute: { tool: file.write, with: { path: /etc/passwd, text: "{{ input.text }}" } }
  nothing: { tool: file.write, with: { path: x } }
  nowhere: { tool: file.read }
  listed: { tool: file.list, with: { glob: "a[" } }
  twice: { tool: http.post, with: { url: "https://example.org", json: "{{ input.text }}", text: a } }
  address: { tool: http.get, with: { url: "https://" } }
  header: { tool: http.get, with: { url: "https://example.org", headers: { "a b": c } } }
  pattern: { tool: text.match, with: { text: "{{ input.text }}", pattern: "(" } }
  replaced: { tool: text.replace, with: { text: a, find: "(", with: b, regex: true } }
  pieces: { tool: text.chunk, with: { text: a, size: 2, overlap: 2 } }
  about: { tool: text.lines, text: a }
"#;
        let outside = "leads out of the folder of the run (that of its flow file)";
        assert_eq!(
            said(flow),
            [
                format!("`../x` {outside}"),
                format!("`./../x` {outside}"),
                format!("`/etc/passwd` {outside}"),
                "exactly one of these is needed: text, json, file".to_owned(),
                "exactly one of these is needed: path, file".to_owned(),
                "glob: error parsing glob 'a[': unclosed character class; missing ']'".to_owned(),
                "a request has one body: `json`, `text` or `form`".to_owned(),
                "url: `https://` is not valid: empty host".to_owned(),
                "headers: \"a b\" is not the name of a header".to_owned(),
                "the pattern is not right: unclosed group".to_owned(),
                "the pattern is not right: unclosed group".to_owned(),
                "`overlap` (2) must be smaller than `size` (2)".to_owned(),
                "`text` is an argument of the tool, and stands beside it (arguments stand under `with`: `with: { text: … }`)".to_owned(),
            ]
        );
    }

    #[test]
    fn arguments_that_may_work_pass() {
        let flow = r#"
input: { path: string, text: string }
steps:
  a: { tool: file.read, with: { path: "{{ input.path }}" } }
  b: { tool: file.read, with: { path: sub/../x } }
  c: { tool: file.read, with: { path: /home/ada/flows/x } }
  d: { tool: file.write, with: { path: "..{{ input.path }}", text: "{{ input.text }}" } }
  e: { tool: file.list }
  f: { tool: http.get, with: { url: "{{ input.text }}" } }
  g: { tool: text.match, with: { text: a, pattern: "({{ input.text }}" } }
  h: { tool: text.replace, with: { text: a, find: "(", with: b } }
  i: { tool: text.chunk, with: { text: a, size: 2, overlap: "{{ input.text | int }}" } }
"#;
        assert_eq!(said(flow), Vec::<String>::new());
    }

    #[test]
    fn text_is_written_up_to_the_limit_of_a_result() {
        use std::io::Write as _;
        let mut written = Written::default();
        let piece = vec![b'x'; RESULT_BYTES_MAX / 4];
        for _ in 0..4 {
            written.write_all(&piece).unwrap();
        }
        let error = written.write_all(b"x").unwrap_err();
        assert_eq!(error.to_string(), *no_room().message);
        assert_eq!(written.into_text().len(), RESULT_BYTES_MAX);
    }

    #[test]
    fn a_whole_number_may_be_written_with_an_exponent() {
        let input = serde_json::json!({ "a": 1e3, "b": 1.5, "c": -1.0, "d": 7 });
        let numbers = ["a", "b", "c", "d", "e"].map(|field| number_of(&input, field, 2));
        assert_eq!(numbers, [1000, 2, 2, 7, 2]);
    }

    #[test]
    fn wrong_arguments_are_named_field_by_field() {
        let input = serde_json::json!({ "text": 1, "bye": "," });
        let failure = find("text.split")
            .unwrap()
            .check(&input.into())
            .unwrap_err();
        let text = "the arguments of `text.split` are not right: text: 1 is not a string; the field `by` is missing; \
                    bye: there is no field `bye` here; the fields are `text`, `by`, `trim` and `keep_empty`";
        assert_eq!(
            failure,
            Failure::new(ErrorClass::InvalidInput, text).with_code("bad_arguments")
        );
    }
}
