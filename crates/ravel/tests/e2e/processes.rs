//! What processes print and leave behind, as a user of the binary sees it.

use std::path::Path;

use serde_json::json;

use crate::lab::{Lab, eventually};

const SECRET: &str = "hunter2/ü+\"three\"";

/// Prints a secret in every way that a program may spell it.
const SPELL: &str = r#"
ravel: 1
name: spell
steps:
  spell:
    run:
      python: |
        import base64, html, json, os, shlex, sys, urllib.parse as url
        s = os.environ["TOKEN"]
        b = s.encode()
        spelt = [s, url.quote(s), url.quote(s, safe=""), url.quote_plus(s), url.quote(url.quote(s)), json.dumps(s),
                 json.dumps(s, ensure_ascii=False), json.dumps(json.dumps(s)), repr(b), html.escape(s), shlex.quote(s),
                 b.hex(), b.hex().upper(), base64.b64encode(b).decode(), base64.urlsafe_b64encode(b).decode().strip("="),
                 base64.b64encode(b"me:" + b).decode(), base64.b64encode(b"you:" + b + b"!").decode(),
                 base64.b64encode(b"them:" + b).decode()]
        for text in spelt:
            print(text)
            for at in range(0, len(text), 3):
                print(text[at:at + 3], end="", flush=True, file=sys.stderr)
            print(file=sys.stderr)
        print("pieces", len(spelt))
      env: { TOKEN: "{{ secrets.token }}" }
  fails:
    after: [spell]
    run:
      python: |
        import os, sys, urllib.parse
        sys.exit("wrong: " + urllib.parse.quote_plus(os.environ["TOKEN"]))
      env: { TOKEN: "{{ secrets.token }}" }
"#;

/// What would give the secret away.
const TRACES: [&str; 6] = ["hunter2", "three", "68756e", "68756E", "aHVudG", "dGhyZW"];

fn assert_clean(what: &str, text: &str) {
    for trace in TRACES {
        assert!(!text.contains(trace), "{what} holds {trace}: {text}");
    }
}

#[test]
fn a_secret_is_in_no_output_no_log_and_no_database_however_it_was_spelt() {
    let lab = Lab::new();
    lab.write("spell.yaml", SPELL);
    let ravel = |arguments: &[&str]| {
        let output = lab
            .command(arguments)
            .env("RAVEL_SECRET_TOKEN", SECRET)
            .output()
            .unwrap();
        let all = [output.stdout, output.stderr].concat();
        String::from_utf8(all).unwrap()
    };
    let ran = ravel(&["run", "spell.yaml", "--json"]);
    assert!(
        ran.contains("pieces 18") && ran.contains("wrong: [secret token]"),
        "{ran}"
    );
    assert_clean("run", &ran);
    for command in [
        &["runs", "show", "last"][..],
        &["runs", "show", "last", "--json"],
        &["runs", "log", "last", "--json"],
        &["runs", "why", "last"],
    ] {
        assert_clean(&command.join(" "), &ravel(command));
    }
    for path in files(&lab.path().join(".ravel")) {
        let bytes = std::fs::read(&path).unwrap();
        assert_clean(
            &path.display().to_string(),
            &String::from_utf8_lossy(&bytes),
        );
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all
}

#[test]
fn a_secret_that_is_too_short_to_hide_is_refused_by_its_name() {
    let lab = Lab::new();
    lab.write(
        "pin.yaml",
        "ravel: 1\nname: pin\nsteps:\n  one: { run: 'echo $PIN', env: { PIN: \"{{ secrets.pin }}\" } }\n",
    );
    let mut command = lab.command(&["run", "pin.yaml"]);
    let output = command.env("RAVEL_SECRET_PIN", "8241").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("the secret `pin` has less than 6 bytes"),
        "{err}"
    );
    assert!(!err.contains("8241"), "{err}");
}

#[test]
fn stdout_that_is_cut_or_no_text_is_a_failure_that_every_view_shows() {
    let lab = Lab::new();
    lab.write(
        "much.yaml",
        "ravel: 1\nname: much\nsteps:\n  much: { run: 'seq 10000', limits: { output: 1KiB } }\n",
    );
    lab.write(
        "bytes.yaml",
        "ravel: 1\nname: bytes\nsteps:\n  bytes: { run: \"printf '\\\\377'\" }\n",
    );
    for (flow, text) in [
        (
            "much.yaml",
            "stdout is larger than 1024 bytes (limits.output)",
        ),
        (
            "bytes.yaml",
            "stdout is not text (byte 0 is not UTF-8): write it to a file",
        ),
    ] {
        let ran = lab.ravel(&["run", flow]).expect(1);
        assert!(ran.err.contains(text), "{}", ran.err);
        let shown = lab.ravel(&["runs", "show", "last", "--json"]).expect(0);
        assert!(shown.out.contains(text), "{}", shown.out);
        let log = lab.ravel(&["runs", "log", "last", "--json"]).expect(0);
        assert!(log.out.contains(text), "{}", log.out);
    }
    let limits = lab.ravel(&["limits", "stdout"]).expect(0).out;
    assert!(
        limits.contains("run.output_bytes") && limits.contains("output:"),
        "{limits}"
    );
}

#[test]
fn a_run_leaves_no_empty_folders_behind() {
    let lab = Lab::new();
    let flow = "ravel: 1\nname: folders\nsteps:\n  \
                many: { for_each: \"{{ range(5) | list }}\", steps: { one: { run: 'echo {{ item }} > file' } } }\n  \
                row: { steps: [ { a: { run: 'true' } }, { b: { run: 'true' } } ] }\n  \
                fails: { after: [many, row], run: 'exit 1' }\n";
    lab.write("folders.yaml", flow);
    lab.ravel(&["run", "folders.yaml"]).expect(1);
    let work = lab.path().join(".ravel/work");
    for folder in ["runs", "pids", "tmp"] {
        let left: Vec<_> = std::fs::read_dir(work.join(folder)).unwrap().collect();
        assert!(left.is_empty(), "{folder}: {left:?}");
    }
}

#[test]
fn a_daemon_of_a_step_does_not_survive_an_engine_that_is_killed() {
    let lab = Lab::new();
    let pids = lab.path().join("pids");
    let daemon = "trap '' TERM HUP; (env -i PATH=\"$PATH\" setsid sh -c \
                  '(sh -c \"echo \\$\\$ >> PIDS; exec sleep 600\" > /dev/null 2>&1 < /dev/null &)'); echo $$ >> PIDS; sleep 600";
    let flow = json!({
        "ravel": 1, "name": "daemon",
        "steps": { "daemon": { "run": daemon.replace("PIDS", &pids.display().to_string()) } },
    });
    lab.write("daemon.yaml", &flow.to_string());
    let mut run = lab.start(&["run", "daemon.yaml", "--json"]);
    let alive = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    let living = || lab.read("pids").lines().filter(|pid| alive(pid)).count();
    eventually("both are there", || living() == 2);
    run.kill();
    eventually("both are gone", || living() == 0);
}
