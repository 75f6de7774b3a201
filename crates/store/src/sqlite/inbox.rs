//! Messages to the owners of runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ravel_core::effect::Millis;
use ravel_core::port_store::{Error, Inbox, Message, Posted, Reply};
use rusqlite::{OptionalExtension, Params, params};

use super::commit::{cached, data_version};
use super::error::ResultExt;
use super::rows::{json, settle};
use super::{Sqlite, int, uint, unknown_run};
use crate::rules::run_over;

impl Inbox for Sqlite {
    fn post(&self, run: &str, at: Millis, message: &Message) -> Result<i64, Error> {
        let text = json(message)?;
        let id = self.write(|writer| {
            writer.transaction("posting a message", |conn, _| {
                let what = || format!("posting a message to run {run}");
                let sql = "SELECT r.key, h.phase = 0
                    FROM run r JOIN head h ON h.run = r.key WHERE r.id = ?";
                let found: Option<(i64, bool)> = cached(conn, sql)?
                    .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
                    .context(what())?;
                let (key, over) = found.ok_or_else(|| unknown_run(run))?;
                let reply = over.then(|| json(&run_over())).transpose()?;
                cached(
                    conn,
                    "INSERT INTO inbox(run, at, message, reply) VALUES (?, ?, ?, ?)",
                )?
                .execute(params![key, int(at), text, reply])
                .context(what())?;
                Ok(conn.last_insert_rowid())
            })
        })?;
        self.posted.fetch_add(1, Ordering::Release);
        Ok(id)
    }

    fn fetch(&self, token: &str, after: i64) -> Result<Vec<Posted>, Error> {
        self.messages(
            "SELECT i.key, r.id, i.at, i.message FROM inbox i JOIN head h ON h.run = i.run
             JOIN owner o ON o.key = h.owner AND o.token = ? JOIN run r ON r.key = i.run
             WHERE i.reply IS NULL AND i.key > ? ORDER BY i.key",
            params![token, after],
        )
    }

    fn waiting(&self, run: &str) -> Result<Vec<Posted>, Error> {
        self.messages(
            "SELECT i.key, r.id, i.at, i.message FROM run r JOIN inbox i ON i.run = r.key
             WHERE r.id = ? AND i.reply IS NULL ORDER BY i.key",
            [run],
        )
    }

    fn reply(&self, id: i64) -> Result<Option<Reply>, Error> {
        let reply: Option<String> = self.read(|conn| {
            let found = cached(conn, "SELECT reply FROM inbox WHERE key = ?")?
                .query_row([id], |row| row.get(0))
                .optional()
                .context(format_args!("reading message {id}"))?;
            found.ok_or_else(|| Error::Unknown {
                what: format!("message {id}"),
            })
        })?;
        let parse =
            |text: String| serde_json::from_str(&text).map_err(|error| unreadable(id, &error));
        reply.map(parse).transpose()
    }

    fn settle(&self, taken: &[(i64, Reply)]) -> Result<(), Error> {
        if taken.is_empty() {
            return Ok(());
        }
        self.write(|writer| writer.transaction("settling messages", |conn, _| settle(conn, taken)))
    }

    fn version(&self) -> Result<u64, Error> {
        let posted = self.posted.load(Ordering::Acquire);
        let others = if self.options.read_only {
            self.read(data_version)?
        } else {
            self.write(|writer| data_version(&writer.conn))?
        };
        // Both only grow, so the sum changes when one of them does.
        Ok(posted + uint(others))
    }
}

impl Sqlite {
    fn messages(&self, sql: &str, params: impl Params) -> Result<Vec<Posted>, Error> {
        let what = "reading messages";
        let rows: Vec<(i64, Arc<str>, i64, String)> = self.read(|conn| {
            cached(conn, sql)?
                .query_map(params, |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })
                .context(what)?
                .collect::<rusqlite::Result<_>>()
                .context(what)
        })?;
        rows.into_iter()
            .map(|(id, run, at, text)| {
                let message =
                    serde_json::from_str(&text).map_err(|error| unreadable(id, &error))?;
                Ok(Posted {
                    id,
                    run,
                    at: uint(at),
                    message,
                })
            })
            .collect()
    }
}

fn unreadable(id: i64, error: &serde_json::Error) -> Error {
    Error::Damaged {
        what: format!("message {id} cannot be read ({error})"),
    }
}
