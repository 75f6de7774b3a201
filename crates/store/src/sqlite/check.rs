//! A check of the whole store, for `doctor` and after damage.

use ravel_core::port_store::{Chain, Error, Log};
use serde::Serialize;

use super::commit::cached;
use super::error::ResultExt;
use super::{Sqlite, read};

/// What a check of the whole store found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Runs that are whole.
    pub whole: u64,
    /// Each run that is damaged, with what is lost.
    pub damaged: Vec<(String, String)>,
    /// What SQLite says about the file: empty when it is sound.
    pub file: Vec<String>,
}

/// Most problems of the file that are listed.
const PROBLEMS_MAX: i64 = 100;

impl Log for Sqlite {
    fn commit(&self, batch: &ravel_core::port_store::Batch) -> Result<(), Error> {
        for commit in batch.runs.iter().filter(|commit| commit.create) {
            self.enter(&commit.owner.token)?;
        }
        self.write(|writer| writer.commit(batch))
    }

    fn load(&self, run: &str) -> Result<Vec<ravel_core::event::Turn>, Error> {
        self.read(|conn| read::load(conn, run, u64::MAX))
    }

    fn load_to(&self, run: &str, upto: u64) -> Result<Vec<ravel_core::event::Turn>, Error> {
        self.read(|conn| read::load(conn, run, upto))
    }

    fn put_bundle(&self, hash: &str, json: &str) -> Result<(), Error> {
        self.write(|writer| {
            // Every start of a run puts its graph: only the first one writes.
            if writer.has_bundle(hash, json)? {
                return Ok(());
            }
            writer.transaction("keeping a graph", |conn, notes| {
                notes.tools.put_bundle(conn, hash, json)
            })
        })
    }

    fn bundle(&self, hash: &str) -> Result<String, Error> {
        self.read(|conn| read::bundle(conn, hash))
    }

    fn verify(&self, run: &str) -> Result<Chain, Error> {
        self.read(|conn| read::verify(conn, run))
    }
}

impl Sqlite {
    /// Checks the file, and every run with its values. Takes as long as reading the whole store.
    ///
    /// # Errors
    /// Only when the store cannot be read at all; damage is in the result.
    pub fn check(&self) -> Result<Check, Error> {
        self.read(|conn| {
            let what = "checking the store";
            let mut check = Check::default();
            let sql = format!("PRAGMA integrity_check({PROBLEMS_MAX})");
            let problems: rusqlite::Result<Vec<String>> = cached(conn, &sql)?
                .query_map([], |row| row.get(0))
                .and_then(Iterator::collect);
            match problems {
                Ok(problems) => check
                    .file
                    .extend(problems.into_iter().filter(|problem| problem != "ok")),
                Err(error) => check.file.push(error.to_string()),
            }
            let runs: Vec<String> = cached(conn, "SELECT id FROM run ORDER BY key")?
                .query_map([], |row| row.get(0))
                .context(what)?
                .collect::<rusqlite::Result<_>>()
                .context(what)?;
            for run in runs {
                let checked = read::verify(conn, &run)
                    .and_then(|_| read::legible(conn, &run))
                    .and_then(|()| read::flow_of(conn, &run));
                match checked {
                    Ok(()) => check.whole += 1,
                    Err(error) => check.damaged.push((run, error.to_string())),
                }
            }
            Ok(check)
        })
    }
}
