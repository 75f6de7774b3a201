//! A damaged store is refused, and repaired beside the damage: what proves itself is kept, what is lost is said.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{batch, commit, noise, step, steps};
use ravel_core::port_store::{Error, Filter, Listing, Log, Ownership};
use ravel_store::{Cut, Repair, Sqlite};
use serde_json::json;

/// Pages of the databases here.
const PAGE: usize = 4096;
/// Turns of the long run.
const TURNS: u64 = 60;

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    Place {
        _directory: directory,
        path,
    }
}

/// Writes two runs and a fork, each with a graph: a long one of a commit a turn, with big values, and a short one.
fn write(store: &Sqlite) {
    store.put_bundle("graph", "{\"steps\":{}}").unwrap();
    store
        .commit(&batch(commit("long", true, steps(1, 1))))
        .unwrap();
    for turn in 2..=TURNS {
        let value = if turn.is_multiple_of(10) {
            json!(noise(turn, 30_000))
        } else {
            json!(noise(turn, 900))
        };
        let turns = vec![step(turn, "s", value)];
        store.commit(&batch(commit("long", false, turns))).unwrap();
    }
    store
        .commit(&batch(commit("short", true, steps(1, 3))))
        .unwrap();
}

/// The files of a store as a process leaves them that is killed after all commits: the log is not emptied.
fn killed(place: &Place) {
    let store = Sqlite::open(&place.path).unwrap();
    // A reader keeps the log from being emptied into the file.
    write(&store);
    let aside = |suffix: &str| with(&place.path, &format!("{suffix}.aside"));
    for suffix in ["", "-wal"] {
        fs::copy(with(&place.path, suffix), aside(suffix)).unwrap();
    }
    drop(store);
    for suffix in ["", "-wal"] {
        fs::rename(aside(suffix), with(&place.path, suffix)).unwrap();
    }
    let _ = fs::remove_file(with(&place.path, "-shm"));
}

/// The same as it is closed cleanly.
fn closed(place: &Place) {
    write(&Sqlite::open(&place.path).unwrap());
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn repaired(place: &Place) -> Repair {
    let before: Vec<_> = ["", "-wal"]
        .map(|suffix| fs::read(with(&place.path, suffix)).ok())
        .into();
    let repair = Sqlite::repair(&place.path, "now").unwrap().unwrap();
    assert_eq!(repair.backup, with(&place.path, ".damaged-now"));
    let kept: Vec<_> = ["store.db", "store.db-wal"]
        .map(|name| fs::read(repair.backup.join(name)).ok())
        .into();
    assert!(before == kept, "the damaged files are kept as they were");
    let mut names: Vec<_> = fs::read_dir(place.path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".owners"))
        .collect();
    names.sort();
    assert_eq!(names, ["store.db", "store.db.damaged-now"]);
    repair
}

/// Every run of a repaired store reads to where it was said to be good, and refuses what follows.
fn assert_told(place: &Place, repair: &Repair) {
    let store = Sqlite::open(&place.path).unwrap();
    let check = store.check().unwrap();
    assert_eq!((check.whole, check.file), (repair.whole, vec![]));
    let cut: Vec<&String> = repair.cut.iter().map(|cut| &cut.run).collect();
    assert_eq!(
        check.damaged.iter().map(|(run, _)| run).collect::<Vec<_>>(),
        cut
    );
    for cut in &repair.cut {
        assert_eq!(store.good_turns(&cut.run).unwrap(), cut.kept);
        let is_flow = cut.lost.contains("the flow of run");
        let refused = matches!(store.load(&cut.run), Err(Error::Damaged { .. }));
        assert!(refused != is_flow, "{cut:?}");
        let kept = store.load_to(&cut.run, cut.kept).unwrap();
        assert_eq!(kept.len() as u64, cut.kept);
    }
    // Nothing is owned, and what is whole goes on.
    assert_eq!(
        store.runs(&Filter::default()).unwrap().len() as u64,
        repair.whole + cut.len() as u64
    );
    if repair.cut.iter().all(|cut| cut.run != "short") && repair.whole > 0 {
        let owner = store.claim("short", "next").unwrap();
        let mut next = commit("short", false, steps(4, 4));
        next.owner = owner;
        store.commit(&batch(next)).unwrap();
    }
}

#[test]
fn a_sound_store_is_left_alone() {
    let place = place();
    killed(&place);
    let before = fs::read(&place.path).unwrap();
    assert_eq!(Sqlite::repair(&place.path, "now").unwrap(), None);
    assert_eq!(fs::read(&place.path).unwrap(), before);
    assert!(with(&place.path, "-wal").exists());
}

#[test]
fn a_log_that_lost_a_page_in_its_middle_is_refused_and_almost_all_of_it_is_saved() {
    let place = place();
    killed(&place);
    let log = with(&place.path, "-wal");
    let middle = fs::metadata(&log).unwrap().len() as usize / 2;
    flip(&log, middle);
    let refused = Sqlite::open(&place.path).unwrap_err().to_string();
    assert!(
        refused.contains("with commits that were acknowledged, would be dropped"),
        "{refused}"
    );
    let repair = repaired(&place);
    assert_told(&place, &repair);
    // A page is in the log once for each commit that changed it: the last one counts.
    let kept: u64 = repair.cut.iter().map(|cut| cut.kept).sum();
    assert!(repair.whole + kept > 0, "{repair:?}");
}

