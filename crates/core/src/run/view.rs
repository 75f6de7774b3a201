//! What others see of a run: nodes, waits, questions, the summary that a store lists.

use std::sync::Arc;

use super::Run;
use super::decide::Permit;
use super::env::Env;
use super::state::{NOBODY, Phase, Role, State, Timer, Undo};
use crate::effect::{Failure, Millis, Usage};
use crate::event::{Node, Settled, Skip, Stop, Topic, Wait};
use crate::graph::StepDef;
use crate::port::{Question, RunState, Summary};
use crate::value::Val;

/// One activation, as people look at it.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Its number.
    pub node: Node,
    /// The activation that it belongs to.
    pub parent: Option<Node>,
    /// Its path; empty for the run's flow.
    pub path: Arc<str>,
    /// The last segment of its path.
    pub name: Arc<str>,
    /// `flow`, `item`, `round`, `catch`, `finally`, or the step's kind.
    pub kind: &'static str,
    /// `pending`, `ready`, `running`, `waiting` or a final state.
    pub state: &'static str,
    /// Attempts started.
    pub attempts: u32,
    /// What it used, everything below it included.
    pub usage: Usage,
    /// When it left `pending`.
    pub began: Option<Millis>,
    /// When it settled.
    pub ended: Option<Millis>,
    /// The value of a success.
    pub value: Option<Val>,
    /// The error of a failure, or the last one of an activation that goes on.
    pub error: Option<Failure>,
    /// Why it was skipped.
    pub skip: Option<Skip>,
    /// Where the step stands in the user's files.
    pub at: Option<crate::graph::Place>,
}

