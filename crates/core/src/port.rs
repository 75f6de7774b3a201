//! Ports: what the engine needs from the outside, as traits and plain data. Implemented by `ravel-store` (stores)
//! and `ravel-io` (executors); used by `ravel-engine`; wired in `ravel`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::effect::{Effect, Millis, Outcome};
use crate::event::{Attempt, Stop};
use crate::graph::{ProcessLimits, Sandbox};
use crate::value::Val;

/// Marks a secret's place in a request: `SECRET_OPEN name SECRET_CLOSE`. Executors put the secret in at the last
/// moment; requests, logs and errors only ever hold the mark.
pub const SECRET_OPEN: char = '\u{F0F0}';
/// Ends a secret's mark.
pub const SECRET_CLOSE: char = '\u{F0F1}';

/// The same value with marks made harmless: what comes from outside must not name a secret.
#[must_use]
pub fn without_marks(value: Val) -> Val {
    if has_mark(value.json()) {
        Val::new(unmarked(value.into_json()))
    } else {
        value
    }
}

fn is_mark(c: char) -> bool {
    c == SECRET_OPEN || c == SECRET_CLOSE
}

fn has_mark(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(is_mark),
        Value::Array(items) => items.iter().any(has_mark),
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key.contains(is_mark) || has_mark(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn unmarked(value: Value) -> Value {
    let clean = |text: String| text.replace(is_mark, "\u{FFFD}");
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(items) => items.into_iter().map(unmarked).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (clean(key), unmarked(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// One attempt, ready to be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The run.
    pub run: Arc<str>,
    /// Path of the step.
    pub path: Arc<str>,
    /// Which attempt.
    pub attempt: Attempt,
    /// Idempotency key: the same for all attempts of an activation's round.
    pub key: Arc<str>,
    /// The class it leaves under.
    pub effect: Effect,
    /// When the engine will stop it (epoch ms): for the executor's own hints (HTTP timeouts); the engine aborts.
    pub until: Millis,
    /// A directory shared by the steps of a list: the path of the list's scope. `None`: a fresh one per attempt.
    pub workspace: Option<Arc<str>>,
    /// Field of the value whose items a sibling takes as they come.
    pub stream: Option<Arc<str>>,
    /// Keep and reuse results for this long (ms).
    pub cache: Option<Millis>,
    /// The absolute folder that relative paths start at. `None`: that of the executor.
    pub folder: Option<Arc<str>>,
    /// What to do.
    pub request: Request,
}

/// What an executor does. Rendered: no expression is left in it, only marks of secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Request {
    /// A model call.
    Model(ModelRequest),
    /// A tool call.
    Tool {
        /// The tool's name.
        name: Arc<str>,
        /// Its arguments.
        input: Val,
    },
    /// A process.
    Run(RunRequest),
}

/// A model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Alias or `provider/model`.
    pub model: Arc<str>,
    /// The conversation: `{role, content}` with content a string or a list of parts (`{type: text|image, …}`).
    pub messages: Vec<Val>,
    /// The contract of the answer as JSON Schema. `None`: free text; the value is `{text}`.
    pub schema: Option<Val>,
    /// Most output tokens.
    pub max_tokens: u32,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Sampling seed.
    pub seed: Option<u64>,
    /// Stop strings.
    pub stop: Vec<Arc<str>>,
    /// Where tokens are streamed to.
    pub emit: Option<Arc<str>>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// What is started.
    pub program: RunCommand,
    /// `with:` as JSON.
    pub args: Option<Val>,
    /// Added to the environment; may hold marks of secrets.
    pub env: Vec<(Arc<str>, Arc<str>)>,
    /// Directory instead of the attempt's own.
    pub cwd: Option<Arc<str>>,
    /// Exit codes that are data.
    pub ok: Vec<i32>,
    /// Result files: name → path relative to the directory.
    pub files: Vec<(Arc<str>, Arc<str>)>,
    /// True when `returns` is given: stdout must be JSON, and becomes `json`.
    pub json: bool,
    /// Confinement.
    pub sandbox: Sandbox,
    /// Limits.
    pub limits: ProcessLimits,
}

/// What a process runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCommand {
    /// Text for `sh -c` (already quoted).
    Shell(Arc<str>),
    /// Python source; `args` is bound to the `with` value.
    Python(Arc<str>),
    /// Node source; `args` is bound to the `with` value.
    Node(Arc<str>),
    /// A program and its arguments.
    Command(Vec<Arc<str>>),
}

/// Carries out attempts. Implementations are cheap to call from the engine's thread: `start` hands the job to a task
/// of its own and returns, or finishes at once.
///
/// Each started attempt ends in exactly one [`Report::finished`], also after [`Executor::abort`]: an aborted attempt
/// is stopped (process group killed, connection closed) and reports what is known (`Unknown` unless certain).
/// The engine enforces timeouts through `abort`. Never repeats an effect by itself.
pub trait Executor: Send + Sync {
    /// Carries out one attempt.
    fn start(&self, job: Job, report: Arc<dyn Report>);
    /// Stops an attempt of a run. Unknown attempts are ignored.
    fn abort(&self, run: &str, attempt: Attempt, why: Stop);
    /// Before anything of a recovered run is issued again: end what earlier attempts left behind (process groups).
    fn sweep(&self, run: &str);
    /// The run succeeded, durably: what its steps shared is not needed any more. Must not block.
    fn tidy(&self, _run: &Arc<str>) {}
}

/// Where an executor reports to. Calls may come from any thread, in order per attempt.
pub trait Report: Send + Sync {
    /// Live text for people: provisional, never recorded.
    fn text(&self, run: &str, attempt: Attempt, text: &str);
    /// Items of the streamed field.
    fn items(&self, run: &str, attempt: Attempt, field: &str, items: Vec<Val>);
    /// The end.
    fn finished(&self, run: &str, attempt: Attempt, outcome: Outcome);
}

/// Whether a run is live or over, as the store lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are the glossary's")]
pub enum RunState {
    Running,
    Waiting,
    Cancelling,
    Compensating,
    Succeeded,
    Failed,
    Cancelled,
}

impl RunState {
    /// All of them, in the order of a run's life.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Waiting,
        Self::Cancelling,
        Self::Compensating,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The state with this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == word)
    }

    /// The word that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Cancelling => "cancelling",
            Self::Compensating => "compensating",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// True for the three final states.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// What the store lists about a run without folding its log. Written with the turns that change it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The run's id.
    pub run: Arc<str>,
    /// The flow's name.
    pub flow: Arc<str>,
    /// Hash of its present graph.
    pub graph: Arc<str>,
    /// Its state.
    pub state: RunState,
    /// When it was started, epoch ms.
    pub created: Millis,
    /// Time of its last turn, epoch ms.
    pub updated: Millis,
    /// When it has to be woken.
    pub wake_at: Option<Millis>,
    /// Micro-dollars and tokens used.
    pub usage: crate::effect::Usage,
    /// Output of a success.
    pub output: Option<Val>,
    /// Error of a failure.
    pub error: Option<crate::effect::Failure>,
    /// A start key: a second start under it gives this run.
    pub start_key: Option<Arc<str>>,
    /// The run it was forked from and the last turn taken over.
    pub forked_from: Option<(Arc<str>, u64)>,
    /// What it waits for (`Run::waits_on` at the last turn), for `runs why` of a run that nobody owns.
    pub waits: Vec<Val>,
    /// Effects that stand although the run ended badly: paths.
    pub uncompensated: Vec<Arc<str>>,
}

/// An open question, as the store lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Its id.
    pub id: Arc<str>,
    /// The run.
    pub run: Arc<str>,
    /// Path of the step.
    pub path: Arc<str>,
    /// What it is about.
    pub topic: crate::event::Topic,
    /// The text.
    pub ask: Arc<str>,
    /// The answer's type as JSON Schema.
    pub form: Val,
    /// Who should answer.
    pub to: Option<Arc<str>>,
    /// When it was asked, epoch ms.
    pub asked: Millis,
    /// When it ends without an answer.
    pub until: Option<Millis>,
}
