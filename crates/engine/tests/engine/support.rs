//! The rig: a store that spies and can be killed, a world that carries attempts out by script, and engines in it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use ravel_core::effect::{ErrorClass, Failure, Millis, Outcome};
use ravel_core::event::{Attempt, Event, Stop, Turn};
use ravel_core::graph::Graph;
use ravel_core::lang::Bundle;
use ravel_core::port::{Executor, Job, Report, Request, Summary};
use ravel_core::port_store::{
    Batch, Chain, Collected, Error, Filter, Inbox, Listing, Log, Message, Owner, Ownership, Posted,
    Reply,
};
use ravel_core::run::{Run, SharedTerms};
use ravel_core::value::Val;
use ravel_engine::{
    Config, Driver, Engine, EngineError, Graphs, Limits, Pending, Progress, StartRequest,
    VirtualClock,
};
use ravel_store::Memory;
use serde_json::{Value, json};

/// Where the clocks of all tests begin.
pub(crate) const T0: Millis = 1_000_000;

/// Rounds of a driver after which a test is stuck.
const ROUNDS_MAX: usize = 200_000;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// A flow, compiled, with the text that the store keeps.
#[derive(Clone)]
pub(crate) struct Flow {
    pub(crate) graph: Arc<Graph>,
    pub(crate) bundle: Arc<str>,
}

pub(crate) fn flow(yaml: &str) -> Flow {
    let bundle =
        Bundle::from_text("flow.yaml", yaml).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let graph = Arc::new(
        bundle
            .compile()
            .unwrap_or_else(|problems| panic!("{problems:#?}")),
    );
    Flow {
        graph,
        bundle: serde_json::to_string(&bundle).unwrap().into(),
    }
}

/// What is on disk, as far as commits have returned.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    pub(crate) attempts: BTreeSet<(Arc<str>, Attempt)>,
    pub(crate) commits: u64,
    pub(crate) turns: u64,
}

/// When a store dies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    /// At this commit, counted from 1.
    pub(crate) commit: u64,
    /// The commit reaches the disk although nobody is told.
    pub(crate) written: bool,
}

/// What is done to the store behind an engine's back.
pub(crate) type Meanwhile = Box<dyn FnOnce(&Memory) + Send>;

/// One process's handle of the store in memory, that looks at commits and can die in one.
pub(crate) struct Spy {
    inner: Memory,
    durable: Arc<Mutex<Durable>>,
    world: Arc<World>,
    death: Mutex<Option<Death>>,
    /// What the next commit fails with.
    pub(crate) refuse: Mutex<Option<Error>>,
    /// What another process does before the next commit.
    pub(crate) meanwhile: Mutex<Option<Meanwhile>>,
    own_commits: Mutex<u64>,
}

impl Log for Spy {
    fn commit(&self, batch: &Batch) -> Result<(), Error> {
        if let Some(meanwhile) = lock(&self.meanwhile).take() {
            meanwhile(&self.inner);
        }
        if let Some(error) = lock(&self.refuse).take() {
            return Err(error);
        }
        let count = {
            let mut count = lock(&self.own_commits);
            *count += 1;
            *count
        };
        let dying = lock(&self.death).filter(|death| death.commit == count);
        if dying.is_some_and(|death| !death.written) {
            lock(&self.world.state).frozen = true;
            return Err(Error::Io {
                message: "killed before the commit".into(),
            });
        }
        self.inner.commit(batch)?;
        let mut durable = lock(&self.durable);
        durable.commits += 1;
        for commit in &batch.runs {
            durable.turns += commit.turns.len() as u64;
            for event in commit.turns.iter().flat_map(|turn| &turn.events) {
                if let Event::AttemptStarted { node, number, .. } = event {
                    let attempt = Attempt {
                        node: *node,
                        number: *number,
                    };
                    durable.attempts.insert((Arc::clone(&commit.run), attempt));
                }
            }
        }
        if dying.is_some() {
            lock(&self.world.state).frozen = true;
            return Err(Error::Io {
                message: "killed after the commit".into(),
            });
        }
        Ok(())
    }
    fn load(&self, run: &str) -> Result<Vec<Turn>, Error> {
        self.inner.load(run)
    }
    fn put_bundle(&self, hash: &str, json: &str) -> Result<(), Error> {
        self.inner.put_bundle(hash, json)
    }
    fn bundle(&self, hash: &str) -> Result<String, Error> {
        self.inner.bundle(hash)
    }
    fn verify(&self, run: &str) -> Result<Chain, Error> {
        self.inner.verify(run)
    }
}

