//! Carrying out what the shard says: executors, the store, observers and callers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure, Outcome};
use ravel_core::event::Turn;
use ravel_core::graph::Graph;
use ravel_core::port::{Job, Report, RunState};
use ravel_core::port_store::{Batch, Error, Owner};
use ravel_core::run::Run;

use super::calls::open_error;
use super::{Driver, SPARE_GRAPHS_MAX};
use crate::error::EngineError;
use crate::feed::FeedItem;
use crate::message::{Ending, In, Letter, Opened, Out, RunKey};
use crate::report::RunReport;
use crate::shard::{Refused, base_of};

impl Driver {
    /// Carries out messages of the shard, in order, and those that follow from them.
    pub(super) fn carry_out(&mut self, mut out: Vec<Out>) {
        while !out.is_empty() {
            let mut next = Vec::new();
            for message in out.drain(..) {
                self.carry_out_one(message, &mut next);
            }
            // The allocation is kept for the next step.
            if self.out.capacity() < out.capacity() {
                self.out = std::mem::take(&mut out);
            }
            out = next;
        }
    }

    fn carry_out_one(&mut self, message: Out, next: &mut Vec<Out>) {
        match message {
            Out::Launch { key, job } => self.launch(key, *job),
            Out::Abort { run, attempt, why } => self.config.executor.abort(&run, attempt, why),
            Out::Open { key, run, owner } => {
                let opened = self.open(&run, owner).map(Box::new);
                let now = self.config.clock.now();
                self.shard.step(now, In::Opened { key, opened }, next);
            }
            Out::Answer { ticket, answer } => {
                if let Some(callback) = self.callers.remove(&ticket) {
                    callback(answer);
                }
            }
            Out::Turns { run, turns } => {
                if self.hub.watches(&run) {
                    self.hub.show(
                        &run,
                        &FeedItem::Turns {
                            run: Arc::clone(&run),
                            turns: Arc::new(turns),
                        },
                    );
                }
            }
            Out::Text {
                run,
                path,
                attempt,
                text,
            } => {
                if self.hub.watches(&run) {
                    self.hub.show(
                        &run,
                        &FeedItem::Text {
                            run: Arc::clone(&run),
                            path,
                            attempt,
                            text,
                        },
                    );
                }
            }
            Out::Ended { run, ending } => self.ended(&run, ending),
            Out::Release { run, owner } => {
                if let Err(error) = self.config.store.release(&run, &owner) {
                    tracing::warn!(run = %run, error = %error, "the run could not be given up");
                }
            }
            Out::Stopped { why } => self.stopped = Some(why),
        }
    }

    fn launch(&mut self, key: RunKey, job: Job) {
        let report: Arc<dyn Report> = self.report_of(key);
        let (run, attempt) = (Arc::clone(&job.run), job.attempt);
        let executor = Arc::clone(&self.config.executor);
        let started = catch_unwind(AssertUnwindSafe(|| {
            executor.start(job, Arc::clone(&report))
        }));
        if started.is_err() {
            let failure = Failure::new(
                ErrorClass::Internal,
                "the executor broke while it started the attempt",
            );
            report.finished(&run, attempt, Outcome::unknown(failure));
        }
    }

    fn report_of(&mut self, key: RunKey) -> Arc<RunReport> {
        let index = key.slot as usize;
        if index >= self.reports.len() {
            self.reports.resize(index + 1, None);
        }
        match &mut self.reports[index] {
            Some(report) if report.key == key => Arc::clone(report),
            stale => Arc::clone(stale.insert(Arc::new(RunReport {
                key,
                port: Arc::clone(&self.port),
            }))),
        }
    }

    fn ended(&mut self, run: &Arc<str>, ending: Ending) {
        for callback in self.waiters.remove(run).unwrap_or_default() {
            callback(match &ending {
                Ending::Final(summary) => Ok((**summary).clone()),
                Ending::Left(why) => Err(why.clone()),
            });
        }
        if let Ending::Final(summary) = &ending
            && summary.state == RunState::Succeeded
        {
            self.config.executor.tidy(run);
        }
        if let Ending::Left(why) = &ending {
            self.poll.shun(run, why, self.config.clock.now());
        }
        if self.hub.watches(run) {
            self.hub.show(
                run,
                &FeedItem::Ended {
                    run: Arc::clone(run),
                    ending,
                },
            );
        }
    }

    // The store.

    /// Commits what has gathered. True when there was something.
    pub(super) fn commit(&mut self) -> bool {
        let Some(mut batch) = self.shard.cut() else {
            return self.settle();
        };
        loop {
            let result = self.config.store.commit(&batch);
            let now = self.config.clock.now();
            let mut out = Vec::new();
            match result {
                Ok(()) => {
                    self.shard.committed(now, batch, &mut out);
                    self.carry_out(out);
                    break;
                }
                Err(error) => {
                    let offender = self.offender(&batch, &error);
                    let refused = self.shard.refused(now, batch, &error, offender, &mut out);
                    self.carry_out(out);
                    match refused {
                        Refused::Retry(rest) if !rest.runs.is_empty() => batch = rest,
                        Refused::Retry(_) | Refused::Stopped => break,
                    }
                }
            }
        }
        self.settle();
        true
    }

