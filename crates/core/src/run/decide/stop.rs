//! Stopping: cancel, deadlines and everything else that cuts work short.

use std::sync::Arc;

use super::Turning;
use crate::event::{Attempt, Command, Event, Node, Reject, Settled, Stop};
use crate::graph::Join;
use crate::mutant::{self, Mutant};
use crate::run::state::{Phase, Role, Slot};

impl Turning<'_> {
    /// Cuts an activation and everything below it short.
    pub(super) fn stop(&mut self, node: Node, why: Stop) {
        match self.state.node(node).phase {
            Phase::Settled(_) if mutant::is(Mutant::SettledTwice) => {
                self.settle(node, Settled::Cancelled);
            }
            Phase::Settled(_) => {}
            Phase::Pending => self.settle(node, Settled::Cancelled),
            Phase::Open if self.is_leaf(node) => self.stop_leaf(node, why),
            Phase::Open => self.stop_scope(node, why),
        }
    }

    fn stop_leaf(&mut self, node: Node, why: Stop) {
        let asked = self.asks_about_effect(node);
        let extra = self.state.extra(node);
        let aux = extra.aux;
        if let Some(flight) = &extra.flight {
            let number = flight.number;
            if flight
                .stopping
                .is_none_or(|(before, _)| before == Stop::Timeout)
            {
                self.emit(Event::AttemptStopping { node, why });
                self.commands.push(Command::Abort {
                    attempt: Attempt { node, number },
                    why,
                });
            }
            return;
        }
        if extra.stopping.is_some() {
            return;
        }
        let in_catch = extra.caught.is_some();
        if let Some(aux) = aux {
            self.emit(Event::Stopping { node, why });
            // A check or a compensation under way is what settles the matter: it is left alone.
            if matches!(self.slot(aux), Slot::Gate(_) | Slot::Handler) {
                self.stop(aux, why);
            }
            return;
        }
        if asked || in_catch {
            return self.emit(Event::Stopping { node, why });
        }
        match why {
            Stop::Cancelled | Stop::Returned => self.settle(node, Settled::Cancelled),
            Stop::Deadline | Stop::Budget | Stop::Timeout => {
                self.emit(Event::Stopping { node, why })
            }
        }
    }

    /// A question about an effect stays open whatever is cut short around it.
    fn asks_about_effect(&self, node: Node) -> bool {
        let question = self
            .state
            .node(node)
            .extra
            .as_ref()
            .and_then(|extra| extra.question.as_ref());
        let open = question.and_then(|question| self.state.questions.get(question));
        open.is_some_and(|open| open.topic != crate::event::Topic::Human)
    }

    fn stop_scope(&mut self, node: Node, why: Stop) {
        let before = self.state.extra(node).stopping;
        let stronger = match before {
            None => true,
            Some(Stop::Cancelled) => false,
            Some(_) => why == Stop::Cancelled,
        };
        if !stronger {
            return;
        }
        self.emit(Event::Stopping { node, why });
        // Children of a stopping scope are cancelled; why the scope stopped is the scope's own matter.
        let below = if why == Stop::Returned {
            Stop::Returned
        } else {
            Stop::Cancelled
        };
        for child in self.state.main_children(node) {
            let activation = self.state.node(child);
            let stays = activation.role == Role::Step
                && activation.phase == Phase::Pending
                && self.state.graph.step(activation.step).join == Join::Settled;
            if !stays {
                self.stop(child, below);
            }
        }
        if let Some(aux) = self.state.extra(node).aux
            && matches!(self.slot(aux), Slot::Gate(_) | Slot::Handler)
        {
            self.stop(aux, below);
        }
    }

    /// Somebody asks to cancel the run or one activation.
    pub(super) fn cancel(
        &mut self,
        path: Option<&str>,
        by: Option<Arc<str>>,
        reason: Option<Arc<str>>,
    ) -> Result<(), Reject> {
        let node = match path {
            None | Some("") => 0,
            Some(path) => self.find(path)?,
        };
        if self.state.nodes.is_empty() || self.state.settled(node).is_some() {
            let what = path.map_or_else(|| "the run".to_owned(), |path| format!("`{path}`"));
            return Err(Reject {
                code: "already_settled",
                message: format!("{what} is over; a final state is never overwritten"),
            });
        }
        if self.state.extra(node).stopping == Some(Stop::Cancelled) {
            return Ok(());
        }
        self.emit(Event::CancelRequested { node, by, reason });
        self.stop(node, Stop::Cancelled);
        Ok(())
    }

    fn find(&self, path: &str) -> Result<Node, Reject> {
        // The latest activation of a path is the one that people mean.
        let all = 0..self.state.nodes.len() as Node;
        let found = all.rev().find(|node| *self.state.path(*node) == *path);
        found.ok_or_else(|| Reject {
            code: "unknown_path",
            message: format!("the run has no step `{path}` so far"),
        })
    }
}
