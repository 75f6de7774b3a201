//! The handle: what surfaces use.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use ravel_core::graph::Graph;
use ravel_core::port::Summary;
use ravel_core::port_store::{Message, Reply};
use ravel_core::run::SharedTerms;
use ravel_core::value::Val;

use crate::driver::{Call, Callback, Config, Driver, Mail, Status};
use crate::error::{EngineError, StopReason};
use crate::feed::{Feed, Observer};
use crate::limits::Limits;
use crate::message::NewRun;
use crate::report::Port;

/// A run to be started.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// Its graph.
    pub graph: Arc<Graph>,
    /// The canonical JSON that the graph was compiled from; the store keeps it under the graph's hash.
    pub bundle: Arc<str>,
    /// The input.
    pub input: Val,
    /// Limits and prices.
    pub terms: SharedTerms,
    /// A second start under the same key gives the first run.
    pub start_key: Option<Arc<str>>,
    /// The run's id; made when absent (see [`new_run_id`]).
    pub run: Option<Arc<str>>,
}

/// A new run id: UUID v7, so ids sort by the time of their making.
#[must_use]
pub fn new_run_id() -> Arc<str> {
    uuid::Uuid::now_v7().to_string().into()
}

/// An answer that is on its way.
#[derive(Debug)]
pub struct Pending<T> {
    answer: Receiver<Result<T, EngineError>>,
}

impl<T: Send + 'static> Pending<T> {
    /// The answer if it is there.
    ///
    /// # Errors
    /// [`TryRecvError`] when it is not there yet, or was taken.
    pub fn poll(&self) -> Result<Result<T, EngineError>, TryRecvError> {
        self.answer.try_recv()
    }

    /// A callback, and the pending answer that it fills: makes a blocking or polled call of any `_then` form.
    #[must_use]
    pub fn new() -> (Callback<T>, Self) {
        let (sender, answer) = sync_channel(1);
        // Whoever dropped the pending answer does not want it.
        let callback = Box::new(move |result| drop(sender.try_send(result)));
        (callback, Self { answer })
    }

    /// Waits for it.
    ///
    /// # Errors
    /// What the engine says; [`EngineError::Stopped`] when it is gone.
    pub fn wait(self) -> Result<T, EngineError> {
        self.answer.recv().unwrap_or(Err(EngineError::Stopped {
            why: StopReason::Shutdown,
        }))
    }
}

/// A running engine. Dropping it stops it at once: what was acknowledged is on disk, what was under way is lost and
/// is found so by whoever resumes the runs.
///
/// The blocking calls must not be made on the engine's own thread (in executors' `start`, observers or callbacks): they
/// would wait for themselves. Each has a `_then` form that calls back on the engine's thread, and may be used there.
pub struct Engine {
    port: Arc<Port>,
    token: Arc<str>,
    feed_items: usize,
    thread: Mutex<Option<JoinHandle<StopReason>>>,
}

