//! `ravel-bench`: what the engine costs, beside what the machine it runs on can do in the same minute.
//!
//! Each case runs in a process of its own, so that its peak of memory is its own. Times on a shared machine are noisy:
//! CPU time and ratios to the machine's own limits are the numbers to look at, and nothing here is a test.
//!
//! ```text
//! ravel-bench                 # all cases, as a table
//! ravel-bench --json once     # cases whose name contains `once`, as JSON lines
//! ravel-bench --list
//! ```

mod cases;
mod flows;
mod machine;
mod measure;
mod rig;
mod table;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use cases::{CASES, Case};
use measure::Row;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the command line says.
struct Options {
    json: bool,
    list: bool,
    /// Run this one case in this process and print its row.
    one: Option<String>,
    /// Be the process that a case kills, in this directory.
    prey: Option<PathBuf>,
    filters: Vec<String>,
}

fn options() -> Options {
    let mut options = Options {
        json: false,
        list: false,
        one: None,
        prey: None,
        filters: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => options.json = true,
            "--list" => options.list = true,
            "--one" => options.one = args.next(),
            "--prey" => options.prey = args.next().map(PathBuf::from),
            _ => options.filters.push(arg),
        }
    }
    options
}

fn main() -> ExitCode {
    let options = options();
    let mut out = std::io::stdout().lock();
    let result = if let Some(dir) = &options.prey {
        cases::prey(dir, &mut out)
    } else if let Some(name) = &options.one {
        run_here(name, &mut out)
    } else if options.list {
        CASES.iter().try_for_each(|case| {
            writeln!(out, "{:<28} {}", case.name, case.what).map_err(|error| error.to_string())
        })
    } else {
        run_all(&options, &mut out)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run_here(name: &str, out: &mut dyn std::io::Write) -> Result<(), String> {
    let case = CASES
        .iter()
        .find(|case| case.name == name)
        .ok_or_else(|| format!("there is no case `{name}`"))?;
    let row = (case.run)(case)?;
    let text = serde_json::to_string(&row).map_err(|error| error.to_string())?;
    writeln!(out, "{text}").map_err(|error| error.to_string())
}

fn run_all(options: &Options, out: &mut dyn std::io::Write) -> Result<(), String> {
    let wanted: Vec<&Case> = CASES
        .iter()
        .filter(|case| {
            options.filters.is_empty()
                || options
                    .filters
                    .iter()
                    .any(|filter| case.name.contains(filter.as_str()))
        })
        .collect();
    if !options.json {
        table::head(out).map_err(|error| error.to_string())?;
    }
    for case in wanted {
        let row = run_apart(case)?;
        let printed = if options.json {
            serde_json::to_string(&row)
                .map_err(|error| error.to_string())
                .and_then(|text| writeln!(out, "{text}").map_err(|error| error.to_string()))
        } else {
            table::line(out, &row).map_err(|error| error.to_string())
        };
        printed?;
        out.flush().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Runs a case in a process of its own.
fn run_apart(case: &Case) -> Result<Row, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(["--one", case.name])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!(
            "case `{}` failed: {}",
            case.name,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("case `{}`: {error}", case.name))
}
