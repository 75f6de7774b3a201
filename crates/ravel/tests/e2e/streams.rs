//! Items that are taken while a program still prints them.

use serde_json::json;

use crate::lab::{Lab, sorted_lines};

/// A program that prints one line, goes on when a file is there, and prints the rest. Each line is looked at, and then
/// written down once.
fn flow(folder: &str) -> String {
    format!(
        "ravel: 1
name: ahead
steps:
  list:
    run: \"echo one; until [ -e {folder}/go ]; do sleep 0.01; done; echo two; echo three\"
    effect: read
  all:
    for_each: {{ stream: list.stdout }}
    as: line
    steps:
      see: {{ run: \"echo {{{{ line }}}} >> {folder}/seen; SIGNAL\", effect: read }}
      note: {{ after: [see], run: \"echo {{{{ line }}}} >> {folder}/noted\" }}
    output: \"{{{{ line }}}}\"
output: {{ lines: \"{{{{ all }}}}\" }}
"
    )
}

#[test]
fn a_program_goes_on_when_the_step_of_its_first_line_has_run() {
    let lab = Lab::new();
    let folder = lab.path().display().to_string();
    let signal = format!("touch {folder}/go");
    lab.write("ahead.yaml", &flow(&folder).replace("SIGNAL", &signal));
    let done = lab.ravel(&["run", "ahead.yaml", "--json"]).expect(0);
    let last = done.lines().pop().unwrap();
    assert_eq!(last["output"], json!({ "lines": ["one", "two", "three"] }));
    assert_eq!(lab.read("seen").lines().next(), Some("one"));
    for file in ["seen", "noted"] {
        assert_eq!(
            sorted_lines(&lab.path().join(file)),
            ["one", "three", "two"]
        );
    }
}

#[test]
fn a_kill_in_the_middle_of_a_stream_repeats_no_item_and_no_effect() {
    let lab = Lab::new();
    let folder = lab.path().display().to_string();
    lab.write("ahead.yaml", &flow(&folder).replace("SIGNAL", "true"));
    let mut process = lab.start(&["run", "ahead.yaml", "--json"]);
    process
        .until(|line| line["type"] == "settled" && line["path"] == "all[0]/see")
        .unwrap_or_else(|| panic!("{}", process.errors()));
    let why = lab.ravel(&["runs", "why", "last"]).expect(0).out;
    assert!(
        why.contains("all: waits for more items from step list"),
        "{why}"
    );
    process.kill();
    assert_eq!(
        (lab.read("seen"), lab.read("noted")),
        ("one\n".to_owned(), String::new())
    );
    lab.write("go", "");
    lab.ravel(&["runs", "resume", "last", "-q"]).expect(0);
    assert_eq!(lab.newest()["state"], "succeeded");
    for file in ["seen", "noted"] {
        assert_eq!(
            sorted_lines(&lab.path().join(file)),
            ["one", "three", "two"]
        );
    }
    let replayed = lab.ravel(&["replay", "last", "--json"]).expect(0).json();
    assert_eq!(replayed["ok"], true);
}

#[test]
fn a_program_that_fails_after_its_first_lines_has_led_to_no_effect() {
    let lab = Lab::new();
    let folder = lab.path().display().to_string();
    let signal = format!("touch {folder}/go");
    let flow = flow(&folder).replace("SIGNAL", &signal);
    lab.write("ahead.yaml", &flow.replace("echo three", "exit 3"));
    lab.ravel(&["run", "ahead.yaml", "-q"]).expect(1);
    assert_eq!(lab.read("seen").lines().next(), Some("one"));
    assert_eq!(lab.read("noted"), "");
}
