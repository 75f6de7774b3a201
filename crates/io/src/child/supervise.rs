//! The supervisor of one program: see [`super`].
//!
//! ```text
//! ordered ─▶ staged ─▶ recorded ─▶ running ─┬─ program ends ──────────────▶ emptying ─▶ ended
//!                 └─ refused                └─ engine gone or abort: TERM, grace, KILL ─┘
//! ```

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process_group, pidfd_open,
    set_child_subreaper, wait,
};

use super::{EXEC, Message, Order, Refusal, proc, receive, send, socket};
use crate::run::pids::Record;
use crate::trouble;

/// The helper's own binary, also when the file was replaced meanwhile.
const MYSELF: &str = "/proc/self/exe";

pub(super) fn main() -> ExitCode {
    let Ok(engine) = socket() else {
        return ExitCode::FAILURE;
    };
    let order: Order = match receive(&engine) {
        Ok(Some(order)) => order,
        Ok(None) | Err(_) => return ExitCode::FAILURE,
    };
    let last = match supervise(&engine, &order) {
        Ok(message) => message,
        Err(error) => Message::Refused {
            why: match trouble::of(&error) {
                Some(_) => Refusal::Unavailable,
                None => Refusal::Internal,
            },
            text: format!(
                "the supervisor of the process failed: {}",
                trouble::text(&error)
            ),
        },
    };
    // The engine may be gone; there is nobody else to tell.
    let _ = send(&engine, &last);
    ExitCode::SUCCESS
}

fn supervise(engine: &UnixStream, order: &Order) -> io::Result<Message> {
    set_child_subreaper(Some(getpid()))?;
    let (ours, theirs) = UnixStream::pair()?;
    let stdin = Stdio::from(OwnedFd::from(theirs));
    let mut child = Command::new(MYSELF)
        .arg(EXEC)
        .stdin(stdin)
        .env_clear()
        .spawn()?;
    let outcome = watch(engine, &ours, order, &mut child);
    // Whatever happened: nothing of this attempt lives on, and the record goes last.
    empty();
    let _ = fs::remove_file(&order.record);
    outcome
}

fn watch(
    engine: &UnixStream,
    stage: &UnixStream,
    order: &Order,
    child: &mut Child,
) -> io::Result<Message> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    record(order, pid)?;
    // An engine that died since may already have a successor that swept: it must not meet a program that begins now.
    if is_gone(engine)? {
        return Ok(Message::Refused {
            why: Refusal::Stopped,
            text: "the engine closed the connection".to_owned(),
        });
    }
    send(stage, order)?;
    // The stage answers only to refuse; its socket closes when it turns into the program.
    // From here on the program may have begun: an error must not read as a refusal.
    if let Ok(Some(refusal)) = receive::<Message>(stage) {
        child.wait()?;
        return Ok(refusal);
    }
    let _ = send(engine, &Message::Began);
    let group = Pid::from_child(child);
    let descriptor = pidfd_open(group, PidfdFlags::empty())?;
    let stopped = !ends_by_itself(engine, &descriptor)?;
    if stopped {
        let _ = kill_process_group(group, Signal::TERM);
        wait_for_end(&descriptor, Duration::from_millis(order.grace_ms))?;
    }
    // The leader is not reaped yet, so the group's number is still its own. A program that ended by itself may leave
    // others in its group: they are not waited for.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    Ok(ended(status, stopped))
}

fn ended(status: ExitStatus, stopped: bool) -> Message {
    Message::Ended {
        code: status.code(),
        signal: status.signal(),
        stopped,
    }
}

fn record(order: &Order, pid: i32) -> io::Result<()> {
    let me = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    let identity = |pid: i32| {
        let gone = || io::Error::other(format!("process {pid} has no entry in /proc"));
        proc::stat(pid).map(|stat| stat.identity).ok_or_else(gone)
    };
    let record = Record {
        boot: proc::boot()?,
        supervisor: identity(me)?,
        leader: identity(pid)?,
        token: order.token.clone(),
    };
    record.write(Path::new(&order.record))
}

/// Waits for the program's end or the engine's word. True: the program ended.
fn ends_by_itself(engine: &UnixStream, program: &OwnedFd) -> io::Result<bool> {
    loop {
        let mut fds = [
            PollFd::new(program, PollFlags::IN),
            PollFd::from_borrowed_fd(engine.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[0].revents().is_empty() {
            return Ok(true);
        }
        if !fds[1].revents().is_empty() && closed(engine) {
            return Ok(false);
        }
    }
}

/// True when the engine has closed the connection, without waiting.
fn is_gone(engine: &UnixStream) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(engine.as_fd(), PollFlags::IN)];
    let ready = poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )?;
    Ok(ready > 0 && closed(engine))
}

/// The engine never speaks again after its order: what can be read is the end of the connection.
fn closed(mut engine: &UnixStream) -> bool {
    engine.read(&mut [0_u8; 1]).unwrap_or(0) == 0
}

fn wait_for_end(program: &OwnedFd, most: Duration) -> io::Result<bool> {
    let until = Instant::now() + most;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(program, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills what is left of the program's processes: everything that came back to the sub-reaper.
fn empty() {
    let Ok(me) = i32::try_from(std::process::id()) else {
        return;
    };
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => {
                let own = proc::stat(me).map_or(me, |stat| stat.group);
                for stat in proc::all().unwrap_or_default() {
                    if stat.parent != me {
                        continue;
                    }
                    // The whole group at once: a process that forks and dies all the time is met in any of its lives.
                    // Its number is not given away while the child is not reaped.
                    match Pid::from_raw(stat.group) {
                        Some(group) if stat.group != own => {
                            let _ = kill_process_group(group, Signal::KILL);
                        }
                        Some(_) | None => {}
                    }
                    proc::kill(stat.identity);
                }
                // Each child is dying, so this returns; children of the dead become ours and are met in the next round.
                let _ = wait(WaitOptions::empty());
            }
            Err(_) => return,
        }
    }
}
