//! What a live run waits for, in words, with the command or the clock that ends it.

use ravel_core::event::{Topic, Wait};
use ravel_core::port::Question;
use ravel_core::run::Run;

use super::Reason;
use crate::live::how_to_answer;
use crate::output::{Tone, one_line, units};
use crate::view;

/// Every wait.
pub(super) fn reasons(run: &Run, owned: bool, now: u64) -> Vec<Reason> {
    let questions = run.questions();
    let look = Look {
        run,
        questions: &questions,
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
                let ends = format!(
                    "stopped {} at the latest",
                    units::relative(*until, self.now)
                );
                Reason::new(path, format!("attempt {number} {verb}"), Tone::Busy)
                    .next(self.owned.then_some(ends))
            }
            Wait::Permit { path, keys } => Reason::new(
                path,
                format!("waits for its turn under {}", keys.join(", ")),
                Tone::Faint,
            )
            .next(["an attempt that holds a permit ends".to_owned()]),
            Wait::Budget { path } => {
                let text = "is ready, and waits to be started or for budget that other attempts have reserved";
                Reason::new(path, text, Tone::Faint).next(["an attempt ends".to_owned()])
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
                let ends = format!(
                    "{} ({})",
                    units::relative(*until, self.now),
                    units::time(*until)
                );
                Reason::new(path, text, Tone::Faint).next([ends])
            }
            Wait::Signal { path, name, until } => {
                let send = format!("ravel signal {} {name} …", self.run.id());
                Reason::new(path, format!("waits for a message in `{name}`"), Tone::Warn)
                    .next([send + &self.by_itself(*until)])
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
        let open = self.questions.iter().find(|open| *open.id == *question);
        let answer = open.map_or_else(
            || format!("ravel answer {question}"),
            |open| how_to_answer(&shown(open)),
        );
        Reason::new(path, text, Tone::Warn).next([answer + &self.by_itself(until)])
    }

    fn by_itself(&self, until: Option<u64>) -> String {
        until
            .map(|until| format!("  (ends by itself {})", units::relative(until, self.now)))
            .unwrap_or_default()
    }
}

/// An open question in the form that the live view shows.
pub(crate) fn shown(question: &Question) -> view::Question {
    view::Question {
        id: question.id.to_string(),
        path: question.path.to_string(),
        ask: one_line(&question.ask),
        form: question.form.json().clone(),
        until: question.until,
    }
}
