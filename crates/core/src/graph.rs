//! The graph: a checked flow, compiled for running.
//!
//! A [`Graph`] is an arena. Steps live in *bodies*: a body is the set of sibling steps of one scope, with the edges
//! between them resolved. Nothing here refers to a run. The language (`crate::lang`) is the only maker of graphs;
//! the run state machine (`crate::run`) is the main reader.

mod kind;

use std::sync::Arc;

use indexmap::IndexMap;

use crate::effect::{Effect, ErrorClass, Millis};
use crate::expr::{Expr, Template, ValueTemplate};
use crate::types::Type;

pub use kind::{
    Escalate, Fail, FlowCall, ForEach, Human, Items, Kind, Model, OnDeadline, OnMax, ProcessLimits,
    Program, Repeat, RunProgram, Sandbox, Switch, Text, Tolerate, Tool, Wait,
};

/// Index of a step definition in [`Graph::steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u32);

/// Index of a body in [`Graph::bodies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyId(pub u32);

/// Index of a flow in [`Graph::flows`]. Flow 0 is the one that a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// A checked flow with all its sub-flows, compiled.
#[derive(Debug)]
pub struct Graph {
    /// BLAKE3 of the canonical JSON of the bundle it was compiled from, in hex: the graph's identity.
    pub hash: Arc<str>,
    /// The flows: the main one first, then every flow that is reachable from it.
    pub flows: Vec<FlowDef>,
    /// All steps of all flows, hidden ones (gates, handlers, fallbacks, checks, compensations) included.
    pub steps: Vec<StepDef>,
    /// All bodies.
    pub bodies: Vec<Body>,
}

impl Graph {
    /// The step with this id.
    #[must_use]
    pub fn step(&self, id: StepId) -> &StepDef {
        &self.steps[id.0 as usize]
    }

    /// The body with this id.
    #[must_use]
    pub fn body(&self, id: BodyId) -> &Body {
        &self.bodies[id.0 as usize]
    }

    /// The flow with this id.
    #[must_use]
    pub fn flow(&self, id: FlowId) -> &FlowDef {
        &self.flows[id.0 as usize]
    }

    /// The flow that a run of this graph executes.
    #[must_use]
    pub fn main(&self) -> &FlowDef {
        &self.flows[0]
    }
}

/// One flow.
#[derive(Debug)]
pub struct FlowDef {
    /// `name:`, or the file's stem.
    pub name: Arc<str>,
    /// The type of the input: an object type, defaults included.
    pub input: Type,
    /// `returns:`: the output's contract.
    pub returns: Option<Type>,
    /// `budget:` of the flow.
    pub budget: Option<Budget>,
    /// `deadline:` of the flow, ms after its start.
    pub deadline: Option<Millis>,
    /// `signals:`: the typed inboxes.
    pub signals: IndexMap<Arc<str>, Type>,
    /// The steps, with the flow's `output`.
    pub body: BodyId,
    /// `catch:` of the flow.
    pub catch: Vec<Catch>,
    /// `finally:` of the flow.
    pub finally: Option<BodyId>,
    /// Of a flow that others call: the scope around its steps that has its `catch`, `finally` and `deadline`.
    pub scope: Option<StepId>,
    /// `triggers:`, kept as written (with types checked) for the server.
    pub triggers: Option<serde_json::Value>,
}

/// Sibling steps and the edges between them.
#[derive(Debug, Default)]
pub struct Body {
    /// The steps in the order of the file.
    pub steps: Vec<StepId>,
    /// Position in `steps` by name.
    pub index: IndexMap<Arc<str>, u32>,
    /// For each position: the positions of the siblings that have a [`Dep`] on it, each once.
    pub dependents: Vec<Vec<u32>>,
    /// Written as a list: runs in order (edges are already in `deps`) and shares one workspace directory.
    pub list: bool,
    /// `output:`: the body's value. `None` with one step: that step's value; with more: null (the checker has
    /// made sure that nobody reads it).
    pub output: Option<ValueTemplate>,
}

/// An edge from a step to a sibling that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dep {
    /// Position of the sibling in the body.
    pub on: u32,
    /// What the edge means for the join.
    pub how: DepKind,
}

/// What an edge means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DepKind {
    /// Only its settling matters: something *inside* this scope reads it (it is judged there), or `steps.NAME` is
    /// read, or it is read by this step's `output`/`catch`/`finally`/`gates` alone.
    Weak,
    /// Order only (`after:`, position in a list): counts in the join.
    After,
    /// Its value is read: counts in the join.
    Value,
}

