//! Ctrl-C once and twice, TERM, and cancels.

use serde_json::json;

use crate::lab::{Lab, text};

const SLOW: &str = r#"
ravel: 1
name: slow
steps:
  - one: { run: "echo one >> $WORLD; until [ -e $GATE ]; do sleep 0.02; done", env: { WORLD: "W", GATE: "G" } }
  - two: { run: "echo two >> $WORLD", env: { WORLD: "W" } }
output: { done: true }
"#;

fn lab() -> Lab {
    let lab = Lab::new();
    let at = |name: &str| lab.path().join(name).display().to_string();
    lab.write(
        "slow.yaml",
        &SLOW
            .replace("\"W\"", &at("world"))
            .replace("\"G\"", &at("gate")),
    );
    lab
}

#[test]
fn ctrl_c_once_stops_after_what_is_under_way() {
    let lab = lab();
    let mut run = lab.start(&["run", "slow.yaml", "--json"]);
    let id = text(&run.event("attempt_started")["run"]);
    crate::lab::eventually("the step began", || lab.read("world") == "one\n");
    run.signal("INT");
    crate::lab::eventually("the stop was heard", || {
        run.errors().contains("Ctrl-C again stops now")
    });
    lab.write("gate", "");
    let done = run.end().expect(4);
    assert_eq!(done.lines().pop().unwrap()["state"], "paused");
    assert!(
        done.err
            .ends_with(&format!("resume with: ravel runs resume {id}\n")),
        "{}",
        done.err
    );
    // The step that was under way ended and counts: it does not run again.
    let resumed = lab.ravel(&["runs", "resume", &id, "--json"]).expect(0);
    assert_eq!(
        resumed.lines().pop().unwrap()["output"],
        json!({"done": true})
    );
    assert_eq!(lab.read("world"), "one\ntwo\n");
}

#[test]
fn ctrl_c_twice_stops_now_and_the_interrupted_once_is_asked_about() {
    let lab = lab();
    let mut run = lab.start(&["run", "slow.yaml", "--json"]);
    let id = text(&run.event("attempt_started")["run"]);
    crate::lab::eventually("the step began", || lab.read("world") == "one\n");
    run.signal("INT");
    crate::lab::eventually("the stop was heard", || {
        run.errors().contains("Ctrl-C again stops now")
    });
    run.signal("INT");
    let done = run.end().expect(4);
    assert_eq!(done.lines().pop().unwrap()["state"], "paused");
    let parked = lab.ravel(&["runs", "resume", &id, "--park"]).expect(4);
    assert!(parked.err.contains("? one: "), "{}", parked.err);
    let why = lab.ravel(&["runs", "why", &id]).expect(0).out;
    assert!(
        why.contains("one: is uncertain: it may or may not have happened."),
        "{why}"
    );
    lab.write("gate", "");
    lab.ravel(&["answer", "--all", "one", "not_done=retry"])
        .expect(0);
    lab.ravel(&["runs", "resume", &id]).expect(0);
    assert_eq!(lab.read("world"), "one\none\ntwo\n");
}

#[test]
fn a_cancel_of_a_paused_run_takes_it_over_and_ends_it() {
    let lab = lab();
    let mut run = lab.start(&["run", "slow.yaml", "--json"]);
    let id = text(&run.event("attempt_started")["run"]);
    run.kill();
    lab.write("gate", "");
    lab.ravel(&["runs", "cancel", &id, "--no-ask", "--park"]);
    let state = lab.newest()["state"].clone();
    // The lost `once` may have happened: it is asked about before the run is over.
    if state == "paused" {
        lab.ravel(&["answer", "--all", "one", "not_done=fail"])
            .expect(0);
        lab.ravel(&["runs", "resume", &id]).expect(3);
    }
    assert_eq!(lab.newest()["state"], "cancelled");
    let again = lab.ravel(&["runs", "cancel", &id]).expect(7);
    assert!(again.err.starts_with("error: "), "{}", again.err);
}
