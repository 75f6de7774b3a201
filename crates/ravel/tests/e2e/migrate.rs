//! A flow file that changes while its runs wait.

use serde_json::json;

use crate::lab::{Lab, text};

const FIRST: &str = r#"
ravel: 1
name: letters
steps:
  draft: { run: "echo draft >> WORLD; echo first", effect: once }
  approve: { human: { ask: Send?, form: { ok: boolean } } }
  send: { after: approve, run: "echo sent as {{ draft.stdout | trim }}" }
output: "{{ send.stdout | trim }}"
"#;

fn second() -> String {
    FIRST.replace("echo sent as", "echo posted as").replace(
        "output:",
        "  note: { after: send, run: \"echo logged >> WORLD\", effect: once }\noutput:",
    )
}

/// The flow with the file that it writes to outside.
fn write(lab: &Lab, flow: &str) {
    let world = lab.path().join("did");
    let text = flow.replace("WORLD", &world.display().to_string());
    lab.write("letters.yaml", &text);
}

fn parked(lab: &Lab) -> String {
    write(lab, FIRST);
    lab.ravel(&["run", "letters.yaml", "--park"]).expect(4);
    text(&lab.newest()["id"])
}

fn answered(lab: &Lab, run: &str) {
    let questions = lab.questions();
    let question = questions
        .iter()
        .find(|question| question["run"] == run)
        .unwrap();
    lab.ravel(&["answer", &text(&question["id"]), "ok=true"])
        .expect(0);
}

#[test]
fn a_run_keeps_the_flow_it_was_started_with_whatever_becomes_of_the_file() {
    let lab = Lab::new();
    let run = parked(&lab);
    write(&lab, &second());
    answered(&lab, &run);
    let done = lab.ravel(&["runs", "resume", &run]).expect(0);
    assert_eq!(done.out, "sent as first\n");
}

#[test]
fn a_migrated_run_goes_on_under_the_new_flow_and_repeats_nothing() {
    let lab = Lab::new();
    let run = parked(&lab);
    write(&lab, &second());
    let fits = lab
        .ravel(&["runs", "migrate", &run, "letters.yaml", "--check", "--json"])
        .expect(0);
    assert_eq!(
        fits.json(),
        json!({ "run": run, "state": "fits", "version": 2 })
    );
    lab.ravel(&[
        "runs",
        "migrate",
        &run,
        "letters.yaml",
        "--note",
        "post it",
        "--park",
    ])
    .expect(4);
    answered(&lab, &run);
    let done = lab.ravel(&["runs", "resume", &run]).expect(0);
    assert_eq!(done.out, "posted as first\n");
    assert_eq!(lab.read("did"), "draft\nlogged\n");
    let log = lab.ravel(&["runs", "log", &run]).expect(0).out;
    assert!(log.contains("  graph_edited  version=2 "), "{log}");
    lab.ravel(&["replay", &run]).expect(0);
}

#[test]
fn a_change_of_what_has_run_is_refused_whole() {
    let lab = Lab::new();
    let run = parked(&lab);
    write(&lab, &FIRST.replace("echo first", "echo second"));
    for arguments in [&["--check"][..], &[]] {
        let mut command = vec!["runs", "migrate", &run, "letters.yaml"];
        command.extend(arguments);
        let refused = lab.ravel(&command).expect(7);
        assert!(
            refused
                .err
                .contains("the edit changes `draft`, which has been activated"),
            "{}",
            refused.err
        );
    }
    answered(&lab, &run);
    let done = lab.ravel(&["runs", "resume", &run]).expect(0);
    assert_eq!(done.out, "sent as first\n");
}
