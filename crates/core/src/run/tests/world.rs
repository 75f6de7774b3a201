//! A scripted world around one run: it carries out commands, moves the clock, and checks the machine's promises after
//! every turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::effect::{ErrorClass, Failure, Fate, Millis, Outcome};
use crate::event::{Attempt, Command, Event, Input, Reject, Settled, Turn};
use crate::graph::Graph;
use crate::lang::Bundle;
use crate::port::{Job, Question, Request, RunCommand};
use crate::run::{Run, Terms};
use crate::value::Val;

/// What a scripted attempt does.
#[derive(Clone, Debug)]
pub(super) enum Does {
    Value(Value),
    Fails(Fate, ErrorClass),
    /// A value, and what it used.
    Costs(Value, crate::effect::Usage),
    /// Never ends by itself; an abort ends it as `Unknown`.
    Hangs,
    /// Streams items, one a move, when somebody takes them; then this.
    Streams(Vec<Value>, Box<Self>),
}

pub(super) type Script = Box<dyn Fn(&Job) -> Does>;

pub(super) struct World {
    pub(super) run: Run,
    pub(super) graph: Arc<Graph>,
    graphs: BTreeMap<Arc<str>, Arc<Graph>>,
    pub(super) now: Millis,
    pub(super) log: Vec<Turn>,
    /// `(path, attempt)` of every start, in order.
    pub(super) started: Vec<(String, u32)>,
    /// Effects seen outside: path and key of each attempt that took place.
    pub(super) effects: Vec<(String, String)>,
    open: VecDeque<Job>,
    aborted: BTreeSet<Attempt>,
    /// Items that each attempt has streamed.
    streamed: BTreeMap<Attempt, usize>,
    permits: Permits,
    script: Script,
    /// Finish the youngest attempt first: another legal order of completions.
    pub(super) youngest_first: bool,
    /// The final states seen so far.
    settled: BTreeMap<crate::event::Node, &'static str>,
}

/// Keys and limits of a wish for permits.
type Wish = Vec<(Arc<str>, u32)>;

#[derive(Default)]
struct Permits {
    held: BTreeMap<Attempt, Wish>,
    waiting: VecDeque<(Attempt, Wish)>,
    peak: BTreeMap<String, u32>,
}

pub(super) fn compile(yaml: &str) -> Arc<Graph> {
    let bundle = Bundle::from_text("flow.yaml", yaml)
        .unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    Arc::new(
        bundle
            .compile()
            .unwrap_or_else(|problems| panic!("{}", shown(&problems))),
    )
}

fn shown(problems: &[crate::lang::Diagnostic]) -> String {
    problems
        .iter()
        .map(|problem| format!("{problem:?}\n"))
        .collect()
}

/// Tools answer with their input, `run: "text"` with its text as stdout, models with `{text}`.
pub(super) fn echo(job: &Job) -> Does {
    match &job.request {
        Request::Tool { input, .. } => Does::Value(input.json().clone()),
        Request::Model(_) => Does::Value(json!({ "text": "words" })),
        Request::Run(run) => {
            let stdout = match &run.program {
                RunCommand::Shell(text) | RunCommand::Python(text) | RunCommand::Node(text) => {
                    text.to_string()
                }
                RunCommand::Command(words) => words.join(" "),
            };
            Does::Value(json!({ "code": 0, "stdout": stdout, "stderr": "", "files": {} }))
        }
    }
}

impl World {
    pub(super) fn new(yaml: &str, input: Value, script: Script) -> Self {
        Self::with_terms(yaml, input, script, Terms::default())
    }

    pub(super) fn with_terms(yaml: &str, input: Value, script: Script, terms: Terms) -> Self {
        Self::of_graph(compile(yaml), input, script, terms)
    }

    pub(super) fn of_graph(graph: Arc<Graph>, input: Value, script: Script, terms: Terms) -> Self {
        let run = Run::new("r1".into(), graph.clone(), terms);
        let mut world = Self::around(run, graph, Vec::new(), script);
        world
            .input(Input::Start {
                input: input.into(),
            })
            .expect("the input fits");
        world
    }

