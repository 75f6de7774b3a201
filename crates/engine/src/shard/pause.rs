//! Runs that leave memory without being over, and the engine's own end.
//!
//! A pause waits for a clean point: nothing new is started, attempts that are under way may end within a grace, all is
//! on disk, the run is given up. When the grace is over what is still under way is stopped and counts as lost.

use std::sync::Arc;

use ravel_core::effect::{Failure, Millis, Outcome};
use ravel_core::event::{Input, Stop};

use super::live::{Pausing, Place};
use super::{Shard, Stopping};
use crate::error::{EngineError, StopReason};
use crate::message::{Answer, Ending, Out, RunKey, Sender, Ticket};
use crate::timers::Slot;

impl Shard {
    pub(super) fn pause(&mut self, now: Millis, ticket: Ticket, run: Arc<str>, out: &mut Vec<Out>) {
        let Some(key) = self.by_id.get(&run).copied() else {
            out.push(Out::Answer {
                ticket,
                answer: Err(EngineError::UnknownRun { run }),
            });
            return;
        };
        match self.place(key) {
            Place::Live(_) => self.begin_pause(now, key, Sender::Caller(ticket), out),
            Place::Waking(waking) => waking.paused.push(ticket),
            Place::Parked(_) => {
                self.give_up_parked(key, out);
                out.push(Out::Answer {
                    ticket,
                    answer: Ok(Answer::Paused),
                });
            }
            Place::Vacant => {}
        }
    }

    /// Nothing new is started from here on.
    pub(super) fn begin_pause(
        &mut self,
        now: Millis,
        key: RunKey,
        from: Sender,
        out: &mut Vec<Out>,
    ) {
        let until = now.saturating_add(self.limits.pause_grace_ms);
        let Some(live) = self.live_mut(key) else {
            return;
        };
        live.run.set_hold(true);
        let pausing = live.pausing.get_or_insert_with(|| Pausing {
            until,
            tickets: Vec::new(),
            rows: Vec::new(),
        });
        let until = pausing.until;
        match from {
            Sender::Caller(ticket) => pausing.tickets.push(ticket),
            Sender::Row(row) => pausing.rows.push(row),
        }
        self.leaves.set(key.slot, Some(until));
        self.finish_pause(key, out);
    }

    /// Gives the run up when it has come to its clean point.
    pub(super) fn finish_pause(&mut self, key: RunKey, out: &mut Vec<Out>) {
        let Some(live) = self.live_mut(key) else {
            return;
        };
        if live.pausing.is_none() || !live.is_quiet() {
            return;
        }
        self.give_up(key, out);
    }

    fn give_up(&mut self, key: RunKey, out: &mut Vec<Out>) {
        let Some(live) = self.live_mut(key) else {
            return;
        };
        let (run, owner) = (Arc::clone(live.run.id()), live.owner.clone());
        out.push(Out::Release {
            run: Arc::clone(&run),
            owner,
        });
        let why = self.leaving(&run);
        self.end(key, Ending::Left(why), out);
    }

    fn leaving(&self, run: &Arc<str>) -> EngineError {
        match &self.stopping {
            Some(Stopping { why, .. }) if *why != StopReason::Shutdown => {
                EngineError::Stopped { why: why.clone() }
            }
            Some(_) | None => EngineError::Paused {
                run: Arc::clone(run),
            },
        }
    }

    fn give_up_parked(&mut self, key: RunKey, out: &mut Vec<Out>) {
        let Place::Parked(parked) = self.vacate(key) else {
            return;
        };
        out.push(Out::Release {
            run: Arc::clone(&parked.run),
            owner: parked.owner,
        });
        let why = EngineError::Paused {
            run: Arc::clone(&parked.run),
        };
        out.push(Out::Ended {
            run: parked.run,
            ending: Ending::Left(why),
        });
    }

    /// A run that has nothing to do but wait may leave memory after a while.
    pub(super) fn rest_if_quiet(&mut self, now: Millis, key: RunKey) {
        let park_at = now.saturating_add(self.limits.park_after_ms);
        if let Some(live) = self.live_mut(key)
            && live.pausing.is_none()
            && live.is_quiet()
        {
            self.leaves.set(key.slot, Some(park_at));
        }
    }

    /// The leave timer of a slot fired: the run is parked, or its pause is over, or it was busy meanwhile.
    pub(super) fn leave_if_due(&mut self, now: Millis, slot: Slot, out: &mut Vec<Out>) {
        let park_after = self.limits.park_after_ms;
        let Some(key) = self.tenant(slot) else { return };
        let Some(live) = self.live_mut(key) else {
            return;
        };
        if live
            .pausing
            .as_ref()
            .is_some_and(|pausing| pausing.until <= now)
        {
            self.abandon(now, key, out);
            return;
        }
        if !live.is_quiet() || live.pausing.is_some() {
            return;
        }
        let park_at = live.active_at.saturating_add(park_after);
        if park_at > now {
            self.leaves.set(slot, Some(park_at));
        } else if live.can_park() {
            self.park(key);
            self.begin_waiting(now, out);
        }
    }

