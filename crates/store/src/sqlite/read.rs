//! Reading logs: the rows of a run and of the prefixes it was forked from, each checked against the hash chain.

use ravel_core::event::Turn;
use ravel_core::port_store::{Chain, Error};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::blob::{self, Reader};
use super::commit::cached;
use super::error::ResultExt;
use super::{VALUE_BYTES_MAX, int, uint, unknown_run};
use crate::chain::{Link, Linker, START, hex};
use crate::text::decode_turn;

/// A stretch of a log that one run's rows hold.
struct Segment {
    key: i64,
    id: String,
    from: u64,
    upto: u64,
    base: Option<i64>,
}

/// A row of turns.
struct Rows {
    first: u64,
    last: u64,
    hash: Link,
    body: Vec<u8>,
}

fn rows(row: &Row<'_>) -> rusqlite::Result<Rows> {
    // The body is read as bytes: a damaged one may not be text any more.
    let body = row.get_ref(3)?.as_bytes().unwrap_or_default().to_vec();
    Ok(Rows {
        first: uint(row.get(0)?),
        last: uint(row.get(1)?),
        hash: row.get(2)?,
        body,
    })
}

fn segment(row: &Row<'_>) -> rusqlite::Result<Segment> {
    Ok(Segment {
        key: row.get(0)?,
        id: row.get(1)?,
        base: row.get(2)?,
        from: uint(row.get::<_, i64>(3)?).saturating_add(1),
        upto: uint(row.get(4)?),
    })
}

const SEGMENT: &str = "SELECT r.key, r.id, r.base, r.base_turn, h.last FROM run r JOIN head h ON h.run = r.key WHERE ";

/// The stretches of a run's log, oldest first.
fn segments(conn: &Connection, run: &str) -> Result<Vec<Segment>, Error> {
    let what = || format!("reading run {run}");
    let by_id = format!("{SEGMENT}r.id = ?");
    let own = cached(conn, &by_id)?
        .query_row([run], segment)
        .optional()
        .context(what())?;
    let own = own.ok_or_else(|| unknown_run(run))?;
    // A damaged number of the last turn must not hide turns: their effects would happen again.
    let newest: Option<i64> = cached(conn, "SELECT max(last) FROM turn WHERE run = ?")?
        .query_row([own.key], |row| row.get(0))
        .context(what())?;
    if newest.map(uint).is_some_and(|newest| newest > own.upto) {
        return Err(Error::Damaged {
            what: format!(
                "run {run} has more turns than the {} that are noted",
                own.upto
            ),
        });
    }
    let mut segments = vec![own];
    let by_key = format!("{SEGMENT}r.key = ?");
    while let Some(Segment {
        base: Some(base),
        from,
        ..
    }) = segments.last()
    {
        let upto = from - 1;
        let found = cached(conn, &by_key)?
            .query_row([base], segment)
            .optional()
            .context(what())?;
        let mut base = found.ok_or_else(|| Error::Damaged {
            what: format!(
                "run {run} has lost turns 1 to {upto}, which it took over from another run"
            ),
        })?;
        base.upto = upto;
        segments.push(base);
    }
    segments.reverse();
    Ok(segments)
}

