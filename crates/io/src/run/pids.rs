//! Who runs: records of process groups, and the sweep that ends what a dead engine left behind.
//!
//! `<root>/pids/<run>/<token>.json` is written before a program begins and removed when its processes are gone. A
//! record names processes by id *and* start time *and* boot, so that a number that was used again is never killed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::dirs;
use crate::child::MARKER;
use crate::child::proc::{self, Identity, Stat};

/// Longest wait for killed processes to be gone, ms. A process that waits for a broken disk cannot die sooner.
pub const SWEEP_MS_MAX: u64 = 10_000;
/// Pause between two looks at dying processes, ms.
const SWEEP_LOOK_MS: u64 = 2;

/// One attempt's processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The boot in which the ids mean something.
    pub(crate) boot: String,
    /// The supervisor.
    pub(crate) supervisor: Identity,
    /// The program: leader of its session and process group.
    pub(crate) leader: Identity,
    /// In the environment of every process of the attempt.
    pub(crate) token: String,
}

impl Record {
    /// Writes the record whole or not at all.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let part = path.with_extension("part");
        fs::write(&part, serde_json::to_vec(self)?)?;
        fs::rename(part, path)
    }

    fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// True for a process of this attempt.
    fn owns(&self, stat: &Stat) -> bool {
        let marker = || format!("{MARKER}={}", self.token);
        // While the leader is there, its number as group or session cannot be anybody else's.
        let in_group = (stat.group == self.leader.pid || stat.session == self.leader.pid)
            && proc::stat(self.leader.pid).is_some_and(|leader| leader.identity == self.leader);
        stat.identity == self.supervisor
            || stat.identity == self.leader
            || in_group
            || proc::has_env(stat.identity.pid, marker().as_bytes())
    }
}

/// Ends everything that earlier attempts of a run left behind and waits until it is gone.
pub(crate) fn sweep(root: &Path, run: &str) {
    let folder = dirs::of_records(root, run);
    let Ok(entries) = fs::read_dir(&folder) else {
        return;
    };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        end_record(root, run, &path);
    }
    let _ = fs::remove_dir(folder);
}

/// Ends the processes of one record and removes it and their scratch folder.
pub(crate) fn end_record(root: &Path, run: &str, path: &Path) {
    // What cannot be read is the unfinished part of a record, whose program never began.
    if let Ok(record) = Record::read(path) {
        // Processes of an earlier boot are gone with it.
        if proc::boot().is_ok_and(|boot| boot == record.boot) {
            end(run, &record);
        }
        // Best effort: what stays is a few small files.
        let _ = dirs::remove(&dirs::scratch(root, &record.token));
    }
    let _ = fs::remove_file(path);
}

fn end(run: &str, record: &Record) {
    let until = Instant::now() + Duration::from_millis(SWEEP_MS_MAX);
    let mut killed = BTreeSet::new();
    loop {
        let found: Vec<Stat> = proc::all()
            .unwrap_or_default()
            .into_iter()
            .filter(|stat| !stat.zombie)
            .collect();
        let found: Vec<Stat> = found.into_iter().filter(|stat| record.owns(stat)).collect();
        if found.is_empty() {
            break;
        }
        // The supervisor first: alone it would report an end that nobody reads, in the middle of ours.
        for stat in found
            .iter()
            .filter(|stat| stat.identity == record.supervisor)
            .chain(&found)
        {
            if proc::kill(stat.identity) {
                killed.insert(stat.identity.pid);
            }
        }
        if Instant::now() >= until {
            warn!(
                run,
                leader = record.leader.pid,
                "processes of an earlier attempt do not die"
            );
            break;
        }
        std::thread::sleep(Duration::from_millis(SWEEP_LOOK_MS));
    }
    if !killed.is_empty() {
        warn!(
            run,
            processes = killed.len(),
            "ended what an earlier attempt left behind"
        );
    }
}
