//! How an attempt under way is told to stop.
//!
//! One [`AbortHandle`] per attempt stays with the executor, clones of its [`Abort`] go to whoever works on the
//! attempt. Stopping is a request: the worker ends what it began (closes the connection, empties the process group)
//! and reports what is known.

use ravel_core::effect::{ErrorClass, Failure};
use ravel_core::event::Stop;
use tokio::sync::watch;

/// The stopping side. Dropping it stops nothing.
#[derive(Debug)]
pub struct AbortHandle {
    sender: watch::Sender<Option<Stop>>,
}

/// The side that is stopped. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Abort {
    receiver: watch::Receiver<Option<Stop>>,
}

impl AbortHandle {
    /// A handle and its token.
    #[must_use]
    pub fn new() -> (Self, Abort) {
        let (sender, receiver) = watch::channel(None);
        (Self { sender }, Abort { receiver })
    }

    /// Asks the attempt to stop. Only the first reason counts.
    pub fn stop(&self, why: Stop) {
        self.sender.send_if_modified(|slot| {
            let first = slot.is_none();
            if first {
                *slot = Some(why);
            }
            first
        });
    }
}

impl Abort {
    /// A token that nobody stops.
    #[must_use]
    pub fn never() -> Self {
        AbortHandle::new().1
    }

    /// Why it was asked to stop, if it was.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        *self.receiver.borrow()
    }

    /// Waits until it is asked to stop; for ever when nobody does.
    pub async fn wait(&self) -> Stop {
        let mut receiver = self.receiver.clone();
        loop {
            if let Some(why) = *receiver.borrow_and_update() {
                return why;
            }
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// The failure of an attempt that was stopped for this reason.
#[must_use]
pub fn stopped(why: Stop) -> Failure {
    let (class, text) = match why {
        Stop::Timeout => (
            ErrorClass::Timeout,
            "stopped: the timeout of the attempt passed",
        ),
        Stop::Deadline => (ErrorClass::Deadline, "stopped: a deadline passed"),
        Stop::Cancelled => (ErrorClass::Cancelled, "stopped: the step was cancelled"),
        Stop::Budget => (
            ErrorClass::BudgetExceeded,
            "stopped: the time of the budget is used up",
        ),
        Stop::Returned => (ErrorClass::Cancelled, "stopped: the flow returned"),
    };
    Failure::new(class, text)
}
