//! The stage before a program: takes limits and sandbox upon itself and becomes the program. See [`super`].

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
    setsid,
};

use super::{Message, Order, Refusal, receive, send, socket};
use crate::sandbox;
use crate::trouble;

/// Address space that a process may reserve for each byte of memory it may use: runtimes reserve far more than they
/// touch, and shared memory is bounded by this alone.
pub(crate) const ADDRESS_SPACE_FACTOR: u64 = 4;
/// Between the soft CPU limit (SIGXCPU) and the hard one (SIGKILL), seconds.
const CPU_GRACE_SECONDS: u64 = 1;

pub(super) fn main() -> ExitCode {
    let parent = getppid();
    // Should the supervisor be killed, the program is not left alone.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err()
        || getppid() != parent
        || setsid().is_err()
    {
        return ExitCode::FAILURE;
    }
    let Ok(report) = socket() else {
        return ExitCode::FAILURE;
    };
    let Ok(Some(order)) = receive::<Order>(&report) else {
        return ExitCode::FAILURE;
    };
    let refusal = become_program(&order);
    let _ = send(&report, &refusal);
    ExitCode::FAILURE
}

/// Returns only when it failed.
fn become_program(order: &Order) -> Message {
    let Some((program, arguments)) = order.program.split_first() else {
        return refused(Refusal::Invalid, "the program has no name".to_owned());
    };
    let stdin = match order.stdin.as_ref().map(File::open).transpose() {
        Ok(file) => file.map_or_else(Stdio::null, Stdio::from),
        Err(error) => {
            return refused(
                Refusal::Internal,
                format!("cannot open the program's input: {error}"),
            );
        }
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(order.env.iter().map(|(k, v)| (k, v)));
    command.current_dir(&order.cwd).stdin(stdin);
    if let Err(text) = sandbox::confine(&order.confinement) {
        return refused(Refusal::Sandbox, text);
    }
    // Last, so that this process itself needs no room under the program's limits.
    if let Err(error) = limit(order) {
        return refused(
            Refusal::Internal,
            format!("cannot set the process's limits: {error}"),
        );
    }
    let error = command.exec();
    refused(
        why(&error),
        format!("cannot start `{program}`: {}", trouble::text(&error)),
    )
}

fn limit(order: &Order) -> io::Result<()> {
    set(Resource::Cpu, order.cpu_seconds, CPU_GRACE_SECONDS)?;
    set(Resource::Fsize, order.file_bytes, 0)?;
    set(Resource::Core, 0, 0)?;
    set(Resource::Data, order.memory_bytes, 0)?;
    set(
        Resource::As,
        order.memory_bytes.saturating_mul(ADDRESS_SPACE_FACTOR),
        0,
    )
}

/// Sets a soft limit, and a hard one so much above it; a stricter one that is already there stays.
fn set(resource: Resource, soft: u64, above: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let hard = soft.saturating_add(above).min(most);
    Ok(setrlimit(
        resource,
        Rlimit {
            current: Some(soft.min(hard)),
            maximum: Some(hard),
        },
    )?)
}

const fn refused(why: Refusal, text: String) -> Message {
    Message::Refused { why, text }
}

fn why(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => Refusal::NotFound,
        io::ErrorKind::PermissionDenied => Refusal::Denied,
        io::ErrorKind::OutOfMemory | io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => {
            Refusal::Unavailable
        }
        _ if trouble::of(error).is_some() => Refusal::Unavailable,
        _ => Refusal::Invalid,
    }
}
