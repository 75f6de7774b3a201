//! Bodies: the sibling steps of a scope, as a map or a list.

use indexmap::IndexMap;

use super::text::Places;
use super::{
    BodyInfo, Cx, Edge, FrameId, FrameKind, Lower, Owner, Placed, RESERVED, StepInfo, Want,
};
use crate::graph::{Body, BodyId, DepKind, StepId};
use crate::lang::diagnostic::{Problem, quoted};
use crate::lang::source::Span;
use crate::lang::tree::{Entry, Map, Node, Value};
use crate::lang::{codes, keys};

/// A step before it is lowered.
struct Written<'n> {
    name: String,
    key: Span,
    node: &'n Node,
}

/// `- run: echo hi`: a step without a name.
fn is_bare_kind(name: &str, node: &Node) -> bool {
    let is_kind = keys::KINDS.iter().any(|kind| kind.name == name);
    let holds_kind = node
        .map()
        .is_some_and(|map| keys::KINDS.iter().any(|kind| map.contains_key(kind.name)));
    is_kind && !holds_kind
}

const ONE_KEY: &str = "an entry of a list of steps is a map with one key, the step's name";
/// Characters of a value that are repeated in a hint.
const VALUE_SHOWN_MAX: usize = 40;

/// `{ run: make, timeout: 5s }` as the step that was meant: `my_step: { run: make, … }`.
pub(super) fn named_step(kind: &str, map: &Map) -> String {
    // `name` and `id` are what other languages call a step by.
    let titles = ["name", "id"].map(|key| map.get(key).and_then(|entry| entry.node.text()));
    let name = titles.into_iter().flatten().next().and_then(as_name);
    let value = match map.get(kind).and_then(|entry| entry.node.text()) {
        Some(text) if text.chars().count() > VALUE_SHOWN_MAX || text.contains('\n') => None,
        Some(text) => Some(plain_or_quoted(text)),
        None => None,
    };
    let extra = map
        .keys()
        .any(|key| key != kind && key != "name" && key != "id");
    format!(
        "{}: {{ {kind}: {}{} }}",
        name.as_deref().unwrap_or("my_step"),
        value.as_deref().unwrap_or("…"),
        if extra { ", …" } else { "" }
    )
}

/// `Build the site` as `build_the_site`.
fn as_name(title: &str) -> Option<String> {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    let name = words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("_")
        .to_ascii_lowercase();
    name.starts_with(|c: char| c.is_ascii_lowercase())
        .then_some(name)
}

fn plain_or_quoted(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || " ._-/=+".contains(c))
        && !text.ends_with(' ');
    if plain { text.to_owned() } else { quoted(text) }
}

/// What a body belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub(crate) flow: usize,
    pub(crate) owner: Owner,
    /// The names around it.
    pub(crate) frame: FrameId,
}

impl<'b> Lower<'b> {
    /// Lowers steps and, when given, the output of their scope.
    pub(crate) fn body(
        &mut self,
        host: Host,
        steps: &Node,
        output: Option<&Node>,
    ) -> Option<BodyId> {
        let (written, list) = self.written(steps)?;
        let id = BodyId(self.bodies.len() as u32);
        self.bodies.push(Body {
            list,
            ..Body::default()
        });
        let mut names = IndexMap::new();
        let mut ids = Vec::new();
        for step in &written {
            let position = ids.len() as u32;
            let step_id = self.reserve(host, step, Placed::Body { body: id, position });
            self.new_name(host.frame, step);
            if let Some((_, _, first)) = names.get(&step.name) {
                let problem = Problem::new(
                    codes::DUPLICATE_KEY,
                    step.key,
                    format!("two steps are called `{}`", step.name),
                );
                self.problem(problem.related(*first, "first here"));
            } else {
                names.insert(step.name.clone(), (position, step_id, step.key));
            }
            ids.push(step_id);
        }
        let frame = self.push_frame(
            Some(host.frame),
            FrameKind::Body {
                body: id,
                names: names.clone(),
            },
        );
        self.body_info.push(BodyInfo {
            owner: host.owner,
            frame,
            output: None,
            output_reads: Vec::new(),
        });
        for (position, (step, step_id)) in written.iter().zip(&ids).enumerate() {
            self.info_mut(*step_id).frame = frame;
            if list && position > 0 {
                let edge = Edge {
                    on: position as u32 - 1,
                    how: DepKind::After,
                    span: step.key,
                };
                self.info_mut(*step_id).edges.push(edge);
            }
            self.step(*step_id, step.node);
        }
        let body = &mut self.bodies[id.0 as usize];
        body.steps = ids;
        body.index = names
            .iter()
            .map(|(name, (position, _, _))| (name.as_str().into(), *position))
            .collect();
        if let Some(output) = output {
            self.output(host, id, frame, output);
        }
        Some(id)
    }

