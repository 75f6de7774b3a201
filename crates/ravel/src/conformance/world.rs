//! The world of a case around one run: it obeys commands, grants permits, moves a virtual clock, and after every turn
//! folds the log again and looks whether the machine's promises hold.
//!
//! Nothing happens here by itself but grants and timers that are due: attempts end only when the script says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use ravel_core::effect::Millis;
use ravel_core::event::{Attempt, Command, Event, Input, Node, Reject, Turn};
use ravel_core::graph::Graph;
use ravel_core::lang::Bundle;
use ravel_core::port::Job;
use ravel_core::run::{Handled, Run, Terms};
use serde_json::Value;

use super::permits::Permits;

/// 2026-01-01T00:00:00Z, when every run of a case starts.
pub(super) const START: Millis = 1_767_225_600_000;

/// More grants and timers than any case has at one move.
const TICKS_MAX: u32 = 10_000;

/// Something that a run did, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// An attempt started, in this turn.
    Started(Arc<str>, usize),
    Settled(Arc<str>),
}

/// An attempt that has no end yet.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) path: Arc<str>,
    pub(super) stopping: bool,
}

/// A run and what is around it.
pub(super) struct World {
    pub(super) run: Run,
    graphs: BTreeMap<Arc<str>, Arc<Graph>>,
    pub(super) now: Millis,
    pub(super) log: Vec<Turn>,
    /// The state after each turn, as text.
    portraits: Vec<String>,
    /// Every job that was sent out, in order, also those of the run that a fork came from.
    pub(super) sent: Vec<Job>,
    pub(super) deeds: Vec<Deed>,
    pub(super) open: IndexMap<Attempt, Open>,
    pub(super) permits: Permits,
    /// The question that each path asked last.
    pub(super) asked: BTreeMap<Arc<str>, Arc<str>>,
    /// Turns at the marks.
    marks: BTreeMap<String, usize>,
    settled: BTreeMap<Node, &'static str>,
    forks: u32,
}

/// Makes a graph of a flow that is data.
pub(super) fn compile(flow: &Value) -> Result<Arc<Graph>, String> {
    let text = serde_json::to_string_pretty(flow).map_err(|error| error.to_string())?;
    let shown = |problems: Vec<ravel_core::lang::Diagnostic>| {
        let texts: Vec<String> = problems.iter().map(|one| one.render(false)).collect();
        texts.join("\n")
    };
    let bundle = Bundle::from_text("flow.json", &text).map_err(shown)?;
    bundle.compile().map(Arc::new).map_err(shown)
}

impl World {
    /// Starts a run; `Err(Reject)` when its input does not fit.
    pub(super) fn start(graph: &Arc<Graph>, input: Value, terms: Terms) -> Result<Self, Trouble> {
        let mut world = Self {
            run: Run::new("r1".into(), Arc::clone(graph), terms),
            graphs: BTreeMap::from([(graph.hash.clone(), Arc::clone(graph))]),
            now: START,
            log: Vec::new(),
            portraits: Vec::new(),
            sent: Vec::new(),
            deeds: Vec::new(),
            open: IndexMap::new(),
            permits: Permits::default(),
            asked: BTreeMap::new(),
            marks: BTreeMap::new(),
            settled: BTreeMap::new(),
            forks: 0,
        };
        let input = input.into();
        world.input(Input::Start { input })?;
        Ok(world)
    }

    /// Hands an input to the run, and does what follows by itself. True when the input changed something.
    pub(super) fn input(&mut self, input: Input) -> Result<bool, Trouble> {
        let handled = self.run.handle(self.now, input).map_err(Trouble::Refused)?;
        let changed = self.take(handled)?;
        self.settle()?;
        Ok(changed)
    }

    /// What happens by itself: permits that are free are granted, timers that are due fire.
    fn settle(&mut self) -> Result<(), Trouble> {
        for _ in 0..TICKS_MAX {
            let due = self.run.wake_at().is_some_and(|at| at <= self.now) && !self.run.is_final();
            let input = match self.permits.next() {
                Some(attempt) => Input::Granted { attempt },
                None if due => Input::Tick,
                None => return Ok(()),
            };
            let handled = self.run.handle(self.now, input).map_err(Trouble::Refused)?;
            self.take(handled)?;
        }
        Err(Trouble::broken("timers fire without an end"))
    }

