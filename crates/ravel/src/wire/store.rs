//! The store that commands work on.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ravel_core::event::Turn;
use ravel_core::port::Summary;
use ravel_core::port_store::{self, Log as _, Ownership as _};
use ravel_core::run::Run;
use ravel_store::Sqlite;
use rustix::io::Errno;

use super::{GraphCache, store_error};
use crate::config::Config;
use crate::error::{Error, Result};

/// A store with the graphs that are in it.
#[derive(Clone)]
pub(crate) struct Shelf {
    pub(crate) store: Arc<Sqlite>,
    pub(crate) graphs: Arc<GraphCache>,
    pub(crate) path: PathBuf,
}

impl Shelf {
    fn new(store: Sqlite, path: PathBuf) -> Self {
        let store = Arc::new(store);
        Self {
            graphs: Arc::new(GraphCache::new(store.clone())),
            store,
            path,
        }
    }
}

/// Opens the store; makes it, and its folder, when it is not there.
pub(crate) fn open(config: &Config) -> Result<Shelf> {
    let path = config.store_path();
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| no_folder(folder, error))?;
        keep_out_of_git(folder);
    }
    open_at(path)
}

/// Opens the store if there is one.
pub(crate) fn open_existing(config: &Config) -> Result<Option<Shelf>> {
    let path = config.store_path();
    match std::fs::metadata(&path) {
        Ok(_) => open_at(path).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::trouble(format!(
            "the store {} cannot be looked at",
            path.display()
        ))
        .because(error)
        .hint(OTHER_STORE)),
    }
}

fn open_at(path: PathBuf) -> Result<Shelf> {
    look(&path)?;
    let store = Sqlite::open(&path).map_err(|error| opening(&path, error))?;
    Ok(Shelf::new(store, path))
}

/// How to name another store.
const OTHER_STORE: &str =
    "--store PATH, RAVEL_STORE or `store.path` in ravel.toml name another file";
/// How every SQLite database begins.
const DATABASE_BEGINS: &[u8] = b"SQLite format 3\0";

/// Says what is the matter with a path before SQLite fails on it with less to say. A FIFO is never opened: that waits.
fn look(path: &Path) -> Result<()> {
    let shown = path.display();
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return may_write_beside(path),
        Err(error) => {
            return Err(
                Error::trouble(format!("the store {shown} cannot be looked at"))
                    .because(error)
                    .hint(OTHER_STORE),
            );
        }
    };
    if metadata.is_dir() {
        return Err(
            Error::trouble(format!("the store {shown} is a folder, not a file"))
                .hint(format!("a file in it would be --store {shown}/ravel.db")),
        );
    }
    if !metadata.is_file() {
        let kind = kind_of(metadata.file_type());
        return Err(
            Error::trouble(format!("the store {shown} is {kind}, not a file")).hint(OTHER_STORE),
        );
    }
    let mode = metadata.permissions().mode() & 0o777;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path);
    let mut begin = Vec::new();
    file.map_err(|error| may_not_open(path, mode, error))?
        .take(DATABASE_BEGINS.len() as u64)
        .read_to_end(&mut begin)
        .map_err(|error| Error::trouble(format!("cannot read {shown}")).because(error))?;
    if !begin.is_empty() && begin != DATABASE_BEGINS {
        return Err(Error::trouble(format!(
            "the file {shown} is no database; nothing was changed"
        ))
        .hint(OTHER_STORE)
        .hint("if it was a store, `ravel doctor --repair` saves what is good in it"));
    }
    may_write_beside(path)
}

/// Why a store's file does not open for reading and writing.
fn may_not_open(path: &Path, mode: u32, error: std::io::Error) -> Error {
    let shown = path.display();
    if error.kind() == ErrorKind::ReadOnlyFilesystem {
        return read_only_mount(path);
    }
    if error.kind() != ErrorKind::PermissionDenied {
        let failed = Error::trouble(format!("the store {shown} cannot be opened"));
        let crowded = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
        return if crowded.contains(&error.raw_os_error()) {
            failed
                .because(error)
                .hint("raise `ulimit -n`, or end what has so many files open")
        } else {
            failed.because(error)
        };
    }
    Error::trouble(format!(
        "the store {shown} may not be read and written (its mode is {mode:o})"
    ))
    .because(error)
    .hint(format!(
        "`chmod u+rw {shown}` as its owner, or {OTHER_STORE}"
    ))
}

/// A mode changes nothing there.
fn read_only_mount(path: &Path) -> Error {
    Error::trouble(format!(
        "the store {} is on a file system that is mounted read-only",
        path.display()
    ))
    .hint(format!("mount it for writing, or {OTHER_STORE}"))
}