/// Goes through the turns of a run in order, to `upto` at most, checking order and hashes; `each` gets every turn's
/// number and line. Rows after the last turn that is asked for are not looked at.
pub(super) fn walk(
    conn: &Connection,
    run: &str,
    upto: u64,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), Error>,
) -> Result<Chain, Error> {
    let mut linker = Linker::default();
    let (mut head, mut expected, mut bytes) = (START, 1, 0);
    for mut segment in segments(conn, run)? {
        segment.upto = segment.upto.min(upto);
        let what = || format!("reading turn {expected} of run {run} and later ones");
        let mut statement = cached(
            conn,
            "SELECT first, last, hash, body FROM turn WHERE run = ? AND last >= ? ORDER BY last",
        )?;
        let mut found = statement
            .query(params![segment.key, int(segment.from)])
            .context(what())?;
        while expected <= segment.upto {
            let what = format!("reading turn {expected} of run {run} and later ones");
            let Some(row) = found.next().context(&what)? else {
                break;
            };
            let row = rows(row).context(&what)?;
            if row.first != expected {
                return Err(lost(&segment, run, expected, row.first.saturating_sub(1)));
            }
            let mut link = head;
            for (turn, line) in (row.first..).zip(row.body.split(|byte| *byte == b'\n')) {
                link = linker.next(&link, line);
                if turn <= segment.upto {
                    head = link;
                }
            }
            if link != row.hash {
                let (first, last) = (row.first, row.last);
                return Err(Error::Damaged {
                    what: format!("turns {first} to {last} of run {run} are not what was written"),
                });
            }
            for (turn, line) in
                (row.first..=row.last.min(segment.upto)).zip(row.body.split(|byte| *byte == b'\n'))
            {
                bytes += line.len() as u64;
                each(turn, line)?;
            }
            expected = row.last.min(segment.upto) + 1;
        }
        if expected <= segment.upto {
            return Err(lost(&segment, run, expected, segment.upto));
        }
    }
    Ok(Chain {
        turns: expected - 1,
        head: hex(&head),
        bytes,
    })
}

fn lost(segment: &Segment, run: &str, first: u64, last: u64) -> Error {
    let through = if segment.id == run {
        String::new()
    } else {
        format!(" (taken over from run {})", segment.id)
    };
    Error::Damaged {
        what: format!("turns {first} to {last} of run {run}{through} are missing"),
    }
}

/// The turns of a run, to `upto` at most.
pub(super) fn load(conn: &Connection, run: &str, upto: u64) -> Result<Vec<Turn>, Error> {
    let mut turns = Vec::new();
    let mut reader = Reader { conn };
    walk(conn, run, upto, |number, line| {
        let turn = decode_turn(line, &mut reader).map_err(|error| in_turn(error, number, run))?;
        turns.push(turn);
        Ok(())
    })?;
    Ok(turns)
}

fn in_turn(error: Error, number: u64, run: &str) -> Error {
    match error {
        Error::Damaged { what } => Error::Damaged {
            what: format!("turn {number} of run {run}: {what}"),
        },
        other => other,
    }
}

/// Checks turns and values of a run.
pub(super) fn verify(conn: &Connection, run: &str) -> Result<Chain, Error> {
    let chain = walk(conn, run, u64::MAX, |_, _| Ok(()))?;
    for segment in segments(conn, run)? {
        blob::check_all(conn, segment.key).map_err(|error| match error {
            Error::Damaged { what } => Error::Damaged {
                what: format!("run {run}: {what}"),
            },
            other => other,
        })?;
    }
    Ok(chain)
}

/// Checks that every turn of a run can be read with its values, one after the other.
pub(super) fn legible(conn: &Connection, run: &str) -> Result<(), Error> {
    let mut reader = Reader { conn };
    walk(conn, run, u64::MAX, |number, line| {
        let turn = decode_turn(line, &mut reader);
        turn.map(drop).map_err(|error| in_turn(error, number, run))
    })
    .map(drop)
}

/// Checks that the graph of a run is there: without it the turns say nothing.
pub(super) fn flow_of(conn: &Connection, run: &str) -> Result<(), Error> {
    let graph: String = cached(conn, "SELECT graph FROM run WHERE id = ?")?
        .query_row([run], |row| row.get(0))
        .context(format_args!("reading run {run}"))?;
    match bundle(conn, &graph) {
        Ok(_) => Ok(()),
        Err(Error::Unknown { .. } | Error::Damaged { .. }) => Err(Error::Damaged {
            what: format!("the flow of run {run} is lost: its bundle is {graph}"),
        }),
        Err(error) => Err(error),
    }
}

/// The hash after a run's last turn.
pub(super) fn hash_at_end(
    conn: &Connection,
    run: &str,
    key: i64,
    last: u64,
) -> Result<Link, Error> {
    let found = cached(conn, "SELECT hash FROM turn WHERE run = ? AND last = ?")?
        .query_row(params![key, int(last)], |row| row.get(0))
        .optional()
        .context(format_args!("reading turn {last} of run {run}"))?;
    found.ok_or_else(|| Error::Damaged {
        what: format!("turn {last} of run {run} is missing"),
    })
}

