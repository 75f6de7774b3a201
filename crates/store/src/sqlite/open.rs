//! Opening connections: settings, format, and what a wrong file means.

use std::path::Path;

use ravel_core::port_store::Error;
use rusqlite::{Connection, OpenFlags};

use super::Options;
use super::error::ResultExt;
use super::schema::{self, APPLICATION, FORMAT};
use super::trouble::named_at;

/// Statements kept prepared a connection: more than there are in this crate.
const STATEMENTS_MAX: usize = 128;
/// Size that the write-ahead log is cut back to after a big commit.
const WAL_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// Memory for pages of the connection that writes.
const CACHE_KIB: i64 = 8 * 1024;
/// Tries to turn the write-ahead log on while other processes open the same new file.
const WAL_TRIES_MAX: u32 = 1_000;

/// Opens the connection that writes; makes the file and its tables if they do not exist.
pub(super) fn writer(path: &Path, options: &Options) -> Result<Connection, Error> {
    // Opening writes, too: the index of the write-ahead log needs room.
    try_writer(path, options).map_err(|error| named_at(path, error))
}

fn try_writer(path: &Path, options: &Options) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let what = || format!("opening {}", path.display());
    let conn = Connection::open_with_flags(path, flags).context(what())?;
    settings(&conn, options).context(what())?;
    // Before anything is changed: the file may be somebody else's.
    let empty = check_format(&conn, path)?;
    write_ahead(&conn).context(what())?;
    // Pages that many runs' commits touch in turn stay in memory.
    conn.pragma_update(None, "cache_size", -CACHE_KIB)
        .context(what())?;
    // FULL: a commit returns after its fsync.
    conn.pragma_update(None, "synchronous", "FULL")
        .context(what())?;
    conn.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)
        .context(what())?;
    if let Some(bytes) = options.file_bytes_max {
        let page: i64 = conn
            .pragma_query_value(None, "page_size", |row| row.get(0))
            .context(what())?;
        let pages = (i64::try_from(bytes).unwrap_or(i64::MAX) / page).max(1);
        conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
            .context(what())?;
    }
    if empty || !schema::views_are_ours(&conn)? {
        conn.execute_batch("BEGIN IMMEDIATE").context(what())?;
        // Another process may have made the tables meanwhile.
        let made = match check_format(&conn, path) {
            Ok(true) => schema::create(&conn),
            Ok(false) => schema::renew_views(&conn),
            Err(error) => Err(error),
        };
        let end = if made.is_ok() { "COMMIT" } else { "ROLLBACK" };
        conn.execute_batch(end).context(what())?;
        made?;
    }
    Ok(conn)
}

/// Opens a connection that reads.
pub(super) fn reader(path: &Path, options: &Options) -> Result<Connection, Error> {
    try_reader(path, options).map_err(|error| named_at(path, error))
}

fn try_reader(path: &Path, options: &Options) -> Result<Connection, Error> {
    if !path.exists() {
        return Err(Error::Unknown {
            what: format!("store at {}", path.display()),
        });
    }
    let what = || format!("opening {}", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).context(what())?;
    settings(&conn, options).context(what())?;
    if check_format(&conn, path)? {
        return Err(Error::Unknown {
            what: format!("store at {}: the file is empty", path.display()),
        });
    }
    Ok(conn)
}

fn settings(conn: &Connection, options: &Options) -> rusqlite::Result<()> {
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Rows are written in an order that keeps every reference; looking each one up again would double an append's cost.
    conn.pragma_update(None, "foreign_keys", false)?;
    // Damage is reported where it is met, not as wrong rows.
    conn.pragma_update(None, "cell_size_check", true)
}

fn write_ahead(conn: &Connection) -> rusqlite::Result<()> {
    // Changing the mode does not wait for others, so it is tried again.
    let mut tries = 0;
    loop {
        match conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
            Err(error) if is_busy(&error) && tries < WAL_TRIES_MAX => {
                tries += 1;
                std::thread::yield_now();
            }
            result => return result,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

/// True when the file is still empty.
fn check_format(conn: &Connection, path: &Path) -> Result<bool, Error> {
    if !conn.is_autocommit() {
        return format_of(conn, path);
    }
    // One view of the file: another process may be making its tables just now.
    let what = || format!("reading {}", path.display());
    conn.execute_batch("BEGIN").context(what())?;
    let found = format_of(conn, path);
    conn.execute_batch("ROLLBACK").context(what())?;
    found
}

fn format_of(conn: &Connection, path: &Path) -> Result<bool, Error> {
    let what = || format!("reading {}", path.display());
    let application: i32 = conn
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .context(what())?;
    let format: u32 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .context(what())?;
    let tables: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .context(what())?;
    match (application, format) {
        (APPLICATION, FORMAT) => Ok(false),
        (APPLICATION, found) if found > FORMAT => Err(Error::Newer {
            found,
            known: FORMAT,
        }),
        (0, 0) if tables == 0 => Ok(true),
        _ => Err(Error::Io {
            message: format!("{} is a database of another program", path.display()),
        }),
    }
}
