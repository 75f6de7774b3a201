//! The store in memory: for tests and benchmarks. Keeps turns as they are, shares nothing with the disk.

mod collect;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ravel_core::effect::Millis;
use ravel_core::event::Turn;
use ravel_core::port::{Question, RunState, Summary};
use ravel_core::port_store::{
    Batch, Chain, Collected, Error, Filter, Inbox, Listing, Log, Message, Owner, Ownership, Posted,
    Reply, RunCommit,
};

use crate::chain::{Linker, START, hex};
use crate::rules::{contiguous, created_twice, graphs, run_over};
use crate::text::{Encoder, INLINE_BYTES_MAX};

/// A store in memory. A handle stands for one process: [`Memory::another`] gives a second one on the same store,
/// and a dropped handle is a dead process.
#[derive(Debug)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    process: u64,
}

#[derive(Debug, Default)]
struct State {
    runs: HashMap<Arc<str>, Run>,
    order: u64,
    start_keys: HashMap<Arc<str>, Arc<str>>,
    bundles: HashMap<Arc<str>, Arc<str>>,
    questions: BTreeMap<(Millis, u64), Question>,
    inbox: BTreeMap<i64, Row>,
    inbox_last: i64,
    /// Tokens of live processes.
    alive: HashMap<Arc<str>, u64>,
    processes: u64,
    version: u64,
}

#[derive(Debug)]
struct Run {
    order: u64,
    base: Option<(Arc<str>, u64)>,
    turns: Vec<Turn>,
    epoch: u64,
    owner: Option<Arc<str>>,
    summary: Summary,
    /// Graphs that the log refers to beside the present one.
    graphs: BTreeSet<Arc<str>>,
}

impl Run {
    fn first(&self) -> u64 {
        self.base.as_ref().map_or(0, |(_, turn)| *turn) + 1
    }

    fn last(&self) -> u64 {
        self.first() + self.turns.len() as u64 - 1
    }
}

#[derive(Debug)]
struct Row {
    run: Arc<str>,
    at: Millis,
    message: Message,
    reply: Option<Reply>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let process = self.process;
        self.lock().alive.retain(|_, of| *of != process);
    }
}

