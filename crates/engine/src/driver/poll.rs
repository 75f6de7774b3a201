//! Looking at the store for what other processes did: messages for runs that are owned here, replies to messages that
//! were left for runs owned elsewhere, runs that nobody owns, and ends of runs that are waited for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ravel_core::effect::Millis;
use ravel_core::port_store::Error;

use super::{Driver, REST_MAX};
use crate::error::EngineError;
use crate::limits::Limits;
use crate::message::{In, Sender};

/// When to look, and what was seen last.
#[derive(Debug)]
pub(super) struct Poll {
    min: Duration,
    max: Duration,
    pause: Duration,
    last: Instant,
    version: Option<u64>,
    /// Inbox rows up to this one were handed on.
    after: i64,
    adopt_every: Duration,
    adopted: Option<Instant>,
    /// Runs that could not be taken over, and until when they are left alone.
    shunned: HashMap<Arc<str>, Millis>,
    shun_for: Millis,
    /// Earliest wake-up of a run that nobody owns, as of the last look.
    next_wake: Option<Millis>,
}

impl Poll {
    pub(super) fn new(limits: &Limits) -> Self {
        let min = Duration::from_millis(limits.poll_min_ms);
        Self {
            min,
            max: Duration::from_millis(limits.poll_max_ms).max(min),
            pause: min,
            last: Instant::now(),
            version: None,
            after: 0,
            adopt_every: Duration::from_millis(limits.adopt_every_ms),
            adopted: None,
            shunned: HashMap::new(),
            shun_for: limits.adopt_retry_ms,
            next_wake: None,
        }
    }

    /// How long until the next look.
    pub(super) fn remaining(&self, now: Instant) -> Duration {
        self.pause
            .saturating_sub(now.saturating_duration_since(self.last))
            .min(REST_MAX)
    }

    /// A run that broke or is owned elsewhere is not tried again at once.
    pub(super) fn shun(&mut self, run: &Arc<str>, why: &EngineError, now: Millis) {
        match why {
            EngineError::Broken { .. } | EngineError::Held { .. } | EngineError::Store { .. } => {
                self.shunned
                    .insert(Arc::clone(run), now.saturating_add(self.shun_for));
            }
            // Paused by somebody: left alone until it has something to do again.
            EngineError::Paused { .. } => {
                self.shunned.insert(Arc::clone(run), Millis::MAX);
            }
            EngineError::Fenced { .. }
            | EngineError::Stopped { .. }
            | EngineError::Rejected { .. }
            | EngineError::UnknownRun { .. }
            | EngineError::Overloaded { .. } => {}
        }
    }
}

impl Driver {
    /// True when another process could have something for this engine.
    pub(super) fn poll_is_needed(&self) -> bool {
        self.config.serve
            || !self.shard.is_empty()
            || !self.foreign.is_empty()
            || !self.waiters.is_empty()
    }

    /// Looks at the store when it is time to. True when something was found.
    pub(super) fn poll(&mut self, now: Millis) -> bool {
        let instant = Instant::now();
        if !self.poll_is_needed()
            || self.stopped.is_some()
            || !self.poll.remaining(instant).is_zero()
        {
            return false;
        }
        self.poll.last = instant;
        match self.look(now, instant) {
            Ok(found) => {
                self.poll.pause = if found {
                    self.poll.min
                } else {
                    (self.poll.pause * 2).min(self.poll.max)
                };
                found
            }
            Err(error) => {
                tracing::warn!(error = %error, "the store could not be looked at; tried again");
                self.poll.pause = self.poll.max;
                false
            }
        }
    }

    fn look(&mut self, now: Millis, instant: Instant) -> Result<bool, Error> {
        let version = self.config.store.version()?;
        let changed = self.poll.version != Some(version);
        self.poll.version = Some(version);
        let mut found = changed && self.fetch(now)?;
        found |= self.look_for_replies()?;
        self.look_for_ends();
        if self.config.serve && self.adopt_is_due(now, instant, changed) {
            self.poll.adopted = Some(instant);
            found |= self.adopt(now)?;
        }
        Ok(found)
    }

    /// Hands on messages for runs that are owned here.
    fn fetch(&mut self, now: Millis) -> Result<bool, Error> {
        if self.shard.is_empty() {
            return Ok(false);
        }
        let posted = self.config.store.fetch(&self.token, self.poll.after)?;
        let found = !posted.is_empty();
        for message in posted {
            self.poll.after = self.poll.after.max(message.id);
            let wish = self.wish(message.message);
            let from = Sender::Row(message.id);
            self.step(
                now,
                In::Posted {
                    from,
                    run: message.run,
                    at: message.at,
                    wish,
                },
            );
        }
        Ok(found)
    }

    fn look_for_replies(&mut self) -> Result<bool, Error> {
        let mut found = false;
        let rows: Vec<i64> = self.foreign.keys().copied().collect();
        for row in rows {
            if let Some(reply) = self.config.store.reply(row)?
                && let Some(callback) = self.foreign.remove(&row)
            {
                callback(Ok(reply));
                found = true;
            }
        }
        Ok(found)
    }

    /// Tells those who wait for runs that are not here, when they are over.
    fn look_for_ends(&mut self) {
        let runs: Vec<Arc<str>> = self
            .waiters
            .keys()
            .filter(|run| !self.shard.has(run))
            .cloned()
            .collect();
        for run in runs {
            match self.stored(&run) {
                Ok(summary) if !summary.state.is_final() => {}
                ended => {
                    for callback in self.waiters.remove(&run).unwrap_or_default() {
                        callback(ended.clone());
                    }
                }
            }
        }
    }

    fn adopt_is_due(&self, now: Millis, instant: Instant, changed: bool) -> bool {
        let waited = self
            .poll
            .adopted
            .is_none_or(|at| instant.saturating_duration_since(at) >= self.poll.adopt_every);
        waited || changed || self.poll.next_wake.is_some_and(|at| at <= now)
    }

    /// Takes over runs that nobody owns and that have something to do.
    fn adopt(&mut self, now: Millis) -> Result<bool, Error> {
        self.poll.shunned.retain(|_, until| *until > now);
        let room = self
            .shard
            .room()
            .min(Limits::count(self.config.limits.adopt_runs));
        let mut found = 0;
        if room > 0 {
            for run in self
                .config
                .store
                .unowned(now, room + self.poll.shunned.len())?
            {
                if !self.shard.has(&run)
                    && !self.poll.shunned.contains_key(&run)
                    && self.shard.room() > 0
                {
                    self.step(now, In::Resume { ticket: None, run });
                    found += 1;
                }
            }
        }
        if found > 0 && found >= room {
            // There may be more: the next look goes on.
            self.poll.adopted = None;
        }
        self.poll.next_wake = self.config.store.next_wake()?;
        Ok(found > 0)
    }
}
