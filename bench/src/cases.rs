//! The cases: one row each.

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ravel_core::port::Summary;
use ravel_core::port_store::{Listing, Message};
use ravel_engine::{Engine, EngineError, Limits, Pending, StartRequest};
use serde_json::json;

use crate::flows;
use crate::machine;
use crate::measure::{Row, Watch, rss_bytes};
use crate::rig::{Flow, Kind, Rig, data_dir};

/// One measurement.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn(&Self) -> Result<Row, String>,
}

/// All cases, in the order of the table.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "machine",
        what: "syncs and SQLite commits of this machine",
        run: bare_machine,
    },
    Case {
        name: "chain_1000_memory",
        what: "1,000 set steps in a row",
        run: |case| one_run(case, Kind::Memory, &flows::chain(1_000), 1_000),
    },
    Case {
        name: "chain_1000_sqlite",
        what: "1,000 set steps in a row",
        run: |case| one_run(case, Kind::Sqlite, &flows::chain(1_000), 1_000),
    },
    Case {
        name: "pure_tools_1000_memory",
        what: "1,000 pure tool steps in a row",
        run: |case| one_run(case, Kind::Memory, &flows::tool_chain(1_000, "pure"), 1_000),
    },
    Case {
        name: "pure_tools_1000_sqlite",
        what: "1,000 pure tool steps in a row",
        run: |case| one_run(case, Kind::Sqlite, &flows::tool_chain(1_000, "pure"), 1_000),
    },
    Case {
        name: "fan_1000_memory",
        what: "1,000 set steps side by side, one join",
        run: |case| one_run(case, Kind::Memory, &flows::fan(1_000), 1_002),
    },
    Case {
        name: "fan_1000_sqlite",
        what: "1,000 set steps side by side, one join",
        run: |case| one_run(case, Kind::Sqlite, &flows::fan(1_000), 1_002),
    },
    Case {
        name: "fan_4000_memory",
        what: "4,000 set steps side by side, one join",
        run: fan_growth,
    },
    Case {
        name: "fan_4000_sqlite",
        what: "4,000 set steps side by side, one join",
        run: |case| one_run(case, Kind::Sqlite, &flows::fan(4_000), 4_002),
    },
    Case {
        name: "dag_memory",
        what: "random graph, 1,000 set steps, 3,000 edges",
        run: |case| one_run(case, Kind::Memory, &flows::dag(1_000, 3_000), 1_000),
    },
    Case {
        name: "dag_sqlite",
        what: "random graph, 1,000 set steps, 3,000 edges",
        run: |case| one_run(case, Kind::Sqlite, &flows::dag(1_000, 3_000), 1_000),
    },
    Case {
        name: "runs_1000x5_memory",
        what: "1,000 runs of 5 set steps",
        run: |case| many_runs(case, Kind::Memory, false),
    },
    Case {
        name: "runs_1000x5_sqlite",
        what: "1,000 runs of 5 set steps and one once step",
        run: |case| many_runs(case, Kind::Sqlite, true),
    },
    Case {
        name: "once_row_2000",
        what: "one run, 2,000 once steps in a row",
        run: once_in_a_row,
    },
    Case {
        name: "once_runs_2000",
        what: "2,000 runs of one once step, 64 in flight",
        run: once_runs,
    },
    Case {
        name: "once_fan_2000",
        what: "one run, 2,000 once steps, 64 at a time, one join",
        run: once_fan,
    },
    Case {
        name: "sleep_200x50",
        what: "200 steps of 50 ms side by side",
        run: sleepers,
    },
    Case {
        name: "recover_1000",
        what: "1,000 runs go on after their process was killed",
        run: recover,
    },
    Case {
        name: "replay_100000",
        what: "a run of 100,000 steps is read and folded again",
        run: replay,
    },
    Case {
        name: "parked_100000",
        what: "100,000 runs that wait for a person",
        run: parked,
    },
];

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn named(row: Row, case: &Case) -> Row {
    Row {
        name: case.name.to_owned(),
        what: case.what.to_owned(),
        ..row
    }
}

/// Adds what the engine and the store say about a finished case.
fn finish(mut row: Row, rig: &Rig) -> Result<Row, String> {
    let counters = rig.engine.status().map_err(text)?.counters;
    row.commits = Some(counters.commits);
    row.turns_per_commit = Some(counters.turns as f64 / counters.commits.max(1) as f64);
    row.disk_bytes_per_step = rig
        .disk_bytes()?
        .map(|bytes| bytes as f64 / row.steps as f64);
    Ok(row)
}

