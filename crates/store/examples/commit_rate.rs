//! Commit rates of the SQLite store beside the machine's own, measured in turn in the same run.
//!
//! `cargo run --release -p ravel-store --example commit_rate [-- DIR]`
//!
//! The floor is what any store on SQLite pays: ready bytes inserted into a rowid table with an index on (run, turn),
//! WAL, `synchronous=FULL`. Ours adds encoding, the hash chain, fencing and the summary. Machines are shared: quote the
//! ratios.

#![expect(clippy::print_stdout, reason = "it reports")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use ravel_core::effect::{Effect, Fate, Usage};
use ravel_core::event::{Datum, Event, Settled, Turn};
use ravel_core::port::{RunState, Summary};
use ravel_core::port_store::{Batch, Log, Owner, RunCommit};
use ravel_core::value::Val;
use ravel_store::{Memory, Sqlite};
use rusqlite::{Connection, params};

type Done<T> = Result<T, Box<dyn Error>>;

/// Runs per group commit.
const GROUP: usize = 64;
/// Runs that take turns in the groups.
const RUNS: usize = 1_024;
/// Commits per measurement.
const GROUPS: usize = 128;
const SINGLES: usize = 1_000;
/// Measurements of each kind, taken in turn.
const ROUNDS: usize = 5;

/// Cost of one turn.
#[derive(Clone, Copy, Debug)]
struct Cost {
    wall_us: f64,
    cpu_us: f64,
}

fn main() -> Done<()> {
    let place = std::env::args().nth(1);
    let directory = match &place {
        Some(path) => tempfile::tempdir_in(path)?,
        None => tempfile::tempdir()?,
    };
    let mut bare = Bare::new(directory.path())?;
    let store = Sqlite::open(directory.path().join("ours.db"))?;
    let memory = Memory::new();
    let mut ours = Ours::new(&store, "r")?;
    let mut apart = Ours::new(&store, "s")?;
    let mut held = Ours::new(&memory, "m")?;
    println!("a turn is {} bytes of JSON", bare.body.len());
    let mut kinds: [(&str, Vec<Cost>); 5] = [
        ("bare insert, 64 to a commit", Vec::new()),
        ("ours, 64 runs to a commit", Vec::new()),
        ("bare insert, one by one", Vec::new()),
        ("ours, one run, one by one", Vec::new()),
        ("in memory, 64 runs to a commit", Vec::new()),
    ];
    for _ in 0..ROUNDS {
        kinds[0].1.push(measure(GROUPS * GROUP, || bare.groups())?);
        kinds[1].1.push(measure(GROUPS * GROUP, || ours.groups())?);
        kinds[2].1.push(measure(SINGLES, || bare.singles())?);
        kinds[3].1.push(measure(SINGLES, || apart.singles())?);
        kinds[4].1.push(measure(GROUPS * GROUP, || held.groups())?);
    }
    for (name, costs) in &kinds {
        let Cost { wall_us, cpu_us } = median(costs);
        let rate = 1e6 / wall_us;
        println!("{name:32} {rate:>9.0} turns/s  {wall_us:>8.2} us  {cpu_us:>8.2} us CPU a turn");
    }
    let group = ratio(&kinds[1].1, &kinds[0].1, |cost| cost.cpu_us);
    let single = ratio(&kinds[2].1, &kinds[3].1, |cost| cost.wall_us);
    println!("group commit: {group:.2} x the CPU of the bare loop (bar: at most 1.5)");
    println!("one by one:   {single:.2} x the machine's rate (bar: at least 0.9)");
    Ok(())
}

fn measure(turns: usize, work: impl FnOnce() -> Done<()>) -> Done<Cost> {
    let (cpu, wall) = (cpu_ns()?, Instant::now());
    work()?;
    let each = 1e3 * turns as f64;
    Ok(Cost {
        wall_us: wall.elapsed().as_nanos() as f64 / each,
        cpu_us: (cpu_ns()? - cpu) as f64 / each,
    })
}

/// CPU time of this thread, the kernel's part included.
fn cpu_ns() -> Done<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split(' ').next().ok_or("schedstat is empty")?;
    Ok(first.parse()?)
}

fn median(costs: &[Cost]) -> Cost {
    let middle = |pick: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Cost {
        wall_us: middle(|cost| cost.wall_us),
        cpu_us: middle(|cost| cost.cpu_us),
    }
}

