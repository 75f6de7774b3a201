//! The store on SQLite: one file, WAL, every commit on disk before it returns.
//!
//! One connection writes, under a lock; readers have connections of their own and see whole commits. What a run's
//! next commit needs (its last turn, hash, epoch, owner) is kept in memory and trusted for as long as no other
//! connection wrote (`PRAGMA data_version`), so a commit reads nothing.

mod blob;
mod check;
mod collect;
mod commit;
mod error;
mod inbox;
mod listing;
mod lock;
mod look;
mod open;
mod owner;
mod read;
mod rows;
mod salvage;
mod schema;
mod tools;
mod transfer;
mod trouble;
mod wal;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ravel_core::port_store::Error;
use rusqlite::Connection;

pub use check::Check;
pub use look::LiveOwner;
pub use salvage::{Cut, Repair};

use error::ResultExt;
use lock::{Alive, Owners};

/// Reading connections that are kept open.
const READERS_MAX: usize = 4;

/// Longest JSON text of one value or graph: the largest row that SQLite takes.
const VALUE_BYTES_MAX: usize = 1_000_000_000;

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Only look: a store is not made, and writing is refused.
    pub read_only: bool,
    /// How long to wait for another process's write to end.
    pub busy_timeout: Duration,
    /// Values whose JSON is longer are stored once each, apart from the turns.
    pub inline_bytes_max: usize,
    /// Memory for recent big values, from which their successors are stored as differences.
    pub recent_bytes_max: usize,
    /// Largest size of the database file. `None`: what the disk holds.
    pub file_bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: false,
            busy_timeout: Duration::from_secs(10),
            inline_bytes_max: crate::text::INLINE_BYTES_MAX,
            recent_bytes_max: 64 * 1024 * 1024,
            file_bytes_max: None,
        }
    }
}

/// A store in an SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    options: Options,
    owners: Owners,
    writer: Mutex<Option<commit::Writer>>,
    readers: Mutex<Vec<Connection>>,
    /// Tokens that this handle is alive under.
    alive: Mutex<HashMap<Arc<str>, Arc<Alive>>>,
    /// Messages posted through this handle: the writing connection's `data_version` does not count its own.
    posted: AtomicU64,
}

impl Sqlite {
    /// Opens the store, and makes it if it does not exist.
    ///
    /// # Errors
    /// [`Error::Newer`] when a newer version wrote it, [`Error::Damaged`] when it is no store any more,
    /// [`Error::Unknown`] when it should only be read and does not exist, [`Error::Io`] otherwise.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, Options::default())
    }

    /// Opens the store in a given way.
    ///
    /// # Errors
    /// As [`Sqlite::open`].
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let path = path.as_ref().to_path_buf();
        salvage::refuse(&path)?;
        let (writer, readers) = if options.read_only {
            (None, vec![open::reader(&path, &options)?])
        } else {
            (
                Some(commit::Writer::new(
                    open::writer(&path, &options)?,
                    &options,
                )),
                Vec::new(),
            )
        };
        Ok(Self {
            owners: Owners::of(&path),
            path,
            options,
            writer: Mutex::new(writer),
            readers: Mutex::new(readers),
            alive: Mutex::default(),
            posted: AtomicU64::new(0),
        })
    }

    /// Where the store is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves what is in the write-ahead log into the database file and empties the log, as closing the store does.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.write(|writer| {
            writer
                .conn
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .context("writing a checkpoint")
        })
    }

    /// Runs `f` with the writing connection.
    fn write<T>(
        &self,
        f: impl FnOnce(&mut commit::Writer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match &mut *relock(&self.writer) {
            Some(writer) => f(writer),
            None => Err(Error::Io {
                message: format!("{} was opened to be read only", self.path.display()),
            }),
        }
    }

    /// Runs `f` in one read transaction: it sees one state of the store.
    fn read<T>(&self, f: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let kept = relock(&self.readers).pop();
        let conn = match kept {
            Some(conn) => conn,
            None => open::reader(&self.path, &self.options)?,
        };
        let found = {
            let snapshot = conn.unchecked_transaction().context("reading the store")?;
            let found = f(&snapshot);
            // Nothing was written: it may end in any way.
            let _ = snapshot.finish();
            found
        };
        let mut readers = relock(&self.readers);
        if readers.len() < READERS_MAX {
            readers.push(conn);
        }
        found
    }

    /// Shows that this process is alive under a token.
    fn enter(&self, token: &Arc<str>) -> Result<(), Error> {
        let mut alive = relock(&self.alive);
        if !alive.contains_key(token) {
            let lock = self.owners.enter(token)?;
            alive.insert(token.clone(), lock);
        }
        Ok(())
    }
}

impl Drop for Sqlite {
    /// Empties the write-ahead log of a store that was written to, so that the file alone is the whole store when no
    /// other process has it open. Best effort: what stays in the log is read from there.
    fn drop(&mut self) {
        // A connection that only reads cannot do it, so none may be the last one.
        relock(&self.readers).clear();
        let Some(writer) = relock(&self.writer).take() else {
            return;
        };
        let conn = writer.conn;
        if conn.total_changes() > 0 && conn.busy_timeout(Duration::ZERO).is_ok() {
            let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }
}

/// A panic under one of our locks leaves whole entries behind; the database rolls back by itself.
fn relock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of a run that is not there.
fn unknown_run(run: &str) -> Error {
    Error::Unknown {
        what: format!("run {run}"),
    }
}

/// Times and counts are far below 2⁶³; one that is not is kept as the largest.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A length in memory.
fn size(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// A stored count or time. A negative one is damage, and shows as absurdly large where it is checked.
fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
