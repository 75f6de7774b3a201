//! What a second terminal is told: accepted, queued, refused, and why; who was first, and when.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::lab::{Lab, eventually, text};

const TWO: &str = r#"
ravel: 1
name: two
signals: { user: { text: string } }
steps:
  a: { human: { ask: A?, form: { n: integer } } }
  b: { human: { ask: B?, form: { ok: boolean } } }
output: { n: "{{ a.n }}", ok: "{{ b.ok }}" }
"#;

fn id(lab: &Lab, path: &str) -> String {
    let questions = lab.questions();
    let question = questions.iter().find(|question| question["path"] == path);
    text(&question.unwrap()["id"])
}

/// The clock in the form of JSON documents.
fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

#[test]
fn a_question_of_a_stopped_run_takes_one_answer_and_says_whose() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    lab.ravel(&["run", "two.yaml", "--park"]).expect(4);
    let a = id(&lab, "a");
    let first = lab.ravel(&["answer", &a, "n=1", "--by", "ada"]).expect(0);
    assert!(
        first
            .err
            .starts_with("queued: the answer to a; no process works on the run now, "),
        "{}",
        first.err
    );
    let second = lab.ravel(&["answer", &a, "n=2", "--by", "bob"]).expect(7);
    let said = format!("error: an answer to {a} is queued already: by ada at ");
    assert!(second.err.starts_with(&said), "{}", second.err);
    assert!(
        second
            .err
            .contains(": {\"n\":1}\nhint: it is taken in at `ravel runs resume ")
    );

    let listed: Vec<Value> = lab
        .questions()
        .iter()
        .map(|question| {
            json!([
                question["path"],
                question["queued"]["by"],
                question["queued"]["value"]
            ])
        })
        .collect();
    assert_eq!(
        listed,
        [json!(["a", "ada", {"n": 1}]), json!(["b", null, null])]
    );
    let table = lab.ravel(&["answer", "--list"]).expect(0).out;
    assert!(table.contains("queued: by ada at "), "{table}");
    let why = lab.ravel(&["runs", "why", "last"]).expect(0).out;
    assert!(
        why.contains("      an answer is queued by ada at "),
        "{why}"
    );

    lab.ravel(&["answer", &a, "n=3", "--by", "bob", "--replace"])
        .expect(0);
    lab.ravel(&["answer", &id(&lab, "b"), "ok=true"]).expect(0);
    let done = lab.ravel(&["runs", "resume", "last", "--json"]).expect(0);
    assert_eq!(
        done.lines().pop().unwrap()["output"],
        json!({"n": 3, "ok": true})
    );
    let late = lab.ravel(&["answer", &a, "n=4"]).expect(7);
    let said = format!("error: question {a} (a) was answered by bob at ");
    assert!(late.err.starts_with(&said), "{}", late.err);
    assert!(late.err.ends_with(" with {\"n\":3}\n"), "{}", late.err);
}

#[test]
fn a_replacement_that_does_not_fit_leaves_the_first_answer() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    lab.ravel(&["run", "two.yaml", "--park"]).expect(4);
    let a = id(&lab, "a");
    lab.ravel(&["answer", &a, "n=1"]).expect(0);
    lab.ravel(&["answer", &a, "--json-value", "{\"n\":\"x\"}", "--replace"])
        .expect(2);
    let queued = lab.questions();
    assert_eq!(queued[0]["queued"]["value"], json!({"n": 1}));
}

#[test]
fn an_answer_after_the_deadline_is_refused_while_nobody_works_on_the_run() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: late
steps:
  ask: { human: { ask: A?, form: { n: integer }, deadline: 300ms, on_deadline: { n: 0 } } }