impl Ownership for Spy {
    fn claim(&self, run: &str, token: &str) -> Result<Owner, Error> {
        self.inner.claim(run, token)
    }
    fn release(&self, run: &str, owner: &Owner) -> Result<(), Error> {
        self.inner.release(run, owner)
    }
    fn release_all(&self, token: &str) -> Result<(), Error> {
        self.inner.release_all(token)
    }
    fn unowned(&self, now: Millis, most: usize) -> Result<Vec<Arc<str>>, Error> {
        self.inner.unowned(now, most)
    }
    fn next_wake(&self) -> Result<Option<Millis>, Error> {
        self.inner.next_wake()
    }
    fn owner(&self, run: &str) -> Result<Option<Arc<str>>, Error> {
        self.inner.owner(run)
    }
}

impl Inbox for Spy {
    fn post(&self, run: &str, at: Millis, message: &Message) -> Result<i64, Error> {
        self.inner.post(run, at, message)
    }
    fn fetch(&self, token: &str, after: i64) -> Result<Vec<Posted>, Error> {
        self.inner.fetch(token, after)
    }
    fn waiting(&self, run: &str) -> Result<Vec<Posted>, Error> {
        self.inner.waiting(run)
    }
    fn reply(&self, id: i64) -> Result<Option<Reply>, Error> {
        self.inner.reply(id)
    }
    fn settle(&self, taken: &[(i64, Reply)]) -> Result<(), Error> {
        self.inner.settle(taken)
    }
    fn version(&self) -> Result<u64, Error> {
        self.inner.version()
    }
}

impl Listing for Spy {
    fn runs(&self, filter: &Filter) -> Result<Vec<Summary>, Error> {
        self.inner.runs(filter)
    }
    fn questions(&self, run: Option<&str>) -> Result<Vec<ravel_core::port::Question>, Error> {
        self.inner.questions(run)
    }
    fn by_start_key(&self, key: &str) -> Result<Option<Arc<str>>, Error> {
        self.inner.by_start_key(key)
    }
    fn collect(
        &self,
        before: Millis,
        keep_newest: usize,
        dry_run: bool,
    ) -> Result<Collected, Error> {
        self.inner.collect(before, keep_newest, dry_run)
    }
}

/// What an attempt does.
pub(crate) enum Does {
    Value(Value),
    /// Stays open until the test ends it.
    Waits,
}

/// What the world saw of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) attempt: u32,
    /// Its start was on disk when it left.
    pub(crate) durable: bool,
}

#[derive(Default)]
pub(crate) struct WorldState {
    pub(crate) seen: Vec<Seen>,
    pub(crate) aborted: Vec<(String, Stop)>,
    pub(crate) swept: Vec<String>,
    /// Effects outside, by key: how often each took place.
    pub(crate) effects: BTreeMap<String, u32>,
    /// What the latest effect of a key gave.
    outputs: BTreeMap<String, Value>,
    pub(crate) open: VecDeque<(Job, Arc<dyn Report>)>,
    pub(crate) open_max: usize,
    /// The engine was killed: nothing it still does is real.
    frozen: bool,
}

impl WorldState {
    fn happened(&mut self, job: &Job, value: &Value) {
        *self.effects.entry(job.key.to_string()).or_default() += 1;
        self.outputs.insert(job.key.to_string(), value.clone());
    }
}

type Script = Box<dyn Fn(&Job) -> Does + Send + Sync>;

/// The world outside: outlives engines.
pub(crate) struct World {
    pub(crate) state: Mutex<WorldState>,
    durable: Arc<Mutex<Durable>>,
    script: Script,
}

/// Tools answer with their input; `ledger.has` says whether the effect with a key took place.
pub(crate) fn echo(job: &Job) -> Does {
    match &job.request {
        Request::Tool { input, .. } => Does::Value(input.json().clone()),
        Request::Model(_) | Request::Run(_) => Does::Value(json!({ "text": "words" })),
    }
}

