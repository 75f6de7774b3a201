//! Random commits, forks, claims, deaths and retention against a simple model, on both stores at once.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{noise, step, summary};
use proptest::prelude::*;
use ravel_core::event::Turn;
use ravel_core::port::RunState;
use ravel_core::port_store::{Batch, Error, Filter, Owner, RunCommit, Store};
use ravel_store::{Memory, Options, Sqlite};
use serde_json::json;

/// Runs that commands choose from.
const RUNS: usize = 5;
/// Processes at a time.
const PROCESSES: usize = 2;

#[derive(Clone, Debug)]
enum Command {
    /// One batch: for each entry a run, how many turns, and whether something is wrong with it.
    Commit {
        process: usize,
        entries: Vec<(usize, u64, Wrong)>,
    },
    Create {
        process: usize,
        run: usize,
        turns: u64,
    },
    Fork {
        process: usize,
        run: usize,
        base: usize,
        at: u64,
        turns: u64,
    },
    Claim {
        process: usize,
        run: usize,
    },
    Release {
        process: usize,
        run: usize,
    },
    End {
        process: usize,
        run: usize,
    },
    /// The process dies and another one takes its place.
    Die {
        process: usize,
    },
    Collect {
        process: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    Epoch,
    Gap,
}

fn command() -> impl Strategy<Value = Command> {
    let process = 0..PROCESSES;
    let run = 0..RUNS;
    let wrong =
        prop_oneof![12 => Just(Wrong::Nothing), 1 => Just(Wrong::Epoch), 1 => Just(Wrong::Gap)];
    let entries = proptest::collection::vec((run.clone(), 0..4_u64, wrong), 1..4);
    prop_oneof![
        6 => (process.clone(), entries).prop_map(|(process, entries)| Command::Commit { process, entries }),
        4 => (process.clone(), run.clone(), 0..4_u64)
            .prop_map(|(process, run, turns)| Command::Create { process, run, turns }),
        4 => (process.clone(), run.clone(), run.clone(), 1..8_u64, 0..3_u64)
            .prop_map(|(process, run, base, at, turns)| Command::Fork { process, run, base, at, turns }),
        3 => (process.clone(), run.clone()).prop_map(|(process, run)| Command::Claim { process, run }),
        1 => (process.clone(), run.clone()).prop_map(|(process, run)| Command::Release { process, run }),
        3 => (process.clone(), run).prop_map(|(process, run)| Command::End { process, run }),
        1 => process.clone().prop_map(|process| Command::Die { process }),
        2 => process.prop_map(|process| Command::Collect { process }),
    ]
}

#[derive(Clone, Debug)]
struct Run {
    turns: Vec<Turn>,
    /// The run that holds the last turn of its prefix, and that turn.
    base: Option<(usize, u64)>,
    owner: Option<Owner>,
    epoch: u64,
    state: RunState,
}

/// What a store should do, said simply: every run holds a copy of its whole log.
#[derive(Debug, Default)]
struct Model {
    runs: BTreeMap<usize, Run>,
    alive: BTreeSet<String>,
    /// How many processes have died: part of a token, so that each process has its own.
    deaths: usize,
    /// Forks of what was removed are made anew: a log's turns carry a number that is never used twice.
    stamp: u64,
}

impl Model {
    fn token(&self, process: usize) -> String {
        format!("p{process}-{}", self.deaths)
    }

    fn owner(&self, run: &Run) -> Option<String> {
        run.owner
            .as_ref()
            .map(|owner| owner.token.to_string())
            .filter(|token| self.alive.contains(token))
    }

