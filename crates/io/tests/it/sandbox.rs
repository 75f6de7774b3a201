//! What a confined process can and cannot do. On a kernel without the means, each test says so and checks the refusal.

use ravel_core::effect::{ErrorClass, Fate, Outcome};
use ravel_core::graph::Sandbox;
use ravel_core::port::{RunCommand, RunRequest};
use serde_json::Value;

use crate::common::{Bench, request, shell};

/// Says aloud that something was not tested.
#[expect(clippy::print_stdout, reason = "a test that tests nothing must say so")]
fn not_tested(why: &str) {
    println!("NOT TESTED here: {why}");
}

/// Runs it confined. `None`: this kernel cannot, and the refusal was right.
fn confined(bench: &Bench, level: Sandbox, asked: RunRequest) -> Option<Outcome> {
    let probe = ravel_io::sandbox::probe();
    let missing = match level {
        Sandbox::None => None,
        Sandbox::Workspace => probe.workspace,
        Sandbox::Strict => probe.strict,
    };
    let outcome = bench.run(RunRequest {
        sandbox: level,
        ..asked
    });
    let Some(missing) = missing else {
        return Some(outcome);
    };
    not_tested(&missing);
    assert_eq!(outcome.fate, Fate::NotDone);
    let failure = outcome.result.unwrap_err();
    assert_eq!(
        (failure.class, failure.code.as_deref()),
        (ErrorClass::PolicyDenied, Some("sandbox_unsupported"))
    );
    assert_eq!(&*failure.message, missing.as_str());
    None
}

fn stdout(outcome: &Outcome) -> &str {
    match &outcome.result {
        Ok(value) => value.json()["stdout"].as_str().unwrap(),
        Err(failure) => panic!("{failure:?}"),
    }
}

/// A home with a secret and a tool, and a folder beside it.
fn bench() -> (Bench, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".ssh")).unwrap();
    std::fs::write(home.path().join(".ssh/key"), "private").unwrap();
    std::fs::write(home.path().join("notes"), "open").unwrap();
    let folder = home.path().to_str().unwrap().to_owned();
    let bench = Bench::with(|config| {
        config.env.retain(|(key, _)| key != "HOME");
        config.env.push(("HOME".into(), folder));
    });
    (bench, home)
}

#[test]
fn a_workspace_writes_only_in_its_own_places() {
    let (bench, home) = bench();
    let text = "echo a > here && echo b > \"$TMPDIR/there\" && cat here \"$TMPDIR/there\" \
                && echo x > /dev/null && (echo c > ~/notes) 2>&1 | grep -c -i 'denied'; \
                (echo c > /tmp/ravel-sandbox-test) 2>&1 | grep -c -i denied; cat ~/notes";
    let Some(outcome) = confined(&bench, Sandbox::Workspace, shell(text)) else {
        return;
    };
    assert_eq!(stdout(&outcome), "a\nb\n1\n1\nopen");
    assert_eq!(
        std::fs::read_to_string(home.path().join("notes")).unwrap(),
        "open"
    );
}

#[test]
fn a_workspace_reads_no_secrets_of_the_home() {
    let (bench, _home) = bench();
    let text = "cat ~/.ssh/key 2>&1 | grep -c -i denied; cat /etc/shadow 2>&1 | grep -c -i denied; \
                tr '\\0' '\\n' < /proc/$PPID/environ 2>&1 | grep -c -i denied; cat ~/notes";
    let Some(outcome) = confined(&bench, Sandbox::Workspace, shell(text)) else {
        return;
    };
    assert!(stdout(&outcome).starts_with("1\n1\n"), "{outcome:?}");
    assert!(stdout(&outcome).ends_with("open"), "{outcome:?}");
}

const CONNECT: &str = "import socket\n\
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):\n\
    \x20   try:\n\
    \x20       socket.socket(family)\n\
    \x20       print('open')\n\
    \x20   except OSError as error:\n\
    \x20       print('refused')\n\
    a, b = socket.socketpair()\n\
    a.send(b'pair'); print(b.recv(4).decode())";

#[test]
fn a_confined_process_has_no_network_but_pairs() {
    let bench = Bench::new();
    for level in [Sandbox::Workspace, Sandbox::Strict] {
        let Some(outcome) = confined(&bench, level, request(RunCommand::Python(CONNECT.into())))
        else {
            continue;
        };
        assert_eq!(
            stdout(&outcome),
            "refused\nrefused\nrefused\npair\n",
            "{level:?}"
        );
    }
}

#[test]
fn strict_reads_its_own_directory_and_system_libraries_only() {
    let (bench, home) = bench();
    let text = format!(
        "echo a > here; cat here; for f in {home}/notes /etc/hostname /etc/shadow /proc/1/status; do \
         cat $f > /dev/null 2>&1 && echo \"read $f\"; done; ls /tmp > /dev/null 2>&1 && echo listed; echo end",
        home = home.path().display()
    );
    let Some(outcome) = confined(&bench, Sandbox::Strict, shell(&text)) else {
        return;
    };
    assert_eq!(stdout(&outcome), "a\nend\n");
}

#[test]
fn python_and_node_run_at_every_level() {
    let bench = Bench::new();
    let python = "import json, hashlib, subprocess, threading, tempfile\n\
        t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
        f = tempfile.TemporaryFile(); f.write(b'x')\n\
        print(subprocess.run(['echo', args], capture_output=True, text=True).stdout, end='')";
    let node = "const { execFileSync } = require('child_process'); process.stdout.write(execFileSync('echo', [args]))";
    for level in [Sandbox::None, Sandbox::Workspace, Sandbox::Strict] {
        for program in [
            RunCommand::Python(python.into()),
            RunCommand::Node(node.into()),
        ] {
            let asked = RunRequest {
                args: Some(Value::from("hi").into()),
                ..request(program.clone())
            };
            let Some(outcome) = confined(&bench, level, asked) else {
                continue;
            };
            assert_eq!(stdout(&outcome), "hi\n", "{level:?} {program:?}");
        }
    }
}

#[test]
fn a_sandboxed_process_is_still_killed_and_cannot_kill_outside() {
    let bench = Bench::new();
    let mut outside = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let text = format!(
        "kill -9 {} 2>&1 | grep -c -i permitted; echo end",
        outside.id()
    );
    let outcome = confined(&bench, Sandbox::Workspace, shell(&text));
    let alive = outside.try_wait().unwrap().is_none();
    outside.kill().unwrap();
    outside.wait().unwrap();
    let Some(outcome) = outcome else { return };
    // Kernels before 6.12 do not keep signals inside; this level promises nothing about them.
    if stdout(&outcome) == "1\nend\n" {
        assert!(alive);
    } else {
        not_tested("the kernel does not scope signals");
    }
}
