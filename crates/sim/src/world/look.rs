//! What must hold in between: of what is in memory, on disk and under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ravel_core::event::Wait;
use ravel_core::graph::OnUncertain;
use ravel_core::port::Job;
use ravel_core::port_store::{Log, RunCommit};
use ravel_core::run::Run;

use super::World;
use super::engine::text;
use crate::life::Life;

/// Logs up to this length are folded anew after every commit, longer ones now and then.
const FOLDED_EACH: u64 = 12;
const FOLD_STRIDE: u64 = 7;

impl World<'_> {
    /// Looks at turns that have just reached the disk.
    pub(super) fn watch(&mut self, commit: &RunCommit) -> Result<(), String> {
        let run = &commit.run;
        let live = self.life.as_ref().and_then(|life| life.shard.run(run));
        let mut turns = commit.turns.clone();
        let folded;
        let facts = match live {
            Some(live) => live,
            None => {
                folded = self.replay(&self.store.load(run).map_err(text)?)?;
                &folded
            }
        };
        if commit.create && commit.summary.forked_from.is_some() {
            turns = self.store.load(run).map_err(text)?;
        }
        let watch = self.watches.entry(Arc::clone(run)).or_default();
        watch
            .feed(facts, &turns)
            .map_err(|what| format!("{run}: {what}"))?;
        self.history.turns += commit.turns.len() as u64;
        for turn in &commit.turns {
            let line = serde_json::to_string(turn).map_err(|error| error.to_string())?;
            self.say(|| format!("{run} disk {line}"));
        }
        self.fold_again(run, commit)
    }

    /// Folding what is on disk gives what is in memory.
    fn fold_again(&self, run: &Arc<str>, commit: &RunCommit) -> Result<(), String> {
        let last = commit.turns.last().map_or(0, |turn| turn.turn);
        let is_final = commit.summary.state.is_final();
        if last > FOLDED_EACH && !last.is_multiple_of(FOLD_STRIDE) && !is_final {
            return Ok(());
        }
        let Some(live) = self
            .life
            .as_ref()
            .and_then(|life| life.shard.run(run))
            .filter(|live| live.last_turn() == last)
        else {
            return Ok(());
        };
        let folded = self.replay(&self.store.load(run).map_err(text)?)?;
        if folded.portrait() != live.portrait() {
            return Err(format!(
                "{run}: folding the log gives another state after turn {last}\nfolded {}\nlive   {}",
                folded.portrait(),
                live.portrait()
            ));
        }
        Ok(())
    }

    /// What may leave for an executor now.
    pub(super) fn may_launch(&self, job: &Job) -> Result<(), String> {
        let place = format!("{} `{}`", job.run, job.path);
        if job.effect.must_be_durable()
            && !self
                .watches
                .get(&job.run)
                .is_some_and(|watch| watch.is_open(job.attempt))
        {
            return Err(format!("{place} leaves before its start is on disk"));
        }
        let Some(life) = &self.life else {
            return Ok(());
        };
        if life.open.contains_key(&(Arc::clone(&job.run), job.attempt)) {
            return Err(format!("{place} is handed out twice as one attempt"));
        }
        let Some(run) = life.shard.run(&job.run) else {
            return Ok(());
        };
        let keys = keys_of(run, job.attempt.node);
        for (key, most) in &keys {
            let used = life
                .open
                .iter()
                .filter(|((other, attempt), doing)| {
                    life.shard.run(other).is_some_and(|other| {
                        is_under_way(other, &doing.job.path, attempt.number)
                            && keys_of(other, attempt.node).contains_key(key)
                    })
                })
                .count() as u32;
            if used >= *most {
                return Err(format!("{place} is one more than {most} under `{key}`"));
            }
        }
        Ok(())
    }

    /// Looks at every run in memory.
    pub(super) fn look(&self) -> Result<(), String> {
        let Some(life) = &self.life else {
            return Ok(());
        };
        for (id, watch) in &self.watches {
            let Some(run) = life.shard.run(id) else {
                continue;
            };
            if run.is_final() || run.last_turn() != watch.turn {
                continue;
            }
            let waits = run.waits_on();
            if waits.is_empty() {
                return Err(format!("{id} is live and waits for nothing"));
            }
            if life.holding {
                continue;
            }
            let under_way = waits
                .iter()
                .any(|wait| matches!(wait, Wait::Attempt { .. }));
            let moves = waits.iter().any(|wait| !matches!(wait, Wait::Items { .. }));
            if !moves {
                return Err(format!("{id} waits for items of nobody: {waits:?}"));
            }
            for wait in &waits {
                if let Wait::Budget { path } = wait
                    && !under_way
                {
                    return Err(format!(
                        "{id} `{path}` waits for a budget that nobody holds"
                    ));
                }
                self.ends(life, id, run, wait)?;
            }
        }
        Ok(())
    }

    /// A wait ends: by an attempt that somebody carries out, by permits that somebody holds, by a clock that is set.
    fn ends(&self, life: &Life, id: &Arc<str>, run: &Run, wait: &Wait) -> Result<(), String> {
        match wait {
            Wait::Attempt { path, number, .. } => {
                let there = life.open.iter().any(|((other, attempt), doing)| {
                    other == id && attempt.number == *number && doing.job.path == *path
                });
                if !there {
                    return Err(format!("{id} waits for `{path}`, which nobody carries out"));
                }
            }
            Wait::Permit { path, keys } if !self.are_held(life, keys) => {
                return Err(format!("{id} `{path}` waits for permits that nobody holds"));
            }
            Wait::Permit { .. } | Wait::Budget { .. } | Wait::Items { .. } => {}
            Wait::Person { .. } | Wait::Time { .. } | Wait::Signal { .. } => {}
        }
        let until = match wait {
            Wait::Attempt { until, .. } | Wait::Time { until, .. } => Some(*until),
            Wait::Person { until, .. } | Wait::Signal { until, .. } => *until,
            Wait::Permit { .. } | Wait::Budget { .. } | Wait::Items { .. } => None,
        };
        let wake = run.wake_at();
        match until {
            Some(until) if wake.is_none_or(|wake| wake > until) => Err(format!(
                "{id} waits until {until} and is woken at {wake:?}: {wait:?}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Somebody holds a permit of these keys, or of keys that those who stand before also wait for.
    fn are_held(&self, life: &Life, keys: &[Arc<str>]) -> bool {
        let usage = life.shard.permits();
        let queues: Vec<Vec<Arc<str>>> = self
            .watches
            .keys()
            .filter_map(|id| life.shard.run(id))
            .flat_map(Run::waits_on)
            .filter_map(|wait| match wait {
                Wait::Permit { keys, .. } => Some(keys),
                Wait::Attempt { .. }
                | Wait::Budget { .. }
                | Wait::Person { .. }
                | Wait::Time { .. }
                | Wait::Signal { .. }
                | Wait::Items { .. } => None,
            })
            .collect();
        let mut reached: BTreeSet<Arc<str>> = keys.iter().cloned().collect();
        loop {
            let before = reached.len();
            for queue in &queues {
                if queue.iter().any(|key| reached.contains(key)) {
                    reached.extend(queue.iter().cloned());
                }
            }
            if reached.len() == before {
                break;
            }
        }
        usage
            .iter()
            .any(|usage| usage.in_use > 0 && reached.contains(&usage.key))
    }

    /// What must hold when all is over.
    pub(super) fn look_back(&self) -> Result<(), String> {
        for (id, watch) in &self.watches {
            let run = self.replay(&self.store.load(id).map_err(text)?)?;
            watch.at_end(&run).map_err(|what| format!("{id}: {what}"))?;
            let mine = self.seen.iter().filter(|seen| seen.run == *id);
            let forgotten = mine.clone().find(|seen| {
                let step = run.step(seen.attempt.node);
                step.is_some_and(|step| step.compensate.is_some())
                    && !watch.is_armed(seen.attempt.node)
            });
            if let Some(seen) = forgotten {
                return Err(format!(
                    "{id}: the effect of `{}` is not noted for its compensation",
                    seen.path
                ));
            }
            let mut effects: BTreeMap<u32, u32> = BTreeMap::new();
            for seen in mine.filter(|seen| seen.once) {
                *effects.entry(seen.attempt.node).or_default() += 1;
                let knowingly = run
                    .step(seen.attempt.node)
                    .is_some_and(|step| matches!(step.leaf.on_uncertain, OnUncertain::Retry));
                if effects[&seen.attempt.node] > 1 && !knowingly {
                    return Err(format!("{id}: the once `{}` took place twice", seen.path));
                }
            }
        }
        Ok(())
    }

    /// Where each run stands, for messages.
    pub(super) fn stands(&self) -> String {
        let runs = self.summaries().unwrap_or_default();
        let lines = runs
            .iter()
            .filter(|run| !run.state.is_final())
            .map(|summary| {
                let live = self
                    .life
                    .as_ref()
                    .and_then(|life| life.shard.run(&summary.run));
                let waits = live.map_or_else(
                    || format!("{:?}", summary.waits),
                    |run| format!("{:?}", run.waits_on()),
                );
                format!(
                    "{} is {} and waits for {waits}",
                    summary.run,
                    summary.state.name()
                )
            });
        lines.collect::<Vec<_>>().join("; ")
    }
}

/// The permits of an activation's attempts.
fn keys_of(run: &Run, node: u32) -> BTreeMap<String, u32> {
    let Some(step) = run.step(node) else {
        return BTreeMap::new();
    };
    let keys = step.leaf.concurrency.iter();
    keys.filter_map(|limit| Some((limit.key.literal()?.to_owned(), limit.max)))
        .collect()
}

/// True while the run counts the attempt as under way.
fn is_under_way(run: &Run, path: &str, number: u32) -> bool {
    run.waits_on().iter().any(|wait| {
        matches!(wait, Wait::Attempt { path: other, number: of, .. } if **other == *path && *of == number)
    })
}
