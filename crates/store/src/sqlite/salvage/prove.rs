//! What of each run proves itself.

use std::sync::Arc;

use ravel_core::port_store::Error;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::blob::Reader;
use super::super::commit::cached;
use super::super::error::ResultExt;
use super::super::{int, read, uint};
use super::{Cut, Repair};
use crate::chain::{Link, Linker};
use crate::rules::graphs;
use crate::text::{Blobs, decode_turn, decode_value};

/// A run as it was found.
struct Found {
    key: i64,
    id: String,
    flow: String,
    graph: String,
    base_turn: u64,
    seed: Link,
    /// Last turn and state, when that row was found.
    head: Option<(u64, String)>,
}

/// Takes in, run by run, the turns that prove themselves, and says what is lost.
pub(super) fn runs(conn: &Connection) -> Result<Repair, Error> {
    let mut repair = Repair::default();
    for run in &found(conn)? {
        let last = chain(conn, run)?;
        heads(conn, run, last)?;
        keys(conn, run)?;
    }
    let what = "looking for what is lost";
    repair.nameless_turns = conn
        .query_row(
            "SELECT coalesce(sum(last - first + 1), 0) FROM found WHERE rank = 0 AND run NOT IN (SELECT key FROM run)",
            [],
            |row| row.get(0).map(uint),
        )
        .context(what)?;
    conn.execute_batch(
        "DROP TABLE temp.found;
         DELETE FROM head WHERE run NOT IN (SELECT key FROM run);
         DELETE FROM detail WHERE run NOT IN (SELECT key FROM run);
         DELETE FROM question WHERE run NOT IN (SELECT key FROM run);
         DELETE FROM inbox WHERE run NOT IN (SELECT key FROM run);",
    )
    .context(what)?;
    for run in &found(conn)? {
        match judge(conn, run)? {
            None => repair.whole += 1,
            Some(cut) => {
                // Nobody can take an answer in.
                cached(conn, "DELETE FROM question WHERE run = ?")?
                    .execute([run.key])
                    .context(what)?;
                repair.cut.push(cut);
            }
        }
    }
    Ok(repair)
}

/// The same of a store that was repaired.
pub(super) fn told(conn: &Connection) -> Result<Repair, Error> {
    let mut repair = Repair::default();
    for run in &found(conn)? {
        match look(conn, run)? {
            None => repair.whole += 1,
            Some(cut) => repair.cut.push(cut),
        }
    }
    Ok(repair)
}

fn found(conn: &Connection) -> Result<Vec<Found>, Error> {
    let what = "reading the runs that were found";
    // A fork comes after the run that it continues.
    let sql = "SELECT r.key, r.id, r.flow, r.graph, r.base_turn, r.seed, h.last, h.state
        FROM run r LEFT JOIN head h ON h.run = r.key ORDER BY r.key";
    cached(conn, sql)?
        .query_map([], |row| {
            let last: Option<i64> = row.get(6)?;
            let state: Option<String> = row.get(7)?;
            Ok(Found {
                key: row.get(0)?,
                id: row.get(1)?,
                flow: row.get(2)?,
                graph: row.get(3)?,
                base_turn: uint(row.get(4)?),
                seed: row.get(5)?,
                head: last.map(uint).zip(state),
            })
        })
        .context(what)?
        .collect::<rusqlite::Result<_>>()
        .context(what)
}

