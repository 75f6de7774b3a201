//! Retention: removes what is over, in one transaction, so a claim or a fork at the same time wins or loses whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::port_store::{Collected, Error};
use rusqlite::{Connection, OptionalExtension, params};

use super::commit::cached;
use super::error::ResultExt;
use super::owner::Living;
use super::{Sqlite, int, size, uint};

const WHAT: &str = "removing old runs";

pub(super) fn collect(
    store: &Sqlite,
    before: Millis,
    keep_newest: usize,
    dry_run: bool,
) -> Result<Collected, Error> {
    store.write(|writer| {
        let collected = writer.transaction(WHAT, |conn, _| {
            let mut collected = Collected::default();
            let mut due = due(store, conn, before, keep_newest)?;
            for key in pinned(conn, &due)? {
                collected.pinned.extend(due.remove(&key));
            }
            // A dry run counts by doing it and undoing it: the count cannot differ from the deed.
            conn.execute_batch("SAVEPOINT removal").context(WHAT)?;
            (collected.blobs, collected.bytes) = remove(conn, due.keys().copied())?;
            collected.runs = due.into_values().collect();
            if dry_run {
                conn.execute_batch("ROLLBACK TO removal").context(WHAT)?;
            } else {
                forget_owners(store, conn)?;
            }
            Ok(collected)
        });
        writer.forget();
        collected
    })
}

/// Runs that are over, old enough, owned by nobody alive, and not among the newest; by key.
fn due(
    store: &Sqlite,
    conn: &Connection,
    before: Millis,
    keep_newest: usize,
) -> Result<BTreeMap<i64, Arc<str>>, Error> {
    let sql = "SELECT r.key, r.id, o.token, h.updated FROM head h JOIN run r ON r.key = h.run
        LEFT JOIN owner o ON o.key = h.owner WHERE h.phase = 0
        ORDER BY r.created DESC, r.key DESC LIMIT -1 OFFSET ?";
    let mut living = Living::new(store);
    let mut due = BTreeMap::new();
    let mut statement = cached(conn, sql)?;
    let mut found = statement.query([size(keep_newest)]).context(WHAT)?;
    while let Some(row) = found.next().context(WHAT)? {
        let updated: i64 = row.get(3).context(WHAT)?;
        let owner: Option<Arc<str>> = row.get(2).context(WHAT)?;
        if updated < int(before) && living.is_free(owner.as_ref())? {
            due.insert(row.get(0).context(WHAT)?, row.get(1).context(WHAT)?);
        }
    }
    Ok(due)
}

/// Which of the due runs hold a prefix of a run that stays.
fn pinned(conn: &Connection, due: &BTreeMap<i64, Arc<str>>) -> Result<BTreeSet<i64>, Error> {
    let bases: BTreeMap<i64, i64> =
        cached(conn, "SELECT key, base FROM run WHERE base IS NOT NULL")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .context(WHAT)?
            .collect::<rusqlite::Result<_>>()
            .context(WHAT)?;
    let mut pinned = BTreeSet::new();
    for run in bases.keys().filter(|run| !due.contains_key(run)) {
        let mut base = bases.get(run);
        while let Some(key) = base {
            if due.contains_key(key) && !pinned.insert(*key) {
                break;
            }
            base = bases.get(key);
        }
    }
    Ok(pinned)
}

/// Removes runs with everything that only they refer to. Gives the number of blobs and the bytes of payload.
fn remove(
    conn: &Connection,
    runs: impl DoubleEndedIterator<Item = i64>,
) -> Result<(u64, u64), Error> {
    let mut bytes = 0;
    let mut blobs: BTreeSet<i64> = BTreeSet::new();
    let mut graphs: BTreeSet<String> = BTreeSet::new();
    // Forks first: they refer to their bases.
    for run in runs.rev() {
        let turns: i64 = cached(
            conn,
            "SELECT coalesce(sum(octet_length(body)), 0) FROM turn WHERE run = ?",
        )?
        .query_row([run], |row| row.get(0))
        .context(WHAT)?;
        bytes += uint(turns);
        blobs.extend(column::<i64>(
            conn,
            "SELECT blob FROM blob_ref WHERE run = ?",
            run,
        )?);
        graphs.extend(column::<String>(
            conn,
            "SELECT bundle FROM bundle_ref WHERE run = ?",
            run,
        )?);
        graphs.extend(column::<String>(
            conn,
            "SELECT graph FROM run WHERE key = ?",
            run,
        )?);
        for table in [
            "turn",
            "detail",
            "blob_ref",
            "bundle_ref",
            "question",
            "inbox",
            "head",
        ] {
            cached(conn, &format!("DELETE FROM {table} WHERE run = ?"))?
                .execute([run])
                .context(WHAT)?;
        }
        cached(conn, "DELETE FROM run WHERE key = ?")?
            .execute([run])
            .context(WHAT)?;
    }
    for graph in graphs {
        // An edit that waits in an inbox will need its graph.
        let sql = "DELETE FROM bundle WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM bundle_ref WHERE bundle = ?1)
            AND NOT EXISTS (SELECT 1 FROM run WHERE graph = ?1) AND NOT EXISTS (
                SELECT 1 FROM inbox WHERE reply IS NULL AND json_extract(message, '$.graph') = ?1)";
        cached(conn, sql)?.execute([graph]).context(WHAT)?;
    }
    let (count, blob_bytes) = remove_blobs(conn, blobs)?;
    Ok((count, bytes + blob_bytes))
}

/// Removes blobs that no run refers to and no other blob is built on.
fn remove_blobs(conn: &Connection, mut blobs: BTreeSet<i64>) -> Result<(u64, u64), Error> {
    let (mut count, mut bytes) = (0, 0);
    // Newest first, because a blob is always newer than the one that it is built on.
    while let Some(blob) = blobs.pop_last() {
        let sql = "SELECT base, octet_length(body) FROM blob WHERE key = ?1
            AND NOT EXISTS (SELECT 1 FROM blob_ref WHERE blob = ?1) AND NOT EXISTS (
                SELECT 1 FROM blob WHERE base = ?1)";
        let free: Option<(Option<i64>, i64)> = cached(conn, sql)?
            .query_row([blob], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .context(WHAT)?;
        let Some((base, length)) = free else { continue };
        cached(conn, "DELETE FROM blob WHERE key = ?")?
            .execute([blob])
            .context(WHAT)?;
        blobs.extend(base);
        count += 1;
        bytes += uint(length);
    }
    Ok((count, bytes))
}

/// Removes the rows and files of processes that are gone and own nothing.
fn forget_owners(store: &Sqlite, conn: &Connection) -> Result<(), Error> {
    let sql = "SELECT key, token FROM owner o WHERE NOT EXISTS (SELECT 1 FROM head h WHERE h.owner = o.key)";
    let idle: Vec<(i64, Arc<str>)> = cached(conn, sql)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .context(WHAT)?
        .collect::<rusqlite::Result<_>>()
        .context(WHAT)?;
    for (key, token) in idle {
        if !store.owners.is_alive(&token)? {
            cached(conn, "DELETE FROM owner WHERE key = ?")?
                .execute([key])
                .context(WHAT)?;
            store.owners.forget(&token);
        }
    }
    Ok(())
}

fn column<T: rusqlite::types::FromSql>(
    conn: &Connection,
    sql: &str,
    run: i64,
) -> Result<Vec<T>, Error> {
    cached(conn, sql)?
        .query_map(params![run], |row| row.get(0))
        .context(WHAT)?
        .collect::<rusqlite::Result<_>>()
        .context(WHAT)
}
