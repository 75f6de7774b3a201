//! Inputs to runs, and their commands.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure, Fate, Millis, Outcome};
use ravel_core::event::{Attempt, Command, Input, Reject, Stop, Turn};
use ravel_core::mutant::{self, Mutant};
use ravel_core::port::Job;
use ravel_core::run::{Handled, Run};

use super::Shard;
use super::live::Flight;
use crate::cache::{keepable, key_of};
use crate::error::EngineError;
use crate::limiter::{Asked, Claim};
use crate::message::{Out, Reported, RunKey};

/// Code of the refusal that stands for a broken invariant.
const BROKEN: &str = "broken";

/// `Run::handle`, with a panic of that run kept to that run.
pub(super) fn handle(run: &mut Run, now: Millis, input: Input) -> Result<Handled, Reject> {
    catch_unwind(AssertUnwindSafe(|| run.handle(now, input))).unwrap_or_else(|_| {
        let message = "it broke an invariant (see the message of the panic)".to_owned();
        Err(Reject {
            code: BROKEN,
            message,
        })
    })
}

impl Shard {
    /// Hands an input to a live run and carries out what it commands. Gives the turn that recorded it, if one did.
    pub(super) fn apply(
        &mut self,
        now: Millis,
        key: RunKey,
        input: Input,
        out: &mut Vec<Out>,
    ) -> Result<Option<u64>, Reject> {
        let Some(live) = self.live_mut(key) else {
            return Ok(None);
        };
        let handled = match handle(&mut live.run, now, input) {
            Ok(handled) => handled,
            Err(reject) => {
                self.drop_if_broken(key, &reject, out);
                return Err(reject);
            }
        };
        let turn = handled.turn.as_ref().map(|turn| turn.turn);
        self.absorb(now, key, handled, out);
        Ok(turn)
    }

    /// Takes over what a run recorded and wants.
    pub(super) fn absorb(
        &mut self,
        now: Millis,
        key: RunKey,
        handled: Handled,
        out: &mut Vec<Out>,
    ) {
        self.record(now, key, handled.turn);
        for command in handled.commands {
            self.command(now, key, command, out);
        }
    }

    pub(super) fn record(&mut self, now: Millis, key: RunKey, turn: Option<Turn>) {
        let Some(live) = self.live_mut(key) else {
            return;
        };
        live.active_at = now;
        let Some(turn) = turn else { return };
        live.record(turn);
        let clean = !std::mem::replace(&mut live.dirty, true);
        self.dirty_turns += 1;
        if clean {
            self.dirty.push(key);
        }
    }

    /// A run that broke an invariant of its own goes no further: it must not guess.
    pub(super) fn drop_if_broken(&mut self, key: RunKey, reject: &Reject, out: &mut Vec<Out>) {
        if reject.code == BROKEN
            && let Some(live) = self.live_mut(key)
        {
            let run = Arc::clone(live.run.id());
            self.drop_run(
                key,
                &EngineError::Broken {
                    run,
                    message: reject.message.clone(),
                },
                out,
            );
        }
    }

    /// Gives the runs what the shard itself has for them: grants, cached results, ticks.
    pub(super) fn drain_work(&mut self, now: Millis, out: &mut Vec<Out>) {
        while let Some((key, input)) = self.work.pop_front() {
            if let Err(reject) = self.apply(now, key, input, out) {
                // The run and the engine disagree about what is under way: neither may guess.
                let Some(live) = self.live_mut(key) else {
                    continue;
                };
                let run = Arc::clone(live.run.id());
                let message = format!("it refused what the engine told it: {}", reject.message);
                self.drop_run(key, &EngineError::Broken { run, message }, out);
            }
        }
    }

    pub(super) fn report(
        &mut self,
        now: Millis,
        key: RunKey,
        attempt: Attempt,
        what: Reported,
        out: &mut Vec<Out>,
    ) {
        let Some(live) = self.live_mut(key) else {
            return;
        };
        match what {
            Reported::Text(text) => {
                if let Some(flight) = live.flights.get(&attempt) {
                    let (run, path) = (Arc::clone(live.run.id()), Arc::clone(&flight.path));
                    out.push(Out::Text {
                        run,
                        path,
                        attempt,
                        text,
                    });
                }
            }
            Reported::Items { field, items } => {
                if live.flights.contains_key(&attempt) {
                    self.work.push_back((
                        key,
                        Input::Chunk {
                            attempt,
                            field,
                            items,
                        },
                    ));
                }
            }
            Reported::Finished(outcome) => {
                let Some(flight) = live.flights.remove(&attempt) else {
                    return;
                };
                self.in_flight -= 1;
                if let (Some((cache_key, keep)), Some(value)) = (flight.cache, keepable(&outcome)) {
                    self.cache
                        .put(cache_key, value.clone(), now.saturating_add(keep));
                }
                let kept = mutant::is(Mutant::PermitKept) && outcome.fate == Fate::NotDone;
                self.work
                    .push_back((key, Input::Finished { attempt, outcome }));
                if !kept {
                    self.release(key, attempt);
                }
            }
        }
    }

