//! An engine for a case: its store, its executor, its clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ravel_core::effect::Outcome;
use ravel_core::event::{Attempt, Stop};
use ravel_core::graph::Graph;
use ravel_core::lang::Bundle;
use ravel_core::port::{Executor, Job, Report, Request};
use ravel_core::port_store::{Log as _, Store};
use ravel_core::run::{Run, SharedTerms};
use ravel_core::value::Val;
use ravel_engine::{Config, Engine, Graphs, Limits, StartRequest, SystemClock};
use ravel_store::{Memory, Sqlite};
use tempfile::TempDir;

/// Where a case keeps its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
}

type Nap = (Reverse<Instant>, u64);

/// Starts that an executor saw.
#[derive(Default)]
pub(crate) struct Starts {
    count: Mutex<usize>,
    moved: Condvar,
}

impl Starts {
    /// Waits until so many have begun.
    pub(crate) fn wait_for(&self, count: usize) {
        let mut seen = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *seen < count {
            seen = self
                .moved
                .wait(seen)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn one_more(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.moved.notify_all();
    }
}

/// Answers at once, but `bench.sleep` after a while.
struct Naps {
    queue: Sender<(Instant, Job, Arc<dyn Report>)>,
    starts: Arc<Starts>,
}

impl Naps {
    fn new(starts: Arc<Starts>) -> Self {
        let (queue, naps) = channel();
        std::thread::spawn(move || nap(&naps));
        Self { queue, starts }
    }
}

fn nap(queue: &Receiver<(Instant, Job, Arc<dyn Report>)>) {
    let mut heap: BinaryHeap<Nap> = BinaryHeap::new();
    let mut jobs: HashMap<u64, (Job, Arc<dyn Report>)> = HashMap::new();
    let mut next = 0;
    loop {
        let wait = heap
            .peek()
            .map_or(Duration::from_secs(60), |(Reverse(at), _)| {
                at.saturating_duration_since(Instant::now())
            });
        match queue.recv_timeout(wait) {
            Ok((at, job, report)) => {
                heap.push((Reverse(at), next));
                jobs.insert(next, (job, report));
                next += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while heap
            .peek()
            .is_some_and(|(Reverse(at), _)| *at <= Instant::now())
        {
            let job = heap.pop().and_then(|(_, id)| jobs.remove(&id));
            if let Some((job, report)) = job {
                report.finished(&job.run, job.attempt, Outcome::done(input_of(&job)));
            }
        }
    }
}

fn input_of(job: &Job) -> Val {
    match &job.request {
        Request::Tool { input, .. } => input.clone(),
        Request::Model(_) | Request::Run(_) => Val::null(),
    }
}

impl Executor for Naps {
    fn start(&self, job: Job, report: Arc<dyn Report>) {
        if let Request::Tool { name, input } = &job.request
            && &**name == "bench.sleep"
        {
            let ms = input
                .get_path(&["ms"])
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(0);
            self.starts.one_more();
            // The receiver lives as long as the process.
            let _ = self
                .queue
                .send((Instant::now() + Duration::from_millis(ms), job, report));
            return;
        }
        report.finished(&job.run, job.attempt, Outcome::done(input_of(&job)));
    }

    fn abort(&self, _run: &str, _attempt: Attempt, _why: Stop) {}

    fn sweep(&self, _run: &str) {}
}

/// Graphs that were compiled here.
#[derive(Default)]
pub(crate) struct Library(Mutex<HashMap<Arc<str>, Arc<Graph>>>);

impl Library {
    fn compile(&self, text: &str) -> Result<Flow, String> {
        let bundle =
            Bundle::from_text("bench.yaml", text).map_err(|problems| format!("{problems:?}"))?;
        let graph = Arc::new(
            bundle
                .compile()
                .map_err(|problems| format!("{problems:?}"))?,
        );
        let text = serde_json::to_string(&bundle).map_err(|error| error.to_string())?;
        let mut graphs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        graphs.insert(Arc::clone(&graph.hash), Arc::clone(&graph));
        Ok(Flow {
            graph,
            bundle: text.into(),
        })
    }
}

impl Graphs for Library {
    fn graph(&self, hash: &str) -> Result<Arc<Graph>, String> {
        let graphs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        graphs
            .get(hash)
            .cloned()
            .ok_or_else(|| format!("no graph {hash}"))
    }
}

/// A directory, a store, an engine.
pub(crate) struct Rig {
    pub(crate) dir: PathBuf,
    /// Removes the directory when the case is over.
    own: Option<TempDir>,
    pub(crate) engine: Arc<Engine>,
    /// `bench.sleep` attempts that began.
    pub(crate) starts: Arc<Starts>,
    sqlite: Option<Arc<Sqlite>>,
    library: Arc<Library>,
    kind: Kind,
    limits: Limits,
    terms: SharedTerms,
}

/// A compiled flow and its text.
#[derive(Clone)]
pub(crate) struct Flow {
    graph: Arc<Graph>,
    bundle: Arc<str>,
}

impl Rig {
    pub(crate) fn new(kind: Kind) -> Result<Self, String> {
        Self::with(kind, Limits::default())
    }

    pub(crate) fn with(kind: Kind, limits: Limits) -> Result<Self, String> {
        let dir = tempfile::tempdir_in(data_dir()).map_err(|error| error.to_string())?;
        let opened = open(kind, dir.path(), &Arc::default(), &limits, false)?;
        Ok(Self::of(
            dir.path().to_owned(),
            Some(dir),
            kind,
            limits,
            opened,
        ))
    }

    /// A server on a directory that another process left, with the flows that it may find there.
    pub(crate) fn on(dir: TempDir, flows: &[&str]) -> Result<Self, String> {
        let library = Arc::<Library>::default();
        for text in flows {
            library.compile(text)?;
        }
        let limits = Limits::default();
        let opened = open(Kind::Sqlite, dir.path(), &library, &limits, true)?;
        Ok(Self::of(
            dir.path().to_owned(),
            Some(dir),
            Kind::Sqlite,
            limits,
            opened,
        ))
    }

    /// An engine on a directory that is somebody else's.
    pub(crate) fn within(dir: &Path) -> Result<Self, String> {
        let limits = Limits::default();
        let opened = open(Kind::Sqlite, dir, &Arc::default(), &limits, false)?;
        Ok(Self::of(dir.to_owned(), None, Kind::Sqlite, limits, opened))
    }

    fn of(dir: PathBuf, own: Option<TempDir>, kind: Kind, limits: Limits, opened: Opened) -> Self {
        Self {
            dir,
            own,
            engine: opened.engine,
            starts: opened.starts,
            sqlite: opened.sqlite,
            library: opened.library,
            kind,
            limits,
            terms: SharedTerms::default(),
        }
    }

    /// The process ends and another one, a server, opens the same store.
    pub(crate) fn restart(self) -> Result<Self, String> {
        let Self {
            dir,
            own,
            engine,
            starts: _,
            sqlite,
            library,
            kind,
            limits,
            terms: _,
        } = self;
        engine.shut_down(false);
        engine.join();
        drop(engine);
        drop(sqlite);
        let opened = open(kind, &dir, &library, &limits, true)?;
        Ok(Self::of(dir, own, kind, limits, opened))
    }

    pub(crate) fn flow(&self, text: &str) -> Result<Flow, String> {
        self.library.compile(text)
    }

    pub(crate) fn request(&self, flow: &Flow, input: serde_json::Value) -> StartRequest {
        StartRequest {
            graph: Arc::clone(&flow.graph),
            bundle: Arc::clone(&flow.bundle),
            input: input.into(),
            terms: self.terms.clone(),
            start_key: None,
            run: None,
        }
    }

    /// A run as its stored log says it is.
    pub(crate) fn fold(&self, run: &str) -> Result<Run, String> {
        let sqlite = self.sqlite.as_ref().ok_or("the case has no database")?;
        let turns = sqlite.load(run).map_err(|error| error.to_string())?;
        Run::replay(&turns, &mut |hash| self.library.graph(hash)).map_err(|error| error.to_string())
    }

    /// Bytes of the store's file when its log is written back; `None` for a store in memory.
    pub(crate) fn disk_bytes(&self) -> Result<Option<u64>, String> {
        let Some(sqlite) = &self.sqlite else {
            return Ok(None);
        };
        sqlite.checkpoint().map_err(|error| error.to_string())?;
        let meta = std::fs::metadata(sqlite.path()).map_err(|error| error.to_string())?;
        Ok(Some(meta.len()))
    }
}

/// What is around a case, opened.
struct Opened {
    engine: Arc<Engine>,
    starts: Arc<Starts>,
    sqlite: Option<Arc<Sqlite>>,
    library: Arc<Library>,
}

fn open(
    kind: Kind,
    dir: &Path,
    library: &Arc<Library>,
    limits: &Limits,
    serve: bool,
) -> Result<Opened, String> {
    let sqlite = match kind {
        Kind::Memory => None,
        Kind::Sqlite => Some(Arc::new(
            Sqlite::open(dir.join("runs.db")).map_err(|error| error.to_string())?,
        )),
    };
    let store: Arc<dyn Store> = match &sqlite {
        Some(sqlite) => Arc::clone(sqlite) as _,
        None => Arc::new(Memory::new()),
    };
    let starts = Arc::<Starts>::default();
    let config = Config {
        store,
        executor: Arc::new(Naps::new(Arc::clone(&starts))),
        clock: Arc::new(SystemClock::new()),
        graphs: Arc::clone(library) as _,
        limits: limits.clone(),
        serve,
    };
    let engine = Engine::open(config).map_err(|error| error.to_string())?;
    Ok(Opened {
        engine: Arc::new(engine),
        starts,
        sqlite,
        library: Arc::clone(library),
    })
}

/// Where the files of cases live: `RAVEL_BENCH_DIR`, else the directory for temporary files.
pub(crate) fn data_dir() -> PathBuf {
    std::env::var_os("RAVEL_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

impl Rig {
    pub(crate) fn sqlite(&self) -> Option<Arc<Sqlite>> {
        self.sqlite.clone()
    }
}
