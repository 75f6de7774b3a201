//! Processes: what reaches them, what comes back, and that nothing of them is left.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use crate::common::{Bench, Log, alive, job, request, shell, wait_until};
use ravel_core::effect::{ErrorClass, Failure, Fate, Outcome};
use ravel_core::event::{Attempt, Stop};
use ravel_core::port::{Executor, Request, RunCommand, RunRequest};
use serde_json::{Value, json};

fn value(outcome: &Outcome) -> &Value {
    outcome.result.as_ref().unwrap().json()
}

fn failure(outcome: Outcome, fate: Fate) -> Failure {
    assert_eq!(outcome.fate, fate, "{outcome:?}");
    outcome.result.unwrap_err()
}

#[test]
fn a_shell_gives_its_code_and_streams() {
    let outcome = Bench::new().run(shell("echo out; echo err >&2"));
    let wanted = json!({ "code": 0, "stdout": "out\n", "stderr": "err\n", "files": {} });
    assert_eq!(outcome, Outcome::done(wanted.into()));
}

#[test]
fn an_exit_code_is_an_error_unless_it_is_ok() {
    let bench = Bench::new();
    let failed = failure(
        bench.run(shell("echo half; echo broken >&2; exit 3")),
        Fate::Done,
    );
    let wanted = Failure::new(ErrorClass::ToolError, "exited with code 3: broken")
        .with_code("exit_3")
        .with_data(json!({ "code": 3, "stdout": "half\n", "stderr": "broken\n" }));
    assert_eq!(failed, wanted);
    let outcome = bench.run(RunRequest {
        ok: vec![0, 3],
        ..shell("exit 3")
    });
    assert_eq!(
        outcome,
        Outcome::done(json!({ "code": 3, "stdout": "", "stderr": "", "files": {} }).into())
    );
}

#[test]
fn arguments_reach_every_kind_of_program() {
    let bench = Bench::new();
    let args = Some(json!({ "n": 41, "text": "ä'\"" }).into());
    let run = |program: RunCommand| {
        let outcome = bench.run(RunRequest {
            args: args.clone(),
            json: true,
            ..request(program)
        });
        value(&outcome)["json"].clone()
    };
    let python = "from __future__ import annotations\nimport json, pickle, typing\n\
        class A:\n    n: B\nclass B: pass\n\
        assert typing.get_type_hints(A) == {'n': B} and pickle.loads(pickle.dumps(B))\n\
        if __name__ == '__main__': print(json.dumps([args['n'] + 1, args['text']]))";
    assert_eq!(run(RunCommand::Python(python.into())), json!([42, "ä'\""]));
    let node = "console.log(JSON.stringify([args.n + 1, args.text]))";
    assert_eq!(run(RunCommand::Node(node.into())), json!([42, "ä'\""]));
    let module =
        "import os from 'node:os';\nconsole.log(JSON.stringify(await Promise.resolve(args.n)))";
    assert_eq!(run(RunCommand::Node(module.into())), json!(41));
    assert_eq!(
        run(RunCommand::Shell("printf %s \"$RAVEL_ARGS\"".into())),
        *args.as_ref().unwrap().json()
    );
    assert_eq!(
        run(RunCommand::Shell("cat \"$RAVEL_ARGS_FILE\"".into())),
        *args.as_ref().unwrap().json()
    );
    assert_eq!(
        run(RunCommand::Command(vec!["cat".into()])),
        *args.as_ref().unwrap().json()
    );
}

