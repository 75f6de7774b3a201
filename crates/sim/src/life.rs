//! One life of the engine's process: from its start to its end, clean or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::event::Attempt;
use ravel_core::port::Job;
use ravel_core::port_store::Batch;
use ravel_engine::Limits;
use ravel_engine::cache::MemoryCache;
use ravel_engine::message::RunKey;
use ravel_engine::shard::Shard;
use ravel_store::Memory;

use crate::case::Weather;
use crate::executor::Plan;

/// An attempt that was handed to its executor.
#[derive(Debug)]
pub(crate) struct Doing {
    pub(crate) key: RunKey,
    pub(crate) job: Job,
    pub(crate) plan: Plan,
    /// Its effect took place.
    pub(crate) effected: bool,
    /// Somebody asked for its end.
    pub(crate) stopped: bool,
    /// Items that it has streamed.
    pub(crate) sent: usize,
}

/// The engine's process.
pub(crate) struct Life {
    pub(crate) number: u64,
    pub(crate) shard: Shard,
    /// Its handle of the store: a dropped one is a dead process.
    pub(crate) store: Memory,
    pub(crate) token: Arc<str>,
    pub(crate) open: BTreeMap<(Arc<str>, Attempt), Doing>,
    /// The batch that the disk is at.
    pub(crate) committing: Option<Batch>,
    /// Rows of the inbox up to this one were seen.
    pub(crate) seen: i64,
    /// Something is being stopped at a clean point: what is ready may stand still.
    pub(crate) holding: bool,
}

impl Life {
    pub(crate) fn new(number: u64, store: Memory, weather: &Weather) -> Self {
        let token: Arc<str> = format!("engine-{number}").into();
        let limits = Limits {
            park_after_ms: weather.park_ms,
            live_runs: weather.live_runs,
            commit_turns: COMMIT_TURNS,
            ..Limits::default()
        };
        let cache = MemoryCache::new(CACHE_ENTRIES, CACHE_BYTES, CACHE_BYTES);
        Self {
            number,
            shard: Shard::new(Arc::clone(&token), limits, Box::new(cache)),
            store,
            token,
            open: BTreeMap::new(),
            committing: None,
            seen: 0,
            holding: false,
        }
    }

    /// What comes first of the engine's own clocks.
    pub(crate) fn next_wake(&mut self) -> Option<Millis> {
        self.shard.next_wake()
    }
}

/// Turns that wait until the engine must commit.
const COMMIT_TURNS: u64 = 16;
const CACHE_ENTRIES: usize = 100;
const CACHE_BYTES: u64 = 1 << 20;
