//! Waits: what a live run stands still for.

use std::sync::Arc;

use serde::Serialize;

use super::Topic;
use crate::effect::Millis;

/// What a live run waits for. Every live run has at least one; each ends in a clock, a person, or an executor with
/// a timeout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "on", rename_all = "snake_case")]
pub enum Wait {
    /// An attempt that is under way.
    Attempt {
        /// The step's path.
        path: Arc<str>,
        /// Which attempt.
        number: u32,
        /// When the engine stops it.
        until: Millis,
    },
    /// Permits held by other attempts.
    Permit {
        /// The step's path.
        path: Arc<str>,
        /// The keys.
        keys: Vec<Arc<str>>,
    },
    /// Budget reserved by other attempts of the run.
    Budget {
        /// The step's path.
        path: Arc<str>,
    },
    /// A person.
    Person {
        /// The step's path.
        path: Arc<str>,
        /// The question's id.
        question: Arc<str>,
        /// The text.
        ask: Arc<str>,
        /// What it is about.
        topic: Topic,
        /// When it ends without an answer.
        until: Option<Millis>,
    },
    /// A clock.
    Time {
        /// The step's path.
        path: Arc<str>,
        /// When.
        until: Millis,
        /// `wait`, `retry`, `deadline`.
        why: &'static str,
    },
    /// A message.
    Signal {
        /// The step's path.
        path: Arc<str>,
        /// The inbox.
        name: Arc<str>,
        /// When it ends without a message.
        until: Option<Millis>,
    },
    /// More items from a step that is still at work: it is waited for by itself.
    Items {
        /// The `for_each`'s path.
        path: Arc<str>,
        /// The producer's path.
        from: Arc<str>,
    },
}
