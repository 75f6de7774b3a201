//! The `run` leaf: one process, from its directory to its result.
//!
//! ```text
//! prepared ─▶ ordered ─┬─ refused ───────────────▶ NotDone
//!                      └─ running ─┬─ ended ─▶ read to the end ─▶ collected ─▶ Done (value or tool_error)
//!                                  ├─ killed by a signal ────────────────────▶ Unknown
//!                                  └─ abort: connection closed ─▶ emptied ───▶ Unknown
//! ```

mod capture;
mod collect;
pub(crate) mod dirs;
pub mod env;
mod folder;
mod orphans;
pub(crate) mod pids;
mod program;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ravel_core::effect::{ErrorClass, Failure, Fate, Outcome};
use ravel_core::graph::Sandbox;
use ravel_core::lang::limits::MEMORY_BYTES_MIN;
use ravel_core::port::{Job, RunCommand, RunRequest};
use secrecy::ExposeSecret;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::abort::{Abort, stopped};
use crate::child::{self, MARKER, Message, Order, Refusal};
use crate::files::{Files, Unpack};
use crate::live::Live;
use crate::sandbox::Confinement;
use crate::secret::{self, Secrets};
use crate::trouble;
use capture::{Kept, Taking};
use dirs::Places;
use folder::directory;
pub(crate) use folder::folder_missing;

pub use collect::FAILURE_TAIL_BYTES_MAX;
pub use orphans::adopt;
pub use pids::SWEEP_MS_MAX;
pub use program::ARGS_ENV_BYTES_MAX;

/// Between TERM and KILL of an aborted process, ms.
pub const GRACE_MS: u64 = 2_000;
/// How long the end of an aborted process is waited for after its grace, ms: then its supervisor is killed too.
pub const END_MS_MAX: u64 = 10_000;
/// How long output is waited for after the end of the last process that could write it, ms.
pub const DRAIN_MS_MAX: u64 = 2_000;
/// The field whose items, its lines, are given on as they are printed.
const STREAMED_FIELD: &str = "stdout";

/// What all processes have in common.
#[derive(Debug)]
pub(crate) struct Runner {
    /// Where directories, records and files are.
    pub(crate) root: PathBuf,
    /// Where a relative `cwd:` starts in runs that recorded no folder.
    pub(crate) folder: PathBuf,
    /// The binary that supervises.
    pub(crate) helper: PathBuf,
    /// What is handed on of the engine's environment.
    pub(crate) env: Vec<(String, String)>,
    /// Secrets.
    pub(crate) secrets: Secrets,
    /// Result files.
    pub(crate) files: Files,
    /// Between TERM and KILL, ms.
    pub(crate) grace_ms: u64,
    /// Keep directories of attempts that succeeded.
    pub(crate) keep: bool,
    /// This process inherits what killed supervisors leave.
    pub(crate) heir: bool,
    /// Directories that are in use.
    pub(crate) folders: Arc<dirs::Folders>,
    /// Makes tokens different.
    pub(crate) counter: AtomicU64,
}

/// A process that is about to be ordered.
struct Prepared {
    order: Order,
    /// Where result files are looked for.
    cwd: PathBuf,
    /// Gone when the process is.
    _scratch: dirs::Scratch,
}

/// What a process left.
struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
    stopped: bool,
    stdout: Kept,
    stderr: Kept,
}

/// How an order ended.
enum End {
    Refused(Refusal, String),
    Ended(Ended),
    /// The supervisor was lost.
    Lost {
        /// The program may have begun.
        begun: bool,
        /// When the supervisor was started, in the kernel's ticks.
        since: u64,
    },
}

impl Runner {
    /// Carries one attempt out.
    pub(crate) async fn carry_out(
        &self,
        job: &Job,
        request: &RunRequest,
        abort: &Abort,
        live: &Live,
    ) -> Outcome {
        let places = match tokio::task::block_in_place(|| self.folders.open(job)) {
            Ok(places) => places,
            Err(error) => {
                return Outcome::not_done(self.unprepared("the step's directory", &error));
            }
        };
        let outcome = self.attempt(job, request, abort, live, &places).await;
        tokio::task::block_in_place(|| {
            // What never began has only copies of files there.
            let needless = outcome.result.is_ok() || outcome.fate == Fate::NotDone;
            if !places.shared && !self.keep && needless {
                // Best effort: what stays is removed with the run.
                let _ = dirs::remove(&places.work);
            }
            places.leave();
        });
        outcome
    }

