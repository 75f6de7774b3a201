//! What people ask about runs beside the port: who works on one, where a text is, which turns are good.

use std::sync::Arc;

use ravel_core::port_store::Error;
use rusqlite::{OptionalExtension, params};

use super::blob::Reader;
use super::commit::cached;
use super::error::ResultExt;
use super::{Sqlite, read, size, unknown_run};
use crate::chain::{Linker, START, hex};
use crate::text::decode_turn;

/// The process that owns a run, and lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOwner {
    /// Its token.
    pub token: Arc<str>,
    /// Its process id.
    pub pid: u32,
}

impl Sqlite {
    /// The process that works on a run, if one does.
    ///
    /// # Errors
    /// [`Error::Unknown`]; errors of the disk.
    pub fn live_owner(&self, run: &str) -> Result<Option<LiveOwner>, Error> {
        type Found = (Option<Arc<str>>, Option<u32>);
        let (token, pid): Found = self.read(|conn| {
            let sql = "SELECT o.token, o.pid FROM run r JOIN head h ON h.run = r.key
                LEFT JOIN owner o ON o.key = h.owner WHERE r.id = ?";
            let found = cached(conn, sql)?
                .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
                .context(format_args!("reading run {run}"))?;
            found.ok_or_else(|| unknown_run(run))
        })?;
        match token.zip(pid) {
            Some((token, pid)) if self.owners.is_alive(&token)? => {
                Ok(Some(LiveOwner { token, pid }))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Runs whose own turns hold a text, newest first, at most `most`. Reads the whole log: for what people look up
    /// once.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn mentions(&self, text: &str, most: usize) -> Result<Vec<Arc<str>>, Error> {
        self.read(|conn| {
            let what = "looking through the log";
            let sql = "SELECT r.id FROM run r WHERE EXISTS(
                  SELECT 1 FROM turn t WHERE t.run = r.key AND instr(t.body, ?1) > 0)
                ORDER BY r.created DESC, r.key DESC LIMIT ?2";
            cached(conn, sql)?
                .query_map(params![text, size(most)], |row| row.get(0))
                .context(what)?
                .collect::<rusqlite::Result<_>>()
                .context(what)
        })
    }

    /// The turns of a run's own log that hold a text, each as its line of JSON: for what needs no values.
    ///
    /// # Errors
    /// [`Error::Unknown`]; errors of the disk.
    pub fn lines_with(&self, run: &str, text: &str) -> Result<Vec<String>, Error> {
        self.read(|conn| {
            let what = format_args!("looking through run {run}");
            let sql = "SELECT CAST(t.body AS TEXT) FROM run r LEFT JOIN turn t
                  ON t.run = r.key AND instr(t.body, ?2) > 0
                WHERE r.id = ?1 ORDER BY t.first";
            let mut found = cached(conn, sql)?;
            let rows = found
                .query_map([run, text], |row| row.get(0))
                .context(what)?;
            let rows: Vec<Option<String>> = rows.collect::<rusqlite::Result<_>>().context(what)?;
            if rows.is_empty() {
                return Err(unknown_run(run));
            }
            let lines = rows.iter().flatten().flat_map(|body| body.lines());
            Ok(lines
                .filter(|line| line.contains(text))
                .map(str::to_owned)
                .collect())
        })
    }

    /// The first turn of a run after which its hash chain had this hash, or one that begins so.
    ///
    /// # Errors
    /// As [`Log::verify`](ravel_core::port_store::Log::verify).
    pub fn turn_with_head(&self, run: &str, head: &str) -> Result<Option<u64>, Error> {
        self.read(|conn| {
            let (mut linker, mut link, mut found) = (Linker::default(), START, None);
            read::walk(conn, run, u64::MAX, |turn, line| {
                link = linker.next(&link, line);
                if found.is_none() && hex(&link).starts_with(head) {
                    found = Some(turn);
                }
                Ok(())
            })?;
            Ok(found)
        })
    }

    /// Marks a run whose log is damaged as cancelled: nothing can go on with it, and retention may remove it.
    ///
    /// # Errors
    /// [`Error::Held`] while a live process owns it; [`Error::Unknown`]; errors of the disk.
    pub fn give_up(&self, run: &str) -> Result<(), Error> {
        if let Some(LiveOwner { token, pid }) = self.live_owner(run)? {
            return Err(Error::Held {
                run: run.into(),
                by: format!("process {pid} ({token})"),
            });
        }
        self.write(|writer| {
            writer.transaction("giving a damaged run up", |conn, notes| {
                notes.forget_run(run);
                let what = || format!("giving run {run} up");
                // A higher epoch: an owner that is not as dead as it looks writes no more.
                for sql in [
                    "UPDATE head SET state = 'cancelled', phase = 0, due = NULL, wake_at = NULL, waits = NULL, owner = NULL,
                        epoch = epoch + 1 WHERE run = (SELECT key FROM run WHERE id = ?)",
                    "DELETE FROM question WHERE run = (SELECT key FROM run WHERE id = ?)",
                ] {
                    cached(conn, sql)?.execute([run]).context(what())?;
                }
                Ok(())
            })
        })
    }

    /// How many turns of a run can be read, from the first on: all of them, unless it is damaged.
    ///
    /// # Errors
    /// [`Error::Unknown`]; errors of the disk other than damage.
    pub fn good_turns(&self, run: &str) -> Result<u64, Error> {
        self.read(|conn| {
            let mut good = 0;
            let mut reader = Reader { conn };
            let walked = read::walk(conn, run, u64::MAX, |turn, line| {
                decode_turn(line, &mut reader)?;
                good = turn;
                Ok(())
            });
            match walked {
                Ok(_) | Err(Error::Damaged { .. }) => Ok(good),
                Err(error) => Err(error),
            }
        })
    }
}
