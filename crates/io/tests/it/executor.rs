//! The executor as the engine sees it.

use std::sync::Arc;

use crate::common::{Bench, Log, job, shell};
use ravel_core::effect::{ErrorClass, Failure, Fate, Outcome};
use ravel_core::event::{Attempt, Stop};
use ravel_core::port::{Executor, Job, ModelRequest, Request, SECRET_CLOSE, SECRET_OPEN};
use ravel_io::secret::Source;
use serde_json::json;

fn tool(name: &str, input: serde_json::Value) -> Request {
    Request::Tool {
        name: name.into(),
        input: input.into(),
    }
}

#[test]
fn a_pure_tool_has_finished_when_start_returns() {
    let bench = Bench::new();
    let log = Arc::new(Log::default());
    bench.executor.start(
        job(tool("text.lines", json!({ "text": "a\nb" }))),
        log.clone(),
    );
    let finished = log.state.lock().unwrap().finished.clone();
    let wanted = Outcome::done(json!({ "lines": ["a", "b"] }).into());
    assert_eq!(finished, [(Attempt { node: 3, number: 1 }, wanted)]);
}

#[test]
fn a_large_argument_is_worked_on_by_a_task() {
    let bench = Bench::new();
    let text = "x".repeat(300_000);
    assert_eq!(
        bench.tool("debug.echo", json!({ "text": text })),
        Outcome::done(json!({ "text": text }).into())
    );
}

#[test]
fn an_unknown_tool_is_not_done() {
    let failure =
        Failure::new(ErrorClass::NotFound, "there is no tool `crm.get`").with_code("tool_missing");
    assert_eq!(
        Bench::new().tool("crm.get", json!({})),
        Outcome::not_done(failure)
    );
}

#[test]
fn an_attempt_that_is_aborted_in_the_queue_was_not_done() {
    let bench = Bench::with(|config| config.limits.attempts_max = 1);
    let log = Arc::new(Log::default());
    let sleeper = |number: u32| Job {
        attempt: Attempt { node: 1, number },
        ..job(tool("debug.sleep", json!({ "ms": 3_600_000 })))
    };
    bench.executor.start(
        Job {
            attempt: Attempt { node: 1, number: 1 },
            ..job(Request::Run(shell("echo here; sleep 600")))
        },
        log.clone(),
    );
    log.wait_for_lines(1);
    bench.executor.start(sleeper(2), log.clone());
    bench
        .executor
        .abort("r1", Attempt { node: 1, number: 2 }, Stop::Timeout);
    let (attempt, outcome) = log.wait_for_ends(1).remove(0);
    let failure = Failure::new(
        ErrorClass::Timeout,
        "stopped: the timeout of the attempt passed",
    );
    assert_eq!((attempt.number, outcome), (2, Outcome::not_done(failure)));
    bench
        .executor
        .abort("r1", Attempt { node: 1, number: 1 }, Stop::Cancelled);
    assert_eq!(log.wait_for_ends(2)[1].1.fate, Fate::Unknown);
    crate::common::wait_until("the executor to be idle", || bench.executor.attempts() == 0);
}

#[test]
fn more_than_the_queue_holds_is_refused_and_nothing_is_dropped() {
    let bench = Bench::with(|config| {
        config.limits.attempts_max = 1;
        config.limits.queue_max = 1;
    });
    let log = Arc::new(Log::default());
    for number in 1..=3 {
        let request = tool("debug.sleep", json!({ "ms": 3_600_000 }));
        bench.executor.start(
            Job {
                attempt: Attempt { node: 1, number },
                ..job(request)
            },
            log.clone(),
        );
    }
    let text = "the executor holds 2 attempts already (executor.queue_max)";
    let refused = Outcome::not_done(Failure::new(ErrorClass::Overloaded, text));
    assert_eq!(
        log.wait_for_ends(1),
        [(Attempt { node: 1, number: 3 }, refused)]
    );
    for number in 1..=2 {
        bench
            .executor
            .abort("r1", Attempt { node: 1, number }, Stop::Cancelled);
    }
    assert_eq!(log.wait_for_ends(3).len(), 3);
}

