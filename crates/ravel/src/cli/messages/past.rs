//! What a log says about something that is over: who answered a question, who cancelled a run, and when.

use std::sync::Arc;

use ravel_core::event::{Event, Node, Settled, Turn};
use ravel_core::port::{RunState, Summary};
use ravel_core::value::Val;
use serde_json::{Value, json};

use crate::error::Result;
use crate::output::{cut, json_line, one_line, units};
use crate::view::short;
use crate::wire::{Shelf, store_error};

/// The type of the event that [`cancels`] reads, as it is stored.
const CANCEL: &str = "cancel_requested";
/// Columns of an answer that are shown.
const VALUE_COLUMNS_MAX: usize = 200;

/// How a question came to be closed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Closed {
    /// The question, whole.
    pub(crate) id: Arc<str>,
    /// Its step.
    pub(crate) path: Arc<str>,
    at: u64,
    how: How,
}

#[derive(Clone, Debug, PartialEq)]
enum How {
    Answered { by: Option<Arc<str>>, value: Val },
    Deadline,
    Settled(Settled),
}

/// A question that a log asks and that is not open at its end. It may be named by a beginning of its id.
pub(crate) fn closed(turns: &[Turn], question: &str) -> Option<Closed> {
    let mut asked: Option<Asked> = None;
    let mut found = None;
    for (turn, event) in events(turns) {
        if let Event::Asked {
            question: id,
            node,
            path,
            until,
            ..
        } = event
            && id.starts_with(question)
        {
            asked = Some(Asked {
                node: *node,
                id: id.clone(),
                path: path.clone(),
                until: *until,
            });
            found = None;
        }
        if let Some(asked) = &asked
            && found.is_none()
        {
            found = asked.end(event, turn.at).map(|how| Closed {
                id: asked.id.clone(),
                path: asked.path.clone(),
                at: turn.at,
                how,
            });
        }
    }
    found
}

fn events(turns: &[Turn]) -> impl Iterator<Item = (&Turn, &Event)> {
    turns
        .iter()
        .flat_map(|turn| turn.events.iter().map(move |event| (turn, event)))
}

struct Asked {
    node: Node,
    id: Arc<str>,
    path: Arc<str>,
    until: Option<u64>,
}

impl Asked {
    /// How an event closes the question, if it does.
    fn end(&self, event: &Event, at: u64) -> Option<How> {
        if let Event::Answered {
            question,
            value,
            by,
            ..
        } = event
            && *question == self.id
        {
            let nobody = by.is_none() && value.json().is_null();
            let late = self.until.is_some_and(|until| until <= at);
            return Some(if nobody && late {
                How::Deadline
            } else {
                How::Answered {
                    by: by.clone(),
                    value: value.clone(),
                }
            });
        }
        if let Event::Settled { node, state, .. } = event
            && *node == self.node
        {
            return Some(How::Settled(*state));
        }
        None
    }
}

impl Closed {
    /// One sentence.
    pub(crate) fn sentence(&self, now: u64) -> String {
        let Self { id, path, at, how } = self;
        match how {
            How::Answered { by, value } => format!(
                "question {id} ({path}) was answered{} {} with {}",
                by_whom(by.as_deref()),
                when(*at, now),
                shown(value)
            ),
            How::Deadline => format!(
                "question {id} ({path}) was closed by its deadline {}: nobody had answered",
                when(*at, now)
            ),
            How::Settled(state) => {
                let state = match state {
                    Settled::Succeeded => "succeeded",
                    Settled::Failed => "failed",
                    Settled::Skipped => "was skipped",
                    Settled::Cancelled => "was cancelled",
                };
                format!(
                    "question {id} is closed: its step {path} {state} {}",
                    when(*at, now)
                )
            }
        }
    }

    /// True when its time simply passed.
    pub(crate) fn by_deadline(&self) -> bool {
        self.how == How::Deadline
    }

    /// When it was closed.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }
}

/// Somebody's wish to cancel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cancelled {
    /// 0: the whole run.
    pub(crate) node: Node,
    by: Option<Arc<str>>,
    reason: Option<Arc<str>>,
    at: u64,
}

impl Cancelled {
    /// ` by ada at 2026-11-30 15:47:23 (3 s ago): wrong file`.
    pub(crate) fn who_and_when(&self, now: u64) -> String {
        let reason = self.reason.as_ref();
        let reason =
            reason.map(|reason| format!(": {}", cut(&one_line(reason), VALUE_COLUMNS_MAX)));
        let who = by_whom(self.by.as_deref());
        format!("{who} {}{}", when(self.at, now), reason.unwrap_or_default())
    }

    /// `wrong file (by ada)`, without when.
    pub(crate) fn why_and_who(&self) -> String {
        let who = self.by.as_ref().map(|by| format!("by {by}"));
        match (&self.reason, who) {
            (Some(reason), Some(who)) => format!("{} ({who})", one_line(reason)),
            (Some(reason), None) => one_line(reason),
            (None, who) => who.unwrap_or_default(),
        }
    }

    /// The same in JSON documents.
    pub(crate) fn document(&self, path: &str) -> Value {
        json!({"path": path, "by": self.by, "at": units::rfc3339(self.at), "reason": self.reason})
    }
}

/// Every wish to cancel that was taken in, oldest first.
pub(crate) fn cancels(turns: &[Turn]) -> Vec<Cancelled> {
    events(turns)
        .filter_map(|(turn, event)| {
            let Event::CancelRequested { node, by, reason } = event else {
                return None;
            };
            Some(Cancelled {
                node: *node,
                by: by.clone(),
                reason: reason.clone(),
                at: turn.at,
            })
        })
        .collect()
}

/// The last wish to cancel a whole run, read without the values of its log.
pub(crate) fn cancel_of_all(shelf: &Shelf, run: &str) -> Result<Option<Cancelled>> {
    let lines = shelf.store.lines_with(run, CANCEL).map_err(store_error)?;
    let turns: Vec<Turn> = lines
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of_all = cancels(&turns)
        .into_iter()
        .filter(|cancel| cancel.node == 0);
    Ok(of_all.last())
}

/// How a run that is over ended, in one sentence.
pub(crate) fn ended(summary: &Summary, turns: &[Turn], now: u64) -> String {
    let run = &summary.run;
    let at = when(summary.updated, now);
    match summary.state {
        RunState::Cancelled => {
            let cancel = cancels(turns).into_iter().find(|cancel| cancel.node == 0);
            let who = cancel.map_or_else(|| format!(" {at}"), |cancel| cancel.who_and_when(now));
            format!("run {run} was cancelled{who}")
        }
        RunState::Failed => {
            let error = summary.error.as_ref().map(short).unwrap_or_default();
            format!("run {run} failed {at}: {error}")
        }
        RunState::Succeeded
        | RunState::Running
        | RunState::Waiting
        | RunState::Cancelling
        | RunState::Compensating => format!("run {run} {} {at}", summary.state.name()),
    }
}

/// ` by ada`, or nothing.
pub(crate) fn by_whom(by: Option<&str>) -> String {
    by.map(|by| format!(" by {by}")).unwrap_or_default()
}

/// `at 2026-11-30 15:47:23 (3 s ago)`.
pub(crate) fn when(at: u64, now: u64) -> String {
    format!("at {} ({})", units::time(at), units::relative(at, now))
}

/// A value on one line.
pub(crate) fn shown(value: &Val) -> String {
    json_line(value.json(), VALUE_COLUMNS_MAX)
}