/// SQLite keeps its write-ahead log beside the file: the folder must be writable, too.
fn may_write_beside(path: &Path) -> Result<()> {
    let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    else {
        return Ok(());
    };
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK) == Err(Errno::ROFS) {
        return Err(read_only_mount(path));
    }
    let Ok(metadata) = std::fs::metadata(folder) else {
        return Ok(());
    };
    if metadata.permissions().readonly() {
        let shown = folder.display();
        return Err(Error::trouble(format!(
            "the folder {shown} may not be written, and the store keeps files there"
        ))
        .hint(format!(
            "`chmod u+w {shown}` as its owner, or {OTHER_STORE}"
        )));
    }
    Ok(())
}

fn kind_of(kind: std::fs::FileType) -> &'static str {
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn no_folder(folder: &Path, error: std::io::Error) -> Error {
    Error::trouble(format!("cannot make the folder {}", folder.display()))
        .because(error)
        .hint(OTHER_STORE)
}

fn opening(path: &Path, error: port_store::Error) -> Error {
    let other = matches!(error, port_store::Error::Io { .. }).then(|| OTHER_STORE.to_owned());
    let inner = store_error(error);
    let exit = inner.exit();
    let hints = inner.hints().to_vec();
    let outer =
        Error::new(exit, format!("cannot open the store {}", path.display())).because(inner);
    hints.into_iter().chain(other).fold(outer, Error::hint)
}

/// A `.ravel` folder ignores itself: databases do not belong into a repository. Best effort.
fn keep_out_of_git(folder: &Path) {
    let file = folder.join(".gitignore");
    if folder
        .file_name()
        .is_some_and(|name| name == crate::config::FOLDER_NAME)
        && !file.exists()
    {
        let _ = std::fs::write(file, "*\n");
    }
}

/// A run folded from its log.
pub(crate) fn folded(shelf: &Shelf, run: &str) -> Result<Run> {
    let turns = shelf
        .store
        .load(run)
        .map_err(|error| damaged(shelf, run, error))?;
    replayed(shelf, run, &turns)
}

/// A run folded from turns.
pub(crate) fn replayed(shelf: &Shelf, run: &str, turns: &[Turn]) -> Result<Run> {
    Run::replay(turns, &mut |hash| shelf.graphs.get(hash)).map_err(|error| {
        Error::new(
            crate::exit::Exit::Damaged,
            format!("run {run} cannot be folded from its log"),
        )
        .because(error)
    })
}

/// A failure to read a run: of a damaged one it says where a fork can go on.
pub(crate) fn damaged(shelf: &Shelf, run: &str, error: port_store::Error) -> Error {
    let is_damage = matches!(error, port_store::Error::Damaged { .. });
    let said = store_error(error);
    let good = shelf.store.good_turns(run).unwrap_or(0);
    if !is_damage || good == 0 {
        return said;
    }
    said.hint(format!(
        "turns 1 to {good} are good: `ravel runs fork {run} --at {good}` goes on from there"
    ))
    .hint("what came after them may have happened, and a fork does it again: look first")
}

/// The state as people see it: a live run that no process owns is `paused`.
pub(crate) fn shown_state(shelf: &Shelf, summary: &Summary) -> Result<&'static str> {
    if summary.state.is_final() {
        return Ok(summary.state.name());
    }
    let owner = shelf.store.owner(&summary.run).map_err(store_error)?;
    Ok(if owner.is_some() {
        summary.state.name()
    } else {
        "paused"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_no_matter_of_modes() {
        let errno = std::io::Error::from(Errno::MFILE);
        let error = may_not_open(Path::new("r.db"), 0o644, errno);
        assert_eq!(
            (error.to_string(), error.hints().to_vec()),
            (
                "the store r.db cannot be opened".to_owned(),
                vec!["raise `ulimit -n`, or end what has so many files open".to_owned()]
            )
        );
    }

    #[test]
    fn a_read_only_mount_is_no_matter_of_modes() {
        let said = |kind: ErrorKind| {
            let error = may_not_open(Path::new("r.db"), 0o444, kind.into());
            (error.to_string(), error.hints().to_vec())
        };
        assert_eq!(
            said(ErrorKind::ReadOnlyFilesystem),
            (
                "the store r.db is on a file system that is mounted read-only".to_owned(),
                vec![format!("mount it for writing, or {OTHER_STORE}")]
            )
        );
        assert_eq!(
            said(ErrorKind::PermissionDenied),
            (
                "the store r.db may not be read and written (its mode is 444)".to_owned(),
                vec![format!("`chmod u+rw r.db` as its owner, or {OTHER_STORE}")]
            )
        );
    }
}
