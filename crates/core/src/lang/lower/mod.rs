//! Trees to a graph: names resolved to edges, defaults merged, fallbacks and gates written out as hidden steps.
//!
//! Lowering builds the structure and notes, for every expression, where it stands and what it reads ([`Site`]). What needs types or the
//! whole graph is checked afterwards by `lang::check`. A step that cannot be lowered leaves a gap in the graph and the others go on, so
//! that one report holds all problems.

mod body;
mod fallback;
mod fingerprint;
mod flow;
mod foreign;
mod frame;
mod hidden;
mod inner;
mod kind;
mod kinds;
mod model;
mod policy;
mod program;
mod read;
mod schemas;
mod scopes;
mod slips;
mod spelling;
mod step;
mod text;
mod triggers;
mod types;

use indexmap::IndexMap;

pub(crate) use fingerprint::fingerprint;
pub(crate) use flow::FlowState;
pub(crate) use foreign::foreign_fields;
pub(crate) use frame::{Bind, Found, Frame, FrameId, FrameKind, RESERVED};
pub(crate) use inner::inner_problem;
pub(crate) use step::no_leaf;
pub(crate) use text::{Site, SiteId, Want, at_pointer};
pub(crate) use types::{BASIC, NamedTypes};

use super::bundle::{Bundle, Origin};
use super::diagnostic::Problem;
use super::keys;
use super::source::Span;
use crate::graph::{Body, BodyId, DepKind, StepDef, StepId};
use crate::types::Type;

/// Problems that get a hint which is searched for. A report shows far fewer.
pub(crate) const HINTED_MAX: usize = 400;
/// Names that are compared for the hints of one check.
const COMPARED_NAMES_MAX: usize = 200_000;

/// A name that nothing has: the hint may be a field, which is known when the types are.
#[derive(Debug)]
pub(crate) struct Unknown {
    /// The index of its problem.
    pub(crate) problem: usize,
    pub(crate) cx: Cx,
    pub(crate) name: String,
}

/// What owns an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Step(StepId),
    Flow(usize),
}

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Among the steps of a body.
    Body { body: BodyId, position: u32 },
    /// Below a step, without siblings: a gate, a case, a fallback.
    Hidden { host: StepId },
}

/// A read of a step's value by an expression.
#[derive(Debug, Clone)]
pub(crate) struct ReadOf {
    pub(crate) target: StepId,
    pub(crate) guarded: bool,
    /// The conditions, as written, under which it is read.
    pub(crate) under: Vec<String>,
    /// Only its settling matters (`steps.NAME`).
    pub(crate) meta: bool,
    pub(crate) span: Span,
}

/// An edge with the place that made it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) on: u32,
    pub(crate) how: DepKind,
    pub(crate) span: Span,
}

/// What is known about a step besides its definition.
#[derive(Debug)]
pub(crate) struct StepInfo {
    pub(crate) name: String,
    pub(crate) name_span: Span,
    pub(crate) placed: Placed,
    pub(crate) flow: usize,
    /// What its own expressions see.
    pub(crate) frame: FrameId,
    pub(crate) kind: Option<&'static keys::Kind>,
    pub(crate) edges: Vec<Edge>,
    /// The streamed sibling of a `for_each`.
    pub(crate) stream: Option<Edge>,
    /// Unguarded and guarded reads by its own fields.
    pub(crate) reads: Vec<ReadOf>,
    /// Reads by its gates, handlers and output.
    pub(crate) late_reads: Vec<ReadOf>,
    /// Where its value is first read.
    pub(crate) read_at: Option<Span>,
    /// `returns` as written.
    pub(crate) declared: Option<Type>,
    /// The steps inside it.
    pub(crate) body: Option<BodyId>,
    /// The site that gives its value or items.
    pub(crate) main: Option<SiteId>,
    pub(crate) sites: Vec<SiteId>,
    pub(crate) hidden: Vec<StepId>,
    spans: Vec<(&'static str, Span)>,
    /// Keys that came from `defaults`.
    pub(crate) inherited: Vec<&'static str>,
    /// `retry` says how many tries there are.
    pub(crate) says_attempts: bool,
}

impl StepInfo {
    /// Where the value of one of its keys stands.
    pub(crate) fn span(&self, key: &str) -> Option<Span> {
        self.spans
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, span)| *span)
    }
}

