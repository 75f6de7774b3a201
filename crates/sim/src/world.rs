//! The world around the engine: clock, disk, executors, people, and the one who looks at all of it.

mod deeds;
mod engine;
mod look;
mod people;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::event::Attempt;
use ravel_core::graph::Graph;
use ravel_core::lang::{Bundle, Severity};
use ravel_core::port_store::Listing;
use ravel_core::run::{Price, SharedTerms, Terms};
use ravel_engine::message::{In, Ticket};
use ravel_store::Memory;

use crate::case::Case;
use crate::dice::chance;
use crate::executor::MICROUSD_PER_TOKEN;
use crate::life::Life;
use crate::watch::Watch;

/// Moves that a world may take; more is a world that does not come to its end.
const MOVES_MAX: u64 = 20_000;
/// Times that nothing moves by itself until people are thought to have done all they can.
const IDLE_MAX: u64 = 500;
/// When worlds begin, epoch ms.
const BEGINNING: Millis = 1_000_000_000;

/// A promise that was broken, and the way there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong.
    pub what: String,
    /// What happened before.
    pub history: History,
}

/// What happened in a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// One line for each thing that happened.
    pub lines: Vec<String>,
    /// Moves of the world.
    pub moves: u64,
    /// Turns that reached the disk.
    pub turns: u64,
    /// Effects that took place outside.
    pub effects: u64,
    /// Ends of the engine, and how many of them were not clean.
    pub ends: u64,
}

impl History {
    /// BLAKE3 of all lines.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for line in &self.lines {
            hasher.update(line.as_bytes());
            hasher.update(b"\n");
        }
        hasher.finalize().to_hex().to_string()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)
    }
}

/// Lives a case to its end, with every check.
///
/// # Errors
/// The first promise that was broken.
pub fn simulate(case: &Case) -> Result<History, Box<Violation>> {
    let mut world = match World::new(case) {
        Ok(world) => world,
        Err(what) => {
            return Err(Box::new(Violation {
                what,
                history: History::default(),
            }));
        }
    };
    let lived = catch_unwind(AssertUnwindSafe(|| world.live()));
    let what = match lived {
        Ok(Ok(())) => return Ok(world.history),
        Ok(Err(what)) => what,
        Err(_) => "a machine panicked (see the message of the panic)".to_owned(),
    };
    Err(Box::new(Violation {
        what,
        history: world.history,
    }))
}

/// What will happen at some time.
#[derive(Clone, Debug)]
enum Coming {
    /// An attempt's effect takes place.
    Effect(u64, Arc<str>, Attempt),
    /// An attempt streams its next item.
    Item(u64, Arc<str>, Attempt),
    /// An attempt reports its end, for the how-manieth time.
    End(u64, Arc<str>, Attempt),
    /// The disk has done what it was given.
    Written(u64),
    /// The engine looks at the store.
    Look(u64),
    /// Somebody starts the engine.
    Restart,
}

/// What a caller expects.
#[derive(Clone, Debug)]
enum Expect {
    /// The run is there.
    Run(Arc<str>),
    /// The message is taken in; a wrong one is not.
    Reply {
        run: Arc<str>,
        wrong: bool,
        what: String,
    },
    Paused,
}

/// An effect that was seen outside.
#[derive(Clone, Debug)]
struct Seen {
    run: Arc<str>,
    path: Arc<str>,
    attempt: Attempt,
    once: bool,
}

struct World<'a> {
    case: &'a Case,
    graphs: BTreeMap<Arc<str>, Arc<Graph>>,
    /// The graph of each run of the case.
    of_run: Vec<Arc<Graph>>,
    terms: SharedTerms,
    store: Memory,
    now: Millis,
    life: Option<Life>,
    /// Engines that lost their runs and do not know it.
    zombies: Vec<Life>,
    lives: u64,
    agenda: BTreeMap<(Millis, u64), Coming>,
    order: u64,
    acts: VecDeque<crate::case::Act>,
    moves: u64,
    idle: u64,
    tickets: Ticket,
    expected: BTreeMap<Ticket, Expect>,
    /// What the next commit gives instead.
    disk_fails: Option<(bool, bool)>,
    /// When the next start of the engine sets the clock.
    jump: i64,
    watches: BTreeMap<Arc<str>, Watch>,
    /// Forks, each with the run that it goes on from.
    forks: BTreeMap<Arc<str>, Arc<str>>,
    seen: Vec<Seen>,
    history: History,
}

