//! The executor of this machine: models, tools and processes behind the [`Executor`] port.
//!
//! ```text
//! start ─┬─ inline tool ──────────────────────────────────────────────────▶ finished (before start returns)
//!        ├─ too many already ─────────────────────────────────────────────▶ finished NotDone (overloaded)
//!        └─ queued ─permit─▶ under way ─▶ finished
//!              └─ abort ─▶ finished NotDone   └─ abort ─▶ stopped ─▶ finished
//! ```
//!
//! Each attempt ends in exactly one `finished`, also when its task panics or the executor is dropped. What is reported
//! holds no secret. Nothing is ever repeated here.

mod broom;
mod ending;
mod sink;
mod tasks;

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use ravel_core::effect::{ErrorClass, Failure, Outcome};
use ravel_core::event::{Attempt, Stop};
use ravel_core::port::{Executor, Job, ModelRequest, Report, Request, SECRET_CLOSE, SECRET_OPEN};
use ravel_core::value::Val;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::abort::{Abort, AbortHandle, stopped};
use crate::files::{FileValue, Files, Makers};
use crate::jail::Jail;
use crate::live::Live;
use crate::model::{self, transport::Transport};
use crate::run::{self, Runner};
use crate::secret::{self, Secrets};
use crate::tool::{self, Ask, Call, Context, Tool};
use broom::Broom;
use ending::Ending;
use sink::Sink;
use tasks::TaskSet;

/// Most attempts under way at once.
pub const ATTEMPTS_MAX: usize = 256;
/// Most attempts that wait for their turn.
pub const QUEUE_MAX: usize = 100_000;
/// Threads that carry attempts out.
pub const THREADS: usize = 2;
/// Arguments of an inline tool up to this size are worked on by the caller's thread; larger ones by a task, so that
/// nobody else waits.
pub const INLINE_BYTES_MAX: usize = 256 * 1024;

/// How an executor is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where directories of processes, their records and result files are.
    pub root: PathBuf,
    /// A binary that calls [`crate::child::main`] first: usually our own.
    pub helper: PathBuf,
    /// What processes get of the engine's environment: see [`crate::run::env::allowed`].
    pub env: Vec<(String, String)>,
    /// Where secrets come from; others are looked up as `RAVEL_SECRET_<NAME>`.
    pub secrets: BTreeMap<String, secret::Source>,
    /// Providers and models.
    pub models: model::Config,
    /// The folder that relative paths start at in runs that recorded none.
    pub files_root: PathBuf,
    /// Who made a stored file, for the message when it is lost.
    pub makers: Option<Makers>,
    /// Keep the directories of attempts that succeeded.
    pub keep_directories: bool,
    /// This process starts no other children than the executor's and inherits those of a killed supervisor, to end
    /// them: also a daemon that nothing else would tell whose it is.
    pub heir: bool,
    /// Limits.
    pub limits: Limits,
}

/// Limits of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most attempts under way at once.
    pub attempts_max: usize,
    /// Most attempts that wait for their turn.
    pub queue_max: usize,
    /// Threads that carry attempts out.
    pub threads: usize,
    /// Between TERM and KILL of an aborted process, ms.
    pub grace_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            attempts_max: ATTEMPTS_MAX,
            queue_max: QUEUE_MAX,
            threads: THREADS,
            grace_ms: run::GRACE_MS,
        }
    }
}

impl Config {
    /// The usual set-up below a work root: this environment, this folder, this binary as the helper.
    ///
    /// # Errors
    /// When the path of this binary is not known.
    pub fn new(root: impl Into<PathBuf>) -> std::io::Result<Self> {
        Ok(Self {
            root: root.into(),
            helper: std::env::current_exe()?,
            env: run::env::allowed(std::env::vars_os()),
            secrets: BTreeMap::new(),
            models: model::Config::default(),
            files_root: std::env::current_dir()?,
            makers: None,
            keep_directories: false,
            heir: false,
            limits: Limits::default(),
        })
    }
}

/// Carries attempts out on this machine.
pub struct LocalExecutor {
    shared: Arc<Shared>,
    tasks: TaskSet,
    broom: Broom,
}

impl std::fmt::Debug for LocalExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalExecutor")
            .field("root", &self.shared.runner.root)
            .finish_non_exhaustive()
    }
}

/// What tasks need.
struct Shared {
    runner: Runner,
    tools: Context,
    models: model::Client,
    secrets: Secrets,
    live: Mutex<HashMap<(Arc<str>, Attempt), AbortHandle>>,
    permits: Semaphore,
    limits: Limits,
}

