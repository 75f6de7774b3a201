//! The table for people.

use std::io::{Result, Write};

use crate::measure::Row;

pub(crate) fn head(out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "{:<24} {:>8} {:>10} {:>11} {:>11} {:>9} {:>10} {:>9} {:>9}  bar",
        "case",
        "steps",
        "wall ms",
        "CPU µs/step",
        "steps/s",
        "RSS MiB",
        "disk B/st",
        "commits",
        "turns/c"
    )
}

pub(crate) fn line(out: &mut dyn Write, row: &Row) -> Result<()> {
    let number =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
    let commits = row
        .commits
        .map_or_else(|| "-".to_owned(), |commits| commits.to_string());
    write!(
        out,
        "{:<24} {:>8} {:>10.1} {:>11.2} {:>11.0} {:>9.1} {:>10} {:>9} {:>9}",
        row.name,
        row.steps,
        row.wall_ms,
        row.cpu_us_per_step,
        row.steps_per_s,
        row.peak_rss_mib,
        number(row.disk_bytes_per_step),
        commits,
        number(row.turns_per_commit)
    )?;
    if let Some(bar) = &row.bar {
        let met = if bar.used <= 1.0 { "met" } else { "MISSED" };
        write!(out, "  {met} ({:.2} of: {})", bar.used, bar.what)?;
    }
    writeln!(out)?;
    if let Some(ratio) = &row.machine {
        writeln!(
            out,
            "{:>24} {:.2} of the machine's {}: {:.0}/s of {:.0}/s",
            "", ratio.share, ratio.what, ratio.ours_per_s, ratio.machine_per_s
        )?;
    }
    for (name, value) in &row.more {
        writeln!(out, "{:>24} {name}: {value:.2}", "")?;
    }
    Ok(())
}