    /// The grace is over: attempts that are under way are stopped and nobody listens to them any more; starts that
    /// are still held back are taken back, which the log says.
    fn abandon(&mut self, now: Millis, key: RunKey, out: &mut Vec<Out>) {
        let Some(live) = self.live_mut(key) else {
            return;
        };
        let run = Arc::clone(live.run.id());
        let mut held = std::mem::take(&mut live.pending.held);
        if let Some(committing) = &mut live.committing {
            held.append(&mut committing.held);
        }
        for job in held {
            let failure = Failure::lost("the engine stopped before the attempt left");
            let outcome = Outcome::not_done(failure);
            self.work.push_back((
                key,
                Input::Finished {
                    attempt: job.attempt,
                    outcome,
                },
            ));
        }
        self.drain_work(now, out);
        let Some(live) = self.live_mut(key) else {
            return;
        };
        let flights = std::mem::take(&mut live.flights);
        self.in_flight -= flights.len();
        for (attempt, _) in flights.into_iter().filter(|(_, flight)| flight.left) {
            out.push(Out::Abort {
                run: Arc::clone(&run),
                attempt,
                why: Stop::Cancelled,
            });
        }
        self.finish_pause(key, out);
    }

    // The engine's end.

    pub(super) fn shut_down(&mut self, now: Millis, at_once: bool, out: &mut Vec<Out>) {
        let until = if at_once {
            now
        } else {
            now.saturating_add(self.limits.pause_grace_ms)
        };
        match &mut self.stopping {
            Some(stopping) => stopping.until = stopping.until.map(|before| before.min(until)),
            None => {
                self.stopping = Some(Stopping {
                    why: StopReason::Shutdown,
                    until: Some(until),
                    done: false,
                });
                self.leave_all(now, out);
            }
        }
        self.end_grace(now, out);
    }

    /// The store cannot write. Nothing more is issued; what is under way may end, and is tried to be written once more.
    pub(super) fn fail(&mut self, now: Millis, why: StopReason, out: &mut Vec<Out>) {
        tracing::error!(reason = %why, "the engine stops");
        let until = now.saturating_add(self.limits.pause_grace_ms);
        self.stopping = Some(Stopping {
            why,
            until: Some(until),
            done: false,
        });
        self.drop_all(out);
    }

    fn leave_all(&mut self, now: Millis, out: &mut Vec<Out>) {
        let waiting: Vec<Ticket> = self
            .waiting_starts
            .drain(..)
            .map(|(ticket, _)| ticket)
            .collect();
        let why = EngineError::Stopped {
            why: StopReason::Shutdown,
        };
        out.extend(waiting.into_iter().map(|ticket| Out::Answer {
            ticket,
            answer: Err(why.clone()),
        }));
        for key in self.keys() {
            match self.place(key) {
                Place::Live(live) => {
                    live.run.set_hold(true);
                    let until = now.saturating_add(self.limits.pause_grace_ms);
                    if let Some(live) = self.live_mut(key) {
                        live.pausing.get_or_insert_with(|| Pausing {
                            until,
                            tickets: Vec::new(),
                            rows: Vec::new(),
                        });
                    }
                    self.finish_pause(key, out);
                }
                // All parked runs are given up in one transaction when the driver ends.
                Place::Parked(_) => {
                    let _ = self.vacate(key);
                }
                Place::Waking(_) => {
                    let why = EngineError::Stopped {
                        why: StopReason::Shutdown,
                    };
                    self.drop_run(key, &why, out);
                }
                Place::Vacant => {}
            }
        }
    }

    /// The grace of the engine's end is over.
    pub(super) fn end_grace(&mut self, now: Millis, out: &mut Vec<Out>) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        if stopping.until.take_if(|until| *until <= now).is_none() {
            return;
        }
        for key in self.keys() {
            self.abandon(now, key, out);
        }
    }

    fn drop_all(&mut self, out: &mut Vec<Out>) {
        let Some(stopping) = &self.stopping else {
            return;
        };
        let why = EngineError::Stopped {
            why: stopping.why.clone(),
        };
        let waiting: Vec<Ticket> = self
            .waiting_starts
            .drain(..)
            .map(|(ticket, _)| ticket)
            .collect();
        out.extend(waiting.into_iter().map(|ticket| Out::Answer {
            ticket,
            answer: Err(why.clone()),
        }));
        for key in self.keys() {
            self.drop_run(key, &why, out);
        }
        self.work.clear();
        self.dirty.clear();
        self.dirty_turns = 0;
        self.settles.clear();
    }

    /// Says that the engine is at its end, once, when no run is left.
    pub(super) fn finish_stopping(&mut self, out: &mut Vec<Out>) {
        let empty = self.is_empty();
        if let Some(stopping) = &mut self.stopping
            && empty
            && !stopping.done
        {
            stopping.done = true;
            out.push(Out::Stopped {
                why: stopping.why.clone(),
            });
        }
    }

    fn keys(&self) -> Vec<RunKey> {
        (0..)
            .zip(&self.berths)
            .filter_map(|(slot, _)| self.tenant(slot))
            .collect()
    }
}