#[test]
fn a_half_written_last_commit_is_no_damage() {
    let place = place();
    killed(&place);
    let log = with(&place.path, "-wal");
    let bytes = fs::read(&log).unwrap();
    // The last frame ends the last commit.
    let frame = (PAGE + 24) * ((bytes.len() - 32) / (PAGE + 24) - 1) + 32;
    flip(&log, frame + 100);
    let store = Sqlite::open(&place.path).unwrap();
    assert_eq!(store.load("long").unwrap().len() as u64, TURNS);
}

#[test]
fn every_page_of_the_file_may_be_lost_and_the_rest_is_kept() {
    let sound = place();
    closed(&sound);
    let pages = fs::metadata(&sound.path).unwrap().len() as usize / PAGE;
    let mut damaged = 0;
    for page in 0..pages {
        let place = place();
        let mut bytes = fs::read(&sound.path).unwrap();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0x5a);
        fs::write(&place.path, bytes).unwrap();
        // A page of an index, or one that is free, is no loss.
        let Some(repair) = Sqlite::repair(&place.path, "now").unwrap() else {
            continue;
        };
        damaged += 1;
        assert_told(&place, &repair);
        assert!(
            repair.whole + repair.cut.len() as u64 + repair.nameless_turns > 0,
            "page {page}: {repair:?}"
        );
    }
    assert!(damaged > pages / 2, "{damaged} of {pages}");
}

#[test]
fn a_file_that_was_cut_keeps_the_first_turns_and_says_how_many_are_lost() {
    let place = place();
    closed(&place);
    let bytes = fs::read(&place.path).unwrap();
    fs::write(&place.path, &bytes[..bytes.len() * 3 / 5]).unwrap();
    let repair = repaired(&place);
    assert_told(&place, &repair);
    let long = repair.cut.iter().find(|cut| cut.run == "long").unwrap();
    assert_eq!(
        (long.had, long.kept > 10, long.kept < TURNS),
        (Some(TURNS), true, true),
        "{repair:?}"
    );
    let Cut { kept, lost, .. } = long;
    assert!(
        lost.contains(&format!(
            "turns {} to {TURNS} of run long are missing",
            kept + 1
        )) || lost.contains("value"),
        "{lost}"
    );
}

#[test]
fn a_store_that_a_process_works_on_is_not_repaired() {
    let place = place();
    let store = Sqlite::open(&place.path).unwrap();
    write(&store);
    let refused = Sqlite::repair(&place.path, "now").unwrap_err();
    assert!(matches!(refused, Error::Held { .. }), "{refused}");
}

#[test]
fn a_repair_that_was_cut_short_is_finished_by_the_next_one() {
    let place = place();
    closed(&place);
    let bytes = fs::read(&place.path).unwrap();
    fs::write(&place.path, &bytes[..bytes.len() / 2]).unwrap();
    let first = repaired(&place);
    // As it was between the last two steps: the new file is complete and not in its place.
    fs::rename(&place.path, with(&place.path, ".repaired")).unwrap();
    fs::copy(first.backup.join("store.db"), &place.path).unwrap();
    std::os::unix::fs::symlink(&first.backup, with(&place.path, ".repairing")).unwrap();
    let refused = Sqlite::open(&place.path).unwrap_err().to_string();
    assert!(refused.contains("was cut short"), "{refused}");
    let second = Sqlite::repair(&place.path, "later").unwrap().unwrap();
    assert_eq!(
        (second.cut.len(), second.whole),
        (first.cut.len(), first.whole)
    );
    assert_told(&place, &second);
}

#[test]
fn a_file_that_is_no_store_is_left_as_it_is() {
    let place = place();
    fs::write(&place.path, "notes of mine").unwrap();
    let refused = Sqlite::repair(&place.path, "now").unwrap_err().to_string();
    assert!(refused.contains("which was left as it is"), "{refused}");
    assert_eq!(fs::read_to_string(&place.path).unwrap(), "notes of mine");
    let names = fs::read_dir(place.path.parent().unwrap()).unwrap().count();
    assert_eq!(names, 1);
}

#[test]
fn a_damaged_run_that_is_given_up_is_over_and_can_be_removed() {
    let place = place();
    closed(&place);
    let bytes = fs::read(&place.path).unwrap();
    fs::write(&place.path, &bytes[..bytes.len() * 3 / 5]).unwrap();
    let repair = repaired(&place);
    let store = Sqlite::open(&place.path).unwrap();
    for cut in &repair.cut {
        store.give_up(&cut.run).unwrap();
    }
    let removed = store.collect(u64::MAX, 0, false).unwrap().runs;
    assert_eq!(removed.len(), repair.cut.len());
    assert_eq!(store.check().unwrap().damaged, vec![]);
}
