//! Putting a new file into the place of a damaged one. Whenever this is cut short, the next repair finishes it, and until
//! then the store is refused: it is never opened half replaced.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ravel_core::port_store::Error;

use super::super::wal::beside;

/// The new file while it is written.
const DRAFT: &str = ".repair";
/// A copy that is looked at.
const COPY: &str = ".repair-look";
/// A link to the backup, while files are replaced.
const MARK: &str = ".repairing";
/// The new file, complete.
const READY: &str = ".repaired";
/// Folders with what was damaged: a stamp follows.
const BACKUP: &str = ".damaged-";
/// The files of a store.
const PARTS: [&str; 3] = ["", "-wal", "-shm"];

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let message = format!("{what} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { message },
        _ => Error::Io { message },
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", path, &error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Where the new file is written; what an earlier try left is removed.
pub(super) fn draft(store: &Path) -> Result<PathBuf, Error> {
    let draft = beside(store, DRAFT);
    remove(&draft)?;
    Ok(draft)
}

/// A copy of a store, gone when it is dropped.
pub(super) struct Copy {
    path: PathBuf,
}

impl Copy {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What stays is only space.
        for part in PARTS {
            let _ = remove(&beside(&self.path, part));
        }
    }
}

/// Copies a store with its log.
pub(super) fn copy(store: &Path) -> Result<Copy, Error> {
    let copy = Copy {
        path: beside(store, COPY),
    };
    for part in ["", "-wal"] {
        let from = beside(store, part);
        let to = beside(copy.path(), part);
        remove(&to)?;
        if from.exists() {
            fs::copy(&from, &to).map_err(|error| failed("copying", &from, &error))?;
        }
    }
    Ok(copy)
}

/// The backup of a replacement that was cut short.
pub(super) fn unfinished(store: &Path) -> Result<Option<PathBuf>, Error> {
    let ready = beside(store, READY);
    match fs::read_link(beside(store, MARK)) {
        Ok(backup) if ready.exists() => Ok(Some(backup)),
        // The new file is in its place, or was not complete: nothing is half done.
        Ok(_) => {
            remove(&beside(store, MARK))?;
            Ok(None)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("reading", store, &error)),
    }
}

/// Keeps the old files in a folder, and puts the new one into their place.
pub(super) fn replace(store: &Path, draft: &Path, stamp: &str) -> Result<PathBuf, Error> {
    let ready = beside(store, READY);
    remove(&ready)?;
    let backup = beside(store, &format!("{BACKUP}{stamp}"));
    fs::create_dir(&backup).map_err(|error| failed("making", &backup, &error))?;
    for part in PARTS {
        let old = beside(store, part);
        if old.exists() {
            let name = old.file_name().unwrap_or_default();
            let kept = backup.join(name);
            // The same bytes under a second name; a copy where the file system has no such thing.
            fs::hard_link(&old, &kept)
                .or_else(|_| fs::copy(&old, &kept).and_then(|_| File::open(&kept)?.sync_all()))
                .map_err(|error| failed("keeping", &old, &error))?;
        }
    }
    sync(&backup)?;
    let mark = beside(store, MARK);
    remove(&mark)?;
    std::os::unix::fs::symlink(&backup, &mark).map_err(|error| failed("marking", &mark, &error))?;
    fs::rename(draft, &ready).map_err(|error| failed("renaming", draft, &error))?;
    sync_around(store)?;
    finish(store)?;
    Ok(backup)
}

/// The rest of a replacement: can be done again.
pub(super) fn finish(store: &Path) -> Result<(), Error> {
    // A log that belongs to the old file would be taken for the new one's.
    remove(&beside(store, "-wal"))?;
    remove(&beside(store, "-shm"))?;
    sync_around(store)?;
    let ready = beside(store, READY);
    fs::rename(&ready, store).map_err(|error| failed("renaming", &ready, &error))?;
    sync_around(store)?;
    remove(&beside(store, MARK))
}

fn sync_around(store: &Path) -> Result<(), Error> {
    let folder = store
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    sync(folder.unwrap_or_else(|| Path::new(".")))
}

fn sync(folder: &Path) -> Result<(), Error> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| failed("syncing", folder, &error))
}
