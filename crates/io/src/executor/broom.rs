//! Sweeps up after runs, on a thread of its own: a checkout may hold very many files.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::run::dirs::Folders;

/// The thread, and the way to it. Dropping it waits until it has done what it was given: a process that ends with its
/// run leaves nothing half removed.
#[derive(Debug, Default)]
pub(super) struct Broom {
    thread: Mutex<Option<Sweeping>>,
}

#[derive(Debug)]
struct Sweeping {
    runs: Sender<Arc<str>>,
    thread: JoinHandle<()>,
}

impl Broom {
    /// Removes what the lists of a run shared. The thread is started when it is needed for the first time.
    pub(super) fn tidy(&self, folders: &Arc<Folders>, run: &Arc<str>) {
        if !folders.holds(run) {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (sender, runs) = channel::<Arc<str>>();
            let folders = Arc::clone(folders);
            let work = move || runs.iter().for_each(|run| folders.tidy(&run));
            // Best effort: without it the folders stay until their run is removed.
            *thread = std::thread::Builder::new()
                .name("ravel-broom".to_owned())
                .spawn(work)
                .ok()
                .map(|thread| Sweeping {
                    runs: sender,
                    thread,
                });
        }
        if let Some(sweeping) = &*thread {
            // It ends only when the way to it is closed.
            let _ = sweeping.runs.send(Arc::clone(run));
        }
    }
}

impl Drop for Broom {
    fn drop(&mut self) {
        let thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(Sweeping { runs, thread }) = thread.take() {
            drop(runs);
            let _ = thread.join();
        }
    }
}