output: "{{ ask.n }}"
"#;
    lab.write("late.yaml", flow);
    let mut run = lab.start(&["run", "late.yaml", "--json"]);
    let asked = run.event("asked");
    run.kill();
    let until = text(&asked["until"]);
    // Times of one form are in the order of their texts.
    eventually("the deadline passes", || now() > until);
    let question = text(&asked["question"]);
    let run = text(&asked["run"]);
    let resume = format!("ravel runs resume {run}");
    let why = lab
        .ravel(&["runs", "why", "last", "--json"])
        .expect(0)
        .json();
    let reasons = why["reasons"].as_array().unwrap();
    let ask = reasons
        .iter()
        .find(|reason| reason["path"] == "ask")
        .unwrap();
    assert_eq!(ask["commands"], json!([resume]));
    let note = text(&ask["notes"][0]);
    assert!(
        note.starts_with("an answer comes too late: its time was over ")
            && note.ends_with(
                ", while no process worked on the run; resumed, it goes on with the value of `on_deadline`"
            ),
        "{note}"
    );
    assert_eq!(lab.questions()[0]["overdue"], json!(true));
    let listed = lab.ravel(&["answer", "--list"]).expect(0).out;
    assert!(listed.contains("too late: ravel runs resume "), "{listed}");
    let late = lab.ravel(&["answer", &question, "n=7"]).expect(7);
    let said = format!("error: the deadline of question {question} (ask) passed at ");
    assert!(late.err.starts_with(&said), "{}", late.err);
    let done = lab.ravel(&["runs", "resume", "last"]).expect(0);
    assert_eq!(done.out, "0\n");
    let closed = lab.ravel(&["answer", &question, "n=7"]).expect(7);
    let said = format!("error: question {question} (ask) was closed by its deadline at ");
    assert!(closed.err.starts_with(&said), "{}", closed.err);
}

#[test]
fn a_run_that_was_stopped_at_its_deadline_can_be_cancelled_and_ends_by_it() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: late
deadline: 300ms
steps:
  ask: { human: { ask: A?, form: { n: integer } } }
output: "{{ ask.n }}"
"#;
    lab.write("late.yaml", flow);
    let mut run = lab.start(&["run", "late.yaml", "--json"]);
    let asked = run.event("asked");
    run.kill();
    eventually("the deadline passes", || {
        lab.ravel(&["answer", "--list", "--json"]).json()["questions"][0]["overdue"] == json!(true)
    });
    let why = lab
        .ravel(&["runs", "why", "last", "--json"])
        .expect(0)
        .json();
    let reasons = why["reasons"].as_array().unwrap();
    let ask = reasons
        .iter()
        .find(|reason| reason["path"] == "ask")
        .unwrap();
    let resume = format!("ravel runs resume {}", text(&asked["run"]));
    assert_eq!(
        (&ask["commands"], &ask["notes"]),
        (
            &json!([resume]),
            &json!([
                "an answer comes too late: a deadline around it passed while no process worked on the run; resumed, it is stopped"
            ])
        )
    );
    let cancelled = lab.ravel(&["runs", "cancel", "last"]).expect(0);
    assert!(
        cancelled
            .err
            .starts_with("the run is at its end, which nobody recorded yet: run "),
        "{}",
        cancelled.err
    );
    let newest = lab.newest();
    assert_eq!(
        (&newest["state"], &newest["error"]["class"]),
        (&json!("failed"), &json!("deadline"))
    );
}

#[test]
fn cancels_at_once_of_a_stopped_run_end_it_together() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    for _ in 0..4 {
        lab.ravel(&["run", "two.yaml", "--park"]).expect(4);
        let cancels: Vec<_> = (0..4)
            .map(|_| {
                let mut cancel = lab.command(&["runs", "cancel", "last"]);
                let quiet = cancel.stdout(Stdio::null()).stderr(Stdio::piped());
                quiet.spawn().unwrap()
            })
            .collect();
        for cancel in cancels {
            let done = cancel.wait_with_output().unwrap();
            let said = String::from_utf8(done.stderr).unwrap();
            let code = done.status.code().unwrap();
            // One that comes when the run is over is told who was first.
            let over = code == 7 && said.contains(" was cancelled by tester at ");
            assert!(code == 0 || over, "{code}: {said}");
        }
        assert_eq!(lab.newest()["state"], "cancelled");
    }
}

#[test]
fn one_answer_for_different_forms_names_what_each_needs() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    lab.ravel(&["run", "two.yaml", "--park"]).expect(4);
    let none = lab.ravel(&["answer", "--all", "**", "x=1"]).expect(2);
    assert_eq!(
        none.err,
        "error: the answer fits no question: 2 questions asked for something else\n\
         hint: a: there is no field `x`; it is answered with n=1\n\
         hint: b: there is no field `x`; it is answered with ok=true\n"
    );
    let some = lab
        .ravel(&["answer", "--all", "**", "ok=true", "--json"])
        .expect(2);
    let states: Vec<Value> = some.json()["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["path"], one["state"]]))
        .collect();
    assert_eq!(
        states,
        [
            json!(["b", "queued"]),
            json!(["a", "open: there is no field `ok`"])
        ]
    );
    assert_eq!(
        some.err,
        "error: the answer does not fit 1 question, which stay open\n\
         hint: a: there is no field `ok`; it is answered with n=1\n"
    );
}

