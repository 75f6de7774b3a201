//! The views that docs/store.md describes, and every query on that page.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::path::Path;

use common::{batch, commit, start, step};
use ravel_core::effect::{ErrorClass, Failure, Fate, Usage};
use ravel_core::event::{Event, Settled, Topic, Turn};
use ravel_core::port::{Question, RunState};
use ravel_core::port_store::Log;
use ravel_core::value::Val;
use ravel_store::Sqlite;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

const PAGE: &str = include_str!("../../../docs/store.md");

/// A run with a failed step, a question and a fork of it.
fn filled(path: &Path) {
    let store = Sqlite::open(path).unwrap();
    let failure = Failure::new(ErrorClass::Unavailable, "no answer");
    let draft = Turn {
        turn: 3,
        at: 1_764_000_001_000,
        events: vec![
            Event::AttemptFinished {
                node: 3,
                number: 1,
                fate: Fate::NotDone,
                error: Some(failure.clone()),
                usage: Usage::default(),
                meta: None,
            },
            Event::Settled {
                node: 3,
                path: "draft".into(),
                state: Settled::Failed,
                value: None,
                error: Some(failure),
                skip: None,
            },
        ],
    };
    let approve = Turn {
        turn: 4,
        at: 1_764_000_001_500,
        events: vec![Event::Opened {
            node: 4,
            path: "approve".into(),
            with: None,
            keys: None,
            case: None,
        }],
    };
    let mut first = commit(
        "r1",
        true,
        vec![
            start("r1", "graph"),
            step(2, "classify", json!({ "text": "billing" })),
        ],
    );
    first.summary.usage = Usage {
        input_tokens: 100,
        cached_tokens: 0,
        output_tokens: 20,
        cost_microusd: 1_500,
    };
    first.summary.state = RunState::Waiting;
    first.summary.waits = vec![Val::new(
        json!({ "on": "person", "path": "approve", "until": 1_764_000_600_000_u64 }),
    )];
    let summary = first.summary.clone();
    store.commit(&batch(first)).unwrap();
    let mut second = commit("r1", false, vec![draft, approve]);
    second.summary = summary;
    second.asked = vec![Question {
        id: "q1".into(),
        run: "r1".into(),
        path: "approve".into(),
        topic: Topic::Human,
        ask: "Refund 30?".into(),
        form: Val::new(json!({ "type": "object" })),
        to: None,
        asked: 1_764_000_001_500,
        until: Some(1_764_000_600_000),
    }];
    store.commit(&batch(second)).unwrap();
    let mut fork = commit(
        "r2",
        true,
        vec![step(3, "draft", json!({ "text": "Dear" }))],
    );
    fork.summary.forked_from = Some(("r1".into(), 2));
    fork.summary.created += 86_400_000;
    fork.summary.updated += 86_400_000;
    store.commit(&batch(fork)).unwrap();
}

/// A view's rows as text, the way that `sqlite3` would print them.
fn rows(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(sql).unwrap();
    let columns = statement.column_count();
    statement
        .query_map([], |row| {
            let cell = |column| {
                Ok(match row.get::<_, Value>(column)? {
                    Value::Null => String::new(),
                    Value::Integer(number) => number.to_string(),
                    Value::Real(number) => number.to_string(),
                    Value::Text(text) => text,
                    Value::Blob(_) => "(bytes)".to_owned(),
                })
            };
            Ok((0..columns)
                .map(cell)
                .collect::<rusqlite::Result<Vec<_>>>()?
                .join("|"))
        })
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap()
}

