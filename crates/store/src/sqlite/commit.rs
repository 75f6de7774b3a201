//! Writing: one batch, one transaction, one fsync.

use std::collections::HashMap;
use std::sync::Arc;

use ravel_core::event::{Topic, Turn};
use ravel_core::port::{Question, Summary};
use ravel_core::port_store::{Batch, Error, Owner, Reply, RunCommit};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::blob::{Recent, Vault};
use super::error::ResultExt;
use super::{Options, int, read, size, uint, unknown_run};
use crate::chain::{Link, Linker, START};
use crate::memory::{contiguous, graphs, run_over};
use crate::text::{Cut, Encoder};

/// Runs whose last turn is kept in memory. More are read again when they go on.
const KNOWN_MAX: usize = 4_096;
/// Bundles remembered until their runs begin.
const BUNDLES_MAX: usize = 256;
/// Compression of bundles: they are written once and read at every resume.
const ZSTD_LEVEL: i32 = 3;
/// Characters of a taken message that are kept for people.
const MESSAGE_BYTES_KEPT: i64 = 16 * 1024;

/// The writing connection and what it knows.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) conn: Connection,
    known: HashMap<Arc<str>, Known>,
    owners: HashMap<Arc<str>, i64>,
    /// Bundles put through this handle: put again if retention of another process took one before its run began.
    bundles: HashMap<Arc<str>, Arc<str>>,
    /// `data_version` at the last commit: `known` holds while it stays.
    version: i64,
    encoder: Encoder,
    linker: Linker,
    body: Vec<u8>,
    cuts: Vec<Cut>,
    vault: Vault,
}

/// What the next commit of a run needs.
#[derive(Debug)]
struct Known {
    key: i64,
    last: u64,
    hash: Link,
    owner: Option<Owner>,
    flow: Arc<str>,
    graph: Arc<str>,
    has_detail: bool,
    recent: Vec<Recent>,
}

impl Writer {
    pub(super) fn new(conn: Connection, options: &Options) -> Self {
        Self {
            conn,
            known: HashMap::new(),
            owners: HashMap::new(),
            bundles: HashMap::new(),
            version: 0,
            encoder: Encoder::new(options.inline_bytes_max),
            linker: Linker::default(),
            body: Vec::new(),
            cuts: Vec::new(),
            vault: Vault::new(options.recent_bytes_max),
        }
    }

    /// Runs `f` in one transaction: all of it, or nothing.
    pub(super) fn transaction<T>(
        &mut self,
        what: &str,
        f: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        execute(&self.conn, "BEGIN IMMEDIATE").context(what)?;
        let done =
            f(self).and_then(|done| execute(&self.conn, "COMMIT").context(what).map(|_| done));
        if done.is_err() && !self.conn.is_autocommit() {
            // The first error is the one to tell; a transaction that cannot even be undone ends with its connection.
            let _ = execute(&self.conn, "ROLLBACK");
        }
        done
    }

    /// Writes a batch.
    pub(super) fn commit(&mut self, batch: &Batch) -> Result<(), Error> {
        let done = self.transaction("writing turns", |writer| {
            writer.refresh()?;
            batch.runs.iter().try_for_each(|commit| writer.run(commit))
        });
        if done.is_err() {
            // What was noted on the way is not so.
            for commit in &batch.runs {
                self.known.remove(&commit.run);
            }
            self.owners.clear();
        }
        done
    }

    /// Forgets what another connection may have changed.
    fn refresh(&mut self) -> Result<(), Error> {
        let version = data_version(&self.conn)?;
        if version != self.version {
            self.version = version;
            self.forget();
        }
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        Ok(())
    }

