//! From turns in memory to turns on disk, and what was held back for them.
//!
//! `turns gathered --cut--> committing --committed--> held commands leave`, or `--refused--> without the run that was
//! refused, again`.

use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::port_store::{Batch, Error, Reply, RunCommit};

use super::live::{Live, Place};
use super::{Shard, answer};
use crate::error::{EngineError, StopReason};
use crate::message::{Answer, Ending, Out, RunKey};

/// What to do about a refused batch.
#[derive(Debug)]
pub enum Refused {
    /// Commit this instead: the same without the run that the store does not take.
    Retry(Batch),
    /// The store cannot write: the shard is stopping.
    Stopped,
}

impl Shard {
    /// Takes all gathered turns as one batch; `None` when there are none or a batch is under way.
    pub fn cut(&mut self) -> Option<Batch> {
        if self.committing || self.dirty.is_empty() {
            return None;
        }
        let mut runs = Vec::with_capacity(self.dirty.len());
        for key in std::mem::take(&mut self.dirty) {
            if let Some(live) = self.live_mut(key)
                && live.dirty
            {
                runs.push(live.cut());
            }
        }
        self.dirty_turns = 0;
        self.committing = !runs.is_empty();
        self.committing.then_some(Batch { runs })
    }

    /// The batch is on disk: what was held back for it leaves.
    pub fn committed(&mut self, now: Millis, batch: Batch, out: &mut Vec<Out>) {
        self.committing = false;
        let turns: usize = batch.runs.iter().map(|run| run.turns.len()).sum();
        self.totals.commits += 1;
        self.totals.turns += turns as u64;
        self.totals.turns_in_commit_max = self.totals.turns_in_commit_max.max(turns as u64);
        for commit in batch.runs {
            let Some(key) = self.by_id.get(&commit.run).copied() else {
                continue;
            };
            let Some(live) = self.live_mut(key) else {
                continue;
            };
            let first = !live.created;
            live.created = true;
            let start_key = if first { live.start_key.clone() } else { None };
            let done = live.committing.take().unwrap_or_default();
            for job in &done.held {
                if let Some(flight) = live.flights.get_mut(&job.attempt) {
                    flight.left = true;
                }
            }
            self.forget_start_key(start_key.as_ref(), key);
            out.extend(done.held.into_iter().map(|job| Out::Launch { key, job }));
            out.extend(done.told.into_iter().map(|told| answer(told, &commit.run)));
            out.push(Out::Turns {
                run: Arc::clone(&commit.run),
                turns: commit.turns,
            });
            if commit.summary.state.is_final() {
                let summary = Box::new(commit.summary);
                self.end(key, Ending::Final(summary), out);
            } else {
                self.after_commit(now, key, out);
            }
        }
        self.begin_waiting(now, out);
        self.drain_work(now, out);
        self.finish_stopping(out);
    }

    /// The store refused the batch. `offender` is the position of the run that it named, when it named one.
    pub fn refused(
        &mut self,
        now: Millis,
        mut batch: Batch,
        error: &Error,
        offender: Option<usize>,
        out: &mut Vec<Out>,
    ) -> Refused {
        let stop = match error {
            Error::Full { message } => Some(StopReason::Full {
                message: message.clone(),
            }),
            Error::Io { .. } | Error::Damaged { .. } | Error::Newer { .. } => {
                Some(StopReason::Store {
                    message: error.to_string(),
                })
            }
            Error::Unknown { .. }
            | Error::Exists { .. }
            | Error::Fenced { .. }
            | Error::Held { .. }
            | Error::Gap { .. } => None,
        };
        let Some(offender) = offender.filter(|_| stop.is_none()) else {
            let why = stop.unwrap_or_else(|| StopReason::Store {
                message: error.to_string(),
            });
            self.committing = false;
            self.fail(now, why, out);
            self.finish_stopping(out);
            return Refused::Stopped;
        };
        let commit = batch.runs.swap_remove(offender);
        if let Some(key) = self.by_id.get(&commit.run).copied() {
            self.refuse_run(key, &commit, error, out);
        }
        self.committing = !batch.runs.is_empty();
        self.drain_work(now, out);
        Refused::Retry(batch)
    }

