//! What is shown of a run: plain rows folded from its log. The live tree, `runs show` and `graph RUN` read these and
//! nothing else.

mod away;
mod fold;
mod kinds;
mod offer;

use ravel_core::event::Topic;
use serde::Serialize;

pub(crate) use away::Away;
pub(crate) use fold::{Folder, origin, short, why_skipped};
pub(crate) use kinds::{body_of, kind_of, place_of, resolve};
pub(crate) use offer::{offered, offers_retry};

use crate::output::Tone;

/// How far a step is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Pending,
    Running,
    Waiting,
    Succeeded,
    Failed,
    Skipped,
    Cancelled,
}

impl State {
    /// The word of the glossary.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    /// One character for terminals that have Unicode.
    pub(crate) const fn glyph(self) -> &'static str {
        match self {
            Self::Pending => "○",
            Self::Running => "●",
            Self::Waiting => "◆",
            Self::Succeeded => "✓",
            Self::Failed => "✗",
            Self::Skipped => "–",
            Self::Cancelled => "⊘",
        }
    }

    /// One character for the others.
    pub(crate) const fn ascii(self) -> &'static str {
        match self {
            Self::Pending => ".",
            Self::Running => "*",
            Self::Waiting => "?",
            Self::Succeeded => "+",
            Self::Failed => "x",
            Self::Skipped => "-",
            Self::Cancelled => "/",
        }
    }

    /// Its colour.
    pub(crate) const fn tone(self) -> Tone {
        match self {
            Self::Pending | Self::Skipped => Tone::Faint,
            Self::Running => Tone::Busy,
            Self::Waiting | Self::Cancelled => Tone::Warn,
            Self::Succeeded => Tone::Good,
            Self::Failed => Tone::Bad,
        }
    }

    /// True when it never changes again.
    pub(crate) const fn is_settled(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Waiting => false,
            Self::Succeeded | Self::Failed | Self::Skipped | Self::Cancelled => true,
        }
    }
}

/// One activation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) path: String,
    /// Last segment of the path.
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) parent: Option<usize>,
    pub(crate) children: Vec<usize>,
    pub(crate) state: State,
    pub(crate) attempts: u32,
    pub(crate) opened: Option<u64>,
    pub(crate) settled: Option<u64>,
    /// Its own, without its children's.
    pub(crate) tokens: u64,
    pub(crate) microusd: u64,
    /// Why it failed, was skipped or waits: one line.
    pub(crate) note: Option<String>,
    /// Items that a fan-out has in all.
    pub(crate) items: Option<usize>,
    /// Last line of live text.
    pub(crate) text: Option<String>,
}

/// An open question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) ask: String,
    pub(crate) form: serde_json::Value,
    pub(crate) topic: Topic,
    /// A value of the shape that the step gives, when it is asked whether an effect happened.
    pub(crate) output: Option<serde_json::Value>,
    pub(crate) until: Option<u64>,
}

/// A run as it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunView {
    pub(crate) id: String,
    pub(crate) flow: String,
    /// Epoch ms of the first and of the last turn.
    pub(crate) started: Option<u64>,
    pub(crate) updated: Option<u64>,
    /// When no process worked on the run.
    pub(crate) away: Away,
    /// Nothing but people, signals and clocks can go on, as the run's summary said after the last turn.
    pub(crate) waits_for_others: bool,
    /// The root first; children after their parents.
    pub(crate) steps: Vec<Step>,
    pub(crate) questions: Vec<Question>,
}

impl RunView {
    /// The root's state; a run that only waits is waiting.
    pub(crate) fn state(&self) -> State {
        match self.steps.first().map(|root| root.state) {
            Some(State::Running) if self.waits_for_others => State::Waiting,
            Some(state) => state,
            None => State::Pending,
        }
    }

    /// Tokens and micro-dollars of a step and all below it.
    pub(crate) fn usage(&self, index: usize) -> (u64, u64) {
        let mut total = (self.steps[index].tokens, self.steps[index].microusd);
        for child in &self.steps[index].children {
            let (tokens, microusd) = self.usage(*child);
            total.0 += tokens;
            total.1 += microusd;
        }
        total
    }

    /// Milliseconds since a step was opened, until it settled or now. Time in which no process worked on the run does
    /// not count.
    pub(crate) fn elapsed(&self, index: usize, now: u64) -> Option<u64> {
        let step = &self.steps[index];
        step.opened
            .map(|opened| self.away.worked(opened, step.settled.unwrap_or(now)))
    }
}

/// The path of the scope that an activation is in: `docs[3]/summary` → `docs[3]` → `docs` → the root (empty).
pub(crate) fn parent_path(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    let mut depth = 0_u32;
    for (index, character) in path.char_indices().rev() {
        match character {
            ']' => depth += 1,
            '[' => {
                depth = depth.saturating_sub(1);
                // `docs[3]` is an item of `docs`; the brackets of `case[x]` and `gate[0]` belong to the name.
                if depth == 0 && path.ends_with(']') && !is_hidden(&path[..index]) {
                    return Some(without_round(&path[..index]));
                }
            }
            '/' if depth == 0 => return Some(without_round(&path[..index])),
            _ => {}
        }
    }
    Some("")
}

/// True when the brackets after this text belong to a name: `case[x]`, `gate[0]`, `check[1]`, `catch[0]`.
fn is_hidden(before: &str) -> bool {
    let name = before.rsplit('/').next().unwrap_or(before);
    matches!(name, "case" | "gate" | "check" | "catch")
}

/// A path without `~2` at its end: a later try of a scope belongs to the same step.
fn without_round(path: &str) -> &str {
    match path.rsplit_once('~') {
        Some((step, round)) if round.bytes().all(|byte| byte.is_ascii_digit()) => step,
        Some(_) | None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_the_root() {
        let parents = |path| {
            std::iter::successors(parent_path(path), |path| parent_path(path)).collect::<Vec<_>>()
        };
        assert_eq!(parents("docs[3]/summary"), ["docs[3]", "docs", ""]);
        assert_eq!(parents("draft~2/again"), ["draft", ""]);
        assert_eq!(parents("fix[2]/test"), ["fix[2]", "fix", ""]);
        assert_eq!(
            parents("route/case[a/b]/x"),
            ["route/case[a/b]", "route", ""]
        );
        assert_eq!(parents("pay/gate[0]"), ["pay", ""]);
        assert_eq!(parents("catch[0]/log"), ["catch[0]", ""]);
    }
}
