//! What is measured around a case, and its row.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The numbers of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) what: String,
    /// Steps that ran.
    pub(crate) steps: u64,
    pub(crate) wall_ms: f64,
    /// User and system time of the whole process, a step.
    pub(crate) cpu_us_per_step: f64,
    pub(crate) steps_per_s: f64,
    pub(crate) peak_rss_mib: f64,
    /// Bytes of the store after a checkpoint.
    pub(crate) disk_bytes_per_step: Option<f64>,
    pub(crate) commits: Option<u64>,
    pub(crate) turns_per_commit: Option<f64>,
    /// What the machine does on its own in the same process, and our share of it.
    pub(crate) machine: Option<Ratio>,
    /// The bar, and how the case stands to it: below 1 is within.
    pub(crate) bar: Option<Bar>,
    /// More numbers, by name.
    pub(crate) more: Vec<(String, f64)>,
}

/// A rate beside the machine's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) what: String,
    pub(crate) machine_per_s: f64,
    pub(crate) ours_per_s: f64,
    pub(crate) share: f64,
}

/// A bar of the design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bar {
    pub(crate) what: String,
    pub(crate) used: f64,
}

/// CPU time of this process so far, in microseconds.
pub(crate) fn cpu_us() -> f64 {
    // Under valgrind there is no vDSO to read this clock by, and no need to.
    if std::env::var_os("RAVEL_BENCH_NO_CPU").is_some() {
        return 0.0;
    }
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// A line of `/proc/self/status`, in KiB.
fn status_kib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| {
        line.trim_matches([':', '\t', ' ', 'k', 'B'])
            .trim()
            .parse()
            .ok()
    })
    .unwrap_or(0.0)
}

pub(crate) fn peak_rss_mib() -> f64 {
    status_kib("VmHWM") / 1_024.0
}

pub(crate) fn rss_bytes() -> f64 {
    status_kib("VmRSS") * 1_024.0
}

/// Measures CPU and wall time of one piece of work.
pub(crate) struct Watch {
    wall: Instant,
    cpu: f64,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu: cpu_us(),
        }
    }

    /// A row with the times since the start, for so many steps.
    pub(crate) fn row(&self, steps: u64) -> Row {
        let wall = self.wall.elapsed().as_secs_f64();
        let cpu = cpu_us() - self.cpu;
        Row {
            steps,
            wall_ms: wall * 1e3,
            cpu_us_per_step: cpu / steps as f64,
            steps_per_s: steps as f64 / wall,
            peak_rss_mib: peak_rss_mib(),
            ..Row::default()
        }
    }
}

impl Row {
    /// The bar is an upper bound for a number.
    #[must_use]
    pub(crate) fn at_most(mut self, what: &str, value: f64, most: f64) -> Self {
        self.bar = Some(Bar {
            what: what.to_owned(),
            used: value / most,
        });
        self
    }

    /// The bar is a least share of what the machine does.
    #[must_use]
    pub(crate) fn at_least_share(
        mut self,
        what: &str,
        machine_per_s: f64,
        ours_per_s: f64,
        least: f64,
    ) -> Self {
        let share = ours_per_s / machine_per_s;
        self.machine = Some(Ratio {
            what: what.to_owned(),
            machine_per_s,
            ours_per_s,
            share,
        });
        self.bar = Some(Bar {
            what: format!("at least {least} of the machine's {what}"),
            used: least / share,
        });
        self
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: f64) -> Self {
        self.more.push((name.to_owned(), value));
        self
    }
}
