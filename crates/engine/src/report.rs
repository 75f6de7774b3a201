//! How executors reach the shard: through its queue, or without any hop when they report on the shard's own thread.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ravel_core::effect::Outcome;
use ravel_core::event::Attempt;
use ravel_core::port::Report;
use ravel_core::value::Val;

use crate::driver::Mail;
use crate::message::{In, Reported, RunKey};

static PORTS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The port whose shard runs on this thread just now; 0: none.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

/// The way into a shard, shared by everybody who has something for it.
#[derive(Debug)]
pub(crate) struct Port {
    id: u64,
    queue: SyncSender<Mail>,
    /// What came from the shard's own thread, which must never wait for itself. Nobody else takes the lock.
    inline: Mutex<VecDeque<Mail>>,
    /// How often somebody found the queue full and waited.
    blocked: AtomicU64,
}

impl Port {
    pub(crate) fn new(queue: SyncSender<Mail>) -> Self {
        Self {
            id: PORTS.fetch_add(1, Ordering::Relaxed),
            queue,
            inline: Mutex::default(),
            blocked: AtomicU64::new(0),
        }
    }

    /// Queues mail; waits when the queue is full, but never on the shard's own thread. Gives the mail back when the
    /// engine is gone.
    #[must_use]
    pub(crate) fn send(&self, mail: Mail) -> Option<Mail> {
        if HERE.get() == self.id {
            self.inline().push_back(mail);
            return None;
        }
        match self.queue.try_send(mail) {
            Ok(()) => None,
            Err(TrySendError::Disconnected(mail)) => Some(mail),
            Err(TrySendError::Full(mail)) => {
                self.blocked.fetch_add(1, Ordering::Relaxed);
                self.queue.send(mail).err().map(|gone| gone.0)
            }
        }
    }

    /// Makes the shard look again, unless it has something to look at anyway.
    pub(crate) fn poke(&self) {
        // A full queue will be looked at; an engine that is gone needs no poke.
        let _ = self.queue.try_send(Mail::Poke);
    }

    pub(crate) fn blocked(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Marks this thread as the shard's until the guard is dropped.
    pub(crate) fn enter(&self) -> Here {
        Here {
            before: HERE.replace(self.id),
        }
    }

    /// The next mail from the shard's own thread.
    pub(crate) fn take_inline(&self) -> Option<Mail> {
        self.inline().pop_front()
    }

    fn inline(&self) -> MutexGuard<'_, VecDeque<Mail>> {
        self.inline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it lives, mail from this thread is taken without the queue.
#[derive(Debug)]
pub(crate) struct Here {
    before: u64,
}

impl Drop for Here {
    fn drop(&mut self) {
        HERE.set(self.before);
    }
}

/// Where the executors of one run report to.
#[derive(Debug)]
pub(crate) struct RunReport {
    pub(crate) key: RunKey,
    pub(crate) port: Arc<Port>,
}

impl RunReport {
    fn send(&self, attempt: Attempt, what: Reported) {
        let message = In::Report {
            key: self.key,
            attempt,
            what,
        };
        // An engine that is gone has dropped the run: nobody waits for this report.
        drop(self.port.send(Mail::Report(message)));
    }
}

impl Report for RunReport {
    fn text(&self, _run: &str, attempt: Attempt, text: &str) {
        self.send(attempt, Reported::Text(text.into()));
    }

    fn items(&self, _run: &str, attempt: Attempt, field: &str, items: Vec<Val>) {
        self.send(
            attempt,
            Reported::Items {
                field: field.into(),
                items,
            },
        );
    }

    fn finished(&self, _run: &str, attempt: Attempt, outcome: Outcome) {
        self.send(attempt, Reported::Finished(outcome));
    }
}
