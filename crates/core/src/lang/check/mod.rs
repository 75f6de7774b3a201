//! The checks that need the whole graph, and the graph that passes them.

mod called;
mod common;
mod cut;
mod edges;
mod effects;
mod joins;
mod names;
mod priced;
mod retry;
mod rules;
mod shapes;
mod skips;
mod types;
mod unused;
mod wants;
mod workspace;

use super::bundle::{Bundle, Origin, report};
use super::diagnostic::{Diagnostic, Severity};
use super::lower::{Lower, fingerprint};
use crate::graph::{FlowDef, Graph};

/// A bundle, checked.
#[derive(Debug)]
pub struct Checked {
    /// The graph, unless there are errors.
    pub graph: Option<Graph>,
    /// Errors and warnings, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// Whether the flow can run.
    pub fn is_ok(&self) -> bool {
        self.graph.is_some()
    }
}

/// Lowers and checks.
pub(crate) fn check(bundle: &Bundle, origin: &Origin) -> Checked {
    let mut lower = Lower::new(bundle, origin);
    lower.run();
    let orders = edges::build(&mut lower);
    types::check(&mut lower, &orders);
    skips::check(&mut lower, &orders);
    joins::check(&mut lower);
    workspace::check(&mut lower, &orders);
    effects::check(&mut lower);
    retry::check(&mut lower);
    cut::check(&mut lower);
    priced::check(&mut lower);
    unused::check(&mut lower);
    let problems = std::mem::take(&mut lower.problems);
    let diagnostics = report(problems, &origin.sources);
    // A stored bundle passed the check of its time: a rule of today stops no run that has begun.
    let failed = bundle.has_places()
        && diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error);
    let graph = if failed { None } else { finish(lower, bundle) };
    Checked { graph, diagnostics }
}

/// The graph of what was lowered. Every gap comes with an error, so there is none here.
fn finish(lower: Lower<'_>, bundle: &Bundle) -> Option<Graph> {
    let steps: Option<Vec<_>> = lower.steps.into_iter().collect();
    let mut flows = Vec::new();
    let mut marks = Vec::new();
    for flow in lower.flows {
        marks.push(fingerprint(&called::scope_keys(flow.map)));
        flows.push(FlowDef {
            name: flow.name,
            input: flow.input,
            returns: flow.returns,
            budget: flow.budget,
            deadline: flow.deadline,
            signals: flow.signals,
            body: flow.body?,
            catch: flow.catch,
            finally: flow.finally,
            scope: None,
            triggers: flow.map.get("triggers").map(|entry| entry.node.to_json()),
        });
    }
    let mut graph = Graph {
        hash: bundle.hash().into(),
        flows,
        steps: steps?,
        bodies: lower.bodies,
    };
    called::wrap(&mut graph, &marks);
    Some(graph)
}
