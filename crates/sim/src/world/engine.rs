//! What the driver does in the real engine: the shard is stepped, what it says is carried out, turns go to the disk.

use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure, Outcome};
use ravel_core::event::Attempt;
use ravel_core::port::Job;
use ravel_core::port_store::{Batch, Error, Inbox, Log, Message, Owner, Ownership, Posted, Reply};
use ravel_core::run::Run;
use ravel_core::value::Val;
use ravel_engine::EngineError;
use ravel_engine::message::{
    Answer, Ending, In, Letter, NewRun, Opened, Out, Reported, RunKey, Sender, Wish,
};
use ravel_engine::shard::Refused;
use serde_json::json;

use super::{Coming, Expect, Seen, World};
use crate::executor::{changes, plan};
use crate::life::{Doing, Life};
use crate::watch::Watch;

impl World<'_> {
    /// Steps the shard and carries out what it says.
    pub(super) fn step(&mut self, message: In) -> Result<(), String> {
        let Some(life) = self.life.as_mut() else {
            return Ok(());
        };
        let mut out = Vec::new();
        life.shard.step(self.now, message, &mut out);
        self.carry_out(out)
    }

    fn carry_out(&mut self, out: Vec<Out>) -> Result<(), String> {
        for message in out {
            match message {
                Out::Launch { key, job } => self.launch(key, *job)?,
                Out::Abort { run, attempt, .. } => self.abort(&run, attempt),
                Out::Open { key, run, owner } => {
                    let opened = self.open(&run, owner).map(Box::new);
                    if let Err(EngineError::Broken { message, .. }) = &opened {
                        return Err(format!("{run} cannot be opened: {message}"));
                    }
                    self.step(In::Opened { key, opened })?;
                }
                Out::Answer { ticket, answer } => {
                    if let Some(expect) = self.expected.remove(&ticket) {
                        self.judge(&expect, answer)?;
                    }
                }
                Out::Turns { run, turns } => {
                    let shown = turns.last().map_or(0, |turn| turn.turn);
                    let durable = self.watches.get(&run).map_or(0, |watch| watch.turn);
                    if shown > durable {
                        return Err(format!(
                            "turn {shown} of {run} is shown, {durable} is on disk"
                        ));
                    }
                }
                Out::Text { .. } => {}
                Out::Ended { run, ending } => self.left(&run, &ending)?,
                Out::Release { run, owner } => {
                    self.store.release(&run, &owner).map_err(text)?;
                }
                Out::Stopped { why } => {
                    self.say(|| format!("the engine stops: {why:?}"));
                    self.history.ends += 1;
                    if let Some(life) = self.life.take() {
                        self.store.release_all(&life.token).map_err(text)?;
                    }
                    self.coming(1_000, Coming::Restart);
                }
            }
        }
        if let Some(life) = self.life.as_mut() {
            let settles = life.shard.take_settles();
            life.store.settle(&settles).map_err(text)?;
        }
        Ok(())
    }

    fn left(&mut self, run: &Arc<str>, ending: &Ending) -> Result<(), String> {
        match ending {
            Ending::Final(summary) => {
                let state = summary.state;
                let listed = self.summaries()?;
                let stored = listed.iter().find(|stored| stored.run == *run);
                if !stored.is_some_and(|stored| stored.state == state) {
                    return Err(format!(
                        "{run} is said to be over and the store does not know"
                    ));
                }
                self.say(|| format!("{run} is {}", state.name()));
            }
            Ending::Left(EngineError::Broken { message, .. }) => {
                return Err(format!("{run} broke: {message}"));
            }
            Ending::Left(why) => self.say(|| format!("{run} leaves: {why}")),
        }
        Ok(())
    }

    fn judge(
        &mut self,
        expect: &Expect,
        answer: Result<Answer, EngineError>,
    ) -> Result<(), String> {
        match (expect, answer) {
            (Expect::Run(run), Ok(Answer::Run(got))) => {
                if got != *run || !self.watches.contains_key(run) {
                    return Err(format!(
                        "the start of {run} is acknowledged and not on disk"
                    ));
                }
            }
            (Expect::Reply { run, wrong, what }, Ok(Answer::Reply(Reply::Accepted { turn }))) => {
                if *wrong {
                    return Err(format!("{what} does not fit and is accepted"));
                }
                let durable = self.watches.get(run).map_or(0, |watch| watch.turn);
                if turn > durable {
                    return Err(format!(
                        "{what} is acknowledged with turn {turn} of {run}, {durable} is on disk"
                    ));
                }
            }
            (Expect::Reply { what, .. }, Ok(Answer::Reply(Reply::Rejected { code, .. }))) => {
                self.say(|| format!("{what} is refused: {code}"));
            }
            (Expect::Paused, Ok(Answer::Paused)) | (_, Err(_)) => {}
            (expect, answer) => {
                return Err(format!("{expect:?} is answered with {answer:?}"));
            }
        }
        Ok(())
    }

    // Starts of the engine.

    pub(super) fn restart(&mut self) -> Result<(), String> {
        if self.life.is_some() {
            return Ok(());
        }
        // No process runs for ever: a clock that was set back is seen by the next one.
        self.now = self
            .now
            .saturating_add_signed(std::mem::take(&mut self.jump));
        self.lives += 1;
        let life = Life::new(self.lives, self.store.another(), &self.case.weather);
        let number = life.number;
        self.life = Some(life);
        self.watches.values_mut().for_each(Watch::unlearn);
        self.say(|| format!("engine {number} begins"));
        for index in 0..self.of_run.len() {
            self.start(index)?;
        }
        self.adopt()?;
        self.meet_zombies()?;
        self.coming(0, Coming::Look(number));
        Ok(())
    }

    /// Starts a run, unless it exists already under its start key.
    fn start(&mut self, index: usize) -> Result<(), String> {
        let run = Self::run_id(index);
        let start_key: Arc<str> = format!("key {index}").into();
        if self.watches.contains_key(&run) {
            return Ok(());
        }
        let ticket = self.ticket(Expect::Run(Arc::clone(&run)));
        let new = NewRun {
            run,
            graph: Arc::clone(&self.of_run[index]),
            terms: self.terms.clone(),
            input: Val::new(json!({})),
            start_key: Some(start_key),
        };
        self.step(In::Start {
            ticket,
            new: Box::new(new),
        })
    }

    /// Takes over every run that is not over and that nobody has.
    pub(super) fn adopt(&mut self) -> Result<bool, String> {
        let mut found = false;
        for summary in self.summaries()? {
            let Some(life) = &self.life else { break };
            if !summary.state.is_final() && !life.shard.has(&summary.run) {
                found = true;
                self.step(In::Resume {
                    ticket: None,
                    run: summary.run,
                })?;
            }
        }
        Ok(found)
    }

    fn open(&mut self, run: &Arc<str>, owner: Option<Owner>) -> Result<Opened, EngineError> {
        let broken = |message: String| EngineError::Broken {
            run: Arc::clone(run),
            message,
        };
        let Some(life) = &self.life else {
            return Err(broken("nobody is there to open it".to_owned()));
        };
        let claimed = owner.is_none();
        let owner = match owner {
            Some(owner) => owner,
            None => life
                .store
                .claim(run, &life.token)
                .map_err(|error| broken(error.to_string()))?,
        };
        let turns = life
            .store
            .load(run)
            .map_err(|error| broken(error.to_string()))?;
        let waiting = life
            .store
            .waiting(run)
            .map_err(|error| broken(error.to_string()))?;
        let folded = self.replay(&turns).map_err(broken)?;
        let rows = waiting
            .into_iter()
            .map(|posted| Letter {
                row: posted.id,
                at: posted.at,
                wish: wish(posted.message),
            })
            .collect();
        Ok(Opened {
            run: folded,
            owner,
            claimed,
            start_key: None,
            rows,
        })
    }

    pub(super) fn replay(&self, turns: &[ravel_core::event::Turn]) -> Result<Run, String> {
        let mut graphs = |hash: &str| {
            let graph = self.graphs.get(hash).cloned();
            graph.ok_or_else(|| "no such graph".to_owned())
        };
        Run::replay(turns, &mut graphs).map_err(|error| error.to_string())
    }

    pub(super) fn look_at_inbox(&mut self, number: u64) -> Result<(), String> {
        let Some(life) = self.life.as_mut().filter(|life| life.number == number) else {
            return Ok(());
        };
        let posted: Vec<Posted> = life.store.fetch(&life.token, life.seen).map_err(text)?;
        for row in posted {
            if let Some(life) = self.life.as_mut() {
                life.seen = life.seen.max(row.id);
            }
            self.step(In::Posted {
                from: Sender::Row(row.id),
                run: row.run,
                at: row.at,
                wish: wish(row.message),
            })?;
        }
        Ok(())
    }

    // Attempts.

    fn launch(&mut self, key: RunKey, job: Job) -> Result<(), String> {
        self.may_launch(&job)?;
        let Some(life) = self.life.as_mut() else {
            return Ok(());
        };
        let number = life.number;
        let plan = plan(self.case.seed, &job.run, &job, self.case.weather.failing);
        let (run, attempt) = (Arc::clone(&job.run), job.attempt);
        let line = format!(
            "{run} starts `{}` for the {}. time",
            job.path, attempt.number
        );
        let doing = Doing {
            key,
            job,
            plan: plan.clone(),
            effected: false,
            stopped: false,
            sent: 0,
        };
        life.open.insert((Arc::clone(&run), attempt), doing);
        self.say(|| line);
        if let Some(after) = plan.effect {
            self.coming(after, Coming::Effect(number, Arc::clone(&run), attempt));
        }
        for (index, _) in plan.items.iter().enumerate() {
            let after = plan.end.unwrap_or(1_000) * index as u64 / plan.items.len() as u64;
            self.coming(after, Coming::Item(number, Arc::clone(&run), attempt));
        }
        if let Some(after) = plan.end {
            self.coming(after, Coming::End(number, Arc::clone(&run), attempt));
            if self.draw("twice", &run, 100) < self.case.weather.twice {
                self.coming(after + 3, Coming::End(number, run, attempt));
            }
        }
        Ok(())
    }

    fn abort(&mut self, run: &Arc<str>, attempt: Attempt) {
        let Some(life) = self.life.as_mut() else {
            return;
        };
        let number = life.number;
        let Some(doing) = life.open.get_mut(&(Arc::clone(run), attempt)) else {
            return;
        };
        doing.stopped = true;
        let after = doing.plan.stop;
        self.coming(after, Coming::End(number, Arc::clone(run), attempt));
    }

    fn doing(&mut self, number: u64, run: &Arc<str>, attempt: Attempt) -> Option<&mut Doing> {
        let life = self.life.as_mut().filter(|life| life.number == number)?;
        life.open.get_mut(&(Arc::clone(run), attempt))
    }

    pub(super) fn effect(&mut self, number: u64, run: &Arc<str>, attempt: Attempt) {
        let Some(doing) = self
            .doing(number, run, attempt)
            .filter(|doing| doing.plan.effect.is_some())
        else {
            return;
        };
        doing.effected = true;
        if !changes(doing.job.effect) {
            return;
        }
        let seen = Seen {
            run: Arc::clone(run),
            path: Arc::clone(&doing.job.path),
            attempt,
            once: doing.job.effect == ravel_core::effect::Effect::Once,
        };
        self.history.effects += 1;
        self.say(|| format!("{run} changes the world at `{}`", seen.path));
        self.seen.push(seen);
    }

    pub(super) fn item(
        &mut self,
        number: u64,
        run: &Arc<str>,
        attempt: Attempt,
    ) -> Result<(), String> {
        let Some(doing) = self
            .doing(number, run, attempt)
            .filter(|doing| !doing.stopped)
        else {
            return Ok(());
        };
        let (Some(field), Some(item)) = (
            doing.job.stream.clone(),
            doing.plan.items.get(doing.sent).cloned(),
        ) else {
            return Ok(());
        };
        doing.sent += 1;
        let key = doing.key;
        let what = Reported::Items {
            field,
            items: vec![item.into()],
        };
        self.step(In::Report { key, attempt, what })
    }

    pub(super) fn end(
        &mut self,
        number: u64,
        run: &Arc<str>,
        attempt: Attempt,
    ) -> Result<(), String> {
        let truth = self.check_outcome(number, run, attempt);
        let Some(doing) = self.doing(number, run, attempt) else {
            return Ok(());
        };
        let key = doing.key;
        let mut outcome = match (doing.stopped, doing.effected, changes(doing.job.effect)) {
            // Stopped before it did anything: an executor may know that for certain.
            (true, false, true) => {
                Outcome::not_done(Failure::new(ErrorClass::Cancelled, "stopped in time"))
            }
            (true, _, _) => Outcome::unknown(Failure::new(ErrorClass::Cancelled, "stopped")),
            (false, _, _) => doing.plan.outcome.clone(),
        };
        if let (Some(truth), Ok(value)) = (truth, &mut outcome.result) {
            *value = truth;
        }
        // It may report once more, but its effect does not come after its end.
        if let Some(doing) = self.doing(number, run, attempt) {
            doing.plan.effect = None;
        }
        let fate = outcome.fate;
        self.say(|| format!("{run} is told that attempt {attempt:?} is {fate:?}"));
        let what = Reported::Finished(outcome);
        self.step(In::Report { key, attempt, what })
    }

    /// What a `check` finds out: the truth.
    fn check_outcome(&mut self, number: u64, run: &Arc<str>, attempt: Attempt) -> Option<Val> {
        let doing = self.doing(number, run, attempt)?;
        let ravel_core::port::Request::Tool { name, .. } = &doing.job.request else {
            return None;
        };
        if &**name != "sim.find" {
            return None;
        }
        let path = Arc::clone(&doing.job.path);
        let of = path.rsplit_once('/').map_or("", |(of, _)| of);
        let happened = self.happened(run, of);
        Some(Val::new(
            json!({ "happened": happened, "output": { "good": true } }),
        ))
    }

    /// Whether the effect of a step took place, in the run or in the one that it goes on from.
    pub(super) fn happened(&self, run: &Arc<str>, path: &str) -> bool {
        let lineage = std::iter::successors(Some(run), |run| self.forks.get(*run));
        let runs: Vec<&Arc<str>> = lineage.collect();
        self.seen
            .iter()
            .any(|seen| runs.contains(&&seen.run) && &*seen.path == path)
    }

    // The disk.

    /// Hands what has gathered to the disk. False: nothing has, or it is busy.
    pub(super) fn begin_commit(&mut self) -> bool {
        let slow = self.case.weather.disk_ms;
        let wait = self.draw("disk", "", slow + 1);
        let Some(life) = self.life.as_mut() else {
            return false;
        };
        let Some(batch) = life.shard.cut() else {
            return false;
        };
        let number = life.number;
        life.committing = Some(batch);
        self.coming(wait, Coming::Written(number));
        true
    }

    pub(super) fn written(&mut self, number: u64) -> Result<(), String> {
        let Some(life) = self.life.as_mut().filter(|life| life.number == number) else {
            return Ok(());
        };
        let Some(batch) = life.committing.take() else {
            return Ok(());
        };
        let mut out = Vec::new();
        if let Some((full, written)) = self.disk_fails.take() {
            if written {
                self.commit(&batch)?;
            }
            let error = if full {
                Error::Full {
                    message: "simulated".to_owned(),
                }
            } else {
                Error::Io {
                    message: "simulated".to_owned(),
                }
            };
            self.say(|| format!("the disk fails: {error}"));
            if let Some(life) = self.life.as_mut() {
                let refused = life.shard.refused(self.now, batch, &error, None, &mut out);
                if !matches!(refused, Refused::Stopped) {
                    return Err("the engine goes on though its store failed".to_owned());
                }
            }
            return self.carry_out(out);
        }
        self.commit(&batch)?;
        if let Some(life) = self.life.as_mut() {
            life.shard.committed(self.now, batch, &mut out);
        }
        self.carry_out(out)
    }

    /// Puts a batch on disk and looks at it.
    pub(super) fn commit(&mut self, batch: &Batch) -> Result<(), String> {
        let Some(life) = self.life.as_mut() else {
            return Ok(());
        };
        life.store.commit(batch).map_err(|error| {
            format!("engine {} is refused what is its own: {error}", life.number)
        })?;
        for commit in &batch.runs {
            self.watch(commit)?;
        }
        Ok(())
    }
}

pub(super) fn wish(message: Message) -> Wish {
    let input = match message {
        Message::Answer {
            question,
            value,
            by,
        } => ravel_core::event::Input::Answer {
            question,
            value,
            by,
        },
        Message::Signal { name, value, id } => ravel_core::event::Input::Signal { name, value, id },
        Message::Cancel { path, by, reason } => {
            ravel_core::event::Input::Cancel { path, by, reason }
        }
        Message::Edit { .. } => {
            return Wish::Refused {
                code: "unknown_graph".to_owned(),
                message: "nobody edits here".to_owned(),
            };
        }
        Message::Pause => return Wish::Pause,
    };
    Wish::Input(Box::new(input))
}

pub(super) fn text(error: Error) -> String {
    error.to_string()
}
