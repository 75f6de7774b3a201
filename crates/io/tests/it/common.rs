//! What the tests of the executor share: a report that can be waited for, and jobs.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ravel_core::effect::{Effect, Outcome};
use ravel_core::event::Attempt;
use ravel_core::graph::{ProcessLimits, Sandbox};
use ravel_core::port::{Executor, Job, Report, Request, RunCommand, RunRequest};
use ravel_core::value::Val;
use ravel_io::executor::Limits;
use ravel_io::{Config, LocalExecutor};

/// Longest wait for anything in a test: reached only when the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) text: String,
    /// Batches of streamed items: field and items.
    pub(crate) items: Vec<(String, Vec<Val>)>,
    pub(crate) finished: Vec<(Attempt, Outcome)>,
}

impl Report for Log {
    fn text(&self, _: &str, _: Attempt, text: &str) {
        self.state.lock().unwrap().text.push_str(text);
        self.changed.notify_all();
    }

    fn items(&self, _: &str, _: Attempt, field: &str, items: Vec<Val>) {
        self.state
            .lock()
            .unwrap()
            .items
            .push((field.to_owned(), items));
        self.changed.notify_all();
    }

    fn finished(&self, _: &str, attempt: Attempt, outcome: Outcome) {
        self.state.lock().unwrap().finished.push((attempt, outcome));
        self.changed.notify_all();
    }
}

impl Log {
    /// Waits for this many whole lines.
    pub(crate) fn wait_for_lines(&self, count: usize) -> String {
        let state = self.state.lock().unwrap();
        let lines = |state: &State| state.text.matches('\n').count();
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| lines(state) < count)
            .unwrap();
        assert!(
            !timeout.timed_out(),
            "waited for {count} lines, saw {:?} {:?}",
            state.text,
            state.finished
        );
        state.text.clone()
    }

    /// Waits for this many streamed items; gives their fields and all of them.
    pub(crate) fn wait_for_items(&self, count: usize) -> (Vec<String>, Vec<serde_json::Value>) {
        let state = self.state.lock().unwrap();
        let there = |state: &State| {
            state
                .items
                .iter()
                .map(|(_, items)| items.len())
                .sum::<usize>()
        };
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| there(state) < count)
            .unwrap();
        assert!(
            !timeout.timed_out(),
            "waited for {count} items, saw {:?}",
            state.items
        );
        let mut fields: Vec<String> = state.items.iter().map(|(field, _)| field.clone()).collect();
        fields.dedup();
        let items = state.items.iter().flat_map(|(_, items)| items);
        (fields, items.map(|item| item.json().clone()).collect())
    }

    /// Waits for this many ends.
    pub(crate) fn wait_for_ends(&self, count: usize) -> Vec<(Attempt, Outcome)> {
        let state = self.state.lock().unwrap();
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| state.finished.len() < count)
            .unwrap();
        assert!(
            !timeout.timed_out(),
            "waited for {count} ends, saw {:?}",
            state.finished
        );
        state.finished.clone()
    }
}

pub(crate) fn config(root: &Path) -> Config {
    Config {
        helper: env!("CARGO_BIN_EXE_ravel-child").into(),
        limits: Limits {
            grace_ms: 200,
            ..Limits::default()
        },
        ..Config::new(root.join("work")).unwrap()
    }
}

pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) executor: LocalExecutor,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        change(&mut config);
        let executor = LocalExecutor::new(config).unwrap();
        Self { dir, executor }
    }

    /// Carries one job out to its end.
    pub(crate) fn outcome(&self, job: Job) -> Outcome {
        let log = Arc::new(Log::default());
        self.executor.start(job, log.clone());
        log.wait_for_ends(1).remove(0).1
    }

    pub(crate) fn run(&self, request: RunRequest) -> Outcome {
        self.outcome(job(Request::Run(request)))
    }

    pub(crate) fn tool(&self, name: &str, input: serde_json::Value) -> Outcome {
        self.outcome(job(Request::Tool {
            name: name.into(),
            input: input.into(),
        }))
    }
}

pub(crate) fn job(request: Request) -> Job {
    Job {
        run: "r1".into(),
        path: "build".into(),
        attempt: Attempt { node: 3, number: 1 },
        key: "key-1".into(),
        effect: Effect::Once,
        until: u64::MAX,
        workspace: None,
        stream: None,
        cache: None,
        folder: None,
        request,
    }
}

pub(crate) fn request(program: RunCommand) -> RunRequest {
    RunRequest {
        program,
        args: None,
        env: Vec::new(),
        cwd: None,
        ok: vec![0],
        files: Vec::new(),
        json: false,
        sandbox: Sandbox::None,
        limits: ProcessLimits {
            cpu_seconds: 60,
            memory_bytes: 4 << 30,
            output_bytes: 1 << 20,
            file_bytes: 1 << 30,
        },
    }
}

pub(crate) fn shell(text: &str) -> RunRequest {
    request(RunCommand::Shell(text.into()))
}

/// Waits until the condition holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < until, "waited for {what}");
        std::thread::yield_now();
    }
}

/// True while a process with this id lives (a dead one that nobody reaped does not).
pub(crate) fn alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !matches!(stat.rsplit_once(") ").unwrap().1.as_bytes()[0], b'Z' | b'X'))
}
