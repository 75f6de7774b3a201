//! Several people, several terminals, one store.

use serde_json::json;

use crate::lab::{Lab, text};

const THREE: &str = r#"
ravel: 1
name: three
steps:
  a: { human: { ask: A?, form: { n: integer } } }
  b: { human: { ask: B?, form: { n: integer } } }
  c: { human: { ask: C?, form: { n: integer } } }
  sum: { set: "{{ a.n * 100 + b.n * 10 + c.n }}" }
output: "{{ sum }}"
"#;

const OTHER: &str = "
ravel: 1
name: other
steps:
  one: { run: echo other }
output: \"{{ one.stdout | trim }}\"
";

#[test]
fn three_questions_are_answered_out_of_order_while_another_flow_runs_on_the_store() {
    let lab = Lab::new();
    lab.write("three.yaml", THREE);
    lab.write("other.yaml", OTHER);
    let mut waiting = lab.start(&["run", "three.yaml", "--json"]);
    for _ in 0..3 {
        waiting.event("asked");
    }
    let other = lab.ravel(&["run", "other.yaml"]).expect(0);
    assert_eq!(other.out, "other\n");

    let questions = lab.questions();
    let id = |path: &str| {
        let question = questions
            .iter()
            .find(|question| question["path"] == path)
            .unwrap();
        text(&question["id"])
    };
    assert_eq!(questions.len(), 3);
    lab.ravel(&["answer", &id("c"), "n=3"]).expect(0);
    lab.ravel(&["answer", &id("a"), "n=1"]).expect(0);
    let again = lab.ravel(&["answer", &id("c"), "n=9"]).expect(7);
    let said = format!("error: question {} (c) was answered by tester at ", id("c"));
    assert!(again.err.starts_with(&said), "{}", again.err);
    assert!(again.err.ends_with(" with {\"n\":3}\n"), "{}", again.err);
    lab.ravel(&["answer", &id("b"), "--json-value", "{\"n\": 2}"])
        .expect(0);
    let done = waiting.end().expect(0);
    assert_eq!(done.lines().pop().unwrap()["output"], json!(123));

    let runs = lab.ravel(&["runs", "--json"]).expect(0).json();
    let listed: Vec<(String, String)> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (text(&run["flow"]), text(&run["state"])))
        .collect();
    assert_eq!(
        listed,
        [("other", "succeeded"), ("three", "succeeded")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
}

#[test]
fn a_wrong_answer_is_refused_and_the_question_stays_open() {
    let lab = Lab::new();
    lab.write("three.yaml", THREE);
    lab.ravel(&["run", "three.yaml", "--park"]).expect(4);
    let id = text(&lab.questions()[0]["id"]);
    let texts = [
        (
            vec!["n=many"],
            2,
            "error: `n` must be an integer, and `many` is not",
        ),
        (vec!["m=1"], 2, "error: there is no field `m`"),
        (vec!["--json-value", "{\"n\": \"x\"}"], 2, ""),
        (
            vec!["--json-value", "{"],
            2,
            "error: --json-value holds no JSON",
        ),
    ];
    for (arguments, code, first) in texts {
        let mut whole = vec!["answer", &id];
        whole.extend(arguments.iter());
        let refused = lab.ravel(&whole).expect(code);
        assert!(refused.err.starts_with(first), "{}", refused.err);
    }
    assert_eq!(lab.questions().len(), 3);
}

#[test]
fn a_group_of_questions_is_answered_at_once() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: group
steps:
  docs:
    for_each: [1, 2, 3]
    as: doc
    steps:
      ok: { human: { ask: "Doc {{ doc }}?", form: { ok: boolean } } }
    output: "{{ ok.ok }}"
  other: { human: { ask: Other?, form: { ok: boolean } } }
output: { docs: "{{ docs }}", other: "{{ other.ok }}" }
"#;
    lab.write("group.yaml", flow);
    let mut run = lab.start(&["run", "group.yaml", "--json"]);
    for _ in 0..4 {
        run.event("asked");
    }
    let answered = lab
        .ravel(&["answer", "--all", "docs*/ok", "ok=true", "--json"])
        .expect(0)
        .json();
    let paths: Vec<(String, String)> = answered["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["path"]), text(&one["state"])))
        .collect();
    assert_eq!(
        paths,
        ["docs[0]/ok", "docs[1]/ok", "docs[2]/ok"]
            .map(|path| (path.to_owned(), "accepted".to_owned()))
    );
    lab.ravel(&["answer", "--all", "**", "ok=false"]).expect(0);
    let done = run.end().expect(0);
    assert_eq!(
        done.lines().pop().unwrap()["output"],
        json!({"docs": [true, true, true], "other": false})
    );
}

#[test]
fn a_signal_that_comes_before_its_wait_is_kept() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: inbox
signals: { user: { text: string } }
steps:
  - ready: { human: { ask: Ready?, form: { ok: boolean } } }
  - said: { wait: { signal: user } }
output: "{{ said.text }}"
"#;
    lab.write("inbox.yaml", flow);
    lab.ravel(&["run", "inbox.yaml", "--park"]).expect(4);
    lab.ravel(&["signal", "last", "user", "text=go on"])
        .expect(0);
    let unknown = lab.ravel(&["signal", "last", "usr", "text=x"]).expect(6);
    assert_eq!(
        unknown.err,
        "error: `inbox` has no inbox `usr`\nhint: did you mean `user`?\n"
    );
    lab.ravel(&["answer", &text(&lab.questions()[0]["id"]), "ok=true"])
        .expect(0);
    assert_eq!(
        lab.ravel(&["runs", "resume", "last"]).expect(0).out,
        "go on\n"
    );
}

