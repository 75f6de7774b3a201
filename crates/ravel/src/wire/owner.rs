//! The process that works on a run, as people need to hear of it.

use ravel_store::LiveOwner;

use crate::error::Error;
use crate::exit::Exit;

/// What the system says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// It runs, or waits for something.
    Going,
    /// A signal or a debugger stopped it: it lives and does nothing.
    Stopped,
    /// This system does not say.
    Unknown,
}

/// Looks at a process.
pub(crate) fn pulse(pid: u32) -> Pulse {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return Pulse::Unknown;
    };
    // The name in brackets may hold anything, brackets included.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    match state {
        Some('T' | 't') => Pulse::Stopped,
        Some(_) => Pulse::Going,
        None => Pulse::Unknown,
    }
}

/// What to do about a process that lives and is silent: a line or two.
pub(crate) fn silence(owner: &LiveOwner) -> String {
    let pid = owner.pid;
    match pulse(pid) {
        Pulse::Stopped => format!(
            "hint: process {pid} is stopped (Ctrl-Z or SIGSTOP): `kill -CONT {pid}` lets it go on\n\
             hint: `kill -KILL {pid}` gives its runs up; then `ravel runs resume` takes over"
        ),
        Pulse::Going | Pulse::Unknown => format!(
            "hint: process {pid} may be busy or hang; after `kill -KILL {pid}`, `ravel runs resume` takes over"
        ),
    }
}

/// A failure to take a run over: says of an owner that is stopped that it is.
pub(crate) fn held(run: &str, owner: Option<&LiveOwner>) -> Error {
    let Some(owner) = owner else {
        return Error::new(
            Exit::Refused,
            format!("run {run} was owned by another process, which has just given it up"),
        )
        .hint("do this again");
    };
    let pid = owner.pid;
    match pulse(pid) {
        Pulse::Stopped => Error::new(
            Exit::Refused,
            format!("run {run} is owned by process {pid}, which lives but is stopped (Ctrl-Z or SIGSTOP)"),
        )
        .hint(format!("`kill -CONT {pid}` lets it go on there"))
        .hint(format!(
            "`kill -KILL {pid}` gives the run up; then `ravel runs resume {run}` takes it over"
        )),
        Pulse::Going | Pulse::Unknown => Error::new(
            Exit::Refused,
            format!("run {run} is owned by process {pid}, which lives"),
        )
        .hint("it goes on in that process; answers, signals and cancels reach it from here"),
    }
}
