//! Streams: when a `for_each` takes items of a producer that is still at work, and what the producer's end means.
//!
//! ```text
//! pending --first items, everything else is there--> open: takes items as they come
//!     producer succeeded: items compared, steps that were kept back go on, failed items count
//!     producer did not:   everything below is stopped, the `for_each` is skipped
//! ```

use std::sync::Arc;

use super::Turning;
use crate::event::{Attempt, Datum, Event, Node, Settled, Skip, Slot as ValueSlot, Stop};
use crate::expr::EvalError;
use crate::graph::{ForEach, Items, Kind, StepDef};
use crate::run::state::{Flow, Phase};
use crate::types::Field;
use crate::value::Val;

impl Turning<'_> {
    /// An attempt streamed items. Beyond the limit of a `for_each` they are left to the value.
    pub(super) fn chunk(&mut self, attempt: Attempt, field: Arc<str>, mut items: Vec<Val>) {
        let Attempt { node, number } = attempt;
        let is_known = (node as usize) < self.state.nodes.len();
        if !is_known || self.flight_number(node) != Some(number) {
            return;
        }
        let extra = self.state.node(node).extra.as_deref();
        let there = extra.and_then(|extra| extra.streamed.get(&field));
        let most = self.state.terms.limits.for_each_items_max as usize;
        items.truncate(most.saturating_sub(there.map_or(0, Vec::len)));
        if items.is_empty() {
            return;
        }
        let items = self.with_defaults(node, &field, items);
        self.emit(Event::Streamed { node, field, items });
    }

    /// Items as the contract of their producer will make them. What does not fit will fail there.
    fn with_defaults(&self, node: Node, field: &str, items: Vec<Val>) -> Vec<Val> {
        let step = self.state.written(node);
        let list = match (&step.kind, &step.returns) {
            (Kind::Run(_), _) | (_, None) => return items,
            (_, Some(returns)) => returns.field(field),
        };
        let Field::Found(list) = list else {
            return items;
        };
        let Field::Found(ty) = list.item() else {
            return items;
        };
        let held = |item: Val| ty.accepts(&item).unwrap_or(item);
        items.into_iter().map(held).collect()
    }

    /// True when all that a step waits for is a producer whose first items are there.
    pub(super) fn may_take_ahead(&self, node: Node, step: &StepDef, unmet: u32) -> bool {
        let Kind::ForEach(spec) = &step.kind else {
            return false;
        };
        matches!(spec.items, Items::Stream { ahead: true, .. })
            && unmet == 1
            && self.is_producing(node)
    }

    /// True when the producer of a `for_each` is at work and has streamed something.
    pub(super) fn is_producing(&self, node: Node) -> bool {
        let Some((producer, field)) = self.state.source(node) else {
            return false;
        };
        let producer = self.state.node(producer);
        producer.phase == Phase::Open
            && producer
                .extra
                .as_ref()
                .is_some_and(|extra| extra.streamed.contains_key(&field))
    }

    /// True when a step takes the items of a producer that has not come to its end.
    pub(super) fn lacks_items(&self, node: Node) -> bool {
        let source = self.state.source(node);
        source.is_some_and(|(producer, _)| self.state.settled(producer).is_none())
    }

    /// The items of a producer that succeeded.
    pub(super) fn produced_items(&self, node: Node) -> Result<Datum, EvalError> {
        let (producer, field) = self
            .state
            .source(node)
            .expect("only a `for_each` over a stream has a producer");
        let activation = self.state.node(producer);
        let name = || self.state.graph.step(activation.step).name.clone();
        let value = activation.value.as_ref();
        let value = value.ok_or_else(|| EvalError::Absent { step: name() })?;
        if value.get_path(&[&field]).is_none() {
            let message = format!("the value of the stream has no field `{field}`");
            return Err(EvalError::Failed {
                message,
                offset: 0,
                pointer: String::new(),
            });
        }
        Ok(Datum::Ref {
            node: producer,
            slot: ValueSlot::Value,
            at: vec![field],
        })
    }

    /// The producer of an open stream gave more, or came to its end.
    pub(super) fn look_at_stream(&mut self, node: Node) {
        if self.is_ending(node) {
            return;
        }
        let (producer, field) = self
            .state
            .source(node)
            .expect("only a `for_each` over a stream is open to one");
        match self.state.settled(producer) {
            None => self.take_items(node, producer, &field),
            Some(Settled::Succeeded) => self.end_stream(node),
            Some(Settled::Failed | Settled::Skipped | Settled::Cancelled) => {
                self.stop(node, Stop::Cancelled);
            }
        }
    }

    /// Takes what came since the last look. A new attempt begins again, and what it repeats is there already.
    fn take_items(&mut self, node: Node, producer: Node, field: &str) {
        let graph = self.state.graph.clone();
        let spec = self.spec(&graph, node);
        let Some(extra) = self.state.node(producer).extra.as_deref() else {
            return;
        };
        let streamed = extra.streamed.get(field).map_or(&[][..], Vec::as_slice);
        let own = self.state.node(node).extra.as_deref();
        let intake = own.and_then(|own| own.intake.as_ref());
        let seen = match intake {
            Some(intake) if intake.attempt == extra.attempts => intake.seen as usize,
            Some(_) | None => 0,
        };
        let fresh = streamed.get(seen..).unwrap_or_default();
        if fresh.is_empty() {
            return;
        }
        let at = self.differing(node, seen, fresh);
        let values = at.iter().map(|index| streamed[*index as usize].clone());
        // A key that cannot be made is an error when the item is final.
        let Ok(keys) = self.item_keys(node, spec, values) else {
            return;
        };
        self.emit(Event::ItemsTaken { node, at, keys });
    }

    /// Indexes, from the first one on, at which a `for_each` has no item or another one.
    fn differing(&self, node: Node, first: usize, items: &[Val]) -> Vec<u32> {
        let own = self.state.node(node).extra.as_deref();
        let listed = own.map_or(&[][..], |own| own.listed_kids.as_slice());
        let is_same = |index: usize, item: &Val| {
            let there = listed.get(index).map(|there| self.state.node(*there));
            let taken = there.and_then(|there| there.extra.as_ref()?.taken.as_ref());
            taken.is_some_and(|taken| taken.value == *item)
        };
        (first..)
            .zip(items)
            .filter(|(index, item)| !is_same(*index, item))
            .map(|(index, _)| index as u32)
            .collect()
    }

    /// The producer succeeded: its value says which items there are.
    fn end_stream(&mut self, node: Node) {
        let graph = self.state.graph.clone();
        let spec = self.spec(&graph, node);
        let with = match self.produced_items(node) {
            Ok(with) => with,
            Err(error) => return self.stream_broken(node, "for_each", error),
        };
        let list = match self.listed(node, &with, true) {
            Ok(list) => list,
            Err(failure) => return self.ladder(node, failure, false),
        };
        let at = self.differing(node, 0, &list);
        let values = at.iter().map(|index| list[*index as usize].clone());
        let keys = match self.item_keys(node, spec, values) {
            Ok(keys) => keys,
            Err(error) => return self.stream_broken(node, "item_key", error),
        };
        self.emit(Event::StreamEnded {
            node,
            with,
            at,
            keys,
        });
        if let Some(error) = self.failed_child(node) {
            self.fail_scope(node, error);
        }
    }

    /// An open `for_each` is never skipped: what cannot be evaluated fails it.
    fn stream_broken(&mut self, node: Node, field: &str, error: EvalError) {
        let message = match error {
            EvalError::Absent { step } => format!("step `{step}` did not run"),
            EvalError::Failed { message, .. } => message,
        };
        let failure = self.broken(node, field, &message);
        self.ladder(node, failure, false);
    }

    fn spec<'g>(&self, graph: &'g crate::graph::Graph, node: Node) -> &'g ForEach {
        match &graph.step(self.state.node(node).step).kind {
            Kind::ForEach(spec) => spec,
            other => unreachable!("`{}` takes no items", other.name()),
        }
    }

    /// True when a step may not begin yet, or never: it is skipped then.
    pub(super) fn is_kept_back(&mut self, node: Node) -> bool {
        if !self.state.kept_back.contains(&node) {
            return false;
        }
        if self.state.is_forsaken(node) {
            self.skip(node, Skip::ScopeEnded);
        }
        true
    }

    /// Why a `for_each` that took items ahead ends as if it had never begun: its producer did not succeed.
    pub(super) fn lost_producer(&self, node: Node) -> Option<Skip> {
        let extra = self.state.node(node).extra.as_deref()?;
        let is_cut = extra.intake.as_ref()?.phase == Flow::Cut;
        if !is_cut || extra.stopping != Some(Stop::Cancelled) {
            return None;
        }
        let (producer, _) = self.state.source(node)?;
        let activation = self.state.node(producer);
        let name = self.state.graph.step(activation.step).name.clone();
        match self.state.settled(producer)? {
            Settled::Failed => Some(Skip::UpstreamFailed(name)),
            Settled::Skipped => Some(Skip::Uses(name)),
            // Alone, or with everything around it.
            Settled::Cancelled => {
                (!self.is_stopping(activation.parent)).then_some(Skip::UpstreamFailed(name))
            }
            Settled::Succeeded => None,
        }
    }
}
