//! Damaged, full, foreign, newer and read-only stores: each says what it is, and nothing acknowledged is lost.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{batch, commit, noise, step, steps};
use ravel_core::port_store::{Error, Filter, Inbox, Listing, Log, Message};
use ravel_store::{Check, Options, Sqlite};
use rusqlite::Connection;
use serde_json::json;

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

/// A closed store with two runs, one of them with a big value.
fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let store = Sqlite::open(&path).unwrap();
    let mut turns = steps(1, 3);
    turns.push(step(4, "big", json!(noise(1, 60_000))));
    store.commit(&batch(commit("r1", true, turns))).unwrap();
    for turn in steps(5, 40) {
        store
            .commit(&batch(commit("r1", false, vec![turn])))
            .unwrap();
    }
    store
        .commit(&batch(commit("r2", true, steps(1, 2))))
        .unwrap();
    store.put_bundle("graph", "{\"steps\":{}}").unwrap();
    Place {
        _directory: directory,
        path,
    }
}

fn edit(path: &Path, sql: &str) {
    let conn = Connection::open(path).unwrap();
    conn.pragma_update(None, "foreign_keys", false).unwrap();
    assert_ne!(conn.execute(sql, []).unwrap(), 0);
}

fn said<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_changed_turn_is_named() {
    let place = place();
    edit(
        &place.path,
        "UPDATE turn SET body = replace(body, 'value 7', 'value 8') WHERE run = 1 AND last = 7",
    );
    let store = Sqlite::open(&place.path).unwrap();
    let expected = "the store is damaged: turns 7 to 7 of run r1 are not what was written";
    assert_eq!(
        [said(store.load("r1")), said(store.verify("r1"))],
        [expected; 2]
    );
    assert_eq!(store.load("r2").unwrap(), steps(1, 2));
}

#[test]
fn a_missing_turn_is_named() {
    let place = place();
    edit(
        &place.path,
        "DELETE FROM turn WHERE run = 1 AND last BETWEEN 10 AND 12",
    );
    let store = Sqlite::open(&place.path).unwrap();
    assert_eq!(
        said(store.load("r1")),
        "the store is damaged: turns 10 to 12 of run r1 are missing"
    );
}

#[test]
fn a_lost_tail_is_named() {
    let place = place();
    edit(&place.path, "DELETE FROM turn WHERE run = 1 AND last > 30");
    let store = Sqlite::open(&place.path).unwrap();
    assert_eq!(
        said(store.load("r1")),
        "the store is damaged: turns 31 to 40 of run r1 are missing"
    );
    let next = store.commit(&batch(commit("r1", false, steps(41, 41))));
    assert_eq!(
        said(next),
        "the store is damaged: turn 40 of run r1 is missing"
    );
}

#[test]
fn a_changed_value_is_named_with_its_turn() {
    let place = place();
    edit(
        &place.path,
        "UPDATE blob SET body = zeroblob(length(body)), packed = 0",
    );
    let store = Sqlite::open(&place.path).unwrap();
    let text = said(store.load("r1"));
    assert!(
        text.starts_with("the store is damaged: turn 4 of run r1: the value "),
        "{text}"
    );
    assert!(
        text.ends_with(" does not have the bytes that were written"),
        "{text}"
    );
    assert!(said(store.verify("r1")).starts_with("the store is damaged: run r1: the value "));
}

#[test]
fn an_absurd_length_is_damage_and_takes_no_memory() {
    let place = place();
    edit(&place.path, "UPDATE blob SET bytes = 1152921504606846976");
    let text = said(Sqlite::open(&place.path).unwrap().load("r1"));
    assert!(
        text.ends_with(" does not have the length that was written"),
        "{text}"
    );
}

#[test]
fn a_missing_value_is_named() {
    let place = place();
    edit(&place.path, "DELETE FROM blob");
    let store = Sqlite::open(&place.path).unwrap();
    assert!(said(store.load("r1")).ends_with(" is missing"));
    assert_eq!(
        said(store.verify("r1")),
        "the store is damaged: run r1: some of its values are missing"
    );
}

#[test]
fn a_changed_bundle_is_named() {
    let place = place();
    edit(&place.path, "UPDATE bundle SET digest = zeroblob(32)");
    let expected = "the store is damaged: bundle graph does not have the bytes that were written";
    assert_eq!(
        said(Sqlite::open(&place.path).unwrap().bundle("graph")),
        expected
    );
}

#[test]
fn a_check_lists_what_is_lost_and_what_is_whole() {
    let place = place();
    assert_eq!(
        Sqlite::open(&place.path).unwrap().check().unwrap(),
        Check {
            whole: 2,
            ..Check::default()
        }
    );
    edit(&place.path, "DELETE FROM turn WHERE run = 2");
    let check = Sqlite::open(&place.path).unwrap().check().unwrap();
    let lost = (
        "r2".to_owned(),
        "the store is damaged: turns 1 to 2 of run r2 are missing".to_owned(),
    );
    assert_eq!(
        check,
        Check {
            whole: 1,
            damaged: vec![lost],
            file: vec![]
        }
    );
}

