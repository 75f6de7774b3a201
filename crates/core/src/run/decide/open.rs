//! Opening: what a step does when its turn has come.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Turning;
use crate::effect::{ErrorClass, Failure};
use crate::event::{Datum, Event, Node, Skip, Stop};
use crate::expr::EvalError;
use crate::graph::{Fail, FlowCall, ForEach, Items, Kind, Repeat, StepDef, Switch};
use crate::run::apply::stream::items_of;
use crate::run::env::{Env, shared};
use crate::run::state::Role;
use crate::value::Val;

impl Turning<'_> {
    /// Opens an item, a round, a handler or a `finally`.
    pub(super) fn open_block(&mut self, node: Node) {
        let path = self.state.path(node);
        self.emit(Event::Opened {
            node,
            path,
            with: None,
            keys: None,
            case: None,
        });
    }

    fn emit_opened(&mut self, node: Node, with: Option<Datum>) {
        let path = self.state.path(node);
        self.emit(Event::Opened {
            node,
            path,
            with,
            keys: None,
            case: None,
        });
    }

    /// Opens a step: joins are met and `when` is true. Also the entry for repairs and fallbacks.
    pub(super) fn open(&mut self, node: Node) {
        if let Some(failure) = self.too_many(node) {
            return self.ladder(node, failure, false);
        }
        let graph = self.state.graph.clone();
        let step = graph.step(self.state.node(node).step);
        match &step.kind {
            Kind::Set(value) => match Env::of(self.state, node).value(value) {
                Ok(value) => self.accept(node, Datum::Value(value)),
                Err(error) => self.not_evaluated(node, "set", error),
            },
            Kind::Return(value) => self.open_return(node, value),
            Kind::Fail(fail) => self.open_fail(node, fail),
            Kind::Human(human) => {
                self.open_deadline(node, step);
                self.open_human(node, human);
            }
            Kind::Wait(wait) => {
                self.open_deadline(node, step);
                self.open_wait(node, wait);
            }
            Kind::Model(_) | Kind::Tool(_) | Kind::Run(_) => self.open_effect(node, step),
            Kind::Steps(_) | Kind::Race(_) => self.emit_opened(node, None),
            Kind::Flow(call) => self.open_flow(node, call),
            Kind::ForEach(spec) => self.open_for_each(node, spec),
            Kind::Repeat(spec) => self.open_repeat(node, spec),
            Kind::Switch(switch) => self.open_switch(node, switch),
        }
    }

    /// Leaves record their opening only when something hangs on its time.
    fn open_deadline(&mut self, node: Node, step: &StepDef) {
        if step.deadline.is_some() {
            self.emit_opened(node, None);
        }
    }

    fn open_effect(&mut self, node: Node, step: &StepDef) {
        let waits = self.held
            || step.deadline.is_some()
            || !step.leaf.concurrency.is_empty()
            || self.is_budgeted(node);
        if waits {
            self.emit_opened(node, None);
        }
        self.try_attempt(node);
    }

    fn too_many(&self, node: Node) -> Option<Failure> {
        let limits = &self.state.terms.limits;
        let depth = self.depth(node);
        let message = if depth > limits.depth_max {
            format!(
                "nested {depth} deep; the limit is {} (depth_max)",
                limits.depth_max
            )
        } else if self.state.nodes.len() > limits.activations_max as usize {
            format!(
                "the run has {} activations; the limit is {} (activations_max)",
                self.state.nodes.len(),
                limits.activations_max
            )
        } else {
            return None;
        };
        let mut failure = Failure::new(ErrorClass::Exhausted, message).with_code("limit");
        failure.step = Some(self.state.path(node));
        Some(failure)
    }

    fn depth(&self, node: Node) -> u32 {
        let mut depth = 0;
        let mut at = node;
        while at != 0 {
            depth += 1;
            at = self.state.node(at).parent;
        }
        depth
    }

    fn open_return(&mut self, node: Node, value: &crate::expr::ValueTemplate) {
        let value = match Env::of(self.state, node).value(value) {
            Ok(value) => value,
            Err(error) => return self.not_evaluated(node, "return", error),
        };
        let flow = self.state.flow_of(self.state.node(node).parent);
        self.emit(Event::Returned {
            node: flow,
            value: Datum::Value(value.clone()),
        });
        self.accept(node, Datum::Value(value));
        for child in self.state.main_children(flow) {
            if self.state.settled(child).is_none() {
                self.stop_child(flow, child, Stop::Returned);
            }
        }
        self.state
            .agenda
            .push_back(crate::run::state::Task::Conclude(flow));
    }

    fn open_fail(&mut self, node: Node, fail: &Fail) {
        let env = Env::of(self.state, node);
        let code = fail.code.as_ref().map(|code| env.render(code)).transpose();
        match (env.render(&fail.message), code) {
            (Ok(message), Ok(code)) => {
                let mut failure = Failure::new(fail.class, message);
                failure.code = code.map(shared);
                failure.step = Some(self.state.path(node));
                self.ladder(node, failure, true);
            }
            (Err(error), _) | (_, Err(error)) => self.not_evaluated(node, "fail", error),
        }
    }

    fn open_flow(&mut self, node: Node, call: &FlowCall) {
        let mut depth = 0;
        let mut at = node;
        while at != 0 {
            at = self.state.node(at).parent;
            let activation = self.state.node(at);
            let same = activation.role == Role::Step
                && matches!(&self.state.graph.step(activation.step).kind, Kind::Flow(outer) if outer.flow == call.flow);
            depth += u32::from(same);
        }
        if depth >= call.max_depth {
            let message = format!(
                "flow `{}` is called {} deep; `max_depth` is {}",
                self.state.graph.flow(call.flow).name,
                depth + 1,
                call.max_depth
            );
            let mut failure = Failure::new(ErrorClass::Exhausted, message).with_code("max_depth");
            failure.step = Some(self.state.path(node));
            return self.ladder(node, failure, false);
        }
        let input = match Env::of(self.state, node).value(&call.with) {
            Ok(input) => input,
            Err(error) => return self.not_evaluated(node, "with", error),
        };
        match self.state.graph.flow(call.flow).input.accepts(&input) {
            Ok(input) => self.emit_opened(node, Some(Datum::Value(input))),
            Err(problems) => {
                let message = crate::run::value_problems("the input of the flow", &problems);
                let mut failure = Failure::new(ErrorClass::InvalidInput, message);
                failure.step = Some(self.state.path(node));
                self.ladder(node, failure, false);
            }
        }
    }

    fn open_for_each(&mut self, node: Node, spec: &ForEach) {
        let items = match &spec.items {
            Items::List(expr) => Env::of(self.state, node).expr_datum(expr),
            Items::Stream { ahead: true, .. } if self.is_producing(node) => {
                return self.emit_opened(node, None);
            }
            Items::Stream { .. } => self.produced_items(node),
        };
        let items = match items {
            Ok(items) => items,
            Err(error) => return self.not_evaluated(node, "for_each", error),
        };
        let is_stream = matches!(spec.items, Items::Stream { .. });
        let list = match self.listed(node, &items, is_stream) {
            Ok(list) => list,
            Err(failure) => return self.ladder(node, failure, false),
        };
        let keys = match self.item_keys(node, spec, list.iter().cloned()) {
            Ok(keys) => keys,
            Err(error) => return self.not_evaluated(node, "item_key", error),
        };
        let path = self.state.path(node);
        self.emit(Event::Opened {
            node,
            path,
            with: Some(items),
            keys,
            case: None,
        });
    }

    /// The items that a value means, unless there are too many.
    pub(super) fn listed(
        &self,
        node: Node,
        items: &Datum,
        is_stream: bool,
    ) -> Result<Vec<Val>, Failure> {
        let value = self.state.resolve(items);
        let list = match value.json() {
            Value::String(_) if !is_stream => None,
            _ => items_of(&value),
        };
        let Some(list) = list else {
            let message = format!("it is {}, not a list", crate::run::kind_of(value.json()));
            return Err(self.broken(node, "for_each", &message));
        };
        let (count, most) = (list.len(), self.state.terms.limits.for_each_items_max);
        if count > most as usize {
            let message =
                format!("`for_each` has {count} items; the limit is {most} (for_each_items_max)");
            let mut failure = Failure::new(ErrorClass::Exhausted, message).with_code("limit");
            failure.step = Some(self.state.path(node));
            return Err(failure);
        }
        Ok(list)
    }

    /// Keys of new items; a key that was there before gets its count, so that paths stay distinct.
    pub(super) fn item_keys(
        &self,
        node: Node,
        spec: &ForEach,
        items: impl Iterator<Item = Val>,
    ) -> Result<Option<Vec<Arc<str>>>, EvalError> {
        let Some(key) = &spec.item_key else {
            return Ok(None);
        };
        let extra = self.state.node(node).extra.as_deref();
        let intake = extra.and_then(|extra| extra.intake.as_ref());
        let used = |key: &str| intake.and_then(|intake| intake.keys.get(key).copied());
        let mut seen = BTreeMap::<Arc<str>, u32>::new();
        let mut keys = Vec::with_capacity(items.size_hint().0);
        for value in items {
            let env = Env::of(self.state, node).bind(&spec.bind, value);
            let text = match env.eval(key)? {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let text: Arc<str> = text.replace(['/', '[', ']', '~'], "_").into();
            let before = seen.get(&text).copied().or_else(|| used(&text));
            let mut count = before.unwrap_or_default() + 1;
            let mut unique = text.clone();
            while count > 1 || seen.contains_key(&unique) || used(&unique).is_some() {
                unique = format!("{text}#{count}").into();
                if !seen.contains_key(&unique) && used(&unique).is_none() {
                    break;
                }
                count += 1;
            }
            seen.insert(text, count);
            seen.entry(unique.clone()).or_insert(1);
            keys.push(unique);
        }
        Ok(Some(keys))
    }

    fn open_repeat(&mut self, node: Node, spec: &Repeat) {
        let carry = spec
            .carry
            .as_ref()
            .map(|carry| Env::of(self.state, node).datum(carry))
            .transpose();
        match carry {
            Ok(carry) => self.emit_opened(node, carry),
            Err(error) => self.not_evaluated(node, "carry", error),
        }
    }

    fn open_switch(&mut self, node: Node, switch: &Switch) {
        let on = match Env::of(self.state, node).eval(&switch.on) {
            Ok(on) => on,
            Err(error) => return self.not_evaluated(node, "switch", error),
        };
        let chosen = switch.cases.iter().position(|(case, _)| *case == on);
        if chosen.is_none() && switch.otherwise.is_none() {
            let message = format!("no case of `switch` is {on}, and there is no `else`");
            let mut failure = Failure::new(ErrorClass::InvalidInput, message).with_code("no_case");
            failure.step = Some(self.state.path(node));
            return self.ladder(node, failure, false);
        }
        let case = chosen.unwrap_or(switch.cases.len()) as u32;
        let path = self.state.path(node);
        self.emit(Event::Opened {
            node,
            path,
            with: None,
            keys: None,
            case: Some(case),
        });
    }

    /// A block or group without a value of its own because a step that it shows did not run.
    pub(super) fn skip_scope(&mut self, node: Node, step: Arc<str>) {
        self.skip(node, Skip::Uses(step));
    }
}
