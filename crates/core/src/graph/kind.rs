//! What steps do: the kinds, each with what it needs.

use std::sync::Arc;

use indexmap::IndexMap;

use super::{BodyId, FlowId, StepId};
use crate::effect::{ErrorClass, Millis};
use crate::expr::{Expr, Template, ValueTemplate};
use crate::types::Type;

/// What a step does.
#[derive(Debug)]
#[expect(missing_docs, reason = "each variant is documented by its spec")]
pub enum Kind {
    Model(Box<Model>),
    Tool(Tool),
    Run(Box<RunProgram>),
    Human(Box<Human>),
    Wait(Wait),
    /// `set:` a value.
    Set(ValueTemplate),
    /// `return:` settles the flow with this value and cancels the rest.
    Return(ValueTemplate),
    Fail(Fail),
    /// `steps:` a group.
    Steps(BodyId),
    ForEach(Box<ForEach>),
    Repeat(Box<Repeat>),
    Switch(Box<Switch>),
    /// `race:` children that have no edges between them; value `{winner, value}`.
    Race(BodyId),
    Flow(FlowCall),
}

impl Kind {
    /// The key that users write.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Model(_) => "model",
            Self::Tool(_) => "tool",
            Self::Run(_) => "run",
            Self::Human(_) => "human",
            Self::Wait(_) => "wait",
            Self::Set(_) => "set",
            Self::Return(_) => "return",
            Self::Fail(_) => "fail",
            Self::Steps(_) => "steps",
            Self::ForEach(_) => "for_each",
            Self::Repeat(_) => "repeat",
            Self::Switch(_) => "switch",
            Self::Race(_) => "race",
            Self::Flow(_) => "flow",
        }
    }

    /// True for leaves: one effect, no children of their own.
    #[must_use]
    pub const fn is_leaf(&self) -> bool {
        match self {
            Self::Model(_)
            | Self::Tool(_)
            | Self::Run(_)
            | Self::Human(_)
            | Self::Wait(_)
            | Self::Set(_)
            | Self::Return(_)
            | Self::Fail(_) => true,
            Self::Steps(_)
            | Self::ForEach(_)
            | Self::Repeat(_)
            | Self::Switch(_)
            | Self::Race(_)
            | Self::Flow(_) => false,
        }
    }
}

/// Text: inline, or `{file, with}` whose template sees only `with`.
#[derive(Debug)]
pub struct Text {
    /// The template.
    pub template: Template,
    /// Bindings of a `{file, with}` text. `None`: the step's own scope.
    pub with: Option<IndexMap<Arc<str>, ValueTemplate>>,
    /// The file it came from.
    pub file: Option<Arc<str>>,
}

/// `model:` one model call.
#[derive(Debug)]
pub struct Model {
    /// Alias, `provider/model` or route.
    pub name: Arc<str>,
    /// `system:`.
    pub system: Option<Text>,
    /// `prompt:` the user's message.
    pub prompt: Option<Text>,
    /// `messages:` a list of `{role, content}`.
    pub messages: Option<ValueTemplate>,
    /// `images:` files or URLs.
    pub images: Option<ValueTemplate>,
    /// `examples:` a list of `{input, output}` shown before the prompt.
    pub examples: Option<ValueTemplate>,
    /// Most output tokens. Always set: the engine's default when absent.
    pub max_tokens: u32,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Sampling seed.
    pub seed: Option<u64>,
    /// Stop strings.
    pub stop: Vec<Arc<str>>,
    /// `emit:` the channel that its tokens are streamed to.
    pub emit: Option<Arc<str>>,
    /// `early: true`: stream before the gates passed.
    pub early: bool,
}

/// `tool:` one call of a named tool.
#[derive(Debug)]
pub struct Tool {
    /// `http.get`, `crm.refund`.
    pub name: Arc<str>,
    /// `with:` the arguments.
    pub with: ValueTemplate,
}

/// `run:` a process.
#[derive(Debug)]
pub struct RunProgram {
    /// What is run.
    pub program: Program,
    /// `with:` given to the program as JSON (`args` in Python and Node, `RAVEL_ARGS` and stdin elsewhere).
    pub with: Option<ValueTemplate>,
    /// `env:` added to the allow-listed environment. May read `secrets`.
    pub env: IndexMap<Arc<str>, ValueTemplate>,
    /// `cwd:` instead of the attempt's own fresh directory.
    pub cwd: Option<Template>,
    /// `ok:` exit codes that are data. Default `[0]`.
    pub ok: Vec<i32>,
    /// `files:` name → path, taken as results when the step settles.
    pub files: IndexMap<Arc<str>, Template>,
    /// `sandbox:`.
    pub sandbox: Sandbox,
    /// `limits:`.
    pub limits: ProcessLimits,
}

/// What `run` starts.
#[derive(Debug)]
pub enum Program {
    /// Shell text, every `{{ }}` quoted.
    Shell(Text),
    /// Source written in the flow (no `{{ }}` in it), or a file.
    Python(Arc<str>),
    /// The same for Node.
    Node(Arc<str>),
    /// `{python: {code: …}}`: source that is data.
    PythonCode(ValueTemplate),
    /// `{node: {code: …}}`.
    NodeCode(ValueTemplate),
    /// `program: [name, arg, …]`, no shell.
    Command(ValueTemplate),
}

