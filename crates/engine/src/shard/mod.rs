//! The shard: a pure machine that owns many runs.
//!
//! `step(now, message) → messages`. It routes what arrives to the runs, gathers their turns, and holds back everything
//! that may leave only when those turns are on disk: starts of `write` and `once` attempts, replies, items for
//! observers. [`Shard::cut`] takes the gathered turns of all runs as one batch; [`Shard::committed`] releases what was
//! held for it. Starts of `pure` and `read` attempts leave at once.
//!
//! Invariants: a run that is in memory is owned under its epoch; what was answered, shown or started durably is on
//! disk; a report of an attempt that is not under way here changes nothing.
//!
//! Absent on purpose: threads, clocks, the store, executors. The `driver` has them.

mod commit;
mod live;
mod open;
mod pause;
mod post;
mod route;
mod slots;

pub use self::commit::Refused;
pub(crate) use self::commit::base_of;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::event::{Input, Reject};
use ravel_core::mutant::{self, Mutant};
use ravel_core::port_store::{Owner, Reply};
use ravel_core::run::{Handled, Run};

use self::live::{Live, Place, Told};
use self::slots::Berth;
use crate::cache::ResultCache;
use crate::error::{EngineError, StopReason};
use crate::limiter::{KeyUse, Limiter};
use crate::limits::Limits;
use crate::message::{Answer, Ending, In, NewRun, Out, RunKey, Ticket};
use crate::timers::{Slot, Timers};

/// Epoch under which a run is created.
const FIRST_EPOCH: u64 = 1;

/// How the engine is coming to its end.
#[derive(Debug)]
struct Stopping {
    why: StopReason,
    /// Attempts that are under way may take until then; `None`: that is over.
    until: Option<Millis>,
    done: bool,
}

/// Numbers about the shard, for `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Runs in memory.
    pub live: usize,
    /// Runs owned but not in memory.
    pub parked: usize,
    /// Runs on their way into memory.
    pub waking: usize,
    /// Starts that wait for room in memory.
    pub waiting_starts: usize,
    /// Attempts that were handed out, or will be with the next commit.
    pub in_flight: usize,
    /// Attempts that wait for permits.
    pub waiting_permits: usize,
    /// Commits so far.
    pub commits: u64,
    /// Turns written so far.
    pub turns: u64,
    /// Most turns in one commit so far.
    pub turns_in_commit_max: u64,
    /// Results given from the cache so far.
    pub cache_hits: u64,
    /// Runs that another process took over so far.
    pub fenced: u64,
}

/// Owns runs. See the module.
pub struct Shard {
    token: Arc<str>,
    limits: Limits,
    berths: Vec<Berth>,
    vacant: Vec<Slot>,
    by_id: HashMap<Arc<str>, RunKey>,
    live: usize,
    parked: usize,
    waking: usize,
    in_flight: usize,
    /// Runs with something for the next commit.
    dirty: Vec<RunKey>,
    dirty_turns: usize,
    committing: bool,
    limiter: Limiter,
    /// When a run has to be told the time.
    wakes: Timers,
    /// When a run may leave memory, or its pause ends.
    leaves: Timers,
    cache: Box<dyn ResultCache>,
    /// Inputs that the shard itself has for its runs.
    work: VecDeque<(RunKey, Input)>,
    waiting_starts: VecDeque<(Ticket, Box<NewRun>)>,
    /// Start keys of runs that the store does not have yet.
    start_keys: HashMap<Arc<str>, RunKey>,
    /// Replies to inbox rows that go to the store without a commit.
    settles: Vec<(i64, Reply)>,
    stopping: Option<Stopping>,
    totals: Counters,
}

impl Shard {
    /// A shard without runs, that writes under `token`.
    #[must_use]
    pub fn new(token: Arc<str>, limits: Limits, cache: Box<dyn ResultCache>) -> Self {
        Self {
            token,
            limiter: Limiter::new(Limits::count(limits.permit_waiters)),
            limits,
            berths: Vec::new(),
            vacant: Vec::new(),
            by_id: HashMap::new(),
            live: 0,
            parked: 0,
            waking: 0,
            in_flight: 0,
            dirty: Vec::new(),
            dirty_turns: 0,
            committing: false,
            wakes: Timers::default(),
            leaves: Timers::default(),
            cache,
            work: VecDeque::new(),
            waiting_starts: VecDeque::new(),
            start_keys: HashMap::new(),
            settles: Vec::new(),
            stopping: None,
            totals: Counters::default(),
        }
    }

