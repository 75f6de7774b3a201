//! From a path in a run to the step of the graph that it activates.

use ravel_core::graph::{Body, BodyId, Gate, Graph, Kind, OnUncertain, Place, StepDef, StepId};

use super::without_round;

/// The step at a path. Items, rounds and handlers belong to the step that owns them.
pub(crate) fn resolve<'a>(graph: &'a Graph, path: &str) -> Option<&'a StepDef> {
    let mut found: Option<StepId> = None;
    for segment in segments(path) {
        if found.is_none() && is_block(segment) {
            continue;
        }
        found = Some(match found {
            None => in_bodies(graph, &root_bodies(graph), segment)?,
            Some(step) => inside(graph, graph.step(step), segment)?,
        });
    }
    found.map(|step| graph.step(step))
}

/// The kind of the activation at a path.
pub(crate) fn kind_of(graph: &Graph, path: &str) -> &'static str {
    if path.is_empty() {
        return "flow";
    }
    let last = segments(path).last().unwrap_or(path);
    match (resolve(graph, path), last) {
        (_, "finally") => "finally",
        (_, name) if name.starts_with("catch[") => "catch",
        (Some(step), name) if name.ends_with(']') && &*step.name != without_round(name) => {
            if matches!(step.kind, Kind::ForEach(_)) {
                "item"
            } else {
                "round"
            }
        }
        (Some(step), _) => step.kind.name(),
        (None, _) => "step",
    }
}

/// Where the step at a path stands in the files.
pub(crate) fn place_of(graph: &Graph, path: &str) -> Option<Place> {
    resolve(graph, path)
        .map(|step| step.at.clone())
        .filter(|place| place.line > 0)
}

/// The segments of a path; a slash inside brackets belongs to a key.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut depth = 0_u32;
        let end = rest.char_indices().find(|(_, character)| {
            match character {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            *character == '/' && depth == 0
        });
        let (segment, left) = end.map_or((rest, ""), |(at, _)| (&rest[..at], &rest[at + 1..]));
        rest = left;
        Some(segment)
    })
}

/// True for the blocks of a scope that are activations of their own without a step.
fn is_block(segment: &str) -> bool {
    let name = without_round(segment);
    name == "finally" || name.starts_with("catch[")
}

fn root_bodies(graph: &Graph) -> Vec<BodyId> {
    let main = graph.main();
    let handlers = main.catch.iter().filter_map(|entry| entry.body);
    std::iter::once(main.body)
        .chain(handlers)
        .chain(main.finally)
        .collect()
}

/// The body of a scope: the steps of its own, of each item or round, or of the flow that it calls. A `switch` has one a
/// case, each in a hidden step.
pub(crate) fn body_of(graph: &Graph, step: &StepDef) -> Option<BodyId> {
    match &step.kind {
        Kind::Steps(body) | Kind::Race(body) => Some(*body),
        Kind::ForEach(each) => Some(each.body),
        Kind::Repeat(repeat) => Some(repeat.body),
        Kind::Flow(call) => Some(graph.flow(call.flow).body),
        Kind::Model(_)
        | Kind::Tool(_)
        | Kind::Run(_)
        | Kind::Human(_)
        | Kind::Wait(_)
        | Kind::Set(_)
        | Kind::Return(_)
        | Kind::Fail(_)
        | Kind::Switch(_) => None,
    }
}

/// The bodies in which the children of a step are.
fn bodies(graph: &Graph, step: &StepDef) -> Vec<BodyId> {
    let own = body_of(graph, step);
    let handlers = step.catch.iter().filter_map(|entry| entry.body);
    own.into_iter()
        .chain(handlers)
        .chain(step.finally)
        .collect()
}

fn inside(graph: &Graph, step: &StepDef, segment: &str) -> Option<StepId> {
    if is_block(segment) {
        return Some(step.id);
    }
    if segment.starts_with("check[")
        && let OnUncertain::Check(check) = step.leaf.on_uncertain
    {
        return Some(check);
    }
    if let Kind::Switch(switch) = &step.kind {
        let hidden = switch
            .cases
            .iter()
            .map(|(_, step)| *step)
            .chain(switch.otherwise);
        return hidden
            .into_iter()
            .find(|id| &*graph.step(*id).name == without_round(segment));
    }
    if let Some(found) = in_bodies(graph, &bodies(graph, step), segment) {
        return Some(found);
    }
    let gates = step.gates.iter().filter_map(|gate| match gate {
        Gate::Run(step) | Gate::Judge(step) => Some(*step),
        Gate::Expr(_) | Gate::Schema(_) => None,
    });
    let mut hidden = step
        .fallback
        .iter()
        .chain(&step.compensate)
        .copied()
        .chain(gates);
    hidden.find(|id| &*graph.step(*id).name == segment)
}

fn in_bodies(graph: &Graph, bodies: &[BodyId], segment: &str) -> Option<StepId> {
    let whole = without_round(segment);
    let base = whole.split('[').next().unwrap_or(whole);
    let find = |body: &Body, name: &str| {
        body.index
            .get(name)
            .map(|position| body.steps[*position as usize])
    };
    bodies
        .iter()
        .map(|id| graph.body(*id))
        .find_map(|body| find(body, whole).or_else(|| find(body, base)))
}
