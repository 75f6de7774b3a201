//! Big values on disk: once each, as differences where they grow, compressed where it helps.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::path::Path;

use common::{batch, commit, noise, step};
use ravel_core::event::Turn;
use ravel_core::port_store::{Log, Ownership};
use ravel_store::{Options, Sqlite};
use rusqlite::Connection;
use serde_json::{Value, json};

fn bytes_on_disk(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

fn count(path: &Path, sql: &str) -> i64 {
    Connection::open(path)
        .unwrap()
        .query_row(sql, [], |row| row.get(0))
        .unwrap()
}

/// Each step's value is a list that is one piece longer than the last one's.
fn grow(steps: u64, piece: impl Fn(u64) -> Vec<Value>) -> Vec<Turn> {
    let mut list = Vec::new();
    (1..=steps)
        .map(|number| {
            list.extend(piece(number));
            step(number, "history", Value::Array(list.clone()))
        })
        .collect()
}

/// Bytes on disk after a checkpoint, of turns that are committed one by one.
fn stored(turns: &[Turn]) -> (tempfile::TempDir, u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = Sqlite::open(&path).unwrap();
    store.commit(&batch(commit("r1", true, vec![]))).unwrap();
    for turn in turns {
        store
            .commit(&batch(commit("r1", false, vec![turn.clone()])))
            .unwrap();
    }
    store.checkpoint().unwrap();
    assert!(store.load("r1").unwrap() == turns, "a value changed");
    store.verify("r1").unwrap();
    let bytes = bytes_on_disk(&path);
    (directory, bytes)
}

#[test]
fn a_list_that_grows_by_a_kilobyte_takes_less_than_three_times_its_size() {
    let steps = 200;
    let turns = grow(steps, |number| vec![json!(noise(number, 1_000))]);
    let (_directory, bytes) = stored(&turns);
    let payload = steps * 1_003;
    assert!(
        bytes < 3 * payload,
        "{bytes} bytes for a payload of {payload}"
    );
}

#[test]
fn ten_megabytes_that_grow_take_less_than_three_times_their_size() {
    let steps = 20;
    let turns = grow(steps, |number| {
        (0..512)
            .map(|line| json!(noise(number * 512 + line, 1_000)))
            .collect()
    });
    let (_directory, bytes) = stored(&turns);
    let payload = steps * 512 * 1_003;
    assert!(
        bytes < 3 * payload,
        "{bytes} bytes for a payload of {payload}"
    );
}

#[test]
fn chains_of_differences_are_bounded() {
    let turns = grow(300, |number| vec![json!(noise(number, 300))]);
    let (directory, _) = stored(&turns);
    let path = directory.path().join("store.db");
    // 64 steps from an anchor, and the anchors from one another.
    assert_eq!(count(&path, "SELECT max(step) FROM blob"), 64);
    assert!(count(&path, "SELECT max(depth) FROM blob") < 70);
    assert!(count(&path, "SELECT count(*) FROM blob WHERE base IS NULL") < 4);
}

#[test]
fn a_growing_list_stays_small_over_restarts_and_takeovers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let turns = grow(120, |number| vec![json!(noise(number, 1_000))]);
    Sqlite::open(&path)
        .unwrap()
        .commit(&batch(commit("r1", true, vec![])))
        .unwrap();
    for turns in turns.chunks(10) {
        let store = Sqlite::open(&path).unwrap();
        let owner = store.claim("r1", "b").unwrap();
        for turn in turns {
            let mut commit = commit("r1", false, vec![turn.clone()]);
            commit.owner = owner.clone();
            store.commit(&batch(commit)).unwrap();
        }
    }
    let store = Sqlite::open(&path).unwrap();
    assert!(store.load("r1").unwrap() == turns, "a value changed");
    // The first, and the one that had outgrown it by more than its size when its group was full.
    assert_eq!(
        count(&path, "SELECT count(*) FROM blob WHERE base IS NULL"),
        2
    );
}

#[test]
fn a_value_that_many_steps_share_is_stored_once() {
    let shared = noise(7, 2_000_000);
    let turns: Vec<Turn> = (1..=20)
        .map(|number| {
            step(
                number,
                "part",
                json!({ "document": shared, "part": number }),
            )
        })
        .collect();
    let (directory, bytes) = stored(&turns);
    assert!(bytes < 2 * 2_000_000, "{bytes}");
    assert_eq!(
        count(
            &directory.path().join("store.db"),
            "SELECT count(*) FROM blob"
        ),
        1
    );
}

#[test]
fn fifty_megabytes_are_one_value() {
    let (_directory, bytes) = stored(&[step(
        1,
        "download",
        json!({ "body": noise(1, 1_000_000).repeat(50) }),
    )]);
    assert!(bytes < 60_000_000, "{bytes}");
}

#[test]
fn text_that_repeats_is_compressed() {
    let lines: Vec<String> = (0..20_000)
        .map(|line| format!("2026-01-01T00:00:00Z INFO request {line} took 12 ms"))
        .collect();
    let value = json!(lines.join("\n"));
    let payload = value.to_string().len() as u64;
    let (_directory, bytes) = stored(&[step(1, "log", value)]);
    assert!(bytes < payload / 2, "{bytes} bytes for {payload}");
}

#[test]
fn the_threshold_can_be_chosen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = Sqlite::open_with(
        &path,
        Options {
            inline_bytes_max: 100,
            ..Options::default()
        },
    )
    .unwrap();
    let turn = step(1, "s", json!("x".repeat(200)));
    store
        .commit(&batch(commit("r1", true, vec![turn.clone()])))
        .unwrap();
    assert!(count(&path, "SELECT count(*) FROM blob") > 0);
    assert_eq!(Sqlite::open(&path).unwrap().load("r1").unwrap(), [turn]);
}