fn bare_machine(case: &Case) -> Result<Row, String> {
    let dir = tempfile::tempdir().map_err(text)?;
    let watch = Watch::start();
    let syncs = machine::syncs_per_s(dir.path())?;
    let alone = machine::records_per_s(dir.path(), 1)?;
    let grouped = machine::records_per_s(dir.path(), 64)?;
    let row = named(watch.row(1), case);
    Ok(row
        .with("fdatasync a second", syncs)
        .with("commits a second, one by one", alone)
        .with("records a second, 64 to a commit", grouped))
}

/// One run to its end, after one to warm up.
fn one_run(case: &Case, kind: Kind, flow: &str, steps: u64) -> Result<Row, String> {
    let rig = Rig::new(kind)?;
    let flow = rig.flow(flow)?;
    let go = |rig: &Rig| -> Result<(), String> {
        let run = rig
            .engine
            .start(rig.request(&flow, json!({})))
            .map_err(text)?;
        let summary = rig.engine.wait(&run).map_err(text)?;
        summary.output.map(drop).ok_or_else(|| {
            format!(
                "the run ended as {}: {:?}",
                summary.state.name(),
                summary.error
            )
        })
    };
    let plain = rig.disk_bytes()?;
    go(&rig)?;
    let watch = Watch::start();
    go(&rig)?;
    let row = finish(named(watch.row(steps), case), &rig)?;
    // Two runs of the flow are on disk.
    let disk = rig
        .disk_bytes()?
        .zip(plain)
        .map(|(now, before)| (now - before) as f64 / (2 * steps) as f64);
    let row = Row {
        disk_bytes_per_step: disk,
        ..row
    };
    let cpu = row.cpu_us_per_step;
    Ok(match kind {
        Kind::Memory => row.at_most("10 µs CPU a step", cpu, 10.0),
        Kind::Sqlite => row,
    })
}

fn fan_growth(case: &Case) -> Result<Row, String> {
    let narrow = one_run(case, Kind::Memory, &flows::fan(1_000), 1_002)?;
    let wide = one_run(case, Kind::Memory, &flows::fan(4_000), 4_002)?;
    let growth = wide.wall_ms / narrow.wall_ms;
    Ok(wide
        .at_most("time of 4,000 below 5 times that of 1,000", growth, 5.0)
        .with("times 1,000", growth))
}

/// Starts so many runs, `window` under way at a time, and waits for all. Each end starts the next run on the engine's
/// own thread, so that the numbers are the engine's and not those of a second thread that is woken.
fn run_all(rig: &Rig, flow: &Flow, count: usize, window: usize) -> Result<(), String> {
    let load = Arc::new(Load {
        engine: Arc::clone(&rig.engine),
        request: rig.request(flow, json!({})),
        left: Mutex::new(Left {
            to_start: count,
            to_end: count,
            error: None,
        }),
        moved: Condvar::new(),
    });
    for _ in 0..window.min(count) {
        Load::start_one(&load);
    }
    let mut left = load.lock();
    while left.to_end > 0 && left.error.is_none() {
        left = load
            .moved
            .wait(left)
            .unwrap_or_else(PoisonError::into_inner);
    }
    left.error.take().map_or(Ok(()), Err)
}

/// Runs that are still to be started and to end.
struct Load {
    engine: Arc<Engine>,
    request: StartRequest,
    left: Mutex<Left>,
    moved: Condvar,
}

struct Left {
    to_start: usize,
    to_end: usize,
    error: Option<String>,
}

