//! `ravel-sim`: lives simulated worlds, and cuts failing ones down.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for terminals"
)]

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Parser, Subcommand};
use ravel_sim::{Case, Explored, Profile, Small, Violation, explore, shrink, simulate};

/// Lives simulated worlds with every check.
#[derive(Debug, Parser)]
#[command(
    name = "ravel-sim",
    version,
    after_help = "Example: ravel-sim run --seeds 0..20000"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lives the worlds of many seeds; the first that breaks a promise is shrunk and shown.
    Run {
        /// First and one past the last seed, or how many.
        #[arg(long, default_value = "0..1000", value_parser = seeds)]
        seeds: (u64, u64),
        /// Worlds at once.
        #[arg(long, default_value_t = 2)]
        jobs: u64,
        /// Lives each world twice and compares the histories.
        #[arg(long)]
        twice: bool,
        /// Goes on after a world that breaks a promise, and counts them.
        #[arg(long)]
        all: bool,
    },
    /// Shows the history of one seed.
    Show {
        /// The seed.
        seed: u64,
    },
    /// Cuts the world of a seed down to the least that still breaks its promise.
    Shrink {
        /// The seed.
        seed: u64,
    },
    /// Explores every graph of up to so many steps whole: every order of outcomes, one cancel and one crash anywhere.
    Small {
        /// Most steps of a graph.
        #[arg(long, default_value_t = 2)]
        steps: usize,
        /// Threads.
        #[arg(long, default_value_t = 2)]
        jobs: u64,
    },
    /// Puts deliberate bugs in, one after the other, and tells how many worlds it takes to notice each (needs
    /// `--features mutants`).
    Mutants {
        /// Worlds to try for each at most.
        #[arg(long, default_value_t = 2_000)]
        most: u64,
        /// Threads.
        #[arg(long, default_value_t = 2)]
        jobs: u64,
    },
    /// Lives a case from a file: what `shrink` prints.
    Play {
        /// The file.
        case: std::path::PathBuf,
    },
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| {
        text.parse()
            .map_err(|_| format!("`{text}` is not a number; say `FIRST..END` or a count"))
    };
    match text.split_once("..") {
        Some((first, end)) => Ok((number(first)?, number(end)?)),
        None => Ok((0, number(text)?)),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if !matches!(cli.command, Command::Play { .. } | Command::Show { .. }) {
        // Panics of machines are found and told by the worlds.
        std::panic::set_hook(Box::new(|_| {}));
    }
    match cli.command {
        Command::Run {
            seeds,
            jobs,
            twice,
            all,
        } => run(seeds, jobs, twice, all),
        Command::Show { seed } => show(&Case::random(seed)),
        Command::Shrink { seed } => cut(seed),
        Command::Play { case } => play(&case),
        Command::Small { steps, jobs } => small(steps, jobs),
        Command::Mutants { most, jobs } => mutants(most, jobs),
    }
}

/// Sums over worlds.
#[derive(Debug, Default)]
struct Sums {
    moves: AtomicU64,
    turns: AtomicU64,
    effects: AtomicU64,
    ends: AtomicU64,
}

fn run((first, end): (u64, u64), jobs: u64, twice: bool, all: bool) -> ExitCode {
    let sums = Sums::default();
    let (lived, failed) = search(first..end, jobs, all, |seed| one(seed, twice, &sums));
    let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
    println!(
        "{lived} worlds, {} moves, {} turns on disk, {} effects, {} ends of engines: {} broke a promise",
        of(&sums.moves),
        of(&sums.turns),
        of(&sums.effects),
        of(&sums.ends),
        failed.len()
    );
    for (seed, what) in failed.iter().take(20) {
        println!("seed {seed}: {what}");
    }
    match failed.first() {
        None => ExitCode::SUCCESS,
        Some(_) if all => ExitCode::FAILURE,
        Some((seed, _)) => cut(*seed),
    }
}

/// Lives seeds in order on `jobs` threads, to the first that fails or (`all`) to the end. Gives how many were lived and
/// those that failed, in order; the first of them is the first of all.
fn search(
    seeds: Range<u64>,
    jobs: u64,
    all: bool,
    live: impl Fn(u64) -> Result<(), String> + Sync,
) -> (u64, Vec<(u64, String)>) {
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Vec<(u64, String)>> = Mutex::default();
    let failed_now = || failed.lock().map_or(0, |failed| failed.len());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    if !all && failed_now() > 0 {
                        return;
                    }
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    if let Err(what) = live(seed)
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push((seed, what));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_default();
    failed.sort();
    let end = next.into_inner().min(seeds.end);
    (end.saturating_sub(seeds.start), failed)
}

