//! From a checked flow to a picture, and the states of a run onto it.

use std::collections::HashMap;

use ravel_core::graph::{
    BodyId, Catch, DepKind, FlowId, Graph, Items, Kind, OnUncertain, StepDef, StepId,
};
use ravel_core::run::NodeView;

use super::model::{Body, Diagram, Edge, How, Item, Part};
use crate::output::units;
use crate::view::{Away, State, body_of, parent_path};

/// The picture of a flow; scopes deeper than `depth` are closed.
pub(crate) fn of_flow(graph: &Graph, depth: usize) -> Diagram {
    let main = graph.main();
    let mut maker = Maker {
        graph,
        open: vec![FlowId(0)],
    };
    let mut body = maker.body(main.body, "", depth);
    body.items.extend(
        maker
            .handlers("", &main.catch, main.finally, depth)
            .into_iter()
            .map(|(label, body)| {
                let mut item = Item::new(label.clone(), label, "block");
                item.parts.push(Part { label: None, body });
                item
            }),
    );
    Diagram {
        title: main.name.to_string(),
        subtitle: None,
        body,
    }
}

struct Maker<'a> {
    graph: &'a Graph,
    /// Flows that are open around here: a recursive call is drawn closed.
    open: Vec<FlowId>,
}

impl Maker<'_> {
    fn body(&mut self, id: BodyId, path: &str, depth: usize) -> Body {
        let graph = self.graph;
        let body = graph.body(id);
        let items = body
            .steps
            .iter()
            .map(|step| self.item(*step, path, depth))
            .collect();
        let mut edges = Vec::new();
        for (to, step) in body.steps.iter().enumerate() {
            for dep in &graph.step(*step).deps {
                let how = match dep.how {
                    DepKind::Value => How::Value,
                    DepKind::After => How::After,
                    DepKind::Weak => How::Weak,
                };
                edges.push(Edge {
                    from: dep.on as usize,
                    to,
                    how,
                    critical: false,
                });
            }
        }
        Body { items, edges }
    }

    fn item(&mut self, id: StepId, parent: &str, depth: usize) -> Item {
        let graph = self.graph;
        let step = graph.step(id);
        let path = if parent.is_empty() {
            step.name.to_string()
        } else {
            format!("{parent}/{}", step.name)
        };
        let mut item = Item::new(path.clone(), &*step.name, step.kind.name());
        item.notes = notes(graph, step);
        if depth == 0 {
            if body_of(graph, step).is_some() {
                item.notes.push("closed".to_owned());
            }
            return item;
        }
        match &step.kind {
            Kind::Flow(call) if self.open.contains(&call.flow) => {
                item.notes.push("recursive".to_owned())
            }
            Kind::Flow(call) => {
                self.open.push(call.flow);
                let body = self.body(graph.flow(call.flow).body, &path, depth - 1);
                self.open.pop();
                item.parts.push(Part {
                    label: Some("steps".into()),
                    body,
                });
            }
            Kind::Switch(switch) => {
                let cases = switch
                    .cases
                    .iter()
                    .map(|(_, step)| *step)
                    .chain(switch.otherwise);
                item.parts
                    .extend(cases.map(|case| self.case(case, &path, depth)));
            }
            Kind::Steps(_)
            | Kind::Race(_)
            | Kind::ForEach(_)
            | Kind::Repeat(_)
            | Kind::Model(_)
            | Kind::Tool(_)
            | Kind::Run(_)
            | Kind::Human(_)
            | Kind::Wait(_)
            | Kind::Set(_)
            | Kind::Return(_)
            | Kind::Fail(_) => {
                if let Some(body) = body_of(graph, step) {
                    let body = self.body(body, &path, depth - 1);
                    item.parts.push(Part {
                        label: Some("steps".into()),
                        body,
                    });
                }
            }
        }
        let handlers = self.handlers(&path, &step.catch, step.finally, depth - 1);
        item.parts
            .extend(handlers.into_iter().map(|(label, body)| Part {
                label: Some(label),
                body,
            }));
        item
    }

    /// A case of a switch: what is in it, framed by its name; a lone step frames itself.
    fn case(&mut self, id: StepId, path: &str, depth: usize) -> Part {
        let hidden = self.item(id, path, depth);
        if hidden.parts.len() == 1 {
            let body = hidden
                .parts
                .into_iter()
                .next()
                .map(|part| part.body)
                .unwrap_or_default();
            return Part {
                label: Some(hidden.name),
                body,
            };
        }
        Part {
            label: None,
            body: Body {
                items: vec![hidden],
                edges: Vec::new(),
            },
        }
    }

    fn handlers(
        &mut self,
        path: &str,
        catch: &[Catch],
        last: Option<BodyId>,
        depth: usize,
    ) -> Vec<(String, Body)> {
        let named: Vec<(String, BodyId)> = catch
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| entry.body.map(|body| (format!("catch[{index}]"), body)))
            .chain(last.map(|body| ("finally".to_owned(), body)))
            .collect();
        let mut bodies = Vec::new();
        for (label, body) in named {
            let inner = if path.is_empty() {
                label.clone()
            } else {
                format!("{path}/{label}")
            };
            bodies.push((label, self.body(body, &inner, depth)));
        }
        bodies
    }
}

