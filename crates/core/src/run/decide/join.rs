//! Joins: whether a pending step runs, is skipped or fails, once the steps that it depends on allow to say so.

use std::sync::Arc;

use super::Turning;
use crate::effect::{ErrorClass, Failure};
use crate::event::{Node, Settled, Skip};
use crate::expr::EvalError;
use crate::graph::{DepKind, Join, StepDef};
use crate::mutant::{self, Mutant};
use crate::run::env::Env;
use crate::run::state::{Phase, Role, Slot};

/// What a join says.
enum Verdict {
    Wait,
    Run,
    Skip(Skip),
    Unmet(String),
}

impl Turning<'_> {
    /// Looks at a pending activation whose dependencies changed.
    pub(super) fn decide(&mut self, node: Node) {
        if self.state.streams.contains(&node) {
            return self.look_at_stream(node);
        }
        if self.state.node(node).phase != Phase::Pending {
            return;
        }
        let activation = self.state.node(node);
        if activation.role != Role::Step {
            return self.open_block(node);
        }
        if activation.slot != Slot::Main {
            if !self.is_kept_back(node) {
                self.open(node);
            }
            return;
        }
        let (parent, unmet) = (activation.parent, activation.unmet);
        let graph = self.state.graph.clone();
        let step = graph.step(activation.step);
        if self.is_ending(parent)
            && !self.runs_anyway(parent, step.join)
            && !mutant::is(Mutant::CancelStartsSteps)
        {
            let skip = self
                .blame(node, step)
                .map_or(Skip::ScopeEnded, Skip::UpstreamFailed);
            return self.skip(node, skip);
        }
        match self.verdict(node, step, unmet) {
            Verdict::Wait => {}
            Verdict::Skip(skip) => self.skip(node, skip),
            Verdict::Unmet(message) => {
                let mut failure = Failure::new(ErrorClass::JoinUnmet, message);
                failure.step = Some(self.state.path(node));
                self.ladder(node, failure, false);
            }
            Verdict::Run if self.is_kept_back(node) => {}
            Verdict::Run => self.pass_join(node, step),
        }
    }

    /// In a failing scope `failed` and `settled` steps still run; in one that is cut short only `settled` ones.
    fn runs_anyway(&self, scope: Node, join: Join) -> bool {
        let extra = self.state.node(scope).extra.as_deref();
        let cut = extra.is_some_and(|extra| {
            extra.stopping.is_some() || extra.returned.is_some() || extra.winner.is_some()
        });
        match join {
            Join::Settled => true,
            Join::Failed => !cut,
            Join::All | Join::First(_) => false,
        }
    }

    /// The step that is to blame when this one cannot run: one that it depends on failed, itself or further up.
    fn blame(&self, node: Node, step: &StepDef) -> Option<Arc<str>> {
        let parent = self.state.node(node).parent;
        let is_to_blame = |on: Node| match self.state.settled(on) {
            Some(Settled::Failed) => true,
            Some(Settled::Skipped) => {
                let skip = self
                    .state
                    .node(on)
                    .extra
                    .as_ref()
                    .and_then(|extra| extra.skip.as_ref());
                matches!(skip, Some(Skip::UpstreamFailed(_)))
            }
            Some(Settled::Succeeded | Settled::Cancelled) | None => false,
        };
        let deps = step
            .deps
            .iter()
            .filter(|dep| dep.how != DepKind::Weak)
            .map(|dep| self.state.kid(parent, dep.on));
        deps.into_iter()
            .find(|on| is_to_blame(*on))
            .map(|on| self.name(on))
    }

    fn name(&self, node: Node) -> Arc<str> {
        self.state
            .graph
            .step(self.state.node(node).step)
            .name
            .clone()
    }

    fn verdict(&self, node: Node, step: &StepDef, unmet: u32) -> Verdict {
        match step.join {
            // Enough others succeeded; without its items there is nothing to do.
            Join::First(_) if self.lacks_items(node) => Verdict::Wait,
            Join::First(wanted) => self.first_verdict(node, step, wanted),
            _ if unmet > u32::from(mutant::is(Mutant::JoinFiresEarly))
                && !self.may_take_ahead(node, step, unmet) =>
            {
                Verdict::Wait
            }
            Join::Settled => Verdict::Run,
            Join::Failed => match self.failed_dependency(node, step) {
                Some(_) => Verdict::Run,
                None => Verdict::Skip(Skip::NothingFailed),
            },
            Join::All => match self.failed_dependency(node, step) {
                Some(name) => Verdict::Skip(Skip::UpstreamFailed(name)),
                None => Verdict::Run,
            },
        }
    }

    fn first_verdict(&self, node: Node, step: &StepDef, wanted: u32) -> Verdict {
        let extra = self.state.node(node).extra.as_deref();
        let joined = extra.map_or(0, |extra| extra.joined);
        if joined >= wanted {
            return Verdict::Run;
        }
        let parent = self.state.node(node).parent;
        let counted = step.deps.iter().filter(|dep| dep.how != DepKind::Weak);
        let open = counted
            .filter(|dep| self.state.settled(self.state.kid(parent, dep.on)).is_none())
            .count() as u32;
        if joined + open >= wanted {
            return Verdict::Wait;
        }
        Verdict::Unmet(format!(
            "{joined} of the steps that it joins succeeded, {wanted} must"
        ))
    }

    /// A dependency that failed or was cancelled: among the siblings and, for what is read from scopes around, there.
    fn failed_dependency(&self, node: Node, step: &StepDef) -> Option<Arc<str>> {
        let parent = self.state.node(node).parent;
        let bad = |on: Node| {
            matches!(
                self.state.settled(on),
                Some(Settled::Failed | Settled::Cancelled)
            ) && !(mutant::is(Mutant::JoinTakesCancelled)
                && self.state.settled(on) == Some(Settled::Cancelled))
        };
        let sibling = step
            .deps
            .iter()
            .filter(|dep| dep.how != DepKind::Weak)
            .map(|dep| self.state.kid(parent, dep.on))
            .find(|on| bad(*on));
        sibling.map(|on| self.name(on)).or_else(|| {
            let outer = step
                .outer
                .iter()
                .find(|name| Env::of(self.state, node).step_named(name).is_some_and(bad));
            outer.cloned()
        })
    }

    fn pass_join(&mut self, node: Node, step: &StepDef) {
        if step.cancel_rest {
            self.cancel_rest(node, step);
        }
        let verdict = step
            .when
            .as_ref()
            .map(|when| Env::of(self.state, node).eval_bool(when));
        match verdict {
            None | Some(Ok(true)) => self.open(node),
            Some(Ok(false)) => self.skip(node, Skip::When),
            Some(Err(EvalError::Absent { step })) => self.skip(node, Skip::Uses(step)),
            Some(Err(error @ EvalError::Failed { .. })) => self.not_evaluated(node, "when", error),
        }
    }

    fn cancel_rest(&mut self, node: Node, step: &StepDef) {
        let parent = self.state.node(node).parent;
        for dep in step.deps.iter().filter(|dep| dep.how != DepKind::Weak) {
            if self.state.settled(self.state.kid(parent, dep.on)).is_none() {
                self.stop(
                    self.state.kid(parent, dep.on),
                    crate::event::Stop::Cancelled,
                );
            }
        }
    }

    /// Whether a failure of a child is taken up by joins that can do without it.
    pub(super) fn is_absorbed(&self, parent: Node, child: Node) -> bool {
        let Some(body) = self.state.body_of(parent) else {
            return false;
        };
        let position = self.state.node(child).position;
        let body = self.state.graph.body(body);
        let mut absorbed = false;
        for dependent in &body.dependents[position as usize] {
            let step = self
                .state
                .graph
                .step(self.state.node(self.state.kid(parent, *dependent)).step);
            if !step
                .deps
                .iter()
                .any(|dep| dep.on == position && dep.how != DepKind::Weak)
            {
                continue;
            }
            match step.join {
                Join::First(_) => absorbed = true,
                Join::All => return false,
                Join::Settled | Join::Failed => {}
            }
        }
        absorbed
    }
}