    /// One attempt in its places. When it returns, no process of it is left.
    async fn attempt(
        &self,
        job: &Job,
        request: &RunRequest,
        abort: &Abort,
        live: &Live,
        places: &Places,
    ) -> Outcome {
        let prepared = match tokio::task::block_in_place(|| self.prepare(job, request, places)) {
            Ok(prepared) => prepared,
            Err(failure) => return Outcome::not_done(failure),
        };
        if let Some(why) = abort.stopped() {
            return Outcome::not_done(stopped(why));
        }
        let taking = Taking {
            secrets: &self.secrets,
            live,
            bytes_max: request.limits.output_bytes,
            lines: takes_lines(job),
        };
        let end = match self.supervise(&prepared.order, taking, abort).await {
            Ok(end) => end,
            Err(error) => {
                let what = format!("the supervisor {} cannot be started", self.helper.display());
                return Outcome::not_done(trouble::unstarted(what, &error));
            }
        };
        match end {
            End::Refused(Refusal::Stopped, _) => lost(false, abort),
            End::Refused(why, text) => Outcome::not_done(refusal(why, text)),
            End::Lost { begun, since } => {
                // Its supervisor cannot do it any more.
                tokio::task::block_in_place(|| {
                    pids::end_record(&self.root, &job.run, &prepared.order.record);
                    if self.heir {
                        orphans::end(&job.run, since);
                    }
                });
                lost(begun, abort)
            }
            End::Ended(ended) => tokio::task::block_in_place(|| {
                collect::outcome(self, request, &prepared.cwd, ended, abort)
            }),
        }
    }

    fn unprepared(&self, what: &str, error: &std::io::Error) -> Failure {
        let what = format!("cannot prepare {what} below {}", self.root.display());
        trouble::failure(ErrorClass::Internal, what, error)
    }

    /// Where relative paths of a job start.
    pub(crate) fn folder_of<'a>(&'a self, job: &'a Job) -> &'a Path {
        job.folder.as_deref().map_or(&self.folder, Path::new)
    }

    fn prepare(
        &self,
        job: &Job,
        request: &RunRequest,
        places: &Places,
    ) -> Result<Prepared, Failure> {
        check(request)?;
        let failed = |what: &str, error: &std::io::Error| self.unprepared(what, error);
        let token = self.token(job);
        let own = places
            .work
            .canonicalize()
            .map_err(|e| failed("the step's directory", &e))?;
        let scratch = dirs::Scratch::new(&self.root, &token)
            .map_err(|e| failed("the step's directory", &e))?;
        let temporary = scratch.path().join("tmp");
        std::fs::create_dir_all(&temporary).map_err(|e| failed("the step's TMPDIR", &e))?;
        let cwd = match &request.cwd {
            Some(cwd) => directory(self.folder_of(job), cwd)?,
            None => own.clone(),
        };
        let mut unpack = Unpack::new(&self.files, &job.run, own.join("inputs"));
        let request = unpacked(request, &mut unpack)?;
        let args = request.args.as_ref().map(ravel_core::value::Val::json);
        let program = program::prepare(&request, args, scratch.path())
            .map_err(|e| failed("the program", &e))?;
        let env = self.environment(job, &request, &token, &temporary, program.env)?;
        let record = places
            .records
            .canonicalize()
            .map_err(|e| failed("the record of the process", &e))?;
        let confinement = confinement(&request, &program.words, &env, &own, &cwd, scratch.path());
        let order = Order {
            program: program.words,
            env,
            cwd: cwd.clone(),
            stdin: program.stdin,
            cpu_seconds: request.limits.cpu_seconds,
            memory_bytes: request.limits.memory_bytes,
            file_bytes: request.limits.file_bytes,
            confinement,
            record: record.join(format!("{token}.json")),
            token,
            grace_ms: self.grace_ms,
        };
        Ok(Prepared {
            order,
            cwd,
            _scratch: scratch,
        })
    }

    /// Unlike any other token of this machine's boot, so that processes can be recognised by it.
    fn token(&self, job: &Job) -> String {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let engine = child::proc::stat(std::process::id().cast_signed())
            .map_or(0, |stat| stat.identity.started);
        let parts = (&job.run, job.attempt, std::process::id(), engine, number);
        let text = serde_json::to_string(&parts).unwrap_or_else(|_| format!("{parts:?}"));
        dirs::token(&job.run, &text)
    }