#[test]
fn a_traceback_has_the_lines_of_the_source() {
    let bench = Bench::new();
    let source = "def f():\n    raise ValueError('no')\n\nf()\n";
    let failed = failure(
        bench.run(request(RunCommand::Python(source.into()))),
        Fate::Done,
    );
    let stderr = failed.data.unwrap().json()["stderr"]
        .as_str()
        .unwrap()
        .to_owned();
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| line.trim_start().starts_with("File "))
        .collect();
    assert_eq!(lines.len(), 2, "{stderr}");
    assert!(
        lines[0].ends_with("step.py\", line 4, in <module>"),
        "{stderr}"
    );
    assert!(lines[1].ends_with("step.py\", line 2, in f"), "{stderr}");
    assert_eq!(&*failed.message, "exited with code 1: ValueError: no");
    let failed = failure(
        bench.run(request(RunCommand::Python("\nx = (".into()))),
        Fate::Done,
    );
    let stderr = failed.data.unwrap().json()["stderr"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        stderr.contains("step.py\", line 2") && !stderr.contains("<string>"),
        "{stderr}"
    );
    let failed = failure(
        bench.run(request(RunCommand::Node(
            "\n\nthrow new Error('no')".into(),
        ))),
        Fate::Done,
    );
    let stderr = failed.data.unwrap().json()["stderr"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(stderr.contains("[stdin]:3"), "{stderr}");
}

#[test]
fn a_process_sees_the_listed_environment_and_its_own_names_only() {
    let bench =
        Bench::with(|config| config.env = vec![("PATH".into(), std::env::var("PATH").unwrap())]);
    let outcome = bench.run(RunRequest {
        env: vec![("MINE".into(), "x".into())],
        ..shell("env | cut -d= -f1 | sort")
    });
    let stdout = value(&outcome)["stdout"].as_str().unwrap().to_owned();
    let names: Vec<&str> = stdout
        .lines()
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    let wanted = [
        "MINE",
        "PATH",
        "RAVEL_ARGS",
        "RAVEL_ARGS_FILE",
        "RAVEL_ATTEMPT",
        "RAVEL_KEY",
        "RAVEL_PROCESS",
        "RAVEL_RUN",
        "RAVEL_STEP",
        "TMPDIR",
    ];
    assert_eq!(names, wanted);
    let outcome = bench.run(shell(
        "echo $RAVEL_KEY $RAVEL_RUN $RAVEL_STEP $RAVEL_ATTEMPT; test -d \"$TMPDIR\"",
    ));
    assert_eq!(value(&outcome)["stdout"], "key-1 r1 build 1\n");
}

#[test]
fn a_program_that_is_not_there_is_not_done() {
    let failed = failure(
        Bench::new().run(request(RunCommand::Command(vec!["no-such-program".into()]))),
        Fate::NotDone,
    );
    let text = "cannot start `no-such-program`: No such file or directory (os error 2)";
    assert_eq!(failed, Failure::new(ErrorClass::NotFound, text));
}

#[test]
fn result_files_are_kept_and_can_be_handed_on() {
    let bench = Bench::new();
    let files = vec![("report".into(), "out/a.txt".into())];
    let made = bench.run(RunRequest {
        files,
        ..shell("mkdir out; echo hello > out/a.txt")
    });
    let file = value(&made)["files"]["report"].clone();
    let hash = blake3::hash(b"hello\n").to_hex().to_string();
    assert_eq!(file, json!({ "$file": hash, "name": "a.txt", "bytes": 6 }));
    let text = format!("cat '{file}' && cat \"$(printf %s \"$RAVEL_ARGS\" | cut -d'\"' -f4)\"");
    let outcome = bench.run(RunRequest {
        args: Some(json!({ "f": file }).into()),
        ..shell(&text)
    });
    assert_eq!(value(&outcome)["stdout"], "hello\nhello\n");
}

#[test]
fn a_result_that_leads_out_of_the_directory_is_refused() {
    let bench = Bench::new();
    for (make, path) in [
        ("ln -s /etc/passwd x", "x"),
        ("mkfifo x", "x"),
        ("true", "../../x"),
        ("true", "x"),
    ] {
        let files = vec![("f".into(), path.into())];
        let failed = failure(
            bench.run(RunRequest {
                files,
                ..shell(make)
            }),
            Fate::Done,
        );
        assert_eq!(
            (failed.class, failed.code.as_deref()),
            (ErrorClass::ToolError, Some("file_missing")),
            "{make}"
        );
    }
}

