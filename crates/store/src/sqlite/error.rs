//! From SQLite's error codes to the port's errors.

use std::fmt;

use ravel_core::port_store::Error;
use rusqlite::ErrorCode;
use rustix::process::{Resource, getrlimit};

/// What was being done, for the messages of errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<D> {
    what: D,
}

/// SQLite's extended code for a file that ends before a page that it should hold.
const SHORT_READ: i32 = rusqlite::ffi::SQLITE_IOERR_SHORT_READ;

/// What that means, and the way out.
const PAGES_ARE_GONE: &str = "a file ends before a page that it should hold; was its -wal file removed, or the \
    database moved, while a process had it open? end all its processes (Ctrl-C), then open it again";

/// SQLite's extended codes for a file that did not grow or take bytes. It knows ENOSPC alone as "full": a file at the
/// process's own limit (EFBIG) is among these.
const WRITES: [i32; 3] = [
    rusqlite::ffi::SQLITE_IOERR_WRITE,
    rusqlite::ffi::SQLITE_IOERR_TRUNCATE,
    rusqlite::ffi::SQLITE_IOERR_SHMSIZE,
];

/// The most bytes that a file of this process may have (`ulimit -f`), when a write failed under such a limit.
fn limit_met(error: &rusqlite::Error) -> Option<u64> {
    let code = error.sqlite_extended_error_code()?;
    let most = getrlimit(Resource::Fsize).current?;
    WRITES.contains(&code).then_some(most)
}

impl<D: fmt::Display> Context<D> {
    pub(super) const fn new(what: D) -> Self {
        Self { what }
    }

    pub(super) fn error(&self, error: &rusqlite::Error) -> Error {
        let what = &self.what;
        let damaged = || Error::Damaged {
            what: format!("{what}: {error}"),
        };
        let other = || Error::Io {
            message: format!("{what}: {error}"),
        };
        let Some(code) = error.sqlite_error_code() else {
            return match error {
                // A column holds what we never write.
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::Utf8Error(..) => damaged(),
                _ => other(),
            };
        };
        if let Some(most) = limit_met(error) {
            return Error::Full {
                message: format!(
                    "{what}: {error}; files of this process may have {most} bytes (`ulimit -f`)"
                ),
            };
        }
        match code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => damaged(),
            ErrorCode::SystemIoFailure
                if error.sqlite_extended_error_code() == Some(SHORT_READ) =>
            {
                Error::Damaged {
                    what: format!("{what}: {error}: {PAGES_ARE_GONE}"),
                }
            }
            ErrorCode::DiskFull => Error::Full {
                message: format!("{what}: {error}"),
            },
            ErrorCode::ReadOnly => Error::Io {
                message: format!("{what}: the store's file is read-only"),
            },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Io {
                message: format!("{what}: another process keeps the store locked"),
            },
            _ => other(),
        }
    }
}

/// `.context("reading run x")?` on results of SQLite.
pub(super) trait ResultExt<T> {
    fn context(self, what: impl fmt::Display) -> Result<T, Error>;
}

impl<T> ResultExt<T> for rusqlite::Result<T> {
    fn context(self, what: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| Context::new(what).error(&error))
    }
}