impl LocalExecutor {
    /// Starts the executor with a runtime of its own.
    ///
    /// # Errors
    /// When the work root cannot be made or the threads cannot be started.
    pub fn new(config: Config) -> std::io::Result<Self> {
        std::fs::create_dir_all(&config.root)?;
        let root = config.root.canonicalize()?;
        let files_root = config.files_root.canonicalize()?;
        let secrets = Secrets::new(config.secrets);
        // Where the kernel does not do it, those that can be recognised are ended all the same.
        let heir = config.heir && run::adopt().is_ok();
        let runner = Runner {
            files: Files::new(&root).with_makers(config.makers),
            folders: Arc::new(run::dirs::Folders::new(&root)),
            root,
            folder: files_root,
            helper: config.helper,
            env: config.env,
            secrets: secrets.clone(),
            grace_ms: config.limits.grace_ms,
            keep: config.keep_directories,
            heir,
            counter: AtomicU64::new(0),
        };
        let files = runner.files.clone();
        let read = move |run: &str, file: &FileValue| {
            let mut content = Vec::new();
            let read = files
                .open(file)
                .and_then(|mut opened| Ok(opened.read_to_end(&mut content)?));
            read.map(|_| content)
                .map_err(|lost| files.failure(run, file, &lost))
        };
        let shared = Shared {
            models: model::Client::new(config.models, Some(Arc::new(read))),
            tools: Context {
                secrets: secrets.clone(),
                transport: Transport::default(),
                files: runner.files.clone(),
            },
            runner,
            secrets,
            live: Mutex::default(),
            permits: Semaphore::new(config.limits.attempts_max),
            limits: config.limits,
        };
        Ok(Self {
            shared: Arc::new(shared),
            tasks: TaskSet::new(config.limits.threads)?,
            broom: Broom::default(),
        })
    }

    /// The store of result files.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.shared.runner.files
    }

    /// Attempts that are queued or under way.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.shared.lock().len()
    }

    /// Removes everything that the processes of a run left on disk, except result files. For runs that nobody owns.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn remove_run(&self, run: &str) -> std::io::Result<()> {
        let root = &self.shared.runner.root;
        self.shared.runner.folders.sweep(run);
        run::dirs::remove(&run::dirs::of_records(root, run))?;
        run::dirs::remove(&run::dirs::of_run(root, run))
    }
}

impl Executor for LocalExecutor {
    fn start(&self, job: Job, report: Arc<dyn Report>) {
        let live = Live::new(&job, Arc::clone(&report));
        let ending = Ending::new(&job, report);
        if let Request::Tool { name, input } = &job.request {
            match inline(name, input) {
                Inline::Done(outcome) => return ending.finish(without_marks(outcome)),
                Inline::Task => {}
            }
        }
        let (handle, abort) = AbortHandle::new();
        let key = (Arc::clone(&job.run), job.attempt);
        let most = self.shared.limits.attempts_max + self.shared.limits.queue_max;
        let admitted = {
            let mut attempts = self.shared.lock();
            let room = attempts.len() < most;
            if room {
                attempts.insert(key, handle);
            }
            room
        };
        if !admitted {
            let text = format!("the executor holds {most} attempts already (executor.queue_max)");
            return ending.finish(Outcome::not_done(Failure::new(
                ErrorClass::Overloaded,
                text,
            )));
        }
        let shared = Arc::clone(&self.shared);
        self.tasks
            .spawn(async move { shared.attempt(job, abort, live, ending).await });
    }

    fn abort(&self, run: &str, attempt: Attempt, why: Stop) {
        if let Some(handle) = self.shared.lock().get(&(Arc::from(run), attempt)) {
            handle.stop(why);
        }
    }

    fn sweep(&self, run: &str) {
        run::pids::sweep(&self.shared.runner.root, run);
        self.shared.runner.folders.sweep(run);
    }

    fn tidy(&self, run: &Arc<str>) {
        if !self.shared.runner.keep {
            self.broom.tidy(&self.shared.runner.folders, run);
        }
    }
}

enum Inline {
    Done(Outcome),
    Task,
}

/// Carries out what needs no task: unknown tools, wrong arguments, and tools that only compute.
fn inline(name: &str, input: &Val) -> Inline {
    let Some(tool) = tool::find(name) else {
        let text = format!("there is no tool `{name}`");
        return Inline::Done(Outcome::not_done(
            Failure::new(ErrorClass::NotFound, text).with_code("tool_missing"),
        ));
    };
    match tool.call {
        Call::Inline(_) if weighs_at_most(input.json(), &mut { INLINE_BYTES_MAX }) => {
            Inline::Done(compute(tool, input))
        }
        Call::Inline(_) | Call::Task(_) => Inline::Task,
    }
}

/// Calls an inline tool. A panic in it is an error of ours, never the end of the engine.
fn compute(tool: &Tool, input: &Val) -> Outcome {
    let call = match tool.call {
        Call::Inline(call) => call,
        Call::Task(_) => return internal("a tool that waits was called inline"),
    };
    let input = match tool.check(input) {
        Ok(input) => input,
        Err(failure) => return Outcome::not_done(failure),
    };
    match std::panic::catch_unwind(|| call(input.json())) {
        Ok(Ok(value)) => Outcome::done(value.into()),
        Ok(Err(failure)) => Outcome::not_done(failure),
        Err(_) => internal("the tool panicked"),
    }
}

