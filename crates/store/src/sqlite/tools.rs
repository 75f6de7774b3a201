//! What commits are made with: how a run's rows begin, grow and end.

use std::collections::HashMap;
use std::sync::Arc;

use ravel_core::effect::Failure;
use ravel_core::event::Turn;
use ravel_core::port::{RunState, Summary};
use ravel_core::port_store::{Error, Owner, RunCommit};
use ravel_core::value::Val;
use rusqlite::{Connection, OptionalExtension, params};

use super::blob::{Recent, Vault};
use super::commit::{Hot, cached};
use super::error::ResultExt;
use super::read::{self, ForkPoint};
use super::rows::{insert_bundle, insert_start_key, json, put_head};
use super::{Options, int, uint, unknown_run};
use crate::chain::{Link, Linker, START};
use crate::rules::graphs;
use crate::text::{Cut, Encoder};

/// Bundles remembered until their runs begin.
const BUNDLES_MAX: usize = 256;

/// What commits share, and their buffers.
#[derive(Debug)]
pub(super) struct Tools {
    owners: HashMap<Arc<str>, i64>,
    /// Bundles put through this handle: put again if retention of another process took one before its run began.
    bundles: HashMap<Arc<str>, Arc<str>>,
    /// The bundle that was last found or put in this transaction.
    sure: Option<Arc<str>>,
    encoder: Encoder,
    linker: Linker,
    body: Vec<u8>,
    cuts: Vec<Cut>,
    vault: Vault,
}

/// What the next commit of a run needs.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) key: i64,
    pub(super) last: u64,
    pub(super) hash: Link,
    pub(super) owner: Option<Owner>,
    pub(super) owner_key: Option<i64>,
    /// The stored state, from which the indexes are made. None while there is no such row, or it was not read.
    pub(super) state: Option<RunState>,
    flow: Arc<str>,
    graph: Arc<str>,
    /// What is stored of a run's end. None when it was not read.
    detail: Option<Box<Detail>>,
    recent: Vec<Recent>,
}

/// What is rarely there: how a run ended.
#[derive(Clone, Debug, Default, PartialEq)]
struct Detail {
    output: Option<Val>,
    error: Option<Failure>,
    uncompensated: Vec<Arc<str>>,
}

impl Detail {
    fn is_of(&self, summary: &Summary) -> bool {
        self.output == summary.output
            && self.error == summary.error
            && self.uncompensated == summary.uncompensated
    }

    fn of(summary: &Summary) -> Self {
        let Summary {
            output,
            error,
            uncompensated,
            ..
        } = summary;
        Self {
            output: output.clone(),
            error: error.clone(),
            uncompensated: uncompensated.clone(),
        }
    }
}

