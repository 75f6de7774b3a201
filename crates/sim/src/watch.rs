//! What must hold of every log, checked event by event as turns reach the disk. Written against the language's
//! semantics and the graph alone: it shares no decision with the machine that it watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ravel_core::effect::{Effect, Fate, Usage};
use ravel_core::event::{Attempt, Event, Node, Settled, Skip, Turn};
use ravel_core::graph::{Budget, Dep, DepKind, Items, Join, Kind, OnUncertain, StepDef, StepId};
use ravel_core::run::Run;

/// What is known of one run from its durable turns.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The last turn that was looked at.
    pub(crate) turn: u64,
    settled: BTreeMap<Node, Settled>,
    opened: BTreeSet<Node>,
    /// Attempts that are open, with what is reserved for them.
    open: BTreeMap<Attempt, Usage>,
    fates: BTreeMap<Node, Fate>,
    /// The activation of a step in a scope's activation.
    kids: BTreeMap<(Node, StepId), Node>,
    known: Node,
    /// Spent and reserved below an activation with a budget.
    spent: BTreeMap<Node, Usage>,
    cancelled: bool,
    /// A `return` cut a flow short.
    returned: bool,
    /// Something failed or was stopped, so that compensations may run.
    broke: bool,
    armed: BTreeSet<Node>,
    undone: BTreeSet<Node>,
    /// Armed before the fork: another run's.
    inherited: BTreeSet<Node>,
    /// Items of each `for_each` that are open.
    items: BTreeMap<Node, BTreeSet<Node>>,
    /// Rounds of each `repeat` since it began, or began again.
    rounds: BTreeMap<Node, u32>,
    /// Scopes that end early.
    ending: BTreeSet<Node>,
    /// Messages that came under an id.
    signals: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Watch {
    /// Looks at turns that are on disk now. `run` is the run at that point or later.
    pub(crate) fn feed(&mut self, run: &Run, turns: &[Turn]) -> Result<(), String> {
        self.learn(run);
        for turn in turns {
            if turn.turn != self.turn + 1 {
                return Err(format!("turn {} follows turn {}", turn.turn, self.turn));
            }
            self.turn = turn.turn;
            for event in &turn.events {
                self.look(run, event)
                    .map_err(|what| format!("turn {}: {what}", turn.turn))?;
            }
        }
        Ok(())
    }

    /// True when an effect of the activation is noted for compensation, or has been compensated.
    pub(crate) fn is_armed(&self, node: Node) -> bool {
        self.armed.contains(&node)
    }

    /// True while an attempt whose start is on disk has no end there.
    pub(crate) fn is_open(&self, attempt: Attempt) -> bool {
        self.open.contains_key(&attempt)
    }

    /// Another engine has the run: activations that did not reach the disk never were.
    pub(crate) fn unlearn(&mut self) {
        self.kids.clear();
        self.known = 0;
    }

    fn learn(&mut self, run: &Run) {
        while let Some(view) = run.node(self.known) {
            if let (Some(parent), Some(step)) = (view.parent, written(run, self.known))
                && is_step(run, self.known)
            {
                self.kids.insert((parent, step.id), self.known);
            }
            self.known += 1;
        }
    }

    fn look(&mut self, run: &Run, event: &Event) -> Result<(), String> {
        match event {
            Event::Opened { node, path, .. } => {
                self.final_stays(*node, path)?;
                // A leaf says so again when it waits for another attempt.
                let again = run.step(*node).is_some_and(|step| step.kind.is_leaf());
                self.scope_is_open(run, *node, path)?;
                if !self.opened.insert(*node) && !is_stream(run, *node) && !again {
                    return Err(format!("`{path}` is activated twice"));
                }
                self.is_within(run, *node, path)?;
                self.join_is_met(run, *node, path)
            }
            Event::SignalReceived {
                name, id: Some(id), ..
            } => {
                if self.signals.insert((name.clone(), id.clone())) {
                    return Ok(());
                }
                Err(format!("the message `{id}` to `{name}` counts twice"))
            }
            Event::AttemptStarted {
                node,
                path,
                number,
                effect,
                reserved,
            } => {
                self.final_stays(*node, path)?;
                self.may_start(run, *node, path, *effect)?;
                if *number == 1 && !self.opened.contains(node) {
                    self.scope_is_open(run, *node, path)?;
                }
                let attempt = Attempt {
                    node: *node,
                    number: *number,
                };
                if self.open.keys().any(|open| open.node == *node) {
                    return Err(format!("`{path}` has two attempts under way"));
                }
                self.open.insert(attempt, *reserved);
                self.book(run, *node, &Usage::default(), reserved)
            }
            Event::AttemptFinished {
                node,
                number,
                fate,
                usage,
                ..
            } => {
                let attempt = Attempt {
                    node: *node,
                    number: *number,
                };
                let Some(reserved) = self.open.remove(&attempt) else {
                    return Err(format!("attempt {number} of node {node} ends twice"));
                };
                self.fates.insert(*node, *fate);
                self.book(run, *node, &reserved, usage)
            }
            Event::Settled {
                node,
                path,
                state,
                skip,
                ..
            } => {
                if let Some(before) = self.settled.insert(*node, *state) {
                    return Err(format!(
                        "`{path}` was {} and settles again as {}",
                        before.name(),
                        state.name()
                    ));
                }
                if self.open.keys().any(|open| open.node == *node) {
                    return Err(format!("`{path}` settles while an attempt of it is open"));
                }
                self.broke |= matches!(state, Settled::Failed | Settled::Cancelled);
                if let Some(parent) = run.node(*node).and_then(|view| view.parent)
                    && let Some(items) = self.items.get_mut(&parent)
                {
                    items.remove(node);
                }
                self.skip_is_right(run, *node, path, skip.as_ref())
            }
            Event::CancelRequested { node, .. } => {
                self.cancelled |= *node == 0;
                self.broke = true;
                Ok(())
            }
            Event::Returned { .. } => {
                self.returned = true;
                Ok(())
            }
            Event::Produced { node, .. }
            | Event::Caught { node, .. }
            | Event::GateJudged { node, .. } => self.still_open(run, *node),
            Event::Failing { node, .. } | Event::Stopping { node, .. } => {
                self.still_open(run, *node)?;
                self.broke = true;
                self.ending.insert(*node);
                Ok(())
            }
            // Somebody who can know said that it did not happen; whether that is true is the world's business.
            Event::Answered { node, value, .. } if value.json()["not_done"] == "retry" => {
                self.fates.insert(*node, Fate::NotDone);
                Ok(())
            }
            // The step is tried whole again.
            Event::RepairStarted { node, .. } | Event::FallbackStarted { node, .. } => {
                self.opened.remove(node);
                self.rounds.remove(node);
                self.ending.remove(node);
                Ok(())
            }
            Event::CheckStarted { node } => {
                self.fates.insert(*node, Fate::NotDone);
                Ok(())
            }
            Event::Armed { node, .. } => {
                self.armed.insert(*node);
                Ok(())
            }
            Event::CompensationStarted { node } if self.inherited.contains(node) => Err(format!(
                "the effect of node {node} is the other run's to compensate"
            )),
            Event::CompensationStarted { node } if !self.broke => Err(format!(
                "the effect of node {node} is compensated though nothing failed"
            )),
            Event::CompensationFinished { node, .. } => {
                self.undone.insert(*node);
                Ok(())
            }
            Event::Forked { .. } => {
                self.inherited = self.armed.clone();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// An item or a round that begins is one that `parallel` or `max` allows.
    fn is_within(&mut self, run: &Run, node: Node, path: &str) -> Result<(), String> {
        let Some(view) = run.node(node) else {
            return Ok(());
        };
        let Some((parent, step)) = view
            .parent
            .and_then(|parent| Some((parent, run.step(parent)?)))
        else {
            return Ok(());
        };
        let (most, now) = match (&step.kind, view.kind) {
            (Kind::ForEach(each), "item") if !is_stream(run, parent) => {
                let items = self.items.entry(parent).or_default();
                items.insert(node);
                (each.parallel, items.len() as u32)
            }
            (Kind::Repeat(repeat), "round") => {
                let rounds = self.rounds.entry(parent).or_default();
                *rounds += 1;
                (Some(repeat.max), *rounds)
            }
            _ => return Ok(()),
        };
        match most {
            Some(most) if now > most => Err(format!("`{path}` is number {now} of {most} at most")),
            Some(_) | None => Ok(()),
        }
    }

    /// In a scope that ends early only steps that are there for that case begin.
    fn scope_is_open(&self, run: &Run, node: Node, path: &str) -> Result<(), String> {
        let Some(view) = run.node(node) else {
            return Ok(());
        };
        let ending = view
            .parent
            .is_some_and(|parent| self.ending.contains(&parent));
        let step =
            written(run, node).filter(|_| is_step(run, node) && self.siblings(run, node).is_some());
        match step.map(|step| step.join) {
            Some(Join::All | Join::First(_)) if ending => {
                Err(format!("`{path}` begins in a scope that is ending"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn still_open(&self, run: &Run, node: Node) -> Result<(), String> {
        let path = run.node(node).map(|view| view.path).unwrap_or_default();
        self.final_stays(node, &path)
    }

    fn final_stays(&self, node: Node, path: &str) -> Result<(), String> {
        match self.settled.get(&node) {
            Some(state) => Err(format!("`{path}` goes on though it is {}", state.name())),
            None => Ok(()),
        }
    }

    /// The states of the steps that a step waits for.
    fn deps<'a>(
        &'a self,
        run: &'a Run,
        node: Node,
        step: &'a StepDef,
    ) -> impl Iterator<Item = (Dep, Option<Settled>)> + 'a {
        let parent = run.node(node).and_then(|view| view.parent).unwrap_or(0);
        let body = self.siblings(run, node);
        step.deps.iter().filter_map(move |dep| {
            let sibling = body.as_ref()?.get(dep.on as usize)?;
            let on = self.kids.get(&(parent, *sibling))?;
            Some((*dep, self.settled.get(on).copied()))
        })
    }

    /// The steps of the body that an activation is in.
    fn siblings(&self, run: &Run, node: Node) -> Option<Vec<StepId>> {
        let step = written(run, node)?;
        let bodies = &run.graph().bodies;
        let body = bodies.iter().find(|body| body.steps.contains(&step.id))?;
        Some(body.steps.clone())
    }

    fn join_is_met(&self, run: &Run, node: Node, path: &str) -> Result<(), String> {
        let Some(step) = written(run, node).filter(|_| is_step(run, node)) else {
            return Ok(());
        };
        let streams = is_stream(run, node);
        let deps: Vec<_> = self.deps(run, node, step).collect();
        let counted = || deps.iter().filter(|(dep, _)| dep.how != DepKind::Weak);
        let open = deps.iter().filter(|(_, state)| state.is_none()).count();
        let bad =
            counted().any(|(_, state)| matches!(state, Some(Settled::Failed | Settled::Cancelled)));
        let succeeded = counted()
            .filter(|(_, state)| *state == Some(Settled::Succeeded))
            .count();
        let wrong = match step.join {
            Join::All => bad || open > usize::from(streams),
            Join::Settled => open > usize::from(streams),
            Join::Failed => open > usize::from(streams) || !bad,
            Join::First(wanted) => succeeded < wanted as usize,
        };
        if wrong {
            return Err(format!(
                "`{path}` runs though its join {:?} is not met: {deps:?}",
                step.join
            ));
        }
        Ok(())
    }

    fn skip_is_right(
        &self,
        run: &Run,
        node: Node,
        path: &str,
        skip: Option<&Skip>,
    ) -> Result<(), String> {
        let (Some(skip), Some(step)) = (skip, written(run, node).filter(|_| is_step(run, node)))
        else {
            return Ok(());
        };
        let bad = self
            .deps(run, node, step)
            .any(|(_, state)| matches!(state, Some(Settled::Failed | Settled::Cancelled)));
        match skip {
            Skip::NothingFailed if bad => Err(format!(
                "`{path}` is skipped because nothing failed, and something did"
            )),
            Skip::ScopeEnded if !self.broke && !self.cut_short(run, node) => Err(format!(
                "`{path}` is skipped because its scope ended, which went on"
            )),
            _ => Ok(()),
        }
    }

    /// True when a scope around it was decided early: a race, a `return`.
    fn cut_short(&self, run: &Run, node: Node) -> bool {
        ancestors(run, node).any(|view| view.kind == "race") || self.returned
    }

    /// After the run's cancel only clean-ups start, and a `once` starts again only when it did not happen.
    fn may_start(&self, run: &Run, node: Node, path: &str, effect: Effect) -> Result<(), String> {
        if effect == Effect::Once && matches!(self.fates.get(&node), Some(Fate::Done)) {
            return Err(format!("the once `{path}` starts again though it was done"));
        }
        let knowingly = run
            .step(node)
            .is_some_and(|step| matches!(step.leaf.on_uncertain, OnUncertain::Retry));
        if effect == Effect::Once && self.fates.get(&node) == Some(&Fate::Unknown) && !knowingly {
            return Err(format!("the once `{path}` starts again blindly"));
        }
        if !self.cancelled {
            return Ok(());
        }
        let cleans = |view: &ravel_core::run::NodeView| {
            matches!(view.kind, "finally" | "catch")
                || view.path.split('/').any(|part| {
                    let name = part.split('[').next().unwrap_or_default();
                    matches!(name, "compensate" | "check")
                })
                || written(run, view.node).is_some_and(|step| step.join == Join::Settled)
        };
        if ancestors(run, node).any(|view| cleans(&view)) {
            return Ok(());
        }
        Err(format!("`{path}` starts after the run was cancelled"))
    }

    /// Moves what is booked for an attempt, and holds every budget above it.
    fn book(&mut self, run: &Run, node: Node, before: &Usage, after: &Usage) -> Result<(), String> {
        let above: Vec<(Node, Budget, String)> = ancestors(run, node)
            .filter_map(|view| {
                let budget = match run.step(view.node) {
                    Some(step) => step.budget,
                    None => run.graph().main().budget,
                };
                Some((view.node, budget?, view.path.to_string()))
            })
            .collect();
        for (owner, budget, path) in above {
            let spent = self.spent.entry(owner).or_default();
            spent.sub(before);
            spent.add(after);
            let over = |most: Option<u64>, is: u64| most.is_some_and(|most| is > most);
            if over(budget.tokens, spent.tokens()) || over(budget.microusd, spent.cost_microusd) {
                return Err(format!(
                    "`{path}` has spent and reserved {spent:?} of a budget of {budget:?}"
                ));
            }
        }
        Ok(())
    }

    /// What must hold when the run is over.
    pub(crate) fn at_end(&self, run: &Run) -> Result<(), String> {
        if let Some(attempt) = self.open.keys().next() {
            return Err(format!("the run is over and attempt {attempt:?} is open"));
        }
        let open = self
            .opened
            .iter()
            .find(|node| !self.settled.contains_key(node));
        if let Some(view) = open.and_then(|node| run.node(*node)) {
            return Err(format!(
                "the run is over and `{}` is not settled",
                view.path
            ));
        }
        let stands = self.armed.difference(&self.undone);
        let left: Vec<_> = stands
            .filter(|node| !self.inherited.contains(node))
            .collect();
        if self.settled.get(&0) != Some(&Settled::Succeeded) && !left.is_empty() {
            return Err(format!(
                "the run ended badly and the effects of {left:?} were not compensated"
            ));
        }
        Ok(())
    }
}

/// An activation and those that it is in, itself first.
fn ancestors(run: &Run, node: Node) -> impl Iterator<Item = ravel_core::run::NodeView> + '_ {
    let mut at = run.node(node);
    std::iter::from_fn(move || {
        let view = at.take()?;
        at = view.parent.and_then(|parent| run.node(parent));
        Some(view)
    })
}

/// The step of an activation as it is written, also while a fallback stands in for it.
fn written(run: &Run, node: Node) -> Option<&StepDef> {
    let step = run.step(node)?;
    let steps = &run.graph().steps;
    let host = steps.iter().find(|host| host.fallback.contains(&step.id));
    Some(host.unwrap_or(step))
}

/// True for a step's own activation: not an item, a round or a handler of it.
fn is_step(run: &Run, node: Node) -> bool {
    let kind = run.node(node).map_or("", |view| view.kind);
    !matches!(kind, "item" | "round" | "catch" | "finally")
}

/// True for a `for_each` over a stream, which may begin before its producer has ended.
fn is_stream(run: &Run, node: Node) -> bool {
    run.step(node).is_some_and(|step| match &step.kind {
        Kind::ForEach(each) => matches!(each.items, Items::Stream { .. }),
        _ => false,
    })
}
