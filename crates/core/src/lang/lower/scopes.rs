//! The scopes: steps that hold steps.

use super::body::Host;
use super::step::Part;
use super::text::Places;
use super::{Bind, Cx, Edge, FrameId, Lower, Owner, Placed, Want};
use crate::expr::Expr;
use crate::graph::{
    self, BodyId, DepKind, FlowCall, FlowId, ForEach, Items, OnMax, Repeat, StepId, Switch,
    Tolerate,
};
use crate::lang::diagnostic::{Problem, nearest};
use crate::lang::limits::CALL_DEPTH_DEFAULT;
use crate::lang::tree::{Entry, Map, Node, Value, parse_scalar};
use crate::lang::{codes, formats, keys};

impl Lower<'_> {
    fn host(&self, cx: Cx, frame: FrameId) -> Host {
        Host {
            flow: cx.flow,
            owner: cx.owner,
            frame,
        }
    }

    /// The steps of a scope with its `output`.
    fn inner(&mut self, cx: Cx, id: StepId, map: &Map, frame: FrameId) -> Option<BodyId> {
        let Some(steps) = map.get("steps") else {
            let span = self.info(id).name_span;
            let name = self.info(id).name.clone();
            self.problem(
                Problem::new(
                    codes::MISSING_KEY,
                    span,
                    format!("scope `{name}` has no `steps`"),
                )
                .hint("add `steps: { … }`"),
            );
            return None;
        };
        let output = map.get("output").map(|entry| &entry.node);
        let body = self.body(self.host(cx, frame), &steps.node, output)?;
        self.info_mut(id).body = Some(body);
        Some(body)
    }

    pub(crate) fn group(&mut self, cx: Cx, id: StepId, map: &Map) -> Option<graph::Kind> {
        self.inner(cx, id, map, cx.frame).map(graph::Kind::Steps)
    }

    /// What handlers of a scope see: its steps, where there is one of each.
    pub(crate) fn inside_frame(&self, id: StepId) -> Option<FrameId> {
        let info = self.info(id);
        let single = info
            .kind
            .is_some_and(|kind| matches!(kind.name, "steps" | "race"));
        let body = info.body.filter(|_| single)?;
        Some(self.body_info[body.0 as usize].frame)
    }

    pub(crate) fn for_each(&mut self, cx: Cx, id: StepId, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("for_each")?;
        let items = self.items(cx, id, entry);
        let (name, name_span) = match map.get("as") {
            Some(entry) => (
                self.plain_text(&entry.node, "as")?.to_owned(),
                entry.node.span,
            ),
            None => ("item".to_owned(), entry.key),
        };
        self.free_name(cx.frame, &name, name_span, "an item");
        let frame = self.bind(
            cx.frame,
            vec![
                (name.clone(), Bind::Item(id)),
                ("loop".to_owned(), Bind::Loop(id)),
            ],
        );
        let item_key = map
            .get("item_key")
            .and_then(|entry| self.bare(cx.within(frame), &entry.node, "item_key", Want::Any));
        let parallel = self
            .small(map, "parallel", 1, 100_000)
            .map(|parallel| parallel as u32);
        let tolerate = map
            .get("tolerate")
            .and_then(|entry| self.tolerate(&entry.node))
            .unwrap_or(Tolerate::Count(0));
        let body = self.inner(cx, id, map, frame)?;
        Some(graph::Kind::ForEach(Box::new(ForEach {
            items: items?,
            bind: name.into(),
            parallel,
            item_key: item_key.map(|(expr, _)| expr),
            tolerate,
            body,
        })))
    }

    fn items(&mut self, cx: Cx, id: StepId, entry: &Entry) -> Option<Items> {
        let node = &entry.node;
        match &node.value {
            Value::Map(map) if map.contains_key("stream") => {
                self.table_map(node, &keys::STREAM);
                self.stream(id, &map["stream"].node)
            }
            Value::List(_) => self.literal_items(cx, id, node),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Map(_) => {
                let (expr, site) = self.bare(cx, node, "for_each", Want::Items)?;
                self.info_mut(id).main = Some(site);
                Some(Items::List(expr))
            }
        }
    }

    /// A list written out is an expression, too.
    fn literal_items(&mut self, cx: Cx, id: StepId, node: &Node) -> Option<Items> {
        let json = as_expression(&node.to_json());
        if json.contains("{{") {
            let problem = Problem::new(
                codes::WRONG_SHAPE,
                node.span,
                "a list of items that is written out takes no `{{ }}`",
            );
            self.problem(problem.hint("make the list in a `set` step, or write it as one expression: `for_each: \"[a.x, b.y]\"`"));
            return None;
        }
        match Expr::parse(&json) {
            Ok(_) => {
                let made = Node::made(Value::Text(json), node.span);
                let (expr, site) = self.bare(cx, &made, "for_each", Want::Items)?;
                self.info_mut(id).main = Some(site);
                Some(Items::List(expr))
            }
            Err(error) => {
                self.problem(Problem::new(codes::EXPRESSION, node.span, error.message));
                None
            }
        }
    }

    /// `plan.items`: a sibling and the field that it streams.
    fn stream(&mut self, id: StepId, node: &Node) -> Option<Items> {
        let text = self.plain_text(node, "stream")?;
        let Some((step, field)) = text
            .split_once('.')
            .filter(|(_, field)| !field.is_empty() && !field.contains('.'))
        else {
            let problem = Problem::new(
                codes::WRONG_SHAPE,
                node.span,
                "`stream` names a step and a field of its value",
            );
            self.problem(problem.hint("write `stream: step.field`"));
            return None;
        };
        let Placed::Body { body, .. } = self.info(id).placed else {
            let problem = Problem::new(
                codes::WRONG_PLACE,
                node.span,
                "a stream is read by a step beside its producer",
            );
            self.problem(problem.hint("put this `for_each` beside the step that it streams from"));
            return None;
        };
        let found = self.find(self.body_info[body.0 as usize].frame, step);
        match found {
            Some(super::frame::Found::Step {
                body: of,
                position,
                step: producer,
            }) if of == body && producer != id => {
                let edge = Edge {
                    on: position,
                    how: DepKind::Weak,
                    span: node.span,
                };
                let info = self.info_mut(id);
                info.stream = Some(edge);
                self.info_mut(producer).read_at.get_or_insert(node.span);
                Some(Items::Stream {
                    producer: position,
                    field: field.into(),
                    // Known when all edges are.
                    ahead: false,
                })
            }
            Some(_) | None => {
                let siblings = self.siblings_for_hint(id);
                let near = nearest(step, siblings.iter().map(String::as_str));
                let hint = near.map(|near| format!("did you mean `{near}.{field}`?"));
                let problem = Problem::new(
                    codes::UNKNOWN_NAME,
                    node.span,
                    format!("there is no step `{step}` beside this one"),
                );
                self.problem(problem.maybe_hint(hint));
                None
            }
        }
    }

    fn tolerate(&mut self, node: &Node) -> Option<Tolerate> {
        match &node.value {
            Value::Number(number) if number.as_i64().is_none() && number.as_u64().is_none() => {
                let message =
                    format!("`tolerate` takes a number of items or a share, and this is {number}");
                let share = number.as_f64().filter(|share| (0.0..=1.0).contains(share));
                let hint = match share {
                    Some(share) => format!("did you mean `{}%`?", share * 100.0),
                    None => "a share is written `5%`".to_owned(),
                };
                self.problem(Problem::new(codes::WRONG_SHAPE, node.span, message).hint(hint));
                None
            }
            Value::Number(_) => self
                .integer(node, "tolerate", 0, i64::from(u32::MAX))
                .map(|count| Tolerate::Count(count as u32)),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => self
                .format(node, "tolerate", formats::percent, "5%")
                .map(Tolerate::Percent),
        }
    }

    pub(crate) fn repeat(&mut self, cx: Cx, id: StepId, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("repeat")?;
        if let Value::Number(rounds) = &entry.node.value {
            let message = "`repeat` takes a map, and this is a number";
            let problem = Problem::new(codes::WRONG_SHAPE, entry.node.span, message);
            self.problem(problem.hint(format!("most rounds are `repeat: {{ max: {rounds} }}`")));
            return None;
        }
        let inner = self.table_map(&entry.node, &keys::REPEAT);
        let loop_map = inner?;
        let carry = match loop_map.get("carry") {
            Some(entry) => {
                let (value, site) = self.value(cx, &entry.node, Want::Any, Places::default())?;
                self.info_mut(id).main = Some(site);
                Some(value)
            }
            None => None,
        };
        let binds = vec![
            ("carry".to_owned(), Bind::Carry(id)),
            ("rounds".to_owned(), Bind::Rounds(id)),
            ("loop".to_owned(), Bind::Loop(id)),
        ];
        let frame = self.bind(cx.frame, binds);
        let body = self.inner(cx, id, map, frame);
        let round = body.map_or(frame, |body| self.body_info[body.0 as usize].frame);
        let until = loop_map.get("until").and_then(|entry| {
            let frame = self.bind(round, vec![("output".to_owned(), Bind::Output(id))]);
            self.condition(
                Cx {
                    output_of: body.map(super::OutputOf::Body),
                    ..cx.late().within(frame)
                },
                &entry.node,
                "until",
            )
        });
        let max = self.small(loop_map, "max", 1, 1_000_000);
        let on_max = loop_map
            .get("on_max")
            .and_then(|entry| self.choice(&entry.node, "on_max", &["fail", "return"]));
        let on_max = match (on_max, &until) {
            (Some("return"), _) | (None, None) => OnMax::Return,
            (Some(_), _) | (None, Some(_)) => OnMax::Fail,
        };
        Some(graph::Kind::Repeat(Box::new(Repeat {
            carry,
            until,
            max: max? as u32,
            on_max,
            body: body?,
        })))
    }

    pub(crate) fn switch(&mut self, cx: Cx, id: StepId, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("switch")?;
        let on = self.bare(cx, &entry.node, "switch", Want::Any);
        if let Some((_, site)) = &on {
            self.info_mut(id).main = Some(*site);
        }
        let mut cases = Vec::new();
        let written = match map.get("cases") {
            Some(entry) if entry.node.list().is_some() => {
                let message = "`cases` takes a map, and this is a list";
                let problem = Problem::new(codes::WRONG_SHAPE, entry.node.span, message);
                self.problem(problem.hint(
                    "the value is the key: `cases: { billing: { set: 1 } }`; conditions of their own are `when` on steps",
                ));
                None
            }
            Some(entry) => self.map(&entry.node, "cases"),
            None => {
                let problem =
                    Problem::new(codes::MISSING_KEY, entry.key, "a `switch` needs `cases`");
                self.problem(problem.hint("add `cases: { value: { set: … } }`"));
                None
            }
        };
        for (value, entry) in written.into_iter().flatten() {
            let step = self.case(cx, id, &format!("case[{value}]"), &entry.node);
            self.info_mut(step).name_span = entry.key;
            cases.push((parse_scalar(value), step));
        }
        let otherwise = map
            .get("else")
            .map(|entry| self.case(cx, id, "else", &entry.node));
        let (on, _) = on?;
        Some(graph::Kind::Switch(Box::new(Switch {
            on,
            cases,
            otherwise,
        })))
    }

    /// A case is a step; a list is short for a group.
    fn case(&mut self, cx: Cx, id: StepId, name: &str, node: &Node) -> StepId {
        if let Value::List(_) = node.value {
            let entry = Entry {
                key: node.span,
                node: node.clone(),
            };
            let group = Node::made(
                Value::Map(Map::from_iter([("steps".to_owned(), entry)])),
                node.span,
            );
            return self.hidden_step(id, name, cx.frame, &group, Part::Case);
        }
        self.hidden_step(id, name, cx.frame, node, Part::Case)
    }

    pub(crate) fn race(&mut self, cx: Cx, id: StepId, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("race")?;
        if let Value::List(_) = entry.node.value {
            let message = "`race` takes a map of steps, and this is a list";
            let problem = Problem::new(codes::WRONG_SHAPE, entry.node.span, message);
            self.problem(
                problem
                    .hint("the name of a step is its key: `race: { first: { … }, second: { … } }`"),
            );
            return None;
        }
        let body = self.body(self.host(cx, cx.frame), &entry.node, None)?;
        self.info_mut(id).body = Some(body);
        Some(graph::Kind::Race(body))
    }

    pub(crate) fn call(
        &mut self,
        cx: Cx,
        id: StepId,
        map: &Map,
        _typed: bool,
    ) -> Option<graph::Kind> {
        let entry = map.get("flow")?;
        let name = self.plain_text(&entry.node, "flow")?.to_owned();
        let callee = self.find_flow(cx.flow, &name, entry.node.span);
        let input = callee.map(|callee| self.flows[callee].input.clone());
        let want = match &input {
            Some(ty) => Want::Type {
                ty: ty.clone(),
                code: codes::MISFIT,
                what: format!("flow `{name}` takes"),
            },
            None => Want::Any,
        };
        let with = match map.get("with") {
            Some(with) => {
                self.value(cx, &with.node, want, Places::default())
                    .map(|(value, site)| {
                        self.info_mut(id).main = Some(site);
                        value
                    })
            }
            None => {
                self.no_arguments(input.as_ref(), &format!("flow `{name}`"), entry.node.span);
                Some(crate::expr::ValueTemplate::constant(serde_json::json!({})))
            }
        };
        let max_depth = self.small(map, "max_depth", 1, 64);
        let callee = callee?;
        self.flows[cx.flow].calls.push(super::flow::Call {
            callee,
            bounded: max_depth.is_some(),
            span: entry.node.span,
        });
        Some(graph::Kind::Flow(FlowCall {
            flow: FlowId(callee as u32),
            with: with?,
            max_depth: max_depth.map_or(CALL_DEPTH_DEFAULT, |depth| depth as u32),
        }))
    }

    /// The step that a body belongs to, if it is one's.
    pub(crate) fn scope_of(&self, body: BodyId) -> Option<StepId> {
        match self.body_info[body.0 as usize].owner {
            Owner::Step(step) => Some(step),
            Owner::Flow(_) => None,
        }
    }
}

/// A value as an expression: JSON, but for the names of nothing.
fn as_expression(value: &serde_json::Value) -> String {
    use serde_json::Value as Json;
    match value {
        Json::Null => "none".to_owned(),
        Json::Bool(_) | Json::Number(_) | Json::String(_) => value.to_string(),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(as_expression).collect();
            format!("[{}]", items.join(", "))
        }
        Json::Object(map) => {
            let fields: Vec<String> = map
                .iter()
                .map(|(key, value)| {
                    format!(
                        "{}: {}",
                        crate::lang::diagnostic::quoted(key),
                        as_expression(value)
                    )
                })
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}