/// True when the strings of a value and its places add up to no more than what is left.
fn weighs_at_most(value: &Value, left: &mut usize) -> bool {
    let own = match value {
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => 8,
    };
    let Some(rest) = left.checked_sub(own) else {
        return false;
    };
    *left = rest;
    match value {
        Value::Array(items) => items.iter().all(|item| weighs_at_most(item, left)),
        Value::Object(fields) => fields.values().all(|field| weighs_at_most(field, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn internal(text: &str) -> Outcome {
    Outcome::unknown(Failure::new(ErrorClass::Internal, text))
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Arc<str>, Attempt), AbortHandle>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One attempt, from its place in the queue to its end.
    async fn attempt(&self, job: Job, abort: Abort, live: Live, ending: Ending) {
        let outcome = match self.permit(&abort).await {
            Ok(_permit) => {
                let work =
                    std::panic::AssertUnwindSafe(Box::pin(self.carry_out(&job, &abort, &live)));
                work.catch_unwind()
                    .await
                    .unwrap_or_else(|_| internal("the executor of the step panicked"))
            }
            Err(why) => Outcome::not_done(stopped(why)),
        };
        let outcome = self.scrub(outcome);
        self.lock().remove(&(Arc::clone(&job.run), job.attempt));
        ending.finish(outcome);
    }

    async fn permit(
        &self,
        abort: &Abort,
    ) -> Result<Option<tokio::sync::SemaphorePermit<'_>>, Stop> {
        tokio::select! {
            biased;
            why = abort.wait() => Err(why),
            // Never closed.
            permit = self.permits.acquire() => Ok(permit.ok()),
        }
    }

    async fn carry_out(&self, job: &Job, abort: &Abort, live: &Live) -> Outcome {
        match &job.request {
            Request::Run(request) => self.runner.carry_out(job, request, abort, live).await,
            Request::Tool { name, input } => match tool::find(name) {
                None => internal("a tool was lost"),
                Some(tool) => self.call(tool, job, input, abort).await,
            },
            Request::Model(request) => self.ask(job, request, abort, live).await,
        }
    }

    async fn ask(&self, job: &Job, request: &ModelRequest, abort: &Abort, live: &Live) -> Outcome {
        if request
            .messages
            .iter()
            .any(|message| secret::value_has_mark(message.json()))
        {
            return Outcome::not_done(secret::misplaced("the prompt"));
        }
        let call = model::Call {
            request,
            run: &job.run,
            key: &job.key,
            stream: job.stream.as_deref(),
        };
        let mut sink = Sink {
            live,
            field: job.stream.as_deref(),
            scrubber: self.secrets.stream(),
            secrets: &self.secrets,
        };
        let outcome = self
            .models
            .call(call, async { stopped(abort.wait().await) }, &mut sink)
            .await;
        sink.finish();
        outcome
    }

    async fn call(&self, tool: &Tool, job: &Job, input: &Val, abort: &Abort) -> Outcome {
        let call = match tool.call {
            Call::Inline(_) => return tokio::task::block_in_place(|| compute(tool, input)),
            Call::Task(call) => call,
        };
        let jail = Jail::new(self.runner.folder_of(job).to_path_buf());
        match tool.check(input) {
            Ok(input) => {
                call(
                    &self.tools,
                    Ask {
                        job,
                        input: input.json(),
                        jail: &jail,
                        abort,
                    },
                )
                .await
            }
            Err(failure) => Outcome::not_done(failure),
        }
    }

    fn scrub(&self, mut outcome: Outcome) -> Outcome {
        outcome = without_marks(outcome);
        if self.secrets.is_empty() {
            return outcome;
        }
        outcome.result = match outcome.result {
            Ok(value) => Ok(self.secrets.scrub_value(value.into_json()).into()),
            Err(failure) => Err(self.secrets.scrub_failure(failure)),
        };
        outcome.meta = outcome
            .meta
            .map(|meta| self.secrets.scrub_value(meta.into_json()).into());
        outcome
    }
}

/// The outcome without marks of secrets in what flows can read.
fn without_marks(mut outcome: Outcome) -> Outcome {
    match &mut outcome.result {
        Ok(value) if secret::value_has_mark(value.json()) => {
            *value = secret::without_marks(value.json().clone()).into();
        }
        Ok(_) => {}
        Err(failure) => {
            if secret::has_mark(&failure.message) {
                failure.message = failure
                    .message
                    .replace([SECRET_OPEN, SECRET_CLOSE], "\u{FFFD}")
                    .into();
            }
            failure.data =
                failure
                    .data
                    .take()
                    .map(|data| match secret::value_has_mark(data.json()) {
                        true => secret::without_marks(data.into_json()).into(),
                        false => data,
                    });
        }
    }
    outcome
}