    fn take(&mut self, handled: Handled) -> Result<bool, Trouble> {
        let changed = handled.turn.is_some();
        self.record(handled.turn)?;
        for command in handled.commands {
            self.obey(command);
        }
        self.look()?;
        Ok(changed)
    }

    fn record(&mut self, turn: Option<Turn>) -> Result<(), Trouble> {
        let Some(turn) = turn else { return Ok(()) };
        for event in &turn.events {
            match event {
                Event::AttemptStarted { path, .. } => {
                    self.deeds.push(Deed::Started(path.clone(), self.log.len()));
                }
                Event::Settled { path, .. } => self.deeds.push(Deed::Settled(path.clone())),
                Event::Asked { path, question, .. } => {
                    self.asked.insert(path.clone(), question.clone());
                }
                _ => {}
            }
        }
        self.log.push(turn);
        self.portraits.push(self.run.portrait());
        Ok(())
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Start(job) => {
                let open = Open {
                    path: job.path.clone(),
                    stopping: false,
                };
                self.open.insert(job.attempt, open);
                self.sent.push(*job);
            }
            Command::Abort { attempt, why: _ } => {
                if let Some(open) = self.open.get_mut(&attempt) {
                    open.stopping = true;
                }
            }
            Command::Acquire {
                attempt,
                permits,
                priority,
            } => self.permits.wish(attempt, permits, priority),
            Command::Release { attempt } => self.permits.give_back(attempt),
            Command::WakeAt(_) => {}
        }
    }

    /// The attempt under way at a path.
    pub(super) fn under_way(&self, path: &str) -> Option<Attempt> {
        let found = self.open.iter().find(|(_, open)| *open.path == *path);
        found.map(|(attempt, _)| *attempt)
    }

    /// An attempt by its number, also one that is over.
    pub(super) fn attempt(&self, path: &str, number: u32) -> Option<Attempt> {
        let mut sent = self.sent.iter().rev();
        sent.find(|job| *job.path == *path && job.attempt.number == number)
            .map(|job| job.attempt)
    }

    /// An attempt's report arrives.
    pub(super) fn ended(
        &mut self,
        attempt: Attempt,
        outcome: ravel_core::effect::Outcome,
    ) -> Result<bool, Trouble> {
        self.open.shift_remove(&attempt);
        self.permits.give_back(attempt);
        self.input(Input::Finished { attempt, outcome })
    }

    /// The clock moves on; what is due on the way fires at its own time.
    pub(super) fn pass(&mut self, until: Millis) -> Result<(), Trouble> {
        while let Some(at) = self.run.wake_at().filter(|at| *at <= until)
            && !self.run.is_final()
        {
            self.now = self.now.max(at);
            self.settle()?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// The engine is lost with all that it had under way; another one takes the run over after a while.
    pub(super) fn crash(&mut self, down: Millis) -> Result<(), Trouble> {
        self.run = self.replay(&self.log)?;
        self.forget();
        self.now += down;
        if self.run.is_final() {
            return Ok(());
        }
        let recovered = self.run.handle(self.now, Input::Recovered { epoch: 2 });
        let recovered = recovered.map_err(Trouble::Refused)?;
        self.record(recovered.turn)?;
        self.resume()
    }

    /// Carries out what must be under way.
    fn resume(&mut self) -> Result<(), Trouble> {
        let started = self.log.last().map(|turn| turn.events.clone());
        let started: BTreeSet<Attempt> = started
            .iter()
            .flatten()
            .filter_map(|event| match event {
                Event::AttemptStarted { node, number, .. } => Some(Attempt {
                    node: *node,
                    number: *number,
                }),
                _ => None,
            })
            .collect();
        for command in self.run.outstanding() {
            if let Command::Start(job) = &command
                && !started.contains(&job.attempt)
            {
                self.deeds
                    .push(Deed::Started(job.path.clone(), self.log.len()));
            }
            self.obey(command);
        }
        self.look()?;
        self.settle()
    }

    fn forget(&mut self) {
        self.open.clear();
        self.permits.clear();
    }

    /// Names this place in the log.
    pub(super) fn mark(&mut self, name: &str) {
        self.marks.insert(name.to_owned(), self.log.len());
    }

    /// Turns up to a mark.
    pub(super) fn marked(&self, name: &str) -> Option<usize> {
        self.marks.get(name).copied()
    }

    /// Goes on with a new run on the first turns of this one.
    pub(super) fn fork(&mut self, turns: usize) -> Result<(), Trouble> {
        self.log.truncate(turns);
        self.portraits.truncate(turns);
        self.run = self.replay(&self.log)?;
        self.forks += 1;
        self.forget();
        self.settled.clear();
        let id = format!("r{}", self.forks + 1);
        let forked = self.run.fork(self.now, id.into());
        let forked = forked.map_err(Trouble::Refused)?;
        self.asked = self
            .run
            .questions()
            .into_iter()
            .map(|question| (question.path, question.id))
            .collect();
        self.record(forked.turn)?;
        self.resume()
    }

    /// Takes a changed graph in.
    pub(super) fn edit(&mut self, base: u32, graph: Arc<Graph>) -> Result<bool, Trouble> {
        self.graphs.insert(graph.hash.clone(), Arc::clone(&graph));
        let note = Value::from("an edit of the case").into();
        self.input(Input::Edit { base, graph, note })
    }

    fn replay(&self, log: &[Turn]) -> Result<Run, Trouble> {
        let mut graphs = |hash: &str| {
            let found = self.graphs.get(hash).cloned();
            found.ok_or_else(|| "no such graph".to_owned())
        };
        Run::replay(log, &mut graphs)
            .map_err(|error| Trouble::broken(format!("the log does not fold: {error}")))
    }

    /// The promises of a run, looked at after every turn.
    fn look(&mut self) -> Result<(), Trouble> {
        if self.replay(&self.log)?.portrait() != self.run.portrait() {
            return Err(Trouble::broken("folding the log gives another state"));
        }
        if !self.run.is_final() && self.run.waits_on().is_empty() {
            return Err(Trouble::broken("the run is live and waits for nothing"));
        }
        for view in self.run.nodes() {
            if let Some(before) = self.settled.get(&view.node)
                && *before != view.state
            {
                let (path, now) = (view.path, view.state);
                let message = format!("`{path}` was {before} and is {now}");
                return Err(Trouble::broken(message));
            }
            if view.ended.is_some() {
                self.settled.insert(view.node, view.state);
            }
        }
        Ok(())
    }

    /// At the end of a case: the log survives being written, and a run comes back from every turn of it.
    pub(super) fn look_back(&self) -> Result<(), Trouble> {
        let written = serde_json::to_string(&self.log)
            .and_then(|text| serde_json::from_str::<Vec<Turn>>(&text))
            .map_err(|error| Trouble::broken(format!("the log cannot be written: {error}")))?;
        if written != self.log {
            return Err(Trouble::broken("the log changes when it is written"));
        }
        for turns in 1..=self.log.len() {
            let mut back = self.replay(&self.log[..turns])?;
            if back.portrait() != self.portraits[turns - 1] {
                let message = format!("folding the first {turns} turns gives another state");
                return Err(Trouble::broken(message));
            }
            if back.is_final() {
                continue;
            }
            let recovered = back.handle(self.now, Input::Recovered { epoch: 9 });
            recovered.map_err(Trouble::Refused)?;
            let commands = back.outstanding();
            if commands.is_empty() || (!back.is_final() && back.waits_on().is_empty()) {
                let message = format!("recovered after turn {turns}, the run waits for nothing");
                return Err(Trouble::broken(message));
            }
        }
        Ok(())
    }
}

/// Why a move did not go through.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The run refused it.
    Refused(Reject),
    /// A promise of the machine does not hold.
    Broken(String),
}

impl Trouble {
    fn broken(message: impl Into<String>) -> Self {
        Self::Broken(message.into())
    }
}
