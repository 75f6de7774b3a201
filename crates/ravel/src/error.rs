//! What a command fails with: an exit code, one sentence with its causes, and what to do about it.

use std::error::Error as StdError;
use std::fmt;

use crate::exit::Exit;

/// The failure of a command. Printed by `main` and nowhere else.
#[derive(Debug)]
pub(crate) struct Error {
    exit: Exit,
    message: String,
    /// Printed before the message as it is: rendered diagnostics.
    report: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    hints: Vec<String>,
}

/// The result of a command or a part of one.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure with this exit code; the message is one sentence in lower case.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            report: None,
            source: None,
            hints: Vec::new(),
        }
    }

    /// The caller's mistake.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The store, the engine or the machine could not do it.
    pub(crate) fn trouble(message: impl Into<String>) -> Self {
        Self::new(Exit::Trouble, message)
    }

    /// The run, or what is known of it, refuses.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, message)
    }

    /// The same failure with a line on what to do.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same failure with a hint when there is one.
    #[must_use]
    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }

    /// The same failure with what caused it.
    #[must_use]
    pub(crate) fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// The same failure with rendered diagnostics before it.
    #[must_use]
    pub(crate) fn report(mut self, report: impl Into<String>) -> Self {
        self.report = Some(report.into());
        self
    }

    /// What the process ends with.
    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    /// Rendered diagnostics that come before the message.
    pub(crate) fn rendered(&self) -> Option<&str> {
        self.report.as_deref()
    }

    /// What to do about it.
    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The causes, outermost first.
    pub(crate) fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        let mut next: Option<&(dyn StdError + 'static)> =
            self.source.as_ref().map(|source| &**source as _);
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        causes
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

/// `, did you mean …?`: the name closest to `wanted` when one is near enough to be meant.
pub(crate) fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    /// Below this likeness (Jaro-Winkler) a name is another word, not a slip.
    const LIKENESS_MIN: f64 = 0.75;
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(wanted, name), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_listed_outermost_first() {
        let inner = std::io::Error::other("disk on fire");
        let middle = Error::trouble("cannot write the log").because(inner);
        let outer = Error::trouble("cannot open the store").because(middle);
        assert_eq!(outer.causes(), ["cannot write the log", "disk on fire"]);
    }

    #[test]
    fn nearest_finds_slips_and_leaves_other_words_alone() {
        let names = ["providers", "models", "store"];
        assert_eq!(nearest("provider", names), Some("providers"));
        assert_eq!(nearest("stroe", names), Some("store"));
        assert_eq!(nearest("xyz", names), None);
    }
}
