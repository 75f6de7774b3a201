//! The pages say what the program does: their flows check, their commands are understood, their queries run in the
//! system's own `sqlite3`.

use std::process::{Command, Stdio};

use crate::lab::{Done, Lab, text};

const README: &str = include_str!("../../../../README.md");
const GUIDE: &str = include_str!("../../../../docs/guide.md");
const RUN_STEPS: &str = include_str!("../../../../docs/run-steps.md");
const STORE: &str = include_str!("../../../../docs/store.md");
const TOOLS: &str = include_str!("../../../../docs/tools.md");

/// What the fragments of the pages stand in: names that they read, and nothing else.
const AROUND: &str = "ravel: 1\nname: page\ninput: { path: { type: string, default: x }, ticket: { type: string, default: x } }\n";
const BESIDE: &str = "  load: { set: { rows: [{ ok: true }] } }\n";

/// Blocks of a page in one language.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let fence = format!("```{language}\n");
    page.split(fence.as_str())
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .collect()
}

/// A whole flow, made from a fragment where it is one.
fn flow(block: &str) -> String {
    if block.lines().any(|line| line.starts_with("ravel: 1")) {
        return format!("{block}\n");
    }
    if block.starts_with("steps:") {
        return format!("{AROUND}{block}\n{BESIDE}");
    }
    let steps: String = block.lines().map(|line| format!("  {line}\n")).collect();
    format!("{AROUND}steps:\n{BESIDE}{steps}")
}

#[test]
fn every_flow_of_the_pages_checks() {
    let lab = Lab::new();
    let mut checked = 0;
    for (name, page) in [
        ("README", README),
        ("guide", GUIDE),
        ("run-steps", RUN_STEPS),
        ("tools", TOOLS),
    ] {
        for (index, block) in blocks(page, "yaml").into_iter().enumerate() {
            let file = format!("{name}-{index}.yaml");
            lab.write(&file, &flow(block));
            let mut check = lab.command(&["check", &file]);
            let output = check
                .env("RAVEL_MODEL_URL", "http://127.0.0.1:9/v1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{file}: {said}\n{block}");
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}

/// Some runs of each kind: one that is over, one that failed, one that waits for a person, one with another flow.
fn filled() -> Lab {
    let lab = Lab::new();
    lab.ravel(&["init"]).expect(0);
    lab.ravel(&["run", "hello.yaml", "-i", "name=Ada", "--park"])
        .expect(4);
    let flow = r#"
ravel: 1
name: triage
steps:
  classify: { set: { text: billing } }
  refund: { run: "exit {{ 3 if classify.text == 'billing' else 0 }}" }
"#;
    lab.write("triage.yaml", flow);
    lab.ravel(&["run", "triage.yaml"]).expect(1);
    lab
}

/// The first commands of the guide, as they stand, in an empty folder; the others are understood.
#[test]
fn the_commands_of_the_pages_are_understood() {
    let empty = Lab::new();
    let first = blocks(GUIDE, "sh")[0];
    for line in first.lines() {
        let arguments = if line.starts_with("ravel run ") {
            format!("{} --park", without_comment(line))
        } else {
            without_comment(line).to_owned()
        };
        let done = empty.shell(&arguments);
        assert!([0, 4].contains(&done.code), "{line}: {done:?}");
    }

    let lab = filled();
    for line in blocks(GUIDE, "sh").into_iter().flat_map(str::lines) {
        let command = without_comment(line);
        // Placeholders for ids, and files of the reader's own.
        let is_own = ["ravel init", " A B", ".yaml"]
            .iter()
            .any(|part| command.contains(part));
        if !command.starts_with("ravel ") || is_own {
            continue;
        }
        let done = lab.shell(command);
        assert_ne!(done.code, 2, "{line}: {done:?}");
        assert_ne!(done.code, 5, "{line}: {done:?}");
    }
}

fn without_comment(line: &str) -> &str {
    line.split(" #").next().unwrap_or(line).trim()
}

/// `sqlite3` of this system on a store.
fn sqlite3(lab: &Lab, query: &str) -> Done {
    let output = Command::new("sqlite3")
        .args(["-readonly", ".ravel/ravel.db", query])
        .current_dir(lab.path())
        .stdin(Stdio::null())
        .output()
        .expect("`sqlite3` is installed (apt-get install sqlite3)");
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn every_query_of_the_store_page_runs_in_the_systems_sqlite3() {
    let lab = filled();
    let queries = blocks(STORE, "sql");
    assert!(queries.len() >= 10, "{}", queries.len());
    for query in queries {
        let done = sqlite3(&lab, query).expect(0);
        assert_eq!(done.err, "", "{query}");
        assert!(!done.out.is_empty(), "nothing was found by: {query}");
    }
    for view in ["runs", "steps", "events", "costs", "waits", "questions"] {
        let done = sqlite3(&lab, &format!("SELECT * FROM {view}")).expect(0);
        assert!(!done.out.is_empty(), "{view}");
    }
    let newest = sqlite3(&lab, "SELECT run FROM runs LIMIT 1").expect(0);
    assert_eq!(newest.out.trim(), text(&lab.newest()["id"]));
}
