//! Where things are: bodies, definitions, handlers of an activation.

use crate::effect::Usage;
use crate::event::Node;
use crate::graph::{BodyId, Kind};
use crate::run::state::{Role, State};

impl State {
    /// The body whose steps are a node's main children.
    pub(in crate::run) fn body_of(&self, node: Node) -> Option<BodyId> {
        let activation = self.node(node);
        match activation.role {
            Role::Root(flow) => Some(self.graph.flow(flow).body),
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => {
                Some(self.block_body(node))
            }
            Role::Step => match &self.graph.step(activation.step).kind {
                Kind::Steps(body) | Kind::Race(body) => Some(*body),
                Kind::Flow(call) => Some(self.graph.flow(call.flow).body),
                Kind::Model(_)
                | Kind::Tool(_)
                | Kind::Run(_)
                | Kind::Human(_)
                | Kind::Wait(_)
                | Kind::Set(_)
                | Kind::Return(_)
                | Kind::Fail(_)
                | Kind::ForEach(_)
                | Kind::Repeat(_)
                | Kind::Switch(_) => None,
            },
        }
    }

    /// The step as written, whatever fallback it is at.
    pub(in crate::run) fn written(&self, node: Node) -> &crate::graph::StepDef {
        let activation = self.node(node);
        let written = activation.extra.as_ref().and_then(|extra| extra.written);
        self.graph.step(written.unwrap_or(activation.step))
    }

    /// `catch:` of a step or of the root flow.
    pub(in crate::run) fn catches(&self, node: Node) -> &[crate::graph::Catch] {
        match self.node(node).role {
            Role::Root(flow) => &self.graph.flow(flow).catch,
            Role::Step => &self.written(node).catch,
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => &[],
        }
    }

    /// `finally:` of a step or of the root flow.
    pub(in crate::run) fn finally_of(&self, node: Node) -> Option<BodyId> {
        match self.node(node).role {
            Role::Root(flow) => self.graph.flow(flow).finally,
            Role::Step => self.written(node).finally,
            Role::Item(_) | Role::Round(_) | Role::Handler(_) | Role::Finally => None,
        }
    }

    pub(in crate::run) fn last_usage(&self, node: Node) -> Usage {
        self.node(node)
            .extra
            .as_ref()
            .map(|extra| extra.spent)
            .unwrap_or_default()
    }
}