fn reader(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

#[test]
fn views_show_what_the_log_holds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    filled(&path);
    let conn = reader(&path);
    assert_eq!(
        rows(
            &conn,
            "SELECT run, flow, state, created, seconds, cost_usd, tokens, turns, forked_from, forked_at FROM runs"
        ),
        [
            "r2|triage|running|2025-11-25 16:00:00.000|2|0|0|3|r1|2",
            "r1|triage|waiting|2025-11-24 16:00:00.000|2|0.0015|120|4||",
        ]
    );
    assert_eq!(
        rows(
            &conn,
            "SELECT run, path, state, seconds, cost_usd, tokens, attempts, error FROM steps"
        ),
        [
            "r1|classify|succeeded|0|0.0015|120|1|",
            "r1|draft|failed|0|0|0|0|no answer",
            "r1|approve|running||0|0|0|",
            "r2|classify|succeeded|0|0.0015|120|1|",
            "r2|draft|succeeded|0|0.0015|120|1|",
        ]
    );
    assert_eq!(
        rows(
            &conn,
            "SELECT turn, at, position, type, node, path FROM events WHERE run = 'r2' ORDER BY turn, position"
        ),
        [
            "1|2025-11-24 16:00:00.000|0|run_started||",
            "2|2025-11-24 16:00:00.500|0|attempt_started|2|classify",
            "2|2025-11-24 16:00:00.500|1|attempt_finished|2|",
            "2|2025-11-24 16:00:00.500|2|settled|2|classify",
            "3|2025-11-24 16:00:00.750|0|attempt_started|3|draft",
            "3|2025-11-24 16:00:00.750|1|attempt_finished|3|",
            "3|2025-11-24 16:00:00.750|2|settled|3|draft",
        ]
    );
    assert_eq!(
        rows(&conn, "SELECT * FROM costs"),
        [
            "triage|2025-11-25|1|0|0|0|0",
            "triage|2025-11-24|1|0.0015|100|0|20"
        ]
    );
    assert_eq!(
        rows(&conn, "SELECT run, flow, \"on\", path, until FROM waits"),
        ["r1|triage|person|approve|2025-11-24 16:10:00.000"]
    );
    assert_eq!(
        rows(&conn, "SELECT * FROM questions"),
        [
            "q1|r1|triage|approve|human|Refund 30?|{\"type\":\"object\"}||2025-11-24 16:00:01.500|2025-11-24 16:10:00.000"
        ]
    );
}

#[test]
fn every_query_of_the_page_works() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    filled(&path);
    let conn = reader(&path);
    let queries: Vec<&str> = PAGE
        .split("```sql\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().trim())
        .collect();
    assert!(queries.len() >= 10, "{}", queries.len());
    for query in queries {
        assert!(
            !rows(&conn, query).is_empty(),
            "nothing was found by: {query}"
        );
    }
}

#[test]
fn the_page_names_every_column_of_every_view() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    filled(&path);
    let conn = reader(&path);
    let views = ["runs", "steps", "events", "costs", "waits", "questions"];
    for view in views {
        let statement = conn.prepare(&format!("SELECT * FROM {view}")).unwrap();
        let columns = statement.column_names().collect::<Vec<_>>().join(", ");
        assert!(
            PAGE.contains(&format!("`{columns}`")),
            "`{view}` has the columns {columns}"
        );
    }
}

#[test]
fn the_page_names_every_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    filled(&path);
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'";
    for table in rows(&reader(&path), sql) {
        assert!(PAGE.contains(&format!("`{table}`")), "{table}");
    }
}

#[test]
fn questions_about_one_run_use_the_index_on_its_turns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    filled(&path);
    let plan = rows(
        &reader(&path),
        "EXPLAIN QUERY PLAN SELECT * FROM steps WHERE run = 'r1'",
    )
    .join("\n");
    assert!(plan.contains("USING INDEX turn_run (run=?)"), "{plan}");
    for sql in [
        "SELECT run FROM head WHERE phase = 1",
        "SELECT run FROM head WHERE due <= 5",
        "SELECT due FROM head WHERE due IS NOT NULL ORDER BY due",
    ] {
        let plan = rows(&reader(&path), &format!("EXPLAIN QUERY PLAN {sql}")).join("\n");
        assert!(plan.contains("INDEX head_"), "{plan}");
    }
}