impl Executor for World {
    fn start(&self, job: Job, report: Arc<dyn Report>) {
        let durable = lock(&self.durable)
            .attempts
            .contains(&(Arc::clone(&job.run), job.attempt));
        let does = {
            let mut state = lock(&self.state);
            if state.frozen {
                return;
            }
            state.seen.push(Seen {
                path: job.path.to_string(),
                attempt: job.attempt.number,
                durable,
            });
            self.script(&job, &mut state)
        };
        let outcome = match does {
            Does::Waits => {
                let mut state = lock(&self.state);
                state.open.push_back((job, report));
                state.open_max = state.open_max.max(state.open.len());
                return;
            }
            Does::Value(value) => {
                lock(&self.state).happened(&job, &value);
                Outcome::done(value.into())
            }
        };
        report.finished(&job.run, job.attempt, outcome);
    }

    fn abort(&self, run: &str, attempt: Attempt, why: Stop) {
        let taken = {
            let mut state = lock(&self.state);
            if state.frozen {
                return;
            }
            let found = state
                .open
                .iter()
                .position(|(job, _)| &*job.run == run && job.attempt == attempt);
            let taken = found.and_then(|found| state.open.remove(found));
            if let Some((job, _)) = &taken {
                state.aborted.push((job.path.to_string(), why));
            }
            taken
        };
        if let Some((job, report)) = taken {
            report.finished(&job.run, attempt, stopped());
        }
    }

    fn sweep(&self, run: &str) {
        lock(&self.state).swept.push(run.to_owned());
    }
}

fn stopped() -> Outcome {
    Outcome::unknown(Failure::new(ErrorClass::Cancelled, "stopped"))
}

impl World {
    fn script(&self, job: &Job, state: &mut WorldState) -> Does {
        match &job.request {
            Request::Tool { name, input } if &**name == "ledger.has" => {
                let key = input
                    .get_path(&["key"])
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                Does::Value(match state.outputs.get(key) {
                    Some(output) => json!({ "happened": true, "output": output }),
                    None => json!({ "happened": false }),
                })
            }
            Request::Tool { .. } | Request::Model(_) | Request::Run(_) => (self.script)(job),
        }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.state).seen.clone()
    }

    /// Paths of all starts, in order.
    pub(crate) fn paths(&self) -> Vec<String> {
        lock(&self.state)
            .seen
            .iter()
            .map(|seen| seen.path.clone())
            .collect()
    }

    /// Ends an open attempt with a value.
    pub(crate) fn finish(&self, path: &str, value: Value) {
        let (job, report) = self.take(path);
        lock(&self.state).happened(&job, &value);
        report.finished(&job.run, job.attempt, Outcome::done(value.into()));
    }

    /// Takes an open attempt out of the world.
    pub(crate) fn take(&self, path: &str) -> (Job, Arc<dyn Report>) {
        let mut state = lock(&self.state);
        let found = state.open.iter().position(|(job, _)| &*job.path == path);
        let found = found.unwrap_or_else(|| panic!("`{path}` is not open"));
        state.open.remove(found).unwrap()
    }

    /// Ends the attempt that is open for longest; false when none is.
    pub(crate) fn finish_oldest(&self) -> bool {
        let path = lock(&self.state)
            .open
            .front()
            .map(|(job, _)| job.path.to_string());
        let Some(path) = path else { return false };
        self.finish(&path, json!({ "path": path }));
        true
    }

    pub(crate) fn open(&self) -> Vec<String> {
        lock(&self.state)
            .open
            .iter()
            .map(|(job, _)| job.path.to_string())
            .collect()
    }
}

/// A world, a store and a clock, in which engines live and die.
pub(crate) struct Rig {
    pub(crate) memory: Memory,
    pub(crate) world: Arc<World>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) durable: Arc<Mutex<Durable>>,
    pub(crate) limits: Limits,
    pub(crate) serve: bool,
    graphs: Arc<Library>,
}

#[derive(Default)]
struct Library {
    graphs: Mutex<HashMap<Arc<str>, Arc<Graph>>>,
}

impl Graphs for Library {
    fn graph(&self, hash: &str) -> Result<Arc<Graph>, String> {
        lock(&self.graphs)
            .get(hash)
            .cloned()
            .ok_or_else(|| format!("no graph {hash}"))
    }
}

impl Rig {
    pub(crate) fn new(script: impl Fn(&Job) -> Does + Send + Sync + 'static) -> Self {
        let durable = Arc::<Mutex<Durable>>::default();
        let world = World {
            state: Mutex::default(),
            durable: Arc::clone(&durable),
            script: Box::new(script),
        };
        Self {
            memory: Memory::new(),
            world: Arc::new(world),
            clock: Arc::new(VirtualClock::at(T0)),
            durable,
            limits: Limits {
                poll_min_ms: 0,
                poll_max_ms: 0,
                adopt_every_ms: 0,
                ..Limits::default()
            },
            serve: false,
            graphs: Arc::default(),
        }
    }

