//! A run as text: JSON lines that hold everything it needs, and can be read by anything.
//!
//! The first line is `{"run": …}` (format, number of turns, hash of the last one, summary), then come `{"bundle": …}`
//! and `{"question": …}` lines, then the turns as they are stored, each after the `{"value": …}` lines that it refers
//! to. Turns keep their bytes, so the hash after the last turn is the same everywhere.

use std::collections::{BTreeSet, HashSet};
use std::io::{BufRead, Write};
use std::sync::Arc;

use ravel_core::port::{Question, Summary};
use ravel_core::port_store::{Error, Filter};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::blob::Reader;
use super::commit::{Hot, cached};
use super::error::ResultExt;
use super::rows::ask;
use super::tools::{Known, Tools};
use super::{Sqlite, listing, read, unknown_run};
use crate::chain::hex;
use crate::text::{Blobs, Cut, decode_turn, has_marker};

/// Version of the text form.
const FORMAT: u32 = 1;
/// Imported turns are put into rows of about this size.
const ROW_BYTES: usize = 64 * 1024;
/// How a turn's line begins.
const TURN: &[u8] = b"{\"turn\":";

/// A line that is not a turn.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Run(Box<Header>),
    Bundle(Text),
    Question(Box<Question>),
    Value(Text),
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    turns: u64,
    head: String,
    summary: Summary,
}

#[derive(Debug, Serialize, Deserialize)]
struct Text {
    hash: String,
    text: String,
}

impl Sqlite {
    /// Writes a run as JSON lines, the prefix that it was forked from included. Messages that nobody took are not part
    /// of a run.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Damaged`]; [`Error::Io`] also when `out` fails.
    pub fn export(&self, run: &str, out: &mut dyn Write) -> Result<(), Error> {
        self.read(|conn| export(conn, run, out))
    }

    /// Takes in a run that was exported. It is unowned then, and whole by itself: a fork is no fork any more.
    /// Gives its id.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Newer`]; [`Error::Damaged`] when the text is not what was exported; nothing is
    /// written then.
    pub fn import(&self, text: &mut dyn BufRead) -> Result<Arc<str>, Error> {
        self.write(|writer| {
            writer.transaction("importing a run", |conn, notes| {
                import(conn, &mut notes.tools, text)
            })
        })
    }
}

fn export(conn: &Connection, run: &str, out: &mut dyn Write) -> Result<(), Error> {
    let chain = read::walk(conn, run, u64::MAX, |_, _| Ok(()))?;
    let own = Filter {
        id_prefix: Some(run.into()),
        ..Filter::default()
    };
    let summary = listing::runs(conn, &own)?
        .into_iter()
        .find(|summary| &*summary.run == run);
    let summary = summary.ok_or_else(|| unknown_run(run))?;
    let graphs = graphs(conn, run)?;
    let header = Header {
        format: FORMAT,
        turns: chain.turns,
        head: chain.head,
        summary,
    };
    line(out, &Line::Run(header.into()))?;
    for hash in graphs {
        match read::bundle(conn, &hash) {
            Ok(text) => line(out, &Line::Bundle(Text { hash, text }))?,
            // A run may be written before its bundle is, and it may never be.
            Err(Error::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    for question in listing::questions(conn, Some(run))? {
        line(out, &Line::Question(question.into()))?;
    }
    let mut values = Values {
        reader: Reader { conn },
        seen: HashSet::new(),
        found: Vec::new(),
    };
    read::walk(conn, run, u64::MAX, |_, text| {
        if has_marker(text) {
            decode_turn(text, &mut values)?;
            for value in values.found.drain(..) {
                line(out, &Line::Value(value))?;
            }
        }
        out.write_all(text)
            .and_then(|()| out.write_all(b"\n"))
            .map_err(|error| failed(&error))
    })?;
    out.flush().map_err(|error| failed(&error))
}

/// Every graph of a run's log.
fn graphs(conn: &Connection, run: &str) -> Result<BTreeSet<String>, Error> {
    let what = || format!("reading the graphs of run {run}");
    let sql = "SELECT r.graph FROM lineage l JOIN run r ON r.key = l.key WHERE l.id = ?1
        UNION SELECT b.bundle FROM lineage l JOIN bundle_ref b ON b.run = l.key WHERE l.id = ?1";
    cached(conn, sql)?
        .query_map([run], |row| row.get(0))
        .context(what())?
        .collect::<rusqlite::Result<_>>()
        .context(what())
}

fn line(out: &mut dyn Write, line: &Line) -> Result<(), Error> {
    let mut text = serde_json::to_vec(line).map_err(|error| Error::Io {
        message: format!("writing an export: {error}"),
    })?;
    text.push(b'\n');
    out.write_all(&text).map_err(|error| failed(&error))
}

fn failed(error: &std::io::Error) -> Error {
    Error::Io {
        message: format!("writing an export: {error}"),
    }
}

/// Notes the values that turns refer to.
struct Values<'c> {
    reader: Reader<'c>,
    seen: HashSet<String>,
    found: Vec<Text>,
}

impl Blobs for Values<'_> {
    fn json(&mut self, hash: &str) -> Result<Arc<[u8]>, Error> {
        let json = self.reader.json(hash)?;
        if self.seen.insert(hash.to_owned()) {
            let text = String::from_utf8_lossy(&json).into_owned();
            self.found.push(Text {
                hash: hash.to_owned(),
                text,
            });
        }
        Ok(json)
    }
}

fn import(conn: &Connection, tools: &mut Tools, text: &mut dyn BufRead) -> Result<Arc<str>, Error> {
    let mut lines = text.split(b'\n').map(|line| {
        line.map_err(|error| Error::Io {
            message: format!("reading an export: {error}"),
        })
    });
    let first = lines.next().transpose()?.unwrap_or_default();
    let Ok(Line::Run(header)) = serde_json::from_slice(&first) else {
        return Err(Error::Damaged {
            what: "this is not an exported run".into(),
        });
    };
    let Header {
        format,
        turns,
        head,
        summary,
    } = *header;
    if format > FORMAT {
        return Err(Error::Newer {
            found: format,
            known: FORMAT,
        });
    }
    let run = tools.insert_run(conn, &summary.run, &summary, None, None)?;
    let mut arrival = Arrival {
        conn,
        hot: Hot::new(conn)?,
        tools,
        summary,
        run,
        values: HashSet::new(),
        rows: Vec::new(),
        pending: 0,
    };
    lines
        .filter(|line| !line.as_ref().is_ok_and(Vec::is_empty))
        .try_for_each(|line| arrival.line(line?))?;
    arrival.end(turns, &head)
}

/// A run that is being taken in.
struct Arrival<'w> {
    conn: &'w Connection,
    hot: Hot<'w>,
    tools: &'w mut Tools,
    summary: Summary,
    run: Known,
    values: HashSet<String>,
    /// Lines that are not in a row yet, and how many.
    rows: Vec<u8>,
    pending: u64,
}