/// Takes in the turns of a run that follow each other in the hash chain. Gives the last one.
fn chain(conn: &Connection, run: &Found) -> Result<u64, Error> {
    let what = || format!("keeping turns of run {}", run.id);
    let mut linker = Linker::default();
    let (mut link, mut last) = (run.seed, run.base_turn);
    loop {
        type Rows = (i64, Link, String);
        let sql =
            "SELECT last, hash, body FROM found WHERE run = ? AND first = ? ORDER BY rank, rowid";
        let candidates: Vec<Rows> = cached(conn, sql)?
            .query_map(params![run.key, int(last + 1)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .context(what())?
            .collect::<rusqlite::Result<_>>()
            .context(what())?;
        let proved = candidates.into_iter().find(|(until, hash, body)| {
            let lines = body.split('\n');
            let count = int(last).saturating_add(i64::try_from(lines.clone().count()).unwrap_or(0));
            let end = lines.fold(link, |link, line| linker.next(&link, line.as_bytes()));
            end == *hash && count == *until
        });
        let Some((until, hash, body)) = proved else {
            return Ok(last);
        };
        let sql = "INSERT INTO turn(run, first, last, hash, body) VALUES (?, ?, ?, ?, ?)";
        cached(conn, sql)?
            .execute(params![
                run.key,
                int(last + 1),
                until,
                hash.as_slice(),
                body
            ])
            .context(what())?;
        (link, last) = (hash, uint(until));
    }
}

/// What is listed of a run: nobody owns it, and it has as many turns as it had, whether they were found or not.
fn heads(conn: &Connection, run: &Found, last: u64) -> Result<(), Error> {
    let what = || format!("keeping what is listed of run {}", run.id);
    let sql = "SELECT coalesce(max(last), 0) FROM found WHERE run = ? AND rank = 0";
    let seen: i64 = cached(conn, sql)?
        .query_row([run.key], |row| row.get(0))
        .context(what())?;
    let had = match &run.head {
        Some((head, _)) if *head >= last => *head,
        // It is older than the turns, or gone: there may have been more than anybody knows of.
        Some(_) | None => (last + 1).max(uint(seen)),
    };
    let sql = "INSERT INTO head(run, last, state, phase, updated, input_tokens, cached_tokens, output_tokens,
          cost_microusd, epoch) VALUES (?1, ?2, 'running', 1, 0, 0, 0, 0, 0, 1)
        ON CONFLICT(run) DO UPDATE SET last = ?2, owner = NULL";
    cached(conn, sql)?
        .execute(params![run.key, int(had)])
        .context(what())?;
    Ok(())
}

fn keys(conn: &Connection, run: &Found) -> Result<(), Error> {
    let sql = "INSERT INTO start_key(key, run) SELECT start_key, id FROM run WHERE key = ? AND start_key IS NOT NULL
        ON CONFLICT DO NOTHING";
    cached(conn, sql)?
        .execute([run.key])
        .context("keeping start keys")?;
    Ok(())
}

/// Notes the values and graphs that a run refers to, and says what is lost of it.
fn judge(conn: &Connection, run: &Found) -> Result<Option<Cut>, Error> {
    let mut values = References {
        conn,
        run: run.key,
        reader: Reader { conn },
    };
    let walked = read::walk(conn, &run.id, u64::MAX, |number, line| {
        if number <= run.base_turn {
            return Ok(());
        }
        let turn = decode_turn(line, &mut values)?;
        let other = graphs(std::slice::from_ref(&turn)).filter(|graph| **graph != *run.graph);
        for graph in other {
            let sql = "INSERT INTO bundle_ref(run, bundle) VALUES (?, ?) ON CONFLICT DO NOTHING";
            cached(conn, sql)?
                .execute(params![run.key, &*graph])
                .context("noting a graph")?;
        }
        Ok(())
    });
    match walked {
        Ok(_) | Err(Error::Damaged { .. }) => {}
        Err(error) => return Err(error),
    }
    details(conn, run, &mut values)?;
    look(conn, run)
}

/// A result that refers to a value which is lost is not listed; it is in the log, if anywhere.
fn details(conn: &Connection, run: &Found, values: &mut References<'_>) -> Result<(), Error> {
    let what = "keeping how runs ended";
    type Texts = (Option<String>, Option<String>);
    let found: Option<Texts> = cached(conn, "SELECT output, error FROM detail WHERE run = ?")?
        .query_row([run.key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .context(what)?;
    let (output, error) = found.unwrap_or_default();
    let texts = [output, error];
    let mut all = texts.iter().flatten();
    if all.any(|text| decode_value(text.as_bytes(), values).is_err()) {
        cached(conn, "DELETE FROM detail WHERE run = ?")?
            .execute([run.key])
            .context(what)?;
    }
    Ok(())
}

/// What is lost of a run.
fn look(conn: &Connection, run: &Found) -> Result<Option<Cut>, Error> {
    let mut kept = 0;
    let mut reader = Reader { conn };
    let walked = read::walk(conn, &run.id, u64::MAX, |number, line| {
        decode_turn(line, &mut reader)?;
        kept = number;
        Ok(())
    });
    let lost = match walked.and_then(|_| read::flow_of(conn, &run.id)) {
        Ok(()) => return Ok(None),
        Err(Error::Damaged { what }) => what,
        Err(error) => return Err(error),
    };
    let (had, state) = run.head.clone().unzip();
    Ok(Some(Cut {
        run: run.id.clone(),
        flow: run.flow.clone(),
        state: state.unwrap_or_else(|| "running".to_owned()),
        kept,
        had: had.filter(|had| *had >= kept),
        lost,
    }))
}

/// Reads values, and notes that a run refers to them.
struct References<'c> {
    conn: &'c Connection,
    run: i64,
    reader: Reader<'c>,
}

impl Blobs for References<'_> {
    fn json(&mut self, hash: &str) -> Result<Arc<[u8]>, Error> {
        let json = self.reader.json(hash)?;
        let sql = "INSERT INTO blob_ref(run, blob) SELECT ?, key FROM blob WHERE hash = ? ON CONFLICT DO NOTHING";
        cached(self.conn, sql)?
            .execute(params![self.run, blake3::hash(&json).as_bytes().as_slice()])
            .context("noting a value")?;
        Ok(json)
    }
}
