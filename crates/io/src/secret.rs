//! Secrets: put in at the last moment, taken out of everything that comes back.
//!
//! A request holds only marks (`SECRET_OPEN name SECRET_CLOSE`). [`Secrets::resolve`] replaces them, and from then on
//! [`Secrets::scrub`] knows the value and removes it from every text that leaves the executor. Values live in
//! `SecretString`s, which cannot be formatted.
//!
//! What is removed is not only the value as it is but what else gives it away: as URLs, JSON, shells, HTML, base64 and
//! hex spell it, and each line of a key. A secret that is too short for that is refused when it is read.

mod forms;
mod scrub;
mod spelling;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use ravel_core::effect::{ErrorClass, Failure};
use ravel_core::port::{SECRET_CLOSE, SECRET_OPEN};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

pub use forms::SECRET_LINE_BYTES_MIN;
use scrub::Patterns;
pub(crate) use scrub::Stream;

/// Environment variables with this prefix are secrets: `RAVEL_SECRET_TOKEN` is `secrets.token`.
pub const SECRET_ENV_PREFIX: &str = "RAVEL_SECRET_";
/// Largest secret, bytes.
pub const SECRET_BYTES_MAX: u64 = 64 * 1024;
/// Shortest secret, bytes: taking a shorter one out of everything would destroy other text.
pub const SECRET_BYTES_MIN: usize = 6;

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An environment variable of the engine's process.
    Env(String),
    /// A file; one newline at its end is not part of the secret.
    File(PathBuf),
}

/// The secrets of this process. Cheap to clone; clones share what was resolved.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    sources: Arc<BTreeMap<String, Source>>,
    known: Arc<RwLock<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    values: BTreeMap<String, SecretString>,
    patterns: Arc<Patterns>,
}

impl Secrets {
    /// Secrets with stated sources. A name without one is looked up as `RAVEL_SECRET_<NAME>`.
    #[must_use]
    pub fn new(sources: BTreeMap<String, Source>) -> Self {
        Self {
            sources: Arc::new(sources),
            known: Arc::default(),
        }
    }

    /// The text with all marks replaced. Only for what goes to a process's environment or a header.
    ///
    /// # Errors
    /// `unauthorized`, naming the secret that is not there; `policy_denied` for one that cannot be hidden.
    pub fn resolve(&self, text: &str) -> Result<SecretString, Failure> {
        if !has_mark(text) {
            return Ok(text.into());
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(SECRET_OPEN) {
            out.push_str(before);
            let Some((name, after)) = after.split_once(SECRET_CLOSE) else {
                return Err(Failure::new(
                    ErrorClass::InvalidInput,
                    "the mark of a secret is not closed",
                ));
            };
            out.push_str(self.get(name)?.expose_secret());
            rest = after;
        }
        out.push_str(rest);
        Ok(out.into())
    }

    /// One secret by name.
    ///
    /// # Errors
    /// `unauthorized`, naming the secret and where it was looked for; `policy_denied` for one that cannot be hidden.
    pub fn get(&self, name: &str) -> Result<SecretString, Failure> {
        if let Some(value) = self
            .known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values
            .get(name)
        {
            return Ok(value.clone());
        }
        let value = self.load(name)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.values.insert(name.to_owned(), value.clone());
        let marked = |(name, value)| (format!("[secret {name}]"), value);
        known.patterns = Arc::new(Patterns::new(known.values.iter().map(marked)));
        Ok(value)
    }

    fn load(&self, name: &str) -> Result<SecretString, Failure> {
        let missing = |place: String| {
            let text = format!("the secret `{name}` is not there: {place}");
            Failure::new(ErrorClass::Unauthorized, text).with_code("secret_missing")
        };
        let default = || Source::Env(format!("{SECRET_ENV_PREFIX}{}", name.to_uppercase()));
        let source = self.sources.get(name).cloned().unwrap_or_else(default);
        let value = match &source {
            Source::Env(variable) => std::env::var(variable)
                .map_err(|_| missing(format!("set the environment variable {variable}")))?,
            Source::File(path) => {
                let size = std::fs::metadata(path).map(|meta| meta.len());
                if size.as_ref().is_ok_and(|size| *size > SECRET_BYTES_MAX) {
                    return Err(missing(format!(
                        "{} is larger than {SECRET_BYTES_MAX} bytes",
                        path.display()
                    )));
                }
                let text = std::fs::read_to_string(path)
                    .map_err(|e| missing(format!("{}: {e}", path.display())))?;
                let line = text.strip_suffix('\n').unwrap_or(&text);
                line.strip_suffix('\r').unwrap_or(line).to_owned()
            }
        };
        if value.is_empty() {
            return Err(missing("it is empty".to_owned()));
        }
        if value.len() < SECRET_BYTES_MIN {
            let text = format!(
                "the secret `{name}` has less than {SECRET_BYTES_MIN} bytes: it cannot be kept out of logs and results \
                 without destroying other text; use a longer one"
            );
            return Err(Failure::new(ErrorClass::PolicyDenied, text).with_code("secret_short"));
        }
        Ok(value.into())
    }

    /// The text without any secret that was resolved so far: each reads `[secret NAME]`.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        self.patterns().scrub(text).into_owned()
    }

    /// The same for a text whose end was cut off: what may be the beginning of a secret is left out.
    #[must_use]
    pub fn scrub_cut(&self, text: &str) -> String {
        self.stream().push(text)
    }

