//! Messages between processes.

use ravel_core::port::RunState;
use ravel_core::port_store::{Inbox, Log, Message, Ownership, Posted, Reply};
use ravel_core::value::Val;
use serde_json::json;

use super::{Cluster, append, create, ending, owner, turns, write};

fn answer(question: &str) -> Message {
    Message::Answer {
        question: question.into(),
        value: Val::new(json!({ "ok": true })),
        by: Some("ann".into()),
    }
}

fn rejected() -> Reply {
    Reply::Rejected {
        code: "unknown_question".into(),
        message: "there is no such question".into(),
    }
}

/// In the order of their ids, only those of the owner's runs, only those after a row.
pub fn messages_come_in_order_to_the_owner(cluster: &impl Cluster) {
    let engine = cluster.process();
    for (run, token) in [("r1", "a"), ("r2", "a"), ("r3", "b")] {
        write(&engine, create(run, token, 1));
    }
    let terminal = cluster.process();
    let messages = [
        ("r2", 30, answer("q2")),
        (
            "r1",
            20,
            Message::Signal {
                name: "user".into(),
                value: Val::new(json!("hi")),
                id: Some("s1".into()),
            },
        ),
        ("r3", 25, Message::Pause),
        (
            "r1",
            10,
            Message::Cancel {
                path: Some("draft".into()),
                by: None,
                reason: Some("not needed".into()),
            },
        ),
        (
            "r2",
            40,
            Message::Edit {
                base: 1,
                graph: "g2".into(),
                note: Val::null(),
            },
        ),
    ];
    let posted: Vec<Posted> = messages
        .into_iter()
        .map(|(run, at, message)| {
            let id = terminal.post(run, at, &message).expect("the run is there");
            Posted {
                id,
                run: run.into(),
                at,
                message,
            }
        })
        .collect();
    assert!(posted.is_sorted_by(|a, b| a.id < b.id));
    let of = |indexes: &[usize]| {
        indexes
            .iter()
            .map(|index| posted[*index].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        engine.fetch("a", 0).expect("it can be read"),
        of(&[0, 1, 3, 4])
    );
    assert_eq!(
        engine.fetch("a", posted[1].id).expect("it can be read"),
        of(&[3, 4])
    );
    assert_eq!(engine.fetch("b", 0).expect("it can be read"), of(&[2]));
    assert_eq!(engine.fetch("c", 0).expect("it can be read"), []);
    assert_eq!(engine.waiting("r1").expect("it can be read"), of(&[1, 3]));
    engine.release("r1", &owner("a")).expect("it is released");
    assert_eq!(engine.fetch("a", 0).expect("it can be read"), of(&[0, 4]));
    assert_eq!(engine.waiting("r1").expect("it can be read"), of(&[1, 3]));
}

/// The sender sees its reply when the turn is on disk; the message is not handed out again.
pub fn a_reply_is_written_with_its_turns(cluster: &impl Cluster) {
    let engine = cluster.process();
    write(&engine, create("r1", "a", 1));
    let terminal = cluster.process();
    let first = terminal.post("r1", 1, &answer("q1")).expect("r1 is there");
    let big = Message::Signal {
        name: "user".into(),
        value: Val::new(json!("x".repeat(50_000))),
        id: None,
    };
    let second = terminal.post("r1", 2, &big).expect("r1 is there");
    assert_eq!(terminal.reply(first).expect("it is there"), None);
    let mut commit = append("r1", &owner("a"), turns(2, 2));
    commit.taken = vec![(second, Reply::Accepted { turn: 2 })];
    write(&engine, commit);
    assert_eq!(
        terminal.reply(second).expect("it is there"),
        Some(Reply::Accepted { turn: 2 })
    );
    let rest: Vec<i64> = engine
        .fetch("a", 0)
        .expect("it can be read")
        .iter()
        .map(|posted| posted.id)
        .collect();
    assert_eq!(rest, [first]);
}

/// A refusal is told without a turn.
pub fn a_rejected_message_records_nothing(cluster: &impl Cluster) {
    let engine = cluster.process();
    write(&engine, create("r1", "a", 1));
    let id = engine.post("r1", 1, &answer("q9")).expect("r1 is there");
    engine.settle(&[(id, rejected())]).expect("it is settled");
    assert_eq!(engine.reply(id).expect("it is there"), Some(rejected()));
    assert_eq!(engine.waiting("r1").expect("it can be read"), []);
    assert_eq!(engine.load("r1").expect("r1 is there"), turns(1, 1));
    engine.settle(&[]).expect("nothing is settled");
}

/// A message is replied to once.
pub fn the_first_reply_stays(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 1));
    let id = store.post("r1", 1, &answer("q9")).expect("r1 is there");
    store.settle(&[(id, rejected())]).expect("it is settled");
    store
        .settle(&[(id, Reply::Accepted { turn: 3 })])
        .expect("the second one is ignored");
    assert_eq!(store.reply(id).expect("it is there"), Some(rejected()));
}

/// Nobody waits for ever for the reply of a run that is over.
pub fn a_message_to_a_finished_run_is_rejected(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 1));
    write(&store, create("r2", "a", 1));
    let before = store.post("r1", 1, &answer("q1")).expect("r1 is there");
    let other = store.post("r2", 1, &answer("q2")).expect("r2 is there");
    write(
        &store,
        ending(append("r1", &owner("a"), turns(2, 2)), RunState::Succeeded),
    );
    let after = store.post("r1", 2, &answer("q1")).expect("r1 is there");
    let over = Some(Reply::Rejected {
        code: "run_over".into(),
        message: "the run is over".into(),
    });
    let replies = [before, after, other].map(|id| store.reply(id).expect("it is there"));
    assert_eq!(replies, [over.clone(), over, None]);
    assert_eq!(store.waiting("r1").expect("it can be read"), []);
}

/// Whoever polls sees that there is something new, from another process or from its own.
pub fn the_version_changes_with_messages(cluster: &impl Cluster) {
    let engine = cluster.process();
    write(&engine, create("r1", "a", 1));
    let quiet = engine.version().expect("it can be read");
    write(&engine, append("r1", &owner("a"), turns(2, 2)));
    assert_eq!(
        engine.version().expect("it can be read"),
        quiet,
        "one's own commits are no news"
    );
    cluster
        .process()
        .post("r1", 1, &answer("q1"))
        .expect("r1 is there");
    let second = engine.version().expect("it can be read");
    assert_ne!(second, quiet);
    engine.post("r1", 1, &answer("q1")).expect("r1 is there");
    assert_ne!(engine.version().expect("it can be read"), second);
}