    fn turns(&mut self, from: u64, count: u64) -> Vec<Turn> {
        (from..from + count)
            .map(|number| {
                self.stamp += 1;
                let long = usize::try_from(self.stamp % 3).unwrap() * 300;
                step(number, "s", json!({ "stamp": self.stamp, "text": noise(1, long + usize::try_from(number).unwrap()) }))
            })
            .collect()
    }
}

fn name(run: usize) -> String {
    format!("r{run}")
}

fn entry(run: usize, owner: Owner, turns: Vec<Turn>, state: RunState) -> RunCommit {
    RunCommit {
        run: name(run).into(),
        owner,
        create: false,
        turns,
        summary: summary(&name(run), state),
        asked: vec![],
        closed: vec![],
        taken: vec![],
    }
}

/// What became of a command, in few words: the same for the model and for each store.
fn word<T>(result: &Result<T, Error>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::Unknown { .. }) => "unknown",
        Err(Error::Exists { .. }) => "exists",
        Err(Error::Fenced { .. }) => "fenced",
        Err(Error::Held { .. }) => "held",
        Err(Error::Gap { .. }) => "gap",
        Err(Error::Damaged { .. }) => "damaged",
        Err(Error::Full { .. }) => "full",
        Err(Error::Newer { .. }) => "newer",
        Err(Error::Io { .. }) => "io",
    }
}

/// A command, turned into calls for stores, and the model's answer to it.
struct Step {
    process: usize,
    call: Call,
    expected: &'static str,
}

enum Call {
    Commit(Batch),
    Claim(String, String),
    Release(String, Owner),
    Die,
    Collect {
        runs: Vec<String>,
        pinned: Vec<String>,
    },
}

impl Model {
    fn apply(&mut self, command: &Command) -> Step {
        match command {
            Command::Commit { process, entries } => self.commit(*process, entries),
            Command::Create {
                process,
                run,
                turns,
            } => {
                let turns = self.turns(1, *turns);
                self.create(*process, *run, None, turns.clone(), turns)
            }
            Command::Fork {
                process,
                run,
                base,
                at,
                turns,
            } => {
                let own = self.turns(at + 1, *turns);
                let prefix = self.runs.get(base).map(|base| base.turns.clone());
                let short = prefix
                    .as_ref()
                    .is_some_and(|prefix| *at > prefix.len() as u64);
                let mut whole: Vec<Turn> = prefix
                    .iter()
                    .flatten()
                    .take(usize::try_from(*at).unwrap())
                    .cloned()
                    .collect();
                whole.extend(own.clone());
                let mut step = if self.runs.contains_key(run) {
                    self.refuse(*process, *run, own, "exists")
                } else if prefix.is_none() {
                    self.refuse(*process, *run, own, "unknown")
                } else if short {
                    self.refuse(*process, *run, own, "gap")
                } else {
                    let base = self.holder(*base, *at);
                    self.create(*process, *run, Some((base, *at)), own, whole)
                };
                if let Call::Commit(batch) = &mut step.call {
                    batch.runs[0].summary.forked_from = Some((name(*base).into(), *at));
                }
                step
            }
            Command::Claim { process, run } => self.claim(*process, *run),
            Command::Release { process, run } => {
                let token = self.token(*process);
                let held = self
                    .runs
                    .get_mut(run)
                    .and_then(|run| run.owner.take_if(|owner| *owner.token == *token));
                let owner = held.unwrap_or_else(|| Owner {
                    token: token.into(),
                    epoch: 99,
                });
                Step {
                    process: *process,
                    call: Call::Release(name(*run), owner),
                    expected: "ok",
                }
            }
            Command::End { process, run } => {
                let owner = self.owned(*process, *run);
                let expected = self.judge(*run, &owner, true);
                if expected == "ok" {
                    let run = self.runs.get_mut(run).unwrap();
                    run.state = RunState::Succeeded;
                    run.owner = None;
                }
                let call = Call::Commit(Batch {
                    runs: vec![entry(*run, owner, vec![], RunState::Succeeded)],
                });
                Step {
                    process: *process,
                    call,
                    expected,
                }
            }
            Command::Die { process } => {
                let suffix = format!("p{process}-");
                self.alive.retain(|token| !token.starts_with(&suffix));
                self.deaths += 1;
                Step {
                    process: *process,
                    call: Call::Die,
                    expected: "ok",
                }
            }
            Command::Collect { process } => self.collect(*process),
        }
    }

