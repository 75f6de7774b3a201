//! Inputs, typed and refused; flows that do not check; configuration with mistakes.

use serde_json::json;

use crate::lab::Lab;

const ECHO: &str = r#"
ravel: 1
name: echo
input:
  text: string
  count: { type: integer, default: 1 }
  tags: { type: array, items: { type: string }, default: [] }
  hook: string | null
steps:
  all: { set: { text: "{{ input.text }}", count: "{{ input.count }}", tags: "{{ input.tags }}", hook: "{{ input.hook }}" } }
output: "{{ all }}"
"#;

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("echo.yaml", ECHO);
    lab
}

#[test]
fn integers_come_as_they_are_written_or_not_at_all() {
    let lab = Lab::new();
    lab.write(
        "big.yaml",
        "ravel: 1\nname: big\ninput: { n: integer, any: any }\nsteps:\n  a: { run: 'echo 18446744073709551615', returns: integer }\noutput: ['{{ input.n }}', '{{ a.json }}']\n",
    );
    let run = |n: &str, any: &str| lab.ravel(&["run", "big.yaml", "-i", n, "-i", any]);
    let exact = run("n=9007199254740993", "any:=1").expect(0);
    assert_eq!(
        exact.out.split_whitespace().collect::<String>(),
        "[9007199254740993,18446744073709551615]"
    );
    for (n, any) in [
        ("n=99999999999999999999", "any:=1"),
        ("n=1", "any:=[99999999999999999999]"),
    ] {
        let refused = run(n, any).expect(2);
        assert!(
            refused.err.contains("99999999999999999999"),
            "{}",
            refused.err
        );
    }
}

#[test]
fn inputs_come_from_options_files_and_stdin() {
    let lab = lab();
    lab.write("t.txt", "from a file\n");
    lab.write("in.json", r#"{"text": "from json", "count": 5}"#);
    let output = |arguments: &[&str], input: &str| {
        let mut whole = vec!["run", "echo.yaml"];
        whole.extend(arguments);
        lab.with_input(&whole, input).expect(0).json()
    };
    assert_eq!(
        output(&["-i", "text=7", "-i", "count=3", "-i", "tags=a,b"], ""),
        json!({"text": "7", "count": 3, "tags": ["a", "b"], "hook": null})
    );
    assert_eq!(
        output(&["-i", "text=@t.txt", "-i", "tags:=[\"x\"]"], ""),
        json!({"text": "from a file\n", "count": 1, "tags": ["x"], "hook": null})
    );
    assert_eq!(
        output(&["--input", "@in.json", "-i", "count=6"], ""),
        json!({"text": "from json", "count": 6, "tags": [], "hook": null})
    );
    assert_eq!(
        output(&["--input", "-"], r#"{"text": "from stdin", "hook": "h"}"#),
        json!({"text": "from stdin", "count": 1, "tags": [], "hook": "h"})
    );
}

#[test]
fn wrong_inputs_start_nothing() {
    let lab = lab();
    let refused = |arguments: &[&str]| {
        let mut whole = vec!["run", "echo.yaml"];
        whole.extend(arguments);
        lab.ravel(&whole).expect(2).err
    };
    assert_eq!(
        refused(&["-i", "count=x"]),
        "error: `count` must be an integer, and `x` is not\n"
    );
    assert_eq!(
        refused(&["-i", "txt=x"]),
        "error: there is no field `txt`\nhint: did you mean `text`?\n"
    );
    assert!(refused(&[]).contains("text"), "a missing field is named");
    assert!(
        refused(&["--input", "[1]"])
            .starts_with("error: the input in --input is a list, not an object")
    );
    assert!(
        lab.ravel(&["runs", "--json"]).expect(0).json()["runs"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_flow_that_does_not_check_does_not_run() {
    let lab = Lab::new();
    lab.write(
        "bad.yaml",
        "ravel: 1\nname: bad\nsteps:\n  a: { set: \"{{ bb.x }}\" }\n  b: { sett: 1 }\n",
    );
    let checked = lab.ravel(&["check", "bad.yaml", "--json"]).expect(2).json();
    assert_eq!(
        (checked["ok"].clone(), checked["errors"].clone()),
        (json!(false), json!(2))
    );
    let run = lab.ravel(&["run", "bad.yaml"]).expect(2);
    assert!(
        run.err.contains("bad.yaml:4:") && run.err.contains("bad.yaml:5:"),
        "{}",
        run.err
    );
    assert!(
        run.err
            .contains("error: bad.yaml has 2 errors\nhint: `ravel explain RV"),
        "{}",
        run.err
    );
    assert!(!lab.path().join(".ravel").exists());
    let missing = lab.ravel(&["run", "bda.yaml"]).expect(2);
    assert_eq!(
        missing.err,
        "error: there is no file bda.yaml\nhint: did you mean bad.yaml?\n"
    );
}

#[test]
fn a_mistake_in_the_configuration_is_shown_where_it_is() {
    let lab = lab();
    lab.write("ravel.toml", "[modles]\nfast = \"local/x\"\n");
    let refused = lab.ravel(&["run", "echo.yaml", "-i", "text=x"]).expect(2);
    assert!(
        refused.err.contains(" --> ravel.toml:1:2")
            && refused.err.contains("did you mean `models`?"),
        "{}",
        refused.err
    );
}

#[test]
fn the_store_is_found_upwards_or_named() {
    let lab = lab();
    lab.write("ravel.toml", "");
    lab.write("deep/keep", "");
    lab.command(&["run", "../echo.yaml", "-i", "text=x", "-q"])
        .current_dir(lab.path().join("deep"))
        .status()
        .unwrap();
    assert_eq!(lab.newest()["flow"], "echo");
    assert!(
        lab.path().join(".ravel/ravel.db").exists() && !lab.path().join("deep/.ravel").exists()
    );
    lab.ravel(&[
        "--store",
        "elsewhere/my.db",
        "run",
        "echo.yaml",
        "-i",
        "text=y",
    ])
    .expect(0);
    assert!(lab.path().join("elsewhere/my.db").exists());
    assert_eq!(
        lab.ravel(&["runs", "--json"]).json()["runs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_failed_run_says_why_and_ends_with_its_code() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: failing
steps:
  bad: { run: "echo broken >&2; exit 3" }
  next: { set: "{{ bad.stdout }}" }
output: "{{ next | default('none') }}"
"#;
    lab.write("failing.yaml", flow);
    let failed = lab.ravel(&["run", "failing.yaml", "--json"]).expect(1);
    let result = failed.lines().pop().unwrap();
    assert_eq!(
        (result["state"].clone(), result["error"]["class"].clone()),
        (json!("failed"), json!("tool_error"))
    );
    assert_eq!(result["error"]["step"], "bad");
    let why = lab.ravel(&["runs", "why", "last"]).expect(0).out;
    assert!(
        why.contains("bad: run failed") && why.contains("failing.yaml:5:"),
        "{why}"
    );
    assert!(why.contains("next: skipped: `bad` failed"), "{why}");
}