impl Memory {
    /// A new, empty store.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            process: 0,
        }
    }

    /// Another process on the same store.
    #[must_use]
    pub fn another(&self) -> Self {
        let mut state = self.lock();
        state.processes += 1;
        Self {
            state: Arc::clone(&self.state),
            process: state.processes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves whole entries behind: each change is made in one go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown_run(run: &str) -> Error {
    Error::Unknown {
        what: format!("run {run}"),
    }
}

impl State {
    fn run(&self, run: &str) -> Result<&Run, Error> {
        self.runs.get(run).ok_or_else(|| unknown_run(run))
    }

    /// The live owner of a run.
    fn owner(&self, run: &Run) -> Option<Arc<str>> {
        run.owner
            .clone()
            .filter(|token| self.alive.contains_key(token))
    }

    /// Refuses what must not be written.
    fn admit(&self, commit: &RunCommit) -> Result<(), Error> {
        let expected = match (self.runs.get(&commit.run), commit.create) {
            (Some(_), true) => {
                return Err(Error::Exists {
                    run: commit.run.clone(),
                });
            }
            (None, false) => return Err(unknown_run(&commit.run)),
            (None, true) => {
                let taken = commit
                    .summary
                    .start_key
                    .as_ref()
                    .and_then(|key| self.start_keys.get(key));
                if let Some(run) = taken {
                    return Err(Error::Exists { run: run.clone() });
                }
                match &commit.summary.forked_from {
                    None => 1,
                    Some((base, turn)) => {
                        let last = self.run(base)?.last();
                        if *turn > last {
                            return Err(Error::Gap {
                                run: base.clone(),
                                expected: last,
                                got: *turn,
                            });
                        }
                        turn + 1
                    }
                }
            }
            (Some(run), false) => {
                if run.owner.as_ref() != Some(&commit.owner.token)
                    || run.epoch != commit.owner.epoch
                {
                    return Err(Error::Fenced {
                        run: commit.run.clone(),
                    });
                }
                run.last() + 1
            }
        };
        contiguous(commit, expected)
    }

    fn apply(&mut self, commit: &RunCommit) {
        if commit.create {
            self.order += 1;
            if let Some(key) = &commit.summary.start_key {
                self.start_keys.insert(key.clone(), commit.run.clone());
            }
            let run = Run {
                order: self.order,
                base: self.holder(commit.summary.forked_from.clone()),
                turns: commit.turns.clone(),
                epoch: commit.owner.epoch,
                owner: Some(commit.owner.token.clone()),
                summary: commit.summary.clone(),
                graphs: graphs(&commit.turns).collect(),
            };
            self.runs.insert(commit.run.clone(), run);
        } else if let Some(run) = self.runs.get_mut(&commit.run) {
            run.turns.extend_from_slice(&commit.turns);
            if run.summary.graph != commit.summary.graph {
                let previous = run.summary.graph.clone();
                run.graphs.insert(previous);
                run.graphs.extend(graphs(&commit.turns));
            }
            run.summary.clone_from(&commit.summary);
        }
        for question in &commit.asked {
            self.order += 1;
            let order = self.order;
            self.questions.retain(|_, other| other.id != question.id);
            self.questions
                .insert((question.asked, order), question.clone());
        }
        if !commit.closed.is_empty() {
            self.questions
                .retain(|_, question| !commit.closed.contains(&question.id));
        }
        self.settle(&commit.taken);
        if commit.summary.state.is_final() {
            self.reject_rest(&commit.run);
            if let Some(run) = self.runs.get_mut(&commit.run) {
                run.owner = None;
            }
        }
    }

    /// The run whose own turns hold the turn that a fork starts from: only that one is its prefix.
    fn holder(&self, fork: Option<(Arc<str>, u64)>) -> Option<(Arc<str>, u64)> {
        let (mut base, turn) = fork?;
        while let Some((older, last)) = self.runs.get(&base).and_then(|run| run.base.as_ref())
            && turn <= *last
        {
            base = older.clone();
        }
        Some((base, turn))
    }

    fn settle(&mut self, taken: &[(i64, Reply)]) {
        for (id, reply) in taken {
            if let Some(row) = self.inbox.get_mut(id) {
                row.reply.get_or_insert_with(|| reply.clone());
            }
        }
    }

    /// Nobody will take a message of a run that is over.
    fn reject_rest(&mut self, run: &str) {
        for row in self.inbox.values_mut().filter(|row| &*row.run == run) {
            row.reply.get_or_insert_with(run_over);
        }
    }

    /// The runs that a run's log goes through, oldest first, each with its last turn that counts.
    fn lineage(&self, run: &str) -> Result<Vec<(&Run, u64)>, Error> {
        let mut run = self.run(run)?;
        let mut lineage = vec![(run, run.last())];
        while let Some((base, turn)) = &run.base {
            run = self.run(base)?;
            let upto = lineage.last().map_or(*turn, |(_, upto)| (*turn).min(*upto));
            lineage.push((run, upto));
        }
        lineage.reverse();
        Ok(lineage)
    }

    fn turns(&self, run: &str) -> Result<Vec<Turn>, Error> {
        let mut turns = Vec::new();
        for (run, upto) in self.lineage(run)? {
            turns.extend(
                run.turns
                    .iter()
                    .take_while(|turn| turn.turn <= upto)
                    .cloned(),
            );
        }
        Ok(turns)
    }
}

impl Log for Memory {
    fn commit(&self, batch: &Batch) -> Result<(), Error> {
        let mut state = self.lock();
        for commit in &batch.runs {
            state.admit(commit)?;
        }
        if let Some(run) = created_twice(&batch.runs) {
            return Err(Error::Exists { run });
        }
        for commit in &batch.runs {
            if commit.create {
                state
                    .alive
                    .entry(commit.owner.token.clone())
                    .or_insert(self.process);
            }
            state.apply(commit);
        }
        Ok(())
    }

    fn load(&self, run: &str) -> Result<Vec<Turn>, Error> {
        self.lock().turns(run)
    }

    fn put_bundle(&self, hash: &str, json: &str) -> Result<(), Error> {
        self.lock()
            .bundles
            .entry(hash.into())
            .or_insert_with(|| json.into());
        Ok(())
    }

    fn bundle(&self, hash: &str) -> Result<String, Error> {
        let state = self.lock();
        let json = state.bundles.get(hash).ok_or_else(|| Error::Unknown {
            what: format!("bundle {hash}"),
        })?;
        Ok(json.to_string())
    }

    fn verify(&self, run: &str) -> Result<Chain, Error> {
        let turns = self.lock().turns(run)?;
        let mut encoder = Encoder::new(INLINE_BYTES_MAX);
        let mut linker = Linker::default();
        let (mut head, mut bytes) = (START, 0);
        let (mut line, mut cuts) = (Vec::new(), Vec::new());
        for turn in &turns {
            line.clear();
            cuts.clear();
            encoder.turn(turn, &mut line, &mut cuts)?;
            head = linker.next(&head, &line);
            bytes += line.len() as u64;
        }
        Ok(Chain {
            turns: turns.len() as u64,
            head: hex(&head),
            bytes,
        })
    }
}

impl Ownership for Memory {
    fn claim(&self, run: &str, token: &str) -> Result<Owner, Error> {
        let mut state = self.lock();
        let by = state
            .owner(state.run(run)?)
            .filter(|owner| &**owner != token);
        if let Some(by) = by {
            return Err(Error::Held {
                run: run.into(),
                by: format!("process {} ({by})", std::process::id()),
            });
        }
        let token: Arc<str> = token.into();
        state.alive.entry(token.clone()).or_insert(self.process);
        let entry = state.runs.get_mut(run).ok_or_else(|| unknown_run(run))?;
        entry.epoch += 1;
        entry.owner = Some(token.clone());
        Ok(Owner {
            token,
            epoch: entry.epoch,
        })
    }

    fn release(&self, run: &str, owner: &Owner) -> Result<(), Error> {
        let mut state = self.lock();
        if let Some(entry) = state.runs.get_mut(run)
            && entry.owner.as_ref() == Some(&owner.token)
            && entry.epoch == owner.epoch
        {
            entry.owner = None;
        }
        Ok(())
    }

    fn release_all(&self, token: &str) -> Result<(), Error> {
        for run in self
            .lock()
            .runs
            .values_mut()
            .filter(|run| run.owner.as_deref() == Some(token))
        {
            run.owner = None;
        }
        Ok(())
    }

    fn unowned(&self, now: Millis, most: usize) -> Result<Vec<Arc<str>>, Error> {
        let state = self.lock();
        let called: BTreeSet<&str> = state
            .inbox
            .values()
            .filter(|row| row.reply.is_none())
            .map(|row| &*row.run)
            .collect();
        let mut due: Vec<_> = state
            .runs
            .iter()
            .filter(|(id, run)| {
                let summary = &run.summary;
                let awake = summary.state != RunState::Waiting
                    || summary.wake_at.is_some_and(|at| at <= now);
                !summary.state.is_final()
                    && state.owner(run).is_none()
                    && (awake || called.contains(&***id))
            })
            .map(|(id, run)| (run.summary.created, run.order, id.clone()))
            .collect();
        due.sort_unstable();
        due.truncate(most);
        Ok(due.into_iter().map(|(_, _, id)| id).collect())
    }

    fn next_wake(&self) -> Result<Option<Millis>, Error> {
        let state = self.lock();
        let live = state
            .runs
            .values()
            .filter(|run| !run.summary.state.is_final() && state.owner(run).is_none());
        Ok(live.filter_map(|run| run.summary.wake_at).min())
    }

    fn owner(&self, run: &str) -> Result<Option<Arc<str>>, Error> {
        let state = self.lock();
        Ok(state.owner(state.run(run)?))
    }
}

impl Inbox for Memory {
    fn post(&self, run: &str, at: Millis, message: &Message) -> Result<i64, Error> {
        let mut state = self.lock();
        let over = state.run(run)?.summary.state.is_final();
        state.inbox_last += 1;
        state.version += 1;
        let id = state.inbox_last;
        let row = Row {
            run: run.into(),
            at,
            message: message.clone(),
            reply: over.then(run_over),
        };
        state.inbox.insert(id, row);
        Ok(id)
    }

    fn fetch(&self, token: &str, after: i64) -> Result<Vec<Posted>, Error> {
        let state = self.lock();
        let rows = state.inbox.range(after.saturating_add(1)..);
        let mine = rows.filter(|(_, row)| {
            row.reply.is_none()
                && state
                    .runs
                    .get(&row.run)
                    .is_some_and(|run| run.owner.as_deref() == Some(token))
        });
        Ok(mine.map(posted).collect())
    }

    fn waiting(&self, run: &str) -> Result<Vec<Posted>, Error> {
        let state = self.lock();
        Ok(state
            .inbox
            .iter()
            .filter(|(_, row)| row.reply.is_none() && &*row.run == run)
            .map(posted)
            .collect())
    }

    fn reply(&self, id: i64) -> Result<Option<Reply>, Error> {
        let state = self.lock();
        let row = state.inbox.get(&id).ok_or_else(|| Error::Unknown {
            what: format!("message {id}"),
        })?;
        Ok(row.reply.clone())
    }

    fn settle(&self, taken: &[(i64, Reply)]) -> Result<(), Error> {
        self.lock().settle(taken);
        Ok(())
    }

    fn version(&self) -> Result<u64, Error> {
        Ok(self.lock().version)
    }
}

fn posted((id, row): (&i64, &Row)) -> Posted {
    Posted {
        id: *id,
        run: row.run.clone(),
        at: row.at,
        message: row.message.clone(),
    }
}

impl Listing for Memory {
    fn runs(&self, filter: &Filter) -> Result<Vec<Summary>, Error> {
        let state = self.lock();
        // A whole id is the prefix of no other.
        if let Some(run) = filter
            .id_prefix
            .as_deref()
            .and_then(|id| state.runs.get(id))
        {
            let summary = run.summary.clone();
            return Ok(matches(filter, &summary)
                .then_some(summary)
                .into_iter()
                .collect());
        }
        let mut found: Vec<_> = state
            .runs
            .values()
            .filter(|run| matches(filter, &run.summary))
            .collect();
        found.sort_unstable_by_key(|run| std::cmp::Reverse((run.summary.created, run.order)));
        if filter.limit > 0 {
            found.truncate(filter.limit);
        }
        Ok(found.into_iter().map(|run| run.summary.clone()).collect())
    }

    fn questions(&self, run: Option<&str>) -> Result<Vec<Question>, Error> {
        let state = self.lock();
        let all = state.questions.values();
        Ok(all
            .filter(|question| run.is_none_or(|run| &*question.run == run))
            .cloned()
            .collect())
    }

    fn by_start_key(&self, key: &str) -> Result<Option<Arc<str>>, Error> {
        Ok(self.lock().start_keys.get(key).cloned())
    }

    fn collect(
        &self,
        before: Millis,
        keep_newest: usize,
        dry_run: bool,
    ) -> Result<Collected, Error> {
        Ok(self.lock().collect(before, keep_newest, dry_run))
    }
}

fn matches(filter: &Filter, summary: &Summary) -> bool {
    (filter.states.is_empty() || filter.states.contains(&summary.state))
        && filter
            .flow
            .as_ref()
            .is_none_or(|flow| **flow == *summary.flow)
        && filter
            .id_prefix
            .as_ref()
            .is_none_or(|prefix| summary.run.starts_with(prefix.as_str()))
        && filter.since.is_none_or(|since| summary.created >= since)
}
