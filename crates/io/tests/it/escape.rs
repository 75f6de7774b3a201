//! A program that does all it can to leave something behind: its daemon is forked twice, leads a session of its own, has
//! an empty environment and no stream of the step, and ignores every signal that can be ignored.

use std::path::Path;
use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Fate};
use ravel_core::event::{Attempt, Stop};
use ravel_core::port::{Executor, Job, Request, RunCommand, RunRequest};
use ravel_io::LocalExecutor;

use crate::common::{Bench, Log, alive, config, job, request, shell, wait_until};

/// Processes that the program starts, itself included.
const PROCESSES: usize = 3;

/// The program. It writes who there is into a file, and ends as it is told when all are there.
fn program(pids: &Path, end: &str) -> RunRequest {
    let pids = pids.display();
    shell(&format!(
        "trap '' TERM HUP INT; echo leader $$ >> {pids}; sleep 600 & echo child $! >> {pids}; \
         (env -i PATH=\"$PATH\" setsid sh -c \
         '(sh -c \"echo daemon \\$\\$ >> {pids}; exec sleep 600\" > /dev/null 2>&1 < /dev/null &)'); \
         until grep -q daemon {pids}; do :; done; {end}"
    ))
}

fn read(pids: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(pids).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Those of the processes that live.
fn living(pids: &Path) -> Vec<String> {
    let pid = |line: &String| line.split(' ').next_back().unwrap().to_owned();
    read(pids)
        .into_iter()
        .filter(|line| alive(&pid(line)))
        .collect()
}

#[test]
fn nothing_survives_a_stop_for_whatever_reason() {
    let bench = Bench::new();
    for (number, (stop, class)) in (1..).zip([
        (Stop::Cancelled, ErrorClass::Cancelled),
        (Stop::Timeout, ErrorClass::Timeout),
        (Stop::Deadline, ErrorClass::Deadline),
    ]) {
        let pids = bench.dir.path().join(format!("pids{number}"));
        let log = Arc::new(Log::default());
        let attempt = Attempt { node: 1, number };
        let request = Request::Run(program(&pids, "wait"));
        bench.executor.start(
            Job {
                attempt,
                ..job(request)
            },
            log.clone(),
        );
        wait_until("the processes to begin", || {
            living(&pids).len() == PROCESSES
        });
        bench.executor.abort("r1", attempt, stop);
        let outcome = log.wait_for_ends(1).remove(0).1;
        assert_eq!(living(&pids), Vec::<String>::new(), "{stop:?}");
        assert_eq!(
            (outcome.fate, outcome.result.unwrap_err().class),
            (Fate::Unknown, class)
        );
    }
}

#[test]
fn nothing_survives_the_end_of_its_program_however_it_ends() {
    let bench = Bench::new();
    for (number, end) in ["exit 0", "exit 7", "kill -KILL $$", "kill -KILL 0"]
        .into_iter()
        .enumerate()
    {
        let pids = bench.dir.path().join(format!("pids{number}"));
        bench.run(program(&pids, end));
        assert_eq!(read(&pids).len(), PROCESSES);
        assert_eq!(living(&pids), Vec::<String>::new(), "{end}");
    }
}

/// A process that is another one each time somebody looks: it forks and ends, for ever.
const HOPPER: &str = "import os, signal\n\
    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
    if os.fork(): print('begun', flush=True); signal.pause()\n\
    os.setsid()\n\
    while True:\n\
    \x20   if os.fork(): os._exit(0)\n";

/// Processes that have this mark in their environment, looked for as often as one may slip through between two looks.
fn hoppers(mark: &str) -> usize {
    const LOOKS: usize = 20;
    let is_one = |entry: std::fs::DirEntry| {
        let env = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&env).contains(mark)
    };
    let look = || std::fs::read_dir("/proc").unwrap().flatten().map(is_one);
    (0..LOOKS)
        .map(|_| look().filter(|found| *found).count())
        .sum()
}

#[test]
fn a_process_that_is_another_one_all_the_time_is_caught() {
    let bench = Bench::new();
    let log = Arc::new(Log::default());
    let mut request = request(RunCommand::Python(HOPPER.into()));
    let mark = bench.dir.path().join("hopper").display().to_string();
    request.env = vec![("HOPPER".into(), mark.as_str().into())];
    bench
        .executor
        .start(job(Request::Run(request)), log.clone());
    log.wait_for_lines(1);
    assert!(hoppers(&mark) > 0);
    bench
        .executor
        .abort("r1", Attempt { node: 3, number: 1 }, Stop::Cancelled);
    assert_eq!(log.wait_for_ends(1).remove(0).1.fate, Fate::Unknown);
    assert_eq!(hoppers(&mark), 0);
}

#[test]
fn nothing_survives_the_limits_of_its_program() {
    let bench = Bench::new();
    let pids = bench.dir.path().join("pids");
    let mut request = program(&pids, "while :; do :; done");
    request.limits.cpu_seconds = 1;
    let outcome = bench.run(request);
    assert_eq!(
        outcome.result.unwrap_err().code.as_deref(),
        Some("cpu_limit")
    );
    assert_eq!(living(&pids), Vec::<String>::new());
}

/// Set in the process that plays an engine: its work root.
const ENGINE_ROOT: &str = "RAVEL_TEST_ESCAPE_ROOT";

#[test]
fn nothing_survives_an_engine_that_is_killed() {
    if let Some(root) = std::env::var_os(ENGINE_ROOT) {
        // The engine: starts a process and is killed while it runs.
        let root = Path::new(&root);
        let executor = LocalExecutor::new(config(root)).unwrap();
        let request = Request::Run(program(&root.join("pids"), "wait"));
        executor.start(job(request), Arc::new(Log::default()));
        loop {
            std::thread::park();
        }
    }
    let root = tempfile::tempdir().unwrap();
    let mut engine = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "escape::nothing_survives_an_engine_that_is_killed",
        ])
        .env(ENGINE_ROOT, root.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pids = root.path().join("pids");
    wait_until("the processes to begin", || {
        living(&pids).len() == PROCESSES
    });
    engine.kill().unwrap();
    engine.wait().unwrap();
    wait_until("all of them to be gone", || living(&pids).is_empty());
    // What the dead engine left on disk goes with the sweep of the next one.
    let executor = LocalExecutor::new(config(root.path())).unwrap();
    executor.sweep("r1");
    for folder in ["pids/r1", "runs/r1"] {
        assert!(!root.path().join("work").join(folder).exists(), "{folder}");
    }
    let scratch = std::fs::read_dir(root.path().join("work/tmp")).unwrap();
    assert_eq!(scratch.count(), 0);
}