    /// The run whose own turns hold this turn of a run's log.
    fn holder(&self, run: usize, at: u64) -> usize {
        match self.runs[&run].base {
            Some((base, last)) if at <= last => self.holder(base, at),
            _ => run,
        }
    }

    /// The owner that a process believes to be.
    fn owned(&self, process: usize, run: usize) -> Owner {
        let token = self.token(process);
        let own = self
            .runs
            .get(&run)
            .and_then(|run| run.owner.clone())
            .filter(|owner| *owner.token == *token);
        own.unwrap_or_else(|| Owner {
            token: token.into(),
            epoch: 1,
        })
    }

    fn judge(&self, run: usize, owner: &Owner, contiguous: bool) -> &'static str {
        match self.runs.get(&run) {
            None => "unknown",
            Some(run) if run.owner.as_ref() != Some(owner) => "fenced",
            Some(_) if !contiguous => "gap",
            Some(_) => "ok",
        }
    }

    fn commit(&mut self, process: usize, entries: &[(usize, u64, Wrong)]) -> Step {
        let mut batch = Batch::default();
        let mut expected = "ok";
        let mut seen = BTreeSet::new();
        for (run, count, wrong) in entries.iter().filter(|(run, _, _)| seen.insert(*run)) {
            let mut owner = self.owned(process, *run);
            owner.epoch += u64::from(*wrong == Wrong::Epoch);
            let last = self.runs.get(run).map_or(0, |run| run.turns.len() as u64);
            let gap = *wrong == Wrong::Gap && *count > 0;
            let turns = self.turns(last + 1 + u64::from(gap), *count);
            if expected == "ok" {
                expected = self.judge(*run, &owner, !gap);
            }
            batch
                .runs
                .push(entry(*run, owner, turns, RunState::Running));
        }
        if expected == "ok" {
            for commit in &batch.runs {
                let run: usize = commit.run[1..].parse().unwrap();
                self.runs
                    .get_mut(&run)
                    .unwrap()
                    .turns
                    .extend(commit.turns.clone());
            }
        }
        Step {
            process,
            call: Call::Commit(batch),
            expected,
        }
    }

    fn create(
        &mut self,
        process: usize,
        run: usize,
        base: Option<(usize, u64)>,
        own: Vec<Turn>,
        whole: Vec<Turn>,
    ) -> Step {
        if self.runs.contains_key(&run) {
            return self.refuse(process, run, own, "exists");
        }
        let token = self.token(process);
        let owner = Owner {
            token: token.clone().into(),
            epoch: 1,
        };
        self.alive.insert(token);
        let mut commit = entry(run, owner.clone(), own, RunState::Running);
        commit.create = true;
        let made = Run {
            turns: whole,
            base,
            owner: Some(owner),
            epoch: 1,
            state: RunState::Running,
        };
        self.runs.insert(run, made);
        Step {
            process,
            call: Call::Commit(Batch { runs: vec![commit] }),
            expected: "ok",
        }
    }

    fn refuse(&self, process: usize, run: usize, own: Vec<Turn>, expected: &'static str) -> Step {
        let owner = Owner {
            token: self.token(process).into(),
            epoch: 1,
        };
        let mut commit = entry(run, owner, own, RunState::Running);
        commit.create = true;
        Step {
            process,
            call: Call::Commit(Batch { runs: vec![commit] }),
            expected,
        }
    }

    fn claim(&mut self, process: usize, run: usize) -> Step {
        let token = self.token(process);
        let call = Call::Claim(name(run), token.clone());
        let held = self
            .runs
            .get(&run)
            .and_then(|run| self.owner(run))
            .is_some_and(|owner| owner != token);
        let expected = match self.runs.get_mut(&run) {
            None => "unknown",
            Some(_) if held => "held",
            Some(run) => {
                run.epoch += 1;
                run.owner = Some(Owner {
                    token: token.clone().into(),
                    epoch: run.epoch,
                });
                self.alive.insert(token);
                "ok"
            }
        };
        Step {
            process,
            call,
            expected,
        }
    }

    fn collect(&mut self, process: usize) -> Step {
        let due = |run: &Run| run.state.is_final() && self.owner(run).is_none();
        let mut needed = BTreeSet::new();
        for run in self.runs.values().filter(|run| !due(run)) {
            let mut base = run.base;
            while let Some((key, _)) = base {
                needed.insert(key);
                base = self.runs.get(&key).and_then(|run| run.base);
            }
        }
        let (pinned, gone): (Vec<usize>, Vec<usize>) = self
            .runs
            .iter()
            .filter(|(_, run)| due(run))
            .map(|(key, _)| *key)
            .partition(|key| needed.contains(key));
        for key in &gone {
            self.runs.remove(key);
        }
        let names = |keys: Vec<usize>| keys.into_iter().map(name).collect();
        let call = Call::Collect {
            runs: names(gone),
            pinned: names(pinned),
        };
        Step {
            process,
            call,
            expected: "ok",
        }
    }
}