/// `sandbox:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// The user's own script: no confinement beyond limits and its own directory.
    None,
    /// Writes only in its workspace; no network.
    Workspace,
    /// Reads only its workspace and system libraries; no network; few system calls.
    Strict,
}

/// Limits of a process. Each has a default (see `ravel limits`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessLimits {
    /// CPU seconds.
    pub cpu_seconds: u64,
    /// Address space, bytes.
    pub memory_bytes: u64,
    /// Most bytes of stdout, beyond which the step fails, and most that are kept of stderr.
    pub output_bytes: u64,
    /// Largest file it may write, bytes.
    pub file_bytes: u64,
}

/// `human:` a question to a person.
#[derive(Debug)]
pub struct Human {
    /// `ask:`.
    pub ask: Text,
    /// `form:` the answer's type.
    pub form: Type,
    /// `to:` who should answer (shown, not enforced here).
    pub to: Option<Template>,
    /// `deadline:` ms after it was asked.
    pub deadline: Option<Millis>,
    /// `on_deadline:`.
    pub on_deadline: OnDeadline,
    /// `escalate:` who is asked next, in order, when a deadline passes.
    pub escalate: Vec<Escalate>,
}

/// What happens when nobody answered in time.
#[derive(Debug)]
pub enum OnDeadline {
    /// The step fails with `deadline`.
    Fail,
    /// The step succeeds with this answer, held to the form.
    Answer(ValueTemplate),
}

/// One rung of `escalate:`.
#[derive(Debug)]
pub struct Escalate {
    /// Another text; `None`: the same question.
    pub ask: Option<Text>,
    /// Who is asked.
    pub to: Option<Template>,
    /// ms after the escalation.
    pub deadline: Option<Millis>,
}

/// `wait:`.
#[derive(Debug)]
pub enum Wait {
    /// For a span: a duration string or a number of seconds.
    For(ValueTemplate),
    /// Until a time: RFC 3339 text, or seconds since the epoch.
    Until(ValueTemplate),
    /// For a message in a typed inbox; its value is the message.
    Signal {
        /// Name in `signals:`.
        name: Arc<str>,
        /// ms after the wait began.
        deadline: Option<Millis>,
        /// What then.
        on_deadline: OnDeadline,
    },
}

/// `fail: {code, message}`.
#[derive(Debug)]
pub struct Fail {
    /// The class; default `tool_error`.
    pub class: ErrorClass,
    /// A free code.
    pub code: Option<Template>,
    /// One sentence.
    pub message: Template,
}

/// `for_each:`.
#[derive(Debug)]
pub struct ForEach {
    /// What is iterated.
    pub items: Items,
    /// `as:` the item's name. Default `item`.
    pub bind: Arc<str>,
    /// `parallel:` most items at once. `None`: the engine's limit.
    pub parallel: Option<u32>,
    /// `item_key:` a stable name per item instead of its index.
    pub item_key: Option<Expr>,
    /// `tolerate:` how many failed items are absorbed.
    pub tolerate: Tolerate,
    /// The item's steps.
    pub body: BodyId,
}

/// What `for_each` iterates.
#[derive(Debug)]
pub enum Items {
    /// A list, or a map (items are `{key, value}`).
    List(Expr),
    /// `{stream: step.field}`: items as the sibling produces them.
    Stream {
        /// Position of the producing sibling in the body.
        producer: u32,
        /// The field of its value: a list, or text, whose items are its lines.
        field: Arc<str>,
        /// True when items are taken while the producer is still at work: nothing else in the step waits for it.
        ahead: bool,
    },
}

/// `tolerate:`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerate {
    /// At most this many items. 0 = none.
    Count(u32),
    /// At most this share of the items, in percent.
    Percent(f64),
}

/// `repeat:`.
#[derive(Debug)]
pub struct Repeat {
    /// `carry:` the first value.
    pub carry: Option<ValueTemplate>,
    /// `until:` sees the round's steps, `output` and the old `carry`. `None`: runs `max` rounds.
    pub until: Option<Expr>,
    /// Most rounds.
    pub max: u32,
    /// After the last round without `until`: fail with `exhausted`, or return the last output.
    pub on_max: OnMax,
    /// The round's steps; its `output` is the next `carry`.
    pub body: BodyId,
}

/// `on_max:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMax {
    /// Fail with `exhausted`.
    Fail,
    /// Succeed with the last output.
    Return,
}

/// `switch:`.
#[derive(Debug)]
pub struct Switch {
    /// The value that is compared.
    pub on: Expr,
    /// Case value → hidden step (named `case[VALUE]`).
    pub cases: Vec<(serde_json::Value, StepId)>,
    /// `else:`. Without it an unmatched value fails with `invalid_input`.
    pub otherwise: Option<StepId>,
}

/// `flow:` a call of another flow.
#[derive(Debug)]
pub struct FlowCall {
    /// The callee.
    pub flow: FlowId,
    /// Its input.
    pub with: ValueTemplate,
    /// Deepest nesting of this call.
    pub max_depth: u32,
}
