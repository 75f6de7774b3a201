//! `catch`, `finally` and `deadline` of a flow that others call: they become those of one scope around its steps.
//!
//! The run's own flow has them at its root. A call is one step with policies of its own; what the callee says about
//! itself comes first, so its steps move into a scope `flow` inside the call: `call/flow/step`.

use std::sync::Arc;

use crate::graph::{Body, BodyId, FlowDef, FlowId, Graph, Join, Kind, Place, StepDef, StepId};
use crate::lang::lower::no_leaf;
use crate::lang::tree::Map;

/// The name of the scope.
const SCOPE: &str = "flow";

/// Moves the policies of called flows into scopes. `marks` has a fingerprint for each flow.
pub(super) fn wrap(graph: &mut Graph, marks: &[u64]) {
    for (index, mark) in marks.iter().enumerate() {
        if !has_policies(&graph.flows[index]) {
            continue;
        }
        let id = FlowId(index as u32);
        if index > 0 {
            let (body, scope) = scope(graph, index, *mark);
            graph.flows[index].body = body;
            graph.flows[index].scope = Some(scope);
        } else if calls(graph, id) {
            // The run's own flow calls itself: those calls get a twin with a scope.
            let (body, scope) = scope(graph, index, *mark);
            let twin = FlowId(graph.flows.len() as u32);
            let main = &graph.flows[index];
            let callee = FlowDef {
                name: Arc::clone(&main.name),
                input: main.input.clone(),
                returns: main.returns.clone(),
                budget: main.budget,
                deadline: None,
                signals: main.signals.clone(),
                body,
                catch: Vec::new(),
                finally: None,
                scope: Some(scope),
                triggers: None,
            };
            graph.flows.push(callee);
            for step in &mut graph.steps {
                if let Kind::Flow(call) = &mut step.kind
                    && call.flow == id
                {
                    call.flow = twin;
                }
            }
        }
    }
}

/// What of a flow's keys is the scope's: an edit of the others does not change it.
pub(super) fn scope_keys(flow: &Map) -> Map {
    let is_scope_key = |key: &str| ["catch", "finally", "deadline", "output"].contains(&key);
    let keys = flow.iter().filter(|(key, _)| is_scope_key(key));
    keys.map(|(key, entry)| (key.clone(), entry.clone()))
        .collect()
}

fn has_policies(flow: &FlowDef) -> bool {
    !flow.catch.is_empty() || flow.finally.is_some() || flow.deadline.is_some()
}

fn calls(graph: &Graph, flow: FlowId) -> bool {
    let called = |step: &StepDef| matches!(&step.kind, Kind::Flow(call) if call.flow == flow);
    graph.steps.iter().any(called)
}

/// A body with the one scope that holds a flow's steps and policies, and that scope.
fn scope(graph: &mut Graph, index: usize, fingerprint: u64) -> (BodyId, StepId) {
    let id = StepId(graph.steps.len() as u32);
    let flow = &mut graph.flows[index];
    // The run's own flow keeps its policies.
    let (catch, finally, deadline) = if index == 0 {
        (flow.catch.clone(), flow.finally, flow.deadline)
    } else {
        let catch = std::mem::take(&mut flow.catch);
        (catch, flow.finally.take(), flow.deadline.take())
    };
    graph.steps.push(StepDef {
        id,
        name: SCOPE.into(),
        at: Place::default(),
        fingerprint,
        kind: Kind::Steps(flow.body),
        deps: Vec::new(),
        outer: Vec::new(),
        when: None,
        join: Join::All,
        cancel_rest: false,
        returns: None,
        gates: Vec::new(),
        repair: 0,
        fallback: Vec::new(),
        catch,
        finally,
        deadline,
        budget: None,
        priority: 0,
        labels: Vec::new(),
        compensate: None,
        leaf: no_leaf(),
    });
    let body = BodyId(graph.bodies.len() as u32);
    graph.bodies.push(Body {
        steps: vec![id],
        index: std::iter::once((SCOPE.into(), 0)).collect(),
        dependents: vec![Vec::new()],
        list: false,
        output: None,
    });
    (body, id)
}