    fn output(&mut self, host: Host, body: BodyId, frame: FrameId, node: &Node) {
        let cx = Cx {
            flow: host.flow,
            owner: host.owner,
            frame,
            late: true,
            secrets: false,
            output_of: Some(super::OutputOf::Body(body)),
        };
        if let Some((value, site)) = self.value(cx, node, Want::Any, Places::default()) {
            self.bodies[body.0 as usize].output = Some(value);
            self.body_info[body.0 as usize].output = Some(site);
        }
    }

    /// The steps of a map, or of a list of one-key maps.
    fn written<'n>(&mut self, node: &'n Node) -> Option<(Vec<Written<'n>>, bool)> {
        let of = |name: &String, entry: &'n Entry| Written {
            name: name.clone(),
            key: entry.key,
            node: &entry.node,
        };
        let (written, list) = match &node.value {
            Value::Map(map) => (
                map.iter()
                    .map(|(name, entry)| of(name, entry))
                    .collect::<Vec<_>>(),
                false,
            ),
            Value::List(items) => {
                let mut written = Vec::new();
                for item in items {
                    match item.map().map(|map| (map.len(), map.first())) {
                        Some((1, Some((name, entry)))) if !is_bare_kind(name, &entry.node) => {
                            written.push(of(name, entry))
                        }
                        Some(_) | None => self.not_one_key(item),
                    }
                }
                (written, true)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {
                self.shape(node, "steps", "a map of steps, or a list of one-key maps");
                return None;
            }
        };
        if written.is_empty() && !self.is_refused(node) {
            let problem = Problem::new(codes::MISSING_KEY, node.span, "there are no steps here");
            self.problem(problem.hint("add one: `hello: { set: hi }`"));
        }
        (!written.is_empty()).then_some((written, list))
    }

    /// What it held was refused before, with a problem of its own.
    fn is_refused(&self, node: &Node) -> bool {
        if !self.wants_hints() {
            return true;
        }
        let within = |span: Span| {
            span.file == node.span.file && (node.span.start..=node.span.end).contains(&span.start)
        };
        self.problems
            .iter()
            .any(|problem| problem.code <= codes::BAD_KEY && within(problem.span))
            || node.list().is_some_and(|items| !items.is_empty())
    }

    fn not_one_key(&mut self, item: &Node) {
        let kind = item.map().and_then(|map| {
            let kind = keys::KINDS.iter().find(|kind| map.contains_key(kind.name));
            kind.map(|kind| (kind.name, map))
        });
        let (message, hint) = match (kind, item.map()) {
            (Some((kind, map)), _) => (
                "this entry of the list says what a step does, but not its name",
                format!("the name is the key: `- {}`", named_step(kind, map)),
            ),
            (None, Some(_)) => (ONE_KEY, "start each step with its own `-`".to_owned()),
            (None, None) => (ONE_KEY, "write `- name: { set: … }`".to_owned()),
        };
        self.problem(Problem::new(codes::WRONG_SHAPE, item.span, message).hint(hint));
    }

    fn reserve(&mut self, host: Host, step: &Written<'_>, placed: Placed) -> StepId {
        self.reserve_step(host.flow, &step.name, step.key, placed, host.frame)
    }

    /// A place for a step in the graph.
    pub(crate) fn reserve_step(
        &mut self,
        flow: usize,
        name: &str,
        span: Span,
        placed: Placed,
        frame: FrameId,
    ) -> StepId {
        let id = StepId(self.steps.len() as u32);
        self.steps.push(None);
        self.info.push(StepInfo {
            name: name.to_owned(),
            name_span: span,
            placed,
            flow,
            frame,
            kind: None,
            edges: Vec::new(),
            stream: None,
            reads: Vec::new(),
            late_reads: Vec::new(),
            read_at: None,
            declared: None,
            body: None,
            main: None,
            sites: Vec::new(),
            hidden: Vec::new(),
            spans: Vec::new(),
            inherited: Vec::new(),
            says_attempts: false,
        });
        id
    }

    fn new_name(&mut self, frame: FrameId, step: &Written<'_>) {
        self.free_name(frame, &step.name, step.key, "a step");
    }

    /// Checks that a name has the form of one, is not reserved and hides no other.
    pub(crate) fn free_name(&mut self, frame: FrameId, name: &str, span: Span, what: &str) {
        if !self.good_name(name, span, what) {
            return;
        }
        if RESERVED.contains(&name) {
            let problem = Problem::new(
                codes::TAKEN_NAME,
                span,
                format!("`{name}` is a word of the language and cannot name {what}"),
            );
            let kind = what.rsplit(' ').next().unwrap_or(what);
            self.problem(problem.hint(format!("call it `{name}_{kind}` or what it is for")));
        } else if let Some(place) = self.shadowed(frame, name) {
            let problem = Problem::new(
                codes::TAKEN_NAME,
                span,
                format!("`{name}` hides another `{name}` around it"),
            );
            let problem = match place {
                Some(place) => problem.related(place, "the other one"),
                None => problem,
            };
            self.problem(
                problem.hint("names of steps and items differ from all that are in sight"),
            );
        }
    }
}