#[test]
fn attempts_start_empty_and_the_steps_of_a_list_share() {
    let bench = Bench::with(|config| config.keep_directories = true);
    assert_eq!(value(&bench.run(shell("ls -A; touch a")))["stdout"], "");
    assert_eq!(value(&bench.run(shell("ls -A; touch a")))["stdout"], "");
    let shared = |text: &str| {
        let mut job = job(Request::Run(shell(text)));
        job.workspace = Some("".into());
        bench.outcome(job)
    };
    assert_eq!(value(&shared("ls -A; touch a"))["stdout"], "");
    assert_eq!(value(&shared("ls -A"))["stdout"], "a\n");
}

#[test]
fn stdout_over_its_limit_is_a_failure_that_names_the_knob() {
    let mut request = shell("printf head; head -c 1000000 /dev/zero | tr '\\0' x; printf tail");
    request.limits.output_bytes = 64;
    let log = Arc::new(Log::default());
    let bench = Bench::new();
    bench
        .executor
        .start(job(Request::Run(request)), log.clone());
    let outcome = log.wait_for_ends(1).remove(0).1;
    let xs = |count| "x".repeat(count);
    let note = "\n[... 999944 bytes left out: limits.output is 64 ...]\n";
    let stdout = format!("head{}{note}{}tail", xs(44), xs(12));
    let text = "stdout is larger than 64 bytes (limits.output): print less, raise the limit, or write a file and take \
                it by `files:`";
    let wanted = Failure::new(ErrorClass::InvalidOutput, text)
        .with_code("output_limit")
        .with_data(json!({ "code": 0, "stdout": stdout, "stderr": "" }));
    assert_eq!(outcome, Outcome::done_with(wanted));
    let live = log.state.lock().unwrap().text.clone();
    assert!(
        live.ends_with("\n[... more is not shown: limits.output is 64 ...]\n"),
        "{live}"
    );
}

#[test]
fn stderr_is_talk_and_keeps_both_ends() {
    let mut request = shell(
        "{ printf head; head -c 1000000 /dev/zero | tr '\\0' x; printf tail; } >&2; echo data",
    );
    request.limits.output_bytes = 64;
    let outcome = Bench::new().run(request);
    let xs = |count| "x".repeat(count);
    let note = "\n[... 999944 bytes left out: limits.output is 64 ...]\n";
    let stderr = format!("head{}{note}{}tail", xs(44), xs(12));
    let wanted = json!({ "code": 0, "stdout": "data\n", "stderr": stderr, "files": {} });
    assert_eq!(outcome, Outcome::done(wanted.into()));
}

#[test]
fn stdout_that_is_no_text_is_refused_and_points_to_files() {
    let bench = Bench::new();
    let text =
        "stdout is not text (byte 3 is not UTF-8): write it to a file and take it by `files:`";
    let wanted = Failure::new(ErrorClass::InvalidOutput, text)
        .with_code("not_text")
        .with_data(json!({ "code": 0, "stdout": "ok\n\u{FFFD}\u{FFFD}", "stderr": "\u{FFFD}" }));
    let outcome = bench.run(shell("printf 'ok\\n\\377\\376'; printf '\\377' >&2"));
    assert_eq!(outcome, Outcome::done_with(wanted));
    let files = vec![("raw".into(), "raw".into())];
    let taken = bench.run(RunRequest {
        files,
        ..shell("printf '\\377\\376' > raw")
    });
    assert_eq!(value(&taken)["files"]["raw"]["bytes"], 2);
}

#[test]
fn output_that_must_be_json_and_is_not_is_invalid() {
    let failed = failure(
        Bench::new().run(RunRequest {
            json: true,
            ..shell("echo '{'")
        }),
        Fate::Done,
    );
    assert_eq!(failed.class, ErrorClass::InvalidOutput);
    assert_eq!(failed.data.unwrap(), json!({ "stdout": "{\n" }).into());
}