    /// Takes in one message. What is to be done is added to `out`, in order.
    pub fn step(&mut self, now: Millis, message: In, out: &mut Vec<Out>) {
        match message {
            In::Start { ticket, new } => self.start(now, ticket, new, out),
            In::Fork {
                ticket,
                run,
                prefix,
            } => self.fork(now, ticket, run, *prefix, out),
            In::Resume { ticket, run } => self.resume(ticket, run, out),
            In::Opened { key, opened } => self.opened(now, key, opened, out),
            In::Report { key, attempt, what } => self.report(now, key, attempt, what, out),
            In::Posted {
                from,
                run,
                at,
                wish,
            } => self.posted(now, from, run, at, wish, out),
            In::Pause { ticket, run } => self.pause(now, ticket, run, out),
            In::Shutdown { now: at_once } => self.shut_down(now, at_once, out),
            In::Tick => self.tick(now, out),
        }
        self.drain_work(now, out);
        self.finish_stopping(out);
    }

    /// When `Tick` is due next.
    pub fn next_wake(&mut self) -> Option<Millis> {
        let stop = self.stopping.as_ref().and_then(|stopping| stopping.until);
        [self.wakes.earliest(), self.leaves.earliest(), stop]
            .into_iter()
            .flatten()
            .min()
    }

    /// Turns that wait for the next commit.
    #[must_use]
    pub fn waiting_turns(&self) -> usize {
        self.dirty_turns
    }