/// Median of the ratios of measurements that were taken next to each other.
fn ratio(above: &[Cost], below: &[Cost], pick: fn(&Cost) -> f64) -> f64 {
    let mut ratios: Vec<f64> = above
        .iter()
        .zip(below)
        .map(|(above, below)| pick(above) / pick(below))
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// The machine's floor.
struct Bare {
    conn: Connection,
    body: String,
    next: usize,
}

impl Bare {
    fn new(directory: &Path) -> Done<Self> {
        let conn = Connection::open(directory.join("bare.db"))?;
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.execute_batch(
            "CREATE TABLE turn(key INTEGER PRIMARY KEY, run INTEGER, last INTEGER, body TEXT);
             CREATE INDEX turn_run ON turn(run, last);",
        )?;
        let body = serde_json::to_string(&turn(1))?;
        Ok(Self {
            conn,
            body,
            next: 0,
        })
    }

    fn insert(&mut self, count: usize, runs: usize) -> Done<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        {
            let mut insert = self
                .conn
                .prepare_cached("INSERT INTO turn(run, last, body) VALUES (?, ?, ?)")?;
            for _ in 0..count {
                let (run, last) = (self.next % runs, self.next / runs);
                insert.execute(params![run as i64, last as i64, self.body])?;
                self.next += 1;
            }
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn groups(&mut self) -> Done<()> {
        (0..GROUPS).try_for_each(|_| self.insert(GROUP, RUNS))
    }

    fn singles(&mut self) -> Done<()> {
        (0..SINGLES).try_for_each(|_| self.insert(1, 1))
    }
}

/// A store with runs that go on turn by turn.
struct Ours<'s> {
    store: &'s dyn Log,
    groups: Vec<Batch>,
    single: Batch,
    next: usize,
}

impl<'s> Ours<'s> {
    fn new(store: &'s dyn Log, prefix: &str) -> Done<Self> {
        let commits: Vec<RunCommit> = (0..RUNS)
            .map(|number| create(&format!("{prefix}{number}")))
            .collect();
        store.commit(&Batch {
            runs: commits.clone(),
        })?;
        let later = |commit: &RunCommit| RunCommit {
            create: false,
            ..commit.clone()
        };
        let groups = commits
            .chunks(GROUP)
            .map(|group| Batch {
                runs: group.iter().map(later).collect(),
            })
            .collect();
        let single = create(&format!("{prefix}single"));
        store.commit(&Batch {
            runs: vec![single.clone()],
        })?;
        Ok(Self {
            store,
            groups,
            single: Batch {
                runs: vec![later(&single)],
            },
            next: 0,
        })
    }

    fn groups(&mut self) -> Done<()> {
        for _ in 0..GROUPS {
            let position = self.next % self.groups.len();
            let batch = &mut self.groups[position];
            batch.runs.iter_mut().for_each(step);
            self.store.commit(batch)?;
            self.next += 1;
        }
        Ok(())
    }

    fn singles(&mut self) -> Done<()> {
        for _ in 0..SINGLES {
            self.single.runs.iter_mut().for_each(step);
            self.store.commit(&self.single)?;
        }
        Ok(())
    }
}

fn step(run: &mut RunCommit) {
    let number = run.turns[0].turn + 1;
    run.turns[0].turn = number;
    run.turns[0].at += 7;
    run.summary.updated = run.turns[0].at;
    run.summary.usage.output_tokens += 10;
}

fn create(run: &str) -> RunCommit {
    RunCommit {
        run: run.into(),
        owner: Owner {
            token: "0190f3c2-4b5a-7c3d-8e9f-0a1b2c3d4e5f".into(),
            epoch: 1,
        },
        create: true,
        turns: vec![turn(1)],
        summary: Summary {
            run: run.into(),
            flow: "bench".into(),
            graph: blake3::hash(b"graph").to_hex().as_str().into(),
            state: RunState::Running,
            created: 1_764_000_000_000,
            updated: 1_764_000_000_000,
            wake_at: None,
            usage: Usage::default(),
            output: None,
            error: None,
            start_key: None,
            forked_from: None,
            waits: Vec::new(),
            uncompensated: Vec::new(),
        },
        asked: Vec::new(),
        closed: Vec::new(),
        taken: Vec::new(),
    }
}

/// What a step leaves: it ended, its value, and the next one's start.
fn turn(number: u64) -> Turn {
    let usage = Usage {
        input_tokens: 120,
        output_tokens: 10,
        cost_microusd: 9,
        ..Usage::default()
    };
    let value = serde_json::json!({ "text": "an answer of some words", "score": 0.5 });
    Turn {
        turn: number,
        at: 1_764_000_000_000,
        events: vec![
            Event::AttemptFinished {
                node: 7,
                number: 1,
                fate: Fate::Done,
                error: None,
                usage,
                meta: None,
            },
            Event::Settled {
                node: 7,
                path: "notes[3]/summary".into(),
                state: Settled::Succeeded,
                value: Some(Datum::Value(Val::new(value))),
                error: None,
                skip: None,
            },
            Event::AttemptStarted {
                node: 8,
                path: "notes[4]/summary".into(),
                number: 1,
                effect: Effect::Once,
                reserved: Usage::default(),
            },
        ],
    }
}
