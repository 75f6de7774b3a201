//! Timers that are due.

use super::Turning;
use crate::effect::{ErrorClass, Failure, Outcome};
use crate::event::{Attempt, Command, Event, Node, Stop, Topic};
use crate::run::state::{Phase, Timer};

impl Turning<'_> {
    /// Fires all timers that are due, in order of their time. Each fired timer leads to an event that removes it.
    pub(super) fn tick(&mut self) {
        while let Some(&(at, node, timer)) = self.state.timers.first() {
            if at > self.state.now {
                return;
            }
            self.fire(node, timer);
            self.drain();
            assert!(
                !self.state.timers.contains(&(at, node, timer)),
                "a timer that fired is gone: {timer:?} of `{}`",
                self.state.path(node)
            );
        }
    }

    fn fire(&mut self, node: Node, timer: Timer) {
        match timer {
            Timer::Timeout => self.abort(node, Stop::Timeout),
            Timer::Grace => self.give_up(node),
            Timer::Retry => self.retry(node),
            Timer::Wait => self.wait_over(node),
            Timer::Question => self.question_over(node),
            Timer::Deadline => self.cut(node, Stop::Deadline),
            Timer::Budget => self.cut(node, Stop::Budget),
        }
    }

    fn abort(&mut self, node: Node, why: Stop) {
        let flight = self.state.extra(node).flight.as_ref();
        let number = flight
            .expect("a timeout belongs to an attempt under way")
            .number;
        self.emit(Event::AttemptStopping { node, why });
        self.commands.push(Command::Abort {
            attempt: Attempt { node, number },
            why,
        });
    }

    /// A stopped attempt did not end: what it did is not known.
    fn give_up(&mut self, node: Node) {
        let flight = self.state.extra(node).flight.as_ref();
        let number = flight
            .expect("the grace belongs to an attempt under way")
            .number;
        let failure = Failure::new(
            ErrorClass::Timeout,
            "the attempt was stopped and did not end within its grace",
        );
        self.finished(Attempt { node, number }, Outcome::unknown(failure));
    }

    fn retry(&mut self, node: Node) {
        // Opening again takes the pause back also when the attempt has to wait for permits.
        let path = self.state.path(node);
        self.emit(Event::Opened {
            node,
            path,
            with: None,
            keys: None,
            case: None,
        });
        self.try_attempt(node);
    }

    /// A deadline, or the active time of a budget, is over.
    fn cut(&mut self, node: Node, why: Stop) {
        if self.state.node(node).phase != Phase::Open {
            unreachable!("a settled activation has no timers");
        }
        if self.is_leaf(node) {
            let extra = self.state.extra(node);
            if let Some(flight) = &extra.flight {
                let number = flight.number;
                self.emit(Event::AttemptStopping { node, why });
                self.commands.push(Command::Abort {
                    attempt: Attempt { node, number },
                    why,
                });
                return;
            }
            // Nothing is under way: it fails where it stands.
            let asked = extra.question.clone();
            let open = asked.and_then(|question| self.state.questions.get(&question));
            if open.is_some_and(|open| open.topic == Topic::Uncertain) {
                self.emit(Event::Stopping { node, why });
                return self.question_over(node);
            }
            return self.stop(node, why);
        }
        if self.state.extra(node).stopping.is_some() {
            return self.emit(Event::Stopping {
                node,
                why: self
                    .state
                    .node(node)
                    .extra
                    .as_ref()
                    .and_then(|extra| extra.stopping)
                    .unwrap_or(why),
            });
        }
        self.stop(node, why);
    }
}
