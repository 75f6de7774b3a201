//! Time in which no process worked on a run, taken from its log.

use ravel_core::event::{Event, Turn};

/// The spans between what was recorded last and a resume, or the fork that goes on from there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Away {
    spans: Vec<(u64, u64)>,
    last: Option<u64>,
    /// The epoch of the last resume: messages that waited are merged by their own times, between two records of it.
    epoch: Option<u64>,
}

impl Away {
    /// Takes in the next turn.
    pub(crate) fn turn(&mut self, turn: &Turn) {
        let before = self.last.replace(turn.at);
        for event in &turn.events {
            if let Event::Recovered { epoch } = event {
                let again = self.epoch.replace(*epoch) == Some(*epoch);
                match self.spans.last_mut().filter(|_| again) {
                    Some((_, end)) => *end = turn.at,
                    None => self.spans.extend(before.map(|before| (before, turn.at))),
                }
            }
            if let Event::Forked { .. } = event {
                self.spans.extend(before.map(|before| (before, turn.at)));
            }
        }
    }

    /// Of a whole log.
    pub(crate) fn of(turns: &[Turn]) -> Self {
        let mut away = Self::default();
        for turn in turns {
            away.turn(turn);
        }
        away
    }

    /// Milliseconds of a span in which nobody worked on the run.
    pub(crate) fn stopped(&self, from: u64, to: u64) -> u64 {
        self.spans
            .iter()
            .map(|(begin, end)| to.min(*end).saturating_sub(from.max(*begin)))
            .sum()
    }

    /// Milliseconds of a span in which a process worked on the run.
    pub(crate) fn worked(&self, from: u64, to: u64) -> u64 {
        to.saturating_sub(from)
            .saturating_sub(self.stopped(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(turn: u64, at: u64, epoch: Option<u64>) -> Turn {
        Turn {
            turn,
            at,
            events: epoch
                .map(|epoch| Event::Recovered { epoch })
                .into_iter()
                .collect(),
        }
    }

    #[test]
    fn time_in_which_nobody_worked_does_not_count() {
        let away = Away::of(&[
            turn(1, 1_000, None),
            turn(2, 1_500, None),
            turn(3, 9_000, Some(2)),
            turn(4, 9_200, None),
        ]);
        assert_eq!(away.worked(1_000, 9_200), 700);
        assert_eq!(away.worked(9_000, 9_200), 200);
        assert_eq!(away.stopped(8_000, 9_100), 1_000);
    }

    #[test]
    fn messages_that_are_merged_by_their_time_do_not_cut_a_stop_in_two() {
        let away = Away::of(&[
            turn(1, 1_000, None),
            turn(2, 3_000, Some(2)),
            turn(3, 3_000, None),
            turn(4, 5_000, None),
            turn(5, 9_000, Some(2)),
            turn(6, 9_500, None),
            turn(7, 9_900, Some(3)),
        ]);
        assert_eq!(away.stopped(1_000, 9_500), 8_000);
        assert_eq!(away.stopped(1_000, 10_000), 8_400);
    }
}