#[test]
fn a_signal_that_came_before_is_said_to_be_dropped() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    lab.ravel(&["run", "two.yaml", "--park"]).expect(4);
    let send = || lab.ravel(&["signal", "last", "user", "text=x", "--id", "m1", "--json"]);
    assert_eq!(send().expect(0).json()["state"], "queued");
    assert_eq!(send().expect(0).json()["state"], "known");
}

#[test]
fn a_cancel_says_who_was_first() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    lab.ravel(&["run", "two.yaml", "--park"]).expect(4);
    let run = text(&lab.newest()["id"]);
    lab.ravel(&["runs", "cancel", &run]).expect(0);
    let again = lab.ravel(&["runs", "cancel", &run]).expect(7);
    let said = format!("error: run {run} was cancelled by tester at ");
    assert!(again.err.starts_with(&said), "{}", again.err);
    let why = lab.ravel(&["runs", "why", &run]).expect(0).out;
    assert!(why.contains("the run was cancelled by tester at "), "{why}");
    let signal = lab.ravel(&["signal", &run, "user", "text=x"]).expect(7);
    assert!(signal.err.starts_with(&said), "{}", signal.err);
}

#[test]
fn a_sender_without_a_user_in_its_environment_has_the_name_of_its_login() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    lab.ravel(&["run", "two.yaml", "--park"]).expect(4);
    let cancel = ["runs", "cancel", "last"];
    let done = lab.command(&cancel).env_remove("USER").output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let login = std::process::Command::new("id").arg("-un").output();
    let login = String::from_utf8(login.unwrap().stdout).unwrap();
    let why = lab.ravel(&["runs", "why", "last"]).expect(0).out;
    let said = format!("the run was cancelled by {} at ", login.trim());
    assert!(why.contains(&said), "{why}");
}

#[test]
fn a_cancel_that_was_cut_short_says_so_and_is_finished_by_a_second_one() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: slow
steps:
  work: { run: "trap '' TERM; echo up > UP; sleep 600", effect: read }
output: "{{ work.code }}"
"#;
    let up = lab.path().join("up").display().to_string();
    lab.write("slow.yaml", &flow.replace("UP", &up));
    let mut going = lab.start(&["run", "slow.yaml", "--json"]);
    going.event("attempt_started");
    eventually("the process is there", || !lab.read("up").is_empty());
    lab.ravel(&["runs", "cancel", "last"]).expect(0);
    let known = lab.ravel(&["runs", "cancel", "last"]);
    // It may have been over already: then that is said.
    assert!(
        known
            .err
            .contains("is stopping already: its cancel was asked for by tester at ")
            || known.err.contains("was cancelled by tester at "),
        "{}",
        known.err
    );
    going.kill();
    if lab.newest()["state"] == "paused" {
        let why = lab.ravel(&["runs", "why", "last"]).expect(0).out;
        assert!(
            why.contains("the run is being cancelled, as asked by tester at "),
            "{why}"
        );
        lab.ravel(&["runs", "cancel", "last"]).expect(0);
    }
    assert_eq!(lab.newest()["state"], "cancelled");
}

#[test]
fn an_owner_that_is_stopped_is_said_to_live_and_be_silent() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    let mut run = lab.start(&["run", "two.yaml", "--json"]);
    run.event("asked");
    run.event("asked");
    run.signal("STOP");
    let a = id(&lab, "a");
    let unanswered = lab
        .ravel(&["answer", &a, "n=1", "--wait", "50ms"])
        .expect(5);
    assert!(
        unanswered
            .err
            .contains("works on the run but did not take it in within 50 ms")
            && unanswered
                .err
                .contains(" is stopped (Ctrl-Z or SIGSTOP): `kill -CONT "),
        "{}",
        unanswered.err
    );
    let second = lab
        .ravel(&["answer", &a, "n=2", "--wait", "50ms"])
        .expect(7);
    let first = format!("error: an answer to {a} is queued already: by tester at ");
    assert!(
        second.err.starts_with(&first)
            && second
                .err
                .contains(": {\"n\":1}\nhint: it is taken in when process "),
        "{}",
        second.err
    );
    let resume = lab.ravel(&["runs", "resume", "last"]).expect(7);
    assert!(
        resume
            .err
            .contains(", which lives but is stopped (Ctrl-Z or SIGSTOP)\n"),
        "{}",
        resume.err
    );
    let why = lab.ravel(&["runs", "why", "last"]).expect(0).out;
    assert!(
        why.contains(" owns the run and lives, but is stopped: 1 message for it, the oldest for "),
        "{why}"
    );
    run.signal("CONT");
    assert_eq!(run.event("answered")["value"], json!({"n": 1}));
    lab.ravel(&["answer", &id(&lab, "b"), "ok=true"]).expect(0);
    run.end().expect(0);
}

