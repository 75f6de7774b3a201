//! One run of effects under a row's hands: started, killed, answered for, brought to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::figures::Figures;
use crate::lab::{Dice, Done, Going, Lab, text};
use crate::world::{Account, Effect, World};

/// Longest time between an event and the kill, µs: kills fall into the middle of steps, commits and starts.
const DELAY_MAX_US: u64 = 6_000;
/// Most steps whose settling is awaited between a start and its kill.
const SETTLED_MAX: u64 = 3;
/// Resumes after the last kill before a run counts as stuck.
const RESUMES_MAX: usize = 50;

/// A run, its world, and what was counted.
pub(crate) struct Life {
    pub(crate) lab: Lab,
    pub(crate) world: World,
    pub(crate) figures: Figures,
    /// The store, where it is not in its usual place.
    store: Option<PathBuf>,
    /// Flows in the lab, each with the range of its effects.
    flows: Vec<Flow>,
    settled: BTreeSet<String>,
}

/// A flow of effects, and the run of it.
struct Flow {
    file: String,
    effects: std::ops::Range<usize>,
    run: Option<String>,
}

impl Life {
    pub(crate) fn new() -> Self {
        let lab = Lab::new();
        let world = World::new(&lab.path());
        Self {
            lab,
            world,
            figures: Figures::default(),
            store: None,
            flows: Vec::new(),
            settled: BTreeSet::new(),
        }
    }

    /// Keeps the store elsewhere.
    pub(crate) fn store_at(&mut self, path: PathBuf) {
        self.store = Some(path);
    }

    /// Writes a flow of `steps` effects in `chains` chains that run beside each other; each step waits for the one
    /// before it in its chain. Gives its number.
    pub(crate) fn flow(&mut self, steps: usize, chains: usize) -> usize {
        self.flow_with(steps, chains, false, "")
    }

    /// The same, with more steps as YAML, and with processes that can be killed before and after their effect.
    pub(crate) fn flow_with(
        &mut self,
        steps: usize,
        chains: usize,
        lingers: bool,
        more: &str,
    ) -> usize {
        self.world.open();
        let first = self.flows.last().map_or(0, |flow| flow.effects.end);
        let file = format!("flow{}.yaml", self.flows.len());
        let name = format!("effects{}", self.flows.len());
        let mut text = format!("ravel: 1\nname: {name}\nsteps:\n");
        for index in first..first + steps {
            let after = if index < first + chains {
                String::new()
            } else {
                format!("after: [s{}], ", index - chains)
            };
            let effect = Effect::of(index);
            let step = self.world.step(effect, &after, lingers);
            text.push_str(&format!("  {}: {step}\n", effect.name()));
        }
        text.push_str(more);
        text.push_str("output: { done: true }\n");
        self.lab.write(&file, &text);
        self.figures.steps += steps;
        self.flows.push(Flow {
            file,
            effects: first..first + steps,
            run: None,
        });
        self.flows.len() - 1
    }

