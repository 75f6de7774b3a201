//! Why the disk does not take what SQLite writes. SQLite's codes know a full disk; a used-up quota, a mount that became
//! read-only and too many open files all read as "disk I/O error". So the folder is asked again, once, on a failure.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use ravel_core::port_store::Error;
use rusqlite::Connection;
use rustix::io::Errno;

/// Bytes that are tried to be written: more than a quota that refused a commit usually has left.
const PROBE_BYTES: usize = 1024 * 1024;

/// The error with its reason, as far as the folder of the store gives it away.
pub(super) fn named(conn: &Connection, error: Error) -> Error {
    match conn.path() {
        Some(path) => named_at(Path::new(path), error),
        None => error,
    }
}

/// The same for a store that may not be open.
pub(super) fn named_at(store: &Path, error: Error) -> Error {
    let Error::Io { message } = error else {
        return error;
    };
    match store.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => match probe(folder) {
            Ok(()) => Error::Io { message },
            Err(why) => explained(message, folder, &why),
        },
        Some(_) | None => Error::Io { message },
    }
}

/// Writes a file and removes it again.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".ravel-probe-{}", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    let written = fill(&mut file);
    let _ = std::fs::remove_file(&path);
    written
}

fn fill(file: &mut File) -> io::Result<()> {
    let block = [0_u8; 4096];
    for _ in 0..PROBE_BYTES / block.len() {
        file.write_all(&block)?;
    }
    file.sync_all()
}

fn explained(message: String, folder: &Path, why: &io::Error) -> Error {
    let folder = folder.display();
    match why.kind() {
        ErrorKind::StorageFull => Error::Full {
            message: format!("{message}; no space is left at {folder}"),
        },
        ErrorKind::QuotaExceeded => Error::Full {
            message: format!("{message}; the disk quota of this user is used up at {folder}"),
        },
        ErrorKind::ReadOnlyFilesystem => Error::Io {
            message: format!(
                "{message}; the file system of {folder} is mounted read-only: mount it for writing, then resume"
            ),
        },
        _ => match Errno::from_io_error(why) {
            Some(Errno::MFILE) => Error::Io {
                message: format!(
                    "{message}; this process has too many files open: raise `ulimit -n`, then resume"
                ),
            },
            Some(Errno::NFILE) => Error::Io {
                message: format!(
                    "{message}; the machine has too many files open: end something, then resume"
                ),
            },
            Some(_) | None => Error::Io { message },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_disk_lacks_is_said_with_the_way_out() {
        let said = |errno: Errno| {
            let error = explained(
                "writing turns: disk I/O error".into(),
                Path::new("/s"),
                &errno.into(),
            );
            (matches!(error, Error::Full { .. }), error.to_string())
        };
        let full = "no space is left for the store: writing turns: disk I/O error";
        let other = "the store failed: writing turns: disk I/O error";
        for (errno, is_full, text) in [
            (
                Errno::NOSPC,
                true,
                format!("{full}; no space is left at /s"),
            ),
            (
                Errno::DQUOT,
                true,
                format!("{full}; the disk quota of this user is used up at /s"),
            ),
            (
                Errno::ROFS,
                false,
                format!(
                    "{other}; the file system of /s is mounted read-only: mount it for writing, then resume"
                ),
            ),
            (
                Errno::MFILE,
                false,
                format!(
                    "{other}; this process has too many files open: raise `ulimit -n`, then resume"
                ),
            ),
            (Errno::IO, false, other.to_owned()),
        ] {
            assert_eq!(said(errno), (is_full, text), "{errno:?}");
        }
    }

    #[test]
    fn a_folder_that_takes_files_explains_nothing_and_keeps_none() {
        let dir = tempfile::tempdir().unwrap();
        let conn = Connection::open(dir.path().join("a.db")).unwrap();
        let error = named(
            &conn,
            Error::Io {
                message: "x".into(),
            },
        );
        assert_eq!(error.to_string(), "the store failed: x");
        let names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "a.db")
            .collect();
        assert_eq!(names, Vec::<std::ffi::OsString>::new());
    }
}
