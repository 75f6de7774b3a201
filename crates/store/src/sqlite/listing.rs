//! Lists: runs, questions, start keys.

use std::sync::Arc;

use ravel_core::effect::{Millis, Usage};
use ravel_core::event::Topic;
use ravel_core::port::{Question, RunState, Summary};
use ravel_core::port_store::{Collected, Error, Filter, Listing};
use ravel_core::value::Val;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use super::blob::Reader;
use super::commit::cached;
use super::error::ResultExt;
use super::rows::topic_name;
use super::{Sqlite, collect, int, size, uint};
use crate::text::decode_value;

const TOPICS: [Topic; 3] = [Topic::Human, Topic::Uncertain, Topic::Compensation];

impl Listing for Sqlite {
    fn runs(&self, filter: &Filter) -> Result<Vec<Summary>, Error> {
        self.read(|conn| runs(conn, filter))
    }

    fn questions(&self, run: Option<&str>) -> Result<Vec<Question>, Error> {
        self.read(|conn| questions(conn, run))
    }

    fn by_start_key(&self, key: &str) -> Result<Option<Arc<str>>, Error> {
        self.read(|conn| {
            cached(conn, "SELECT run FROM start_key WHERE key = ?")?
                .query_row([key], |row| row.get(0))
                .optional()
                .context("reading a start key")
        })
    }

    fn collect(
        &self,
        before: Millis,
        keep_newest: usize,
        dry_run: bool,
    ) -> Result<Collected, Error> {
        collect::collect(self, before, keep_newest, dry_run)
    }
}

/// Runs that pass a filter, newest first.
pub(super) fn runs(conn: &Connection, filter: &Filter) -> Result<Vec<Summary>, Error> {
    let what = "listing runs";
    let mut sql = String::from(
        "SELECT r.id, r.flow, r.graph, h.state, r.created, h.updated, h.wake_at, h.input_tokens, h.cached_tokens,
         h.output_tokens, h.cost_microusd, r.start_key, r.forked_from, r.forked_at, h.waits, d.output, d.error,
         d.uncompensated FROM run r JOIN head h ON h.run = r.key LEFT JOIN detail d ON d.run = r.key WHERE 1",
    );
    let mut values: Vec<Value> = Vec::new();
    if !filter.states.is_empty() {
        let marks = vec!["?"; filter.states.len()].join(", ");
        sql.push_str(&format!(" AND h.state IN ({marks})"));
        values.extend(
            filter
                .states
                .iter()
                .map(|state| Value::Text(state.name().into())),
        );
    }
    if let Some(flow) = &filter.flow {
        sql.push_str(" AND r.flow = ?");
        values.push(Value::Text(flow.clone()));
    }
    if let Some(prefix) = &filter.id_prefix {
        sql.push_str(" AND r.id >= ? AND r.id < ?");
        values.push(Value::Text(prefix.clone()));
        values.push(Value::Text(format!("{prefix}{}", char::MAX)));
    }
    if let Some(since) = filter.since {
        sql.push_str(" AND r.created >= ?");
        values.push(Value::Integer(int(since)));
    }
    sql.push_str(" ORDER BY r.created DESC, r.key DESC");
    if filter.limit > 0 {
        sql.push_str(" LIMIT ?");
        values.push(Value::Integer(size(filter.limit)));
    }
    let mut statement = cached(conn, &sql)?;
    let mut found = statement.query(params_from_iter(values)).context(what)?;
    let mut list = Vec::new();
    while let Some(row) = found.next().context(what)? {
        list.push(summary(conn, row)?);
    }
    Ok(list)
}

fn summary(conn: &Connection, row: &Row<'_>) -> Result<Summary, Error> {
    let what = "listing runs";
    let run: Arc<str> = row.get(0).context(what)?;
    let number = |column: usize| row.get(column).map(uint).context(what);
    let optional = |column: usize| {
        row.get::<_, Option<i64>>(column)
            .map(|number| number.map(uint))
            .context(what)
    };
    let state: String = row.get(3).context(what)?;
    let forked_from: Option<Arc<str>> = row.get(12).context(what)?;
    let damaged = |column: &str| Error::Damaged {
        what: format!("the {column} of run {run} cannot be read"),
    };
    Ok(Summary {
        flow: row.get(1).context(what)?,
        graph: row.get(2).context(what)?,
        state: RunState::named(&state).ok_or_else(|| damaged("state"))?,
        created: number(4)?,
        updated: number(5)?,
        wake_at: optional(6)?,
        usage: Usage {
            input_tokens: number(7)?,
            cached_tokens: number(8)?,
            output_tokens: number(9)?,
            cost_microusd: number(10)?,
        },
        start_key: row.get(11).context(what)?,
        forked_from: forked_from.zip(optional(13)?),
        waits: small(row, 14).ok_or_else(|| damaged("waits"))?,
        output: value(conn, row, 15)?.map(Val::new),
        error: value(conn, row, 16)?
            .map(serde_json::from_value)
            .transpose()
            .map_err(|_| damaged("error"))?,
        uncompensated: small(row, 17).ok_or_else(|| damaged("uncompensated effects"))?,
        run,
    })
}

/// A list that is stored as JSON, or not at all when it is empty.
fn small<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> Option<Vec<T>> {
    let text: Option<String> = row.get(column).ok()?;
    text.map_or_else(|| Some(Vec::new()), |text| serde_json::from_str(&text).ok())
}

/// A value that may have been stored apart.
fn value(
    conn: &Connection,
    row: &Row<'_>,
    column: usize,
) -> Result<Option<serde_json::Value>, Error> {
    let text: Option<String> = row.get(column).context("listing runs")?;
    text.map(|text| decode_value(text.as_bytes(), &mut Reader { conn }))
        .transpose()
}

/// Open questions, oldest first.
pub(super) fn questions(conn: &Connection, run: Option<&str>) -> Result<Vec<Question>, Error> {
    let what = "listing questions";
    let sql = "SELECT q.id, r.id, q.path, q.topic, q.ask, q.form, q.\"to\", q.asked, q.until
        FROM question q JOIN run r ON r.key = q.run WHERE ?1 IS NULL OR q.run = (SELECT key FROM run WHERE id = ?1)
        ORDER BY q.asked, q.key";
    let mut statement = cached(conn, sql)?;
    let mut found = statement.query([run]).context(what)?;
    let mut list = Vec::new();
    while let Some(row) = found.next().context(what)? {
        let id: Arc<str> = row.get(0).context(what)?;
        let damaged = |column: &str| Error::Damaged {
            what: format!("the {column} of question {id} cannot be read"),
        };
        let topic: String = row.get(3).context(what)?;
        let form: String = row.get(5).context(what)?;
        let until: Option<i64> = row.get(8).context(what)?;
        list.push(Question {
            run: row.get(1).context(what)?,
            path: row.get(2).context(what)?,
            topic: TOPICS
                .into_iter()
                .find(|known| topic_name(known) == topic)
                .ok_or_else(|| damaged("topic"))?,
            ask: row.get(4).context(what)?,
            form: serde_json::from_str(&form).map_err(|_| damaged("form"))?,
            to: row.get(6).context(what)?,
            asked: uint(row.get(7).context(what)?),
            until: until.map(uint),
            id,
        });
    }
    Ok(list)
}
