//! What a live run waits for, in words, with the command or the clock that ends it.

use std::sync::Arc;

use ravel_core::event::{Event, Stop, Topic, Turn, Wait};
use ravel_core::graph::{self, Graph, Kind, OnDeadline};
use ravel_core::port::Question;
use ravel_core::port_store::Posted;
use ravel_core::run::Run;

use super::Reason;
use crate::cli::messages;
use crate::live::{sample_message, sample_output, ways_to_answer};
use crate::output::{Tone, one_line, units};
use crate::view;

/// Every wait. `queued` are answers that nobody took in yet, `overdue` are questions that an answer comes too late for.
pub(super) fn reasons(
    run: &Run,
    turns: &[Turn],
    owned: bool,
    queued: &[(Arc<str>, Posted)],
    (overdue, now): (&[Arc<str>], u64),
) -> Vec<Reason> {
    let questions: Vec<Question> = run
        .questions()
        .into_iter()
        .map(|question| view::offered(question, turns))
        .collect();
    let look = Look {
        run,
        turns,
        questions: &questions,
        queued,
        overdue,
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
    turns: &'a [Turn],
    questions: &'a [Question],
    queued: &'a [(Arc<str>, Posted)],
    /// Questions whose time is over, and that only a resume closes.
    overdue: &'a [Arc<str>],
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
                    .note(self.owned.then_some(ends))
            }
            Wait::Permit { path, .. } | Wait::Budget { path } if !self.owned => {
                let text = "is ready, and starts when a process works on the run";
                let resume = format!("ravel runs resume {}", self.run.id());
                Reason::new(path, text, Tone::Faint).command([resume])
            }
            Wait::Permit { path, keys } => Reason::new(
                path,
                format!("waits for its turn under {}", keys.join(", ")),
                Tone::Faint,
            )
            .note(["an attempt that holds a permit ends".to_owned()]),
            Wait::Budget { path } if has_budget(self.run.graph()) => {
                let text = "is ready, and waits to be started or for budget that other attempts have reserved";
                Reason::new(path, text, Tone::Faint).note(["an attempt ends".to_owned()])
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
                    "deadline" => "has a deadline, and fails with `deadline` then",
                    _ => "waits for a clock",
                };
                let ends = format!("{} ({})", self.due(*until), units::time(*until));
                Reason::new(path, text, Tone::Faint).note([ends])
            }
            Wait::Signal { path, name, until } => {
                Reason::new(path, format!("waits for a message in `{name}`"), Tone::Warn)
                    .command([self.signal(name)])
                    .note(self.ends(*until, self.after_wait(path)))
            }
            Wait::Items { path, from } => {
                let text = format!("waits for more items from step {from}");
                Reason::new(path, text, Tone::Faint).note([format!("{from} ends")])
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
            return reason.note([queued, then.to_owned()]);
        }
        let then = match topic {
            Topic::Human => self.after_question(path, question),
            Topic::Uncertain => "it fails with `uncertain`",
            Topic::Compensation => "its effect stands",
        };
        if self.overdue.iter().any(|of| **of == *question) {
            return reason
                .command([format!("ravel runs resume {}", self.run.id())])
                .note([self.too_late(until, then)]);
        }
        let open = self.questions.iter().find(|open| *open.id == *question);
        let ways = open.map_or_else(
            || vec![format!("ravel answer {question}")],
            |open| ways_to_answer(&shown(open, Some(self.run.graph()))),
        );
        let held = (topic != Topic::Human).then(|| self.held(path)).flatten();
        reason.command(ways).note(self.ends(until, then)).note(held)
    }

    /// What comes after a question whose time passed without an answer.
    fn after_question(&self, path: &str, question: &str) -> &'static str {
        let step = view::resolve(self.run.graph(), path);
        let Some(Kind::Human(human)) = step.map(|step| &step.kind) else {
            return "it ends";
        };
        let levels = self.turns.iter().flat_map(|turn| &turn.events);
        let mut levels = levels.filter_map(|event| {
            let Event::Asked {
                question: of,
                level,
                ..
            } = event
            else {
                return None;
            };
            (**of == *question).then_some(*level as usize)
        });
        let level = levels.next_back().unwrap_or(0);
        if level < human.escalate.len() {
            return "the next one of `escalate` is asked";
        }
        after_deadline(&human.on_deadline)
    }

    fn after_wait(&self, path: &str) -> &'static str {
        let step = view::resolve(self.run.graph(), path);
        let Some(Kind::Wait(graph::Wait::Signal { on_deadline, .. })) = step.map(|step| &step.kind)
        else {
            return "it ends";
        };
        after_deadline(on_deadline)
    }

    /// A message that the inbox takes, as a command.
    fn signal(&self, name: &str) -> String {
        let kind = self
            .run
            .graph()
            .flows
            .iter()
            .find_map(|flow| flow.signals.get(name));
        let message = kind.map_or_else(String::new, |kind| sample_message(kind.schema()));
        format!("ravel signal {} {name} {message}", self.run.id())
    }

    /// What happens when a wait has a time, and nobody ended it before.
    fn ends(&self, until: Option<u64>, then: &str) -> Option<String> {
        let until = until?;
        let when = units::relative(until, self.now);
        Some(if until > self.now {
            format!("without that, {then} {when}")
        } else if self.owned {
            format!("its time is over: {then} any moment now")
        } else {
            format!("its time was over {when}: {then} when the run is resumed")
        })
    }

    /// What becomes of a question that an answer comes too late for.
    fn too_late(&self, until: Option<u64>, then: &str) -> String {
        match until.filter(|until| *until <= self.now) {
            Some(until) => format!(
                "an answer comes too late: its time was over {}, while no process worked on the run; resumed, {then}",
                units::relative(until, self.now)
            ),
            None => "an answer comes too late: a deadline around it passed while no process worked on the run; \
                     resumed, it is stopped"
                .to_owned(),
        }
    }

    /// Which deadline or budget stopped what is uncertain now, and is held up by it.
    fn held(&self, path: &str) -> Option<String> {
        let mut scopes = self.turns.iter().flat_map(|turn| {
            turn.events.iter().filter_map(|event| {
                let Event::Stopping { node, why } = event else {
                    return None;
                };
                let scope = self.run.node(*node)?;
                let limit = stopped_by(*why)?;
                super::is_within(path, &scope.path).then_some((turn.at, scope, limit))
            })
        });
        let (at, scope, what) = scopes.next_back()?;
        let whose = if scope.path.is_empty() {
            "the run".to_owned()
        } else {
            format!("`{}`", scope.path)
        };
        let open = if scope.ended.is_none() {
            format!("; {whose} ends when this is answered")
        } else {
            String::new()
        };
        Some(format!(
            "stopped because {what} of {whose} passed {}{open}",
            units::relative(at, self.now)
        ))
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

const fn after_deadline(then: &OnDeadline) -> &'static str {
    match then {
        OnDeadline::Fail => "it fails with `deadline`",
        OnDeadline::Answer(_) => "it goes on with the value of `on_deadline`",
    }
}

/// The limit that cut a scope short; nothing when somebody or the flow itself decided it.
const fn stopped_by(why: Stop) -> Option<&'static str> {
    match why {
        Stop::Timeout => Some("the timeout"),
        Stop::Deadline => Some("the deadline"),
        Stop::Budget => Some("the time budget"),
        Stop::Cancelled | Stop::Returned => None,
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