#[test]
fn a_secret_reaches_the_environment_and_is_seen_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "hunter2-hunter3\n").unwrap();
    let bench = Bench::with(|config| {
        config
            .secrets
            .insert("token".to_owned(), Source::File(path));
    });
    let mark = format!("Bearer {SECRET_OPEN}token{SECRET_CLOSE}");
    let text = "printf 'hunter2-'; printf 'hunter3\\n'; echo \"$AUTH\" >&2; test \"$AUTH\" = 'Bearer hunter2-hunter3' && exit 4";
    let mut request = shell(text);
    request.env = vec![("AUTH".into(), mark.as_str().into())];
    let log = Arc::new(Log::default());
    bench
        .executor
        .start(job(Request::Run(request)), log.clone());
    let outcome = log.wait_for_ends(1).remove(0).1;
    let wanted = Failure::new(
        ErrorClass::ToolError,
        "exited with code 4: Bearer [secret token]",
    )
    .with_code("exit_4")
    .with_data(
        json!({ "code": 4, "stdout": "[secret token]\n", "stderr": "Bearer [secret token]\n" }),
    );
    assert_eq!(outcome, Outcome::done_with(wanted));
    let live = log.state.lock().unwrap().text.clone();
    assert!(
        !live.contains("hunter") && live.contains("Bearer [secret token]"),
        "{live}"
    );
}

#[test]
fn a_secret_outside_of_env_and_headers_is_refused() {
    let mark = format!("{SECRET_OPEN}token{SECRET_CLOSE}");
    let bench = Bench::new();
    let text = "the program reads a secret; secrets may only stand in `env` and in headers";
    let failure = Failure::new(ErrorClass::InvalidInput, text).with_code("secret_misplaced");
    assert_eq!(
        bench.run(shell(&format!("echo {mark}"))),
        Outcome::not_done(failure)
    );
    assert_eq!(
        bench.tool("debug.echo", json!({ "a": [mark] })).fate,
        Fate::NotDone
    );
}

#[test]
fn a_prompt_with_a_secret_is_refused_before_it_leaves() {
    let request = ModelRequest {
        model: "openai/any".into(),
        messages: vec![
            json!({ "role": "user", "content": format!("{SECRET_OPEN}token{SECRET_CLOSE}") })
                .into(),
        ],
        schema: None,
        max_tokens: 1,
        temperature: None,
        seed: None,
        stop: Vec::new(),
        emit: None,
    };
    let text = "the prompt reads a secret; secrets may only stand in `env` and in headers";
    let failure = Failure::new(ErrorClass::InvalidInput, text).with_code("secret_misplaced");
    assert_eq!(
        Bench::new().outcome(job(Request::Model(request))),
        Outcome::not_done(failure)
    );
}

#[test]
fn a_failure_can_be_asked_for_with_its_fate() {
    let bench = Bench::new();
    let failure = Failure::new(ErrorClass::Timeout, "failed as asked");
    let outcome = bench.tool(
        "debug.fail",
        json!({ "class": "timeout", "fate": "unknown" }),
    );
    assert_eq!(outcome, Outcome::unknown(failure));
}

#[test]
fn an_answer_cannot_name_a_secret() {
    let bench = Bench::new();
    let wanted = json!({ "h": "\u{FFFD}token\u{FFFD}" });
    let parsed = bench.tool(
        "json.parse",
        json!({ "text": r#"{"h": "\uf0f0token\uf0f1"}"# }),
    );
    assert_eq!(parsed, Outcome::done(wanted.clone().into()));
    let source = r#"printf '{"h": "\\uf0f0token\\uf0f1"}'"#;
    let printed = bench.run(ravel_core::port::RunRequest {
        json: true,
        ..shell(source)
    });
    assert_eq!(printed.result.unwrap().json()["json"], wanted);
}

#[test]
fn what_a_list_shared_is_gone_when_the_executor_of_its_succeeded_run_is() {
    let bench = Bench::new();
    let outcome = bench.outcome(Job {
        workspace: Some("list".into()),
        ..job(Request::Run(shell("echo kept > file")))
    });
    assert_eq!(outcome.fate, Fate::Done);
    let shared = bench.dir.path().join("work/runs/r1/list/shared");
    assert!(shared.join("file").is_file(), "for the next step");
    let Bench { dir, executor } = bench;
    executor.tidy(&"r1".into());
    drop(executor);
    assert!(!dir.path().join("work/runs/r1").exists());
}
