//! Commits beside the driver: while a group of turns goes to disk on a thread of its own, the driver gathers the next.
//!
//! A hop between threads costs more than a small commit saves, so the driver sends only groups of
//! `commit_aside_turns` here and commits smaller ones itself: a run alone pays one commit a step and no hop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ravel_core::port_store::{Batch, Error, Store};

use crate::report::Port;

/// A batch and what the store said to it.
pub(super) type Committed = (Batch, Result<(), Error>);

/// The thread that commits, and the way to it. The shard has one batch under way at most, and so have the channels.
#[derive(Debug)]
pub(super) struct Committer {
    /// `None` only while it is being closed.
    batches: Option<Sender<Batch>>,
    done: Receiver<Committed>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub(super) fn new(store: Arc<dyn Store>, port: Arc<Port>) -> std::io::Result<Self> {
        let (batches, inbox) = channel::<Batch>();
        let (outbox, done) = channel();
        let thread = std::thread::Builder::new()
            .name("ravel-commit".to_owned())
            .spawn(move || {
                for batch in inbox {
                    let result = commit(&*store, &batch);
                    if outbox.send((batch, result)).is_err() {
                        return;
                    }
                    port.poke();
                }
            })?;
        Ok(Self {
            batches: Some(batches),
            done,
            thread: Some(thread),
        })
    }

    /// Hands a batch over. Gives it back when the thread is gone.
    pub(super) fn send(&self, batch: Batch) -> Result<(), Batch> {
        match &self.batches {
            Some(batches) => batches.send(batch).map_err(|refused| refused.0),
            None => Err(batch),
        }
    }

    /// The batch that came back, when one did.
    pub(super) fn take(&self) -> Option<Committed> {
        self.done.try_recv().ok()
    }

    /// Waits for the batch that is under way.
    pub(super) fn wait(&self) -> Option<Committed> {
        self.done.recv().ok()
    }
}

impl Drop for Committer {
    /// What is under way is finished: nobody writes after the driver is gone.
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that commits broke");
        }
    }
}

/// Commits. A store that breaks has failed: the batch comes back either way, and the engine stops with the reason.
fn commit(store: &dyn Store, batch: &Batch) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(|| store.commit(batch))).unwrap_or_else(|_| {
        Err(Error::Io {
            message: "the store broke (see the message of the panic)".to_owned(),
        })
    })
}