#[test]
fn limits_end_a_process_and_are_named() {
    let bench = Bench::new();
    let mut busy = shell("while :; do :; done");
    busy.limits.cpu_seconds = 1;
    let failed = failure(bench.run(busy), Fate::Unknown);
    assert_eq!(
        (failed.class, failed.code.as_deref()),
        (ErrorClass::Timeout, Some("cpu_limit"))
    );
    let mut large = shell("exec head -c 2000000 /dev/zero > x");
    large.limits.file_bytes = 1_000_000;
    let failed = failure(bench.run(large), Fate::Unknown);
    assert_eq!(
        (failed.class, failed.code.as_deref()),
        (ErrorClass::ToolError, Some("file_limit"))
    );
    let mut greedy = request(RunCommand::Python("x = bytearray(300 << 20)".into()));
    greedy.limits.memory_bytes = 200 << 20;
    let failed = failure(bench.run(greedy), Fate::Done);
    assert_eq!(&*failed.message, "exited with code 1: MemoryError");
}

#[test]
fn an_abort_empties_the_group_also_of_those_who_left_it_or_ignore_it() {
    let bench = Bench::new();
    let log = Arc::new(Log::default());
    let text = "trap '' TERM; sleep 600 & echo child $!; setsid sh -c 'echo away $$; exec sleep 601' & \
                echo leader $$; wait";
    bench
        .executor
        .start(job(Request::Run(shell(text))), log.clone());
    let text = log.wait_for_lines(3);
    bench
        .executor
        .abort("r1", Attempt { node: 3, number: 1 }, Stop::Cancelled);
    let outcome = log.wait_for_ends(1).remove(0).1;
    let failed = failure(outcome, Fate::Unknown);
    assert_eq!(failed.class, ErrorClass::Cancelled);
    for line in text.lines() {
        let pid = line.split(' ').next_back().unwrap();
        assert!(!alive(pid), "{line} lives");
    }
    assert!(!bench.dir.path().join("work/pids/r1").exists());
    assert!(!bench.dir.path().join("work/runs/r1").exists());
}

#[test]
fn what_a_finished_program_left_in_the_background_is_ended() {
    let outcome = Bench::new().run(shell("sleep 600 & echo $!; setsid sleep 600 & echo $!"));
    for pid in value(&outcome)["stdout"].as_str().unwrap().lines() {
        assert!(!alive(pid));
    }
}

#[test]
fn an_executor_that_is_dropped_takes_its_processes_along() {
    let bench = Bench::new();
    let log = Arc::new(Log::default());
    bench
        .executor
        .start(job(Request::Run(shell("echo $$; sleep 600"))), log.clone());
    let pid = log.wait_for_lines(1);
    drop(bench.executor);
    let outcome = log.wait_for_ends(1).remove(0).1;
    assert_eq!(failure(outcome, Fate::Unknown).class, ErrorClass::Internal);
    wait_until("the process to be gone", || !alive(&pid));
}

#[test]
fn a_sweep_ends_what_a_dead_engine_and_a_dead_supervisor_left() {
    let bench = Bench::new();
    let log = Arc::new(Log::default());
    let text = "setsid sh -c 'echo away $$; exec sleep 600' & sleep 600 & echo child $!; echo leader $$; wait";
    bench
        .executor
        .start(job(Request::Run(shell(text))), log.clone());
    let text = log.wait_for_lines(3);
    // The supervisor is the parent of the leader: without it nobody empties the group.
    let pids = bench.dir.path().join("work/pids/r1");
    let record = std::fs::read_dir(&pids)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let kept = std::fs::read(&record).unwrap();
    let read: Value = serde_json::from_slice(&kept).unwrap();
    let supervisor = read["supervisor"]["pid"].to_string();
    std::process::Command::new("kill")
        .args(["-KILL", &supervisor])
        .status()
        .unwrap();
    log.wait_for_ends(1);
    // What a new engine finds: the record, and perhaps processes.
    std::fs::create_dir_all(&pids).unwrap();
    std::fs::write(&record, kept).unwrap();
    bench.executor.sweep("r1");
    for line in text.lines() {
        assert!(!alive(line.split(' ').next_back().unwrap()), "{line} lives");
    }
    assert!(!pids.exists());
}

