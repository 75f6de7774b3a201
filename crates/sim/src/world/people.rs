//! People: they answer truthfully, and late.

use std::sync::Arc;

use ravel_core::event::Topic;
use ravel_core::port::Question;
use ravel_core::port_store::{Inbox, Listing, Message};
use ravel_core::value::Val;
use ravel_engine::message::{In, Sender};
use serde_json::{Value, json};

use super::engine::{text, wish};
use super::{Coming, Expect, IDLE_MAX, World};

impl World<'_> {
    /// Nothing moves by itself: what is to come is brought forward, runs that nobody has are taken over, people do what
    /// they are asked for.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        self.idle += 1;
        if self.idle > IDLE_MAX {
            return Err(format!("the runs do not end: {}", self.stands()));
        }
        if let Some(act) = self.acts.front() {
            self.moves = self.moves.max(act.at);
            return Ok(());
        }
        if self.adopt()? {
            return Ok(());
        }
        let questions = self.store.questions(None).map_err(text)?;
        if let Some(question) = questions.first().cloned() {
            let answer = self.truth(&question);
            return self.send_answer(&question, answer, false, false);
        }
        if !self.send_signals()? {
            return Err(format!("the runs are stuck: {}", self.stands()));
        }
        Ok(())
    }

    /// A message in each inbox that somebody waits on.
    fn send_signals(&mut self) -> Result<bool, String> {
        let mut sent = false;
        for summary in self.summaries()? {
            for wait in &summary.waits {
                let wait = wait.json();
                let Some(name) = wait["name"].as_str().filter(|_| wait["on"] == "signal") else {
                    continue;
                };
                sent = true;
                let id = format!("idle {}", self.idle);
                self.send_signal(&summary.run, name, false, &id, false)?;
            }
        }
        Ok(sent)
    }

    /// What somebody who can see the world answers.
    pub(super) fn truth(&self, question: &Question) -> Value {
        match question.topic {
            Topic::Human => json!({ "ok": self.draw("ok", &question.path, 2) == 0 }),
            Topic::Compensation => match self.draw("action", &question.path, 3) {
                0 => json!({ "action": "retry" }),
                1 => json!({ "action": "done" }),
                _ => json!({ "action": "give_up" }),
            },
            Topic::Uncertain if self.happened(&question.run, &question.path) => {
                json!({ "happened": true, "output": { "good": true } })
            }
            Topic::Uncertain => match self.draw("again", &question.path, 2) {
                0 => json!({ "not_done": "retry" }),
                _ => json!({ "not_done": "fail" }),
            },
        }
    }

    pub(super) fn send_answer(
        &mut self,
        question: &Question,
        value: Value,
        wrong: bool,
        posted: bool,
    ) -> Result<(), String> {
        let message = Message::Answer {
            question: Arc::clone(&question.id),
            value: Val::new(value.clone()),
            by: Some("somebody".into()),
        };
        let what = format!("the answer {value} to `{}`", question.path);
        self.send(&question.run, message, wrong, posted, what)
    }

    pub(super) fn send_signal(
        &mut self,
        run: &Arc<str>,
        name: &str,
        wrong: bool,
        id: &str,
        posted: bool,
    ) -> Result<(), String> {
        let value = if wrong {
            json!({ "n": "x" })
        } else {
            json!({ "n": 1 })
        };
        let message = Message::Signal {
            name: name.into(),
            value: Val::new(value),
            id: Some(id.into()),
        };
        let what = format!("the message to `{name}`");
        self.send(run, message, wrong, posted, what)
    }

    /// Sends a message: by a call when the engine has the run, else (or if asked for) through the store.
    pub(super) fn send(
        &mut self,
        run: &Arc<str>,
        message: Message,
        wrong: bool,
        posted: bool,
        what: String,
    ) -> Result<(), String> {
        self.say(|| format!("{run} gets {what}"));
        let here = self.life.as_ref().is_some_and(|life| life.shard.has(run));
        if here && !posted {
            let run = Arc::clone(run);
            let expect = Expect::Reply {
                run: Arc::clone(&run),
                wrong,
                what,
            };
            let from = Sender::Caller(self.ticket(expect));
            let (at, wish) = (self.now, wish(message));
            return self.step(In::Posted {
                from,
                run,
                at,
                wish,
            });
        }
        if !self.watches.contains_key(run) {
            return Ok(());
        }
        self.store.post(run, self.now, &message).map_err(text)?;
        if let Some(number) = self.life.as_ref().map(|life| life.number) {
            let after = self.draw("poll", run, 200);
            self.coming(after, Coming::Look(number));
        }
        Ok(())
    }
}
