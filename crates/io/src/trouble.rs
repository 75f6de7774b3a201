//! What an error of the machine means for a step: its class, a stable code, and what to do about it.
//!
//! A full disk, a used-up quota, a mount that is read-only and too many open files are no fault of the step: it may be
//! tried again when somebody has made room.

use std::fmt::Display;
use std::io::{self, ErrorKind};

use ravel_core::effect::{ErrorClass, Failure};
use rustix::io::Errno;

/// A trouble that people can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Class of the failure.
    pub(crate) class: ErrorClass,
    /// Its code.
    pub(crate) code: &'static str,
    /// What it is, and the way out.
    pub(crate) text: &'static str,
}

const fn trouble(class: ErrorClass, code: &'static str, text: &'static str) -> Trouble {
    Trouble { class, code, text }
}

/// The trouble that an error means, if it is one.
pub(crate) fn of(error: &io::Error) -> Option<Trouble> {
    match error.kind() {
        ErrorKind::StorageFull => Some(trouble(
            ErrorClass::Unavailable,
            "no_space",
            "no space is left on the disk; free some, then resume or retry",
        )),
        ErrorKind::QuotaExceeded => Some(trouble(
            ErrorClass::Unavailable,
            "no_space",
            "the disk quota of this user is used up; free some space or have it raised, then resume or retry",
        )),
        ErrorKind::ReadOnlyFilesystem => Some(trouble(
            ErrorClass::PolicyDenied,
            "read_only",
            "the file system is mounted read-only; mount it for writing, then resume or retry",
        )),
        ErrorKind::FileTooLarge => Some(trouble(
            ErrorClass::Unavailable,
            "no_space",
            "the file may not grow further (`ulimit -f`, or the file system's own limit); raise it, then resume or retry",
        )),
        ErrorKind::OutOfMemory => Some(trouble(
            ErrorClass::Overloaded,
            "no_memory",
            "the machine has no memory left; end something, then resume or retry",
        )),
        _ => of_errno(Errno::from_io_error(error)?),
    }
}

fn of_errno(error: Errno) -> Option<Trouble> {
    match error {
        Errno::MFILE => Some(trouble(
            ErrorClass::Overloaded,
            "open_files",
            "this process has too many files open; raise `ulimit -n`, or let fewer steps run at once (`parallel`)",
        )),
        Errno::NFILE => Some(trouble(
            ErrorClass::Overloaded,
            "open_files",
            "the machine has too many files open; end something, or raise `fs.file-max`",
        )),
        _ => None,
    }
}

/// The error in words, with the way out where there is one.
pub(crate) fn text(error: &io::Error) -> String {
    of(error).map_or_else(|| error.to_string(), |trouble| trouble.text.to_owned())
}

/// The failure of what met an error; of class `otherwise` when it is no trouble of the machine.
pub(crate) fn failure(otherwise: ErrorClass, what: impl Display, error: &io::Error) -> Failure {
    match of(error) {
        Some(trouble) => {
            Failure::new(trouble.class, format!("{what}: {}", trouble.text)).with_code(trouble.code)
        }
        None => Failure::new(otherwise, format!("{what}: {error}")),
    }
}

/// The same for a process that could not be started.
pub(crate) fn unstarted(what: impl Display, error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::WouldBlock {
        let text = format!(
            "{what}: no more processes may be started; raise `ulimit -u`, or let fewer steps run at once (`parallel`)"
        );
        return Failure::new(ErrorClass::Overloaded, text).with_code("processes");
    }
    failure(ErrorClass::Internal, what, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_lacks_is_said_with_a_class_a_code_and_a_way_out() {
        let said = |errno: Errno| {
            let failure = unstarted("`a`", &errno.into());
            let way_out = failure.message.contains(';');
            (
                failure.class,
                failure.code.map(|code| code.to_string()),
                way_out,
            )
        };
        let code = |text: &str| Some(text.to_owned());
        for (errno, class, code) in [
            (Errno::NOSPC, ErrorClass::Unavailable, code("no_space")),
            (Errno::DQUOT, ErrorClass::Unavailable, code("no_space")),
            (Errno::FBIG, ErrorClass::Unavailable, code("no_space")),
            (Errno::ROFS, ErrorClass::PolicyDenied, code("read_only")),
            (Errno::MFILE, ErrorClass::Overloaded, code("open_files")),
            (Errno::NFILE, ErrorClass::Overloaded, code("open_files")),
            (Errno::NOMEM, ErrorClass::Overloaded, code("no_memory")),
            (Errno::AGAIN, ErrorClass::Overloaded, code("processes")),
        ] {
            assert_eq!(said(errno), (class, code, true), "{errno:?}");
        }
        assert_eq!(said(Errno::IO), (ErrorClass::Internal, None, false));
    }

    #[test]
    fn an_error_is_said_with_the_place_where_it_was_met() {
        let full = failure(ErrorClass::ToolError, "`out/a`", &Errno::NOSPC.into());
        let text = "`out/a`: no space is left on the disk; free some, then resume or retry";
        assert_eq!(
            full,
            Failure::new(ErrorClass::Unavailable, text).with_code("no_space")
        );
        let other = failure(ErrorClass::ToolError, "`out/a`", &Errno::IO.into());
        let text = "`out/a`: Input/output error (os error 5)";
        assert_eq!(other, Failure::new(ErrorClass::ToolError, text));
    }
}