    fn around(run: Run, graph: Arc<Graph>, log: Vec<Turn>, script: Script) -> Self {
        Self {
            run,
            graphs: BTreeMap::from([(graph.hash.clone(), graph.clone())]),
            graph,
            now: 1_000_000,
            log,
            started: Vec::new(),
            effects: Vec::new(),
            open: VecDeque::new(),
            aborted: BTreeSet::new(),
            streamed: BTreeMap::new(),
            permits: Permits::default(),
            script,
            youngest_first: false,
            settled: BTreeMap::new(),
        }
    }

    /// A new run on the first turns of this one.
    pub(super) fn fork(&self, turns: usize, id: &str) -> Self {
        let log = self.log[..turns].to_vec();
        let mut run = Run::replay(&log, &mut |hash| self.graph_of(hash)).expect("the prefix folds");
        let handled = run.fork(self.now, id.into()).expect("the prefix is live");
        let mut forked = Self::around(run, self.graph.clone(), log, Box::new(echo));
        forked.now = self.now;
        forked.log.extend(handled.turn);
        for command in forked.run.outstanding() {
            forked.obey(command);
        }
        forked.check();
        forked
    }

    pub(super) fn set_script(&mut self, script: Script) {
        self.script = script;
    }

    /// Makes a graph known for replays.
    pub(super) fn knows(&mut self, graph: &Arc<Graph>) {
        self.graphs.insert(graph.hash.clone(), graph.clone());
    }

    fn graph_of(&self, hash: &str) -> Result<Arc<Graph>, String> {
        self.graphs
            .get(hash)
            .cloned()
            .ok_or_else(|| "unknown".to_owned())
    }

    /// Runs until nothing moves by itself.
    pub(super) fn settled(yaml: &str, input: Value, script: Script) -> Self {
        let mut world = Self::new(yaml, input, script);
        world.drive();
        world
    }

    pub(super) fn input(&mut self, input: Input) -> Result<(), Reject> {
        let handled = self.run.handle(self.now, input)?;
        self.take(handled);
        Ok(())
    }

