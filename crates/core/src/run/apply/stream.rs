//! Streams: items that a `for_each` takes while their producer is still at work.
//!
//! Until the producer has succeeded each item is *provisional*: what is below it may compute and look at the world, and
//! must not change it. Steps that would are *kept back*. At the end the items of the producer's value are compared with those
//! that were taken: the same ones become final and their steps go on, the others are stale.

use std::sync::Arc;

use serde_json::Value;

use crate::event::{Datum, Node};
use crate::graph::{Graph, Items, Kind, StepDef, Wait};
use crate::run::state::{Activation, Flow, Intake, NOBODY, Phase, Role, Slot, State, Taken, Task};
use crate::value::Val;

/// What `for_each` iterates: the elements of a list, `{key, value}` of a map, the lines of a text.
pub(in crate::run) fn items_of(value: &Val) -> Option<Vec<Val>> {
    match value.json() {
        Value::Array(items) => Some(items.iter().cloned().map(Val::new).collect()),
        Value::Object(fields) => {
            let pair = |(key, value)| Val::new(serde_json::json!({ "key": key, "value": value }));
            Some(fields.iter().map(pair).collect())
        }
        Value::String(text) => Some(text.lines().map(|line| Val::new(line.into())).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Whether a step must not begin below an item that is not final: what it does can be noticed outside, or its clock
/// would run while it waits for the producer.
fn waits_for_final_items(graph: &Graph, step: &StepDef) -> bool {
    let by_itself = match &step.kind {
        Kind::Model(_) | Kind::Tool(_) | Kind::Run(_) => step.leaf.effect.must_be_durable(),
        Kind::Human(_) | Kind::Return(_) => true,
        Kind::Wait(Wait::Signal { .. }) => true,
        Kind::Wait(Wait::For(_) | Wait::Until(_)) | Kind::Set(_) | Kind::Fail(_) => false,
        Kind::Steps(_)
        | Kind::ForEach(_)
        | Kind::Repeat(_)
        | Kind::Switch(_)
        | Kind::Race(_)
        | Kind::Flow(_) => step.deadline.is_some(),
    };
    let mut fallbacks = step.fallback.iter();
    by_itself
        || step.compensate.is_some()
        || fallbacks.any(|step| waits_for_final_items(graph, graph.step(*step)))
}

impl State {
    /// The producer of a `for_each` over a stream, and the field that it takes.
    pub(in crate::run) fn source(&self, node: Node) -> Option<(Node, Arc<str>)> {
        let activation = self.node(node);
        if activation.role != Role::Step {
            return None;
        }
        match &self.graph.step(activation.step).kind {
            Kind::ForEach(spec) => match &spec.items {
                Items::Stream {
                    producer, field, ..
                } => Some((self.kid(activation.parent, *producer), field.clone())),
                Items::List(_) => None,
            },
            _ => None,
        }
    }

    /// Steps beside a producer that take items of one of its fields while it is at work.
    pub(in crate::run) fn takers(&self, producer: Node) -> Vec<(Node, Arc<str>)> {
        let activation = self.node(producer);
        if activation.role != Role::Step || activation.slot != Slot::Main {
            return Vec::new();
        }
        let Some(body) = self.body_of(activation.parent) else {
            return Vec::new();
        };
        let body = self.graph.body(body);
        let position = activation.position;
        let field = |at: u32| match &self.graph.step(body.steps[at as usize]).kind {
            Kind::ForEach(spec) => match &spec.items {
                Items::Stream {
                    producer,
                    field,
                    ahead: true,
                } if *producer == position => Some(field.clone()),
                Items::Stream { .. } | Items::List(_) => None,
            },
            _ => None,
        };
        let dependents = body.dependents.get(position as usize).into_iter().flatten();
        dependents
            .filter_map(|at| Some((self.kid(activation.parent, *at), field(*at)?)))
            .collect()
    }

    pub(in crate::run) fn streamed(&mut self, producer: Node, field: &Arc<str>, items: &[Val]) {
        let streamed = self.extra(producer).streamed.entry(field.clone());
        streamed.or_default().extend(items.iter().cloned());
        for (taker, wanted) in self.takers(producer) {
            if wanted == *field {
                self.agenda.push_back(Task::Decide(taker));
            }
        }
    }

    pub(in crate::run) fn open_intake(&mut self, node: Node) {
        let extra = self.extra(node);
        extra.intake = Some(Box::default());
        extra.listed_kids.clear();
        extra.failed_kids = 0;
        let owner = self.node_mut(node);
        owner.kids = (0, 0);
        owner.live = 0;
        self.streams.insert(node);
        self.took_ahead = true;
        self.agenda.push_back(Task::Decide(node));
    }

    pub(in crate::run) fn items_taken(
        &mut self,
        node: Node,
        at: &[u32],
        keys: Option<&[Arc<str>]>,
    ) {
        let (producer, field) = self
            .source(node)
            .expect("only a `for_each` over a stream takes items");
        let extra = self.node(producer).extra.as_deref();
        let extra = extra.expect("a producer that streamed has an attempt");
        let streamed = extra.streamed.get(&field).map_or(0, Vec::len);
        let attempt = extra.attempts;
        let values: Vec<Val> = at
            .iter()
            .map(|index| extra.streamed[&field][*index as usize].clone())
            .collect();
        let intake = self.intake(node);
        (intake.attempt, intake.seen) = (attempt, streamed as u32);
        self.put_items(node, at, keys, values);
    }

    pub(in crate::run) fn stream_ended(
        &mut self,
        node: Node,
        with: &Datum,
        at: &[u32],
        keys: Option<&[Arc<str>]>,
    ) {
        let items = items_of(&self.resolve(with)).expect("a stream ends with items");
        let values = at.iter().map(|index| items[*index as usize].clone());
        self.put_items(node, at, keys, values.collect());
        let gone = self.extra(node).listed_kids.split_off(items.len());
        self.node_mut(node).kids.1 = items.len() as u32;
        for item in gone {
            self.make_stale(node, item);
        }
        self.intake(node).phase = Flow::Whole;
        self.streams.remove(&node);
        for item in self.main_children(node) {
            let kept_back = std::mem::take(&mut self.taken(item).kept_back);
            for step in kept_back {
                self.let_go(step);
            }
        }
        self.agenda.push_back(Task::Conclude(node));
    }

    /// Activates items, in place of those that stand at their indexes.
    fn put_items(&mut self, node: Node, at: &[u32], keys: Option<&[Arc<str>]>, values: Vec<Val>) {
        let (step, again) = (self.node(node).step, self.again_of(node));
        for (nth, (index, value)) in at.iter().copied().zip(values).enumerate() {
            let key = keys.map(|keys| keys[nth].clone());
            if let Some(key) = &key {
                self.use_key(node, key);
            }
            let old = self.extra(node).listed_kids.get(index as usize).copied();
            let item = self.add(Activation {
                again,
                ..Activation::new(node, Role::Item(index), Slot::Main, step, index)
            });
            self.extra(item).taken = Some(Box::new(Taken {
                value,
                key,
                revision: old.map_or(0, |old| self.revision(old) + 1),
                kept_back: Vec::new(),
            }));
            match old {
                Some(old) => {
                    self.extra(node).listed_kids[index as usize] = item;
                    self.make_stale(node, old);
                }
                None => {
                    let listed = &mut self.extra(node).listed_kids;
                    assert_eq!(listed.len(), index as usize, "items come without a gap");
                    listed.push(item);
                }
            }
            self.intake(node).unopened.insert(index);
            self.node_mut(node).live += 1;
        }
        let count = self.extra(node).listed_kids.len();
        self.node_mut(node).kids.1 = count as u32;
        self.agenda.push_back(Task::Conclude(node));
    }

    /// An item is no item any more. What is under way below it is stopped; it counts in the limit until it ends.
    fn make_stale(&mut self, owner: Node, item: Node) {
        let activation = self.node_mut(item);
        activation.slot = Slot::Stale;
        let Role::Item(index) = activation.role else {
            unreachable!("only items of streams are taken back")
        };
        match activation.phase {
            Phase::Settled(state) => {
                if state == crate::event::Settled::Failed {
                    self.extra(owner).failed_kids -= 1;
                }
            }
            Phase::Pending | Phase::Open => {
                self.item_opened(owner, index);
                self.agenda.push_back(Task::Stale(item));
            }
        }
        self.look_at_kept_back(item);
    }

    /// A `for_each` fails or is cut short before its producer is done: no item becomes final.
    pub(in crate::run) fn cut_intake(&mut self, node: Node) {
        if !self.streams.remove(&node) {
            return;
        }
        self.intake(node).phase = Flow::Cut;
        for item in self.main_children(node) {
            self.look_at_kept_back(item);
        }
    }

    fn look_at_kept_back(&mut self, item: Node) {
        for step in std::mem::take(&mut self.taken(item).kept_back) {
            self.agenda.push_back(Task::Decide(step));
        }
    }

    /// An item left the queue of those that are not opened yet.
    pub(in crate::run) fn item_opened(&mut self, owner: Node, index: u32) {
        let extra = self.nodes[owner as usize].extra.as_deref_mut();
        if let Some(intake) = extra.and_then(|extra| extra.intake.as_mut()) {
            intake.unopened.remove(&index);
        }
    }

    /// The next item that is to be opened, and how many wait for that.
    pub(in crate::run) fn next_item(&self, node: Node) -> (Option<Node>, u32) {
        let activation = self.node(node);
        let extra = activation.extra.as_deref();
        if let Some(intake) = extra.and_then(|extra| extra.intake.as_ref()) {
            let next = intake.unopened.first();
            let next = next.map(|index| self.kid(node, *index));
            return (next, intake.unopened.len() as u32);
        }
        let (first, count) = activation.kids;
        let (next, passed) = extra.map_or((0, 0), |extra| (extra.next_item, extra.passed_items));
        let mut items = (first + next)..(first + count);
        let item = items.find(|item| passed == 0 || self.settled(*item).is_none());
        (item, count - next - passed)
    }

    /// Holds a new step back when it must not begin below a provisional item.
    pub(in crate::run) fn keep_back(&mut self, node: Node) {
        let activation = self.node(node);
        if !self.took_ahead || activation.slot == Slot::Compensation {
            return;
        }
        if activation.phase != Phase::Pending
            || self.kept_back.contains(&node)
            || !waits_for_final_items(&self.graph, self.graph.step(activation.step))
        {
            return;
        }
        if let Some(item) = self.provisional(node) {
            self.kept_back.insert(node);
            self.taken(item).kept_back.push(node);
        }
    }

    /// The item above a step that is kept back is final: the step waits for the next item further up, or may begin.
    fn let_go(&mut self, node: Node) {
        if !self.kept_back.contains(&node) {
            return;
        }
        match self.provisional(node) {
            Some(item) => self.taken(item).kept_back.push(node),
            None => {
                self.kept_back.remove(&node);
                self.agenda.push_back(Task::Decide(node));
            }
        }
    }

    /// The nearest item above a node that is not final.
    fn provisional(&self, node: Node) -> Option<Node> {
        self.items_above(node)
            .find(|(_, flow)| *flow != Flow::Whole)
            .map(|(item, _)| item)
    }

    /// True when a step that is kept back will never begin.
    pub(in crate::run) fn is_forsaken(&self, node: Node) -> bool {
        self.items_above(node).any(|(_, flow)| flow == Flow::Cut)
    }

    /// Items of streams above a node, from the inside, each with what became of it.
    fn items_above(&self, node: Node) -> impl Iterator<Item = (Node, Flow)> + '_ {
        let mut at = node;
        std::iter::from_fn(move || {
            loop {
                at = self.node(at).parent;
                if at == NOBODY {
                    return None;
                }
                let activation = self.node(at);
                if !matches!(activation.role, Role::Item(_)) {
                    continue;
                }
                if activation.slot == Slot::Stale {
                    return Some((at, Flow::Cut));
                }
                let owner = self.node(activation.parent).extra.as_deref();
                if let Some(intake) = owner.and_then(|owner| owner.intake.as_ref()) {
                    return Some((at, intake.phase));
                }
            }
        })
    }

    fn use_key(&mut self, node: Node, key: &Arc<str>) {
        let keys = &mut self.intake(node).keys;
        keys.entry(key.clone()).or_insert(1);
        if let Some((text, Ok(count))) = key
            .rsplit_once('#')
            .map(|(text, count)| (text, count.parse::<u32>()))
        {
            let most = keys.entry(text.into()).or_default();
            *most = count.max(*most);
        }
    }

    /// The key of an item, when its `for_each` gives keys.
    pub(in crate::run) fn item_key(&self, item: Node) -> Option<&Arc<str>> {
        let activation = self.node(item);
        let Role::Item(index) = activation.role else {
            return None;
        };
        let taken = activation
            .extra
            .as_ref()
            .and_then(|extra| extra.taken.as_ref());
        match taken {
            Some(taken) => taken.key.as_ref(),
            None => {
                let owner = self.node(activation.parent).extra.as_ref()?;
                owner.keys.get(index as usize)
            }
        }
    }

    pub(in crate::run) fn revision(&self, item: Node) -> u32 {
        let extra = self.node(item).extra.as_ref();
        let taken = extra.and_then(|extra| extra.taken.as_ref());
        taken.map_or(0, |taken| taken.revision)
    }

    fn intake(&mut self, node: Node) -> &mut Intake {
        let intake = self.extra(node).intake.as_deref_mut();
        intake.expect("a `for_each` that takes items has an intake")
    }

    fn taken(&mut self, item: Node) -> &mut Taken {
        let taken = self.extra(item).taken.as_deref_mut();
        taken.expect("an item of a stream was taken from it")
    }
}