/// The processes of one store.
struct Live<S> {
    start: Box<dyn Fn() -> S>,
    processes: Vec<S>,
}

impl<S: Store> Live<S> {
    fn new(start: impl Fn() -> S + 'static) -> Self {
        let processes = (0..PROCESSES).map(|_| start()).collect();
        Self {
            start: Box::new(start),
            processes,
        }
    }

    fn play(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let store = &self.processes[step.process];
        let got = match &step.call {
            Call::Commit(batch) => word(&store.commit(batch)),
            Call::Claim(run, token) => word(&store.claim(run, token)),
            Call::Release(run, owner) => word(&store.release(run, owner)),
            Call::Die => {
                drop(self.processes.remove(step.process));
                self.processes.insert(step.process, (self.start)());
                "ok"
            }
            Call::Collect { runs, pinned } => {
                let mut collected = store.collect(u64::MAX, 0, false).unwrap();
                collected.runs.sort();
                collected.pinned.sort();
                let strings = |ids: &[std::sync::Arc<str>]| {
                    ids.iter().map(ToString::to_string).collect::<Vec<_>>()
                };
                prop_assert_eq!(
                    (strings(&collected.runs), strings(&collected.pinned)),
                    (runs.clone(), pinned.clone())
                );
                "ok"
            }
        };
        prop_assert_eq!(got, step.expected);
        Ok(())
    }

    fn check(&self, model: &Model) -> Result<Vec<String>, TestCaseError> {
        let mut heads = Vec::new();
        for store in &self.processes {
            let mut listed: Vec<String> = store
                .runs(&Filter::default())
                .unwrap()
                .iter()
                .map(|summary| summary.run.to_string())
                .collect();
            listed.sort();
            prop_assert_eq!(
                listed,
                model.runs.keys().map(|run| name(*run)).collect::<Vec<_>>()
            );
            heads.clear();
            for (key, run) in &model.runs {
                prop_assert!(
                    store.load(&name(*key)).unwrap() == run.turns,
                    "run {} has other turns",
                    key
                );
                prop_assert_eq!(
                    store
                        .owner(&name(*key))
                        .unwrap()
                        .map(|token| token.to_string()),
                    model.owner(run)
                );
                heads.push(store.verify(&name(*key)).unwrap().head);
            }
        }
        Ok(heads)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn stores_do_what_the_model_does(commands in proptest::collection::vec(command(), 1..50)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let memory = Memory::new();
        let mut in_memory = Live::new(move || memory.another());
        // Values are cut at a few bytes, so that these small ones are shared and stored as differences too.
        let mut on_disk = Live::new(move || {
            Sqlite::open_with(&path, Options { inline_bytes_max: 200, ..Options::default() }).unwrap()
        });
        let mut model = Model::default();
        for command in &commands {
            let step = model.apply(command);
            in_memory.play(&step)?;
            on_disk.play(&step)?;
        }
        in_memory.check(&model)?;
        on_disk.check(&model)?;
        let mut damaged = on_disk.processes[0].check().unwrap().damaged;
        // No graphs are put here.
        damaged.retain(|(_, what)| !what.contains("the flow of run"));
        prop_assert_eq!(&damaged, &vec![]);
    }
}
