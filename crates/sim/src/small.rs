//! Small worlds, all of them: every graph of a few steps, and in each every order of outcomes, answers, cancels and
//! crashes, over the run machine alone.
//!
//! A state is the log that led to it; two logs that lead to the same state are gone on from once. Graphs that differ in
//! the names of their steps alone are one graph.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure, Fate, Millis, Outcome};
use ravel_core::event::{Attempt, Command, Input, Turn, Wait};
use ravel_core::graph::Graph;
use ravel_core::port::Job;
use ravel_core::run::{Run, Terms};
use ravel_core::value::Val;
use serde_json::{Map, Value, json};

use crate::watch::Watch;
use crate::world::compile;

/// Time stands still: order is all that differs.
const NOW: Millis = 1_000_000_000;
/// Attempts of a step after which a person does not want another one.
const ATTEMPTS_MAX: u32 = 2;

/// What the steps of small graphs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// `read`: what is lost is tried again.
    Read,
    /// `once`: what is lost is asked about.
    Once,
    /// `once` with a compensation.
    Undone,
    /// `read`, and the flow has a `catch`.
    Caught,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Once, Self::Undone, Self::Caught];
}

/// What was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Graphs.
    pub graphs: u64,
    /// Different states.
    pub states: u64,
    /// Moves from one to the next.
    pub moves: u64,
    /// States in which a run is over.
    pub ends: u64,
}

impl Explored {
    /// Adds what another exploration saw.
    pub fn add(&mut self, other: Self) {
        self.graphs += other.graphs;
        self.states += other.states;
        self.moves += other.moves;
        self.ends += other.ends;
    }
}

/// A small graph: for each step its join and the earlier steps that it comes after.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Small {
    steps: Vec<(u8, u8)>,
}

/// `join:` in the order of its number in [`Small`].
const JOINS: [&str; 4] = ["all", "any", "settled", "failed"];

impl Small {
    /// All graphs of `steps` steps, each once whatever its steps are called.
    #[must_use]
    pub fn all(steps: usize) -> Vec<Self> {
        let mut graphs = vec![Vec::new()];
        for step in 0..steps {
            let mut longer = Vec::new();
            for graph in &graphs {
                for after in 0..1_u8 << step {
                    // The join of a step that comes after nothing says nothing.
                    let joins = if after == 0 { 1 } else { JOINS.len() as u8 };
                    for join in 0..joins {
                        let mut graph: Vec<(u8, u8)> = graph.clone();
                        graph.push((join, after));
                        longer.push(graph);
                    }
                }
            }
            graphs = longer;
        }
        let mut seen = HashSet::new();
        graphs.retain(|graph| seen.insert(canonical(graph)));
        graphs.into_iter().map(|steps| Self { steps }).collect()
    }

    /// The flow.
    #[must_use]
    pub fn flow(&self, profile: Profile) -> Value {
        let mut steps = Map::new();
        for (index, (join, after)) in self.steps.iter().enumerate() {
            let effect = match profile {
                Profile::Read | Profile::Caught => "read",
                Profile::Once | Profile::Undone => "once",
            };
            let mut step = json!({ "tool": "sim.do", "effect": effect });
            if profile == Profile::Undone {
                step["compensate"] = json!({ "tool": "sim.undo", "effect": "write" });
            }
            if *after != 0 {
                let names = (0..index).filter(|other| after >> other & 1 == 1);
                step["after"] = names.map(name).collect();
                step["join"] = JOINS[usize::from(*join)].into();
            }
            steps.insert(name(index), step);
        }
        let mut flow = json!({ "ravel": 1, "name": "small", "steps": steps, "output": 1 });
        if profile == Profile::Caught {
            flow["catch"] = json!([{ "output": 0 }]);
        }
        flow
    }
}

fn name(index: usize) -> String {
    char::from(b'a' + index as u8).to_string()
}

/// The least spelling of a graph under all orders of its steps.
fn canonical(graph: &[(u8, u8)]) -> Vec<(u8, u8)> {
    let mut least: Option<Vec<(u8, u8)>> = None;
    orders(graph.len(), &mut Vec::new(), &mut |order: &[usize]| {
        let mut other = vec![(0, 0); graph.len()];
        for (old, (join, after)) in graph.iter().enumerate() {
            let mut moved = 0;
            for (dep, place) in order.iter().enumerate() {
                moved |= (after >> dep & 1) << place;
            }
            other[order[old]] = (*join, moved);
        }
        if least.as_ref().is_none_or(|least| other < *least) {
            least = Some(other);
        }
    });
    least.unwrap_or_default()
}

