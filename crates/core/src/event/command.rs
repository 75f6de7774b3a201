//! Commands: what the run machine wants done.

use std::sync::Arc;

use super::{Attempt, Stop};
use crate::effect::Millis;

/// What to do. A command is carried out after the turn it came with (and, where it must, after the disk).
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Take all these permits at once, then say `Granted` (or `Denied`). Permits are given back when the attempt
    /// has finished.
    Acquire {
        /// For whom.
        attempt: Attempt,
        /// `(key, max)` of each.
        permits: Vec<(Arc<str>, u32)>,
        /// Higher first.
        priority: i32,
    },
    /// The wish for permits is gone.
    Release {
        /// Whose.
        attempt: Attempt,
    },
    /// Carry out an attempt. Waits for the disk when `job.effect.must_be_durable()`.
    Start(Box<crate::port::Job>),
    /// Stop an attempt; its `Finished` is still expected.
    Abort {
        /// Which.
        attempt: Attempt,
        /// Why.
        why: Stop,
    },
    /// Send `Tick` at this time or later. Replaces the run's earlier wake-up; `None` = none needed.
    WakeAt(Option<Millis>),
}
