//! Ctrl-C and TERM: counted, so that the first asks for a clean stop and the second for a stop now.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, Result};

/// Counts requests to stop from the moment it is made.
#[derive(Clone, Debug)]
pub(crate) struct StopSignals {
    count: Arc<AtomicUsize>,
}

impl StopSignals {
    /// Starts to count.
    pub(crate) fn new() -> Result<Self> {
        let failed =
            |error: std::io::Error| Error::trouble("cannot listen for Ctrl-C").because(error);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let _inside = runtime.enter();
        // Both are installed before this returns: a signal that comes at once is counted, not fatal.
        let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terms = signal(SignalKind::terminate()).map_err(failed)?;
        drop(_inside);
        std::thread::Builder::new()
            .name("ravel-signals".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    loop {
                        tokio::select! {
                            _ = interrupts.recv() => {}
                            _ = terms.recv() => {}
                        }
                        counted.fetch_add(1, Ordering::SeqCst);
                    }
                });
            })
            .map_err(failed)?;
        Ok(Self { count })
    }

    /// How often somebody asked.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}