    /// A command on the store of this life.
    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.lab.command(arguments);
        if let Some(store) = &self.store {
            command.env("RAVEL_STORE", store);
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn ravel(&self, arguments: &[&str]) -> Done {
        let output = self.command(arguments).output().unwrap();
        Done {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The run of a flow, once it was acknowledged.
    pub(crate) fn run_of(&mut self, flow: usize) -> Option<String> {
        if self.flows[flow].run.is_none() {
            let name = format!("effects{flow}");
            let listed = self.ravel(&["runs", "list", "--flow", &name, "--json"]);
            let listed = listed.expect(0).json();
            let runs = listed["runs"].as_array().unwrap();
            assert!(runs.len() <= 1, "two runs of one start");
            self.flows[flow].run = runs.first().map(|run| text(&run["id"]));
        }
        self.flows[flow].run.clone()
    }

    /// A process that goes on with a flow's run, or starts it.
    pub(crate) fn process(&mut self, flow: usize) -> Process {
        let command = match &self.flows[flow].run {
            Some(run) => {
                self.figures.restarts += 1;
                self.command(&["runs", "resume", run, "--json", "--park"])
            }
            // The key makes starts at once one start.
            None => self.command(&[
                "run",
                &self.flows[flow].file,
                "--key",
                &self.flows[flow].file,
                "--json",
                "--park",
            ]),
        };
        let began = Timestamp::now();
        Process {
            flow,
            going: self.lab.going(command),
            began,
            is_restart: self.flows[flow].run.is_some(),
            has_moved: false,
            is_over: false,
        }
    }

    /// Lets a process settle a few steps, at most so many.
    pub(crate) fn let_go(&mut self, process: &mut Process, settle: u64) {
        let mut seen = 0;
        while seen < settle {
            let Some(event) = process.going.until(|_| true) else {
                process.is_over = true;
                return;
            };
            // Looked up with a command it would be after a second process had opened the store.
            if self.flows[process.flow].run.is_none() && event["run"].is_string() {
                self.flows[process.flow].run = Some(text(&event["run"]));
            }
            if event["type"] == "attempt_started" && !process.has_moved {
                process.has_moved = true;
                if process.is_restart {
                    let at: Timestamp = text(&event["at"]).parse().unwrap();
                    let took = at.duration_since(process.began);
                    self.figures.recoveries.push(took.unsigned_abs());
                }
            }
            if event["type"] == "settled" && event["path"] != "" {
                let path = text(&event["path"]);
                // A step that settles again was forgotten although it was told.
                self.figures.forgotten += usize::from(!self.settled.insert(path));
                seen += 1;
            } else if event["type"].is_null() {
                process.is_over = true;
                return;
            }
        }
    }

    /// Lets a process go on for a while that the dice say, and kills it in the middle of whatever comes.
    pub(crate) fn kill_somewhere(&mut self, mut process: Process, dice: &mut Dice) {
        self.let_go(&mut process, dice.below(SETTLED_MAX + 1));
        pause(dice, DELAY_MAX_US);
        process.going.kill();
        self.figures.kills += 1;
    }

    /// What an honest person answers about each effect that may have happened: they look into the world.
    pub(crate) fn answer(&mut self, flow: usize) {
        if let Err(refused) = self.try_answer(flow) {
            panic!("{refused:?}");
        }
    }

    /// The same; gives the command that was refused.
    pub(crate) fn try_answer(&mut self, flow: usize) -> Result<(), Done> {
        let Some(run) = self.run_of(flow) else {
            return Ok(());
        };
        let listed = done(self.ravel(&["answer", "--list", "--run", &run, "--json"]))?.json();
        let questions = listed["questions"].as_array().unwrap().clone();
        if questions.is_empty() {
            return Ok(());
        }
        let why = done(self.ravel(&["runs", "why", &run]))?.out;
        self.world.settle(flow);
        let mut answers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for question in questions {
            let path = text(&question["path"]);
            self.figures.uncertain += 1;
            let named = format!("{path}: is uncertain: it may or may not have happened.");
            self.figures.unnamed += usize::from(!why.contains(&named));
            let effect = Effect::of(path[1..].parse().unwrap());
            let answer = if self.world.has(effect) {
                json!({"happened": true, "output": effect.value()})
            } else {
                json!({"not_done": "retry"})
            };
            answers.entry(answer.to_string()).or_default().push(path);
        }
        for (answer, paths) in answers {
            let glob = format!("{{{}}}", paths.join(","));
            let all = [
                "answer",
                "--run",
                &run,
                "--all",
                &glob,
                "--json-value",
                &answer,
            ];
            done(self.ravel(&all))?;
        }
        Ok(())
    }

    /// Kills a flow's processes so many times, each somewhere, answering between them.
    pub(crate) fn killed(
        &mut self,
        flow: usize,
        kills: usize,
        dice: &mut Dice,
        kill: &dyn Fn(&mut Self, Process, &mut Dice),
    ) {
        for _ in 0..kills {
            let process = self.process(flow);
            kill(self, process, dice);
            self.answer(flow);
            if self.is_over(flow) {
                return;
            }
        }
    }

    pub(crate) fn is_over(&mut self, flow: usize) -> bool {
        let Some(run) = self.run_of(flow) else {
            return false;
        };
        self.state(&run) == "succeeded"
    }

    /// The state of a run as it is listed.
    pub(crate) fn state(&self, run: &str) -> String {
        let listed = self.ravel(&["runs", "list", "--json"]).expect(0).json();
        let runs = listed["runs"].as_array().unwrap();
        let found = runs.iter().find(|listed| listed["id"] == run);
        found.map_or_else(String::new, |listed| text(&listed["state"]))
    }

    /// Brings every flow to its end, undisturbed, and adds up what was seen of its effects.
    pub(crate) fn end(mut self) -> Figures {
        for flow in 0..self.flows.len() {
            self.finish(flow);
        }
        let effects = self.flows.iter().flat_map(|flow| flow.effects.clone());
        let account = self.world.account(effects.map(Effect::of));
        self.figures.add(account);
        self.figures
    }

    /// Brings a flow to its end on a store that may be damaged; gives the command that was refused.
    pub(crate) fn try_finish(&mut self, flow: usize) -> Result<(), Done> {
        for _ in 0..RESUMES_MAX {
            let mut process = self.process(flow);
            self.let_go(&mut process, u64::MAX);
            let done = process.going.end();
            match done.code {
                0 => return Ok(()),
                4 => self.try_answer(flow)?,
                _ => return Err(done),
            }
        }
        panic!("the run does not end");
    }

    /// What was seen of a flow's effects up to now; steps that did not come to be are not lost.
    pub(crate) fn count_seen(mut self, flow: usize) -> Figures {
        let account = self
            .world
            .account(self.flows[flow].effects.clone().map(Effect::of));
        self.figures.add(Account { lost: 0, ..account });
        self.figures
    }

    fn finish(&mut self, flow: usize) {
        for _ in 0..RESUMES_MAX {
            let mut process = self.process(flow);
            self.let_go(&mut process, u64::MAX);
            let done = process.going.end();
            let run = self.run_of(flow).expect("its start was acknowledged");
            if done.code == 0 {
                let replayed = self.ravel(&["replay", &run, "--json"]).expect(0).json();
                assert_eq!(replayed["ok"], Value::Bool(true), "{replayed}");
                return;
            }
            done.expect(4);
            self.answer(flow);
        }
        panic!("the run does not end");
    }
}

/// A command that did what it was asked for, or the refusal.
fn done(done: Done) -> Result<Done, Done> {
    if done.code == 0 { Ok(done) } else { Err(done) }
}

/// A process of the binary that is watched.
pub(crate) struct Process {
    flow: usize,
    pub(crate) going: Going,
    /// As the engine's records: lines may be read long after they were written.
    began: Timestamp,
    is_restart: bool,
    has_moved: bool,
    pub(crate) is_over: bool,
}

/// Waits for less than so many µs. A kill has no event that it could wait for.
pub(crate) fn pause(dice: &mut Dice, most_us: u64) {
    std::thread::sleep(Duration::from_micros(dice.below(most_us)));
}
