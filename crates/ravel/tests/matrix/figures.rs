//! What is counted in a row, and how it is printed.

use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::Account;

/// What a row did and saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Processes that were killed, or other blows that were dealt.
    pub(crate) kills: usize,
    /// Processes that took a run up again.
    pub(crate) restarts: usize,
    /// Steps with an effect.
    pub(crate) steps: usize,
    /// Effects that took place more often than they may.
    pub(crate) duplicated: usize,
    /// Effects of steps that succeeded, and that nobody saw.
    pub(crate) lost: usize,
    /// Steps that were told to be settled, and settled again.
    pub(crate) forgotten: usize,
    /// Effects repeated where that is allowed: `read`, and `write` under its key.
    pub(crate) repeated: usize,
    /// Steps of which the engine said that it does not know.
    pub(crate) uncertain: usize,
    /// Those of them that `ravel runs why` did not name.
    pub(crate) unnamed: usize,
    /// From the start of a process to the first step that it starts.
    pub(crate) recoveries: Vec<Duration>,
    /// What the columns do not say.
    pub(crate) note: String,
}

impl Figures {
    pub(crate) const fn add(&mut self, account: Account) {
        self.duplicated += account.duplicated;
        self.lost += account.lost;
        self.repeated += account.repeated;
    }

    /// The figures of another life of the same row.
    pub(crate) fn merge(&mut self, other: Self) {
        self.kills += other.kills;
        self.restarts += other.restarts;
        self.steps += other.steps;
        self.duplicated += other.duplicated;
        self.lost += other.lost;
        self.forgotten += other.forgotten;
        self.repeated += other.repeated;
        self.uncertain += other.uncertain;
        self.unnamed += other.unnamed;
        self.recoveries.extend(other.recoveries);
        if !other.note.is_empty() {
            self.note = other.note;
        }
    }

    /// The promises: nothing twice, nothing lost, nothing forgotten, every doubt named.
    pub(crate) const fn broken(&self) -> bool {
        self.duplicated + self.lost + self.forgotten + self.unnamed > 0
    }

    fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.recoveries.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        Some(sorted[(last * percent).div_ceil(100)])
    }

    fn recovery_ms(&self, percent: usize) -> Option<u128> {
        self.percentile(percent).map(|time| time.as_millis())
    }

    pub(crate) fn json(&self, name: &str, seconds: f64) -> Value {
        json!({
            "row": name, "kills": self.kills, "restarts": self.restarts, "steps": self.steps,
            "duplicated": self.duplicated, "lost": self.lost, "forgotten": self.forgotten,
            "repeated": self.repeated, "uncertain": self.uncertain, "unnamed": self.unnamed,
            "recovery_ms": {"p50": self.recovery_ms(50), "p99": self.recovery_ms(99), "count": self.recoveries.len()},
            "seconds": (seconds * 10.0).round() / 10.0, "note": self.note,
        })
    }
}

const TITLES: [&str; 12] = [
    "row",
    "kills",
    "restarts",
    "steps",
    "duplicated",
    "lost",
    "forgotten",
    "repeated",
    "uncertain",
    "unnamed",
    "recovery ms p50",
    "p99",
];

/// The heading of the table, in Markdown.
pub(crate) fn heading() -> String {
    let line = TITLES.map(|_| "---").join(" | ");
    format!("| {} | note |\n| {line} | --- |\n", TITLES.join(" | "))
}

/// A line of the table.
pub(crate) fn line(name: &str, figures: &Figures) -> String {
    let time = |percent| {
        figures
            .recovery_ms(percent)
            .map_or_else(|| "-".to_owned(), |ms| ms.to_string())
    };
    let counts = [
        figures.kills,
        figures.restarts,
        figures.steps,
        figures.duplicated,
        figures.lost,
        figures.forgotten,
        figures.repeated,
        figures.uncertain,
        figures.unnamed,
    ];
    let mut cells = vec![name.to_owned()];
    cells.extend(counts.map(|count| count.to_string()));
    cells.extend([time(50), time(99), figures.note.clone()]);
    format!("| {} |\n", cells.join(" | "))
}

/// Prints at once: rows take their time.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody reads any more: the exit code still counts.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