    fn environment(
        &self,
        job: &Job,
        request: &RunRequest,
        token: &str,
        temporary: &Path,
        program: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, Failure> {
        let mut env = self.env.clone();
        let mut put = |key: &str, value: String| {
            env.retain(|(there, _)| there != key);
            env.push((key.to_owned(), value));
        };
        put("TMPDIR", temporary.display().to_string());
        if takes_lines(job).is_some() {
            // Lines come when they are printed, not when a buffer is full.
            put("PYTHONUNBUFFERED", "1".to_owned());
        }
        for (key, value) in &request.env {
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                let text = format!("`env` has an entry that no process can have: {key:?}");
                return Err(Failure::new(ErrorClass::InvalidInput, text));
            }
            put(key, self.secrets.resolve(value)?.expose_secret().to_owned());
        }
        put("RAVEL_KEY", job.key.to_string());
        put("RAVEL_RUN", job.run.to_string());
        put("RAVEL_STEP", job.path.to_string());
        put("RAVEL_ATTEMPT", job.attempt.number.to_string());
        put(MARKER, token.to_owned());
        for (key, value) in program {
            put(&key, value);
        }
        Ok(env)
    }

    /// Starts the supervisor and follows the program to its end.
    async fn supervise(
        &self,
        order: &Order,
        taking: Taking<'_>,
        abort: &Abort,
    ) -> std::io::Result<End> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut socket = UnixStream::from_std(ours)?;
        let mut command = Command::new(&self.helper);
        command
            .arg(child::SUPERVISE)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env_clear()
            // Out of the terminal's foreground group: Ctrl-C is for the engine, which stops its steps in order.
            .process_group(0);
        let (mut helper, noted) = orphans::spawn(command)?;
        let lost = |begun: bool| End::Lost {
            begun,
            since: noted.started,
        };
        let mut line = Vec::new();
        child::send(&mut line, order)?;
        if socket.write_all(&line).await.is_err() {
            let _ = helper.kill().await;
            return Ok(lost(false));
        }
        let (Some(out), Some(err)) = (helper.stdout.take(), helper.stderr.take()) else {
            let _ = helper.kill().await;
            return Ok(lost(false));
        };
        let no_lines = Taking {
            lines: None,
            ..taking
        };
        let reads =
            async { tokio::join!(capture::read(out, taking), capture::read(err, no_lines)) };
        tokio::pin!(reads);
        let follow = follow(
            socket,
            &mut helper,
            abort,
            Duration::from_millis(self.grace_ms + END_MS_MAX),
        );
        tokio::pin!(follow);
        let mut kept = None;
        let last = loop {
            tokio::select! {
                last = &mut follow => break last,
                both = &mut reads, if kept.is_none() => kept = Some(both),
            }
        };
        match last {
            Last::Said(Message::Ended {
                code,
                signal,
                stopped,
            }) => {
                // Every process that could write is gone, so this ends at once; the limit is for a broken kernel.
                let both = match kept {
                    Some(both) => Some(both),
                    None => timeout(Duration::from_millis(DRAIN_MS_MAX), reads)
                        .await
                        .ok(),
                };
                let Some((stdout, stderr)) = both else {
                    return Ok(lost(true));
                };
                Ok(End::Ended(Ended {
                    code,
                    signal,
                    stopped,
                    stdout,
                    stderr,
                }))
            }
            Last::Said(Message::Refused { why, text }) => Ok(End::Refused(why, text)),
            Last::Said(Message::Began) | Last::Silent => Ok(lost(true)),
        }
    }
}

/// The last word of a supervisor.
enum Last {
    Said(Message),
    /// It ended, or had to be ended, without one.
    Silent,
}

/// Listens to the supervisor until its last word; closes the connection on abort.
async fn follow(
    mut socket: UnixStream,
    helper: &mut Child,
    abort: &Abort,
    end_max: Duration,
) -> Last {
    let (read, mut write) = socket.split();
    let listen = listen(read);
    tokio::pin!(listen);
    let heard = tokio::select! {
        last = &mut listen => Some(last),
        _ = abort.wait() => None,
    };
    let last = match heard {
        Some(last) => last,
        None => {
            // Half closed: it reads the end, and its last word still comes through.
            let _ = write.shutdown().await;
            timeout(end_max, listen).await.unwrap_or_else(|_| {
                let _ = helper.start_kill();
                Last::Silent
            })
        }
    };
    let _ = helper.wait().await;
    last
}

async fn listen(from: impl tokio::io::AsyncRead + Unpin) -> Last {
    let mut lines = BufReader::new(from.take(child::ORDER_BYTES_MAX)).lines();
    let mut last = Last::Silent;
    let mut begun = false;
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(Message::Began) => begun = true,
            // It failed over a program that had begun: nobody knows what that did.
            Ok(Message::Refused { .. }) if begun => return Last::Silent,
            Ok(message @ (Message::Ended { .. } | Message::Refused { .. })) => {
                last = Last::Said(message)
            }
            Err(_) => break,
        }
    }
    last
}