#[test]
fn a_run_that_somebody_works_on_cannot_be_taken_twice() {
    let lab = Lab::new();
    lab.write("three.yaml", THREE);
    let mut first = lab.start(&["run", "three.yaml", "--json"]);
    let run = text(&first.event("asked")["run"]);
    let second = lab.ravel(&["runs", "resume", &run]).expect(7);
    assert!(second.err.contains("is owned by"), "{}", second.err);
    lab.ravel(&["runs", "cancel", &run]).expect(0);
    let done = first.end().expect(3);
    assert_eq!(done.lines().pop().unwrap()["state"], "cancelled");
}

#[test]
fn a_run_that_waits_for_a_signal_is_parked_also_when_the_wait_has_a_deadline() {
    let lab = Lab::new();
    lab.write(
        "signal.yaml",
        "ravel: 1\nname: signal\nsignals: { go: { n: integer } }\nsteps:\n  w: { wait: { signal: go, deadline: 10m } }\n  x: { set: '{{ w.n + 1 }}' }\noutput: '{{ x }}'\n",
    );
    lab.ravel(&["run", "signal.yaml", "--park"]).expect(4);
    lab.ravel(&["signal", "last", "go", "n=4"]).expect(0);
    let done = lab.ravel(&["runs", "resume", "last"]).expect(0);
    assert_eq!(done.out, "5\n");
}

#[test]
fn forks_and_retries_are_parked_like_runs() {
    let lab = Lab::new();
    lab.write(
        "asks.yaml",
        "ravel: 1\nname: asks\nsteps:\n  a: { run: 'echo a', effect: read }\n  q: { after: a, human: { ask: 'Go?', form: { ok: boolean } } }\noutput: '{{ q.ok }}'\n",
    );
    lab.ravel(&["run", "asks.yaml", "--park"]).expect(4);
    let run = text(&lab.newest()["id"]);
    for _ in 0..5 {
        lab.ravel(&["runs", "fork", &run, "--at", "2", "--park"])
            .expect(4);
        lab.ravel(&["runs", "retry", &run, "--from", "a", "--park"])
            .expect(4);
    }
}