    fn refuse_run(&mut self, key: RunKey, commit: &RunCommit, error: &Error, out: &mut Vec<Out>) {
        let run = &commit.run;
        let why = match error {
            Error::Exists { run: existing } => {
                // A second start under a key, or of an id: it gives the run that exists.
                if let Some(live) = self.live_mut(key) {
                    let committing = live.committing.take().unwrap_or_default();
                    let told = live.pending.told.drain(..).chain(committing.told);
                    out.extend(told.map(|told| Out::Answer {
                        ticket: told.ticket(),
                        answer: Ok(Answer::Run(Arc::clone(existing))),
                    }));
                }
                EngineError::Rejected {
                    code: "exists".to_owned(),
                    message: error.to_string(),
                }
            }
            Error::Fenced { .. } => {
                self.totals.fenced += 1;
                tracing::error!(run = %run, "another process took the run over; it is dropped here");
                EngineError::Fenced {
                    run: Arc::clone(run),
                }
            }
            // Removed by somebody since it was read: the run, or the one that a fork was to go on from.
            Error::Unknown { .. } => EngineError::UnknownRun {
                run: Arc::clone(base_of(commit).unwrap_or(run)),
            },
            Error::Held { .. }
            | Error::Gap { .. }
            | Error::Damaged { .. }
            | Error::Full { .. }
            | Error::Newer { .. }
            | Error::Io { .. } => {
                tracing::error!(run = %run, error = %error, "the store does not take the run; it is dropped here");
                EngineError::Broken {
                    run: Arc::clone(run),
                    message: error.to_string(),
                }
            }
        };
        self.drop_run(key, &why, out);
    }

    /// A run that has settled what it could: it may be pausing, or become idle.
    fn after_commit(&mut self, now: Millis, key: RunKey, out: &mut Vec<Out>) {
        let park_at = now.saturating_add(self.limits.park_after_ms);
        let Some(live) = self.live_mut(key) else {
            return;
        };
        if live.pausing.is_some() {
            self.finish_pause(key, out);
        } else if live.is_quiet() {
            self.leaves.set(key.slot, Some(park_at));
        }
    }

    /// A run that is over leaves.
    pub(super) fn end(&mut self, key: RunKey, ending: Ending, out: &mut Vec<Out>) {
        let Place::Live(live) = self.vacate(key) else {
            return;
        };
        let Live {
            run,
            pausing,
            flights,
            ..
        } = *live;
        for (attempt, _) in flights.iter().filter(|(_, flight)| flight.left) {
            let why = ravel_core::event::Stop::Cancelled;
            out.push(Out::Abort {
                run: Arc::clone(run.id()),
                attempt: *attempt,
                why,
            });
        }
        if let Some(pausing) = pausing {
            let answers = pausing.tickets.into_iter();
            out.extend(answers.map(|ticket| Out::Answer {
                ticket,
                answer: Ok(Answer::Paused),
            }));
            let turn = run.last_turn();
            self.settles.extend(
                pausing
                    .rows
                    .into_iter()
                    .map(|row| (row, Reply::Accepted { turn })),
            );
        }
        out.push(Out::Ended {
            run: Arc::clone(run.id()),
            ending,
        });
    }

    /// Replies to inbox rows that need no commit, for the store.
    pub fn take_settles(&mut self) -> Vec<(i64, Reply)> {
        std::mem::take(&mut self.settles)
    }
}

/// The run whose log a new fork goes on from.
pub(crate) fn base_of(commit: &RunCommit) -> Option<&Arc<str>> {
    let (base, _) = commit.summary.forked_from.as_ref()?;
    commit.create.then_some(base)
}