    /// Runs that may still be taken into memory.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.stopping.is_some() {
            return 0;
        }
        Limits::count(self.limits.live_runs)
            .saturating_sub(self.live + self.waking + self.waiting_starts.len())
    }

    /// True when the run is here: in memory, parked, or on its way.
    #[must_use]
    pub fn has(&self, run: &str) -> bool {
        self.by_id.contains_key(run)
    }

    /// A run that is in memory. Its last turns may not be on disk yet: for checks, not for observers.
    #[must_use]
    pub fn run(&self, run: &str) -> Option<&Run> {
        let key = self.by_id.get(run)?;
        match &self.berths[key.slot as usize].place {
            Place::Live(live) => Some(&live.run),
            Place::Vacant | Place::Parked(_) | Place::Waking(_) => None,
        }
    }

    /// True when no run is here at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty() && self.waiting_starts.is_empty()
    }

    /// Numbers for `status`.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            live: self.live,
            parked: self.parked,
            waking: self.waking,
            waiting_starts: self.waiting_starts.len(),
            in_flight: self.in_flight,
            waiting_permits: self.limiter.waiting(),
            ..self.totals.clone()
        }
    }

    /// Permits in use, by key.
    #[must_use]
    pub fn permits(&self) -> Vec<KeyUse> {
        self.limiter.usage()
    }

    fn start(&mut self, now: Millis, ticket: Ticket, new: Box<NewRun>, out: &mut Vec<Out>) {
        if let Some(stopping) = &self.stopping {
            let why = stopping.why.clone();
            out.push(Out::Answer {
                ticket,
                answer: Err(EngineError::Stopped { why }),
            });
            return;
        }
        if let Some(key) = new
            .start_key
            .as_ref()
            .and_then(|start_key| self.start_keys.get(start_key).copied())
        {
            self.tell(key, Told::Run(ticket), out);
            return;
        }
        if let Some(key) = self.by_id.get(&new.run).copied() {
            self.tell(key, Told::Run(ticket), out);
            return;
        }
        if self.room() > 0 {
            self.begin(now, ticket, *new, out);
            return;
        }
        let most = self.limits.waiting_starts;
        if self.waiting_starts.len() >= Limits::count(most) {
            let answer = Err(EngineError::Overloaded {
                limit: "waiting_starts",
                value: most,
            });
            out.push(Out::Answer { ticket, answer });
        } else {
            self.waiting_starts.push_back((ticket, new));
        }
    }

    fn begin(&mut self, now: Millis, ticket: Ticket, new: NewRun, out: &mut Vec<Out>) {
        let run = Run::new(Arc::clone(&new.run), new.graph, new.terms);
        let mut live = Live::new(run, self.first_owner(), now);
        live.start_key.clone_from(&new.start_key);
        let key = self.admit(new.run, Place::Live(Box::new(live)));
        if let Some(start_key) = new.start_key {
            self.start_keys.insert(start_key, key);
        }
        match self.apply(now, key, Input::Start { input: new.input }, out) {
            Ok(_) => self.tell(key, Told::Run(ticket), out),
            Err(reject) => {
                self.vacate(key);
                out.push(Out::Answer {
                    ticket,
                    answer: Err(rejected(reject)),
                });
            }
        }
    }

    fn fork(
        &mut self,
        now: Millis,
        ticket: Ticket,
        run: Arc<str>,
        prefix: Run,
        out: &mut Vec<Out>,
    ) {
        if let Some(stopping) = &self.stopping {
            let why = stopping.why.clone();
            out.push(Out::Answer {
                ticket,
                answer: Err(EngineError::Stopped { why }),
            });
            return;
        }
        let mut live = Live::new(prefix, self.first_owner(), now);
        // Attempts that began in the last turn of the prefix leave here for the first time: `outstanding` has them.
        let handled = match live.run.fork(now, Arc::clone(&run)) {
            Ok(handled) => Handled {
                commands: live.run.outstanding(),
                ..handled
            },
            Err(reject) => {
                out.push(Out::Answer {
                    ticket,
                    answer: Err(rejected(reject)),
                });
                return;
            }
        };
        let key = self.admit(run, Place::Live(Box::new(live)));
        self.record(now, key, handled.turn);
        self.carry_on(now, key, out);
        self.tell(key, Told::Run(ticket), out);
    }

    fn first_owner(&self) -> Owner {
        Owner {
            token: Arc::clone(&self.token),
            epoch: FIRST_EPOCH,
        }
    }

    /// Begins starts that waited, as far as there is room.
    fn begin_waiting(&mut self, now: Millis, out: &mut Vec<Out>) {
        while self.stopping.is_none()
            && self.live + self.waking < Limits::count(self.limits.live_runs)
            && let Some((ticket, new)) = self.waiting_starts.pop_front()
        {
            self.begin(now, ticket, *new, out);
        }
    }

    fn tick(&mut self, now: Millis, out: &mut Vec<Out>) {
        let due: Vec<Slot> = std::iter::from_fn(|| self.wakes.pop_due(now)).collect();
        for slot in due {
            let Some(key) = self.tenant(slot) else {
                continue;
            };
            match &self.berths[slot as usize].place {
                Place::Live(_) => self.work.push_back((key, Input::Tick)),
                Place::Parked(_) => self.wake(key, out),
                Place::Vacant | Place::Waking(_) => {}
            }
            self.drain_work(now, out);
            // The run says only changes of its wish; one that it did not change is still its wish.
            if let Some(at) = self.live_mut(key).and_then(|live| live.run.wake_at()) {
                self.wakes.set(slot, Some(at.max(now + 1)));
            }
        }
        while let Some(slot) = self.leaves.pop_due(now) {
            self.leave_if_due(now, slot, out);
        }
        self.end_grace(now, out);
    }

    /// Tells a caller when everything that the run did so far is on disk: at once when it is.
    fn tell(&mut self, key: RunKey, told: Told, out: &mut Vec<Out>) {
        if self.tenant(key.slot) != Some(key) {
            // The run broke over it, and is gone: whoever it was told to has been told so.
            if let Told::Reply(..) = told {
                out.push(answer(told, &Arc::from("")));
            }
            return;
        }
        match self.place(key) {
            Place::Live(live) => {
                if mutant::is(Mutant::ToldBeforeDisk) {
                    out.push(answer(told, live.run.id()));
                } else if !live.pending.turns.is_empty() {
                    live.pending.told.push(told);
                } else if let Some(committing) = &mut live.committing {
                    committing.told.push(told);
                } else {
                    out.push(answer(told, live.run.id()));
                }
            }
            Place::Parked(parked) => out.push(answer(told, &parked.run)),
            Place::Waking(waking) => match told {
                Told::Run(ticket) => waking.resumed.push(ticket),
                Told::Reply(..) => out.push(answer(told, &waking.run)),
            },
            Place::Vacant => {}
        }
    }

    /// Drops a run that cannot go on here: its attempts are stopped, and everybody who waits for it is told why.
    fn drop_run(&mut self, key: RunKey, why: &EngineError, out: &mut Vec<Out>) {
        let place = self.vacate(key);
        let (run, tickets) = match place {
            Place::Vacant => return,
            Place::Parked(parked) => (parked.run, Vec::new()),
            Place::Waking(waking) => {
                let mut tickets = waking.resumed;
                tickets.extend(waking.paused);
                for (sender, _, _) in &waking.letters {
                    tickets.extend(sender.ticket());
                }
                (waking.run, tickets)
            }
            Place::Live(live) => {
                let run = Arc::clone(live.run.id());
                for (attempt, flight) in &live.flights {
                    if flight.left {
                        let why = ravel_core::event::Stop::Cancelled;
                        out.push(Out::Abort {
                            run: Arc::clone(&run),
                            attempt: *attempt,
                            why,
                        });
                    }
                }
                let committing = live.committing.iter().flat_map(|pending| &pending.told);
                let told = live.pending.told.iter().chain(committing).map(Told::ticket);
                let paused = live
                    .pausing
                    .iter()
                    .flat_map(|pausing| &pausing.tickets)
                    .copied();
                (run, told.chain(paused).collect())
            }
        };
        for ticket in tickets {
            out.push(Out::Answer {
                ticket,
                answer: Err(why.clone()),
            });
        }
        out.push(Out::Ended {
            run,
            ending: Ending::Left(why.clone()),
        });
    }
}

fn rejected(reject: Reject) -> EngineError {
    EngineError::Rejected {
        code: reject.code.to_owned(),
        message: reject.message,
    }
}

fn answer(told: Told, run: &Arc<str>) -> Out {
    match told {
        Told::Run(ticket) => Out::Answer {
            ticket,
            answer: Ok(Answer::Run(Arc::clone(run))),
        },
        Told::Reply(ticket, reply) => Out::Answer {
            ticket,
            answer: Ok(Answer::Reply(reply)),
        },
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
