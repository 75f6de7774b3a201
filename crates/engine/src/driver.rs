//! The driver: the thread, the clock, the store and the executors around the shard.
//!
//! One thread does everything: it takes what waits, steps the shard, and when nothing more waits (or enough turns have
//! gathered) it commits, itself. While a commit runs, messages pile up and share the next one: the slower the disk, the
//! larger the groups. A run alone pays one commit a step and no hop between threads.

mod calls;
mod io;
mod poll;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use ravel_core::effect::Millis;
use ravel_core::graph::Graph;
use ravel_core::port::Executor;
use ravel_core::port_store::{Reply, Store};

use crate::cache::MemoryCache;
use crate::clock::Clock;
use crate::error::{EngineError, StopReason};
use crate::feed::Hub;
use crate::limits::Limits;
use crate::message::{Answer, In, Out, Ticket};
use crate::report::{Port, RunReport};
use crate::shard::Shard;

pub use self::calls::Status;
pub(crate) use self::calls::{Call, EndCallback};

/// Compiled graphs that no live run uses and that are kept anyway.
const SPARE_GRAPHS_MAX: usize = 256;

/// Nothing is waited for longer in one go.
const REST_MAX: Duration = Duration::from_secs(3_600);

/// Called once with the answer, on the engine's thread: must not block.
pub type Callback<T> = Box<dyn FnOnce(Result<T, EngineError>) + Send>;

/// Gives the compiled graph of a bundle's hash.
pub trait Graphs: Send + Sync {
    /// The graph. The engine keeps it while runs use it.
    ///
    /// # Errors
    /// One sentence: no such bundle, or it does not compile.
    fn graph(&self, hash: &str) -> Result<Arc<Graph>, String>;
}

/// What an engine is made of.
#[derive(Clone)]
pub struct Config {
    /// Where runs live.
    pub store: Arc<dyn Store>,
    /// Who carries attempts out.
    pub executor: Arc<dyn Executor>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Graphs by hash.
    pub graphs: Arc<dyn Graphs>,
    /// Bounds.
    pub limits: Limits,
    /// Own every run that nobody owns (a server), instead of the runs that were named.
    pub serve: bool,
}

/// What reaches the driver.
#[derive(Debug)]
pub(crate) enum Mail {
    /// For the shard, from an executor.
    Report(In),
    /// From a caller.
    Call(Box<Call>),
    /// Look again: the clock moved.
    Poke,
}

/// Whether the driver goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something was done.
    Busy,
    /// Nothing waits.
    Idle,
    /// The engine is at its end.
    Stopped(StopReason),
}

/// The machine and what is around it. Runs on one thread: its own (see [`crate::Engine`]), or a test's.
pub struct Driver {
    shard: Shard,
    config: Config,
    token: Arc<str>,
    port: Arc<Port>,
    mail: Receiver<Mail>,
    hub: Hub,
    out: Vec<Out>,
    reports: Vec<Option<Arc<RunReport>>>,
    graphs: HashMap<Arc<str>, Arc<Graph>>,
    /// Bundles that the store has for sure.
    bundles: HashSet<Arc<str>>,
    next_ticket: Ticket,
    callers: HashMap<Ticket, Callback<Answer>>,
    waiters: HashMap<Arc<str>, Vec<EndCallback>>,
    /// Messages that this process left for runs that others own.
    foreign: HashMap<i64, Callback<Reply>>,
    poll: poll::Poll,
    stopped: Option<StopReason>,
}

impl Driver {
    /// A driver and the way into it.
    pub(crate) fn new(config: Config, token: Arc<str>) -> (Self, Arc<Port>) {
        let limits = config.limits.clone();
        let (queue, mail) = sync_channel(Limits::count(limits.queue_messages));
        let port = Arc::new(Port::new(queue));
        let cache = MemoryCache::new(
            Limits::count(limits.cache_entries),
            limits.cache_bytes,
            limits.cache_value_bytes,
        );
        let poked = Arc::downgrade(&port);
        config.clock.on_move(Box::new(move || {
            if let Some(port) = poked.upgrade() {
                port.poke();
            }
        }));
        let driver = Self {
            shard: Shard::new(Arc::clone(&token), limits.clone(), Box::new(cache)),
            config,
            token,
            port: Arc::clone(&port),
            mail,
            hub: Hub::default(),
            out: Vec::new(),
            reports: Vec::new(),
            graphs: HashMap::new(),
            bundles: HashSet::new(),
            next_ticket: 1,
            callers: HashMap::new(),
            waiters: HashMap::new(),
            foreign: HashMap::new(),
            poll: poll::Poll::new(&limits),
            stopped: None,
        };
        (driver, port)
    }

