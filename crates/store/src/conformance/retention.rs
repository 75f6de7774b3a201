//! Retention: what is over goes, whole; what is needed stays.

use ravel_core::event::Event;
use ravel_core::port::RunState;
use ravel_core::port_store::{Collected, Filter, Inbox, Listing, Log, Message, Ownership, Store};
use ravel_core::value::Val;
use serde_json::json;

use super::{Cluster, create, ending, fork, owner, question, said, start, turn, turns, write};

fn put(store: &impl Store, run: &str, updated: u64, state: RunState) {
    let mut commit = ending(create(run, "a", 2), state);
    commit.summary.updated = updated;
    commit.summary.created = updated;
    write(store, commit);
}

#[track_caller]
fn removed(store: &impl Store, before: u64, keep_newest: usize) -> (Vec<String>, Vec<String>) {
    let Collected { runs, pinned, .. } = store
        .collect(before, keep_newest, false)
        .expect("retention works");
    let names = |ids: Vec<std::sync::Arc<str>>| ids.iter().map(ToString::to_string).collect();
    (names(runs), names(pinned))
}

/// Final, unowned and old: all three.
pub fn retention_removes_what_is_over(cluster: &impl Cluster) {
    let store = cluster.process();
    put(&store, "old", 10, RunState::Succeeded);
    put(&store, "failed", 15, RunState::Failed);
    put(&store, "new", 20, RunState::Cancelled);
    put(&store, "waiting", 5, RunState::Waiting);
    put(&store, "reclaimed", 5, RunState::Succeeded);
    store.claim("reclaimed", "b").expect("it is free");
    assert_eq!(
        removed(&store, 20, 0),
        (vec!["old".into(), "failed".into()], vec![])
    );
    let left: Vec<_> = store
        .runs(&Filter::default())
        .expect("listed")
        .into_iter()
        .map(|summary| summary.run.to_string())
        .collect();
    assert_eq!(left, ["new", "reclaimed", "waiting"]);
    assert_eq!(said(store.load("old")), "there is no run old");
    store.release_all("b").expect("it is released");
    assert_eq!(removed(&store, 20, 0), (vec!["reclaimed".into()], vec![]));
}

/// A run that a fork continues stays, through generations, until the fork goes.
pub fn retention_keeps_prefixes_of_forks(cluster: &impl Cluster) {
    let store = cluster.process();
    let ended = |mut commit: ravel_core::port_store::RunCommit| {
        commit.summary.state = RunState::Succeeded;
        commit
    };
    write(&store, ended(create("g0", "a", 4)));
    write(&store, ended(fork("g1", "a", ("g0", 3), 5)));
    write(&store, fork("g2", "a", ("g1", 4), 6));
    write(&store, ended(fork("side", "a", ("g0", 2), 3)));
    assert_eq!(
        removed(&store, 9_000, 0),
        (vec!["side".into()], vec!["g0".into(), "g1".into()])
    );
    assert_eq!(store.load("g2").expect("it is there"), turns(1, 6));
    write(
        &store,
        ending(
            super::append("g2", &owner("a"), turns(7, 7)),
            RunState::Succeeded,
        ),
    );
    assert_eq!(
        removed(&store, 9_000, 1),
        (vec![], vec!["g0".into(), "g1".into()])
    );
    assert_eq!(store.verify("g2").expect("it is whole").turns, 7);
    assert_eq!(
        removed(&store, 9_000, 0),
        (vec!["g0".into(), "g1".into(), "g2".into()], vec![])
    );
}

/// The newest runs that are over stay, however old they are.
pub fn retention_keeps_the_newest(cluster: &impl Cluster) {
    let store = cluster.process();
    for (run, at) in [("r1", 10), ("r2", 20), ("r3", 30), ("r4", 40)] {
        put(&store, run, at, RunState::Succeeded);
    }
    put(&store, "live", 50, RunState::Running);
    assert_eq!(removed(&store, 9_000, 3), (vec!["r1".into()], vec![]));
    assert_eq!(removed(&store, 9_000, 3), (vec![], vec![]));
    assert_eq!(removed(&store, 30, 1), (vec!["r2".into()], vec![]));
}