impl Tools {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            owners: HashMap::new(),
            bundles: HashMap::new(),
            sure: None,
            encoder: Encoder::new(options.inline_bytes_max),
            linker: Linker::default(),
            body: Vec::new(),
            cuts: Vec::new(),
            vault: Vault::new(options.recent_bytes_max),
        }
    }

    /// A transaction begins: what another one knew to be there may be gone.
    pub(super) fn begin(&mut self) {
        self.sure = None;
    }

    /// Forgets the keys of owners: their rows may be gone.
    pub(super) fn forget(&mut self) {
        self.owners.clear();
    }

    /// Lets go of what was kept for a run that is over.
    pub(super) fn ended(&mut self, known: &Known) {
        self.vault.drop_run(&known.recent);
    }

    /// Begins a run.
    pub(super) fn create(&mut self, conn: &Connection, commit: &RunCommit) -> Result<Known, Error> {
        let summary = &commit.summary;
        let fork = match &summary.forked_from {
            Some((run, turn)) => {
                // An existing run is said before what is wrong with the fork.
                if cached(conn, "SELECT 1 FROM run WHERE id = ?")?
                    .exists([&*commit.run])
                    .context("adding a run")?
                {
                    return Err(Error::Exists {
                        run: commit.run.clone(),
                    });
                }
                Some(read::fork_point(conn, &mut self.linker, run, *turn)?)
            }
            None => None,
        };
        let known = self.insert_run(conn, &commit.run, summary, fork, Some(&commit.owner))?;
        self.keep_bundle(conn, &summary.graph)?;
        self.keep_graphs(conn, known.key, &commit.turns, &summary.graph)?;
        Ok(known)
    }

    /// Adds the rows of a new run.
    pub(super) fn insert_run(
        &mut self,
        conn: &Connection,
        id: &Arc<str>,
        summary: &Summary,
        fork: Option<ForkPoint>,
        owner: Option<&Owner>,
    ) -> Result<Known, Error> {
        let what = "adding a run";
        if let Some(key) = &summary.start_key {
            insert_start_key(conn, key, id)?;
        }
        let (base, last, hash) = fork.map_or((None, 0, START), |point| {
            (Some(point.base), point.turn, point.hash)
        });
        let (forked_from, forked_at) = summary
            .forked_from
            .as_ref()
            .map(|(run, turn)| (&**run, int(*turn)))
            .unzip();
        let sql = "INSERT INTO run(id, flow, graph, created, start_key, forked_from, forked_at, base, base_turn, seed)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING";
        let added = cached(conn, sql)?
            .execute(params![
                &**id,
                &*summary.flow,
                &*summary.graph,
                int(summary.created),
                summary.start_key.as_deref(),
                forked_from,
                forked_at,
                base,
                int(last),
                hash.as_slice(),
            ])
            .context(what)?;
        if added == 0 {
            return Err(Error::Exists { run: id.clone() });
        }
        let key = conn.last_insert_rowid();
        let owner_key = owner
            .map(|owner| self.owner(conn, &owner.token))
            .transpose()?;
        Ok(Known {
            key,
            last,
            hash,
            owner: owner.cloned(),
            owner_key,
            state: None,
            flow: summary.flow.clone(),
            graph: summary.graph.clone(),
            detail: Some(Box::default()),
            recent: Vec::new(),
        })
    }

    /// What is known of a run, from memory or from its rows.
    pub(super) fn known(&mut self, conn: &Connection, commit: &RunCommit) -> Result<Known, Error> {
        let sql = "SELECT r.key, r.flow, r.graph, r.seed, h.last, h.epoch, o.token, r.base_turn, h.owner,
            EXISTS(SELECT 1 FROM detail d WHERE d.run = r.key)
            FROM run r JOIN head h ON h.run = r.key LEFT JOIN owner o ON o.key = h.owner WHERE r.id = ?";
        let found = cached(conn, sql)?
            .query_row([&*commit.run], |row| {
                let token: Option<Arc<str>> = row.get(6)?;
                let epoch = uint(row.get(5)?);
                let known = Known {
                    key: row.get(0)?,
                    last: uint(row.get(4)?),
                    hash: row.get(3)?,
                    owner: token.map(|token| Owner { token, epoch }),
                    owner_key: row.get(8)?,
                    state: None,
                    flow: row.get(1)?,
                    graph: row.get(2)?,
                    detail: (!row.get::<_, bool>(9)?).then(Box::default),
                    recent: Vec::new(),
                };
                Ok((known, uint(row.get(7)?)))
            })
            .optional()
            .context(format_args!("reading run {}", commit.run))?;
        let (mut known, base_turn) = found.ok_or_else(|| unknown_run(&commit.run))?;
        if known.last > base_turn {
            known.hash = read::hash_at_end(conn, &commit.run, known.key, known.last)?;
        }
        known.recent = self.vault.recall(conn, known.key)?;
        Ok(known)
    }

    /// The key of an owner's row.
    pub(super) fn owner(&mut self, conn: &Connection, token: &Arc<str>) -> Result<i64, Error> {
        if let Some(key) = self.owners.get(token) {
            return Ok(*key);
        }
        let what = "noting an owner";
        let sql = "INSERT INTO owner(token, pid) VALUES (?, ?) ON CONFLICT(token) DO NOTHING";
        cached(conn, sql)?
            .execute(params![&**token, std::process::id()])
            .context(what)?;
        let key = cached(conn, "SELECT key FROM owner WHERE token = ?")?
            .query_row([&**token], |row| row.get(0))
            .context(what)?;
        self.owners.insert(token.clone(), key);
        Ok(key)
    }

    /// Appends turns as one row.
    pub(super) fn turns(
        &mut self,
        conn: &Connection,
        hot: &mut Hot<'_>,
        known: &mut Known,
        turns: &[Turn],
    ) -> Result<(), Error> {
        let Some(first) = turns.first() else {
            return Ok(());
        };
        self.body.clear();
        self.cuts.clear();
        for turn in turns {
            if !self.body.is_empty() {
                self.body.push(b'\n');
            }
            let start = self.body.len();
            self.encoder.turn(turn, &mut self.body, &mut self.cuts)?;
            known.hash = self.linker.next(&known.hash, &self.body[start..]);
            known.last = turn.turn;
        }
        self.vault
            .store(conn, known.key, &mut known.recent, &mut self.cuts)?;
        hot.append(known, first.turn, &self.body)
    }

    /// Appends lines that are ready, as one row.
    pub(super) fn append_lines(
        &mut self,
        hot: &mut Hot<'_>,
        known: &mut Known,
        body: &[u8],
    ) -> Result<(), Error> {
        let first = known.last + 1;
        for line in body.split(|byte| *byte == b'\n') {
            known.hash = self.linker.next(&known.hash, line);
            known.last += 1;
        }
        hot.append(known, first, body)
    }

    /// Stores a value that comes from elsewhere.
    pub(super) fn store_value(
        &mut self,
        conn: &Connection,
        known: &mut Known,
        value: Cut,
    ) -> Result<(), Error> {
        self.vault
            .store(conn, known.key, &mut known.recent, &mut vec![value])
    }

    /// Brings what is listed up to date, after these turns.
    pub(super) fn summary(
        &mut self,
        conn: &Connection,
        hot: &mut Hot<'_>,
        known: &mut Known,
        (summary, turns): (&Summary, &[Turn]),
    ) -> Result<(), Error> {
        let waits = (!summary.waits.is_empty())
            .then(|| json(&summary.waits))
            .transpose()?;
        if known.state == Some(summary.state) && summary.state != RunState::Waiting {
            hot.head(known, summary, waits.as_deref())?;
        } else {
            put_head(conn, known, summary, waits.as_deref())?;
            known.state = Some(summary.state);
        }
        if known.graph != summary.graph || known.flow != summary.flow {
            self.keep_graphs(conn, known.key, turns, &summary.graph)?;
            self.keep_graph(conn, known.key, &known.graph)?;
            self.keep_bundle(conn, &summary.graph)?;
            let sql = "UPDATE run SET graph = ?, flow = ? WHERE key = ?";
            cached(conn, sql)?
                .execute(params![&*summary.graph, &*summary.flow, known.key])
                .context("updating a run")?;
            known.graph = summary.graph.clone();
            known.flow = summary.flow.clone();
        }
        if !known
            .detail
            .as_ref()
            .is_some_and(|detail| detail.is_of(summary))
        {
            self.detail(conn, known, summary)?;
            known.detail = Some(Detail::of(summary).into());
        }
        Ok(())
    }

    fn detail(
        &mut self,
        conn: &Connection,
        known: &mut Known,
        summary: &Summary,
    ) -> Result<(), Error> {
        self.cuts.clear();
        let output = summary
            .output
            .as_ref()
            .map(|output| self.encode(output))
            .transpose()?;
        let error = summary
            .error
            .as_ref()
            .map(|error| self.encode(error))
            .transpose()?;
        self.vault
            .store(conn, known.key, &mut known.recent, &mut self.cuts)?;
        let standing = (!summary.uncompensated.is_empty())
            .then(|| json(&summary.uncompensated))
            .transpose()?;
        let sql = "INSERT INTO detail(run, output, error, uncompensated) VALUES (?, ?, ?, ?) ON CONFLICT(run) DO
            UPDATE SET output = excluded.output, error = excluded.error, uncompensated = excluded.uncompensated";
        cached(conn, sql)?
            .execute(params![known.key, output, error, standing])
            .context("updating a run")?;
        Ok(())
    }

    fn encode<T: serde::Serialize>(&mut self, value: &T) -> Result<String, Error> {
        let mut text = Vec::new();
        self.encoder.value(value, &mut text, &mut self.cuts)?;
        Ok(String::from_utf8(text).expect("serde_json writes UTF-8"))
    }
}