    /// Gives back an attempt's permits; what they allow now is handed to the runs after what is queued already.
    fn release(&mut self, key: RunKey, attempt: Attempt) {
        let mut granted = Vec::new();
        self.limiter
            .release(Claim { run: key, attempt }, &mut granted);
        self.queue_granted(&granted);
    }

    pub(super) fn queue_granted(&mut self, granted: &[Claim]) {
        let grants = granted.iter().map(|claim| {
            (
                claim.run,
                Input::Granted {
                    attempt: claim.attempt,
                },
            )
        });
        self.work.extend(grants);
    }

    pub(super) fn command(
        &mut self,
        now: Millis,
        key: RunKey,
        command: Command,
        out: &mut Vec<Out>,
    ) {
        match command {
            Command::Acquire {
                attempt,
                permits,
                priority,
            } => self.acquire(key, attempt, &permits, priority),
            Command::Release { attempt } => self.release(key, attempt),
            Command::Start(job) => self.launch(now, key, job, out),
            Command::Abort { attempt, why } => self.abort(key, attempt, why, out),
            Command::WakeAt(at) => self.wakes.set(key.slot, at),
        }
    }

    fn acquire(
        &mut self,
        key: RunKey,
        attempt: Attempt,
        permits: &[(Arc<str>, u32)],
        priority: i32,
    ) {
        match self
            .limiter
            .ask(Claim { run: key, attempt }, permits, priority)
        {
            Asked::Granted => self.work.push_back((key, Input::Granted { attempt })),
            Asked::Waiting => {}
            Asked::Full => {
                let most = self.limits.permit_waiters;
                let message =
                    format!("{most} attempts wait for permits already (limit `permit_waiters`)");
                let failure =
                    Failure::new(ErrorClass::Overloaded, message).with_code("permit_waiters");
                self.work
                    .push_back((key, Input::Denied { attempt, failure }));
            }
        }
    }

    fn launch(&mut self, now: Millis, key: RunKey, job: Box<Job>, out: &mut Vec<Out>) {
        let cache_key = key_of(&job);
        if let Some(value) = cache_key
            .as_ref()
            .and_then(|cache_key| self.cache.get(cache_key, now))
        {
            self.totals.cache_hits += 1;
            self.work.push_back((
                key,
                Input::Finished {
                    attempt: job.attempt,
                    outcome: Outcome::done(value),
                },
            ));
            self.release(key, job.attempt);
            return;
        }
        let durable = job.effect.must_be_durable() && !mutant::is(Mutant::LeavesBeforeDisk);
        let Some(live) = self.live_mut(key) else {
            return;
        };
        let flight = Flight {
            path: Arc::clone(&job.path),
            left: !durable,
            cache: cache_key.zip(job.cache),
        };
        live.flights.insert(job.attempt, flight);
        if durable {
            live.pending.held.push(job);
        } else {
            out.push(Out::Launch { key, job });
        }
        self.in_flight += 1;
    }

    fn abort(&mut self, key: RunKey, attempt: Attempt, why: Stop, out: &mut Vec<Out>) {
        let Some(live) = self.live_mut(key) else {
            return;
        };
        match live.flights.get(&attempt) {
            Some(flight) if flight.left => {
                let run = Arc::clone(live.run.id());
                out.push(Out::Abort { run, attempt, why });
                return;
            }
            Some(_) => {}
            // Its report is on its way, or nobody listens to it any more: nothing is known of it here.
            None => return,
        }
        // It never left: that is certain, so nobody has to be asked.
        live.flights.remove(&attempt);
        live.pending.held.retain(|job| job.attempt != attempt);
        if let Some(committing) = &mut live.committing {
            committing.held.retain(|job| job.attempt != attempt);
        }
        self.in_flight -= 1;
        let failure = Failure::new(ErrorClass::Cancelled, "it was stopped before it began");
        self.work.push_back((
            key,
            Input::Finished {
                attempt,
                outcome: Outcome::not_done(failure),
            },
        ));
        self.release(key, attempt);
    }
}