#[test]
fn an_uncertain_step_is_answered_with_a_line_that_can_be_copied() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: once
steps:
  pay: { run: "echo up > UP; sleep 600", effect: once }
output: "{{ pay.stdout }}"
"#;
    let up = lab.path().join("up").display().to_string();
    lab.write("once.yaml", &flow.replace("UP", &up));
    let mut going = lab.start(&["run", "once.yaml", "--json"]);
    eventually("the process is there", || !lab.read("up").is_empty());
    going.kill();
    lab.ravel(&["runs", "resume", "last", "--park"]).expect(4);
    let why = lab.ravel(&["runs", "why", "last"]).expect(0).out;
    let lines: Vec<&str> = why
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("ravel answer "))
        .collect();
    let question = text(&lab.questions()[0]["id"]);
    assert_eq!(
        lines,
        [
            format!("ravel answer {question} happened=true 'output:={{\"stdout\":\"TEXT\"}}'"),
            format!("ravel answer {question} not_done=retry"),
            format!("ravel answer {question} not_done=fail"),
        ]
    );
    // The list says the same, and so does a refusal.
    let ways = lines
        .iter()
        .map(|line| line.trim_start_matches(&format!("ravel answer {question} ")))
        .collect::<Vec<_>>()
        .join(" | ");
    let mut list = lab.command(&["answer", "--list"]);
    let listed = list.env_remove("COLUMNS").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains(&ways), "{listed}");
    let unfit = lab
        .ravel(&["answer", "--all", "**", "happened=true"])
        .expect(2);
    assert!(unfit.err.contains(&ways), "{}", unfit.err);
    lab.shell(lines[0]).expect(0);
    let done = lab.ravel(&["runs", "resume", "last"]).expect(0);
    assert_eq!(done.out, "TEXT\n");
}

#[test]
fn a_fork_at_an_open_question_has_a_question_of_its_own() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    let mut run = lab.start(&["run", "two.yaml", "--json"]);
    run.event("asked");
    let turn = run.event("asked")["turn"].to_string();
    let first: Vec<String> = lab
        .questions()
        .iter()
        .map(|open| text(&open["id"]))
        .collect();
    let run_id = text(&lab.newest()["id"]);
    lab.ravel(&["runs", "fork", &run_id, "--at", &turn, "--park"])
        .expect(4);
    let forked = text(&lab.newest()["id"]);
    let own: Vec<Value> = lab
        .questions()
        .into_iter()
        .filter(|open| open["run"] == forked.as_str())
        .collect();
    assert_eq!(own.len(), 2);
    assert!(own.iter().all(|open| !first.contains(&text(&open["id"]))));
    let all = |fields: &str, path: &str| {
        lab.ravel(&["answer", "--run", &forked, "--all", path, fields])
            .expect(0)
    };
    all("n=5", "a");
    all("ok=false", "b");
    let done = lab.ravel(&["runs", "resume", &forked, "--json"]).expect(0);
    assert_eq!(
        done.lines().pop().unwrap()["output"],
        json!({"n": 5, "ok": false})
    );
    assert_eq!(lab.questions().len(), 2);
    lab.ravel(&["answer", "--run", &run_id, "--all", "a", "n=1"])
        .expect(0);
    lab.ravel(&["answer", "--run", &run_id, "--all", "b", "ok=true"])
        .expect(0);
    run.end().expect(0);
}

#[test]
fn of_answers_at_once_to_a_stopped_run_one_is_queued() {
    let lab = Lab::new();
    lab.write("two.yaml", TWO);
    lab.ravel(&["run", "two.yaml", "--park"]).expect(4);
    let a = id(&lab, "a");
    let children: Vec<_> = (0..6)
        .map(|index| {
            let field = format!("n={index}");
            let mut answer = lab.command(&["answer", &a, &field, "--quiet"]);
            answer.stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let mut codes: Vec<i32> = children
        .into_iter()
        .map(|mut child| child.wait().unwrap().code().unwrap())
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 7, 7, 7, 7, 7]);
}
