//! The other commands on real runs, and their JSON.

use serde_json::{Value, json};

use crate::lab::{Lab, text};

const CHAIN: &str = r#"
ravel: 1
name: chain
input: { start: { type: integer, default: 1 } }
steps:
  a: { set: "{{ input.start }}" }
  b: { run: "echo {{ a }} >> WORLD; echo {{ a + 1 }}", returns: integer }
  c: { run: "echo {{ b.json }} >> WORLD; cat MODE", after: [b] }
output: { c: "{{ c.stdout | trim }}" }
"#;

fn lab() -> Lab {
    let lab = Lab::new();
    let at = |name: &str| lab.path().join(name).display().to_string();
    lab.write(
        "chain.yaml",
        &CHAIN
            .replace("WORLD", &at("world"))
            .replace("MODE", &at("mode")),
    );
    lab.write("mode", "one\n");
    lab
}

#[test]
fn a_retry_keeps_what_was_settled_and_runs_the_rest_again() {
    let lab = lab();
    lab.ravel(&["run", "chain.yaml"]).expect(0);
    let first = text(&lab.newest()["id"]);
    lab.write("mode", "two\n");
    let retried = lab
        .ravel(&["runs", "retry", &first, "--from", "c", "--json"])
        .expect(0);
    let result = retried.lines().pop().unwrap();
    assert_eq!(result["output"], json!({"c": "two"}));
    assert_eq!(lab.read("world"), "1\n2\n2\n");
    let second = text(&result["id"]);
    let differ = lab
        .ravel(&["runs", "diff", &first, &second, "--json"])
        .expect(1)
        .json();
    let paths: Vec<&Value> = differ["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["path"])
        .collect();
    assert_eq!(paths, [&json!(""), &json!("c")]);
    assert_eq!(lab.newest()["forked_from"]["run"], first.as_str());
    let unknown = lab
        .ravel(&["runs", "retry", &first, "--from", "cc"])
        .expect(6);
    assert!(
        unknown.err.starts_with("error: no step `cc` ran\n"),
        "{}",
        unknown.err
    );
}

#[test]
fn a_fork_goes_on_from_its_turn() {
    let lab = lab();
    lab.ravel(&["run", "chain.yaml"]).expect(0);
    let first = text(&lab.newest()["id"]);
    let log = lab
        .ravel(&["runs", "log", &first, "--json"])
        .expect(0)
        .lines();
    let settled = log
        .iter()
        .find(|event| event["type"] == "settled" && event["path"] == "b")
        .unwrap();
    let turn = settled["turn"].to_string();
    lab.ravel(&["runs", "fork", &first, "--at", &turn])
        .expect(0);
    assert_eq!(lab.read("world"), "1\n2\n2\n");
    assert_eq!(
        lab.ravel(&["runs", "diff", &first, "last"]).expect(0).code,
        0
    );
}

#[test]
fn an_export_holds_the_log_and_its_head() {
    let lab = lab();
    lab.ravel(&["run", "chain.yaml"]).expect(0);
    let exported = lab.ravel(&["runs", "export", "last"]).expect(0).json();
    let head = text(&exported["head"]["head"]);
    assert_eq!(
        exported["turns"].as_array().unwrap().len() as u64,
        exported["head"]["turns"].as_u64().unwrap()
    );
    assert_eq!(exported["run"]["flow"], "chain");
    lab.ravel(&["replay", "last", "--head", &head]).expect(0);
    let grown = lab.ravel(&["replay", "last", "--head", &head[..12]]);
    grown.expect(0);
    let mistyped = lab
        .ravel(&["replay", "last", "--head", "00ff00ff"])
        .expect(6);
    let said = "error: the hash 00ff00ff is not one of run ";
    assert!(mistyped.err.starts_with(said), "{}", mistyped.err);
    lab.ravel(&["replay", "last", "--head", "xyz"]).expect(2);
}

#[test]
fn retention_deletes_what_is_over_and_old() {
    let lab = lab();
    lab.ravel(&["run", "chain.yaml"]).expect(0);
    lab.ravel(&["run", "chain.yaml"]).expect(0);
    let dry = lab
        .ravel(&[
            "runs",
            "gc",
            "--older-than",
            "0s",
            "--keep",
            "1",
            "--dry-run",
            "--json",
        ])
        .expect(0)
        .json();
    assert_eq!(dry["collected"]["runs"].as_array().unwrap().len(), 1);
    assert_eq!(
        lab.ravel(&["runs", "--json"]).json()["runs"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    lab.ravel(&["runs", "gc", "--older-than", "0s", "--keep", "1"])
        .expect(0);
    assert_eq!(
        lab.ravel(&["runs", "--json"]).json()["runs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    lab.ravel(&["runs", "gc", "--older-than", "1d"]).expect(0);
    assert_eq!(
        lab.ravel(&["runs", "--json"]).json()["runs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn damage_is_found_and_has_its_code() {
    let lab = lab();
    lab.ravel(&["run", "chain.yaml"]).expect(0);
    damage(&lab.path().join(".ravel/ravel.db"));
    lab.ravel(&["replay", "last"]).expect(8);
    lab.ravel(&["doctor", "--offline"]).expect(1);
}

#[test]
fn graphs_of_flows_and_runs_come_in_every_format() {
    let lab = lab();
    lab.ravel(&["run", "chain.yaml"]).expect(0);
    for format in ["terminal", "outline", "mermaid", "dot", "svg", "json"] {
        for target in ["chain.yaml", "last"] {
            let drawn = lab
                .ravel(&["graph", target, "--format", format])
                .expect(0)
                .out;
            assert!(
                drawn.contains('a') && drawn.contains("set"),
                "{format} of {target}: {drawn}"
            );
        }
    }
    let run = lab
        .ravel(&["graph", "last", "--format", "json"])
        .expect(0)
        .json();
    assert_eq!(run["body"]["items"][2]["state"], "succeeded");
    assert_eq!(run["body"]["items"][2]["critical"], true);
}

#[test]
fn explain_schema_limits_and_config_have_json() {
    let lab = lab();
    for arguments in [
        &["explain", "RV0102", "--json"][..],
        &["explain", "--list", "--json"],
        &["limits", "--json"],
        &["config", "--json"],
        &["config", "--keys", "--json"],
        &["doctor", "--offline", "--json"],
        &["schema"],
    ] {
        lab.ravel(arguments).expect(0).json();
    }
    assert_eq!(
        lab.ravel(&["explain", "RV9999"])
            .expect(6)
            .err
            .lines()
            .next(),
        Some("error: there is nothing called `RV9999`")
    );
    let limits = lab
        .ravel(&[
            "--config",
            "limits.live_runs=7",
            "limits",
            "live_runs",
            "--json",
        ])
        .expect(0)
        .json();
    assert_eq!(limits["limits"][0]["value"], 7);
}

#[test]
fn a_start_key_gives_the_first_run_again() {
    let lab = lab();
    let first = lab
        .ravel(&["run", "chain.yaml", "--key", "order-7", "--json"])
        .expect(0);
    let second = lab
        .ravel(&["run", "chain.yaml", "--key", "order-7", "--json"])
        .expect(0);
    assert_eq!(
        first.lines().pop().unwrap()["id"],
        second.lines().pop().unwrap()["id"]
    );
    assert_eq!(lab.read("world"), "1\n2\n");
    // The default said aloud is the same input; another one is not.
    lab.ravel(&["run", "chain.yaml", "--key", "order-7", "-i", "start=1"])
        .expect(0);
    let other = lab
        .ravel(&["run", "chain.yaml", "--key", "order-7", "-i", "start=5"])
        .expect(7);
    assert!(
        other.err.starts_with("error: run ")
            && other
                .err
                .contains(" was started under the key order-7 before, with other input\n"),
        "{}",
        other.err
    );
    assert_eq!(lab.read("world"), "1\n2\n");
}

#[test]
fn ids_may_be_shortened_while_they_are_unique() {
    let lab = lab();
    lab.ravel(&["run", "chain.yaml"]).expect(0);
    lab.ravel(&["run", "chain.yaml"]).expect(0);
    let id = text(&lab.newest()["id"]);
    let shown = |typed: &str| lab.ravel(&["runs", "show", typed, "--json"]);
    assert_eq!(
        shown(&id[id.len() - 8..]).expect(0).json()["id"],
        id.as_str()
    );
    assert!(
        shown(&id[..3])
            .expect(6)
            .err
            .contains("fits more than one run")
    );
    assert!(
        shown("zzz")
            .expect(6)
            .err
            .starts_with("error: there is no run `zzz`")
    );
}

/// Changes a stored turn, as a faulty disk or a curious person would.
fn damage(path: &std::path::Path) {
    let database = rusqlite::Connection::open(path).unwrap();
    let changed = database
        .execute(
            "UPDATE turn SET body = replace(body, 'succeeded', 'Succeeded')",
            [],
        )
        .unwrap();
    assert!(changed > 0);
}

const EVERY_KIND: &str = r#"
ravel: 1
name: kinds
steps:
  first: { set: 1 }
  pause: { wait: 20ms, after: [first] }
  never: { when: "first == 2", set: 2 }
  asks: { human: { ask: "Go?", form: { ok: boolean } }, after: [pause] }
  ran: { run: "echo ran >> WORLD", after: [asks] }
  told: { set: "{{ asks.ok }}", after: [ran] }
output: "{{ told }}"
"#;

#[test]
fn a_retry_from_any_kind_of_step_works_or_says_why_not() {
    let lab = Lab::new();
    let world = lab.path().join("world").display().to_string();
    lab.write("kinds.yaml", &EVERY_KIND.replace("WORLD", &world));
    lab.ravel(&["run", "kinds.yaml", "--park"]).expect(4);
    let run = text(&lab.newest()["id"]);
    lab.ravel(&["answer", &text(&lab.questions()[0]["id"]), "ok=true"])
        .expect(0);
    lab.ravel(&["runs", "resume", &run]).expect(0);
    let retry = |from: &str| lab.ravel(&["runs", "retry", &run, "--from", from, "--park"]);
    // A question is asked again, with an id of its own.
    retry("asks").expect(4);
    assert_eq!(lab.questions().len(), 1);
    lab.ravel(&["answer", &text(&lab.questions()[0]["id"]), "ok=false"])
        .expect(0);
    assert_eq!(
        lab.ravel(&["runs", "resume", "last"]).expect(0).out,
        "false\n"
    );
    let waited = retry("pause").expect(4);
    assert!(
        waited.err.contains("the time of pause was over at "),
        "{}",
        waited.err
    );
    let kept = retry("first").expect(4);
    assert!(
        kept.err.contains(
            "first (set) keeps its value, which the same input gives again; what comes after it runs"
        ),
        "{}",
        kept.err
    );
    let said = |from: &str| retry(from).expect(7).err.lines().next().unwrap().to_owned();
    assert_eq!(
        said("never"),
        "error: step `never` was skipped, it never became ready: `when` was false"
    );
    assert!(
        said("told")
            .starts_with("error: step `told` (set) settled in the turn that made it ready (turn "),
    );
    let first = lab.ravel(&["runs", "fork", &run, "--at", "0"]).expect(2);
    assert!(
        first
            .err
            .starts_with("error: there is no turn 0: the first one, which starts the run, is 1\n"),
        "{}",
        first.err
    );
}
