//! The database's layout: tables, indexes and the views for people. docs/store.md describes it.

use rusqlite::Connection;

use super::error::Context;
use ravel_core::port_store::Error;

/// `PRAGMA application_id`: "RAVL".
pub(super) const APPLICATION: i32 = 0x5241_564C;
/// `PRAGMA user_version`: the format that this program writes.
pub(super) const FORMAT: u32 = 1;

const TABLES: &str = "
CREATE TABLE run(
  key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, flow TEXT NOT NULL, graph TEXT NOT NULL,
  created INTEGER NOT NULL, start_key TEXT, forked_from TEXT, forked_at INTEGER,
  base INTEGER REFERENCES run(key), base_turn INTEGER NOT NULL DEFAULT 0, seed BLOB NOT NULL);
CREATE INDEX run_created ON run(created);
CREATE INDEX run_base ON run(base) WHERE base IS NOT NULL;
CREATE TABLE head(
  run INTEGER PRIMARY KEY REFERENCES run(key), last INTEGER NOT NULL, state TEXT NOT NULL,
  phase INTEGER NOT NULL, due INTEGER, updated INTEGER NOT NULL, wake_at INTEGER, input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL, cost_microusd INTEGER NOT NULL, epoch INTEGER NOT NULL,
  owner INTEGER REFERENCES owner(key), waits TEXT);
CREATE INDEX head_active ON head(run) WHERE phase = 1;
CREATE INDEX head_due ON head(due) WHERE due IS NOT NULL;
CREATE TABLE detail(run INTEGER PRIMARY KEY REFERENCES run(key), output TEXT, error TEXT, uncompensated TEXT);
CREATE TABLE turn(
  key INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(key), first INTEGER NOT NULL, last INTEGER NOT NULL,
  hash BLOB NOT NULL, body TEXT NOT NULL);
CREATE INDEX turn_run ON turn(run, last);
CREATE TABLE blob(
  key INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, bytes INTEGER NOT NULL, packed INTEGER NOT NULL,
  base INTEGER REFERENCES blob(key), prefix INTEGER NOT NULL, suffix INTEGER NOT NULL,
  anchor INTEGER REFERENCES blob(key), step INTEGER NOT NULL, depth INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX blob_base ON blob(base) WHERE base IS NOT NULL;
CREATE TABLE blob_ref(
  run INTEGER NOT NULL REFERENCES run(key), blob INTEGER NOT NULL REFERENCES blob(key),
  PRIMARY KEY(run, blob)) WITHOUT ROWID;
CREATE INDEX blob_ref_blob ON blob_ref(blob);
CREATE TABLE bundle(
  key INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL, digest BLOB NOT NULL,
  json BLOB NOT NULL);
CREATE TABLE bundle_ref(
  run INTEGER NOT NULL REFERENCES run(key), bundle TEXT NOT NULL, PRIMARY KEY(run, bundle)) WITHOUT ROWID;
CREATE TABLE start_key(key TEXT PRIMARY KEY, run TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE owner(key INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, pid INTEGER NOT NULL);
CREATE TABLE question(
  key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run INTEGER NOT NULL REFERENCES run(key), path TEXT NOT NULL,
  topic TEXT NOT NULL, ask TEXT NOT NULL, form TEXT NOT NULL, \"to\" TEXT, asked INTEGER NOT NULL, until INTEGER);
CREATE INDEX question_run ON question(run);
CREATE TABLE inbox(
  key INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL REFERENCES run(key), at INTEGER NOT NULL,
  message TEXT, reply TEXT);
CREATE INDEX inbox_run ON inbox(run);
CREATE INDEX inbox_waiting ON inbox(run, key) WHERE reply IS NULL;
";

const VIEWS: &str = include_str!("views.sql");

/// Makes the layout in an empty database.
pub(super) fn create(conn: &Connection) -> Result<(), Error> {
    let context = Context::new("making the store's tables");
    conn.execute_batch(TABLES)
        .map_err(|error| context.error(&error))?;
    conn.execute_batch(VIEWS)
        .map_err(|error| context.error(&error))?;
    conn.pragma_update(None, "application_id", APPLICATION)
        .map_err(|error| context.error(&error))?;
    conn.pragma_update(None, "user_version", FORMAT)
        .map_err(|error| context.error(&error))
}

/// True when the file has the views of this program. They hold nothing, so another version's are simply replaced.
pub(super) fn views_are_ours(conn: &Connection) -> Result<bool, Error> {
    let context = Context::new("reading the store's views");
    let mut statement = conn
        .prepare("SELECT sql FROM sqlite_schema WHERE type = 'view'")
        .map_err(|error| context.error(&error))?;
    let found: rusqlite::Result<Vec<String>> = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect);
    let found = found.map_err(|error| context.error(&error))?;
    let ours = |sql: &&String| VIEWS.contains(sql.as_str());
    Ok(found.iter().filter(ours).count() == view_names().count())
}

/// Replaces the views; those of the user stay.
pub(super) fn renew_views(conn: &Connection) -> Result<(), Error> {
    let context = Context::new("renewing the store's views");
    let mut script: String = view_names()
        .map(|name| format!("DROP VIEW IF EXISTS {name};\n"))
        .collect();
    script.push_str(VIEWS);
    conn.execute_batch(&script)
        .map_err(|error| context.error(&error))
}

fn view_names() -> impl Iterator<Item = &'static str> {
    VIEWS
        .split("CREATE VIEW ")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next())
}
