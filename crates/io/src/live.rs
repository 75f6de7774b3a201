//! Live text of an attempt on its way to people.

use std::sync::Arc;

use ravel_core::event::Attempt;
use ravel_core::port::{Job, Report};
use ravel_core::value::Val;

/// Where the live text and streamed items of one attempt go. Cheap to clone. What is given here must hold no secret.
#[derive(Clone)]
pub struct Live {
    report: Arc<dyn Report>,
    run: Arc<str>,
    attempt: Attempt,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live")
            .field("run", &self.run)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl Live {
    /// The sink of a job.
    #[must_use]
    pub fn new(job: &Job, report: Arc<dyn Report>) -> Self {
        Self {
            report,
            run: Arc::clone(&job.run),
            attempt: job.attempt,
        }
    }

    /// Shows text.
    pub fn text(&self, text: &str) {
        self.report.text(&self.run, self.attempt, text);
    }

    /// Gives items of the streamed field.
    pub fn items(&self, field: &str, items: Vec<Val>) {
        self.report.items(&self.run, self.attempt, field, items);
    }
}
