//! What a scope comes to: its value, the next round, or why there is none.

use std::sync::Arc;

use super::Turning;
use crate::effect::{ErrorClass, Failure};
use crate::event::{Datum, Event, Node, Settled, Skip, Slot as ValueSlot};
use crate::expr::EvalError;
use crate::graph::{BodyId, Kind, OnMax};
use crate::mutant::{self, Mutant};
use crate::run::env::{Env, Overlay};
use crate::run::state::Role;
use crate::value::Val;

/// What a scope has come to when its children are settled.
pub(super) enum Made {
    Value(Datum),
    Failed(Failure),
    Skipped(Arc<str>),
    /// It goes on by itself (the next round).
    More,
}

impl Turning<'_> {
    /// The value of a scope whose children are all settled.
    pub(super) fn make(&mut self, node: Node) -> Made {
        let graph = self.state.graph.clone();
        let activation = self.state.node(node);
        if activation
            .extra
            .as_ref()
            .is_some_and(|extra| extra.returned.is_some())
        {
            return Made::Value(Datum::Ref {
                node,
                slot: ValueSlot::Returned,
                at: Vec::new(),
            });
        }
        match activation.role {
            Role::Root(flow) => self.body_value(node, graph.flow(flow).body, true),
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => {
                self.body_value(node, self.state.block_body(node), false)
            }
            Role::Step => match &graph.step(activation.step).kind {
                Kind::Steps(body) => self.body_value(node, *body, self.is_called_scope(node)),
                Kind::Flow(call) => {
                    let flow = graph.flow(call.flow);
                    self.body_value(node, flow.body, flow.scope.is_none())
                }
                Kind::ForEach(_) => Made::Value(Datum::Items { node }),
                Kind::Repeat(spec) => {
                    self.round_ended(node, spec.until.as_ref(), spec.max, spec.on_max)
                }
                Kind::Switch(_) => self.only_child(activation.kids.0),
                Kind::Race(_) => self.race_value(node),
                other => unreachable!("`{}` is not a scope", other.name()),
            },
        }
    }

    /// True for the scope around the steps of a called flow: its output is the flow's.
    fn is_called_scope(&self, node: Node) -> bool {
        let activation = self.state.node(node);
        let caller = self.state.node(activation.parent);
        match &self.state.graph.step(caller.step).kind {
            Kind::Flow(call) if caller.role == Role::Step => {
                self.state.graph.flow(call.flow).scope == Some(activation.step)
            }
            _ => false,
        }
    }

    fn body_value(&self, node: Node, body: BodyId, is_flow: bool) -> Made {
        let body = self.state.graph.body(body);
        match &body.output {
            Some(output) => match Env::inside(self.state, node).datum(output) {
                Ok(datum) => Made::Value(datum),
                Err(EvalError::Absent { step }) if is_flow => Made::Failed(self.broken(
                    node,
                    "output",
                    &format!("step `{step}` did not run; guard it with `default`"),
                )),
                Err(EvalError::Absent { step }) => Made::Skipped(step),
                Err(EvalError::Failed { message, .. }) => {
                    Made::Failed(self.broken(node, "output", &message))
                }
            },
            None if body.steps.len() == 1 => match self.only_child(self.state.kid(node, 0)) {
                // A flow has a value whatever was skipped in it.
                Made::Skipped(_) if is_flow => Made::Value(Datum::Value(Val::null())),
                made => made,
            },
            None => Made::Value(Datum::Value(Val::null())),
        }
    }

    fn only_child(&self, child: Node) -> Made {
        match self.state.settled(child) {
            Some(Settled::Succeeded) => Made::Value(Datum::Ref {
                node: child,
                slot: ValueSlot::Value,
                at: Vec::new(),
            }),
            _ => Made::Skipped(
                self.state
                    .graph
                    .step(self.state.node(child).step)
                    .name
                    .clone(),
            ),
        }
    }

    fn race_value(&self, node: Node) -> Made {
        let extra = self.state.node(node).extra.as_deref();
        if let Some(winner) = extra.and_then(|extra| extra.winner) {
            let name = &self.state.graph.step(self.state.node(winner).step).name;
            let value =
                serde_json::json!({ "winner": name, "value": self.state.node(winner).value });
            return Made::Value(Datum::Value(value.into()));
        }
        let errors = self
            .state
            .main_children(node)
            .filter_map(|child| self.state.node(child).extra.as_ref()?.error.clone());
        match errors.last() {
            Some(error) => Made::Failed(error),
            None => {
                let mut failure =
                    Failure::new(ErrorClass::JoinUnmet, "no step of the race ran to its end");
                failure.step = Some(self.state.path(node));
                Made::Failed(failure)
            }
        }
    }

    /// A round of a `repeat` is over: the last one, or the next begins.
    fn round_ended(
        &mut self,
        node: Node,
        until: Option<&crate::expr::Expr>,
        max: u32,
        on_max: OnMax,
    ) -> Made {
        let round = self.state.node(node).kids.0;
        let count = self.state.extra(node).rounds.len() as u32;
        let max = max + u32::from(mutant::is(Mutant::RoundBeyondMax));
        let datum = match self.only_round(round) {
            Ok(datum) => datum,
            Err(made) => return made,
        };
        let output = self.state.resolve(&datum);
        let overlay = Overlay {
            output: Some(output),
            ..Overlay::default()
        };
        let done = match until.map(|until| {
            Env::inside(self.state, round)
                .with(overlay)
                .eval_bool(until)
        }) {
            None => false,
            Some(Ok(done)) => done,
            Some(Err(EvalError::Absent { step })) => {
                return Made::Failed(self.broken(
                    node,
                    "until",
                    &format!("step `{step}` did not run"),
                ));
            }
            Some(Err(EvalError::Failed { message, .. })) => {
                return Made::Failed(self.broken(node, "until", &message));
            }
        };
        if done || (count >= max && (until.is_none() || on_max == OnMax::Return)) {
            return Made::Value(datum);
        }
        if count >= max {
            let message = format!("`until` did not become true within {max} rounds");
            let mut failure = Failure::new(ErrorClass::Exhausted, message).with_code("max");
            failure.step = Some(self.state.path(node));
            return Made::Failed(failure);
        }
        self.emit(Event::RoundStarted { node, carry: datum });
        Made::More
    }

    fn only_round(&self, round: Node) -> Result<Datum, Made> {
        match self.state.settled(round) {
            Some(Settled::Succeeded) => Ok(Datum::Ref {
                node: round,
                slot: ValueSlot::Value,
                at: Vec::new(),
            }),
            _ => {
                let skip = self
                    .state
                    .node(round)
                    .extra
                    .as_ref()
                    .and_then(|extra| extra.skip.clone());
                match skip {
                    Some(Skip::Uses(step)) => Err(Made::Skipped(step)),
                    _ => Err(Made::Skipped(self.state.path(round))),
                }
            }
        }
    }
}
