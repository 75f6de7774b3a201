//! What a live run waits for, in words, with the command or the clock that ends it.

use std::sync::Arc;

use ravel_core::event::{Topic, Wait};
use ravel_core::graph::Graph;
use ravel_core::port::Question;
use ravel_core::port_store::Posted;
use ravel_core::run::Run;

use super::Reason;
use crate::cli::messages;
use crate::live::{sample_output, ways_to_answer};
use crate::output::{Tone, one_line, units};
use crate::view;

/// Every wait. `queued` are answers that nobody took in yet.
pub(super) fn reasons(
    run: &Run,
    owned: bool,
    queued: &[(Arc<str>, Posted)],
    now: u64,
) -> Vec<Reason> {
    let questions = run.questions();
    let look = Look {
        run,
        questions: &questions,
        queued,
        owned,
        now,
    };
    run.waits_on()
        .iter()
        .map(|wait| look.reason(wait))
        .collect()
}

struct Look<'a> {
    run: &'a Run,
    questions: &'a [Question],
    queued: &'a [(Arc<str>, Posted)],
    owned: bool,
    now: u64,
}

impl Look<'_> {
    fn reason(&self, wait: &Wait) -> Reason {
        match wait {
            Wait::Attempt {
                path,
                number,
                until,
            } => {
                let verb = if self.owned {
                    "is under way"
                } else {
                    "was under way when its process ended"
                };
                let ends = if *until <= self.now {
                    format!("its timeout passed {}", units::relative(*until, self.now))
                } else {
                    format!(
                        "stopped {} at the latest",
                        units::relative(*until, self.now)
                    )
                };
                Reason::new(path, format!("attempt {number} {verb}"), Tone::Busy)
                    .next(self.owned.then_some(ends))
            }
            Wait::Permit { path, .. } | Wait::Budget { path } if !self.owned => {
                let text = "is ready, and starts when a process works on the run";
                let resume = format!("ravel runs resume {}", self.run.id());
                Reason::new(path, text, Tone::Faint).next([resume])
            }
            Wait::Permit { path, keys } => Reason::new(
                path,
                format!("waits for its turn under {}", keys.join(", ")),
                Tone::Faint,
            )
            .next(["an attempt that holds a permit ends".to_owned()]),
            Wait::Budget { path } if has_budget(self.run.graph()) => {
                let text = "is ready, and waits to be started or for budget that other attempts have reserved";
                Reason::new(path, text, Tone::Faint).next(["an attempt ends".to_owned()])
            }
            Wait::Budget { path } => {
                Reason::new(path, "is ready, and is being started", Tone::Faint)
            }
            Wait::Person {
                path,
                question,
                ask,
                topic,
                until,
            } => self.person(path, question, ask, *topic, *until),
            Wait::Time { path, until, why } => {
                let text = match *why {
                    "retry" => "is tried again after a pause",
                    "deadline" => "has a deadline",
                    _ => "waits for a clock",
                };
                let ends = format!("{} ({})", self.due(*until), units::time(*until));
                Reason::new(path, text, Tone::Faint).next([ends])
            }
            Wait::Signal { path, name, until } => {
                let send = format!("ravel signal {} {name} …", self.run.id());
                Reason::new(path, format!("waits for a message in `{name}`"), Tone::Warn)
                    .next([send + &self.by_itself(*until)])
            }
            Wait::Items { path, from } => {
                let text = format!("waits for more items from step {from}");
                Reason::new(path, text, Tone::Faint).next([format!("{from} ends")])
            }
        }
    }

    fn person(
        &self,
        path: &str,
        question: &str,
        ask: &str,
        topic: Topic,
        until: Option<u64>,
    ) -> Reason {
        let ask = one_line(ask);
        let text = match topic {
            Topic::Human => format!("asks a person: {ask}"),
            Topic::Uncertain => format!("is uncertain: it may or may not have happened. {ask}"),
            Topic::Compensation => format!("could not be compensated. {ask}"),
        };
        let reason = Reason::new(path, text, Tone::Warn);
        if let Some((_, posted)) = self.queued.iter().find(|(of, _)| **of == *question) {
            let queued = format!("an answer is queued {}", messages::waiting(posted));
            let then = if self.owned {
                "the process that owns the run takes it in when it goes on"
            } else {
                "it is taken in when the run is resumed"
            };
            return reason.next([queued, then.to_owned()]);
        }
        let open = self.questions.iter().find(|open| *open.id == *question);
        let mut ways = open.map_or_else(
            || vec![format!("ravel answer {question}")],
            |open| ways_to_answer(&shown(open, Some(self.run.graph()))),
        );
        if let Some(last) = ways.last_mut() {
            last.push_str(&self.by_itself(until));
        }
        reason.next(ways)
    }

    fn by_itself(&self, until: Option<u64>) -> String {
        until
            .map(|until| {
                if until <= self.now {
                    format!("  (its time is over: {})", self.due(until))
                } else {
                    format!("  (ends by itself {})", self.due(until))
                }
            })
            .unwrap_or_default()
    }

    /// When a clock ends a wait: a time that passed while nobody worked on the run counts when it is resumed.
    fn due(&self, until: u64) -> String {
        if until > self.now {
            return units::relative(until, self.now);
        }
        if self.owned {
            return "any moment now".to_owned();
        }
        let ago = units::relative(until, self.now);
        format!("it was due {ago}, and counts when the run is resumed")
    }
}

/// True when attempts of the flow, or of a step of it, reserve a budget.
fn has_budget(graph: &Graph) -> bool {
    graph.flows.iter().any(|flow| flow.budget.is_some())
        || graph.steps.iter().any(|step| step.budget.is_some())
}

/// An open question in the form that the live view shows. With the graph, the shape of an effect's value is known.
pub(crate) fn shown(question: &Question, graph: Option<&Graph>) -> view::Question {
    let uncertain = graph.filter(|_| question.topic == Topic::Uncertain);
    view::Question {
        id: question.id.to_string(),
        path: question.path.to_string(),
        ask: one_line(&question.ask),
        form: question.form.json().clone(),
        topic: question.topic,
        output: uncertain.and_then(|graph| sample_output(graph, &question.path)),
        until: question.until,
    }
}
