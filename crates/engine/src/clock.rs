//! The clock port: what time it is, and how long to wait for a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ravel_core::effect::Millis;

/// Called when a clock was moved by hand, so that whoever waits for a time looks again.
pub type ClockMoved = Box<dyn Fn() + Send + Sync>;

/// What time it is. The driver asks; the machines are told.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch. May jump: a run's own time never goes back.
    fn now(&self) -> Millis;
    /// How long to wait until `at` comes if nothing else happens; `None`: for ever, [`Clock::on_move`] will tell.
    fn wait(&self, at: Millis) -> Option<Duration>;
    /// Asks to be told of moves that waiting would not notice. A clock that only runs needs none.
    fn on_move(&self, _moved: ClockMoved) {}
}

/// The machine's clock, but for jumps back: while the process lives its time only goes on.
///
/// A machine's clock that is set back by an hour would make every timer an hour late. So time is counted from the
/// process's start by a clock that nobody can set, and moves onto the machine's when that is ahead (it was set forward,
/// or the machine slept). A process that begins after a jump back goes by the machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    /// What the machine's clock showed when the process started, in microseconds since the Unix epoch: the latest that
    /// any look implied.
    start: AtomicU64,
}

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            start: AtomicU64::new(0),
        }
    }

    /// The time when the machine's clock shows `wall` and the process has run for `elapsed`, all in microseconds.
    fn advance(&self, wall: u64, elapsed: u64) -> u64 {
        let implied = wall.saturating_sub(elapsed);
        let before = self.start.fetch_max(implied, Ordering::Relaxed);
        before.max(implied).saturating_add(elapsed)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.advance(micros(wall), micros(self.started.elapsed())) / 1_000
    }

    fn wait(&self, at: Millis) -> Option<Duration> {
        Some(Duration::from_millis(at.saturating_sub(self.now())))
    }
}

/// A clock that moves only when told to: simulation and tests.
#[derive(Default)]
pub struct VirtualClock {
    state: Mutex<VirtualState>,
}

#[derive(Default)]
struct VirtualState {
    now: Millis,
    moved: Vec<ClockMoved>,
}

impl VirtualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Millis) -> Self {
        Self {
            state: Mutex::new(VirtualState {
                now,
                moved: Vec::new(),
            }),
        }
    }

    /// Moves the clock, also back, and tells those who asked.
    pub fn set(&self, now: Millis) {
        let mut state = self.lock();
        state.now = now;
        for moved in &state.moved {
            moved();
        }
    }

    /// Moves the clock forward by `by`.
    pub fn advance(&self, by: Millis) {
        let now = self.now() + by;
        self.set(now);
    }

    fn lock(&self) -> MutexGuard<'_, VirtualState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Millis {
        self.lock().now
    }

    fn wait(&self, _at: Millis) -> Option<Duration> {
        None
    }

    fn on_move(&self, moved: ClockMoved) {
        self.lock().moved.push(moved);
    }
}

impl std::fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualClock")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const HOUR: u64 = 3_600 * SECOND;

    #[test]
    fn a_machine_clock_that_is_set_back_does_not_stop_time() {
        let clock = SystemClock::new();
        let noon = 500_000 * HOUR;
        let seen = [
            clock.advance(noon, 0),
            clock.advance(noon + SECOND, SECOND),
            // Set back by an hour: time goes on from where it was.
            clock.advance(noon - HOUR + 2 * SECOND, 2 * SECOND),
            clock.advance(noon - HOUR + 3 * SECOND, 3 * SECOND),
            // Set right again.
            clock.advance(noon + 4 * SECOND, 4 * SECOND),
            // Set forward by an hour, or the machine slept.
            clock.advance(noon + HOUR + 5 * SECOND, 5 * SECOND),
        ];
        let seconds = seen.map(|at| (at - noon) / SECOND);
        assert_eq!(seconds, [0, 1, 2, 3, 4, 3_605]);
    }
}
