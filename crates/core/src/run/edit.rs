//! Edits: going on under another graph.
//!
//! An edit replaces the graph of a run whole. Steps are the same when they stand at the same place (scope by scope, by
//! name). What has not been activated may change freely; an edit that would change, remove or outrun an activated step
//! is refused whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::{Activation, Phase, Role, Slot, State, Task};
use crate::event::{Node, Reject, Settled, Skip};
use crate::graph::{
    BodyId, DepKind, FlowDef, Gate, Graph, Join, Kind, OnUncertain, StepDef, StepId,
};

/// Children of a scope by name.
type Kids = Vec<(Arc<str>, Node)>;

/// Which step of the new graph an old one is.
struct Pairs<'g> {
    old: &'g Graph,
    new: &'g Graph,
    steps: BTreeMap<StepId, StepId>,
}

impl<'g> Pairs<'g> {
    fn of(old: &'g Graph, new: &'g Graph) -> Self {
        let mut pairs = Self {
            old,
            new,
            steps: BTreeMap::new(),
        };
        for (index, flow) in old.flows.iter().enumerate() {
            let Some(twin) = twin_of(old, index, new) else {
                continue;
            };
            pairs.body(flow.body, twin.body);
            pairs.optional_body(flow.finally, twin.finally);
            for (catch, other) in flow.catch.iter().zip(&twin.catch) {
                pairs.optional_body(catch.body, other.body);
            }
        }
        pairs
    }

    fn optional_body(&mut self, old: Option<BodyId>, new: Option<BodyId>) {
        if let (Some(old), Some(new)) = (old, new) {
            self.body(old, new);
        }
    }

    fn body(&mut self, old: BodyId, new: BodyId) {
        let (old, new) = (self.old.body(old), self.new.body(new));
        for (name, position) in &old.index {
            if let Some(twin) = new.index.get(name) {
                self.step(old.steps[*position as usize], new.steps[*twin as usize]);
            }
        }
    }

    fn step(&mut self, old: StepId, new: StepId) {
        if self.steps.insert(old, new).is_some() {
            return;
        }
        let (old, new) = (self.old.step(old), self.new.step(new));
        for (left, right) in hidden(old).into_iter().zip(hidden(new)) {
            if self.old.step(left).name == self.new.step(right).name {
                self.step(left, right);
            }
        }
        for (catch, other) in old.catch.iter().zip(&new.catch) {
            self.optional_body(catch.body, other.body);
        }
        self.optional_body(old.finally, new.finally);
        match (&old.kind, &new.kind) {
            (Kind::Steps(left), Kind::Steps(right)) | (Kind::Race(left), Kind::Race(right)) => {
                self.body(*left, *right)
            }
            (Kind::ForEach(left), Kind::ForEach(right)) => self.body(left.body, right.body),
            (Kind::Repeat(left), Kind::Repeat(right)) => self.body(left.body, right.body),
            _ => {}
        }
    }
}

/// The flow of the new graph that a flow of the old one is. The run's own flow stands apart from those that are called,
/// also when it is called, too; of called flows with one name, which come from several files, the first is the first.
fn twin_of<'g>(old: &Graph, index: usize, new: &'g Graph) -> Option<&'g FlowDef> {
    let (main, called) = new.flows.split_first()?;
    if index == 0 {
        return Some(main);
    }
    let name = &old.flows[index].name;
    let before = old.flows[1..index].iter();
    let nth = before.filter(|flow| flow.name == *name).count();
    called.iter().filter(|flow| flow.name == *name).nth(nth)
}

/// Hidden steps that hang on a step, in a fixed order.
fn hidden(step: &StepDef) -> Vec<StepId> {
    let gates = step.gates.iter().filter_map(|gate| match gate {
        Gate::Run(step) | Gate::Judge(step) => Some(*step),
        Gate::Expr(_) | Gate::Schema(_) => None,
    });
    let check = match step.leaf.on_uncertain {
        OnUncertain::Check(step) => Some(step),
        OnUncertain::Ask { .. } | OnUncertain::Retry | OnUncertain::Fail => None,
    };
    let cases: Vec<StepId> = match &step.kind {
        Kind::Switch(switch) => switch
            .cases
            .iter()
            .map(|(_, step)| *step)
            .chain(switch.otherwise)
            .collect(),
        _ => Vec::new(),
    };
    gates
        .chain(check)
        .chain(step.compensate)
        .chain(step.fallback.iter().copied())
        .chain(cases)
        .collect()
}

/// Refuses an edit that does not fit the run as it is.
pub(super) fn check(state: &State, base: u32, graph: &Arc<Graph>) -> Result<(), Reject> {
    if state.nodes.is_empty() || state.settled(0).is_some() {
        return Err(Reject {
            code: "already_settled",
            message: "the run is over".to_owned(),
        });
    }
    if base != state.version {
        let message = format!(
            "the run's graph is at version {}, the edit was made from version {base}",
            state.version
        );
        return Err(Reject {
            code: "edit_conflict",
            message,
        });
    }
    let pairs = Pairs::of(&state.graph, graph);
    for (node, activation) in state.nodes.iter().enumerate() {
        if activation.phase == Phase::Pending || matches!(activation.role, Role::Root(_)) {
            continue;
        }
        let old = state.graph.step(activation.step);
        let twin = pairs
            .steps
            .get(&activation.step)
            .map(|twin| graph.step(*twin));
        if twin.is_none_or(|twin| twin.fingerprint != old.fingerprint) {
            return Err(touched(
                state,
                node as Node,
                if twin.is_none() { "removes" } else { "changes" },
            ));
        }
    }
    for node in 0..state.nodes.len() as Node {
        if state.settled(node).is_some() && outruns(state, &pairs, node) {
            return Err(touched(state, node, "adds steps to"));
        }
    }
    Ok(())
}