/// A step as written, defaults merged.
#[derive(Debug)]
pub struct StepDef {
    /// Its own id.
    pub id: StepId,
    /// Its name; for hidden steps a path segment (`gate[0]`, `check`, `compensate`, `case[billing]`).
    pub name: Arc<str>,
    /// Where it stands in the files.
    pub at: Place,
    /// Hash of the step as resolved: its own keys with defaults merged (`output`, gates, fallbacks, handlers included),
    /// without the steps inside it. Equal in two graphs = the step does the same there.
    pub fingerprint: u64,
    /// What it does.
    pub kind: Kind,
    /// What it waits for among its siblings, each sibling once with the strongest kind.
    pub deps: Vec<Dep>,
    /// Names of steps of enclosing bodies that this step itself reads (they are settled when its scope opens, and
    /// are judged by this step's join exactly like a sibling it reads).
    pub outer: Vec<Arc<str>>,
    /// `when:`.
    pub when: Option<Expr>,
    /// `join:`.
    pub join: Join,
    /// `cancel_rest: true` with `any`/`first`.
    pub cancel_rest: bool,
    /// `returns:`: the value's contract.
    pub returns: Option<Type>,
    /// `gates:` in order.
    pub gates: Vec<Gate>,
    /// `repair:` how many times a failed gate or contract leads to another try. 0 = never.
    pub repair: u32,
    /// `fallback:` in order: each a whole step (same name, gates and returns).
    pub fallback: Vec<StepId>,
    /// `catch:` in order.
    pub catch: Vec<Catch>,
    /// `finally:` of a scope.
    pub finally: Option<BodyId>,
    /// `deadline:` ms after the step became ready, all tries included.
    pub deadline: Option<Millis>,
    /// `budget:`.
    pub budget: Option<Budget>,
    /// `priority:`, higher first. Default 0.
    pub priority: i32,
    /// `labels:`.
    pub labels: Vec<Arc<str>>,
    /// `compensate:` a hidden leaf; in it `output` is this step's value.
    pub compensate: Option<StepId>,
    /// What only leaves have; defaults for scopes.
    pub leaf: Leaf,
}

/// A place in the user's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it.
    pub file: Arc<str>,
    /// 1-based line; 0 when the graph was made from a stored bundle.
    pub line: u32,
    /// 1-based column in characters.
    pub column: u32,
}

/// The policies of a leaf.
#[derive(Debug)]
pub struct Leaf {
    /// `retry:`.
    pub retry: Retry,
    /// `timeout:` of one attempt, ms. Always set (default per kind).
    pub timeout: Millis,
    /// `effect:`, or the default of the kind and tool.
    pub effect: Effect,
    /// `on_uncertain:`.
    pub on_uncertain: OnUncertain,
    /// `key:` an idempotency key of the user's own.
    pub key: Option<Template>,
    /// `cache:` results of `pure`/`read` leaves are kept this long (ms).
    pub cache: Option<Millis>,
    /// `concurrency:` limits over all runs.
    pub concurrency: Vec<Concurrency>,
    /// `worker:` where it must run.
    pub worker: Option<Arc<str>>,
}

/// `retry:`.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// All tries, the first included. At least 1.
    pub attempts: u32,
    /// First pause, ms; doubles up to `backoff_max`.
    pub backoff_min: Millis,
    /// Longest pause, ms.
    pub backoff_max: Millis,
    /// Which classes are tried again. `None`: the transient ones.
    pub errors: Option<Vec<ErrorClass>>,
}

/// `on_uncertain:` what to do when a `once` may or may not have happened.
#[derive(Clone, Debug)]
pub enum OnUncertain {
    /// Ask a person (the default). With a deadline (ms), the step fails with `uncertain` when nobody answered.
    Ask {
        /// ms after the question.
        deadline: Option<Millis>,
    },
    /// Try again, knowingly giving up at-most-once.
    Retry,
    /// Fail with `uncertain`.
    Fail,
    /// Ask the world: a read leaf with the value `{happened: boolean, output?}`; `args` = the step's request input.
    Check(StepId),
}

/// `concurrency: {key, max}`.
#[derive(Debug)]
pub struct Concurrency {
    /// Rendered when the attempt is due.
    pub key: Template,
    /// Most attempts under that key at once, over all runs of the process.
    pub max: u32,
}

/// `budget:`. Absent = unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Micro-dollars.
    pub microusd: Option<u64>,
    /// Tokens, all classes.
    pub tokens: Option<u64>,
    /// Active time in ms: people, waits and downtime not counted.
    pub time: Option<Millis>,
}

/// `join:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Runs unless one failed.
    All,
    /// Runs at the k-th success; `any` is `First(1)`.
    First(u32),
    /// Runs in any case.
    Settled,
    /// Runs if one failed.
    Failed,
}

/// A verification of a value before it counts.
#[derive(Debug)]
pub enum Gate {
    /// `expr:` must be true; sees `output`.
    Expr(Expr),
    /// `schema:` a further type.
    Schema(Type),
    /// `run:` a hidden run leaf that must exit with 0; sees `output`.
    Run(StepId),
    /// `judge:` a hidden model leaf that returns `{pass: boolean, reason: string, score: number|null}`; sees `output`.
    Judge(StepId),
}

/// One entry of `catch:`.
#[derive(Clone, Debug)]
pub struct Catch {
    /// `errors:`. `None`: every class but `cancelled`.
    pub errors: Option<Vec<ErrorClass>>,
    /// `steps:` of the handler; its `output` is the value. Sees `error` and the scope's finished steps.
    pub body: Option<BodyId>,
    /// `output:` without steps.
    pub output: Option<Arc<ValueTemplate>>,
}
