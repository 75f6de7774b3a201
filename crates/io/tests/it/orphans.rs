//! Ends that meet in time: an abort of what is only beginning, and a supervisor that is killed.

use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure, Fate, Outcome};
use ravel_core::event::Stop;
use ravel_core::port::{Executor, Request};

use crate::common::{Bench, Log, job, shell, wait_until};

#[test]
fn an_abort_is_said_as_one_at_whatever_moment_it_comes() {
    let bench = Bench::new();
    // From before the supervisor is started to after the program has begun.
    for spins in (0..40).map(|step| step * 20_000_u64) {
        let log = Arc::new(Log::default());
        let job = job(Request::Run(shell("sleep 600")));
        let attempt = job.attempt;
        bench.executor.start(job, log.clone());
        for spin in 0..spins {
            std::hint::black_box(spin);
        }
        bench.executor.abort("r1", attempt, Stop::Cancelled);
        let outcome = log.wait_for_ends(1).remove(0).1;
        let text = "stopped: the step was cancelled";
        let mut failure = outcome.result.unwrap_err();
        failure.data = None;
        assert_eq!(failure, Failure::new(ErrorClass::Cancelled, text));
    }
}

#[test]
fn a_daemon_without_a_trace_ends_with_its_killed_supervisor() {
    let bench = Bench::with(|config| config.heir = true);
    let log = Arc::new(Log::default());
    let file = bench.dir.path().join("daemon");
    // In a session of its own, with nothing in its environment: only the kernel knows whose it was.
    let text = format!(
        "env -i setsid sh -c 'echo $$ > {0}.part; mv {0}.part {0}; sleep 600; true' & sleep 600; true",
        file.display()
    );
    bench
        .executor
        .start(job(Request::Run(shell(&text))), log.clone());
    wait_until("the daemon to begin", || file.exists());
    let daemon = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    let records = bench.dir.path().join("work/pids/r1");
    let record = std::fs::read_dir(records)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let supervisor = record["supervisor"]["pid"].to_string();
    let killed = std::process::Command::new("kill")
        .args(["-KILL", &supervisor])
        .status();
    assert!(killed.unwrap().success());

    let outcome = log.wait_for_ends(1).remove(0).1;
    let failure = Failure::new(
        ErrorClass::Crashed,
        "the supervisor of the process was lost",
    );
    assert_eq!(outcome, Outcome::unknown(failure));
    assert_eq!(outcome.fate, Fate::Unknown);
    let gone = !std::path::Path::new(&format!("/proc/{daemon}")).exists();
    assert!(gone, "nothing of it is left, not even to be reaped");
}
