//! Why the engine did not do something.

use std::fmt;
use std::sync::Arc;

/// Why the engine did not do something, or why a run left it without an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineError {
    /// The run refused it: the caller's mistake. Nothing was recorded.
    Rejected {
        /// A stable code.
        code: String,
        /// One sentence.
        message: String,
    },
    /// There is no such run.
    UnknownRun {
        /// The id that was given.
        run: Arc<str>,
    },
    /// A live process owns the run.
    Held {
        /// The run.
        run: Arc<str>,
        /// Who.
        by: String,
    },
    /// Another process took the run over while it was here.
    Fenced {
        /// The run.
        run: Arc<str>,
    },
    /// The run was paused: it goes on when somebody resumes it.
    Paused {
        /// The run.
        run: Arc<str>,
    },
    /// A bound is reached.
    Overloaded {
        /// The limit's name.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// The run could not be brought into memory, or broke an invariant there.
    Broken {
        /// The run.
        run: Arc<str>,
        /// What is wrong.
        message: String,
    },
    /// The store did not do it.
    Store {
        /// What it said.
        message: String,
    },
    /// The engine stopped, or is stopping.
    Stopped {
        /// Why.
        why: StopReason,
    },
}

/// Why an engine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was asked to.
    Shutdown,
    /// The store has no space left. What was acknowledged is on disk; nothing else was acknowledged.
    Full {
        /// What the store said.
        message: String,
    },
    /// The store failed. What was acknowledged is on disk; nothing else was acknowledged.
    Store {
        /// What it said.
        message: String,
    },
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shutdown => f.write_str("it was asked to"),
            Self::Full { message } => write!(f, "the store has no space left ({message})"),
            Self::Store { message } => write!(f, "the store failed ({message})"),
        }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { message, .. } => f.write_str(message),
            Self::UnknownRun { run } => write!(f, "there is no run {run}"),
            Self::Held { run, by } => write!(f, "run {run} is owned by {by}"),
            Self::Fenced { run } => write!(f, "run {run} was taken over by another process"),
            Self::Paused { run } => write!(f, "run {run} is paused"),
            Self::Overloaded { limit, value } => {
                write!(f, "the limit `{limit}` ({value}) is reached")
            }
            Self::Broken { run, message } => write!(f, "run {run} cannot go on: {message}"),
            Self::Store { message } => write!(f, "the store did not do it: {message}"),
            Self::Stopped { why } => write!(f, "the engine stopped: {why}"),
        }
    }
}

impl std::error::Error for EngineError {}