/// Explores all small graphs.
fn small(steps: usize, jobs: u64) -> ExitCode {
    let mut all = Explored::default();
    for count in 1..=steps {
        let graphs = Small::all(count);
        for profile in Profile::ALL {
            let found: Mutex<Explored> = Mutex::default();
            let (_, failed) = search(0..graphs.len() as u64, jobs, false, |index| {
                let explored = explore(&graphs[index as usize], profile)?;
                if let Ok(mut found) = found.lock() {
                    found.add(explored);
                }
                Ok(())
            });
            if let Some((_, what)) = failed.first() {
                println!("{what}");
                return ExitCode::FAILURE;
            }
            let found = found.into_inner().unwrap_or_default();
            println!(
                "{count} steps, {profile:?}: {} graphs, {} states, {} moves, {} ends",
                found.graphs, found.states, found.moves, found.ends
            );
            all.add(found);
        }
    }
    println!(
        "all: {} graphs, {} states, {} moves, {} ends; every promise was kept",
        all.graphs, all.states, all.moves, all.ends
    );
    ExitCode::SUCCESS
}

/// Puts each deliberate bug in and counts the worlds until it is noticed.
#[cfg(feature = "mutants")]
fn mutants(most: u64, jobs: u64) -> ExitCode {
    use ravel_core::mutant::{Mutant, set};

    let mut missed = 0;
    println!("| deliberate bug | noticed in world | as |\n|---|---|---|");
    for mutant in Mutant::ALL {
        set(Some(mutant));
        let (_, failed) = search(0..most, jobs, false, |seed| {
            let lived = simulate(&Case::random(seed));
            lived
                .map(|_| ())
                .map_err(|violation| violation.what.clone())
        });
        let (place, how) = match failed.first() {
            Some((seed, what)) => ((seed + 1).to_string(), first_line(what)),
            None => {
                missed += 1;
                (format!("**not in {most}**"), String::new())
            }
        };
        println!("| {} | {place} | {how} |", mutant.what());
    }
    set(None);
    println!();
    let all = Mutant::ALL.len();
    println!(
        "{} of {all} deliberate bugs noticed within {most} worlds",
        all - missed
    );
    if missed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(feature = "mutants")]
fn first_line(what: &str) -> String {
    /// Characters of a message in the table.
    const SHOWN: usize = 100;
    let line = what.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(SHOWN).collect();
    let dots = if cut.len() < line.len() { "…" } else { "" };
    format!("{}{dots}", cut.replace('|', "\\|"))
}

#[cfg(not(feature = "mutants"))]
fn mutants(_: u64, _: u64) -> ExitCode {
    eprintln!(
        "this ravel-sim was built without deliberate bugs: add `--features mutants` (or `just mutants`)"
    );
    ExitCode::from(2)
}

fn one(seed: u64, twice: bool, sums: &Sums) -> Result<(), String> {
    let case = Case::random(seed);
    let history = simulate(&case).map_err(|violation| violation.what)?;
    if twice {
        let again = simulate(&case).map_err(|violation| violation.what)?;
        if again.hash() != history.hash() {
            return Err("the same seed gave two histories".to_owned());
        }
    }
    for (sum, by) in [
        (&sums.moves, history.moves),
        (&sums.turns, history.turns),
        (&sums.effects, history.effects),
        (&sums.ends, history.ends),
    ] {
        sum.fetch_add(by, Ordering::Relaxed);
    }
    Ok(())
}

fn show(case: &Case) -> ExitCode {
    match simulate(case) {
        Ok(history) => {
            for line in &history.lines {
                println!("{line}");
            }
            println!("every promise was kept; history {}", history.hash());
            ExitCode::SUCCESS
        }
        Err(violation) => tell(&violation),
    }
}

fn tell(violation: &Violation) -> ExitCode {
    for line in &violation.history.lines {
        println!("{line}");
    }
    println!("broken: {}", violation.what);
    ExitCode::FAILURE
}

fn cut(seed: u64) -> ExitCode {
    let Some((case, violation)) = shrink(&Case::random(seed)) else {
        println!("seed {seed} keeps every promise");
        return ExitCode::SUCCESS;
    };
    let text = serde_json::to_string_pretty(&case).unwrap_or_default();
    println!("the least world of seed {seed} (save it and `ravel-sim play FILE`):\n{text}");
    tell(&violation)
}

fn play(path: &std::path::Path) -> ExitCode {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    };
    match serde_json::from_str(&text) {
        Ok(case) => show(&case),
        Err(error) => {
            eprintln!("{}: not a case: {error}", path.display());
            ExitCode::from(2)
        }
    }
}
