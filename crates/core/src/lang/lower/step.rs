//! A step: its kind found, defaults merged, the keys of any step read.

use super::body::named_step;
use super::foreign::{foreign_kind, known_anywhere};
use super::{Bind, Cx, Edge, Lower, Owner, Placed};
use crate::graph::{DepKind, Join, Leaf, Place, StepDef, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, names, nearest};
use crate::lang::keys::{self, Kind};
use crate::lang::source::Span;
use crate::lang::tree::{Entry, Map, Node, Value};

/// Keys of any step that a hidden step (a gate, a check, a compensation) does not have: its host has them.
const HOST_KEYS: &[&str] = &[
    "when",
    "after",
    "join",
    "cancel_rest",
    "gates",
    "repair",
    "fallback",
    "catch",
    "finally",
    "compensate",
    "priority",
];
/// Keys that a case does not have: the `switch` has them.
const SWITCH_KEYS: &[&str] = &["when", "after", "join", "cancel_rest"];

/// What a step is to the one that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A step among others.
    Step,
    /// A case of a `switch`.
    Case,
    /// A gate, a check, a compensation: a leaf.
    Leaf,
    /// A fallback of a step, already merged with it.
    Fallback,
}

impl Lower<'_> {
    pub(crate) fn step(&mut self, id: StepId, node: &Node) {
        self.step_as(id, node, Part::Step);
    }

    /// Lowers a step into its place. It stays empty when its kind is not known.
    pub(crate) fn step_as(&mut self, id: StepId, node: &Node, part: Part) {
        let Value::Map(map) = &node.value else {
            let name = self.info(id).name.clone();
            let problem = Problem::new(
                codes::WRONG_SHAPE,
                node.span,
                format!(
                    "step `{name}` is a map of keys, and this is {}",
                    node.what()
                ),
            );
            let hint = if keys::KINDS.iter().any(|kind| kind.name == name) {
                let entry = Entry {
                    key: node.span,
                    node: node.clone(),
                };
                let map = Map::from_iter([(name.clone(), entry)]);
                format!("give the step a name: `{}`", named_step(&name, &map))
            } else if let Some(meant) = foreign_kind(&name) {
                format!(
                    "a step has a name, as in `my_step: {{ … }}`, and what it does below it; {meant}"
                )
            } else {
                "a step says what it does: `{ set: … }`, `{ run: … }`, `{ model: …, prompt: … }`"
                    .to_owned()
            };
            self.problem(problem.hint(hint));
            return;
        };
        let Some(kind) = self.kind_of(id, map, node.span) else {
            return;
        };
        self.info_mut(id).kind = Some(kind);
        if !kind.available {
            let span = map.get(kind.name).map_or(node.span, |entry| entry.key);
            let problem = Problem::new(
                codes::NOT_AVAILABLE,
                span,
                format!(
                    "steps of the kind `{}` are not available in this version",
                    kind.name
                ),
            );
            self.problem(problem.hint(format!(
                "see `ravel explain {}` for what to use instead",
                codes::NOT_AVAILABLE
            )));
            return;
        }
        let merged = self.with_defaults(id, kind, map, part);
        let map = merged.as_ref().unwrap_or(map);
        self.check_keys(id, kind, map, part);
        for (name, entry) in map {
            if let Some(key) = known_key(kind, name) {
                self.info_mut(id).spans.push((key, entry.node.span));
            }
        }
        self.define(id, kind, map, node.span, part);
    }

    fn kind_of(&mut self, id: StepId, map: &Map, span: Span) -> Option<&'static Kind> {
        let has = |kind: &&Kind| map.contains_key(kind.name);
        let mut found: Vec<&'static Kind> = keys::KINDS.iter().filter(has).collect();
        // `for_each` and `repeat` have steps, they are not groups.
        if found
            .iter()
            .any(|kind| kind.table.get("steps").is_some() && kind.name != "steps")
        {
            found.retain(|kind| kind.name != "steps");
        }
        // A loop under a name of another tool is no group, either.
        if map
            .keys()
            .any(|key| foreign_kind(key).is_some_and(|_| known_anywhere(key).is_none()))
        {
            found.retain(|kind| kind.name != "steps");
        }
        match found.as_slice() {
            [kind] => Some(kind),
            [] => {
                self.no_kind(id, map, span);
                None
            }
            [first, second, ..] => {
                self.two_kinds(id, map, first, second);
                None
            }
        }
    }

    /// The step's keys over the defaults of its kind. `None` when there are none.
    fn with_defaults(
        &mut self,
        id: StepId,
        kind: &'static Kind,
        map: &Map,
        part: Part,
    ) -> Option<Map> {
        if part == Part::Fallback {
            return None;
        }
        let defaults = self.flows[self.info(id).flow]
            .defaults
            .get(kind.name)
            .cloned()?;
        let mut merged = map.clone();
        for (key, entry) in defaults {
            let misplaced = match part {
                Part::Step | Part::Fallback => false,
                Part::Case => SWITCH_KEYS.contains(&key.as_str()),
                Part::Leaf => HOST_KEYS.contains(&key.as_str()),
            };
            if !misplaced && !merged.contains_key(&key) {
                if let Some(known) = known_key(kind, &key) {
                    self.info_mut(id).inherited.push(known);
                }
                merged.insert(key, entry);
            }
        }
        Some(merged)
    }

    fn check_keys(&mut self, id: StepId, kind: &'static Kind, map: &Map, part: Part) {
        let common = if kind.leaf { &keys::LEAF } else { &keys::SCOPE };
        let place = format!("a `{}` step", kind.name);
        let tables = [&keys::ANY, common, kind.table];
        let arguments = self.arguments_beside(map);
        if arguments.is_empty() {
            self.known_keys(map, &tables, &place);
        } else {
            for key in &arguments {
                let message = format!("`{key}` is an argument of the tool, and stands beside it");
                let problem = Problem::new(codes::WRONG_PLACE, map[key.as_str()].key, message);
                self.problem(problem.hint(format!(
                    "arguments stand under `with`: `with: {{ {key}: … }}`"
                )));
            }
            let others = map.iter().filter(|(key, _)| !arguments.contains(*key));
            let others = others.map(|(key, entry)| (key.clone(), entry.clone()));
            self.known_keys(&others.collect(), &tables, &place);
        }
        self.required_keys(map, kind.table, self.info(id).name_span);
        let (barred, why) = match part {
            Part::Step | Part::Fallback => return,
            Part::Case => (
                SWITCH_KEYS,
                "a case is chosen by its `switch`: put it there",
            ),
            Part::Leaf => (HOST_KEYS, "it belongs to the step that this leaf serves"),
        };
        for key in barred {
            if let Some(entry) = map.get(*key) {
                self.problem(
                    Problem::new(
                        codes::WRONG_PLACE,
                        entry.key,
                        format!("`{key}` has no place here"),
                    )
                    .hint(why),
                );
            }
        }
        if part == Part::Leaf && !kind.leaf {
            let span = map[kind.name].key;
            let message = format!("a leaf is expected here, and `{}` is a scope", kind.name);
            self.problem(
                Problem::new(codes::WRONG_PLACE, span, message)
                    .hint("use one of the leaves: `model`, `tool`, `run`"),
            );
        }
    }

    fn define(&mut self, id: StepId, kind: &'static Kind, map: &Map, span: Span, part: Part) {
        let (flow, outer_frame) = (self.info(id).flow, self.info(id).frame);
        let own = self.own_frame(id, map, outer_frame, part);
        let cx = Cx {
            flow,
            owner: Owner::Step(id),
            frame: own,
            late: false,
            secrets: false,
            output_of: None,
        };
        let when = map
            .get("when")
            .and_then(|entry| self.condition(cx, &entry.node, "when"));
        let (join, cancel_rest) = self.join(map);
        self.after(cx, id, map);
        // A type that cannot be read stands for anything: what follows from it is not reported again.
        let returns = map.get("returns").map(|entry| {
            self.read_type(flow, &entry.node)
                .unwrap_or_else(crate::types::Type::any)
        });
        self.info_mut(id).declared = returns.clone();
        // What comes from outside may hold more than the flow asks for: it is read by the contract, not refused for the rest.
        let returns = returns.map(|ty| match kind.name {
            "tool" | "run" => ty.open(),
            _ => ty,
        });
        let repair = self.small(map, "repair", 0, 20).unwrap_or(0) as u32;
        let leaf = self.leaf(cx, id, kind, map);
        let Some(lowered) = self.lower_kind(cx, id, kind, map, returns.is_some()) else {
            self.common_late(cx, id, kind, map, span);
            return;
        };
        let late = self.common_late(cx, id, kind, map, span);
        let labels = map
            .get("labels")
            .map(|entry| self.texts(&entry.node, "labels"))
            .unwrap_or_default();
        let definition = StepDef {
            id,
            name: self.info(id).name.as_str().into(),
            at: self.place(self.info(id).name_span),
            fingerprint: super::fingerprint::fingerprint(map),
            kind: lowered,
            deps: Vec::new(),
            outer: Vec::new(),
            when,
            join,
            cancel_rest,
            returns,
            gates: late.gates,
            repair,
            fallback: late.fallback,
            catch: late.catch,
            finally: late.finally,
            deadline: map
                .get("deadline")
                .and_then(|entry| self.time_limit(&entry.node, "deadline")),
            budget: map.get("budget").and_then(|entry| self.budget(&entry.node)),
            priority: self.small(map, "priority", -100, 100).unwrap_or(0) as i32,
            labels: labels.into_iter().map(|(label, _)| label.into()).collect(),
            compensate: late.compensate,
            leaf,
        };
        self.steps[id.0 as usize] = Some(definition);
    }

    /// `last` is there where there may have been a try before.
    fn own_frame(
        &mut self,
        id: StepId,
        map: &Map,
        outer: super::FrameId,
        part: Part,
    ) -> super::FrameId {
        if !map.contains_key("repair") && part != Part::Fallback {
            return outer;
        }
        let frame = self.bind(outer, vec![("last".to_owned(), Bind::Last)]);
        self.info_mut(id).frame = frame;
        frame
    }

    /// What is evaluated after the step: gates, handlers, fallbacks, compensation.
    fn common_late(
        &mut self,
        cx: Cx,
        id: StepId,
        kind: &'static Kind,
        map: &Map,
        span: Span,
    ) -> Late {
        let inside = self.inside_frame(id).unwrap_or(cx.frame);
        let late = cx.late();
        let gates = map
            .get("gates")
            .map(|entry| self.gates(late, id, &entry.node))
            .unwrap_or_default();
        let catch = map
            .get("catch")
            .map(|entry| self.catch(late.within(inside), &entry.node))
            .unwrap_or_default();
        let finally = map.get("finally").filter(|_| !kind.leaf).and_then(|entry| {
            let host = super::body::Host {
                flow: cx.flow,
                owner: cx.owner,
                frame: inside,
            };
            self.body(host, &entry.node, None)
        });
        let fallback = map
            .get("fallback")
            .map(|entry| self.fallbacks(id, kind, map, &entry.node, span))
            .unwrap_or_default();
        let compensate = map
            .get("compensate")
            .and_then(|entry| self.compensate(late, id, &entry.node));
        Late {
            gates,
            catch,
            finally,
            fallback,
            compensate,
        }
    }

    fn join(&mut self, map: &Map) -> (Join, bool) {
        let cancel_rest = map
            .get("cancel_rest")
            .and_then(|entry| self.boolean(&entry.node, "cancel_rest"))
            .unwrap_or(false);
        let Some(entry) = map.get("join") else {
            return (Join::All, cancel_rest);
        };
        let join = match &entry.node.value {
            Value::Map(_) => self
                .table_map(&entry.node, &keys::FIRST)
                .and_then(|map| map.get("first"))
                .and_then(|entry| self.integer(&entry.node, "first", 1, 100_000))
                .map(|first| Join::First(first as u32)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => {
                match self.choice(&entry.node, "join", &["all", "any", "settled", "failed"]) {
                    Some("any") => Some(Join::First(1)),
                    Some("settled") => Some(Join::Settled),
                    Some("failed") => Some(Join::Failed),
                    Some(_) | None => None,
                }
            }
        };
        (join.unwrap_or(Join::All), cancel_rest)
    }

    fn after(&mut self, cx: Cx, id: StepId, map: &Map) {
        let Some(entry) = map.get("after") else {
            return;
        };
        for (name, span) in self.texts(&entry.node, "after") {
            match self.find(cx.frame, &name) {
                Some(super::frame::Found::Step {
                    body,
                    position,
                    step,
                }) => self.order(id, body, position, step, span),
                Some(_) | None => {
                    let siblings = self.siblings_for_hint(id);
                    let near = nearest(&name, siblings.iter().map(String::as_str));
                    let hint = near.map(|near| format!("did you mean `{near}`?"));
                    let hint = hint.or_else(|| {
                        let beside = names(siblings.iter().map(String::as_str));
                        (!siblings.is_empty()).then(|| format!("the steps beside it are {beside}"))
                    });
                    let problem = Problem::new(
                        codes::UNKNOWN_NAME,
                        span,
                        format!("there is no step `{name}` here"),
                    );
                    self.problem(problem.maybe_hint(hint));
                }
            }
        }
    }

    fn order(
        &mut self,
        id: StepId,
        body: crate::graph::BodyId,
        position: u32,
        step: StepId,
        span: Span,
    ) {
        match self.ancestor_in(id, body) {
            Some((ancestor, _)) if ancestor == step => {
                let name = self.info(step).name.clone();
                self.problem(Problem::new(
                    codes::CYCLE,
                    span,
                    format!("step `{name}` waits for itself"),
                ));
            }
            Some((ancestor, true)) => self.info_mut(ancestor).edges.push(Edge {
                on: position,
                how: DepKind::After,
                span,
            }),
            Some((ancestor, false)) => {
                self.info_mut(ancestor).edges.push(Edge {
                    on: position,
                    how: DepKind::Weak,
                    span,
                });
                let read = super::ReadOf {
                    target: step,
                    guarded: true,
                    under: Vec::new(),
                    meta: false,
                    span,
                };
                self.info_mut(id).reads.push(read);
            }
            None => {}
        }
    }

    /// Names of the steps beside a step.
    pub(crate) fn siblings_for_hint(&mut self, id: StepId) -> Vec<String> {
        if !self.has_names_left() {
            return Vec::new();
        }
        let names = self.siblings(id);
        self.compared(names.len());
        names
    }

    fn siblings(&self, id: StepId) -> Vec<String> {
        let mut at = id;
        loop {
            match self.info(at).placed {
                Placed::Hidden { host } => at = host,
                Placed::Body { body, .. } => {
                    let frame = self.body_info[body.0 as usize].frame;
                    return match &self.frame(frame).kind {
                        super::FrameKind::Body { names, .. } => names
                            .iter()
                            .filter(|(_, (_, step, _))| *step != at)
                            .map(|(name, _)| name.clone())
                            .collect(),
                        super::FrameKind::Flow(_) | super::FrameKind::Binds(_) => Vec::new(),
                    };
                }
            }
        }
    }

    /// A small whole number under a key.
    pub(crate) fn small(
        &mut self,
        map: &Map,
        key: &'static str,
        min: i64,
        max: i64,
    ) -> Option<i64> {
        let entry = map.get(key)?;
        self.integer(&entry.node, key, min, max)
    }

    /// Where a span is, for the graph.
    pub(crate) fn place(&self, span: Span) -> Place {
        let file = self.origin.sources.file(span.file);
        if !self.bundle.has_places() {
            return Place {
                file: file.path.clone(),
                line: 0,
                column: 0,
            };
        }
        let (line, column) = file.position(span.start as usize);
        Place {
            file: file.path.clone(),
            line: line as u32,
            column: column as u32,
        }
    }

    /// A hidden step below another.
    pub(crate) fn hidden_step(
        &mut self,
        host: StepId,
        name: &str,
        frame: super::FrameId,
        node: &Node,
        part: Part,
    ) -> StepId {
        let flow = self.info(host).flow;
        let id = self.reserve_step(flow, name, node.span, Placed::Hidden { host }, frame);
        self.info_mut(host).hidden.push(id);
        self.step_as(id, node, part);
        id
    }
}

/// What [`Lower::common_late`] gives.
struct Late {
    gates: Vec<crate::graph::Gate>,
    catch: Vec<crate::graph::Catch>,
    finally: Option<crate::graph::BodyId>,
    fallback: Vec<StepId>,
    compensate: Option<StepId>,
}

/// The table's own copy of a key's name.
pub(crate) fn known_key(kind: &'static Kind, name: &str) -> Option<&'static str> {
    [&keys::ANY, &keys::LEAF, &keys::SCOPE, kind.table]
        .iter()
        .find_map(|table| table.get(name))
        .map(|key| key.name)
}

/// The leaf policies of a step that is no leaf.
pub(crate) fn no_leaf() -> Leaf {
    Leaf {
        retry: super::policy::once(),
        timeout: crate::lang::limits::TIMEOUT_DEFAULT_MS,
        effect: crate::effect::Effect::Pure,
        on_uncertain: crate::graph::OnUncertain::Ask { deadline: None },
        key: None,
        cache: None,
        concurrency: Vec::new(),
        worker: None,
    }
}