impl<'a> World<'a> {
    fn new(case: &'a Case) -> Result<Self, String> {
        let mut of_run = Vec::new();
        for flow in &case.flows {
            of_run.push(compile(&flow.to_string())?);
        }
        let mut terms = Terms::default();
        let price = Price {
            input_microusd_per_mtok: MICROUSD_PER_TOKEN * 1_000_000,
            output_microusd_per_mtok: MICROUSD_PER_TOKEN * 1_000_000,
        };
        terms.models.insert("sim/small".into(), price);
        Ok(Self {
            case,
            graphs: of_run
                .iter()
                .map(|graph| (Arc::clone(&graph.hash), Arc::clone(graph)))
                .collect(),
            of_run,
            terms: terms.into(),
            store: Memory::new(),
            now: BEGINNING,
            life: None,
            zombies: Vec::new(),
            lives: 0,
            agenda: BTreeMap::new(),
            order: 0,
            acts: case.acts.iter().cloned().collect(),
            moves: 0,
            idle: 0,
            tickets: 0,
            expected: BTreeMap::new(),
            disk_fails: None,
            jump: 0,
            watches: BTreeMap::new(),
            forks: BTreeMap::new(),
            seen: Vec::new(),
            history: History::default(),
        })
    }

    /// From the first start to the end of the last run.
    fn live(&mut self) -> Result<(), String> {
        self.coming(0, Coming::Restart);
        while !self.is_over()? {
            if self.moves >= MOVES_MAX {
                return Err(format!(
                    "the world does not come to rest: {}",
                    self.stands()
                ));
            }
            self.moves += 1;
            self.history.moves = self.moves;
            while self.acts.front().is_some_and(|act| act.at <= self.moves) {
                if let Some(act) = self.acts.pop_front() {
                    self.do_deed(&act.deed)?;
                }
            }
            self.begin_commit();
            if !self.next()? && !self.begin_commit() {
                self.rest()?;
            }
            self.look()?;
        }
        self.look_back()
    }

    /// The next thing that happens by itself. False: nothing does.
    fn next(&mut self) -> Result<bool, String> {
        let wake = self.life.as_mut().and_then(Life::next_wake);
        let coming = self.agenda.first_key_value().map(|((at, _), _)| *at);
        match (wake, coming) {
            (None, None) => Ok(false),
            (Some(wake), coming) if coming.is_none_or(|at| wake < at) => {
                self.now = self.now.max(wake);
                self.step(In::Tick)?;
                Ok(true)
            }
            _ => {
                let Some(((at, _), coming)) = self.agenda.pop_first() else {
                    return Ok(false);
                };
                self.now = self.now.max(at);
                self.happens(coming)?;
                Ok(true)
            }
        }
    }

    fn happens(&mut self, coming: Coming) -> Result<(), String> {
        match coming {
            Coming::Effect(life, run, attempt) => self.effect(life, &run, attempt),
            Coming::Item(life, run, attempt) => return self.item(life, &run, attempt),
            Coming::End(life, run, attempt) => return self.end(life, &run, attempt),
            Coming::Written(life) => return self.written(life),
            Coming::Look(life) => return self.look_at_inbox(life),
            Coming::Restart => return self.restart(),
        }
        Ok(())
    }

    /// Every run is in the store and over.
    fn is_over(&self) -> Result<bool, String> {
        let runs = self.summaries()?;
        let begun =
            (0..self.of_run.len()).all(|index| self.watches.contains_key(&Self::run_id(index)));
        Ok(begun && runs.iter().all(|run| run.state.is_final()))
    }

    fn summaries(&self) -> Result<Vec<ravel_core::port::Summary>, String> {
        let mut runs = self
            .store
            .runs(&ravel_core::port_store::Filter::default())
            .map_err(|error| error.to_string())?;
        runs.sort_by(|a, b| a.run.cmp(&b.run));
        Ok(runs)
    }

    fn coming(&mut self, after: Millis, coming: Coming) {
        self.order += 1;
        self.agenda.insert((self.now + after, self.order), coming);
    }

    /// A number of this world's own, below `below`.
    fn draw(&self, what: &str, place: &str, below: u64) -> u64 {
        chance(self.case.seed, what, place, self.moves) % below.max(1)
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        let line = format!("{:>8} {}", self.now - BEGINNING.min(self.now), line());
        self.history.lines.push(line);
    }

    fn ticket(&mut self, expect: Expect) -> Ticket {
        self.tickets += 1;
        self.expected.insert(self.tickets, expect);
        self.tickets
    }

    fn run_id(index: usize) -> Arc<str> {
        format!("r{index}").into()
    }
}

/// The graph of a flow that checks.
pub(crate) fn compile(text: &str) -> Result<Arc<Graph>, String> {
    let said = |problems: Vec<ravel_core::lang::Diagnostic>| {
        let problems: Vec<String> = problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .map(|problem| format!("{}: {}", problem.code, problem.message))
            .collect();
        format!("the flow does not check: {}", problems.join("; "))
    };
    let bundle = Bundle::from_text("flow.yaml", text).map_err(said)?;
    bundle.compile().map(Arc::new).map_err(said)
}