    fn take(&mut self, handled: crate::run::Handled) {
        if let Some(turn) = handled.turn {
            self.log.push(turn);
        }
        for command in handled.commands {
            self.obey(command);
        }
        self.check();
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Start(job) => {
                self.started
                    .push((job.path.to_string(), job.attempt.number));
                self.open.push_back(*job);
            }
            Command::Abort { attempt, why: _ } => {
                self.aborted.insert(attempt);
            }
            Command::Acquire {
                attempt,
                permits,
                priority: _,
            } => self.permits.waiting.push_back((attempt, permits)),
            Command::Release { attempt } => {
                self.permits.held.remove(&attempt);
                self.permits
                    .waiting
                    .retain(|(waiting, _)| *waiting != attempt);
            }
            Command::WakeAt(_) => {}
        }
    }

    /// The promises of the machine, after every turn (long runs: after every few, since it folds the whole log).
    fn check(&mut self) {
        self.check_settled();
        if self.run.last_turn() > CHECKED_EACH
            && !self.run.last_turn().is_multiple_of(CHECK_STRIDE)
            && !self.run.is_final()
        {
            return;
        }
        let replayed =
            Run::replay(&self.log, &mut |hash| self.graph_of(hash)).expect("the log folds");
        assert_eq!(
            replayed.portrait(),
            self.run.portrait(),
            "replaying the log gives the live state"
        );
        if !self.run.is_final() {
            assert!(
                !self.run.waits_on().is_empty(),
                "a live run waits for something:
{}",
                self.story()
            );
        }
        let text = serde_json::to_string(&self.log).expect("turns are plain data");
        let read: Vec<Turn> = serde_json::from_str(&text).expect("a written log reads");
        assert_eq!(read, self.log, "a log survives being written and read");
    }

    /// What is settled stays as it is.
    fn check_settled(&mut self) {
        for view in self.run.nodes() {
            let before = self.settled.get(&view.node).copied();
            assert!(
                before.is_none_or(|before| before == view.state),
                "`{}` was {before:?} and is {}:\n{}",
                view.path,
                view.state,
                self.story()
            );
            if matches!(view.state, "succeeded" | "failed" | "skipped" | "cancelled") {
                self.settled.insert(view.node, view.state);
            }
        }
    }

    /// The log, an event a line.
    pub(super) fn story(&self) -> String {
        let events = self
            .log
            .iter()
            .flat_map(|turn| turn.events.iter().map(move |event| (turn.turn, event)));
        events
            .map(|(turn, event)| {
                format!(
                    "{turn}: {}\n",
                    serde_json::to_string(event).expect("events are plain data")
                )
            })
            .collect()
    }

    /// One move of the world: a grant, a completion, or the clock. False when only people can move it.
    pub(super) fn step(&mut self) -> bool {
        if self.grant() || self.complete() {
            return true;
        }
        match self.run.wake_at() {
            Some(at) if !self.run.is_final() => {
                self.now = self.now.max(at);
                self.input(Input::Tick).expect("a tick is never refused");
                true
            }
            _ => false,
        }
    }

    pub(super) fn drive(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.step() {
                return;
            }
        }
        panic!("the run does not come to rest: {:#?}", self.run.waits_on());
    }

    fn grant(&mut self) -> bool {
        let fits = |held: &BTreeMap<Attempt, Wish>, wish: &[(Arc<str>, u32)]| {
            wish.iter().all(|(key, max)| {
                let used = held
                    .values()
                    .flatten()
                    .filter(|(other, _)| other == key)
                    .count();
                used < *max as usize
            })
        };
        let position = self
            .permits
            .waiting
            .iter()
            .position(|(_, wish)| fits(&self.permits.held, wish));
        let Some((attempt, wish)) =
            position.and_then(|position| self.permits.waiting.remove(position))
        else {
            return false;
        };
        for (key, _) in &wish {
            let used = self
                .permits
                .held
                .values()
                .flatten()
                .filter(|(other, _)| other == key)
                .count() as u32
                + 1;
            let peak = self.permits.peak.entry(key.to_string()).or_default();
            *peak = (*peak).max(used);
        }
        self.permits.held.insert(attempt, wish);
        self.input(Input::Granted { attempt })
            .expect("a grant is never refused");
        true
    }

    fn complete(&mut self) -> bool {
        for index in 0..self.open.len() {
            let index = if self.youngest_first {
                self.open.len() - 1 - index
            } else {
                index
            };
            let job = self.open[index].clone();
            let mut does = (self.script)(&job);
            if let Does::Streams(items, then) = does {
                let aborted = self.aborted.contains(&job.attempt);
                if !aborted && self.stream(index, &job, items) {
                    return true;
                }
                does = *then;
            }
            let outcome = match does {
                _ if self.aborted.contains(&job.attempt) => {
                    Outcome::unknown(Failure::new(ErrorClass::Cancelled, "stopped"))
                }
                Does::Hangs => continue,
                Does::Streams(..) => unreachable!("a stream is followed by an end"),
                Does::Costs(value, usage) => {
                    self.effects
                        .push((job.path.to_string(), job.key.to_string()));
                    Outcome::done(value.into()).with_usage(usage)
                }
                Does::Value(value) => {
                    self.effects
                        .push((job.path.to_string(), job.key.to_string()));
                    Outcome::done(value.into())
                }
                Does::Fails(fate, class) => {
                    if fate == Fate::Done {
                        self.effects
                            .push((job.path.to_string(), job.key.to_string()));
                    }
                    Outcome {
                        fate,
                        ..Outcome::not_done(Failure::new(class, "scripted"))
                    }
                }
            };
            self.open.remove(index);
            self.permits.held.remove(&job.attempt);
            self.input(Input::Finished {
                attempt: job.attempt,
                outcome,
            })
            .expect("an end is never refused");
            return true;
        }
        false
    }

    /// Streams the next item of an attempt, which then lets the others go first. False: there is none.
    fn stream(&mut self, index: usize, job: &Job, mut items: Vec<Value>) -> bool {
        let sent = self.streamed.entry(job.attempt).or_default();
        let (Some(field), true) = (job.stream.clone(), *sent < items.len()) else {
            return false;
        };
        let item = items.swap_remove(*sent);
        *sent += 1;
        self.open.remove(index);
        self.open.push_back(job.clone());
        self.input(Input::Chunk {
            attempt: job.attempt,
            field,
            items: vec![item.into()],
        })
        .expect("items are never refused");
        true
    }

    /// Moves on as far as nothing but the clock and people can move it.
    pub(super) fn rest(&mut self) {
        while self.grant() || self.complete() {}
    }

    /// `kill -9`, and a new owner: open attempts are lost with what they did not report.
    pub(super) fn crash(&mut self) {
        self.run = Run::replay(&self.log, &mut |hash| self.graph_of(hash)).expect("the log folds");
        self.open.clear();
        self.aborted.clear();
        self.streamed.clear();
        self.permits = Permits::default();
        if self.run.is_final() {
            return;
        }
        let handled = self
            .run
            .handle(self.now, Input::Recovered { epoch: 2 })
            .expect("recovery is never refused");
        self.log.extend(handled.turn);
        for command in self.run.outstanding() {
            self.obey(command);
        }
        self.check();
    }

    pub(super) fn questions(&self) -> Vec<Question> {
        self.run.questions()
    }

    /// Effects below a path, by their places.
    pub(super) fn effects_of(&self, name: &str) -> Vec<&str> {
        let paths = self.effects.iter().map(|(path, _)| path.as_str());
        paths.filter(|path| path.ends_with(name)).collect()
    }

    pub(super) fn answer(&mut self, question: &Arc<str>, value: Value) -> Result<(), Reject> {
        self.input(Input::Answer {
            question: question.clone(),
            value: value.into(),
            by: Some("me".into()),
        })
    }

    pub(super) fn peak(&self, key: &str) -> u32 {
        self.permits.peak.get(key).copied().unwrap_or_default()
    }

    pub(super) fn open_paths(&self) -> Vec<String> {
        self.open.iter().map(|job| job.path.to_string()).collect()
    }

    /// Paths of the starts, in order.
    pub(super) fn ran(&self) -> Vec<&str> {
        self.started.iter().map(|(path, _)| path.as_str()).collect()
    }

    pub(super) fn effect_count(&self, path: &str) -> usize {
        self.effects
            .iter()
            .filter(|(effect, _)| effect == path)
            .count()
    }

    /// The outcome: path, state, value of every settled activation.
    pub(super) fn outcome(&self) -> BTreeMap<String, (Settled, Option<Value>)> {
        let mut outcome = BTreeMap::new();
        for turn in &self.log {
            for event in &turn.events {
                if let Event::Settled {
                    node, path, state, ..
                } = event
                {
                    let value = self
                        .run
                        .node(*node)
                        .and_then(|view| view.value)
                        .map(Val::into_json);
                    let before = outcome.insert(path.to_string(), (*state, value));
                    assert!(before.is_none(), "`{path}` settles once");
                }
            }
        }
        outcome
    }

    /// `path=state` of one activation.
    pub(super) fn state_of(&self, path: &str) -> &'static str {
        self.run
            .nodes()
            .filter(|view| *view.path == *path)
            .last()
            .map_or("missing", |view| view.state)
    }

    pub(super) fn value_of(&self, path: &str) -> Value {
        let view = self.run.nodes().filter(|view| *view.path == *path).last();
        view.and_then(|view| view.value)
            .map(Val::into_json)
            .unwrap_or_default()
    }

    pub(super) fn output(&self) -> Value {
        self.run
            .output()
            .cloned()
            .map(Val::into_json)
            .unwrap_or_default()
    }

    pub(super) fn error_class(&self) -> Option<ErrorClass> {
        self.run.error().map(|error| error.class)
    }
}

/// Turns that are checked each, and after how many more again.
const CHECKED_EACH: u64 = 8;
const CHECK_STRIDE: u64 = 5;
/// More moves than any test needs.
const STEPS_MAX: u32 = 20_000;

/// Whatever the script, cutting the run after any turn and going on must lead to the same outcome.
pub(super) fn survives_every_crash(yaml: &str, input: &Value, script: fn(&Job) -> Does) {
    let whole = World::settled(yaml, input.clone(), Box::new(script));
    assert!(
        whole.run.is_final(),
        "the flow of this test ends by itself: {:#?}",
        whole.run.waits_on()
    );
    for cut in 0.. {
        let mut world = World::new(yaml, input.clone(), Box::new(script));
        let mut live = true;
        for _ in 0..cut {
            live = live && world.step();
        }
        if !live {
            return;
        }
        world.crash();
        world.drive();
        assert_eq!(world.outcome(), whole.outcome(), "cut after {cut} moves");
    }
}