    /// The value without secrets, in strings and keys at any depth.
    #[must_use]
    pub fn scrub_value(&self, value: Value) -> Value {
        let patterns = self.patterns();
        if patterns.is_empty() {
            value
        } else {
            scrub_value(&patterns, value)
        }
    }

    /// The failure without secrets.
    #[must_use]
    pub fn scrub_failure(&self, failure: Failure) -> Failure {
        scrub_failure(&self.patterns(), failure)
    }

    /// True when nothing was resolved: nothing can leak.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns().is_empty()
    }

    /// A scrubber for text that arrives in pieces.
    pub(crate) fn stream(&self) -> Stream {
        Stream::new(self.patterns())
    }

    fn patterns(&self) -> Arc<Patterns> {
        Arc::clone(
            &self
                .known
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .patterns,
        )
    }
}

/// The failure without one key, in whatever spelling: `mark` stands in its place.
pub(crate) fn hide(failure: Failure, key: &SecretString, mark: &str) -> Failure {
    scrub_failure(&Patterns::new([(mark.to_owned(), key)]), failure)
}

fn scrub_failure(patterns: &Patterns, mut failure: Failure) -> Failure {
    if patterns.is_empty() {
        return failure;
    }
    failure.message = patterns.scrub(&failure.message).into();
    failure.code = failure.code.map(|code| patterns.scrub(&code).into());
    failure.data = failure
        .data
        .map(|data| scrub_value(patterns, data.into_json()).into());
    failure
}

fn scrub_value(patterns: &Patterns, value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(patterns.scrub(&text).into_owned()),
        Value::Array(items) => items
            .into_iter()
            .map(|item| scrub_value(patterns, item))
            .collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, field)| {
                (
                    patterns.scrub(&key).into_owned(),
                    scrub_value(patterns, field),
                )
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// True when the text holds the mark of a secret.
#[must_use]
pub fn has_mark(text: &str) -> bool {
    text.contains(SECRET_OPEN)
}

/// True when a string or key anywhere in the value holds the mark of a secret.
#[must_use]
pub fn value_has_mark(value: &Value) -> bool {
    match value {
        Value::String(text) => has_mark(text),
        Value::Array(items) => items.iter().any(value_has_mark),
        Value::Object(fields) => fields
            .iter()
            .any(|(key, field)| has_mark(key) || value_has_mark(field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The value without marks. What comes from outside must not be able to name a secret: printed into a header, a mark in
/// an answer would send that secret along.
#[must_use]
pub fn without_marks(value: Value) -> Value {
    if !value_has_mark(&value) {
        return value;
    }
    let clean = |text: String| text.replace([SECRET_OPEN, SECRET_CLOSE], "\u{FFFD}");
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(items) => items.into_iter().map(without_marks).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, field)| (clean(key), without_marks(field)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// The refusal of a mark where secrets must not stand.
#[must_use]
pub fn misplaced(place: &str) -> Failure {
    let text = format!("{place} reads a secret; secrets may only stand in `env` and in headers");
    Failure::new(ErrorClass::InvalidInput, text).with_code("secret_misplaced")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets(name: &str, value: &str) -> (tempfile::TempDir, Secrets) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, format!("{value}\n")).unwrap();
        let secrets = Secrets::new(BTreeMap::from([(name.to_owned(), Source::File(path))]));
        (dir, secrets)
    }

    #[test]
    fn a_mark_is_replaced_and_the_value_is_scrubbed_from_then_on() {
        let (_dir, secrets) = secrets("token", "hunter2\"x");
        assert_eq!(secrets.scrub("hunter2\"x"), "hunter2\"x");
        let text = format!("Bearer {SECRET_OPEN}token{SECRET_CLOSE}!");
        assert_eq!(
            secrets.resolve(&text).unwrap().expose_secret(),
            "Bearer hunter2\"x!"
        );
        assert_eq!(secrets.scrub("a hunter2\"x b"), "a [secret token] b");
        let value = json!({ "hunter2\"x": ["<hunter2\"x>", "{\"a\":\"hunter2\\\"x\"}", 1] });
        let clean =
            json!({ "[secret token]": ["<[secret token]>", "{\"a\":\"[secret token]\"}", 1] });
        assert_eq!(secrets.scrub_value(value), clean);
    }

    #[test]
    fn marks_from_outside_are_not_marks() {
        let value = json!({ "a": ["x\u{F0F0}token\u{F0F1}", 1], "\u{F0F0}": null });
        assert_eq!(
            without_marks(value),
            json!({ "a": ["x\u{FFFD}token\u{FFFD}", 1], "\u{FFFD}": null })
        );
    }

    #[test]
    fn a_secret_that_cannot_be_hidden_is_refused_by_name() {
        let (_dir, secrets) = secrets("pin", "12345");
        let message = "the secret `pin` has less than 6 bytes: it cannot be kept out of logs and results without \
                       destroying other text; use a longer one";
        let failure = Failure::new(ErrorClass::PolicyDenied, message).with_code("secret_short");
        assert_eq!(secrets.get("pin").unwrap_err(), failure);
    }

    #[test]
    fn an_unknown_secret_is_named() {
        let text = format!("{SECRET_OPEN}absent_one{SECRET_CLOSE}");
        let failure = Secrets::default().resolve(&text).unwrap_err();
        let message = "the secret `absent_one` is not there: set the environment variable RAVEL_SECRET_ABSENT_ONE";
        assert_eq!(
            failure,
            Failure::new(ErrorClass::Unauthorized, message).with_code("secret_missing")
        );
    }
}
