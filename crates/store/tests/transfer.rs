//! A run as text, there and back.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{batch, commit, noise, step, steps, summary};
use ravel_core::event::{Event, Turn};
use ravel_core::port::{Question, RunState};
use ravel_core::port_store::{Filter, Listing, Log, Ownership};
use ravel_core::value::Val;
use ravel_store::Sqlite;
use serde_json::{Value, json};

fn store() -> (tempfile::TempDir, Sqlite) {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(directory.path().join("store.db")).unwrap();
    (directory, store)
}

fn exported(store: &Sqlite, run: &str) -> Vec<u8> {
    let mut text = Vec::new();
    store.export(run, &mut text).unwrap();
    text
}

fn question() -> Question {
    Question {
        id: "q1".into(),
        run: "r2".into(),
        path: "approve".into(),
        topic: ravel_core::event::Topic::Human,
        ask: "Well?".into(),
        form: Val::new(json!({ "type": "object" })),
        to: None,
        asked: 7,
        until: None,
    }
}

/// A fork with big values, an edited graph and a question.
fn filled() -> (tempfile::TempDir, Sqlite, Vec<Turn>) {
    let (directory, store) = store();
    let mut turns = vec![common::start("r1", "graph")];
    turns.extend((2..6).map(|turn| {
        step(
            turn,
            "s",
            json!({ "$blob": noise(1, 20_000 + 100 * turn as usize) }),
        )
    }));
    store
        .put_bundle("graph", "{\"name\":\"line\\nbreak\"}")
        .unwrap();
    store.put_bundle("edited", "{}").unwrap();
    store
        .commit(&batch(commit("r1", true, turns.clone())))
        .unwrap();
    let edit = Event::GraphEdited {
        version: 2,
        graph: "edited".into(),
        note: Val::null(),
    };
    let mut own = vec![Turn {
        turn: 5,
        at: 1,
        events: vec![edit],
    }];
    own.extend(steps(6, 7));
    let mut fork = commit("r2", true, own.clone());
    fork.summary.graph = "edited".into();
    fork.summary.forked_from = Some(("r1".into(), 4));
    fork.summary.output = Some(Val::new(json!(noise(9, 30_000))));
    fork.summary.state = RunState::Waiting;
    fork.asked = vec![question()];
    store.commit(&batch(fork)).unwrap();
    turns.truncate(4);
    turns.extend(own);
    (directory, store, turns)
}

#[test]
fn an_exported_run_is_whole_elsewhere() {
    let (_directory, from, turns) = filled();
    let text = exported(&from, "r2");
    let (_other_directory, to) = store();
    assert_eq!(&*to.import(&mut &*text).unwrap(), "r2");
    assert!(to.load("r2").unwrap() == turns);
    assert_eq!(to.verify("r2").unwrap(), from.verify("r2").unwrap());
    let listed = |store: &Sqlite| {
        store
            .runs(&Filter {
                id_prefix: Some("r2".into()),
                ..Filter::default()
            })
            .unwrap()
    };
    assert_eq!(listed(&to), listed(&from));
    assert_eq!(to.questions(None).unwrap(), [question()]);
    assert_eq!(to.owner("r2").unwrap(), None);
    assert_eq!(
        ["graph", "edited"].map(|hash| to.bundle(hash).unwrap()),
        ["{\"name\":\"line\\nbreak\"}", "{}"]
    );
    assert!(
        exported(&to, "r2") == text,
        "an export of an import is the same text"
    );
    let owner = to.claim("r2", "b").unwrap();
    let mut next = commit("r2", false, steps(8, 8));
    next.owner = owner;
    to.commit(&batch(next)).unwrap();
}

#[test]
fn every_line_is_json() {
    let (_directory, store, _) = filled();
    let text = exported(&store, "r2");
    let lines: Vec<Value> = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let kinds: Vec<&str> = lines
        .iter()
        .map(|line| line.as_object().unwrap().keys().next().unwrap().as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "run", "bundle", "bundle", "question", "turn", "value", "turn", "value", "turn",
            "value", "turn", "turn", "turn", "turn"
        ]
    );
}

#[test]
fn an_import_is_all_or_nothing() {
    let (_directory, from, _) = filled();
    let text = String::from_utf8(exported(&from, "r2")).unwrap();
    let (_other_directory, to) = store();
    let lines: Vec<&str> = text.lines().collect();
    let without = |skip: usize| {
        let kept: Vec<&str> = lines
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != skip)
            .map(|(_, line)| *line)
            .collect();
        kept.join("\n")
    };
    let said = |text: String| to.import(&mut text.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        said(String::new()),
        "the store is damaged: this is not an exported run"
    );
    assert_eq!(
        said(without(0)),
        "the store is damaged: this is not an exported run"
    );
    assert_eq!(said(without(4)), "run r2 expected turn 1 and was given 2");
    assert!(said(without(5)).starts_with("the store is damaged: the export lacks the value "));
    let lost =
        "the store is damaged: the export of run r2 does not have the turns that were written";
    assert_eq!(said(without(lines.len() - 1)), lost);
    assert_eq!(said(text.replace("value 6", "value 5")), lost);
    assert_eq!(
        said(text.replace("\"format\":1", "\"format\":2")),
        "the store has format 2, this program knows up to 1"
    );
    assert!(
        said(text.replace("{\"question\"", "{\"questions\""))
            .contains("a line that cannot be read")
    );
    assert_eq!(to.runs(&Filter::default()).unwrap(), []);
    to.import(&mut text.as_bytes()).unwrap();
    assert_eq!(said(text), "run r2 exists already");
    assert_eq!(
        summary("r2", RunState::Waiting).run,
        to.runs(&Filter::default()).unwrap()[0].run
    );
}
