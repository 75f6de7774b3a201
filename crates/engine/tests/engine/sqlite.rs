//! The same engine on the store that people use.

use std::sync::Arc;

use ravel_core::port_store::{Listing, Log, Message, Reply, Store};
use ravel_engine::{Engine, Pending, Progress};
use ravel_store::Sqlite;
use serde_json::json;

use super::support::{Rig, echo, flow, lock};

const FLOW: &str = "
ravel: 1
name: on_disk
steps:
  - look: { tool: t.look, with: { v: 1 }, effect: read }
  - act: { tool: t.act, with: { v: '{{ look.v }}' }, effect: once }
  - ask: { human: { ask: 'go on?', form: { ok: boolean } } }
  - end: { tool: t.act, with: { v: '{{ ask.ok }}' }, effect: once }
output: '{{ end.v }}'
";

#[test]
fn a_run_on_sqlite_is_killed_resumed_answered_and_verified() {
    let rig = Rig::new(echo);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.db");
    let open = || {
        let sqlite = Arc::new(Sqlite::open(&path).unwrap());
        let (mut config, _) = rig.config(None);
        config.store = Arc::clone(&sqlite) as Arc<dyn Store>;
        // Nothing here knows in the test's world what SQLite has committed.
        (Engine::manual(config), sqlite)
    };
    let drive = |driver: &mut ravel_engine::Driver| while driver.cycle() == Progress::Busy {};

    let ((engine, mut driver), sqlite) = open();
    let started = engine.begin(rig.request(&flow(FLOW), json!({})));
    drive(&mut driver);
    let run = started.poll().unwrap().unwrap();
    assert_eq!(rig.world.paths(), ["look", "act"]);
    drop((engine, driver, sqlite));

    let ((engine, mut driver), sqlite) = open();
    let (then, resumed) = Pending::new();
    engine.resume_then(&run, then);
    drive(&mut driver);
    assert_eq!(resumed.poll().unwrap(), Ok(run.clone()));
    let question = sqlite.questions(Some(&run)).unwrap().remove(0).id;
    let (then, reply) = Pending::new();
    let value = json!({ "ok": true }).into();
    engine.post_then(
        &run,
        Message::Answer {
            question,
            value,
            by: None,
        },
        then,
    );
    let (then, ended) = Pending::new();
    engine.wait_then(&run, then);
    drive(&mut driver);
    assert!(matches!(reply.poll().unwrap(), Ok(Reply::Accepted { .. })));
    assert_eq!(
        ended.poll().unwrap().unwrap().output,
        Some(json!(true).into())
    );
    assert_eq!(
        rig.world.paths(),
        ["look", "act", "end"],
        "what was on disk does not run again"
    );
    let turns = sqlite.load(&run).unwrap().len() as u64;
    assert_eq!(sqlite.verify(&run).unwrap().turns, turns);
    assert!(lock(&rig.world.state).open.is_empty());
}