    pub(crate) fn config(&self, death: Option<Death>) -> (Config, Arc<Spy>) {
        lock(&self.world.state).frozen = false;
        let spy = Arc::new(Spy {
            inner: self.memory.another(),
            durable: Arc::clone(&self.durable),
            world: Arc::clone(&self.world),
            death: Mutex::new(death),
            refuse: Mutex::default(),
            meanwhile: Mutex::default(),
            own_commits: Mutex::default(),
        });
        let config = Config {
            store: Arc::clone(&spy) as _,
            executor: Arc::clone(&self.world) as _,
            clock: Arc::clone(&self.clock) as _,
            graphs: Arc::clone(&self.graphs) as _,
            limits: self.limits.clone(),
            serve: self.serve,
        };
        (config, spy)
    }

    /// A process with an engine that the test drives.
    pub(crate) fn engine(&self) -> Process {
        self.engine_that_dies(None)
    }

    pub(crate) fn engine_that_dies(&self, death: Option<Death>) -> Process {
        let (config, spy) = self.config(death);
        let (engine, driver) = Engine::manual(config);
        Process {
            engine,
            driver,
            spy,
        }
    }

    pub(crate) fn request(&self, flow: &Flow, input: Value) -> StartRequest {
        lock(&self.graphs.graphs).insert(Arc::clone(&flow.graph.hash), Arc::clone(&flow.graph));
        StartRequest {
            graph: Arc::clone(&flow.graph),
            bundle: Arc::clone(&flow.bundle),
            input: input.into(),
            terms: SharedTerms::default(),
            start_key: None,
            run: None,
        }
    }

    /// A program that cannot compile what the store holds.
    pub(crate) fn forget_graphs(&self) {
        lock(&self.graphs.graphs).clear();
    }

    pub(crate) fn log(&self, run: &str) -> Vec<Turn> {
        self.memory.load(run).unwrap()
    }

    /// The run as its stored log says it is.
    pub(crate) fn fold(&self, run: &str) -> Run {
        Run::replay(&self.log(run), &mut |hash| self.graphs.graph(hash)).unwrap()
    }

    /// `(path, state, value)` of every activation, and the run's state: what must be equal however a run went.
    pub(crate) fn outcome(&self, run: &str) -> (String, BTreeMap<String, (String, Option<Val>)>) {
        let folded = self.fold(run);
        let nodes = folded
            .nodes()
            .filter(|view| !view.path.contains("/check["))
            .map(|view| (view.path.to_string(), (view.state.to_owned(), view.value)))
            .collect();
        (folded.state().name().to_owned(), nodes)
    }
}

/// One process: an engine, driven by hand. Dropping it is `kill -9`.
pub(crate) struct Process {
    pub(crate) engine: Engine,
    pub(crate) driver: Driver,
    pub(crate) spy: Arc<Spy>,
}

impl Process {
    /// Runs until nothing waits, or the engine stopped.
    pub(crate) fn drive(&mut self) -> Progress {
        for _ in 0..ROUNDS_MAX {
            match self.driver.cycle() {
                Progress::Busy => {}
                done @ (Progress::Idle | Progress::Stopped(_)) => return done,
            }
        }
        panic!(
            "the engine does not come to rest: {:?}",
            self.driver.status()
        );
    }

    /// Makes a call and drives until it is answered.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&Engine, ravel_engine::Callback<T>),
    ) -> Result<T, EngineError> {
        let (then, pending) = Pending::new();
        call(&self.engine, then);
        self.drive();
        pending
            .poll()
            .expect("the call is answered when nothing waits any more")
    }

    pub(crate) fn start(&mut self, request: StartRequest) -> Arc<str> {
        self.call(|engine, then| engine.start_then(request, then))
            .unwrap()
    }

    pub(crate) fn resume(&mut self, run: &str) -> Result<(), EngineError> {
        self.call(|engine, then| engine.resume_then(run, then))
            .map(|_| ())
    }

    pub(crate) fn post(&mut self, run: &str, message: Message) -> Result<Reply, EngineError> {
        self.call(|engine, then| engine.post_then(run, message, then))
    }

    /// How the run ended; it must have.
    pub(crate) fn ended(&mut self, run: &str) -> Result<Summary, EngineError> {
        self.call(|engine, then| engine.wait_then(run, then))
    }
}
