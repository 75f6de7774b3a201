//! What is done to the world.

use std::sync::Arc;

use ravel_core::event::Topic;
use ravel_core::port_store::{Error, Listing, Log, Message};
use ravel_engine::message::In;
use ravel_engine::shard::Refused;
use serde_json::json;

use super::engine::text;
use super::{Coming, Expect, World};
use crate::case::Deed;

impl World<'_> {
    pub(super) fn do_deed(&mut self, deed: &Deed) -> Result<(), String> {
        self.say(|| format!("-- {}", serde_json::to_string(deed).unwrap_or_default()));
        match deed {
            Deed::Crash {
                written,
                down,
                jump,
            } => self.crash(*written, *down, *jump),
            Deed::StoreFails { full, written } => {
                self.disk_fails = Some((*full, *written));
                Ok(())
            }
            Deed::Zombie => self.zombie(),
            Deed::Cancel { run, step, posted } => self.cancel(*run, *step, *posted),
            Deed::Answer {
                question,
                wrong,
                times,
                posted,
            } => self.answer(*question, *wrong, *times, *posted),
            Deed::Signal {
                run,
                ping,
                times,
                wrong,
                posted,
            } => {
                let (run, name) = (Self::run_id(*run), if *ping { "ping" } else { "pong" });
                let id = format!("signal {}", self.moves);
                for _ in 0..*times {
                    self.send_signal(&run, name, *wrong, &id, *posted)?;
                }
                Ok(())
            }
            Deed::Pause { run } => {
                let run = Self::run_id(*run);
                if let Some(life) = self.life.as_mut() {
                    life.holding = true;
                }
                let ticket = self.ticket(Expect::Paused);
                self.step(In::Pause { ticket, run })
            }
            Deed::Shutdown { now } => {
                if let Some(life) = self.life.as_mut() {
                    life.holding = true;
                }
                self.step(In::Shutdown { now: *now })
            }
            Deed::Fork { run, turn } => self.fork(*run, *turn),
            Deed::Jump { ms } => {
                self.now += ms;
                Ok(())
            }
        }
    }

    fn crash(&mut self, written: bool, down: u64, jump: i64) -> Result<(), String> {
        let Some(life) = self.life.as_mut() else {
            return Ok(());
        };
        if let Some(batch) = life.committing.take().filter(|_| written) {
            self.commit(&batch)?;
        }
        self.history.ends += 1;
        self.life = None;
        self.jump = jump;
        self.coming(down, Coming::Restart);
        Ok(())
    }

    /// The engine is taken for dead. What it has handed out happens, if it ever does, before the next one looks.
    fn zombie(&mut self) -> Result<(), String> {
        let Some(mut life) = self.life.take() else {
            return Ok(());
        };
        let open: Vec<_> = std::mem::take(&mut life.open).into_iter().collect();
        let number = life.number;
        // Effects are seen through the engine's life: lend it once more.
        life.open = open
            .into_iter()
            .filter(|(_, doing)| doing.plan.effect.is_some() && !doing.effected)
            .collect();
        let due: Vec<_> = life.open.keys().cloned().collect();
        self.life = Some(life);
        for (run, attempt) in due {
            self.effect(number, &run, attempt);
        }
        self.history.ends += 1;
        if let Some(mut life) = self.life.take() {
            // A dropped handle is a process that the store takes for dead.
            life.store = self.store.another();
            self.zombies.push(life);
        }
        self.coming(0, Coming::Restart);
        Ok(())
    }

    /// An engine that does not know that its runs are another's tries to write them.
    pub(super) fn meet_zombies(&mut self) -> Result<(), String> {
        for mut life in std::mem::take(&mut self.zombies) {
            let Some(mut batch) = life.committing.take().or_else(|| life.shard.cut()) else {
                continue;
            };
            // Runs that were not there yet are nobody's.
            batch
                .runs
                .retain(|commit| !commit.create && self.watches.contains_key(&commit.run));
            while !batch.runs.is_empty() {
                let Err(error) = life.store.commit(&batch) else {
                    let run = &batch.runs[0].run;
                    return Err(format!("an engine that lost {run} still writes it"));
                };
                let Error::Fenced { run } = &error else {
                    return Err(format!("an engine that lost its runs is told: {error}"));
                };
                let offender = batch.runs.iter().position(|commit| commit.run == *run);
                let mut out = Vec::new();
                match life
                    .shard
                    .refused(self.now, batch, &error, offender, &mut out)
                {
                    Refused::Retry(rest) => batch = rest,
                    Refused::Stopped => break,
                }
            }
        }
        Ok(())
    }

    fn cancel(&mut self, run: usize, step: Option<usize>, posted: bool) -> Result<(), String> {
        let run = Self::run_id(run);
        let live = self.life.as_ref().and_then(|life| life.shard.run(&run));
        let path = match (step, live) {
            (None, _) => None,
            (Some(_), None) => return Ok(()),
            (Some(step), Some(live)) => {
                let paths: Vec<Arc<str>> = live
                    .nodes()
                    .filter(|view| view.ended.is_none() && !view.path.is_empty())
                    .map(|view| view.path)
                    .collect();
                if paths.is_empty() {
                    return Ok(());
                }
                Some(Arc::clone(&paths[step % paths.len()]))
            }
        };
        let what = format!("a cancel of `{}`", path.as_deref().unwrap_or("all"));
        let message = Message::Cancel {
            path,
            by: Some("somebody".into()),
            reason: None,
        };
        self.send(&run, message, false, posted, what)
    }

    fn answer(
        &mut self,
        number: usize,
        wrong: bool,
        times: u64,
        posted: bool,
    ) -> Result<(), String> {
        let questions = self.store.questions(None).map_err(text)?;
        if questions.is_empty() {
            return Ok(());
        }
        let question = questions[number % questions.len()].clone();
        let value = match (wrong, question.topic) {
            (false, _) => self.truth(&question),
            (true, Topic::Human) => json!({ "ok": "maybe" }),
            (true, Topic::Uncertain) => json!({ "happened": "maybe" }),
            (true, Topic::Compensation) => json!({ "action": "dance" }),
        };
        for _ in 0..times {
            self.send_answer(&question, value.clone(), wrong, posted)?;
        }
        Ok(())
    }

    fn fork(&mut self, run: usize, turn: u64) -> Result<(), String> {
        let base = Self::run_id(run);
        let last = self.watches.get(&base).map_or(0, |watch| watch.turn);
        if last == 0 || self.life.is_none() || self.forks.len() >= FORKS_MAX {
            return Ok(());
        }
        let turns = self.store.load_to(&base, 1 + turn % last).map_err(text)?;
        let prefix = self.replay(&turns)?;
        if prefix.is_final() {
            return Ok(());
        }
        let id: Arc<str> = format!("f{}", self.forks.len()).into();
        self.forks.insert(Arc::clone(&id), base);
        let ticket = self.ticket(Expect::Run(Arc::clone(&id)));
        self.step(In::Fork {
            ticket,
            run: id,
            prefix: Box::new(prefix),
        })
    }
}

/// Forks of a world at most.
const FORKS_MAX: usize = 2;
