//! Signals. Ctrl-C and TERM are counted, so that the first asks for a clean stop and the second for a stop now; a closed
//! terminal asks for a clean stop, however often it is said. A file that may not grow is an error of the write, not death.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, Result};

/// This process as the kernel sees it.
const STATUS: &str = "/proc/self/status";

/// Makes a file that may not grow (`ulimit -f`) an error of the write: without a handler the kernel ends the process
/// there. A handler, not "ignore", because programs that `run` steps start must not inherit it: a handler ends with `exec`.
/// Best effort: where it cannot be installed, the kernel's way stays.
pub(crate) fn survive_file_limits() {
    let Ok(runtime) = runtime() else {
        return;
    };
    let _inside = runtime.enter();
    // The handler stays when the listener and its runtime are dropped.
    let _ = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// True when whoever started this process had it ignore a signal, as `nohup` does with HUP.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string(STATUS).unwrap_or_default();
    ignored_signals(&status) >> (signal.as_raw() - 1) & 1 == 1
}

/// The mask of ignored signals in the text of a process's status; the first signal is its lowest bit.
fn ignored_signals(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

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
        let runtime = runtime().map_err(failed)?;
        let _inside = runtime.enter();
        // Both are installed before this returns: a signal that comes at once is counted, not fatal.
        let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terms = signal(SignalKind::terminate()).map_err(failed)?;
        let mut hangups = if is_ignored(Signal::HUP) {
            None
        } else {
            Some(signal(SignalKind::hangup()).map_err(failed)?)
        };
        drop(_inside);
        std::thread::Builder::new()
            .name("ravel-signals".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    loop {
                        let hangup = async {
                            match &mut hangups {
                                Some(hangups) => hangups.recv().await,
                                None => std::future::pending().await,
                            }
                        };
                        tokio::select! {
                            _ = interrupts.recv() => counted.fetch_add(1, Ordering::SeqCst),
                            _ = terms.recv() => counted.fetch_add(1, Ordering::SeqCst),
                            // The shell and the kernel both say it: twice is not a wish to stop now.
                            _ = hangup => counted.fetch_max(1, Ordering::SeqCst),
                        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status = "Name:\travel\nSigBlk:\t0000000000000004\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored_signals(status), 0x1001);
        assert_eq!(ignored_signals(""), 0);
    }
}
