//! The engine's limits: one table, from which the struct, its defaults, `ravel limits` and the reference are made.
//!
//! Every queue and every pause of the engine has a bound here. Nothing in this crate waits or grows by a number that
//! is not in this table.

/// One row of the table: what `ravel limits` and the reference show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The key in `ravel.toml`, under `[limits]`.
    pub name: &'static str,
    /// What it counts: the last word of the name where that reads well.
    pub unit: &'static str,
    /// The value without configuration.
    pub default: u64,
    /// The smallest value that makes sense; a smaller one is refused.
    pub least: u64,
    /// What it bounds and what happens there.
    pub doc: &'static str,
}

/// Why a limit could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// No limit has this name.
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// The value is below [`Limit::least`].
    TooSmall {
        /// The limit.
        name: &'static str,
        /// The smallest value that is accepted.
        least: u64,
    },
}

impl std::fmt::Display for LimitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown { name } => write!(f, "there is no limit `{name}`"),
            Self::TooSmall { name, least } => write!(f, "limit `{name}` must be at least {least}"),
        }
    }
}

impl std::error::Error for LimitError {}

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident: $unit:literal, $default:literal, least $least:literal;)+) => {
        /// The limits that an engine runs under. Made by [`Limits::default`], changed by [`Limits::set`].
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        const TABLE: &[Limit] = &[
            $(Limit {
                name: stringify!($name),
                unit: $unit,
                default: $default,
                least: $least,
                doc: concat!($($doc),+),
            },)+
        ];

        impl Limits {
            fn slot(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }

            /// The present value of each limit, in the order of [`table`].
            #[must_use]
            pub fn values(&self) -> Vec<u64> {
                vec![$(self.$name,)+]
            }
        }
    };
}

limits! {
    /// Messages that wait for the shard. A sender that finds the queue full waits, which is counted in the status.
    queue_messages: "messages", 8_192, least 16;
    /// Turns that go into one transaction at most. When so many are waiting the shard commits before it reads on.
    commit_turns: "turns", 4_096, least 1;
    /// Runs in memory at most. More starts wait in a queue; parked runs do not count.
    live_runs: "runs", 10_000, least 1;
    /// Starts that wait for room in memory at most. Beyond it a start is refused as `overloaded`.
    waiting_starts: "starts", 10_000, least 1;
    /// A run that waits only for clocks, people or signals for this long leaves memory.
    park_after_ms: "ms", 5_000, least 0;
    /// Messages that wait for a run to come back into memory at most. Beyond it a message is refused as `overloaded`.
    waking_messages: "messages", 1_024, least 1;
    /// How long a paused run may wait for attempts that are under way before they are stopped.
    pause_grace_ms: "ms", 10_000, least 0;
    /// Shortest pause between two looks for messages of other processes.
    poll_min_ms: "ms", 20, least 1;
    /// Longest pause between two looks for messages of other processes, reached when nothing comes.
    poll_max_ms: "ms", 200, least 1;
    /// How often a serving engine looks for runs whose owner is gone, besides whenever the store has changed.
    adopt_every_ms: "ms", 1_000, least 10;
    /// Runs that a serving engine takes over in one look at most.
    adopt_runs: "runs", 256, least 1;
    /// A run that could not be taken over is left alone for this long.
    adopt_retry_ms: "ms", 60_000, least 1_000;
    /// Items that one observer may be behind. One that is further behind is told how many it missed.
    feed_items: "items", 1_024, least 1;
    /// Attempts that wait for `concurrency` permits at most, over all runs. Beyond it they fail as `overloaded`.
    permit_waiters: "attempts", 100_000, least 1;
    /// Results kept for `cache:` at most.
    cache_entries: "results", 10_000, least 0;
    /// Bytes of results kept for `cache:` at most.
    cache_bytes: "bytes", 67_108_864, least 0;
    /// A result that is larger is not kept for `cache:`.
    cache_value_bytes: "bytes", 1_048_576, least 0;
}

impl Limits {
    /// Changes one limit by its name.
    ///
    /// # Errors
    /// [`LimitError::Unknown`], [`LimitError::TooSmall`].
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), LimitError> {
        let Some(row) = TABLE.iter().find(|row| row.name == name) else {
            return Err(LimitError::Unknown {
                name: name.to_owned(),
            });
        };
        if value < row.least {
            return Err(LimitError::TooSmall {
                name: row.name,
                least: row.least,
            });
        }
        if let Some(slot) = self.slot(name) {
            *slot = value;
        }
        Ok(())
    }

    /// A limit that bounds a collection, as the platform counts.
    pub(crate) fn count(limit: u64) -> usize {
        usize::try_from(limit).unwrap_or(usize::MAX)
    }
}

/// All limits of the engine, in the order of the reference.
#[must_use]
pub fn table() -> &'static [Limit] {
    TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_table() {
        let defaults: Vec<u64> = table().iter().map(|row| row.default).collect();
        assert_eq!(Limits::default().values(), defaults);
    }

    #[test]
    fn every_limit_has_a_unit_a_sentence_and_a_default_that_is_accepted() {
        for row in table() {
            let mut limits = Limits::default();
            assert_eq!(limits.set(row.name, row.default), Ok(()), "{}", row.name);
            assert!(
                !row.unit.is_empty() && row.doc.trim_end().ends_with('.'),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn an_unknown_name_and_a_value_below_the_least_are_refused() {
        let mut limits = Limits::default();
        assert_eq!(
            limits.set("colour", 1),
            Err(LimitError::Unknown {
                name: "colour".into()
            })
        );
        assert_eq!(
            limits.set("commit_turns", 0),
            Err(LimitError::TooSmall {
                name: "commit_turns",
                least: 1
            })
        );
        assert_eq!(limits.set("commit_turns", 7), Ok(()));
        assert_eq!(
            limits,
            Limits {
                commit_turns: 7,
                ..Limits::default()
            }
        );
    }
}
