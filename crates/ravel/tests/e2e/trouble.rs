//! What is the matter, in words: paths that are no store, damage, lists without matches, time that nobody worked.

use serde_json::json;

use crate::lab::{Lab, text};

const QUICK: &str = "
ravel: 1
name: quick
steps:
  one: { run: echo 1 }
  two: { run: \"echo {{ one.stdout | trim }}2\" }
output: \"{{ two.stdout | trim }}\"
";

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("quick.yaml", QUICK);
    lab
}

#[test]
fn an_error_of_the_flow_itself_says_so() {
    let lab = Lab::new();
    lab.write(
        "late.yaml",
        "deadline: 100ms\nsteps:\n  slow: { wait: 1h }\n",
    );
    let failed = lab.ravel(&["run", "late.yaml"]).expect(1);
    let said = "failed in the flow deadline: the deadline of the flow passed";
    assert!(failed.err.contains(said), "{}", failed.err);
    let shown = lab.ravel(&["runs", "show", "last"]).expect(0);
    let said = "error: deadline: the deadline of the flow passed\n  in the flow itself\n";
    assert!(shown.out.contains(said), "{}", shown.out);
}

#[test]
fn a_budget_in_dollars_needs_prices_and_the_environment_can_say_them() {
    let lab = Lab::new();
    lab.write(
        "paid.yaml",
        "budget: { usd: 0.10 }\nsteps:\n  ask: { model: any, prompt: Hi }\n",
    );
    let check = |price: Option<&str>| {
        let mut command = lab.command(&["check", "paid.yaml"]);
        command.env("RAVEL_MODEL_URL", "http://127.0.0.1:9/v1");
        command.env_remove("RAVEL_MODEL_PRICE");
        if let Some(price) = price {
            command.env("RAVEL_MODEL_PRICE", price);
        }
        let done = command.output().unwrap();
        (done.status.code(), text_of(&done.stderr))
    };
    let (code, said) = check(None);
    assert_eq!(code, Some(2));
    let expected = "error[RV0504]: a budget in dollars cannot be kept here: the price of model `any` is not known";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(
        check(Some("0")),
        (Some(0), "ok: 1 flow, 1 step\n".to_owned())
    );
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_path_that_is_no_store_is_named_with_what_it_is() {
    let lab = lab();
    std::fs::create_dir(lab.path().join("folder")).unwrap();
    lab.write("notes.txt", "not a database, but a text");
    let fifo = lab.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let at = |name: &str| lab.path().join(name).display().to_string();
    let cases = [
        (
            "folder",
            format!(
                "error: the store {0} is a folder, not a file\n\
                 hint: a file in it would be --store {0}/ravel.db\n",
                at("folder")
            ),
        ),
        (
            "fifo",
            format!("error: the store {} is a FIFO, not a file\n", at("fifo")),
        ),
        (
            "/dev/null",
            "error: the store /dev/null is a device, not a file\n".to_owned(),
        ),
        (
            "notes.txt",
            format!(
                "error: the file {} is no database; nothing was changed\n",
                at("notes.txt")
            ),
        ),
    ];
    for (path, said) in cases {
        for command in [&["runs"][..], &["run", "quick.yaml"]] {
            let refused = lab.ravel(&[command, &["--store", path]].concat()).expect(5);
            assert!(refused.err.starts_with(said.as_str()), "{}", refused.err);
        }
    }
    assert_eq!(lab.read("notes.txt"), "not a database, but a text");
}

#[test]
fn a_file_or_folder_that_may_not_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = lab();
    lab.ravel(&["run", "quick.yaml", "--store", "box/r.db"])
        .expect(0);
    let folder = lab.path().join("box");
    let mode = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode));
    mode(0o555).unwrap();
    let refused = lab.ravel(&["runs", "--store", "box/r.db"]);
    mode(0o755).unwrap();
    let refused = refused.expect(5);
    let said = format!(
        "error: the folder {} may not be written, and the store keeps files there\n",
        folder.display()
    );
    assert!(refused.err.starts_with(&said), "{}", refused.err);
}

