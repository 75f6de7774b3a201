//! What the machine does on its own: syncs of a file, and commits of SQLite with nothing around them.

use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, params};

/// Size of one record.
const RECORD_BYTES: usize = 256;
/// Records of one measurement.
const ROUNDS: usize = 400;

/// `fdatasync` after each appended record, a second.
pub(crate) fn syncs_per_s(dir: &Path) -> Result<f64, String> {
    let path = dir.join("sync");
    let mut file = std::fs::File::create(path).map_err(|error| error.to_string())?;
    let record = [7_u8; RECORD_BYTES];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        file.write_all(&record)
            .and_then(|()| file.sync_data())
            .map_err(|error| error.to_string())?;
    }
    Ok(ROUNDS as f64 / start.elapsed().as_secs_f64())
}

/// Records a second that SQLite (WAL, `synchronous=FULL`) takes with `group` records to a commit.
pub(crate) fn records_per_s(dir: &Path, group: usize) -> Result<f64, String> {
    measure(dir, group).map_err(|error| error.to_string())
}

fn measure(dir: &Path, group: usize) -> rusqlite::Result<f64> {
    let mut conn = Connection::open(dir.join(format!("floor-{group}.db")))?;
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS log (id INTEGER PRIMARY KEY, run INTEGER, body BLOB)",
    )?;
    let record = [7_u8; RECORD_BYTES];
    let start = Instant::now();
    for round in 0..ROUNDS {
        let tx = conn.transaction()?;
        {
            let mut insert = tx.prepare_cached("INSERT INTO log (run, body) VALUES (?1, ?2)")?;
            for _ in 0..group {
                insert.execute(params![round as i64, record.as_slice()])?;
            }
        }
        tx.commit()?;
    }
    Ok((ROUNDS * group) as f64 / start.elapsed().as_secs_f64())
}
