//! A damaged store made usable: a new file with all of the old one that proves itself.
//!
//! Turns prove themselves by the hash chain, values and graphs by their hashes. Of each run the turns up to the first loss
//! are kept. What came after it is unknown, effects included, so such a run is never gone on with by itself: its number of
//! turns stays what it was, every reader says which turns are missing, and a person forks it at its last good turn or
//! gives it up.

mod found;
mod pages;
mod place;
mod prove;

use std::path::{Path, PathBuf};

use ravel_core::port_store::Error;
use serde::Serialize;

use super::error::ResultExt;
use super::lock::Owners;
use super::{Options, Sqlite, open, schema, wal};

/// A run of which something is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// Its id.
    pub run: String,
    /// Its flow.
    pub flow: String,
    /// Its last known state.
    pub state: String,
    /// Turns that are kept, from the first on.
    pub kept: u64,
    /// Turns that it had; none where nobody can tell any more.
    pub had: Option<u64>,
    /// What is lost, in words.
    pub lost: String,
}

/// What a repair found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// Runs that are whole.
    pub whole: u64,
    /// Runs of which something is lost.
    pub cut: Vec<Cut>,
    /// Turns of runs whose names are lost, with all that could tell whose they are.
    pub nameless_turns: u64,
    /// The folder with the damaged files as they were.
    pub backup: PathBuf,
}

impl Sqlite {
    /// Makes a damaged store usable: writes a new file with all that proves itself, moves the old files into a folder
    /// beside them, unchanged, and puts the new one into their place. `stamp` makes the folder's name its own. `None`
    /// when the store is sound: then nothing was done.
    ///
    /// # Errors
    /// [`Error::Held`] while a process works on the store; [`Error::Unknown`] when there is none; errors of the disk.
    pub fn repair(path: impl AsRef<Path>, stamp: &str) -> Result<Option<Repair>, Error> {
        let path = path.as_ref();
        nobody_works_on(path)?;
        if let Some(backup) = place::unfinished(path)? {
            // The new file was complete; what was found is told anew.
            place::finish(path)?;
            return told(path, backup).map(Some);
        }
        if !path.exists() {
            return Err(Error::Unknown {
                what: format!("store at {}", path.display()),
            });
        }
        if is_sound(path)? {
            return Ok(None);
        }
        let new = place::draft(path)?;
        let mut repair = build(path, &new)?;
        if repair.whole + repair.nameless_turns == 0 && repair.cut.is_empty() {
            // It may be anything: it is not for us to move it.
            place::draft(path)?;
            return Err(Error::Io {
                message: format!(
                    "nothing of a store can be read in {}, which was left as it is",
                    path.display()
                ),
            });
        }
        repair.backup = place::replace(path, &new, stamp)?;
        Ok(Some(repair))
    }
}

/// Looks at a copy: SQLite writes the log into the file of a store that it opens.
fn is_sound(path: &Path) -> Result<bool, Error> {
    let copy = place::copy(path)?;
    let checked = Sqlite::open(copy.path()).and_then(|store| store.check());
    match checked {
        Ok(check) => Ok(check.damaged.is_empty() && check.file.is_empty()),
        Err(Error::Full { message }) => Err(Error::Full { message }),
        Err(Error::Newer { found, known }) => Err(Error::Newer { found, known }),
        Err(_) => Ok(false),
    }
}

/// Refuses while a process owns runs: what it writes would be lost.
fn nobody_works_on(path: &Path) -> Result<(), Error> {
    match Owners::of(path).living()? {
        None => Ok(()),
        Some(by) => Err(Error::Held {
            run: format!("of the store {}", path.display()).into(),
            by,
        }),
    }
}

/// Writes the new store.
fn build(old: &Path, new: &Path) -> Result<Repair, Error> {
    let failed = |error: std::io::Error| Error::Io {
        message: format!("reading {}: {error}", old.display()),
    };
    let pages = pages::Pages::open(old).map_err(failed)?;
    let conn = rusqlite::Connection::open(new).context("making a new store")?;
    let what = "writing the new store";
    // Rows come in the order of pages.
    conn.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; BEGIN",
    )
    .context(what)?;
    schema::create(&conn)?;
    found::collect(&conn, &pages)?;
    let repair = prove::runs(&conn)?;
    conn.execute_batch("COMMIT").context(what)?;
    conn.close().map_err(|(_, error)| error).context(what)?;
    Ok(repair)
}

/// What a finished repair had found, as far as the new store says.
fn told(path: &Path, backup: PathBuf) -> Result<Repair, Error> {
    let conn = open::reader(path, &Options::default())?;
    let mut repair = prove::told(&conn)?;
    repair.backup = backup;
    Ok(repair)
}

/// Refuses a store that a repair was cut short of, and one whose log was changed.
pub(super) fn refuse(path: &Path) -> Result<(), Error> {
    if place::unfinished(path)?.is_some() {
        return Err(Error::Damaged {
            what: format!(
                "a repair of {} was cut short: the next one finishes it",
                path.display()
            ),
        });
    }
    let log = std::fs::metadata(wal::path_of(path));
    let is_empty = log.is_ok_and(|facts| facts.len() == 0) || !wal::path_of(path).exists();
    if is_empty || Owners::of(path).living()?.is_some() {
        return Ok(());
    }
    wal::check(path)
}