fn orders(count: usize, chosen: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
    if chosen.len() == count {
        return visit(chosen);
    }
    for next in 0..count {
        if !chosen.contains(&next) {
            chosen.push(next);
            orders(count, chosen, visit);
            chosen.pop();
        }
    }
}

/// What may still be done to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Left {
    cancels: u8,
    crashes: u8,
}

struct State {
    turns: Vec<Turn>,
    left: Left,
}

#[derive(Clone, Debug)]
enum Move {
    End(Attempt, Fate),
    Answer(Arc<str>, Value),
    Cancel(Option<Arc<str>>),
    Crash,
}

/// Explores one graph whole: one cancel (of the run or of one step) and one crash, at every point.
///
/// # Errors
/// The first promise that was broken, with the moves that lead there.
pub fn explore(small: &Small, profile: Profile) -> Result<Explored, String> {
    let flow = small.flow(profile);
    let graph = compile(&flow.to_string())?;
    let mut explorer = Explorer {
        graph,
        seen: HashSet::new(),
        stack: Vec::new(),
        found: Explored {
            graphs: 1,
            ..Explored::default()
        },
    };
    explorer
        .all()
        .map_err(|what| format!("{what}\nin the flow {flow}"))
}

struct Explorer {
    graph: Arc<Graph>,
    seen: HashSet<blake3::Hash>,
    stack: Vec<State>,
    found: Explored,
}

impl Explorer {
    fn all(&mut self) -> Result<Explored, String> {
        let start = Input::Start {
            input: Val::new(json!({})),
        };
        let mut run = Run::new("r".into(), Arc::clone(&self.graph), Terms::default());
        let left = Left {
            cancels: 1,
            crashes: 1,
        };
        let handled = run.handle(NOW, start).map_err(|reject| reject.message)?;
        self.reach(&run, handled.turn.into_iter().collect(), left)?;
        while let Some(state) = self.stack.pop() {
            for what in self.moves(&state)? {
                self.make(&state, &what).map_err(|wrong| {
                    let log = serde_json::to_string(&state.turns).unwrap_or_default();
                    format!("{wrong}\nafter {what:?} on {log}")
                })?;
            }
        }
        Ok(self.found)
    }

    fn replay(&self, turns: &[Turn]) -> Result<Run, String> {
        let mut graphs = |_: &str| Ok(Arc::clone(&self.graph));
        Run::replay(turns, &mut graphs).map_err(|error| error.to_string())
    }

    /// All that may happen next.
    fn moves(&self, state: &State) -> Result<Vec<Move>, String> {
        let mut run = self.replay(&state.turns)?;
        let mut moves = Vec::new();
        if run.is_final() {
            return Ok(moves);
        }
        for job in jobs(run.outstanding()) {
            let fates = [Fate::Done, Fate::NotDone, Fate::Unknown];
            moves.extend(fates.map(|fate| Move::End(job.attempt, fate)));
        }
        for question in run.questions() {
            let attempts = run.nodes().find(|view| view.path == question.path);
            let tired = attempts.is_none_or(|view| view.attempts >= ATTEMPTS_MAX);
            let answers = match question.topic {
                ravel_core::event::Topic::Uncertain => vec![
                    json!({ "happened": true, "output": 1 }),
                    json!({ "not_done": "fail" }),
                    json!({ "not_done": "retry" }),
                ],
                ravel_core::event::Topic::Compensation => vec![json!({ "action": "done" })],
                ravel_core::event::Topic::Human => vec![json!({})],
            };
            let wanted = answers
                .into_iter()
                .filter(|answer| !tired || answer["not_done"] != "retry");
            moves.extend(wanted.map(|answer| Move::Answer(question.id.clone(), answer)));
        }
        if moves.is_empty() {
            return Err(format!("the run is stuck: {:?}", run.waits_on()));
        }
        if state.left.cancels > 0 {
            moves.push(Move::Cancel(None));
            let live = run
                .nodes()
                .filter(|view| view.ended.is_none() && !view.path.is_empty());
            moves.extend(live.map(|view| Move::Cancel(Some(view.path))));
        }
        if state.left.crashes > 0 {
            moves.push(Move::Crash);
        }
        Ok(moves)
    }