impl Load {
    fn lock(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_one(load: &Arc<Self>) {
        {
            let mut left = load.lock();
            if left.to_start == 0 {
                return;
            }
            left.to_start -= 1;
        }
        let run = ravel_engine::new_run_id();
        let request = StartRequest {
            run: Some(Arc::clone(&run)),
            ..load.request.clone()
        };
        let started = Arc::clone(load);
        load.engine.start_then(
            request,
            Box::new(move |answer: Result<Arc<str>, EngineError>| {
                if let Err(error) = answer {
                    started.note(Err(error.to_string()));
                }
            }),
        );
        let ended = Arc::clone(load);
        load.engine.wait_then(
            &run,
            Box::new(move |end: Result<Summary, EngineError>| {
                ended.note(end.map_err(text).and_then(|summary| {
                    let word = summary.state.name();
                    summary
                        .output
                        .map(drop)
                        .ok_or_else(|| format!("a run ended as {word}"))
                }));
                Self::start_one(&ended);
            }),
        );
    }

    fn note(&self, end: Result<(), String>) {
        let mut left = self.lock();
        left.to_end -= 1;
        if let Err(error) = end {
            left.error = Some(error);
        }
        if left.to_end == 0 || left.error.is_some() {
            self.moved.notify_one();
        }
    }
}

fn many_runs(case: &Case, kind: Kind, once: bool) -> Result<Row, String> {
    let rig = Rig::new(kind)?;
    let flow = rig.flow(&flows::five(once))?;
    let steps = if once { 6_000 } else { 5_000 };
    run_all(&rig, &flow, 1_000, 1_000)?;
    let watch = Watch::start();
    run_all(&rig, &flow, 1_000, 1_000)?;
    let row = finish(named(watch.row(steps), case), &rig)?;
    let cpu = row.cpu_us_per_step;
    Ok(match kind {
        Kind::Memory => row.at_most("5 µs CPU a step", cpu, 5.0),
        Kind::Sqlite => row.at_most("30 µs CPU a step", cpu, 30.0),
    })
}

fn once_in_a_row(case: &Case) -> Result<Row, String> {
    let rig = Rig::new(Kind::Sqlite)?;
    let flow = rig.flow(&flows::tool_chain(2_000, "once"))?;
    let before = machine::records_per_s(&rig.dir, 1)?;
    let watch = Watch::start();
    let run = rig
        .engine
        .start(rig.request(&flow, json!({})))
        .map_err(text)?;
    rig.engine.wait(&run).map_err(text)?;
    let row = finish(named(watch.row(2_000), case), &rig)?;
    let after = machine::records_per_s(&rig.dir, 1)?;
    let ours = row.commits.unwrap_or(0) as f64 / (row.wall_ms / 1e3);
    Ok(row.at_least_share(
        "commits one by one",
        f64::midpoint(before, after),
        ours,
        0.8,
    ))
}

fn once_runs(case: &Case) -> Result<Row, String> {
    let rig = Rig::new(Kind::Sqlite)?;
    let flow = rig.flow(flows::ONE)?;
    run_all(&rig, &flow, 640, 64)?;
    let before = machine::records_per_s(&rig.dir, 64)?;
    let watch = Watch::start();
    run_all(&rig, &flow, 2_000, 64)?;
    let row = finish(named(watch.row(2_000), case), &rig)?;
    let after = machine::records_per_s(&rig.dir, 64)?;
    // Each step writes two records: its start and its end.
    let ours = 2.0 * row.steps_per_s;
    Ok(row.at_least_share(
        "records 64 to a commit",
        f64::midpoint(before, after),
        ours,
        0.5,
    ))
}

fn once_fan(case: &Case) -> Result<Row, String> {
    let rig = Rig::new(Kind::Sqlite)?;
    let flow = rig.flow(&flows::fan_tools("once", 64))?;
    let before = machine::records_per_s(&rig.dir, 64)?;
    let items: Vec<u32> = (0..2_000).collect();
    let watch = Watch::start();
    let run = rig
        .engine
        .start(rig.request(&flow, json!({ "items": items })))
        .map_err(text)?;
    rig.engine.wait(&run).map_err(text)?;
    let row = finish(named(watch.row(2_001), case), &rig)?;
    let after = machine::records_per_s(&rig.dir, 64)?;
    let ours = row.steps_per_s;
    Ok(row.at_least_share(
        "records 64 to a commit",
        f64::midpoint(before, after),
        ours,
        0.5,
    ))
}

fn sleepers(case: &Case) -> Result<Row, String> {
    let rig = Rig::new(Kind::Sqlite)?;
    let flow = rig.flow(&flows::sleepers(200, 50))?;
    let warm = rig
        .engine
        .start(rig.request(&flow, json!({})))
        .map_err(text)?;
    rig.engine.wait(&warm).map_err(text)?;
    let watch = Watch::start();
    let run = rig
        .engine
        .start(rig.request(&flow, json!({})))
        .map_err(text)?;
    let summary = rig.engine.wait(&run).map_err(text)?;
    let row = finish(named(watch.row(200), case), &rig)?;
    if summary.error.is_some() {
        return Err(format!("the run failed: {:?}", summary.error));
    }
    let wall = row.wall_ms;
    Ok(row.at_most("60 ms", wall, 60.0))
}

/// Runs that are live when their process is killed.
const PREY: usize = 1_000;

/// The process that is to be killed: starts runs in a directory, says so, and waits for its end.
pub(crate) fn prey(dir: &Path, out: &mut dyn Write) -> Result<(), String> {
    let rig = Rig::within(dir)?;
    let flow = rig.flow(flows::LONG)?;
    let begun: Vec<_> = (0..PREY)
        .map(|_| rig.engine.begin(rig.request(&flow, json!({}))))
        .collect();
    for run in begun {
        run.wait().map_err(text)?;
    }
    rig.starts.wait_for(PREY);
    writeln!(out, "ready")
        .and_then(|()| out.flush())
        .map_err(text)?;
    loop {
        std::thread::park();
    }
}

fn recover(case: &Case) -> Result<Row, String> {
    let dir = tempfile::tempdir_in(data_dir()).map_err(text)?;
    let program = std::env::current_exe().map_err(text)?;
    let mut child = Command::new(program)
        .arg("--prey")
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(text)?;
    let mut ready = [0; 1];
    let out = child.stdout.as_mut().ok_or("the child has no output")?;
    let read = std::io::Read::read(out, &mut ready).map_err(text)?;
    child.kill().map_err(text)?;
    child.wait().map_err(text)?;
    if read == 0 {
        return Err("the process that was to be killed ended by itself".to_owned());
    }

    let watch = Watch::start();
    let began = Instant::now();
    let rig = Rig::on(dir, &[flows::LONG])?;
    rig.starts.wait_for(1);
    let first = began.elapsed().as_secs_f64();
    rig.starts.wait_for(PREY);
    let all = began.elapsed().as_secs_f64();
    let row = finish(named(watch.row(PREY as u64), case), &rig)?.with("all go on after s", all);
    Ok(row.at_most("first step within 1 s", first, 1.0))
}

fn replay(case: &Case) -> Result<Row, String> {
    const STEPS: u64 = 100_000;
    let rig = Rig::new(Kind::Sqlite)?;
    let flow = rig.flow(&flows::wide(STEPS))?;
    let live = Watch::start();
    let run = rig
        .engine
        .start(rig.request(&flow, json!({})))
        .map_err(text)?;
    rig.engine.wait(&run).map_err(text)?;
    let live = live.row(STEPS);
    let watch = Watch::start();
    let folded = rig.fold(&run)?;
    let row = finish(named(watch.row(STEPS), case), &rig)?;
    if !folded.is_final() {
        return Err("the folded run is not over".to_owned());
    }
    Ok(row.with("CPU µs a step of the run itself", live.cpu_us_per_step))
}

fn parked(case: &Case) -> Result<Row, String> {
    const RUNS: u64 = 100_000;
    let limits = Limits {
        park_after_ms: 50,
        ..Limits::default()
    };
    let rig = Rig::with(Kind::Sqlite, limits)?;
    let flow = rig.flow(flows::ASKING)?;
    let before = rss_bytes();
    let watch = Watch::start();
    let mut pending = VecDeque::new();
    for _ in 0..RUNS {
        if pending.len() == 5_000 {
            let first: Option<Pending<Arc<str>>> = pending.pop_front();
            first.map(Pending::wait).transpose().map_err(text)?;
        }
        pending.push_back(rig.engine.begin(rig.request(&flow, json!({}))));
    }
    let mut last = None;
    for start in pending {
        last = Some(start.wait().map_err(text)?);
    }
    let last = last.ok_or("no run was started")?;
    while rig.engine.status().map_err(text)?.counters.parked < usize::try_from(RUNS).unwrap_or(0) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let row = finish(named(watch.row(RUNS), case), &rig)?;
    let bytes = (rss_bytes() - before) / RUNS as f64;
    let start = Instant::now();
    let rig = rig.restart()?;
    let ready = rig.answer_one(&last)?;
    let total = start.elapsed().as_secs_f64();
    let row = row
        .with("bytes resident a run", bytes)
        .with("restart s", total)
        .with("answer after restart s", ready);
    Ok(row.at_most("start-up below 2 s", total, 2.0))
}

impl Rig {
    /// Answers the question of a run, through the engine, and waits for its end. Gives the seconds it took.
    fn answer_one(&self, run: &Arc<str>) -> Result<f64, String> {
        let start = Instant::now();
        let store = self.listing()?;
        let open = store.questions(Some(run)).map_err(text)?;
        let question = open.first().ok_or("the run asks nothing")?.id.clone();
        let message = Message::Answer {
            question,
            value: json!({ "ok": true }).into(),
            by: None,
        };
        self.engine.post(run, message).map_err(text)?;
        self.engine.wait(run).map_err(text)?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn listing(&self) -> Result<Arc<dyn Listing>, String> {
        self.sqlite()
            .map(|sqlite| sqlite as Arc<dyn Listing>)
            .ok_or_else(|| "the case needs SQLite".to_owned())
    }
}
