//! What the commands that look at runs say: one form of times, plain commands, values that are cut where people read.

use serde_json::{Value, json};

use crate::lab::{Lab, text};

/// Keys whose values are points in time, in every document.
const TIMES: [&str; 9] = [
    "at", "until", "due", "wake_at", "created", "updated", "asked", "began", "ended",
];

/// Every point in time in a document that is not in the one form, with its key.
fn wrong_times(document: &Value, wrong: &mut Vec<String>) {
    match document {
        Value::Object(fields) => {
            for (key, value) in fields {
                let is_form = |text: &str| text.len() == 24 && text.ends_with('Z');
                let fits = value.is_null() || value.as_str().is_some_and(is_form);
                if TIMES.contains(&key.as_str()) && !fits {
                    wrong.push(format!("{key}: {value}"));
                }
                wrong_times(value, wrong);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| wrong_times(item, wrong)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const CLOCKS: &str = r#"
ravel: 1
name: clocks
signals: { go: { text: string } }
steps:
  pauses: { run: "echo x >> WORLD; [ $(wc -l < WORLD) -ge 2 ]", effect: read, retry: { attempts: 2, backoff: 10ms..10ms, errors: [tool_error] } }
  each:
    for_each: { stream: list.stdout }
    as: line
    steps: { one: { set: "{{ line }}" } }
  list: { run: "echo a; sleep 0.2; echo b" }
  asks: { human: { ask: "Go?", form: { ok: boolean }, deadline: 10m, on_deadline: fail }, after: [pauses, each] }
  waits: { wait: { signal: go, deadline: 10m, on_deadline: { text: none } }, after: [pauses, each] }
  sleeps: { wait: 10m, after: [pauses, each] }
"#;

#[test]
fn every_document_has_one_form_of_times_and_why_has_commands_that_run() {
    let lab = Lab::new();
    let world = lab.path().join("world").display().to_string();
    lab.write("clocks.yaml", &CLOCKS.replace("WORLD", &world));
    let parked = lab
        .ravel(&["run", "clocks.yaml", "--json", "--park"])
        .expect(4);
    let mut wrong = Vec::new();
    for line in parked.lines() {
        wrong_times(&line, &mut wrong);
    }
    let log = lab.ravel(&["runs", "log", "last", "--json"]).expect(0);
    let kinds: Vec<String> = log.lines().iter().map(|line| text(&line["type"])).collect();
    for kind in [
        "retry_scheduled",
        "items_taken",
        "stream_ended",
        "asked",
        "wait_started",
    ] {
        assert!(
            kinds.iter().any(|known| known == kind),
            "no {kind}: {kinds:?}"
        );
    }
    for line in log.lines() {
        wrong_times(&line, &mut wrong);
    }
    for arguments in [
        &["runs", "show", "last", "--json"][..],
        &["runs", "list", "--json"],
        &["runs", "why", "last", "--json"],
        &["answer", "--list", "--json"],
    ] {
        wrong_times(&lab.ravel(arguments).expect(0).json(), &mut wrong);
    }
    assert_eq!(wrong, Vec::<String>::new());

    let why = lab
        .ravel(&["runs", "why", "last", "--json"])
        .expect(0)
        .json();
    let of = |path: &str| {
        let reasons = why["reasons"].as_array().unwrap();
        reasons
            .iter()
            .find(|reason| reason["path"] == path)
            .unwrap()
            .clone()
    };
    let run = text(&why["id"]);
    assert_eq!(
        of("waits")["commands"],
        json!([format!("ravel signal {run} go text=TEXT")])
    );
    let note = |path: &str| text(&of(path)["notes"][0]);
    assert!(
        note("asks").starts_with("without that, it fails with `deadline` in 9m 5"),
        "{why}"
    );
    assert!(
        note("waits")
            .starts_with("without that, it goes on with the value of `on_deadline` in 9m 5"),
        "{why}"
    );
    for reason in why["reasons"].as_array().unwrap() {
        for command in reason["commands"].as_array().unwrap() {
            if text(command).contains(" resume ") {
                continue;
            }
            lab.shell(&text(command)).expect(0);
        }
    }
}

#[test]
fn a_long_value_is_cut_where_people_read_and_whole_where_programs_do() {
    let lab = Lab::new();
    let flow = "
ravel: 1
name: long
input: { end: string, long: string }
steps:
  made: { set: \"{{ input.long ~ input.end }}\" }
output: '{{ made }}'
";
    lab.write("long.yaml", flow);
    let long = format!("long={}", "a".repeat(5000));
    for end in ["end=left", "end=right"] {
        lab.ravel(&["run", "long.yaml", "-i", &long, "-i", end, "-q"])
            .expect(0);
    }
    let runs = lab.ravel(&["runs", "--json"]).expect(0).json();
    let id = |index: usize| text(&runs["runs"][index]["id"]);
    let (left, right) = (id(1), id(0));
    let wide = |arguments: &[&str]| {
        let mut command = lab.command(arguments);
        let output = command.env("COLUMNS", "100000").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let differ = wide(&["runs", "diff", &left, &right]);
    assert!(
        differ.contains("aaaaleft\" (4.8 KiB)") && differ.contains("aaaaright\" (4.8 KiB)"),
        "{differ}"
    );
    assert!(
        differ.len() < 2_000 && differ.contains("--value-chars"),
        "{differ}"
    );
    let whole = wide(&["runs", "diff", &left, &right, "--value-chars", "0"]);
    assert!(whole.contains(&format!("{}right", "a".repeat(5000))));
    let shown = wide(&["runs", "show", &left, "--values"]);
    assert!(
        shown.contains(&format!("\"{}… (4.8 KiB)", "a".repeat(199))) && shown.len() < 10_000,
        "{shown}"
    );
    let programs = lab
        .ravel(&["runs", "diff", &left, &right, "--json"])
        .expect(1);
    assert!(programs.out.contains(&format!("{}right", "a".repeat(5000))));
}

const LADDER: &str = r#"
ravel: 1
name: ladder
steps:
  bad: { run: "exit 3", catch: [{ errors: [tool_error], output: { code: 0 } }] }
  late: { human: { ask: "Now?", form: { ok: boolean }, deadline: 10ms, on_deadline: { ok: false } } }
  slow: { run: "sleep 60", deadline: 50ms, effect: read, catch: [{ errors: [deadline], output: { code: 0 } }] }
  fine: { set: 1 }
"#;

#[test]
fn why_says_of_a_success_what_was_caught_and_which_deadline_passed() {
    let lab = Lab::new();
    lab.write("ladder.yaml", LADDER);
    lab.ravel(&["run", "ladder.yaml", "--no-ask"]).expect(0);
    let why = lab
        .ravel(&["runs", "why", "last", "--json"])
        .expect(0)
        .json();
    let mut told: Vec<(String, String)> = why["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| (text(&reason["path"]), text(&reason["why"])))
        .collect();
    told.sort();
    let paths: Vec<&str> = told.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["bad", "late", "slow"]);
    assert!(
        told[0]
            .1
            .starts_with("failed, and `catch[0]` took it up: tool_error"),
        "{told:?}"
    );
    assert_eq!(
        told[1].1,
        "nobody answered in time: it went on with the value of `on_deadline`"
    );
    assert!(
        told[2]
            .1
            .starts_with("failed, and `catch[0]` took it up: deadline"),
        "{told:?}"
    );
}

#[test]
fn an_uncertain_step_says_which_deadline_stopped_it_and_that_it_holds_the_run() {
    let lab = Lab::new();
    let up = lab.path().join("up").display().to_string();
    let flow = "
ravel: 1
name: held
deadline: 300ms
steps:
  pay: { run: 'echo up > UP; sleep 600', effect: once }
";
    lab.write("held.yaml", &flow.replace("UP", &up));
    lab.ravel(&["run", "held.yaml", "--park"]).expect(4);
    let why = lab
        .ravel(&["runs", "why", "last", "--json"])
        .expect(0)
        .json();
    let reasons = why["reasons"].as_array().unwrap();
    let pay = reasons
        .iter()
        .find(|reason| reason["path"] == "pay")
        .unwrap();
    let question = text(&lab.questions()[0]["id"]);
    let ways = json!([
        format!("ravel answer {question} happened=true 'output:={{\"stdout\":\"TEXT\"}}'"),
        format!("ravel answer {question} not_done=fail"),
    ]);
    assert_eq!(
        pay["commands"], ways,
        "a scope that is over tries nothing again"
    );
    let choices = |form: &Value| form["properties"]["not_done"]["enum"].clone();
    assert_eq!(choices(&lab.questions()[0]["form"]), json!(["fail"]));
    let shown = lab.ravel(&["runs", "show", "last"]).expect(0).out;
    assert!(!shown.contains("not_done=retry"), "{shown}");
    let note = text(&pay["notes"][0]);
    assert!(
        note.starts_with("stopped because the deadline of the run passed ")
            && note.ends_with("; the run ends when this is answered"),
        "{why}"
    );
    lab.ravel(&["answer", "--all", "pay", "not_done=fail"])
        .expect(0);
    lab.ravel(&["runs", "resume", "last"]).expect(1);
}

#[test]
fn the_reason_of_a_cancel_is_kept_and_told() {
    let lab = Lab::new();
    lab.write(
        "asks.yaml",
        "ravel: 1\nname: asks\nsteps:\n  a: { human: { ask: 'Go?', form: { ok: boolean } } }\n",
    );
    lab.ravel(&["run", "asks.yaml", "--park"]).expect(4);
    lab.ravel(&["runs", "cancel", "last", "--reason", "wrong file"])
        .expect(0);
    let shown = lab
        .ravel(&["runs", "show", "last", "--json"])
        .expect(0)
        .json();
    let cancel = &shown["cancels"][0];
    assert_eq!(
        json!([cancel["path"], cancel["by"], cancel["reason"]]),
        json!(["", "tester", "wrong file"])
    );
    for (command, start) in [
        ("why", "the run was cancelled by tester at "),
        ("show", "the cancel of the run was asked for by tester at "),
    ] {
        let said = lab.ravel(&["runs", command, "last"]).expect(0).out;
        let line = said.lines().find(|line| line.contains(start)).unwrap();
        assert!(line.ends_with("): wrong file"), "{said}");
    }
    let listed = lab.newest()["cancel"].clone();
    assert_eq!(&listed, cancel);
    let listed = lab.ravel(&["runs"]).expect(0).out;
    let (heads, row) = listed.split_once('\n').unwrap();
    assert!(
        heads.ends_with("  why") && row.contains("  wrong file "),
        "{listed}"
    );
    let log = lab.ravel(&["runs", "log", "last", "--json"]).expect(0);
    let lines = log.lines();
    let asked = lines.iter().find(|line| line["type"] == "cancel_requested");
    assert_eq!(asked.unwrap()["reason"], "wrong file");
}

#[test]
fn a_problem_of_a_flow_that_two_files_call_is_told_once() {
    let lab = Lab::new();
    lab.write(
        "shared.yaml",
        "ravel: 1\nname: shared\nsteps:\n  a: { run: 'exit 1', effect: read, retry: 2 }\n",
    );
    for name in ["one", "two"] {
        lab.write(
            &format!("{name}.yaml"),
            &format!("ravel: 1\nname: {name}\nflows: {{ sub: ./shared.yaml }}\nsteps:\n  call: {{ flow: sub }}\n"),
        );
    }
    let of = |files: &[&str]| {
        let arguments = [&["check"], files, &["--json"]].concat();
        let checked = lab.ravel(&arguments);
        (checked.code, checked.json()["diagnostics"].clone())
    };
    let one = of(&["one.yaml"]);
    assert_eq!(one.1.as_array().map(Vec::len), Some(1), "{one:?}");
    assert_eq!(of(&["one.yaml", "two.yaml", "shared.yaml"]), one);
}

/// What `why` says of the newest run: path, sentence and notes of each reason, without places of files.
fn told(lab: &Lab) -> Vec<(String, String, Vec<String>)> {
    let why = lab.ravel(&["runs", "why", "last", "--json"]).expect(0);
    let reasons = why.json()["reasons"].as_array().unwrap().clone();
    let of_place = |note: &String| note.starts_with("flow.yaml:") || note.starts_with('{');
    let notes = |reason: &Value| -> Vec<String> {
        let notes = reason["notes"].as_array().unwrap().iter().map(text);
        notes.filter(|note| !of_place(note)).collect()
    };
    let reason = |reason: &Value| (text(&reason["path"]), text(&reason["why"]), notes(reason));
    reasons.iter().map(reason).collect()
}

fn said(path: &str, why: &str, notes: &[&str]) -> (String, String, Vec<String>) {
    let notes = notes.iter().map(ToString::to_string).collect();
    (path.to_owned(), why.to_owned(), notes)
}

#[test]
fn why_says_of_a_caught_failure_who_took_it_up_and_what_was_undone() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: undone
steps:
  - publish: { run: "true", compensate: { run: "true" } }
  - around:
      steps:
        announce: { run: "exit 3", effect: read }
catch: [{ output: "taken back" }]
"#;
    lab.write("flow.yaml", flow);
    lab.ravel(&["run", "flow.yaml"]).expect(0);
    let error = "tool_error (exit_3): exited with code 3";
    let by = "(`catch[0]` of the flow took it up)";
    assert_eq!(
        told(&lab),
        [
            said("around/announce", &format!("run failed: {error} {by}"), &[]),
            said("around", &format!("failed with it: {error} {by}"), &[]),
            said(
                "",
                &format!("the flow failed, and `catch[0]` took it up: {error}"),
                &[]
            ),
            said("publish", "its effect was undone by its `compensate`", &[]),
        ]
    );
}

#[test]
fn why_says_of_a_time_budget_which_it_is_and_what_it_stopped() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: spent
budget: { time: 300ms }
steps:
  work: { run: "sleep 600", effect: read }
"#;
    lab.write("flow.yaml", flow);
    lab.ravel(&["run", "flow.yaml"]).expect(1);
    assert_eq!(
        told(&lab),
        [said(
            "",
            "the run failed with budget_exceeded: the budget of the flow is used up: its active time is spent",
            &[
                "it began in the flow itself: its `budget.time` is 300 ms",
                "it stopped `work`"
            ]
        )]
    );
}

#[test]
fn why_tells_tolerated_items_as_one_with_a_line_for_each_way_to_fail() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: some
steps:
  all:
    for_each: "{{ range(9) | list }}"
    as: n
    tolerate: 100%
    steps:
      try: { run: "exit {{ 4 if n == 8 else (3 if n > 0 else 0) }}", effect: read }
"#;
    lab.write("flow.yaml", flow);
    lab.ravel(&["run", "flow.yaml"]).expect(0);
    assert_eq!(
        told(&lab),
        [said(
            "all",
            "8 of 9 items failed, which `tolerate` allows: they are not in its value",
            &[
                "all[1], all[2], all[3], all[4], all[5] and 2 more: tool_error (exit_3): exited with code 3 (flow.yaml:10:7)",
                "all[8]: tool_error (exit_4): exited with code 4 (flow.yaml:10:7)",
            ]
        )]
    );
}
