//! What people ask beside the port: where a hash or a text is, which turns are good, who works on a run.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::path::Path;

use common::{batch, commit, owner, step, steps};
use ravel_core::port_store::{Error, Log};
use ravel_store::{LiveOwner, Sqlite};
use rusqlite::Connection;
use serde_json::{Value, json};

/// A store with two runs; the first has a row for each of its turns 4 to 9.
fn filled(path: &Path) -> Sqlite {
    let store = Sqlite::open(path).unwrap();
    store
        .commit(&batch(commit("r1", true, steps(1, 3))))
        .unwrap();
    for turn in steps(4, 9) {
        store
            .commit(&batch(commit("r1", false, vec![turn])))
            .unwrap();
    }
    store
        .commit(&batch(commit(
            "r2",
            true,
            vec![step(1, "other", json!("needle"))],
        )))
        .unwrap();
    store
}

#[test]
fn a_prefix_before_damage_is_read_and_its_length_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    drop(filled(&path));
    let conn = Connection::open(&path).unwrap();
    let sql = "UPDATE turn SET body = replace(body, 'value 7', 'value 8') WHERE last = 7";
    assert_eq!(conn.execute(sql, []).unwrap(), 1);
    drop(conn);
    let store = Sqlite::open(&path).unwrap();
    assert_eq!(store.load_to("r1", 6).unwrap(), steps(1, 6));
    assert_eq!(store.load_to("r1", 2).unwrap(), steps(1, 2));
    assert!(matches!(store.load_to("r1", 7), Err(Error::Damaged { .. })));
    assert_eq!(store.good_turns("r1").unwrap(), 6);
    assert_eq!(store.good_turns("r2").unwrap(), 1);
    assert_eq!(store.load_to("r2", 99).unwrap().len(), 1);
}

#[test]
fn the_turns_that_hold_a_text_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(&directory.path().join("store.db"));
    let turns = |run: &str, text: &str| -> Vec<Value> {
        let lines = store.lines_with(run, text).unwrap();
        let turn = |line: &String| serde_json::from_str::<Value>(line).unwrap()["turn"].clone();
        lines.iter().map(turn).collect()
    };
    assert_eq!(turns("r1", "value 2"), [json!(2)]);
    assert_eq!(turns("r1", "value 7"), [json!(7)]);
    assert_eq!(turns("r1", "needle"), Vec::<Value>::new());
    assert_eq!(turns("r2", "needle"), [json!(1)]);
    assert!(matches!(
        store.lines_with("r3", "x"),
        Err(Error::Unknown { .. })
    ));
}

#[test]
fn a_head_is_found_at_the_turn_that_had_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(&directory.path().join("store.db"));
    let head = store.verify("r1").unwrap().head;
    assert_eq!(store.turn_with_head("r1", &head).unwrap(), Some(9));
    assert_eq!(store.turn_with_head("r1", &head[..16]).unwrap(), Some(9));
    store
        .commit(&batch(commit("r1", false, steps(10, 12))))
        .unwrap();
    assert_eq!(store.turn_with_head("r1", &head).unwrap(), Some(9));
    assert_eq!(store.turn_with_head("r2", &head).unwrap(), None);
}

#[test]
fn a_text_is_found_in_the_runs_that_hold_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(&directory.path().join("store.db"));
    assert_eq!(store.mentions("needle", 5).unwrap(), ["r2".into()]);
    assert_eq!(store.mentions("value 9", 5).unwrap(), ["r1".into()]);
    assert_eq!(store.mentions("nowhere", 5).unwrap().len(), 0);
}

#[test]
fn the_owner_that_lives_is_named_with_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = filled(&path);
    let looking = Sqlite::open(&path).unwrap();
    let expected = LiveOwner {
        token: owner().token,
        pid: std::process::id(),
    };
    assert_eq!(looking.live_owner("r1").unwrap(), Some(expected));
    drop(store);
    assert_eq!(looking.live_owner("r1").unwrap(), None);
    assert!(matches!(
        looking.live_owner("r3"),
        Err(Error::Unknown { .. })
    ));
}

#[test]
fn a_store_that_is_closed_is_one_file_and_views_of_another_version_are_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    drop(filled(&path));
    assert!(!directory.path().join("store.db-wal").exists());
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "DROP VIEW costs; CREATE VIEW costs AS SELECT 1 AS old; CREATE VIEW mine AS SELECT 2 AS two",
    )
    .unwrap();
    drop(conn);
    drop(Sqlite::open(&path).unwrap());
    let conn = Connection::open(&path).unwrap();
    let flow: String = conn
        .query_row("SELECT flow FROM costs", [], |row| row.get(0))
        .unwrap();
    let mine: i64 = conn
        .query_row("SELECT two FROM mine", [], |row| row.get(0))
        .unwrap();
    assert_eq!((flow.as_str(), mine), ("triage", 2));
}