    /// Forgets everything that was read.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.owners.clear();
    }

    /// Forgets one run.
    pub(super) fn forget_run(&mut self, run: &str) {
        self.known.remove(run);
    }

    fn run(&mut self, commit: &RunCommit) -> Result<(), Error> {
        let mut known = if commit.create {
            self.create(commit)?
        } else {
            self.known(commit)?
        };
        if !commit.create && known.owner.as_ref() != Some(&commit.owner) {
            return Err(Error::Fenced {
                run: commit.run.clone(),
            });
        }
        contiguous(commit, known.last + 1)?;
        self.turns(&mut known, &commit.turns)?;
        self.summary(&mut known, commit)?;
        let Self { conn, .. } = self;
        for question in &commit.asked {
            ask(conn, known.key, question)?;
        }
        for id in &commit.closed {
            let sql = "DELETE FROM question WHERE id = ? AND run = ?";
            cached(conn, sql)?
                .execute(params![&**id, known.key])
                .context("closing a question")?;
        }
        settle(conn, &commit.taken)?;
        if commit.summary.state.is_final() {
            let sql = "UPDATE inbox SET reply = ? WHERE run = ? AND reply IS NULL";
            cached(conn, sql)?
                .execute(params![json(&run_over())?, known.key])
                .context("closing an inbox")?;
            self.vault.drop_run(&known.recent);
        } else {
            self.known.insert(commit.run.clone(), known);
        }
        Ok(())
    }

    /// Adds the rows of a new run.
    fn create(&mut self, commit: &RunCommit) -> Result<Known, Error> {
        let summary = &commit.summary;
        let what = "adding a run";
        if let Some(key) = &summary.start_key {
            let sql = "SELECT run FROM start_key WHERE key = ?";
            let run: Option<String> = cached(&self.conn, sql)?
                .query_row([&**key], |row| row.get(0))
                .optional()
                .context(what)?;
            if let Some(run) = run {
                return Err(Error::Exists { run: run.into() });
            }
            let sql = "INSERT INTO start_key(key, run) VALUES (?, ?)";
            cached(&self.conn, sql)?
                .execute([&**key, &*commit.run])
                .context(what)?;
        }
        let fork = match &summary.forked_from {
            Some((run, turn)) => Some(read::fork_point(&self.conn, &mut self.linker, run, *turn)?),
            None => None,
        };
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
        let added = cached(&self.conn, sql)?
            .execute(params![
                &*commit.run,
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
            return Err(Error::Exists {
                run: commit.run.clone(),
            });
        }
        let key = self.conn.last_insert_rowid();
        let owner = self.owner(&commit.owner.token)?;
        let sql = "INSERT INTO head(run, last, state, updated, input_tokens, cached_tokens, output_tokens,
            cost_microusd, epoch, owner) VALUES (?, ?, '', 0, 0, 0, 0, 0, ?, ?)";
        cached(&self.conn, sql)?
            .execute(params![key, int(last), int(commit.owner.epoch), owner])
            .context(what)?;
        self.keep_bundle(&summary.graph)?;
        self.keep_graphs(key, &commit.turns, &summary.graph)?;
        Ok(Known {
            key,
            last,
            hash,
            owner: Some(commit.owner.clone()),
            flow: summary.flow.clone(),
            graph: summary.graph.clone(),
            has_detail: false,
            recent: Vec::new(),
        })
    }

    /// What is known of a run, from memory or from its rows.
    fn known(&mut self, commit: &RunCommit) -> Result<Known, Error> {
        if let Some(known) = self.known.remove(&commit.run) {
            return Ok(known);
        }
        let sql = "SELECT r.key, r.flow, r.graph, r.seed, h.last, h.epoch, o.token, r.base_turn,
            EXISTS(SELECT 1 FROM detail d WHERE d.run = r.key)
            FROM run r JOIN head h ON h.run = r.key LEFT JOIN owner o ON o.key = h.owner WHERE r.id = ?";
        let found = cached(&self.conn, sql)?
            .query_row([&*commit.run], |row| {
                let token: Option<Arc<str>> = row.get(6)?;
                let epoch = uint(row.get(5)?);
                let known = Known {
                    key: row.get(0)?,
                    last: uint(row.get(4)?),
                    hash: row.get(3)?,
                    owner: token.map(|token| Owner { token, epoch }),
                    flow: row.get(1)?,
                    graph: row.get(2)?,
                    has_detail: row.get(8)?,
                    recent: Vec::new(),
                };
                Ok((known, uint(row.get(7)?)))
            })
            .optional()
            .context(format_args!("reading run {}", commit.run))?;
        let (mut known, base_turn) = found.ok_or_else(|| unknown_run(&commit.run))?;
        if known.last > base_turn {
            known.hash = read::hash_at_end(&self.conn, &commit.run, known.key, known.last)?;
        }
        known.recent = self.vault.recall(&self.conn, known.key)?;
        Ok(known)
    }

    /// The key of an owner's row.
    pub(super) fn owner(&mut self, token: &Arc<str>) -> Result<i64, Error> {
        if let Some(key) = self.owners.get(token) {
            return Ok(*key);
        }
        let what = "noting an owner";
        let sql = "INSERT INTO owner(token, pid) VALUES (?, ?) ON CONFLICT(token) DO NOTHING";
        cached(&self.conn, sql)?
            .execute(params![&**token, std::process::id()])
            .context(what)?;
        let key = cached(&self.conn, "SELECT key FROM owner WHERE token = ?")?
            .query_row([&**token], |row| row.get(0))
            .context(what)?;
        self.owners.insert(token.clone(), key);
        Ok(key)
    }

    /// Appends turns as one row.
    fn turns(&mut self, known: &mut Known, turns: &[Turn]) -> Result<(), Error> {
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
            .store(&self.conn, known.key, &mut known.recent, &mut self.cuts)?;
        let body = std::str::from_utf8(&self.body).expect("serde_json writes UTF-8");
        let sql = "INSERT INTO turn(run, first, last, hash, body) VALUES (?, ?, ?, ?, ?)";
        cached(&self.conn, sql)?
            .execute(params![
                known.key,
                int(first.turn),
                int(known.last),
                known.hash.as_slice(),
                body
            ])
            .context("appending turns")?;
        Ok(())
    }

    /// Brings what is listed up to date.
    fn summary(&mut self, known: &mut Known, commit: &RunCommit) -> Result<(), Error> {
        let summary = &commit.summary;
        let what = "updating a run";
        let waits = (!summary.waits.is_empty())
            .then(|| json(&summary.waits))
            .transpose()?;
        let usage = &summary.usage;
        let sql = "UPDATE head SET last = ?, state = ?, updated = ?, wake_at = ?, input_tokens = ?, cached_tokens = ?,
            output_tokens = ?, cost_microusd = ?, waits = ?, owner = CASE WHEN ? THEN NULL ELSE owner END
            WHERE run = ?";
        cached(&self.conn, sql)?
            .execute(params![
                int(known.last),
                summary.state.name(),
                int(summary.updated),
                summary.wake_at.map(int),
                int(usage.input_tokens),
                int(usage.cached_tokens),
                int(usage.output_tokens),
                int(usage.cost_microusd),
                waits,
                summary.state.is_final(),
                known.key,
            ])
            .context(what)?;
        if known.graph != summary.graph || known.flow != summary.flow {
            self.keep_graphs(known.key, &commit.turns, &summary.graph)?;
            self.keep_graph(known.key, &known.graph)?;
            self.keep_bundle(&summary.graph)?;
            let sql = "UPDATE run SET graph = ?, flow = ? WHERE key = ?";
            cached(&self.conn, sql)?
                .execute(params![&*summary.graph, &*summary.flow, known.key])
                .context(what)?;
            known.graph = summary.graph.clone();
            known.flow = summary.flow.clone();
        }
        if known.has_detail || has_detail(summary) {
            known.has_detail = true;
            self.detail(known, summary)?;
        }
        Ok(())
    }

    fn detail(&mut self, known: &mut Known, summary: &Summary) -> Result<(), Error> {
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
            .store(&self.conn, known.key, &mut known.recent, &mut self.cuts)?;
        let standing = (!summary.uncompensated.is_empty())
            .then(|| json(&summary.uncompensated))
            .transpose()?;
        let sql = "INSERT INTO detail(run, output, error, uncompensated) VALUES (?, ?, ?, ?) ON CONFLICT(run) DO
            UPDATE SET output = excluded.output, error = excluded.error, uncompensated = excluded.uncompensated";
        cached(&self.conn, sql)?
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

impl Writer {
    /// Keeps a bundle, and remembers it until its run is there.
    pub(super) fn put_bundle(&mut self, hash: &str, text: &str) -> Result<(), Error> {
        insert_bundle(&self.conn, hash, text)?;
        if self.bundles.len() >= BUNDLES_MAX {
            self.bundles.clear();
        }
        self.bundles.insert(hash.into(), text.into());
        Ok(())
    }

    /// A graph that a run begins to use was put before, in a transaction of its own: if retention took it since
    /// (its only run was removed), it is put again, here.
    fn keep_bundle(&self, hash: &Arc<str>) -> Result<(), Error> {
        self.bundles
            .get(hash)
            .map_or(Ok(()), |text| insert_bundle(&self.conn, hash, text))
    }

    /// Notes the graphs that a run's log refers to beside its present one.
    fn keep_graphs(&self, key: i64, turns: &[Turn], present: &str) -> Result<(), Error> {
        graphs(turns)
            .filter(|graph| **graph != *present)
            .try_for_each(|graph| self.keep_graph(key, &graph))
    }

    fn keep_graph(&self, key: i64, graph: &str) -> Result<(), Error> {
        let sql = "INSERT INTO bundle_ref(run, bundle) VALUES (?, ?) ON CONFLICT DO NOTHING";
        cached(&self.conn, sql)?
            .execute(params![key, graph])
            .context("noting a graph")?;
        Ok(())
    }
}

fn insert_bundle(conn: &Connection, hash: &str, text: &str) -> Result<(), Error> {
    let what = "keeping a graph";
    if cached(conn, "SELECT 1 FROM bundle WHERE hash = ?")?
        .exists([hash])
        .context(what)?
    {
        return Ok(());
    }
    let packed = zstd::bulk::compress(text.as_bytes(), ZSTD_LEVEL).map_err(|error| Error::Io {
        message: format!("{what}: {error}"),
    })?;
    let digest = *blake3::hash(text.as_bytes()).as_bytes();
    let sql = "INSERT INTO bundle(hash, bytes, digest, json) VALUES (?, ?, ?, ?)";
    cached(conn, sql)?
        .execute(params![hash, size(text.len()), digest.as_slice(), packed])
        .context(what)?;
    Ok(())
}

/// True when a run has an end to tell.
const fn has_detail(summary: &Summary) -> bool {
    summary.output.is_some() || summary.error.is_some() || !summary.uncompensated.is_empty()
}

/// Notes a question, or replaces it.
fn ask(conn: &Connection, run: i64, question: &Question) -> Result<(), Error> {
    let sql = "INSERT INTO question(id, run, path, topic, ask, form, \"to\", asked, until)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET run = excluded.run, path = excluded.path,
        topic = excluded.topic, ask = excluded.ask, form = excluded.form, \"to\" = excluded.\"to\",
        asked = excluded.asked, until = excluded.until";
    cached(conn, sql)?
        .execute(params![
            &*question.id,
            run,
            &*question.path,
            topic_name(&question.topic),
            &*question.ask,
            json(&question.form)?,
            question.to.as_deref(),
            int(question.asked),
            question.until.map(int),
        ])
        .context("noting a question")?;
    Ok(())
}

/// The stored word of a topic.
pub(super) const fn topic_name(topic: &Topic) -> &'static str {
    match topic {
        Topic::Human => "human",
        Topic::Uncertain => "uncertain",
        Topic::Compensation => "compensation",
    }
}

/// Marks messages as taken. The first reply stays; a big message is in the log now and not kept twice.
pub(super) fn settle(conn: &Connection, taken: &[(i64, Reply)]) -> Result<(), Error> {
    for (id, reply) in taken {
        let sql = "UPDATE inbox SET reply = ?1, message = CASE WHEN length(message) > ?2 THEN NULL ELSE message END
            WHERE key = ?3 AND reply IS NULL";
        cached(conn, sql)?
            .execute(params![json(reply)?, MESSAGE_BYTES_KEPT, id])
            .context("settling a message")?;
    }
    Ok(())
}

/// A small value as JSON.
pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Io {
        message: format!("a value cannot be written as JSON: {error}"),
    })
}

/// A statement, prepared once.
pub(super) fn cached<'c>(conn: &'c Connection, sql: &str) -> Result<CachedStatement<'c>, Error> {
    conn.prepare_cached(sql).context("preparing a statement")
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<usize> {
    conn.prepare_cached(sql)?.execute([])
}

/// A number that changes when another connection has written.
pub(super) fn data_version(conn: &Connection) -> Result<i64, Error> {
    cached(conn, "PRAGMA data_version")?
        .query_row([], |row| row.get(0))
        .context("looking for news")
}