#[test]
fn a_directory_of_a_success_goes_and_one_of_a_failure_stays() {
    let bench = Bench::new();
    let folder = bench.dir.path().join("work/runs/r1/build/1");
    bench.run(shell("touch a"));
    bench.run(shell("exit 1"));
    // What is empty goes with the attempt, also up to the run's own folders.
    for empty in ["runs/r1", "pids/r1"] {
        assert!(
            !bench.dir.path().join("work").join(empty).exists(),
            "{empty}"
        );
    }
    bench.run(shell("touch a; exit 1"));
    assert!(folder.join("a").exists());
    bench.executor.remove_run("r1").unwrap();
    assert!(!bench.dir.path().join("work/runs/r1").exists());
    assert_eq!(
        std::fs::read_dir(bench.dir.path().join("work/tmp"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_handed_file_is_read_only() {
    let bench = Bench::new();
    let made = bench.run(RunRequest {
        files: vec![("a".into(), "a".into())],
        ..shell("echo 1 > a")
    });
    let file = value(&made)["files"]["a"].clone();
    let text = "stat -c %a inputs/a";
    let outcome = bench.run(RunRequest {
        args: Some(json!([file]).into()),
        ..shell(text)
    });
    assert_eq!(value(&outcome)["stdout"], "444\n");
    let hash = file["$file"].as_str().unwrap();
    let kept = bench.dir.path().join("work/files").join(hash);
    assert_eq!(
        std::fs::metadata(kept).unwrap().permissions().mode() & 0o777,
        0o444
    );
}

/// Set in the process that plays an engine: its work root.
const ENGINE_ROOT: &str = "RAVEL_TEST_ENGINE_ROOT";

#[test]
fn an_engine_that_is_killed_takes_its_processes_along() {
    if let Some(root) = std::env::var_os(ENGINE_ROOT) {
        // The engine: starts a process and is killed while it runs.
        let executor = ravel_io::LocalExecutor::new(crate::common::config(root.as_ref())).unwrap();
        let text = "echo leader $$ > pids; sleep 600 & echo child $! >> pids; \
                    setsid sh -c 'echo away $$ >> pids; exec sleep 600' & wait";
        let request = RunRequest {
            cwd: Some(root.to_str().unwrap().into()),
            ..shell(text)
        };
        executor.start(job(Request::Run(request)), Arc::new(Log::default()));
        loop {
            std::thread::park();
        }
    }
    let root = tempfile::tempdir().unwrap();
    let mut engine = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "run::an_engine_that_is_killed_takes_its_processes_along",
        ])
        .env(ENGINE_ROOT, root.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pids = || std::fs::read_to_string(root.path().join("pids")).unwrap_or_default();
    wait_until("the processes to begin", || pids().lines().count() == 3);
    let pids = pids();
    engine.kill().unwrap();
    engine.wait().unwrap();
    for line in pids.lines() {
        let pid = line.split(' ').next_back().unwrap();
        wait_until(line, || !alive(pid));
    }
    // The supervisor removes its record last; a sweep after it finds nothing and leaves nothing.
    let bench = Bench {
        executor: ravel_io::LocalExecutor::new(crate::common::config(root.path())).unwrap(),
        dir: root,
    };
    bench.executor.sweep("r1");
    let work = bench.dir.path().join("work");
    assert!(!work.join("pids/r1").exists());
}

#[test]
fn lines_are_given_on_while_the_program_runs() {
    let bench = Bench::new();
    let gate = bench.dir.path().join("gate");
    let text = format!(
        "echo one; echo; while [ ! -e '{0}' ]; do sleep 0.01; done; echo two; printf rest",
        gate.display()
    );
    let log = Arc::new(Log::default());
    let mut streaming = job(Request::Run(shell(&text)));
    streaming.stream = Some("stdout".into());
    bench.executor.start(streaming, log.clone());
    let first = log.wait_for_items(2);
    assert_eq!(
        first,
        (vec!["stdout".to_owned()], vec![json!("one"), json!("")])
    );
    std::fs::write(&gate, "").unwrap();
    let outcome = log.wait_for_ends(1).remove(0).1;
    assert_eq!(value(&outcome)["stdout"], "one\n\ntwo\nrest");
    assert_eq!(
        log.wait_for_items(3).1,
        [json!("one"), json!(""), json!("two")]
    );
}
