//! The thin slice through everything: checked, run, killed, resumed, answered from elsewhere, shown.

use serde_json::json;

use crate::lab::{Lab, text};

const FLOW: &str = r#"
ravel: 1
name: slice
input: { name: string }
returns: { said: string, ok: boolean }
steps:
  - before: { run: "echo before >> world; printf hello-%s {{ input.name }}", cwd: "." }
  - made: { set: { said: "{{ before.stdout }}" } }
  - approve: { human: { ask: "Say {{ made.said }}?", form: { ok: boolean } } }
  - after: { run: "echo after >> world", cwd: ".", when: approve.ok }
output: { said: "{{ made.said }}", ok: "{{ approve.ok }}" }
"#;

fn lab() -> Lab {
    let lab = Lab::new();
    // `cwd` is relative to the attempt's folder, so the world is named in full.
    lab.write(
        "slice.yaml",
        &FLOW.replace("\".\"", &format!("{:?}", lab.path().display().to_string())),
    );
    lab
}

#[test]
fn a_run_survives_kill_and_is_answered_from_a_second_process() {
    let lab = lab();
    lab.ravel(&["check", "slice.yaml"]).expect(0);
    let mut first = lab.start(&["run", "slice.yaml", "-i", "name=Ada", "--json"]);
    let asked = first.event("asked");
    first.kill();
    let run = text(&asked["run"]);
    assert_eq!(lab.newest()["state"], "paused");

    let mut second = lab.start(&["runs", "resume", &run[..13], "--json"]);
    second.event("recovered");
    let question = text(&asked["question"]);
    let answered = lab
        .ravel(&["answer", &question[..6], "ok=yes", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (answered["run"].as_str(), answered["state"].as_str()),
        (Some(run.as_str()), Some("accepted"))
    );
    let done = second.end().expect(0);
    let result = done.lines().pop().unwrap();
    assert_eq!(
        result,
        json!({
            "id": run, "state": "succeeded", "output": {"said": "hello-Ada", "ok": true}, "error": null,
            "cost": 0.0, "tokens": 0
        })
    );
    assert_eq!(lab.read("world"), "before\nafter\n");

    let shown = lab
        .ravel(&["runs", "show", "last", "--json"])
        .expect(0)
        .json();
    let states: Vec<(String, String)> = shown["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (text(&step["path"]), text(&step["state"])))
        .collect();
    let expected = ["before", "made", "approve", "after"]
        .map(|path| (path.to_owned(), "succeeded".to_owned()));
    assert_eq!(states, expected);
    assert_eq!(
        lab.ravel(&["replay", "last", "--json"]).expect(0).json()["ok"],
        true
    );
}

#[test]
fn an_answer_given_while_nobody_works_on_the_run_counts() {
    let lab = lab();
    let mut first = lab.start(&["run", "slice.yaml", "-i", "name=Ada", "--json"]);
    let asked = first.event("asked");
    first.kill();
    let queued = lab
        .ravel(&["answer", &text(&asked["question"]), "ok=false", "--json"])
        .expect(0)
        .json();
    assert_eq!(queued["state"], "queued");
    let done = lab.ravel(&["runs", "resume", "last", "--json"]).expect(0);
    assert_eq!(
        done.lines().pop().unwrap()["output"],
        json!({"said": "hello-Ada", "ok": false})
    );
    assert_eq!(lab.read("world"), "before\n");
}

#[test]
fn a_parked_run_ends_with_the_code_for_paused() {
    let lab = lab();
    let parked = lab
        .ravel(&["run", "slice.yaml", "-i", "name=Ada", "--park"])
        .expect(4);
    assert_eq!(parked.out, "");
    assert!(
        parked.err.contains("resume with: ravel runs resume "),
        "{}",
        parked.err
    );
    assert!(
        parked
            .err
            .contains("? approve: Say hello-Ada?\n  ravel answer q"),
        "{}",
        parked.err
    );
    let why = lab.ravel(&["runs", "why", "last"]).expect(0).out;
    assert!(
        why.contains("no process works on the run\n      ravel runs resume "),
        "{why}"
    );
    assert!(
        why.contains("approve: asks a person: Say hello-Ada?\n      ravel answer q"),
        "{why}"
    );
}

#[test]
fn init_takes_every_name_that_a_flow_may_have_and_offers_one_for_others() {
    let lab = Lab::new();
    for name in ["my-flow", "no", "null", "v1.2", "Mail"] {
        let file = format!("{name}.yaml");
        lab.ravel(&["init", "--force", "--name", name]).expect(0);
        lab.ravel(&["check", &file]).expect(0);
        let flow = lab.read(&file);
        assert!(flow.contains(&format!("ravel run {file}")), "{flow}");
    }
    for (name, offered) in [("My flow!", "My-flow"), ("2nd", "flow-2nd"), ("..", "flow")] {
        let said = lab.ravel(&["init", "--name", name]).expect(2).err;
        assert!(said.contains(&format!("call it `{offered}`")), "{said}");
    }
}

#[test]
fn init_writes_a_flow_that_checks_and_runs() {
    let lab = Lab::new();
    lab.ravel(&["init"]).expect(0);
    lab.ravel(&["check", "hello.yaml"]).expect(0);
    lab.ravel(&["run", "hello.yaml", "-i", "name=Ada", "--park"])
        .expect(4);
    let question = text(&lab.questions()[0]["id"]);
    lab.ravel(&["answer", &question, "ok=true"]).expect(0);
    let done = lab.ravel(&["runs", "resume", "last"]).expect(0);
    let output: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(output, json!({"greeting": "Hello, Ada!", "sent": true}));
    assert_eq!(
        lab.ravel(&["init"]).expect(2).err.lines().next(),
        Some("error: hello.yaml is there already")
    );
}
