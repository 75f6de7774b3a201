//! Exit codes: a promise to scripts. Each has one meaning, whatever the command.

use std::fmt;
use std::process::ExitCode;

/// What the process ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// It did what was asked; a run ended `succeeded`.
    Succeeded,
    /// A run ended `failed`; `runs diff` found a difference; `doctor` found something that does not work.
    Failed,
    /// The caller's mistake: usage, a flow that does not check, an input or an answer of the wrong type, a bad
    /// `ravel.toml`.
    Usage,
    /// A run ended `cancelled`.
    Cancelled,
    /// The run was stopped and can be resumed: Ctrl-C, `--park`, or another process took it over.
    Paused,
    /// The store or the engine could not do it: no space, no permission, another process holds the run.
    Trouble,
    /// There is no such run, question, step or topic, or the prefix of an id fits several.
    NotFound,
    /// The run refused it: answered already, over already, an unknown inbox.
    Refused,
    /// Stored data is not what was written: `replay` found a broken chain or another state.
    Damaged,
}

impl Exit {
    /// Every code, ascending, for the reference.
    pub(crate) const ALL: [Self; 9] = [
        Self::Succeeded,
        Self::Failed,
        Self::Usage,
        Self::Cancelled,
        Self::Paused,
        Self::Trouble,
        Self::NotFound,
        Self::Refused,
        Self::Damaged,
    ];

    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Succeeded => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Cancelled => 3,
            Self::Paused => 4,
            Self::Trouble => 5,
            Self::NotFound => 6,
            Self::Refused => 7,
            Self::Damaged => 8,
        }
    }

    /// One line for the reference.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Succeeded => "done; a run succeeded",
            Self::Failed => {
                "a run failed; `runs diff` found a difference; `doctor` found something broken"
            }
            Self::Usage => {
                "the caller's mistake: usage, a flow that does not check, a bad input or configuration"
            }
            Self::Cancelled => "a run was cancelled",
            Self::Paused => "a run was stopped and can be resumed",
            Self::Trouble => "the store or the engine could not do it",
            Self::NotFound => "no such run, question, step or topic, or an ambiguous id",
            Self::Refused => "the run refused it: answered already, over already",
            Self::Damaged => "stored data is not what was written",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_their_positions() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, (0..9).collect::<Vec<u8>>());
    }
}