impl Arrival<'_> {
    fn line(&mut self, line: Vec<u8>) -> Result<(), Error> {
        if line.starts_with(TURN) {
            return self.turn(&line);
        }
        let damaged = |what: String| Err(Error::Damaged { what });
        match serde_json::from_slice(&line) {
            Ok(Line::Bundle(bundle)) => {
                self.tools.put_bundle(self.conn, &bundle.hash, &bundle.text)
            }
            Ok(Line::Question(question)) => ask(self.conn, self.run.key, &question),
            Ok(Line::Value(Text { hash, text })) => {
                let json = text.into_bytes();
                let value = Cut {
                    hash: blake3::hash(&json),
                    json,
                };
                if value.hash.to_hex().as_str() != hash {
                    return damaged(format!("the export has another text than the value {hash}"));
                }
                self.values.insert(hash);
                self.tools.store_value(self.conn, &mut self.run, value)
            }
            Ok(Line::Run(_)) => damaged("an export holds one run".into()),
            Err(error) => damaged(format!("an export has a line that cannot be read: {error}")),
        }
    }

    fn turn(&mut self, line: &[u8]) -> Result<(), Error> {
        let mut values = Brought {
            reader: Reader { conn: self.conn },
            values: &self.values,
        };
        let turn = decode_turn(line, &mut values)?;
        let expected = self.run.last + self.pending + 1;
        if turn.turn != expected {
            return Err(Error::Gap {
                run: self.summary.run.clone(),
                expected,
                got: turn.turn,
            });
        }
        self.tools
            .keep_graphs(self.conn, self.run.key, &[turn], &self.summary.graph)?;
        if self.rows.len() + line.len() > ROW_BYTES {
            self.flush()?;
        }
        if self.pending > 0 {
            self.rows.push(b'\n');
        }
        self.rows.extend_from_slice(line);
        self.pending += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.pending > 0 {
            self.tools
                .append_lines(&mut self.hot, &mut self.run, &self.rows)?;
            self.rows.clear();
            self.pending = 0;
        }
        Ok(())
    }

    fn end(mut self, turns: u64, head: &str) -> Result<Arc<str>, Error> {
        self.flush()?;
        let Self {
            conn,
            mut hot,
            tools,
            summary,
            mut run,
            ..
        } = self;
        if run.last != turns || hex(&run.hash) != head {
            let what = format!(
                "the export of run {} does not have the turns that were written",
                summary.run
            );
            return Err(Error::Damaged { what });
        }
        tools.summary(conn, &mut hot, &mut run, (&summary, &[]))?;
        Ok(summary.run)
    }
}

/// The values that an export brought along.
struct Brought<'c> {
    reader: Reader<'c>,
    values: &'c HashSet<String>,
}

impl Blobs for Brought<'_> {
    fn json(&mut self, hash: &str) -> Result<Arc<[u8]>, Error> {
        if !self.values.contains(hash) {
            return Err(Error::Damaged {
                what: format!("the export lacks the value {hash}"),
            });
        }
        self.reader.json(hash)
    }
}
