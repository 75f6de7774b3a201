//! Ownership: rows say who, locks of the operating system say whether they live.

use std::collections::HashMap;
use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::port_store::{Error, Owner, Ownership};
use rusqlite::{OptionalExtension, params};

use super::commit::cached;
use super::error::ResultExt;
use super::{Sqlite, int, uint, unknown_run};

/// Answers whether tokens live, asking the operating system once each.
pub(super) struct Living<'s> {
    store: &'s Sqlite,
    known: HashMap<Arc<str>, bool>,
}

impl<'s> Living<'s> {
    pub(super) fn new(store: &'s Sqlite) -> Self {
        Self {
            store,
            known: HashMap::new(),
        }
    }

    fn is_alive(&mut self, token: &Arc<str>) -> Result<bool, Error> {
        if let Some(alive) = self.known.get(token) {
            return Ok(*alive);
        }
        let alive = self.store.owners.is_alive(token)?;
        self.known.insert(token.clone(), alive);
        Ok(alive)
    }

    pub(super) fn is_free(&mut self, token: Option<&Arc<str>>) -> Result<bool, Error> {
        token.map_or(Ok(true), |token| self.is_alive(token).map(|alive| !alive))
    }
}

impl Ownership for Sqlite {
    fn claim(&self, run: &str, token: &str) -> Result<Owner, Error> {
        let token: Arc<str> = token.into();
        self.enter(&token)?;
        self.write(|writer| {
            writer.transaction("taking a run over", |conn, notes| {
                let what = || format!("taking run {run} over");
                let sql =
                    "SELECT r.key, h.epoch, o.token, o.pid FROM run r JOIN head h ON h.run = r.key
                    LEFT JOIN owner o ON o.key = h.owner WHERE r.id = ?";
                type Found = (i64, i64, Option<Arc<str>>, Option<u32>);
                let found: Option<Found> = cached(conn, sql)?
                    .query_row([run], |row| {
                        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                    })
                    .optional()
                    .context(what())?;
                let (key, epoch, owner, pid) = found.ok_or_else(|| unknown_run(run))?;
                if let Some(owner) = owner.filter(|owner| *owner != token)
                    && self.owners.is_alive(&owner)?
                {
                    let by = format!("process {} ({owner})", pid.unwrap_or(0));
                    return Err(Error::Held {
                        run: run.into(),
                        by,
                    });
                }
                notes.forget_run(run);
                let owner = notes.tools.owner(conn, &token)?;
                let epoch = epoch + 1;
                cached(conn, "UPDATE head SET owner = ?, epoch = ? WHERE run = ?")?
                    .execute(params![owner, epoch, key])
                    .context(what())?;
                Ok(Owner {
                    token: token.clone(),
                    epoch: uint(epoch),
                })
            })
        })
    }

    fn release(&self, run: &str, owner: &Owner) -> Result<(), Error> {
        self.write(|writer| {
            writer.transaction("giving a run up", |conn, notes| {
                notes.forget_run(run);
                let sql = "UPDATE head SET owner = NULL WHERE run = (SELECT key FROM run WHERE id = ?) AND epoch = ?
                    AND owner = (SELECT key FROM owner WHERE token = ?)";
                cached(conn, sql)?
                    .execute(params![run, int(owner.epoch), &*owner.token])
                    .context(format_args!("giving run {run} up"))?;
                Ok(())
            })
        })
    }

    fn release_all(&self, token: &str) -> Result<(), Error> {
        self.write(|writer| {
            writer.transaction("giving runs up", |conn, notes| {
                notes.forget();
                let sql = "UPDATE head SET owner = NULL WHERE owner = (SELECT key FROM owner WHERE token = ?)";
                cached(conn, sql)?.execute([token]).context("giving runs up")?;
                Ok(())
            })
        })
    }

    fn unowned(&self, now: Millis, most: usize) -> Result<Vec<Arc<str>>, Error> {
        type Due = (i64, i64, Arc<str>, Option<Arc<str>>);
        let due: Vec<Due> = self.read(|conn| {
            let what = "looking for runs without an owner";
            let sql = "SELECT r.created, r.key, r.id, o.token FROM (
                  SELECT run FROM head WHERE phase = 1
                  UNION SELECT run FROM head WHERE due <= ?
                  UNION SELECT i.run FROM inbox i JOIN head h ON h.run = i.run AND h.phase = 2
                    WHERE i.reply IS NULL) d
                JOIN head h ON h.run = d.run JOIN run r ON r.key = d.run LEFT JOIN owner o ON o.key = h.owner";
            cached(conn, sql)?
                .query_map([int(now)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
                .context(what)?
                .collect::<rusqlite::Result<_>>()
                .context(what)
        })?;
        let mut living = Living::new(self);
        let mut free = Vec::new();
        for (created, key, id, owner) in due {
            if living.is_free(owner.as_ref())? {
                free.push((created, key, id));
            }
        }
        free.sort_unstable();
        free.truncate(most);
        Ok(free.into_iter().map(|(_, _, id)| id).collect())
    }

    fn next_wake(&self) -> Result<Option<Millis>, Error> {
        self.read(|conn| {
            let what = "looking for the next wake-up";
            let mut living = Living::new(self);
            let mut earliest = None;
            for sql in [
                "SELECT h.wake_at, o.token FROM head h LEFT JOIN owner o ON o.key = h.owner
                 WHERE h.due IS NOT NULL ORDER BY h.due",
                "SELECT h.wake_at, o.token FROM head h LEFT JOIN owner o ON o.key = h.owner
                 WHERE h.phase = 1 AND h.wake_at IS NOT NULL
                 ORDER BY h.wake_at",
            ] {
                let mut statement = cached(conn, sql)?;
                let mut found = statement.query([]).context(what)?;
                while let Some(row) = found.next().context(what)? {
                    let at = uint(row.get(0).context(what)?);
                    let owner: Option<Arc<str>> = row.get(1).context(what)?;
                    if living.is_free(owner.as_ref())? {
                        earliest = Some(earliest.map_or(at, |other: Millis| other.min(at)));
                        break;
                    }
                }
            }
            Ok(earliest)
        })
    }

    fn owner(&self, run: &str) -> Result<Option<Arc<str>>, Error> {
        let token: Option<Arc<str>> = self.read(|conn| {
            let sql = "SELECT o.token FROM run r JOIN head h ON h.run = r.key LEFT JOIN owner o ON o.key = h.owner
                WHERE r.id = ?";
            let found = cached(conn, sql)?
                .query_row([run], |row| row.get(0))
                .optional()
                .context(format_args!("reading run {run}"))?;
            found.ok_or_else(|| unknown_run(run))
        })?;
        match token {
            Some(token) if self.owners.is_alive(&token)? => Ok(Some(token)),
            _ => Ok(None),
        }
    }
}
