//! `kill -9` of a process in the middle of its commits: what it acknowledged is there, and its runs are free.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{batch, commit, noise, step, steps};
use ravel_core::event::Turn;
use ravel_core::port_store::{Batch, Log, Ownership};
use ravel_store::{Check, Sqlite};
use serde_json::json;

/// Tells the child process where its store is. Without it the child's test has nothing to do.
const PLACE: &str = "RAVEL_STORE_KILL_TEST";
const RUNS: usize = 3;

/// Turn `number` of every run: some carry big values that grow.
fn turn(number: u64) -> Turn {
    if number.is_multiple_of(3) {
        step(
            number,
            "grows",
            json!(noise(1, 20_000 + 700 * usize::try_from(number).unwrap())),
        )
    } else {
        steps(number, number).remove(0)
    }
}

/// The child: commits to all runs at once until it is killed, and says after each commit how far it is.
#[test]
fn child_commits_until_it_is_killed() {
    let Some(place) = std::env::var_os(PLACE) else {
        return;
    };
    let store = Sqlite::open(PathBuf::from(place)).unwrap();
    store.put_bundle("graph", "{}").unwrap();
    let runs: Vec<String> = (0..RUNS).map(|run| format!("r{run}")).collect();
    let mut owners = Vec::new();
    let mut next = 1;
    for run in &runs {
        match store.claim(run, &format!("child-{}", std::process::id())) {
            Ok(owner) => {
                next = store.load(run).unwrap().len() as u64 + 1;
                owners.push(owner);
            }
            Err(_) => {
                let mut first = commit(run, true, vec![]);
                first.owner.token = format!("child-{}", std::process::id()).into();
                owners.push(first.owner.clone());
                store.commit(&batch(first)).unwrap();
            }
        }
    }
    // Not println: the test harness must not hold the line back.
    let mut out = std::io::stdout();
    loop {
        let runs = runs.iter().zip(&owners).map(|(run, owner)| {
            let mut commit = commit(run, false, vec![turn(next)]);
            commit.owner = owner.clone();
            commit
        });
        store
            .commit(&Batch {
                runs: runs.collect(),
            })
            .unwrap();
        writeln!(out, "\nacknowledged {next}").unwrap();
        out.flush().unwrap();
        next += 1;
    }
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut acknowledged = 0;
    // Each child is killed after another number of commits, at whatever it is doing then.
    for commits in [1, 7, 2, 13, 4, 1, 9, 3] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_commits_until_it_is_killed", "--nocapture"])
            .env(PLACE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        for line in lines {
            let line = line.unwrap();
            if let Some(number) = line.strip_prefix("acknowledged ") {
                acknowledged = number.parse().unwrap();
                seen += 1;
            }
            if seen == commits {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let store = Sqlite::open(&path).unwrap();
        assert_eq!(
            store.check().unwrap(),
            Check {
                whole: RUNS as u64,
                ..Check::default()
            }
        );
        let lengths: Vec<u64> = (0..RUNS)
            .map(|run| {
                let turns = store.load(&format!("r{run}")).unwrap();
                let expected: Vec<Turn> = (1..=turns.len() as u64).map(turn).collect();
                assert!(
                    turns == expected,
                    "run {run} has other turns than were written"
                );
                turns.len() as u64
            })
            .collect();
        assert!(
            lengths
                .iter()
                .all(|length| *length == lengths[0] && *length >= acknowledged),
            "{lengths:?}"
        );
        assert_eq!(
            store.owner("r0").unwrap(),
            None,
            "a dead process owns nothing"
        );
        assert_eq!(store.unowned(0, 9).unwrap().len(), RUNS);
    }
}

#[test]
fn a_run_of_another_live_process_is_held() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_commits_until_it_is_killed", "--nocapture"])
        .env(PLACE, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines
        .find(|line| line.as_ref().unwrap().starts_with("acknowledged"))
        .unwrap()
        .unwrap();
    let store = Sqlite::open(&path).unwrap();
    let refused = store.claim("r1", "b").unwrap_err().to_string();
    let token = format!("child-{}", child.id());
    assert_eq!(
        refused,
        format!("run r1 is owned by process {} ({token})", child.id())
    );
    assert_eq!(store.owner("r1").unwrap().as_deref(), Some(&*token));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(store.claim("r1", "b").unwrap().epoch, 2);
}
