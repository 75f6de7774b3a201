//! Writing: one batch, one transaction, one fsync.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use ravel_core::port::{RunState, Summary};
use ravel_core::port_store::{Batch, Error, RunCommit};
use rusqlite::{CachedStatement, Connection, params};

use super::error::ResultExt;
use super::rows::{ask, json, settle};
use super::tools::{Known, Tools};
use super::trouble::named;
use super::{Options, int};
use crate::rules::{contiguous, run_over};

/// Runs whose last turn is kept in memory. More are read again when they go on.
const KNOWN_MAX: usize = 16_384;

/// The connection that writes.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) conn: Connection,
    notes: Notes,
}

/// What the writing connection knows.
#[derive(Debug)]
pub(super) struct Notes {
    known: HashMap<Arc<str>, Known>,
    /// `data_version` at the last commit: `known` holds while it stays.
    version: i64,
    pub(super) tools: Tools,
}

impl Writer {
    pub(super) fn new(conn: Connection, options: &Options) -> Self {
        let tools = Tools::new(options);
        Self {
            conn,
            notes: Notes {
                known: HashMap::new(),
                version: 0,
                tools,
            },
        }
    }

    /// Runs `f` in one transaction: all of it, or nothing.
    pub(super) fn transaction<T>(
        &mut self,
        what: &str,
        f: impl FnOnce(&Connection, &mut Notes) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Self { conn, notes } = self;
        execute(conn, "BEGIN IMMEDIATE")
            .context(what)
            .map_err(|error| named(conn, error))?;
        let done =
            f(conn, notes).and_then(|done| execute(conn, "COMMIT").context(what).map(|_| done));
        if done.is_err() && !conn.is_autocommit() {
            // The first error is the one to tell; a transaction that cannot even be undone ends with its connection.
            let _ = execute(conn, "ROLLBACK");
        }
        done.map_err(|error| named(conn, error))
    }

    /// Writes a batch.
    pub(super) fn commit(&mut self, batch: &Batch) -> Result<(), Error> {
        let done = self.transaction("writing turns", |conn, notes| {
            notes.refresh(conn)?;
            notes.tools.begin();
            let mut hot = Hot::new(conn)?;
            batch
                .runs
                .iter()
                .try_for_each(|commit| notes.run(conn, &mut hot, commit))
        });
        if done.is_err() {
            // What was noted on the way is not so.
            for commit in &batch.runs {
                self.notes.known.remove(&commit.run);
            }
            self.notes.tools.forget();
        }
        done
    }

    /// True when a bundle is stored; it is remembered as if it were put.
    pub(super) fn has_bundle(&mut self, hash: &str, text: &str) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM bundle WHERE hash = ?";
        let there = cached(&self.conn, sql)?
            .exists([hash])
            .context("looking for a graph")?;
        if there {
            self.notes.tools.remember_bundle(hash, text);
        }
        Ok(there)
    }

    /// Forgets everything that was read.
    pub(super) fn forget(&mut self) {
        self.notes.forget();
    }
}

/// The statements of every commit, looked up once a batch.
pub(super) struct Hot<'c> {
    conn: &'c Connection,
    /// Whether any message of any run waits for a reply. Asked once a batch, when a run ends: there hardly ever is one.
    letters: Option<bool>,
    append: CachedStatement<'c>,
    head: CachedStatement<'c>,
}

impl<'c> Hot<'c> {
    pub(super) fn new(conn: &'c Connection) -> Result<Self, Error> {
        Ok(Self {
            conn,
            letters: None,
            append: cached(conn, "INSERT INTO turn(run, first, last, hash, body) VALUES (?, ?, ?, ?, ?)")?,
            head: cached(
                conn,
                "UPDATE head SET last = ?, updated = ?, wake_at = ?, input_tokens = ?, cached_tokens = ?, output_tokens = ?,
                 cost_microusd = ?, waits = ? WHERE run = ?",
            )?,
        })
    }

    /// Replies to what is left in the inbox of a run that is over.
    fn close_inbox(&mut self, known: &Known) -> Result<(), Error> {
        let what = "closing an inbox";
        let letters = match self.letters {
            Some(letters) => letters,
            None => {
                let sql = "SELECT 1 FROM inbox INDEXED BY inbox_waiting WHERE reply IS NULL";
                *self
                    .letters
                    .insert(cached(self.conn, sql)?.exists([]).context(what)?)
            }
        };
        if letters {
            let sql = "UPDATE inbox SET reply = ? WHERE run = ? AND reply IS NULL";
            cached(self.conn, sql)?
                .execute(params![json(&run_over())?, known.key])
                .context(what)?;
        }
        Ok(())
    }

    /// Adds a row of turns, `first` to the last one known.
    pub(super) fn append(&mut self, known: &Known, first: u64, body: &[u8]) -> Result<(), Error> {
        let what = "appending turns";
        let body = std::str::from_utf8(body).map_err(|_| Error::Damaged {
            what: format!("{what}: they are not text"),
        })?;
        self.append
            .execute((
                known.key,
                int(first),
                int(known.last),
                known.hash.as_slice(),
                body,
            ))
            .context(what)?;
        Ok(())
    }

    pub(super) fn head(
        &mut self,
        known: &Known,
        summary: &Summary,
        waits: Option<&str>,
    ) -> Result<(), Error> {
        let usage = &summary.usage;
        self.head
            .execute((
                int(known.last),
                int(summary.updated),
                summary.wake_at.map(int),
                int(usage.input_tokens),
                int(usage.cached_tokens),
                int(usage.output_tokens),
                int(usage.cost_microusd),
                waits,
                known.key,
            ))
            .context("updating a run")?;
        Ok(())
    }
}

impl Notes {
    /// Forgets what another connection may have changed.
    fn refresh(&mut self, conn: &Connection) -> Result<(), Error> {
        let version = data_version(conn)?;
        if version != self.version {
            self.version = version;
            self.forget();
        }
        if self.known.len() > KNOWN_MAX {
            self.known
                .retain(|_, known| known.state.is_some_and(|state| state != RunState::Waiting));
            if self.known.len() > KNOWN_MAX {
                self.known.clear();
            }
        }
        Ok(())
    }

    /// Forgets everything that was read.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.tools.forget();
    }

    /// Forgets one run.
    pub(super) fn forget_run(&mut self, run: &str) {
        self.known.remove(run);
    }

    fn run(
        &mut self,
        conn: &Connection,
        hot: &mut Hot<'_>,
        commit: &RunCommit,
    ) -> Result<(), Error> {
        let Self {
            known: all, tools, ..
        } = self;
        let known = if commit.create {
            let created = tools.create(conn, commit)?;
            all.entry(commit.run.clone())
                .insert_entry(created)
                .into_mut()
        } else {
            match all.entry(commit.run.clone()) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(tools.known(conn, commit)?),
            }
        };
        if known.owner.as_ref() != Some(&commit.owner) {
            return Err(Error::Fenced {
                run: commit.run.clone(),
            });
        }
        contiguous(commit, known.last + 1)?;
        tools.turns(conn, hot, known, &commit.turns)?;
        tools.summary(conn, hot, known, (&commit.summary, &commit.turns))?;
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
            hot.close_inbox(known)?;
            tools.ended(known);
            all.remove(&commit.run);
        }
        Ok(())
    }
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