#[test]
fn a_store_of_a_newer_version_and_another_programs_database_are_named() {
    let lab = lab();
    lab.ravel(&["run", "quick.yaml"]).expect(0);
    let path = lab.path().join(".ravel/ravel.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    let newer = lab.ravel(&["runs"]).expect(5);
    assert!(
        newer
            .err
            .contains("the store has format 99, this program knows up to 1\nhint: use the ravel"),
        "{}",
        newer.err
    );
    let other = rusqlite::Connection::open(lab.path().join("other.db")).unwrap();
    other.execute_batch("CREATE TABLE t(x)").unwrap();
    let foreign = lab.ravel(&["runs", "--store", "other.db"]).expect(5);
    assert!(
        foreign
            .err
            .contains("other.db is a database of another program\nhint: --store PATH, "),
        "{}",
        foreign.err
    );
}

#[test]
fn a_clean_end_leaves_the_database_alone_in_its_folder() {
    let lab = lab();
    lab.ravel(&["run", "quick.yaml"]).expect(0);
    lab.ravel(&["runs"]).expect(0);
    let left: Vec<String> = ["ravel.db-wal", "ravel.db-shm"]
        .iter()
        .filter(|name| lab.path().join(".ravel").join(name).exists())
        .map(|name| (*name).to_owned())
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_fork_before_the_damage_goes_on_and_the_hint_names_it() {
    let lab = lab();
    lab.ravel(&["run", "quick.yaml"]).expect(0);
    let run = text(&lab.newest()["id"]);
    let path = lab.path().join(".ravel/ravel.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    let (first, last): (i64, i64) = database
        .query_row(
            "SELECT first, last FROM turn WHERE first > 1 ORDER BY last DESC LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let changed = database.execute(
        "UPDATE turn SET body = replace(body, 'at', 'aT') WHERE last = ?",
        [last],
    );
    assert_eq!(changed.unwrap(), 1);
    drop(database);
    let good = first - 1;
    let damaged = lab.ravel(&["runs", "show", &run]).expect(8);
    let hint =
        format!("hint: turns 1 to {good} are good: `ravel runs fork {run} --at {good}` goes on");
    assert!(damaged.err.contains(&hint), "{}", damaged.err);
    let forked = lab
        .ravel(&["runs", "fork", &run, "--at", &good.to_string()])
        .expect(0);
    assert_eq!(forked.out, "12\n");
    lab.ravel(&["runs", "fork", &run, "--at", &last.to_string()])
        .expect(8);
}

#[test]
fn a_list_without_matches_says_of_how_many() {
    let lab = lab();
    let none = lab.ravel(&["runs"]).expect(0);
    assert_eq!(none.err, "no runs; `ravel run FLOW` starts one\n");
    lab.ravel(&["run", "quick.yaml"]).expect(0);
    let list = |arguments: &[&str]| {
        let done = lab
            .ravel(&[&["runs", "list"], arguments].concat())
            .expect(0);
        (done.out, done.err)
    };
    assert_eq!(
        list(&["--flow", "quik"]),
        (
            String::new(),
            "no runs match --flow quik, of 1 in the store; did you mean --flow quick?\n".to_owned()
        )
    );
    assert_eq!(
        list(&["--state", "failed", "--state", "paused"]).1,
        "no runs match --state failed --state paused, of 1 in the store\n"
    );
}

#[test]
fn tables_are_whole_in_a_pipe() {
    let lab = lab();
    for command in ["limits", "config"] {
        let arguments: &[&str] = if command == "config" {
            &["config", "--keys"]
        } else {
            &["limits"]
        };
        let mut whole = lab.command(arguments);
        whole.env_remove("COLUMNS");
        let output = whole.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let cut: Vec<&str> = text.lines().filter(|line| line.ends_with('…')).collect();
        assert_eq!(cut, Vec::<&str>::new());
    }
}

#[test]
fn logs_are_not_coloured_where_talk_is_not() {
    let lab = lab();
    let mut command = lab.command(&["run", "quick.yaml"]);
    // A filter that cannot be read is itself logged.
    let output = command.env("RAVEL_LOG", "ravel=loudly").output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains(" WARN "), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
}

#[test]
fn time_while_a_run_was_stopped_is_told_apart() {
    let lab = Lab::new();
    let flow = r#"
ravel: 1
name: pausing
steps:
  ask: { human: { ask: A?, form: { n: integer } } }
output: "{{ ask.n }}"
"#;
    lab.write("pausing.yaml", flow);
    lab.ravel(&["run", "pausing.yaml", "--park"]).expect(4);
    let asked = text(&lab.questions()[0]["asked"]);
    crate::lab::eventually("a second passes", || {
        let mut clock = lab.command(&["answer", "--list"]);
        let listed = String::from_utf8(clock.output().unwrap().stdout).unwrap();
        listed.contains(" s ago")
    });
    lab.ravel(&["answer", &text(&lab.questions()[0]["id"]), "n=1"])
        .expect(0);
    let resumed = lab.ravel(&["runs", "resume", "last"]).expect(0);
    assert!(
        resumed.err.contains(" in which it was stopped)"),
        "{asked}: {}",
        resumed.err
    );
    let shown = lab
        .ravel(&["runs", "show", "last", "--json"])
        .expect(0)
        .json();
    let stopped = shown["stopped_seconds"].as_f64().unwrap();
    let step = shown["steps"][0]["seconds"].as_f64().unwrap();
    assert_eq!((stopped >= 1.0, step < stopped), (true, true), "{shown}");
    assert_eq!(shown["steps"][0]["path"], json!("ask"));
}

#[test]
fn a_store_that_may_not_grow_says_so_and_the_run_goes_on_where_it_may() {
    let lab = Lab::new();
    // Each step keeps another value of 60 KB, so that the store needs more than the shell lets a file have.
    let mut flow = "ravel: 1\nname: big\nsteps:\n".to_owned();
    for step in 0..20 {
        let noise = "head -c 45000 /dev/urandom | base64 -w 0";
        flow += &format!("  - s{step}: {{ run: \"{noise}\", effect: once }}\n");
    }
    flow += "  - child: { run: \"sh -c 'kill -XFSZ $$'; echo $?\" }\n";
    flow += "output: \"{{ child.stdout | trim }}\"\n";
    lab.write("big.yaml", &flow);
    let refused = lab.shell("ulimit -f 1000; ravel run big.yaml").expect(5);
    let run = text(&lab.newest()["id"]);
    for part in [
        "no space left",
        "(`ulimit -f`)",
        "hint: free some space; nothing that was acknowledged is lost\n",
        &format!("hint: resume with: ravel runs resume {run}\n"),
    ] {
        assert!(refused.err.contains(part), "no {part:?} in {}", refused.err);
    }
    let resumed = lab.ravel(&["runs", "resume", &run, "--park"]);
    // The step that was under way when the store failed may be asked about.
    if resumed.code == 4 {
        lab.ravel(&["answer", "--all", "*", "not_done=retry"])
            .expect(0);
        lab.ravel(&["runs", "resume", &run]).expect(0);
    }
    // A program that a step starts dies of the signal, as it does everywhere.
    let shown = lab
        .ravel(&["runs", "show", &run, "--json"])
        .expect(0)
        .json();
    assert_eq!(shown["output"], json!("153"));
}
