//! What was found, told apart by its shape and put into a new store: turns beside it, until they have proved themselves.

use ravel_core::port_store::Error;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::super::commit::cached;
use super::super::error::ResultExt;
use super::pages::{Pages, Record};

/// A table of the layout: its columns after the key, and their shape, a letter each: **i**nteger, **t**ext, **h**ash,
/// **b**ytes; a capital may be null.
struct Shape {
    table: &'static str,
    key: &'static str,
    columns: &'static str,
    shape: &'static str,
}

const SHAPES: [Shape; 7] = [
    Shape {
        table: "run",
        key: "key",
        columns: "id, flow, graph, created, start_key, forked_from, forked_at, base, base_turn, seed",
        shape: "tttiTTIIih",
    },
    Shape {
        table: "head",
        key: "run",
        columns: "last, state, phase, due, updated, wake_at, input_tokens, cached_tokens, output_tokens, cost_microusd, \
                  epoch, owner, waits",
        shape: "itiIiIiiiiiIT",
    },
    Shape {
        table: "detail",
        key: "run",
        columns: "output, error, uncompensated",
        shape: "TTT",
    },
    Shape {
        table: "blob",
        key: "key",
        columns: "hash, bytes, packed, base, prefix, suffix, anchor, step, depth, body",
        shape: "hiiIiiIiib",
    },
    Shape {
        table: "bundle",
        key: "key",
        columns: "hash, bytes, digest, json",
        shape: "tihb",
    },
    Shape {
        table: "question",
        key: "key",
        columns: "id, run, path, topic, ask, form, \"to\", asked, until",
        shape: "titttt TiI",
    },
    Shape {
        table: "inbox",
        key: "key",
        columns: "run, at, message, reply",
        shape: "iiTT",
    },
];

/// Turns: kept apart. `rank` 0 is the newest version of a page, 1 an older one.
const TURN: &str = "iiiht";
const STAGE: &str = "CREATE TEMP TABLE found(
    run INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, hash BLOB NOT NULL, body TEXT NOT NULL,
    rank INTEGER NOT NULL, UNIQUE(run, first, last, hash));";

fn fits(shape: &str, columns: &[Value]) -> bool {
    let mut letters = shape.bytes().filter(|letter| *letter != b' ');
    let all = columns.iter().all(|column| match letters.next() {
        Some(letter) => match column {
            Value::Null => letter.is_ascii_uppercase(),
            Value::Integer(_) => letter.eq_ignore_ascii_case(&b'i'),
            Value::Text(_) => letter.eq_ignore_ascii_case(&b't'),
            Value::Blob(bytes) => letter == b'b' || (letter == b'h' && bytes.len() == 32),
            Value::Real(_) => false,
        },
        None => false,
    });
    all && letters.next().is_none()
}

/// Puts all that can be read into a new store: rows into their tables, turns into the temporary table `found`.
pub(super) fn collect(conn: &Connection, pages: &Pages) -> Result<(), Error> {
    conn.execute_batch(STAGE).context("making room for turns")?;
    for number in 1..=pages.count() {
        for record in pages.records(number) {
            take(conn, record)?;
        }
    }
    let mut failed = None;
    pages.old_records(|record| {
        if failed.is_none()
            && let [Value::Null, columns @ ..] = record.columns.as_slice()
        {
            failed = turn(conn, columns, 1).err();
        }
    });
    failed.map_or(Ok(()), Err)
}

fn take(conn: &Connection, record: Record) -> Result<(), Error> {
    if let [Value::Text(_), Value::Text(_)] = record.columns.as_slice() {
        let sql = "INSERT INTO start_key(key, run) VALUES (?, ?) ON CONFLICT DO NOTHING";
        return insert(conn, sql, record.columns);
    }
    let [Value::Null, columns @ ..] = record.columns.as_slice() else {
        return Ok(());
    };
    turn(conn, columns, 0)?;
    let Some(shape) = SHAPES.iter().find(|shape| fits(shape.shape, columns)) else {
        return Ok(());
    };
    let marks = ", ?".repeat(columns.len());
    let sql = format!(
        "INSERT INTO {}({}, {}) VALUES (?{marks}) ON CONFLICT DO NOTHING",
        shape.table, shape.key, shape.columns
    );
    let mut values = record.columns;
    values[0] = Value::Integer(record.key);
    insert(conn, &sql, values)
}

fn turn(conn: &Connection, columns: &[Value], rank: i64) -> Result<(), Error> {
    if !fits(TURN, columns) {
        return Ok(());
    }
    let sql = "INSERT INTO found(run, first, last, hash, body, rank) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
    let mut values = columns.to_vec();
    values.push(Value::Integer(rank));
    insert(conn, sql, values)
}

fn insert(conn: &Connection, sql: &str, values: Vec<Value>) -> Result<(), Error> {
    cached(conn, sql)?
        .execute(params_from_iter(values))
        .context("keeping what was found")?;
    Ok(())
}
