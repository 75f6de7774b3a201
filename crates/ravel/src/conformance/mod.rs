//! The conformance suite: the semantics of execution as data, played over the run machine in virtual time.
//!
//! ```text
//! conformance/NN-section/NNN-name.yaml --shelf--> case --play--> world (run, clock, limiter, script)
//!                                                                  | seen
//!                                       expectations --compare--> differences
//! ```
//!
//! A case knows paths, states, values and classes, never events: the files are for other implementations, too.

mod case;
mod compare;
mod permits;
mod play;
mod seen;
mod shelf;
#[cfg(test)]
mod tests;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use compare::Difference;
pub(crate) use shelf::{Filed, carried, of_folder};

/// Plays a case. Empty: everything is as it must be.
pub(crate) fn run(filed: &Filed) -> Vec<Difference> {
    let broken = |message: String| {
        vec![Difference {
            at: "before the start".to_owned(),
            what: "case".to_owned(),
            expected: "it can be played".into(),
            got: message.into(),
        }]
    };
    match &filed.case {
        Err(message) => broken(message.clone()),
        // The machine stops a run by a panic when an invariant does not hold: that is a finding like another.
        Ok(case) => catch_unwind(AssertUnwindSafe(|| play::play(case)))
            .unwrap_or_else(|_| broken("the run machine panicked".to_owned())),
    }
}
