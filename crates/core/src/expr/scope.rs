//! What an expression can see, and what can go wrong when it looks.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::value::Val;

/// The names that an expression can see.
///
/// Lookups happen during an evaluation, at most once for each name, and only for names whose value is needed.
/// They must be pure: the same answer whenever they are asked during one evaluation.
pub trait Scope {
    /// What stands behind a name.
    fn lookup(&self, name: &str) -> Lookup;

    /// What stands behind `namespace.key`, for names where [`Scope::lookup`] said [`Lookup::Members`].
    fn member(&self, namespace: &str, key: &str) -> Lookup {
        let _ = (namespace, key);
        Lookup::Unknown
    }
}

/// The answer of a [`Scope`].
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// A value.
    Value(Val),
    /// A step that did not run: its value is absent, and who reads it unguarded is skipped.
    Absent {
        /// The step.
        step: Arc<str>,
    },
    /// A namespace such as `steps` or `secrets`: too large or too secret to be a value, read member by member.
    Members,
    /// No such name.
    Unknown,
}

/// A scope without names.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyScope;

impl Scope for EmptyScope {
    fn lookup(&self, _name: &str) -> Lookup {
        Lookup::Unknown
    }
}

/// A scope of the fields of a JSON object, for tests and for `{file, with}` templates.
#[derive(Debug, Clone, Default)]
pub struct ObjectScope(serde_json::Map<String, Value>);

impl ObjectScope {
    /// Makes each field a name.
    pub fn new(fields: serde_json::Map<String, Value>) -> Self {
        Self(fields)
    }
}

impl Scope for ObjectScope {
    fn lookup(&self, name: &str) -> Lookup {
        self.0.get(name).map_or(Lookup::Unknown, |value| {
            Lookup::Value(Val::new(value.clone()))
        })
    }
}

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalError {
    /// An unguarded use of a step that did not run: the reader is `skipped(uses step)`.
    Absent {
        /// The step.
        step: Arc<str>,
    },
    /// The expression cannot be evaluated on these values.
    Failed {
        /// One sentence.
        message: String,
        /// Byte offset in the source of the expression or template.
        offset: usize,
        /// JSON pointer of the leaf, for a [`super::ValueTemplate`]; else empty.
        pointer: String,
    },
}

impl EvalError {
    pub(crate) fn failed(offset: usize, message: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            offset,
            pointer: String::new(),
        }
    }

    pub(crate) fn below(self, at: &str) -> Self {
        match self {
            Self::Absent { step } => Self::Absent { step },
            Self::Failed {
                message,
                offset,
                pointer,
            } => Self::Failed {
                message,
                offset,
                pointer: format!("{at}{pointer}"),
            },
        }
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { step } => write!(f, "step `{step}` did not run, so it has no value"),
            Self::Failed { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for EvalError {}

/// A mistake in the source of an expression or template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Byte offset in the source.
    pub offset: usize,
    /// Bytes that the mistake covers; at least the offset itself.
    pub length: usize,
    /// One sentence.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl SyntaxError {
    pub(crate) fn new(at: super::ast::At, message: impl Into<String>) -> Self {
        let range = at.range();
        Self {
            offset: range.start,
            length: range.len(),
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SyntaxError {}