    /// Runs until the engine is at its end.
    pub(crate) fn run(mut self) -> StopReason {
        loop {
            match self.cycle() {
                Progress::Busy => {}
                Progress::Idle => self.rest(),
                Progress::Stopped(why) => return why,
            }
        }
    }

    /// Takes what waits, commits, and carries out what may leave: one round, without waiting for anything. After
    /// [`Progress::Stopped`] there is nothing more to do.
    pub fn cycle(&mut self) -> Progress {
        let port = Arc::clone(&self.port);
        let _here = port.enter();
        let mut busy = self.take_mail();
        let now = self.config.clock.now();
        if self.shard.next_wake().is_some_and(|at| at <= now) {
            self.step(now, In::Tick);
            busy = true;
        }
        busy |= self.poll(now);
        busy |= self.commit();
        match self.stopped.clone() {
            Some(why) => {
                self.close(&why);
                Progress::Stopped(why)
            }
            None if busy => Progress::Busy,
            None => Progress::Idle,
        }
    }

    /// When the engine has to look at the clock again.
    pub fn next_wake(&mut self) -> Option<Millis> {
        self.shard.next_wake()
    }

    /// Takes mail until none waits or enough turns have gathered for a commit.
    fn take_mail(&mut self) -> bool {
        let most = Limits::count(self.config.limits.commit_turns);
        let mut busy = self.take_inline(most);
        while self.shard.waiting_turns() < most && self.stopped.is_none() {
            match self.mail.try_recv() {
                Ok(mail) => self.take(mail),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
            busy = true;
            self.take_inline(most);
        }
        busy
    }

    /// Takes what executors, observers and callbacks sent on this thread.
    fn take_inline(&mut self, most: usize) -> bool {
        let mut busy = false;
        while self.shard.waiting_turns() < most
            && let Some(mail) = self.port.take_inline()
        {
            self.take(mail);
            busy = true;
        }
        busy
    }

    fn take(&mut self, mail: Mail) {
        let now = self.config.clock.now();
        match mail {
            Mail::Report(message) => self.step(now, message),
            Mail::Call(call) => self.call(now, *call),
            Mail::Poke => {}
        }
    }

    /// Steps the shard and carries out what it says.
    fn step(&mut self, now: Millis, message: In) {
        let mut out = std::mem::take(&mut self.out);
        self.shard.step(now, message, &mut out);
        self.carry_out(out);
    }

    /// Waits for mail, the next timer, or the next look at the store.
    fn rest(&mut self) {
        let timer = self
            .shard
            .next_wake()
            .and_then(|at| self.config.clock.wait(at));
        let look = self
            .poll_is_needed()
            .then(|| self.poll.remaining(Instant::now()));
        let mail = match [timer, look].into_iter().flatten().min() {
            Some(most) => self.mail.recv_timeout(most.min(REST_MAX)),
            None => self.mail.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let port = Arc::clone(&self.port);
        let _here = port.enter();
        if let Ok(mail) = mail {
            self.take(mail);
        }
    }

    /// Everybody who still waits is told; what is owned is given up.
    fn close(&mut self, why: &StopReason) {
        let port = Arc::clone(&self.port);
        let stopped = || EngineError::Stopped { why: why.clone() };
        for (_, callback) in self.callers.drain() {
            callback(Err(stopped()));
        }
        for (_, callback) in self.foreign.drain() {
            callback(Err(stopped()));
        }
        for callback in self.waiters.drain().flat_map(|(_, callbacks)| callbacks) {
            callback(Err(stopped()));
        }
        while let Some(mail) = self.mail.try_recv().ok().or_else(|| port.take_inline()) {
            if let Mail::Call(call) = mail {
                call.refuse(stopped());
            }
        }
        if let Err(error) = self.config.store.release_all(&self.token) {
            tracing::warn!(error = %error, "runs could not be given up; they are free when this process ends");
        }
    }

    fn ticket(&mut self, callback: Callback<Answer>) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.callers.insert(ticket, callback);
        ticket
    }
}