/// Whatever byte is changed: what is read is what was written, or it is said that it is not.
#[test]
fn a_flipped_bit_is_never_read_as_a_turn() {
    let place = place();
    let sound = fs::read(&place.path).unwrap();
    let expected = Sqlite::open(&place.path).unwrap().load("r1").unwrap();
    let path = place.path.with_file_name("flipped.db");
    let mut found = 0;
    // A prime step walks over headers, cells and free space alike.
    for (turn, at) in (100..sound.len()).step_by(1_499).enumerate() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (turn % 8);
        fs::write(&path, &bytes).unwrap();
        match Sqlite::open(&path).and_then(|store| store.load("r1")) {
            Ok(turns) => assert!(turns == expected, "a changed byte at {at} was not noticed"),
            Err(
                Error::Damaged { .. }
                | Error::Unknown { .. }
                | Error::Io { .. }
                | Error::Newer { .. },
            ) => found += 1,
            Err(error) => panic!("at {at}: {error}"),
        }
        remove(&path);
    }
    assert!(found > 20, "{found}");
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(name);
    }
}

#[test]
fn a_cut_off_file_is_damaged() {
    let place = place();
    let sound = fs::read(&place.path).unwrap();
    let path = place.path.with_file_name("cut.db");
    for keep in [sound.len() / 2, 3 * 4_096, 4_096, 1_000] {
        fs::write(&path, &sound[..keep]).unwrap();
        let result = Sqlite::open(&path).and_then(|store| store.load("r1"));
        assert!(
            matches!(result, Err(Error::Damaged { .. })),
            "{keep}: {result:?}"
        );
        remove(&path);
    }
}

#[test]
fn a_file_that_is_no_database_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    fs::write(
        &path,
        "not a database, but long enough to have a header that could be read as one of them\n"
            .repeat(9),
    )
    .unwrap();
    let text = said(Sqlite::open(&path));
    assert!(
        text.starts_with("the store is damaged: ") && text.contains("not a database"),
        "{text}"
    );
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE theirs(x)")
        .unwrap();
    let before = fs::read(&path).unwrap();
    let expected = format!(
        "the store failed: {} is a database of another program",
        path.display()
    );
    assert_eq!(said(Sqlite::open(&path)), expected);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let place = place();
    Connection::open(&place.path)
        .unwrap()
        .pragma_update(None, "user_version", 9)
        .unwrap();
    for read_only in [false, true] {
        let result = Sqlite::open_with(
            &place.path,
            Options {
                read_only,
                ..Options::default()
            },
        );
        assert_eq!(
            said(result),
            "the store has format 9, this program knows up to 1"
        );
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let options = Options {
        file_bytes_max: Some(600_000),
        ..Options::default()
    };
    let store = Sqlite::open_with(&path, options).unwrap();
    store.put_bundle("graph", "{}").unwrap();
    store.commit(&batch(commit("r1", true, vec![]))).unwrap();
    let mut acknowledged = Vec::new();
    let refused = loop {
        let number = acknowledged.len() as u64 + 1;
        let turn = step(number, "s", json!(noise(number, 30_000)));
        match store.commit(&batch(commit("r1", false, vec![turn.clone()]))) {
            Ok(()) => acknowledged.push(turn),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    assert!(acknowledged.len() > 5);
    assert!(store.load("r1").unwrap() == acknowledged);
    assert!(matches!(
        store.commit(&batch(commit(
            "r2",
            true,
            vec![step(1, "s", json!(noise(99, 90_000)))]
        ))),
        Err(Error::Full { .. })
    ));
    drop(store);
    // There is room again: the run goes on from its last acknowledged turn.
    let store = Sqlite::open(&path).unwrap();
    assert_eq!(
        store.check().unwrap(),
        Check {
            whole: 1,
            ..Check::default()
        }
    );
    let mut next = commit(
        "r1",
        false,
        steps(acknowledged.len() as u64 + 1, acknowledged.len() as u64 + 1),
    );
    next.owner = ravel_core::port_store::Ownership::claim(&store, "r1", "b").unwrap();
    store.commit(&batch(next)).unwrap();
}

#[test]
fn a_store_opened_for_reading_is_not_written() {
    let place = place();
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let store = Sqlite::open_with(&place.path, options.clone()).unwrap();
    assert_eq!(store.runs(&Filter::default()).unwrap().len(), 2);
    assert_eq!(store.load("r2").unwrap(), steps(1, 2));
    assert_eq!(store.version().unwrap(), store.version().unwrap());
    let expected = format!(
        "the store failed: {} was opened to be read only",
        place.path.display()
    );
    assert_eq!(said(store.post("r1", 1, &Message::Pause)), expected);
    assert_eq!(
        said(store.commit(&batch(commit("r2", false, steps(3, 3))))),
        expected
    );
    let missing = place.path.with_file_name("missing.db");
    let text = format!("there is no store at {}", missing.display());
    assert_eq!(said(Sqlite::open_with(&missing, options)), text);
    assert!(!missing.exists());
}

#[test]
fn a_store_in_a_missing_directory_cannot_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nowhere").join("store.db");
    let text = said(Sqlite::open(&path));
    assert!(
        text.starts_with(&format!("the store failed: opening {}: ", path.display())),
        "{text}"
    );
}
