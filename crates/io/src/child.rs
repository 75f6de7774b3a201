//! The helper processes of a `run` step: the same binary, started again under a hidden word.
//!
//! ```text
//! engine ──socket──▶ supervisor (`__supervise`) ──socket──▶ stage (`__exec`) ──exec──▶ the program
//! ```
//!
//! * The **supervisor** outlives the engine by as little as it takes to empty the program's process group: when its
//!   socket to the engine closes (an abort, or the engine's death), it sends TERM, waits a grace period, sends KILL.
//!   It is a sub-reaper, so processes that left the group come back to it and die too.
//! * The **stage** becomes the leader of a session of its own, takes the limits and the sandbox upon itself and turns
//!   into the program. It begins only when the supervisor has written down who it is, so a sweep after a crash of
//!   both finds it.
//!
//! Two processes instead of a hook between fork and exec: such a hook needs `unsafe` and may not allocate.

pub(crate) mod proc;
mod stage;
mod supervise;

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sandbox::Confinement;

/// First argument that makes a binary the supervisor of a process.
pub const SUPERVISE: &str = "__supervise";
/// First argument that makes a binary the stage before a program.
pub const EXEC: &str = "__exec";
/// Environment variable by which the processes of an attempt are recognised after a crash.
pub const MARKER: &str = "RAVEL_PROCESS";
/// Largest order to a helper, bytes: a program's arguments and environment cannot be larger in any case.
pub(crate) const ORDER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Call this first in `main` of a binary that is named as the helper in the executor's configuration. `None`: the
/// process was not started as a helper.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let word = arguments.into_iter().nth(1)?;
    if word == SUPERVISE {
        Some(supervise::main())
    } else if word == EXEC {
        Some(stage::main())
    } else {
        None
    }
}

/// What the engine orders from the helpers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The program and its arguments.
    pub(crate) program: Vec<String>,
    /// The whole environment.
    pub(crate) env: Vec<(String, String)>,
    /// Where it runs.
    pub(crate) cwd: PathBuf,
    /// What it reads; nothing when absent.
    pub(crate) stdin: Option<PathBuf>,
    /// CPU seconds.
    pub(crate) cpu_seconds: u64,
    /// Private memory, bytes.
    pub(crate) memory_bytes: u64,
    /// Largest file it may write, bytes.
    pub(crate) file_bytes: u64,
    /// Confinement.
    pub(crate) confinement: Confinement,
    /// Where the supervisor writes who runs.
    pub(crate) record: PathBuf,
    /// Value of [`MARKER`].
    pub(crate) token: String,
    /// Between TERM and KILL, ms.
    pub(crate) grace_ms: u64,
}

/// What the helpers say to the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Message {
    /// The program never began.
    Refused {
        /// Why.
        why: Refusal,
        /// One sentence.
        text: String,
    },
    /// The program runs.
    Began,
    /// The program is over and its processes are gone.
    Ended {
        /// Its exit code.
        code: Option<i32>,
        /// The signal that killed it.
        signal: Option<i32>,
        /// True when it was told to stop before it ended by itself.
        stopped: bool,
    },
}

/// Why a program never began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Refusal {
    /// There is no such program.
    NotFound,
    /// It may not be started.
    Denied,
    /// The kernel cannot confine it as asked.
    Sandbox,
    /// The order cannot be carried out: arguments too long, not an executable.
    Invalid,
    /// The machine has no room.
    Unavailable,
    /// It was to stop before it began.
    Stopped,
    /// A mistake of ours.
    Internal,
}

/// The socket that a helper finds as its standard input. The copy is closed on exec.
fn socket() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Sends one message as one line.
pub(crate) fn send<T: Serialize>(mut to: impl Write, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Takes one line; `None` when the other side is gone.
fn receive<T: DeserializeOwned>(from: impl Read) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    BufReader::new(from.take(ORDER_BYTES_MAX)).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
