//! The end of an attempt, reported exactly once.

use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure, Outcome};
use ravel_core::event::Attempt;
use ravel_core::port::{Job, Report};

/// Owes one `finished`. Dropped without it (a task that was thrown away with its executor), it reports `Unknown`.
pub(super) struct Ending {
    run: Arc<str>,
    attempt: Attempt,
    report: Option<Arc<dyn Report>>,
}

impl Ending {
    pub(super) fn new(job: &Job, report: Arc<dyn Report>) -> Self {
        Self {
            run: Arc::clone(&job.run),
            attempt: job.attempt,
            report: Some(report),
        }
    }

    /// Pays the debt.
    pub(super) fn finish(mut self, outcome: Outcome) {
        if let Some(report) = self.report.take() {
            report.finished(&self.run, self.attempt, outcome);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            let failure = Failure::new(
                ErrorClass::Internal,
                "the attempt was given up by its executor",
            );
            report.finished(&self.run, self.attempt, Outcome::unknown(failure));
        }
    }
}
