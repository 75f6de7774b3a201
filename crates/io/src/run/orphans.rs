//! Processes whose supervisor was killed: the kernel gives them to the engine, when it is a sub-reaper.
//!
//! A program may leave its session and clear its environment, so that nothing tells whose it is. It cannot change who
//! inherits it: its supervisor, which is a sub-reaper, and after that one's death the engine. What is a child of this
//! process and none of its helpers is such an orphan.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process_group, set_child_subreaper, waitpid,
};
use tokio::process::{Child, Command};
use tracing::warn;

use super::pids::SWEEP_MS_MAX;
use crate::child::proc;

/// Pause between two looks at dying processes.
const LOOK: Duration = Duration::from_millis(2);

/// The supervisors of this process, by id: how many that are not let go of have it.
static HELPERS: Mutex<BTreeMap<i32, usize>> = Mutex::new(BTreeMap::new());

fn helpers() -> MutexGuard<'static, BTreeMap<i32, usize>> {
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the heir of what its supervisors leave.
///
/// # Errors
/// When the kernel does not do it.
pub fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// A supervisor that was started. Dropped when it has been waited for.
#[derive(Debug)]
pub(super) struct Helper {
    pid: i32,
    /// When it was started, in the kernel's ticks: its processes are younger.
    pub(super) started: u64,
}

impl Drop for Helper {
    fn drop(&mut self) {
        let mut all = helpers();
        if let Some(count) = all.get_mut(&self.pid) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.pid);
            }
        }
    }
}

/// Starts a supervisor. It is never taken for an orphan. The command goes: it holds the supervisor's ends of what they
/// talk by, and its end must be seen.
pub(super) fn spawn(mut command: Command) -> io::Result<(Child, Helper)> {
    let mut all = helpers();
    let child = command.spawn()?;
    drop(command);
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.ok_or_else(|| io::Error::other("a process without an id"))?;
    *all.entry(pid).or_default() += 1;
    drop(all);
    let started = proc::stat(pid).map_or(0, |stat| stat.identity.started);
    Ok((child, Helper { pid, started }))
}

/// Ends every orphan that is not older than this, and what it has started.
pub(super) fn end(run: &str, since: u64) {
    let Ok(me) = i32::try_from(std::process::id()) else {
        return;
    };
    let own = proc::stat(me).map_or(me, |stat| stat.group);
    let until = Instant::now() + Duration::from_millis(SWEEP_MS_MAX);
    let mut killed = 0_u32;
    loop {
        // Held, so that nobody starts a supervisor that is not noted yet.
        let known = helpers();
        let orphans: Vec<_> = proc::all()
            .unwrap_or_default()
            .into_iter()
            .filter(|stat| stat.parent == me && stat.identity.started >= since)
            .filter(|stat| !known.contains_key(&stat.identity.pid))
            .collect();
        for stat in &orphans {
            if !stat.zombie {
                // Its number is not given away while it is not reaped, which only this loop does.
                match Pid::from_raw(stat.group) {
                    Some(group) if stat.group != own => {
                        let _ = kill_process_group(group, Signal::KILL);
                    }
                    Some(_) | None => {}
                }
                killed += u32::from(proc::kill(stat.identity));
            }
            let _ = waitpid(Pid::from_raw(stat.identity.pid), WaitOptions::NOHANG);
        }
        drop(known);
        if orphans.is_empty() || Instant::now() >= until {
            break;
        }
        std::thread::sleep(LOOK);
    }
    if killed > 0 {
        warn!(
            run,
            processes = killed,
            "ended what a killed supervisor left behind"
        );
    }
}