impl Engine {
    /// Starts an engine with its thread.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn open(config: Config) -> std::io::Result<Self> {
        let (engine, driver) = Self::manual(config);
        let thread = std::thread::Builder::new()
            .name("ravel-shard".to_owned())
            .spawn(move || driver.run())?;
        *engine.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(engine)
    }

    /// An engine whose driver the caller runs, on a thread of its choice: simulation and tests. Nothing happens
    /// between two calls of [`Driver::cycle`], and a driver that is dropped is a process that was killed.
    #[must_use]
    pub fn manual(config: Config) -> (Self, Driver) {
        let token: Arc<str> = uuid::Uuid::now_v7().to_string().into();
        let feed_items = Limits::count(config.limits.feed_items);
        let (driver, port) = Driver::new(config, Arc::clone(&token));
        (
            Self {
                port,
                token,
                feed_items,
                thread: Mutex::new(None),
            },
            driver,
        )
    }

    /// The token that this engine owns its runs under.
    #[must_use]
    pub fn token(&self) -> &Arc<str> {
        &self.token
    }

    /// Starts a run. Returns when its start is on disk.
    ///
    /// # Errors
    /// [`EngineError::Rejected`] when the input does not fit; [`EngineError::Overloaded`]; errors of the store.
    pub fn start(&self, request: StartRequest) -> Result<Arc<str>, EngineError> {
        self.begin(request).wait()
    }

    /// Starts a run without waiting for the disk: many starts share one commit.
    #[must_use = "the start is acknowledged by the pending answer"]
    pub fn begin(&self, request: StartRequest) -> Pending<Arc<str>> {
        let (then, pending) = Pending::new();
        self.start_then(request, then);
        pending
    }

    /// Starts a run and calls back when its start is on disk.
    pub fn start_then(&self, request: StartRequest, then: Callback<Arc<str>>) {
        let StartRequest {
            graph,
            bundle,
            input,
            terms,
            start_key,
            run,
        } = request;
        let run = run.unwrap_or_else(new_run_id);
        let new = Box::new(NewRun {
            run,
            graph,
            terms,
            input,
            start_key,
        });
        self.call(Call::Start { new, bundle, then });
    }

    /// Takes a run over and goes on with it.
    ///
    /// # Errors
    /// [`EngineError::UnknownRun`], [`EngineError::Held`], [`EngineError::Broken`].
    pub fn resume(&self, run: &str) -> Result<(), EngineError> {
        let (then, pending) = Pending::new();
        self.resume_then(run, then);
        pending.wait().map(|_| ())
    }

    /// Takes a run over and calls back with its id; see [`Engine::resume`].
    pub fn resume_then(&self, run: &str, then: Callback<Arc<str>>) {
        self.call(Call::Resume {
            run: run.into(),
            then,
        });
    }

    /// Starts a new run on the first `turn` turns of another.
    ///
    /// # Errors
    /// [`EngineError::UnknownRun`], [`EngineError::Rejected`] when there is no such turn, [`EngineError::Broken`].
    pub fn fork(&self, run: &str, turn: u64) -> Result<Arc<str>, EngineError> {
        let (then, pending) = Pending::new();
        self.fork_then(run, turn, then);
        pending.wait()
    }

    /// Forks a run and calls back with the new one's id; see [`Engine::fork`].
    pub fn fork_then(&self, run: &str, turn: u64, then: Callback<Arc<str>>) {
        self.call(Call::Fork {
            run: run.into(),
            turn,
            id: new_run_id(),
            then,
        });
    }

    /// Waits until a run is over, here or in another process. Parked and waiting runs are waited for.
    ///
    /// # Errors
    /// [`EngineError::UnknownRun`]; how the run left this engine otherwise: paused, fenced, broken, stopped.
    pub fn wait(&self, run: &str) -> Result<Summary, EngineError> {
        let (then, pending) = Pending::new();
        self.wait_then(run, then);
        pending.wait()
    }

    /// Calls back when a run is over; see [`Engine::wait`].
    pub fn wait_then(&self, run: &str, then: Callback<Summary>) {
        self.call(Call::Wait {
            run: run.into(),
            then,
        });
    }

    /// Gives a message to a run: to the run itself when it is here, else through the store to its owner. Returns when
    /// it is recorded or refused; a message for a run that nobody owns waits for whoever resumes it.
    ///
    /// # Errors
    /// [`EngineError::UnknownRun`], [`EngineError::Overloaded`], errors of the store.
    pub fn post(&self, run: &str, message: Message) -> Result<Reply, EngineError> {
        let (then, pending) = Pending::new();
        self.post_then(run, message, then);
        pending.wait()
    }

    /// Gives a message to a run and calls back with what became of it; see [`Engine::post`].
    pub fn post_then(&self, run: &str, message: Message, then: Callback<Reply>) {
        self.call(Call::Post {
            run: run.into(),
            message,
            then,
        });
    }

    /// Stops a run at a clean point and gives it up.
    ///
    /// # Errors
    /// [`EngineError::UnknownRun`] when it is not here.
    pub fn pause(&self, run: &str) -> Result<(), EngineError> {
        let (then, pending) = Pending::new();
        self.pause_then(run, then);
        pending.wait()
    }

    /// Pauses a run and calls back when it is given up; see [`Engine::pause`].
    pub fn pause_then(&self, run: &str, then: Callback<()>) {
        self.call(Call::Pause {
            run: run.into(),
            then,
        });
    }

    /// Watches one run, or all. What came before is in the log: compare turn numbers.
    #[must_use]
    pub fn subscribe(&self, run: Option<&str>) -> Feed {
        let (sender, feed) = Feed::bounded(self.feed_items);
        self.observe(run, Box::new(sender));
        feed
    }

    /// Watches one run, or all, with an observer of one's own.
    pub fn observe(&self, run: Option<&str>, observer: Box<dyn Observer>) {
        self.call(Call::Observe {
            run: run.map(Arc::from),
            observer,
        });
    }

    /// Numbers about the engine.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub fn status(&self) -> Result<Status, EngineError> {
        let (then, pending) = Pending::new();
        self.call(Call::Status { then });
        pending.wait()
    }

    /// Asks the engine to stop: at clean points, or `now`. A second call may hurry a first one.
    pub fn shut_down(&self, now: bool) {
        self.call(Call::Shutdown { now });
    }

    /// Waits until the engine has stopped, and says why. `None`: somebody else has waited already, it panicked, or
    /// this is its own thread, which cannot wait for itself.
    pub fn join(&self) -> Option<StopReason> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let here = std::thread::current().id();
        if thread
            .as_ref()
            .is_some_and(|thread| thread.thread().id() == here)
        {
            return None;
        }
        let thread = thread.take()?;
        thread.join().ok()
    }

    fn call(&self, call: Call) {
        if let Some(Mail::Call(call)) = self.port.send(Mail::Call(Box::new(call))) {
            call.refuse(EngineError::Stopped {
                why: StopReason::Shutdown,
            });
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut_down(true);
        self.join();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
