//! The crash matrix: what the real binary, its real database and real processes do under blows, watched from outside.
//!
//! Each row is a test (`cargo nextest run -p ravel --test matrix`) of a few seconds that asserts the zeros, and a line
//! of a report with as many blows as you like:
//!
//! ```text
//! just crash                                  # every row, as a table
//! just crash --kills 200 --seed 7 --json      # as JSON lines
//! just crash --row disk
//! ```
//!
//! The harness is its own, because a report has arguments: it answers what test runners ask (`--list`, a name), and
//! prints the table for `--report`.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: a failure is the test's failure"
)]

mod damage;
mod figures;
mod herd;
#[path = "../e2e/lab.rs"]
#[expect(dead_code, reason = "the other tests use the rest of it")]
mod lab;
mod life;
mod rows;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use figures::{Figures, print};
use lab::Dice;
use rows::{ROWS, Row};

/// Blows of each row of a report, and the seed, unless the command line says otherwise.
const KILLS: usize = 40;
const SEED: u64 = 0x5eed;

/// What the command line asks for.
struct Options {
    list: bool,
    ignored: bool,
    exact: bool,
    report: bool,
    json: bool,
    kills: usize,
    seed: u64,
    filters: Vec<String>,
}

fn options() -> Options {
    let mut options = Options {
        list: false,
        ignored: false,
        exact: false,
        report: false,
        json: false,
        kills: KILLS,
        seed: SEED,
        filters: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    let mut next = arguments.next();
    while let Some(argument) = next {
        let mut number = || arguments.next().and_then(|text| text.parse().ok());
        match argument.as_str() {
            "--list" => options.list = true,
            "--ignored" => options.ignored = true,
            "--exact" => options.exact = true,
            "--report" => options.report = true,
            "--json" => options.json = true,
            "--kills" => options.kills = number().expect("--kills N") as usize,
            "--seed" => options.seed = number().expect("--seed S"),
            "--row" => options.filters.extend(arguments.next()),
            // What test runners say about their own output.
            "--format" | "--test-threads" | "--color" => drop(arguments.next()),
            flag if flag.starts_with('-') => {}
            _ => options.filters.push(argument),
        }
        next = arguments.next();
    }
    options
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, rest @ ..] = arguments.as_slice()
        && flag == herd::FLAG
    {
        return herd::serve(rest);
    }
    let options = options();
    let wanted = |row: &&Row| {
        let fits = |filter: &String| {
            if options.exact {
                row.fact == filter
            } else {
                row.fact.contains(filter.as_str()) || row.name.contains(filter.as_str())
            }
        };
        options.filters.is_empty() || options.filters.iter().any(fits)
    };
    let rows: Vec<&Row> = ROWS.iter().filter(wanted).collect();
    if options.list {
        if !options.ignored {
            rows.iter()
                .for_each(|row| print(&format!("{}: test\n", row.fact)));
        }
        return ExitCode::SUCCESS;
    }
    if options.report {
        return report(&rows, &options);
    }
    for row in rows {
        let figures = (row.run)(row.quick, &mut Dice(options.seed));
        print(&format!("{}: {figures:?}\n", row.fact));
        assert!(!figures.broken(), "{}: {figures:?}", row.name);
    }
    ExitCode::SUCCESS
}

/// Every row with as many blows as asked for. The exit code says whether a promise was broken.
fn report(rows: &[&Row], options: &Options) -> ExitCode {
    if !options.json {
        print(&figures::heading());
    }
    let mut all = Figures::default();
    for row in rows {
        let began = Instant::now();
        let figures = (row.run)(options.kills, &mut Dice(options.seed));
        if options.json {
            let line = figures.json(row.name, began.elapsed().as_secs_f64());
            print(&format!("{line}\n"));
        } else {
            print(&figures::line(row.name, &figures));
        }
        all.merge(figures);
    }
    if !options.json {
        print(&figures::line(
            "all",
            &Figures {
                note: String::new(),
                ..all.clone()
            },
        ));
    }
    if all.broken() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
