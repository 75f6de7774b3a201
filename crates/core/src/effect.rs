//! Effects: what a leaf does to the world, how it can end, and what is known about that end.
//!
//! Two facts decide what may be repeated: the [`Effect`] class of a leaf and the [`Fate`] of an attempt.
//! Nothing else in Ravel is allowed to decide it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::Val;

/// Milliseconds since the Unix epoch, or a span in milliseconds where the name says so.
pub type Millis = u64;

/// What a leaf does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Recomputable from its input: nothing outside changes.
    Pure,
    /// Looks at the world and changes nothing: a model call, a GET.
    Read,
    /// Changes the world, and may be repeated with the same key: PUT, DELETE, an idempotent tool.
    Write,
    /// Changes the world and must never be repeated blindly.
    Once,
}

impl Effect {
    /// True for the classes whose start must be on disk before it leaves (`write`, `once`).
    #[must_use]
    pub const fn must_be_durable(self) -> bool {
        matches!(self, Self::Write | Self::Once)
    }
}

/// What is known about the effect of a finished attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The effect took place, whole. The result may still be a failure: a program that ran and exited with 1.
    Done,
    /// Certainly no effect: refused before anything was sent, or the other side said so.
    NotDone,
    /// A timeout, an abort, a connection lost after the first byte, a crash.
    Unknown,
}

/// How an attempt ended, as its executor reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What is known about the effect.
    pub fate: Fate,
    /// The value, or why there is none.
    pub result: Result<Val, Failure>,
    /// What the attempt used. Zero for leaves that are not metered.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// How it was carried out, for people and audits, never for flows: the model that answered, what became of each
    /// parameter, the version of the price table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Val>,
}

impl Outcome {
    /// The effect took place and gave a value.
    #[must_use]
    pub fn done(value: Val) -> Self {
        Self {
            fate: Fate::Done,
            result: Ok(value),
            usage: Usage::default(),
            meta: None,
        }
    }

    /// The effect took place and the result is a failure.
    #[must_use]
    pub fn done_with(failure: Failure) -> Self {
        Self {
            fate: Fate::Done,
            result: Err(failure),
            usage: Usage::default(),
            meta: None,
        }
    }

    /// Certainly nothing happened.
    #[must_use]
    pub fn not_done(failure: Failure) -> Self {
        Self {
            fate: Fate::NotDone,
            result: Err(failure),
            usage: Usage::default(),
            meta: None,
        }
    }

    /// It may have happened.
    #[must_use]
    pub fn unknown(failure: Failure) -> Self {
        Self {
            fate: Fate::Unknown,
            result: Err(failure),
            usage: Usage::default(),
            meta: None,
        }
    }

    /// The same outcome with what it used.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// The same outcome with how it was carried out.
    #[must_use]
    pub fn with_meta(mut self, meta: impl Into<Val>) -> Self {
        self.meta = Some(meta.into());
        self
    }
}

/// What an attempt used, in disjoint token classes and integer micro-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Prompt tokens that were not served from a cache.
    pub input_tokens: u64,
    /// Prompt tokens served from the provider's cache.
    pub cached_tokens: u64,
    /// Completion tokens, reasoning included.
    pub output_tokens: u64,
    /// Price in micro-dollars (10⁻⁶ USD).
    pub cost_microusd: u64,
}

impl Usage {
    /// True when nothing was used.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// All tokens.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.input_tokens + self.cached_tokens + self.output_tokens
    }

    /// Adds another usage to this one.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens += other.input_tokens;
        self.cached_tokens += other.cached_tokens;
        self.output_tokens += other.output_tokens;
        self.cost_microusd += other.cost_microusd;
    }

    /// Takes back what was added before.
    pub fn sub(&mut self, other: &Self) {
        self.input_tokens -= other.input_tokens;
        self.cached_tokens -= other.cached_tokens;
        self.output_tokens -= other.output_tokens;
        self.cost_microusd -= other.cost_microusd;
    }
}

/// The closed list of error classes that users match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the names are the documentation; docs/reference lists each with its meaning"
)]
pub enum ErrorClass {
    InvalidInput,
    InvalidOutput,
    GateFailed,
    Timeout,
    Deadline,
    RateLimited,
    Overloaded,
    Unavailable,
    Unauthorized,
    Refused,
    NotFound,
    BudgetExceeded,
    PolicyDenied,
    ToolError,
    JoinUnmet,
    Exhausted,
    Crashed,
    Uncertain,
    Cancelled,
    Internal,
}

impl ErrorClass {
    /// Every class, in the order of the reference.
    pub const ALL: [Self; 20] = [
        Self::InvalidInput,
        Self::InvalidOutput,
        Self::GateFailed,
        Self::Timeout,
        Self::Deadline,
        Self::RateLimited,
        Self::Overloaded,
        Self::Unavailable,
        Self::Unauthorized,
        Self::Refused,
        Self::NotFound,
        Self::BudgetExceeded,
        Self::PolicyDenied,
        Self::ToolError,
        Self::JoinUnmet,
        Self::Exhausted,
        Self::Crashed,
        Self::Uncertain,
        Self::Cancelled,
        Self::Internal,
    ];

    /// The name that users write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::InvalidOutput => "invalid_output",
            Self::GateFailed => "gate_failed",
            Self::Timeout => "timeout",
            Self::Deadline => "deadline",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::Unauthorized => "unauthorized",
            Self::Refused => "refused",
            Self::NotFound => "not_found",
            Self::BudgetExceeded => "budget_exceeded",
            Self::PolicyDenied => "policy_denied",
            Self::ToolError => "tool_error",
            Self::JoinUnmet => "join_unmet",
            Self::Exhausted => "exhausted",
            Self::Crashed => "crashed",
            Self::Uncertain => "uncertain",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }

    /// The class with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// True for what may pass when tried again: the default of `retry.errors`.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::RateLimited
                | Self::Overloaded
                | Self::Unavailable
                | Self::Crashed
        )
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a step or an attempt failed: the `error` that flows see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The class, from the closed list.
    pub class: ErrorClass,
    /// A free code for finer matching (`http_503`, a flow's own code).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Arc<str>>,
    /// One sentence.
    pub message: Arc<str>,
    /// The path of the step in which it began; empty until the run knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Arc<str>>,
    /// Structured detail: exit code and stderr tail, HTTP status and body, schema problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Val>,
    /// The other side asked to wait this long (ms) before another try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<Millis>,
}

/// The code of an attempt that ended with its engine.
const ENGINE_LOST: &str = "engine_lost";

impl Failure {
    /// A failure with a class and one sentence.
    pub fn new(class: ErrorClass, message: impl Into<Arc<str>>) -> Self {
        Self {
            class,
            code: None,
            message: message.into(),
            step: None,
            data: None,
            retry_after_ms: None,
        }
    }

    /// An attempt whose engine ended before it did: not the step's fault, and no try of its own. A process that dies by
    /// itself is `crashed`, too, under another code.
    #[must_use]
    pub fn lost(message: impl Into<Arc<str>>) -> Self {
        Self::new(ErrorClass::Crashed, message).with_code(ENGINE_LOST)
    }

    /// True for an attempt that ended with its engine.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.class == ErrorClass::Crashed && self.code.as_deref() == Some(ENGINE_LOST)
    }

    /// The same failure with a code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<Arc<str>>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// The same failure with structured detail.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Val>) -> Self {
        self.data = Some(data.into());
        self
    }
}
