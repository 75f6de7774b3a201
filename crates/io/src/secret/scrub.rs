//! Finding secrets in text, whole or arriving in pieces.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

/// What is looked for: each secret as it is, and as JSON and URLs would spell it.
#[derive(Default)]
pub(crate) struct Patterns {
    /// (text, what stands in its place), longest first: the longest match at a place wins.
    entries: Vec<(SecretString, String)>,
}

impl fmt::Debug for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patterns")
            .field("len", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl Patterns {
    pub(super) fn new(values: &BTreeMap<String, SecretString>) -> Self {
        let mut entries = Vec::new();
        for (name, value) in values {
            let value = value.expose_secret();
            let forms = BTreeSet::from([value.to_owned(), json_form(value), url_form(value)]);
            entries.extend(
                forms
                    .into_iter()
                    .map(|form| (form.into(), format!("[secret {name}]"))),
            );
        }
        entries.sort_by_key(|(text, _): &(SecretString, String)| {
            std::cmp::Reverse(text.expose_secret().len())
        });
        Self { entries }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut rest = text;
        let mut out = String::new();
        while let Some((at, entry)) = self.first(rest) {
            out.push_str(&rest[..at]);
            out.push_str(&entry.1);
            rest = &rest[at + entry.0.expose_secret().len()..];
        }
        if out.is_empty() && rest.len() == text.len() {
            return Cow::Borrowed(text);
        }
        out.push_str(rest);
        Cow::Owned(out)
    }

    /// The first match; at one place the longest.
    fn first(&self, text: &str) -> Option<(usize, &(SecretString, String))> {
        let mut best: Option<(usize, &(SecretString, String))> = None;
        for entry in &self.entries {
            if let Some(at) = text.find(entry.0.expose_secret())
                && best.is_none_or(|(first, _)| at < first)
            {
                best = Some((at, entry));
            }
        }
        best
    }

    /// How many bytes at the end of the text could be the beginning of a secret.
    fn open_tail(&self, text: &str) -> usize {
        let tail = |pattern: &str| {
            let most = text.len().min(pattern.len().saturating_sub(1));
            let fits =
                |len: &usize| pattern.is_char_boundary(*len) && text.ends_with(&pattern[..*len]);
            (1..=most).rev().find(fits).unwrap_or(0)
        };
        self.entries
            .iter()
            .map(|(text, _)| tail(text.expose_secret()))
            .max()
            .unwrap_or(0)
    }
}

fn json_form(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn url_form(value: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Scrubs text that arrives in pieces: what may be the beginning of a secret is held back until it is decided.
#[derive(Debug)]
pub(crate) struct Stream {
    patterns: Arc<Patterns>,
    held: String,
}

impl Stream {
    pub(super) const fn new(patterns: Arc<Patterns>) -> Self {
        Self {
            patterns,
            held: String::new(),
        }
    }

    /// Takes a piece and gives what is certain.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.patterns.is_empty() {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        let cut = self.held.len() - self.patterns.open_tail(&self.held);
        let mut out = String::new();
        let mut at = 0;
        // A match that begins in the undecided tail waits: a longer secret may begin like a shorter one.
        while let Some((start, entry)) = self
            .patterns
            .first(&self.held[at..])
            .filter(|(start, _)| at + start < cut)
        {
            out.push_str(&self.held[at..at + start]);
            out.push_str(&entry.1);
            at += start + entry.0.expose_secret().len();
        }
        if at < cut {
            out.push_str(&self.held[at..cut]);
            at = cut;
        }
        self.held.drain(..at);
        out
    }

    /// Gives the rest.
    pub(crate) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.patterns.scrub(&held).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(secrets: &[(&str, &str)]) -> Arc<Patterns> {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), SecretString::from(*value));
        Arc::new(Patterns::new(&secrets.iter().map(pair).collect()))
    }

    #[test]
    fn a_secret_is_found_however_the_stream_is_cut() {
        let patterns = patterns(&[("a", "hunter2"), ("b", "hunter2-and-more"), ("c", "ünï")]);
        let text = "x hunter2 y hunter2-and-more z hunt ünï!";
        for size in 1..text.len() {
            let mut stream = Stream::new(Arc::clone(&patterns));
            let chars: Vec<char> = text.chars().collect();
            let pieces = chars
                .chunks(size)
                .map(|piece| piece.iter().collect::<String>());
            let mut out: String = pieces.map(|piece| stream.push(&piece)).collect();
            out.push_str(&stream.finish());
            assert_eq!(
                out, "x [secret a] y [secret b] z hunt [secret c]!",
                "cut every {size} characters"
            );
        }
    }

    #[test]
    fn url_and_json_spellings_are_secrets_too() {
        let patterns = patterns(&[("a", "p@ss\nword")]);
        assert_eq!(
            patterns.scrub("p%40ss%0Aword p@ss\\nword"),
            "[secret a] [secret a]"
        );
    }
}