/// What is known about a body besides its steps.
#[derive(Debug)]
pub(crate) struct BodyInfo {
    pub(crate) owner: Owner,
    pub(crate) frame: FrameId,
    pub(crate) output: Option<SiteId>,
    pub(crate) output_reads: Vec<ReadOf>,
}

/// Where an expression stands and what it may see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cx {
    pub(crate) flow: usize,
    pub(crate) owner: Owner,
    pub(crate) frame: FrameId,
    /// Read after the step has run (gates, output, handlers): orders, but does not count in the join.
    pub(crate) late: bool,
    /// `secrets` may be read here.
    pub(crate) secrets: bool,
    /// What this is the output of, if it is one.
    pub(crate) output_of: Option<OutputOf>,
}

/// What an output belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputOf {
    Body(BodyId),
    /// A handler without steps.
    Catch,
}

impl Cx {
    pub(crate) fn late(self) -> Self {
        Self { late: true, ..self }
    }

    pub(crate) fn within(self, frame: FrameId) -> Self {
        Self { frame, ..self }
    }

    pub(crate) fn with_secrets(self) -> Self {
        Self {
            secrets: true,
            ..self
        }
    }
}

/// The work of lowering one bundle.
pub(crate) struct Lower<'b> {
    pub(crate) bundle: &'b Bundle,
    pub(crate) origin: &'b Origin,
    pub(crate) problems: Vec<Problem>,
    pub(crate) flows: Vec<FlowState<'b>>,
    pub(crate) steps: Vec<Option<StepDef>>,
    pub(crate) info: Vec<StepInfo>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) body_info: Vec<BodyInfo>,
    /// Reads by outputs of handlers; true for those of steps within what has failed.
    pub(crate) catch_reads: Vec<(ReadOf, bool)>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) sites: Vec<Site>,
    pub(crate) flow_sites: IndexMap<usize, Vec<SiteId>>,
    pub(crate) unknown: Vec<Unknown>,
    /// How many names may still be compared.
    names_left: usize,
}

impl<'b> Lower<'b> {
    pub(crate) fn new(bundle: &'b Bundle, origin: &'b Origin) -> Self {
        Self {
            bundle,
            origin,
            problems: origin.problems.clone(),
            flows: Vec::new(),
            steps: Vec::new(),
            info: Vec::new(),
            bodies: Vec::new(),
            body_info: Vec::new(),
            catch_reads: Vec::new(),
            frames: Vec::new(),
            sites: Vec::new(),
            flow_sites: IndexMap::new(),
            unknown: Vec::new(),
            names_left: COMPARED_NAMES_MAX,
        }
    }

    pub(crate) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Whether there is a point in searching for hints.
    pub(crate) fn wants_hints(&self) -> bool {
        self.problems.len() < HINTED_MAX
    }

    /// The names in sight to search a hint among; `None` when enough was searched.
    pub(crate) fn names_for_hint(&mut self, frame: FrameId) -> Option<Vec<String>> {
        if !self.has_names_left() {
            return None;
        }
        let names = self.in_sight(frame);
        self.compared(names.len());
        Some(names)
    }

    /// Whether names may still be compared for a hint.
    pub(crate) fn has_names_left(&self) -> bool {
        self.wants_hints() && self.names_left > 0
    }

    /// Notes that names were compared.
    pub(crate) fn compared(&mut self, names: usize) {
        self.names_left = self.names_left.saturating_sub(names);
    }

    pub(crate) fn info(&self, step: StepId) -> &StepInfo {
        &self.info[step.0 as usize]
    }

    pub(crate) fn info_mut(&mut self, step: StepId) -> &mut StepInfo {
        &mut self.info[step.0 as usize]
    }

    pub(crate) fn def(&self, step: StepId) -> Option<&StepDef> {
        self.steps[step.0 as usize].as_ref()
    }

    /// The text of the file that a span is in.
    pub(crate) fn source(&self, span: Span) -> &'b str {
        &self.origin.sources.file(span.file).text
    }

    /// The main and every reachable flow, lowered.
    pub(crate) fn run(&mut self) {
        let root = self.bundle.root.clone();
        if self.document_flow(&root).is_none() {
            return;
        }
        let mut next = 0;
        while next < self.flows.len() {
            self.lower_flow(next);
            next += 1;
        }
    }
}