/// Short facts about a step as it is written.
fn notes(graph: &Graph, step: &StepDef) -> Vec<String> {
    let mut notes = Vec::new();
    match &step.kind {
        Kind::Model(model) => notes.push(model.name.to_string()),
        Kind::Tool(tool) => notes.push(tool.name.to_string()),
        Kind::Flow(call) => notes.push(graph.flow(call.flow).name.to_string()),
        Kind::ForEach(each) => {
            if let Items::Stream { field, .. } = &each.items {
                notes.push(format!("stream of {field}"));
            }
            notes.extend(each.parallel.map(|most| format!("{most} at once")));
        }
        Kind::Repeat(repeat) => notes.push(format!("at most {}", repeat.max)),
        Kind::Run(_)
        | Kind::Human(_)
        | Kind::Wait(_)
        | Kind::Set(_)
        | Kind::Return(_)
        | Kind::Fail(_)
        | Kind::Steps(_)
        | Kind::Switch(_)
        | Kind::Race(_) => {}
    }
    if step.when.is_some() {
        notes.push("when".to_owned());
    }
    if !step.gates.is_empty() {
        notes.push(crate::config::counted(step.gates.len(), "gate"));
    }
    if !step.fallback.is_empty() {
        notes.push(crate::config::counted(step.fallback.len(), "fallback"));
    }
    if step.compensate.is_some() {
        notes.push("compensated".to_owned());
    }
    if matches!(step.leaf.on_uncertain, OnUncertain::Check(_)) {
        notes.push("checked".to_owned());
    }
    notes
}

/// What happened at one place of the picture, over all items and rounds.
#[derive(Debug, Default)]
struct Seen {
    states: Vec<State>,
    began: Option<u64>,
    ended: Option<u64>,
    live: bool,
    microusd: u64,
    attempts: u32,
}

/// Puts the states, times and costs of a run onto its picture and marks the critical path. Time in which no process
/// worked on the run does not count.
pub(crate) fn dress(
    diagram: &mut Diagram,
    nodes: impl Iterator<Item = NodeView>,
    away: &Away,
    now: u64,
) {
    let mut seen: HashMap<String, Seen> = HashMap::new();
    for node in nodes.filter(|node| !node.path.is_empty() && !matches!(node.kind, "item" | "round"))
    {
        let place = seen.entry(plain_path(&node.path)).or_default();
        place.states.push(state_of(node.state));
        place.began = [place.began, node.began].into_iter().flatten().min();
        place.ended = [place.ended, node.ended].into_iter().flatten().max();
        place.live |= node.ended.is_none() && node.began.is_some();
        place.microusd += node.usage.cost_microusd;
        place.attempts = place.attempts.max(node.attempts);
    }
    dress_body(&mut diagram.body, &seen, (away, now));
    diagram.body.mark_critical();
}

fn dress_body(body: &mut Body, seen: &HashMap<String, Seen>, (away, now): (&Away, u64)) {
    for item in &mut body.items {
        if let Some(place) = seen.get(&item.path) {
            item.state = Some(together(&place.states));
            let end = if place.live { Some(now) } else { place.ended };
            item.span = place
                .began
                .and_then(|began| place.ended.map(|ended| (began, ended)));
            let mut notes = Vec::new();
            if place.states.len() > 1 {
                let done = place
                    .states
                    .iter()
                    .filter(|state| **state == State::Succeeded)
                    .count();
                notes.push(format!("{done}/{}", place.states.len()));
            }
            if place.attempts > 1 {
                notes.push(format!("{} attempts", place.attempts));
            }
            if let (Some(began), Some(end)) = (place.began, end) {
                notes.push(units::duration(away.worked(began, end)));
            }
            if place.microusd > 0 {
                notes.push(units::money(place.microusd));
            }
            item.notes = notes;
        }
        for part in &mut item.parts {
            dress_body(&mut part.body, seen, (away, now));
        }
    }
}

/// One state for many activations: what most needs to be seen.
fn together(states: &[State]) -> State {
    let worst = [
        State::Failed,
        State::Waiting,
        State::Running,
        State::Cancelled,
        State::Pending,
        State::Succeeded,
    ];
    worst
        .into_iter()
        .find(|state| states.contains(state))
        .unwrap_or(State::Skipped)
}

fn state_of(word: &str) -> State {
    match word {
        "running" | "ready" => State::Running,
        "waiting" => State::Waiting,
        "succeeded" => State::Succeeded,
        "failed" => State::Failed,
        "skipped" => State::Skipped,
        "cancelled" => State::Cancelled,
        _ => State::Pending,
    }
}

/// A path without indexes of items and rounds: the place in the picture.
fn plain_path(path: &str) -> String {
    let Some(parent) = parent_path(path) else {
        return String::new();
    };
    let own = path
        .rsplit_once('~')
        .filter(|(_, round)| round.bytes().all(|byte| byte.is_ascii_digit()));
    let path = own.map_or(path, |(path, _)| path);
    let base = plain_path(parent);
    match path.strip_prefix(parent).and_then(|rest| {
        rest.trim_start_matches(|c: char| c == '~' || c.is_ascii_digit())
            .strip_prefix('/')
    }) {
        Some(name) if base.is_empty() => name.to_owned(),
        Some(name) => format!("{base}/{name}"),
        None if parent.is_empty() => path.to_owned(),
        None => base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_have_no_indexes() {
        assert_eq!(plain_path("a"), "a");
        assert_eq!(plain_path("docs[3]/summary"), "docs/summary");
        assert_eq!(plain_path("draft~2/turn"), "draft/turn");
        assert_eq!(plain_path("fix[1]/a[2]/b"), "fix/a/b");
        assert_eq!(plain_path("route/case[x]/y"), "route/case[x]/y");
    }
}