impl Tools {
    /// Keeps a bundle, and remembers it until its run is there.
    pub(super) fn put_bundle(
        &mut self,
        conn: &Connection,
        hash: &str,
        text: &str,
    ) -> Result<(), Error> {
        insert_bundle(conn, hash, text)?;
        self.remember_bundle(hash, text);
        Ok(())
    }

    pub(super) fn remember_bundle(&mut self, hash: &str, text: &str) {
        if self.bundles.contains_key(hash) {
            return;
        }
        if self.bundles.len() >= BUNDLES_MAX {
            self.bundles.clear();
        }
        self.bundles.insert(hash.into(), text.into());
    }

    /// A graph that a run begins to use was put before, in a transaction of its own: if retention took it since
    /// (its only run was removed), it is put again, here.
    fn keep_bundle(&mut self, conn: &Connection, hash: &Arc<str>) -> Result<(), Error> {
        if self.sure.as_ref() == Some(hash) {
            return Ok(());
        }
        if let Some(text) = self.bundles.get(hash) {
            insert_bundle(conn, hash, text)?;
            self.sure = Some(hash.clone());
        }
        Ok(())
    }

    /// Notes the graphs that a run's log refers to beside its present one.
    pub(super) fn keep_graphs(
        &self,
        conn: &Connection,
        key: i64,
        turns: &[Turn],
        present: &str,
    ) -> Result<(), Error> {
        graphs(turns)
            .filter(|graph| **graph != *present)
            .try_for_each(|graph| self.keep_graph(conn, key, &graph))
    }

    fn keep_graph(&self, conn: &Connection, key: i64, graph: &str) -> Result<(), Error> {
        let sql = "INSERT INTO bundle_ref(run, bundle) VALUES (?, ?) ON CONFLICT DO NOTHING";
        cached(conn, sql)?
            .execute(params![key, graph])
            .context("noting a graph")?;
        Ok(())
    }
}