/// True when a settled scope would get steps that it did not run.
fn outruns(state: &State, pairs: &Pairs<'_>, node: Node) -> bool {
    let Some(old) = state.body_of(node) else {
        return false;
    };
    let old = state.graph.body(old);
    let Some(first) = old.steps.first().and_then(|step| pairs.steps.get(step)) else {
        return false;
    };
    let new = pairs
        .new
        .bodies
        .iter()
        .find(|body| body.steps.contains(first));
    new.is_some_and(|new| new.steps.len() != old.steps.len())
}

fn touched(state: &State, node: Node, does: &str) -> Reject {
    let message = format!(
        "the edit {does} `{}`, which has been activated",
        state.path(node)
    );
    Reject {
        code: "edit_touches_activated",
        message,
    }
}

impl State {
    /// Goes on under another graph: part of folding `graph_edited`.
    pub(super) fn adopt(&mut self, graph: Arc<Graph>) {
        let pairs = Pairs::of(&self.graph, &graph).steps;
        let kids: Vec<(Node, Kids)> = (0..self.nodes.len() as Node)
            .filter(|node| self.node(*node).phase == Phase::Open)
            .filter_map(|owner| {
                let names = self.graph.body(self.body_of(owner)?).steps.iter();
                let names = names.map(|step| self.graph.step(*step).name.clone());
                Some((owner, names.zip(self.main_children(owner)).collect()))
            })
            .collect();
        self.graph = graph;
        for activation in &mut self.nodes {
            if let Some(twin) = pairs.get(&activation.step)
                && !matches!(activation.role, Role::Root(_))
            {
                activation.step = *twin;
            }
            if let Some(extra) = &mut activation.extra {
                extra.written = extra
                    .written
                    .and_then(|written| pairs.get(&written).copied());
            }
        }
        for (owner, kids) in kids {
            self.adopt_children(owner, &kids);
        }
    }

    /// The children of an open scope under the new body: kept by name, added as pending, removed where pending.
    fn adopt_children(&mut self, owner: Node, kids: &[(Arc<str>, Node)]) {
        let Some(body) = self.body_of(owner) else {
            return;
        };
        let graph = self.graph.clone();
        let body = graph.body(body);
        let again = self.again_of(owner);
        let mut children = Vec::with_capacity(body.steps.len());
        for (position, step) in body.steps.iter().enumerate() {
            let name = &graph.step(*step).name;
            let kept = kids
                .iter()
                .find(|(kid, _)| kid == name)
                .map(|(_, node)| *node);
            let child = kept.unwrap_or(self.nodes.len() as Node);
            if kept.is_none() {
                self.nodes.push(Activation {
                    again,
                    ..Activation::new(owner, Role::Step, Slot::Main, *step, position as u32)
                });
            }
            self.node_mut(child).position = position as u32;
            self.node_mut(child).step =
                if kept.is_some_and(|kept| self.node(kept).phase != Phase::Pending) {
                    self.node(child).step
                } else {
                    *step
                };
            self.keep_back(child);
            children.push(child);
        }
        for (_, removed) in kids.iter().filter(|(_, kid)| !children.contains(kid)) {
            let now = self.now;
            let activation = self.node_mut(*removed);
            activation.phase = Phase::Settled(Settled::Skipped);
            activation.ended = now;
            self.extra(*removed).skip = Some(Skip::ScopeEnded);
        }
        self.node_mut(owner).live = children
            .iter()
            .filter(|child| self.settled(**child).is_none())
            .count() as u32;
        self.extra(owner).listed_kids.clone_from(&children);
        for child in children {
            self.recount(owner, child);
        }
        self.agenda.push_back(Task::Conclude(owner));
    }

    /// What a pending child waits for under the new edges.
    fn recount(&mut self, owner: Node, child: Node) {
        if self.node(child).phase != Phase::Pending {
            return;
        }
        let graph = self.graph.clone();
        let step = graph.step(self.node(child).step);
        let settled = |state: &Self, on: u32| state.settled(state.kid(owner, on));
        let unmet = step
            .deps
            .iter()
            .filter(|dep| settled(self, dep.on).is_none())
            .count() as u32;
        let counted = step.deps.iter().filter(|dep| dep.how != DepKind::Weak);
        let joined = counted
            .filter(|dep| settled(self, dep.on) == Some(Settled::Succeeded))
            .count() as u32;
        self.node_mut(child).unmet = unmet;
        if matches!(step.join, Join::First(_)) {
            self.extra(child).joined = joined;
        }
        self.agenda.push_back(Task::Decide(child));
    }
}