/// It says what it would remove.
pub fn a_dry_run_removes_nothing(cluster: &impl Cluster) {
    let store = cluster.process();
    put(&store, "r1", 10, RunState::Succeeded);
    let would = store.collect(20, 0, true).expect("retention works");
    assert_eq!(would.runs, ["r1".into()]);
    assert_eq!(store.load("r1").expect("it is still there"), turns(1, 2));
    let did = store.collect(20, 0, false).expect("retention works");
    assert_eq!(did, would);
}

/// A value that a run that stays refers to is not removed with the others.
pub fn retention_keeps_shared_values(cluster: &impl Cluster) {
    let store = cluster.process();
    let text = |length: usize| {
        (0..length)
            .map(|n| char::from(b'a' + u8::try_from(n * 7 % 26).unwrap_or(0)))
            .collect()
    };
    let grown: Vec<String> = (0..5).map(|step| text(50_000 + step * 10)).collect();
    let mut first = create("r1", "a", 0);
    first.turns = (1..)
        .zip(&grown)
        .map(|(number, value)| turn(number, json!(value)))
        .collect();
    first.summary.state = RunState::Succeeded;
    let mut second = create("r2", "a", 0);
    second.turns = vec![
        turn(1, json!(grown[4])),
        turn(2, json!({ "inner": grown[2] })),
    ];
    let expected = second.turns.clone();
    write(&store, first);
    write(&store, second);
    assert_eq!(removed(&store, 9_000, 0), (vec!["r1".into()], vec![]));
    assert!(
        cluster.process().load("r2").expect("it is there") == expected,
        "a value was lost"
    );
    assert_eq!(store.verify("r2").expect("it is whole").turns, 2);
}

/// Bundles go with the last run that refers to them, now or earlier in its log.
pub fn retention_keeps_shared_bundles(cluster: &impl Cluster) {
    let store = cluster.process();
    for hash in ["shared", "only", "edited", "unused"] {
        store.put_bundle(hash, hash).expect("it is kept");
    }
    let graph = |run: &str, graph: &str, state| {
        let mut commit = ending(create(run, "a", 0), state);
        commit.turns = vec![start(run, graph)];
        commit.summary.graph = graph.into();
        commit
    };
    write(&store, graph("r1", "shared", RunState::Succeeded));
    write(&store, graph("r2", "only", RunState::Succeeded));
    write(&store, graph("r3", "shared", RunState::Running));
    let mut edit = super::append("r3", &owner("a"), vec![turn(2, json!(1))]);
    edit.turns[0].events = vec![Event::GraphEdited {
        version: 2,
        graph: "edited".into(),
        note: Val::null(),
    }];
    edit.summary.graph = "edited".into();
    write(&store, edit);
    assert_eq!(removed(&store, 9_000, 0).0, ["r1", "r2"]);
    let has = |hash: &str| store.bundle(hash).is_ok();
    assert_eq!(
        ["shared", "only", "edited", "unused"].map(has),
        [true, false, true, true]
    );
    store.put_bundle("only", "only").expect("it is kept again");
    write(&store, graph("r4", "only", RunState::Running));
    assert!(has("only"));
}

/// Nothing of a removed run is listed, and its id is free.
pub fn a_collected_run_is_gone_whole(cluster: &impl Cluster) {
    let store = cluster.process();
    let mut commit = create("r1", "a", 2);
    commit.asked = vec![question("q1", "r1", 10)];
    write(&store, commit);
    let message = store.post("r1", 1, &Message::Pause).expect("r1 is there");
    write(
        &store,
        ending(
            super::append("r1", &owner("a"), Vec::new()),
            RunState::Failed,
        ),
    );
    assert_eq!(removed(&store, 9_000, 0).0, ["r1"]);
    assert_eq!(said(store.load("r1")), "there is no run r1");
    assert_eq!(said(store.claim("r1", "a")), "there is no run r1");
    assert_eq!(
        said(store.reply(message)),
        format!("there is no message {message}")
    );
    assert_eq!(store.questions(None).expect("listed"), []);
    write(&store, create("r1", "a", 3));
    assert_eq!(store.load("r1").expect("it is new"), turns(1, 3));
    let next = store.post("r1", 1, &Message::Pause).expect("r1 is there");
    assert!(next > message, "ids of messages are not used twice");
}