    /// Which run of a batch the store does not take.
    fn offender(&self, batch: &Batch, error: &Error) -> Option<usize> {
        match error {
            Error::Fenced { run } | Error::Gap { run, .. } | Error::Held { run, .. } => batch
                .runs
                .iter()
                .position(|commit| commit.run == *run || base_of(commit) == Some(run)),
            // The store says in words what it does not know; which of the runs it was is looked up.
            Error::Unknown { .. } => batch.runs.iter().position(|commit| {
                let needed = if commit.create {
                    base_of(commit)
                } else {
                    Some(&commit.run)
                };
                needed.is_some_and(|run| {
                    matches!(self.stored(run), Err(EngineError::UnknownRun { .. }))
                })
            }),
            Error::Exists { run } => batch.runs.iter().position(|commit| {
                commit.create
                    && (commit.run == *run
                        || commit.summary.start_key.as_ref().is_some_and(|start_key| {
                            self.config
                                .store
                                .by_start_key(start_key)
                                .ok()
                                .flatten()
                                .as_ref()
                                == Some(run)
                        }))
            }),
            Error::Damaged { .. } | Error::Full { .. } | Error::Newer { .. } | Error::Io { .. } => {
                None
            }
        }
    }

    /// Writes replies that no commit carries.
    fn settle(&mut self) -> bool {
        let rows = self.shard.take_settles();
        if rows.is_empty() {
            return false;
        }
        if let Err(error) = self.config.store.settle(&rows) {
            tracing::warn!(error = %error, "replies could not be written; their senders get none");
        }
        true
    }

    fn open(&mut self, run: &Arc<str>, owner: Option<Owner>) -> Result<Opened, EngineError> {
        let store = Arc::clone(&self.config.store);
        let claimed = owner.is_none();
        let (owner, start_key) = match owner {
            Some(owner) => (owner, None),
            None => {
                let stored = self.stored(run)?;
                let claimed = store.claim(run, &self.token);
                (
                    claimed.map_err(|error| open_error(run, &error))?,
                    stored.start_key,
                )
            }
        };
        match self.read(run, owner.clone(), claimed) {
            Ok(opened) => Ok(Opened {
                start_key,
                ..opened
            }),
            Err(why) => {
                if let Err(error) = store.release(run, &owner) {
                    tracing::warn!(run = %run, error = %error, "the run could not be given up");
                }
                Err(why)
            }
        }
    }

    fn read(&mut self, run: &Arc<str>, owner: Owner, claimed: bool) -> Result<Opened, EngineError> {
        let store = Arc::clone(&self.config.store);
        if claimed {
            self.config.executor.sweep(run);
        }
        let turns = store.load(run).map_err(|error| open_error(run, &error))?;
        let folded = self.fold(run, &turns)?;
        let posted = store
            .waiting(run)
            .map_err(|error| open_error(run, &error))?;
        let rows = posted
            .into_iter()
            .map(|posted| Letter {
                row: posted.id,
                at: posted.at,
                wish: self.wish(posted.message),
            })
            .collect();
        Ok(Opened {
            run: folded,
            owner,
            claimed,
            start_key: None,
            rows,
        })
    }

    /// Folds a log. A log that the core refuses, or breaks on, breaks that run and no other.
    pub(super) fn fold(&mut self, run: &Arc<str>, turns: &[Turn]) -> Result<Run, EngineError> {
        let broken = |message: String| EngineError::Broken {
            run: Arc::clone(run),
            message,
        };
        let folded = catch_unwind(AssertUnwindSafe(|| {
            Run::replay(turns, &mut |hash| self.graph(hash))
        }));
        match folded {
            Ok(Ok(folded)) => Ok(folded),
            Ok(Err(error)) => Err(broken(error.to_string())),
            Err(_) => Err(broken(
                "its log breaks an invariant (see the message of the panic)".to_owned(),
            )),
        }
    }

    // Graphs.

    pub(super) fn graph(&mut self, hash: &str) -> Result<Arc<Graph>, String> {
        if let Some(graph) = self.graphs.get(hash) {
            return Ok(Arc::clone(graph));
        }
        let graph = self.config.graphs.graph(hash)?;
        self.keep_graph(Arc::clone(&graph));
        Ok(graph)
    }

    pub(super) fn keep_graph(&mut self, graph: Arc<Graph>) {
        if self.graphs.contains_key(&graph.hash) {
            return;
        }
        if self.graphs.len() >= SPARE_GRAPHS_MAX {
            self.graphs.retain(|_, kept| Arc::strong_count(kept) > 1);
        }
        self.graphs.insert(Arc::clone(&graph.hash), graph);
    }
}