/// Where a fork leaves its base: the run that holds the turn, and the hash after it.
pub(super) struct ForkPoint {
    pub(super) base: i64,
    pub(super) turn: u64,
    pub(super) hash: Link,
}

/// Finds the row that holds a turn of a run, which may itself be a fork. Reads a row a generation, and one more.
pub(super) fn fork_point(
    conn: &Connection,
    linker: &mut Linker,
    run: &str,
    turn: u64,
) -> Result<ForkPoint, Error> {
    let what = || format!("reading turn {turn} of run {run}");
    let sql = "SELECT r.key, r.base, r.base_turn, r.seed, h.last FROM run r JOIN head h ON h.run = r.key WHERE r.id = ?";
    type Found = (i64, Option<i64>, i64, Link, i64);
    let read = |row: &Row<'_>| {
        Ok::<Found, _>((
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
        ))
    };
    let found = cached(conn, sql)?
        .query_row([run], read)
        .optional()
        .context(what())?;
    let (mut key, mut base, mut base_turn, mut seed, last) =
        found.ok_or_else(|| unknown_run(run))?;
    if int(turn) > last {
        return Err(Error::Gap {
            run: run.into(),
            expected: uint(last),
            got: turn,
        });
    }
    while let Some(older) = base
        && int(turn) <= base_turn
    {
        let sql = "SELECT key, base, base_turn, seed, 0 FROM run WHERE key = ?";
        (key, base, base_turn, seed, _) = cached(conn, sql)?
            .query_row([older], read)
            .context(what())?;
    }
    if int(turn) == base_turn {
        return Ok(ForkPoint {
            base: key,
            turn,
            hash: seed,
        });
    }
    let sql = "SELECT first, last, hash, body FROM turn WHERE run = ? AND last >= ? ORDER BY last LIMIT 1";
    let row = cached(conn, sql)?
        .query_row(params![key, int(turn)], rows)
        .optional()
        .context(what())?;
    let row = row
        .filter(|row| row.first <= turn)
        .ok_or_else(|| Error::Damaged {
            what: format!("turn {turn} of run {run} is missing"),
        })?;
    if row.last == turn {
        return Ok(ForkPoint {
            base: key,
            turn,
            hash: row.hash,
        });
    }
    let sql = "SELECT hash FROM turn WHERE run = ? AND last < ? ORDER BY last DESC LIMIT 1";
    let before: Option<Link> = cached(conn, sql)?
        .query_row(params![key, int(row.first)], |row| row.get(0))
        .optional()
        .context(what())?;
    let count = usize::try_from(turn - row.first + 1).unwrap_or(usize::MAX);
    let lines = row.body.split(|byte| *byte == b'\n').take(count);
    let hash = lines.fold(before.unwrap_or(seed), |link, line| {
        linker.next(&link, line)
    });
    Ok(ForkPoint {
        base: key,
        turn,
        hash,
    })
}

/// A bundle's text, checked.
pub(super) fn bundle(conn: &Connection, hash: &str) -> Result<String, Error> {
    let what = || format!("reading bundle {hash}");
    let damaged = || Error::Damaged {
        what: format!("bundle {hash} does not have the bytes that were written"),
    };
    let found: Option<(i64, Link, Vec<u8>)> = cached(
        conn,
        "SELECT bytes, digest, json FROM bundle WHERE hash = ?",
    )?
    .query_row([hash], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    .optional()
    .context(what())?;
    let (bytes, digest, packed) = found.ok_or_else(|| Error::Unknown {
        what: format!("bundle {hash}"),
    })?;
    let text = usize::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes <= VALUE_BYTES_MAX)
        .and_then(|bytes| zstd::bulk::decompress(&packed, bytes).ok())
        .filter(|text| *blake3::hash(text).as_bytes() == digest)
        .ok_or_else(damaged)?;
    String::from_utf8(text).map_err(|_| damaged())
}
