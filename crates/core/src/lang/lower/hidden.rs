//! Gates, handlers and compensations: hidden steps around a step.

use std::sync::Arc;

use super::body::Host;
use super::step::Part;
use super::text::Places;
use super::{Bind, Cx, FrameId, Lower, OutputOf, Want};
use crate::graph::{Catch, Gate, StepId};
use crate::lang::diagnostic::Problem;
use crate::lang::source::Span;
use crate::lang::tree::{Entry, Map, Node, Value};
use crate::lang::{codes, keys};

/// What a judge is asked when the flow does not say. The rubric is the system message.
const JUDGE_PROMPT: &str = "You are a judge; the system message is the rubric. Say whether the value below passes it: `pass`, \
    a `reason` in one sentence, and a `score` from 0 to 10, or null.\n\nThe value:\n{{ output }}";

impl Lower<'_> {
    fn output_frame(&mut self, frame: FrameId, id: StepId) -> FrameId {
        self.bind(frame, vec![("output".to_owned(), Bind::Output(id))])
    }

    /// `gates:`, in order.
    pub(crate) fn gates(&mut self, cx: Cx, id: StepId, node: &Node) -> Vec<Gate> {
        let frame = self.output_frame(cx.frame, id);
        let cx = cx.within(frame);
        let mut gates = Vec::new();
        for (index, (map, span)) in self.table_maps(node, &keys::GATE).into_iter().enumerate() {
            gates.extend(self.gate(cx, id, &format!("gate[{index}]"), map, span));
        }
        gates
    }

    fn gate(&mut self, cx: Cx, id: StepId, name: &str, map: &Map, span: Span) -> Option<Gate> {
        const KINDS: [&str; 4] = ["expr", "schema", "run", "judge"];
        let given: Vec<&str> = KINDS
            .into_iter()
            .filter(|key| map.contains_key(*key))
            .collect();
        let [kind] = given.as_slice() else {
            let problem = Problem::new(
                codes::KIND,
                span,
                "a gate is one of `expr`, `schema`, `run` and `judge`",
            );
            self.problem(problem.hint("write each as an entry of its own: `- expr: …`"));
            return None;
        };
        let entry = &map[*kind];
        match *kind {
            "expr" => self.condition(cx, &entry.node, "expr").map(Gate::Expr),
            "schema" => self.read_type(cx.flow, &entry.node).map(Gate::Schema),
            "run" => {
                let mut step = map.clone();
                // A verification may be repeated: it looks, it does not act.
                let read = Node::made(Value::Text("read".to_owned()), entry.key);
                step.insert(
                    "effect".to_owned(),
                    Entry {
                        key: entry.key,
                        node: read,
                    },
                );
                let node = Node::made(Value::Map(step), span);
                Some(Gate::Run(self.hidden_step(
                    id,
                    name,
                    cx.frame,
                    &node,
                    Part::Leaf,
                )))
            }
            _ => {
                let judge = self.table_map(&entry.node, &keys::JUDGE)?;
                let node = judge_step(judge, entry.node.span);
                Some(Gate::Judge(self.hidden_step(
                    id,
                    name,
                    cx.frame,
                    &node,
                    Part::Leaf,
                )))
            }
        }
    }

    /// `catch:`, in order.
    pub(crate) fn catch(&mut self, cx: Cx, node: &Node) -> Vec<Catch> {
        let frame = self.bind(cx.frame, vec![("error".to_owned(), Bind::Error)]);
        let cx = cx.within(frame);
        let mut handlers = Vec::new();
        for (map, span) in self.table_maps(node, &keys::CATCH) {
            let errors = map
                .get("errors")
                .map(|entry| self.errors(&entry.node, "errors"));
            let output = map.get("output").map(|entry| &entry.node);
            match map.get("steps") {
                Some(entry) => {
                    let host = Host {
                        flow: cx.flow,
                        owner: cx.owner,
                        frame,
                    };
                    if let Some(body) = self.body(host, &entry.node, output) {
                        handlers.push(Catch {
                            errors,
                            body: Some(body),
                            output: None,
                        });
                    }
                }
                None => {
                    match output {
                        Some(node) => {
                            let cx = Cx {
                                output_of: Some(OutputOf::Catch),
                                ..cx
                            };
                            if let Some((output, _)) =
                                self.value(cx, node, Want::Any, Places::default())
                            {
                                handlers.push(Catch {
                                    errors,
                                    body: None,
                                    output: Some(Arc::new(output)),
                                });
                            }
                        }
                        None => {
                            let problem = Problem::new(
                                codes::MISSING_KEY,
                                span,
                                "a handler needs `output` or `steps`",
                            );
                            self.problem(problem.hint("say what the value is then: `output: …`; `output: null` is one, too"));
                        }
                    }
                }
            }
        }
        handlers
    }

    /// `compensate:`.
    pub(crate) fn compensate(&mut self, cx: Cx, id: StepId, node: &Node) -> Option<StepId> {
        let frame = self.output_frame(cx.frame, id);
        Some(self.hidden_step(id, "compensate", frame, node, Part::Leaf))
    }
}

/// A judge as a model step.
fn judge_step(judge: &Map, span: Span) -> Node {
    let made = |value: Value| Entry {
        key: span,
        node: Node::made(value, span),
    };
    let text = |text: &str| made(Value::Text(text.to_owned()));
    let mut step = Map::new();
    for (key, entry) in judge {
        let key = if key == "rubric" { "system" } else { key };
        step.insert(key.to_owned(), entry.clone());
    }
    step.entry("prompt".to_owned())
        .or_insert_with(|| text(JUDGE_PROMPT));
    let verdict = [
        ("pass", "boolean"),
        ("reason", "string"),
        ("score", "number | null"),
    ];
    let verdict = verdict
        .into_iter()
        .map(|(name, ty)| (name.to_owned(), text(ty)))
        .collect();
    step.insert("returns".to_owned(), made(Value::Map(verdict)));
    Node::made(Value::Map(step), span)
}