/// The field whose lines somebody takes.
fn takes_lines(job: &Job) -> Option<&str> {
    let field = job.stream.as_deref();
    field.filter(|field| *field == STREAMED_FIELD)
}

/// What can be known to be wrong before anything is touched.
fn check(request: &RunRequest) -> Result<(), Failure> {
    let mut texts: Vec<(&str, &str)> = Vec::new();
    match &request.program {
        RunCommand::Shell(text) | RunCommand::Python(text) | RunCommand::Node(text) => {
            texts.push(("the program", text))
        }
        RunCommand::Command(words) => {
            texts.extend(words.iter().map(|word| ("the program", word.as_ref())))
        }
    }
    texts.extend(request.cwd.iter().map(|cwd| ("`cwd`", cwd.as_ref())));
    texts.extend(
        request
            .files
            .iter()
            .map(|(_, path)| ("`files`", path.as_ref())),
    );
    for (place, text) in &texts {
        if secret::has_mark(text) {
            return Err(secret::misplaced(place));
        }
        if text.contains('\0') {
            return Err(Failure::new(
                ErrorClass::InvalidInput,
                format!("{place} holds a zero byte"),
            ));
        }
    }
    if request
        .args
        .as_ref()
        .is_some_and(|args| secret::value_has_mark(args.json()))
    {
        return Err(secret::misplaced("`with`"));
    }
    if request.limits.memory_bytes < MEMORY_BYTES_MIN {
        let text = format!(
            "limits.memory is {} bytes, at least {MEMORY_BYTES_MIN} are needed",
            request.limits.memory_bytes
        );
        return Err(Failure::new(ErrorClass::InvalidInput, text));
    }
    Ok(())
}

/// The request with files turned into paths.
fn unpacked(request: &RunRequest, unpack: &mut Unpack<'_>) -> Result<RunRequest, Failure> {
    let mut request = request.clone();
    if let Some(args) = &request.args {
        request.args = Some(unpack.value(args.json())?.into());
    }
    match &mut request.program {
        RunCommand::Shell(text) => *text = unpack.text(text)?.into(),
        RunCommand::Command(words) => {
            for word in words {
                *word = unpack.text(word)?.into();
            }
        }
        // No value is printed into these: data reaches them by `args`.
        RunCommand::Python(_) | RunCommand::Node(_) => {}
    }
    for (_, value) in &mut request.env {
        *value = unpack.text(value)?.into();
    }
    Ok(request)
}

fn confinement(
    request: &RunRequest,
    words: &[String],
    env: &[(String, String)],
    own: &Path,
    cwd: &Path,
    scratch: &Path,
) -> Confinement {
    let var = |name: &str| {
        env.iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let home = var("HOME").map(PathBuf::from);
    let mut writable = vec![own.to_path_buf(), scratch.to_path_buf()];
    writable.extend((cwd != own).then(|| cwd.to_path_buf()));
    let name = words.first().map_or("", String::as_str);
    let readable = match request.sandbox {
        // A program may be installed in a hidden folder of the home.
        Sandbox::Workspace | Sandbox::Strict => {
            program::installation(name, var("PATH").unwrap_or_default(), home.as_deref())
        }
        Sandbox::None => Vec::new(),
    };
    Confinement {
        level: request.sandbox,
        home,
        writable,
        readable,
    }
}

fn refusal(why: Refusal, text: String) -> Failure {
    let class = match why {
        Refusal::NotFound => ErrorClass::NotFound,
        Refusal::Denied | Refusal::Sandbox => ErrorClass::PolicyDenied,
        Refusal::Invalid => ErrorClass::InvalidInput,
        Refusal::Unavailable | Refusal::Stopped => ErrorClass::Unavailable,
        Refusal::Internal => ErrorClass::Internal,
    };
    let failure = Failure::new(class, text);
    if why == Refusal::Sandbox {
        failure.with_code("sandbox_unsupported")
    } else {
        failure
    }
}

fn lost(begun: bool, abort: &Abort) -> Outcome {
    let failure = abort.stopped().map_or_else(
        || {
            Failure::new(
                ErrorClass::Crashed,
                "the supervisor of the process was lost",
            )
        },
        stopped,
    );
    if begun {
        Outcome::unknown(failure)
    } else {
        Outcome::not_done(failure)
    }
}