    fn make(&mut self, state: &State, what: &Move) -> Result<(), String> {
        self.found.moves += 1;
        let mut run = self.replay(&state.turns)?;
        let mut under_way: BTreeSet<Attempt> =
            jobs(run.outstanding()).map(|job| job.attempt).collect();
        let mut left = state.left;
        let input = match what {
            Move::End(attempt, fate) => {
                under_way.remove(attempt);
                Input::Finished {
                    attempt: *attempt,
                    outcome: outcome(*fate),
                }
            }
            Move::Answer(question, value) => Input::Answer {
                question: question.clone(),
                value: Val::new(value.clone()),
                by: None,
            },
            Move::Cancel(path) => {
                left.cancels -= 1;
                Input::Cancel {
                    path: path.clone(),
                    by: None,
                    reason: None,
                }
            }
            Move::Crash => {
                left.crashes -= 1;
                under_way.clear();
                Input::Recovered { epoch: 2 }
            }
        };
        let again = input.clone();
        let handled = run.handle(NOW, input).map_err(|reject| reject.message)?;
        under_way.extend(jobs(handled.commands).map(|job| job.attempt));
        let mut turns = state.turns.clone();
        turns.extend(handled.turn);
        self.agrees(&run, &turns, &under_way)?;
        if matches!(what, Move::End(..)) {
            let late = run.handle(NOW, again).map_err(|reject| reject.message)?;
            if let Some(turn) = late.turn {
                return Err(format!("a report that comes twice counts twice: {turn:?}"));
            }
        }
        self.reach(&run, turns, left)
    }

    /// Memory and log agree on the state and on what is under way.
    fn agrees(
        &self,
        run: &Run,
        turns: &[Turn],
        under_way: &BTreeSet<Attempt>,
    ) -> Result<(), String> {
        let mut folded = self.replay(turns)?;
        if folded.portrait() != run.portrait() {
            return Err(format!(
                "folding the log gives another state\nfolded {}\nlive   {}",
                folded.portrait(),
                run.portrait()
            ));
        }
        let outstanding: BTreeSet<Attempt> =
            jobs(folded.outstanding()).map(|job| job.attempt).collect();
        if outstanding != *under_way {
            return Err(format!(
                "under way is {under_way:?}, outstanding {outstanding:?}"
            ));
        }
        Ok(())
    }

    /// Looks at a state, and keeps it if it is new.
    fn reach(&mut self, run: &Run, turns: Vec<Turn>, left: Left) -> Result<(), String> {
        let mut watch = Watch::default();
        watch.feed(run, &turns)?;
        if !self.seen.insert(key(run, left)) {
            return Ok(());
        }
        self.found.states += 1;
        if run.is_final() {
            self.found.ends += 1;
            return watch.at_end(run);
        }
        waits_for_something(run)?;
        self.forks(&turns)?;
        self.stack.push(State { turns, left });
        Ok(())
    }

    /// A fork at this point is a live run of its own.
    fn forks(&self, turns: &[Turn]) -> Result<(), String> {
        let mut fork = self.replay(turns)?;
        let handled = fork
            .fork(NOW, "f".into())
            .map_err(|reject| reject.message)?;
        let all: Vec<Turn> = turns.iter().cloned().chain(handled.turn).collect();
        Watch::default().feed(&fork, &all)?;
        if self.replay(&all)?.portrait() != fork.portrait() {
            return Err("folding the log of a fork gives another state".to_owned());
        }
        if fork.is_final() {
            return Ok(());
        }
        waits_for_something(&fork)
    }
}

fn waits_for_something(run: &Run) -> Result<(), String> {
    let moves = |wait: &Wait| matches!(wait, Wait::Attempt { .. } | Wait::Person { .. });
    if run.waits_on().iter().any(moves) {
        return Ok(());
    }
    Err(format!(
        "the run is live and waits for nobody: {:?}",
        run.waits_on()
    ))
}

fn jobs(commands: Vec<Command>) -> impl Iterator<Item = Box<Job>> {
    commands.into_iter().filter_map(|command| match command {
        Command::Start(job) => Some(job),
        Command::Acquire { .. }
        | Command::Release { .. }
        | Command::Abort { .. }
        | Command::WakeAt(_) => None,
    })
}

fn outcome(fate: Fate) -> Outcome {
    let failure = Failure::new(ErrorClass::Refused, "no");
    match fate {
        Fate::Done => Outcome::done(Val::new(json!(1))),
        Fate::NotDone => Outcome::not_done(failure),
        Fate::Unknown => Outcome::unknown(failure),
    }
}

/// What tells one state from another: all of it but how many turns it took.
fn key(run: &Run, left: Left) -> blake3::Hash {
    let portrait = run.portrait();
    let mut hasher = blake3::Hasher::new();
    let nodes = portrait.find('[').unwrap_or_default();
    for (index, part) in portrait[nodes..].split("turn: ").enumerate() {
        let part = if index == 0 {
            part
        } else {
            part.trim_start_matches(|c: char| c.is_ascii_digit())
        };
        hasher.update(part.as_bytes());
    }
    hasher.update(&[left.cancels, left.crashes]);
    hasher.finalize()
}
