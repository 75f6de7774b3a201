//! What `/proc` says about processes: enough to name one exactly, although process ids are used again.

use std::fs;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process of one boot: its id and when it started (clock ticks since boot). Never the name of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Process id.
    pub(crate) pid: i32,
    /// Field 22 of `/proc/<pid>/stat`.
    pub(crate) started: u64,
}

/// A line of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Who it is.
    pub(crate) identity: Identity,
    /// Its parent.
    pub(crate) parent: i32,
    /// Its process group.
    pub(crate) group: i32,
    /// Its session.
    pub(crate) session: i32,
    /// True for a process that is dead and not yet reaped.
    pub(crate) zombie: bool,
}

/// Reads one process. `None` when it is gone.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(pid: i32, line: &str) -> Option<Stat> {
    // The name in parentheses may hold anything, also spaces and parentheses.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
    Some(Stat {
        identity: Identity {
            pid,
            started: fields.get(19)?.parse().ok()?,
        },
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}

/// Every process that can be seen now.
pub(crate) fn all() -> io::Result<Vec<Stat>> {
    let pid =
        |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<i32>().ok();
    Ok(fs::read_dir("/proc")?
        .filter_map(pid)
        .filter_map(stat)
        .collect())
}

/// True when the environment that the process was started with has this exact entry.
pub(crate) fn has_env(pid: i32, entry: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|env| env.split(|byte| *byte == 0).any(|one| one == entry))
}

/// This boot of the machine.
pub(crate) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// Kills exactly this process, never another one that got its id. True when it was there.
pub(crate) fn kill(who: Identity) -> bool {
    let Some(pid) = Pid::from_raw(who.pid) else {
        return false;
    };
    // The descriptor pins whatever has the id now; the check after it says whether that is the one meant.
    let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    let same = stat(who.pid).is_some_and(|now| now.identity == who && !now.zombie);
    same && pidfd_send_signal(descriptor, Signal::KILL).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_reader() {
        let line = "42 (a) b (c) S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 1";
        let identity = Identity {
            pid: 42,
            started: 98765,
        };
        assert_eq!(
            parse(42, line),
            Some(Stat {
                identity,
                parent: 1,
                group: 2,
                session: 3,
                zombie: false
            })
        );
    }

    #[test]
    fn a_process_with_another_start_is_not_killed() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let real = stat(pid).unwrap().identity;
        assert!(!kill(Identity {
            pid,
            started: real.started + 1
        }));
        assert!(child.try_wait().unwrap().is_none());
        assert!(kill(real));
        child.wait().unwrap();
    }
}
