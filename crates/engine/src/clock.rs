//! The clock port: what time it is, and how long to wait for a time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
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
