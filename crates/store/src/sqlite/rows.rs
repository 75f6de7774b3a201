//! Rows beside the turns: what is listed, graphs, questions, replies.

use ravel_core::event::Topic;
use ravel_core::port::{Question, RunState, Summary};
use ravel_core::port_store::{Error, Reply};
use rusqlite::{Connection, OptionalExtension, params};

use super::commit::cached;
use super::error::ResultExt;
use super::tools::Known;
use super::{int, size};

/// Compression of bundles: they are written once and read at every resume.
const ZSTD_LEVEL: i32 = 3;
/// Characters of a taken message that are kept for people.
const MESSAGE_BYTES_KEPT: i64 = 16 * 1024;

/// Keeps a graph's bundle, unless it is there.
pub(super) fn insert_bundle(conn: &Connection, hash: &str, text: &str) -> Result<(), Error> {
    let what = "keeping a graph";
    if cached(conn, "SELECT 1 FROM bundle WHERE hash = ?")?
        .exists([hash])
        .context(what)?
    {
        return Ok(());
    }
    let packed = zstd::bulk::compress(text.as_bytes(), ZSTD_LEVEL).map_err(|error| Error::Io {
        message: format!("{what}: {error}"),
    })?;
    let digest = *blake3::hash(text.as_bytes()).as_bytes();
    let sql = "INSERT INTO bundle(hash, bytes, digest, json) VALUES (?, ?, ?, ?)";
    cached(conn, sql)?
        .execute(params![hash, size(text.len()), digest.as_slice(), packed])
        .context(what)?;
    Ok(())
}

/// Takes a start key for a run.
pub(super) fn insert_start_key(conn: &Connection, key: &str, run: &str) -> Result<(), Error> {
    let what = "noting a start key";
    let taken: Option<String> = cached(conn, "SELECT run FROM start_key WHERE key = ?")?
        .query_row([key], |row| row.get(0))
        .optional()
        .context(what)?;
    if let Some(run) = taken {
        return Err(Error::Exists { run: run.into() });
    }
    cached(conn, "INSERT INTO start_key(key, run) VALUES (?, ?)")?
        .execute([key, run])
        .context(what)?;
    Ok(())
}

/// Notes a question, or replaces it.
pub(super) fn ask(conn: &Connection, run: i64, question: &Question) -> Result<(), Error> {
    let sql = "INSERT INTO question(id, run, path, topic, ask, form, \"to\", asked, until)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET run = excluded.run, path = excluded.path,
        topic = excluded.topic, ask = excluded.ask, form = excluded.form, \"to\" = excluded.\"to\",
        asked = excluded.asked, until = excluded.until";
    cached(conn, sql)?
        .execute(params![
            &*question.id,
            run,
            &*question.path,
            topic_name(&question.topic),
            &*question.ask,
            json(&question.form)?,
            question.to.as_deref(),
            int(question.asked),
            question.until.map(int),
        ])
        .context("noting a question")?;
    Ok(())
}

/// The stored word of a topic.
pub(super) const fn topic_name(topic: &Topic) -> &'static str {
    match topic {
        Topic::Human => "human",
        Topic::Uncertain => "uncertain",
        Topic::Compensation => "compensation",
    }
}

/// Marks messages as taken. The first reply stays; a big message is in the log now and not kept twice.
pub(super) fn settle(conn: &Connection, taken: &[(i64, Reply)]) -> Result<(), Error> {
    for (id, reply) in taken {
        let sql = "UPDATE inbox SET reply = ?1, message = CASE WHEN length(message) > ?2 THEN NULL ELSE message END
            WHERE key = ?3 AND reply IS NULL";
        cached(conn, sql)?
            .execute(params![json(reply)?, MESSAGE_BYTES_KEPT, id])
            .context("settling a message")?;
    }
    Ok(())
}

/// A small value as JSON.
pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Io {
        message: format!("a value cannot be written as JSON: {error}"),
    };
    let mut text = Vec::new();
    crate::text::json::write(&mut text, value).map_err(|error| failed(&error))?;
    String::from_utf8(text).map_err(|error| failed(&error))
}

/// Writes all that is listed, with what the indexes are made of.
pub(super) fn put_head(
    conn: &Connection,
    known: &Known,
    summary: &Summary,
    waits: Option<&str>,
) -> Result<(), Error> {
    let usage = &summary.usage;
    // Indexed, so it changes only while somebody may look for it: a running run is found by its phase.
    let due = summary
        .wake_at
        .filter(|_| summary.state == RunState::Waiting)
        .map(int);
    let owner = known.owner_key.filter(|_| !summary.state.is_final());
    let sql = "INSERT INTO head(run, last, state, phase, due, updated, wake_at, input_tokens, cached_tokens, output_tokens,
        cost_microusd, waits, epoch, owner) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
        ON CONFLICT(run) DO UPDATE SET last = ?2, state = ?3, phase = ?4, due = ?5, updated = ?6, wake_at = ?7,
        input_tokens = ?8, cached_tokens = ?9, output_tokens = ?10, cost_microusd = ?11, waits = ?12, owner = ?14";
    cached(conn, sql)?
        .execute((
            known.key,
            int(known.last),
            summary.state.name(),
            phase(summary.state),
            due,
            int(summary.updated),
            summary.wake_at.map(int),
            int(usage.input_tokens),
            int(usage.cached_tokens),
            int(usage.output_tokens),
            int(usage.cost_microusd),
            waits,
            int(known.owner.as_ref().map_or(0, |owner| owner.epoch)),
            owner,
        ))
        .context("updating a run")?;
    Ok(())
}

/// The stored phase of a state: what the indexes tell apart. 0: over, 1: something is under way, 2: it waits.
const fn phase(state: RunState) -> i64 {
    match state {
        RunState::Running | RunState::Cancelling | RunState::Compensating => 1,
        RunState::Waiting => 2,
        RunState::Succeeded | RunState::Failed | RunState::Cancelled => 0,
    }
}