impl Run {
    /// All activations, in order of creation: a parent before its children.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView> + '_ {
        (0..self.state.nodes.len() as Node).map(|node| self.view(node))
    }

    /// The activation with this number.
    #[must_use]
    pub fn node(&self, node: Node) -> Option<NodeView> {
        ((node as usize) < self.state.nodes.len()).then(|| self.view(node))
    }

    /// The step of an activation; `None` for the flow itself.
    #[must_use]
    pub fn step(&self, node: Node) -> Option<&StepDef> {
        let activation = self.state.nodes.get(node as usize)?;
        (activation.parent != NOBODY).then(|| self.state.graph.step(activation.step))
    }

    fn view(&self, node: Node) -> NodeView {
        let state = &self.state;
        let activation = state.node(node);
        let extra = activation.extra.as_deref();
        let path = state.path(node);
        let step = self.step(node);
        let name = path.rsplit('/').next().unwrap_or_default().into();
        NodeView {
            node,
            parent: (activation.parent != NOBODY).then_some(activation.parent),
            name,
            path,
            kind: match activation.role {
                Role::Root(_) => "flow",
                Role::Item(_) => "item",
                Role::Round(_) => "round",
                Role::Handler(_) => "catch",
                Role::Finally => "finally",
                Role::Step => step.map_or("flow", |step| step.kind.name()),
            },
            state: state.word(node),
            attempts: extra.map_or(0, |extra| extra.attempts),
            usage: state.last_usage(node),
            began: (activation.began > 0).then_some(activation.began),
            ended: (activation.ended > 0).then_some(activation.ended),
            value: activation.value.clone(),
            error: extra.and_then(|extra| extra.error.clone()),
            skip: extra.and_then(|extra| extra.skip.clone()),
            at: step.map(|step| step.at.clone()),
        }
    }

    /// The state of the run.
    #[must_use]
    pub fn state(&self) -> RunState {
        let state = &self.state;
        if state.nodes.is_empty() {
            return RunState::Running;
        }
        match state.settled(0) {
            Some(Settled::Succeeded) => return RunState::Succeeded,
            Some(Settled::Cancelled) => return RunState::Cancelled,
            Some(Settled::Failed | Settled::Skipped) => return RunState::Failed,
            None => {}
        }
        if state
            .armed
            .iter()
            .any(|armed| armed.progress == Undo::Running)
        {
            return RunState::Compensating;
        }
        let stopping = state
            .node(0)
            .extra
            .as_ref()
            .and_then(|extra| extra.stopping);
        if stopping == Some(Stop::Cancelled) {
            return RunState::Cancelling;
        }
        if state.flights.is_empty() && state.queued.is_empty() {
            RunState::Waiting
        } else {
            RunState::Running
        }
    }

    /// What the run waits for. Never empty for a live run.
    #[must_use]
    pub fn waits_on(&self) -> Vec<Wait> {
        self.waits().collect()
    }

    /// The same, made as far as it is asked for: a summary of a wide run needs only the first.
    fn waits(&self) -> impl Iterator<Item = Wait> + '_ {
        let state = &self.state;
        let attempts = state
            .flights
            .iter()
            .filter_map(|node| self.attempt_wait(*node));
        let queued = state.queued.iter().map(|node| {
            let path = state.path(*node);
            if self.permits.get(node) == Some(&Permit::Wished) {
                let keys = self.permit_keys(*node);
                Wait::Permit { path, keys }
            } else {
                Wait::Budget { path }
            }
        });
        let people = state.questions.iter().map(|(id, open)| Wait::Person {
            path: state.path(open.node),
            question: id.clone(),
            ask: open.ask.clone(),
            topic: open.topic,
            until: open.until,
        });
        let timed = state
            .timers
            .iter()
            .filter_map(|(at, node, timer)| self.timed_wait(*at, *node, *timer));
        let signals = state.waiting.iter().flat_map(|(name, queue)| {
            queue.iter().map(|node| Wait::Signal {
                path: state.path(*node),
                name: name.clone(),
                until: state
                    .node(*node)
                    .extra
                    .as_ref()
                    .and_then(|extra| extra.wait_until),
            })
        });
        let streams = state.streams.iter().filter_map(|node| {
            let (producer, _) = state.source(*node)?;
            let (path, from) = (state.path(*node), state.path(producer));
            Some(Wait::Items { path, from })
        });
        attempts
            .chain(queued)
            .chain(people)
            .chain(timed)
            .chain(signals)
            .chain(streams)
    }

    fn attempt_wait(&self, node: Node) -> Option<Wait> {
        let flight = self.state.node(node).extra.as_ref()?.flight.as_ref()?;
        let until = match flight.stopping {
            Some((_, since)) => since.saturating_add(self.state.terms.limits.stop_grace_ms),
            None => flight.until,
        };
        Some(Wait::Attempt {
            path: self.state.path(node),
            number: flight.number,
            until,
        })
    }

    fn timed_wait(&self, until: Millis, node: Node, timer: Timer) -> Option<Wait> {
        let why = match timer {
            Timer::Wait => "wait",
            Timer::Retry => "retry",
            Timer::Deadline => "deadline",
            Timer::Timeout | Timer::Grace | Timer::Question | Timer::Budget => return None,
        };
        let extra = self.state.node(node).extra.as_ref();
        let signal = timer == Timer::Wait && extra.is_some_and(|extra| extra.wait_signal.is_some());
        (!signal).then(|| Wait::Time {
            path: self.state.path(node),
            until,
            why,
        })
    }

    fn permit_keys(&self, node: Node) -> Vec<Arc<str>> {
        let step = self.state.graph.step(self.state.node(node).step);
        let env = Env::of(&self.state, node);
        step.leaf
            .concurrency
            .iter()
            .filter_map(|limit| env.render(&limit.key).ok().map(Into::into))
            .collect()
    }

    /// Open questions, oldest first.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        let question = |(id, open): (&Arc<str>, &super::state::Open)| Question {
            id: id.clone(),
            run: self.state.id.clone(),
            path: self.state.path(open.node),
            topic: open.topic,
            ask: open.ask.clone(),
            form: open.form.clone(),
            to: open.to.clone(),
            asked: open.asked,
            until: open.until,
        };
        self.state.questions.iter().map(question).collect()
    }

    /// Effects that stand although the run ended badly.
    #[must_use]
    pub fn uncompensated(&self) -> Vec<Arc<str>> {
        let stands = |armed: &&super::state::Armed| match armed.progress {
            // Another run's to compensate.
            _ if armed.inherited => false,
            Undo::GivenUp | Undo::Running => true,
            Undo::Standing => matches!(
                self.state.settled(0),
                Some(Settled::Failed | Settled::Cancelled)
            ),
            Undo::Done => false,
        };
        self.state
            .armed
            .iter()
            .filter(stands)
            .map(|armed| self.state.path(armed.node))
            .collect()
    }

    /// What a store lists about the run.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let most = if self.is_final() {
            0
        } else {
            SUMMARY_WAITS_MAX
        };
        Summary {
            run: self.state.id.clone(),
            flow: self.state.graph.main().name.clone(),
            graph: self.state.graph.hash.clone(),
            state: self.state(),
            created: self.state.created,
            updated: self.state.now,
            wake_at: self.wake_at(),
            usage: self.state.usage,
            output: self.output().cloned(),
            error: self.error().cloned(),
            start_key: None,
            forked_from: self.state.forked_from.clone(),
            waits: self.waits().take(most).map(wait_value).collect(),
            uncompensated: self.uncompensated(),
        }
    }

    /// The flow's input.
    #[must_use]
    pub fn input(&self) -> Option<&Val> {
        self.state.nodes.first()?.extra.as_ref()?.input.as_ref()
    }

    /// The output of a success.
    #[must_use]
    pub fn output(&self) -> Option<&Val> {
        self.state
            .nodes
            .first()
            .and_then(|root| root.value.as_ref())
    }

    /// The error of a failure.
    #[must_use]
    pub fn error(&self) -> Option<&Failure> {
        let root = self.state.nodes.first()?;
        matches!(root.phase, Phase::Settled(Settled::Failed)).then_some(())?;
        root.extra.as_ref()?.error.as_ref()
    }
}

/// Waits that a summary shows; a wide fan-out has more, and `Run::waits_on` has them all.
const SUMMARY_WAITS_MAX: usize = 20;

fn wait_value(wait: Wait) -> Val {
    serde_json::to_value(wait)
        .expect("waits are plain data")
        .into()
}

/// The topics in the words of the store.
impl Topic {
    /// The word that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Uncertain => "uncertain",
            Self::Compensation => "compensation",
        }
    }
}

impl State {
    pub(super) fn next_timer(&self) -> Option<Millis> {
        self.timers.first().map(|(at, _, _)| *at)
    }
}
