//! What a run would say to a message: asked of a copy, so that what is refused is refused here and now, also when
//! nobody works on the run.

use std::sync::Arc;

use ravel_core::event::{Input, Turn};
use ravel_core::port::{Question, RunState, Summary};
use ravel_core::port_store::{Inbox as _, Log as _, Message, Posted};
use ravel_core::run::Run;

use super::{SILENCE_MIN_MS, past};
use crate::error::{Error, Result};
use crate::output::units;
use crate::wire::{self, Shelf, store_error};

/// The epoch that a copy is recovered under: no run gets there.
const EPOCH_OF_COPIES: u64 = u64::MAX;

/// A copy of a run, as its next owner will find it.
pub(crate) struct Foresight {
    copy: Run,
    summary: Summary,
    /// The log, and what merging would add to it.
    turns: Vec<Turn>,
    /// Turns that are really in the log.
    stored: usize,
    /// Messages that wait: for somebody to work on the run, or for an owner that is silent.
    letters: Vec<Posted>,
    /// A process works on the run, so that nothing is merged here.
    owned: bool,
}

/// What a run would do with a message.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It would record it.
    Takes,
    /// Nothing would be recorded: it is so already. The sentence says why.
    Known(String),
    /// An answer to the same question waits already.
    Waits(Box<Posted>),
    /// It would refuse it.
    Refuses(Error),
}

impl Foresight {
    /// Folds the log. When nobody works on the run, timers that are due and messages that wait are merged by time, as
    /// a resume would merge them.
    pub(crate) fn new(shelf: &Shelf, summary: &Summary) -> Result<Self> {
        Self::of(shelf, summary, &|_| true)
    }

    /// The same, as if one of the messages did not wait.
    pub(super) fn without(shelf: &Shelf, summary: &Summary, row: i64) -> Result<Self> {
        Self::of(shelf, summary, &|letter| letter.id != row)
    }

    /// The same with the messages alone that were left before one.
    pub(super) fn before(shelf: &Shelf, summary: &Summary, row: i64) -> Result<Self> {
        Self::of(shelf, summary, &|letter| letter.id < row)
    }

    fn of(shelf: &Shelf, summary: &Summary, counts: &dyn Fn(&Posted) -> bool) -> Result<Self> {
        let run = &summary.run;
        let turns = shelf
            .store
            .load(run)
            .map_err(|error| wire::damaged(shelf, run, error))?;
        let copy = wire::replayed(shelf, run, &turns)?;
        let owned = shelf.store.live_owner(run).map_err(store_error)?.is_some();
        let mut letters = shelf.store.waiting(run).map_err(store_error)?;
        letters.retain(counts);
        letters.sort_by_key(|letter| (letter.at, letter.id));
        if owned {
            // What an owner that is at work takes in any moment is judged by its reply.
            let now = units::now();
            letters.retain(|letter| now.saturating_sub(letter.at) >= SILENCE_MIN_MS);
        }
        let mut foresight = Self {
            copy,
            summary: summary.clone(),
            stored: turns.len(),
            turns,
            letters,
            owned,
        };
        if !owned && !foresight.copy.is_final() {
            foresight.merge(units::now());
        }
        Ok(foresight)
    }

    fn merge(&mut self, now: u64) {
        self.copy.set_hold(true);
        let first = self
            .letters
            .first()
            .map_or(now, |letter| letter.at.min(now));
        let epoch = EPOCH_OF_COPIES;
        self.take(first, Input::Recovered { epoch });
        for letter in self.letters.clone() {
            let at = letter.at.min(now);
            self.tick_while(|due| due < at);
            if let Some(input) = input_of(&letter.message) {
                self.take(at, input);
            }
        }
        self.tick_while(|due| due <= now);
    }

    fn tick_while(&mut self, is_due: impl Fn(u64) -> bool) {
        let mut last = None;
        while let Some(at) = self.copy.wake_at()
            && is_due(at)
            && last < Some(at)
        {
            last = Some(at);
            self.take(at, Input::Tick);
        }
    }

    /// What the copy refuses, the run refuses, too: there is nothing to tell yet.
    fn take(&mut self, at: u64, input: Input) {
        if let Ok(handled) = self.copy.handle(at, input) {
            self.turns.extend(handled.turn);
        }
    }

    /// An answer that waits for a question, unless it comes too late.
    pub(crate) fn waiting_answer(&self, question: &str) -> Option<&Posted> {
        let of = |letter: &&Posted| matches!(&letter.message, Message::Answer { question: of, .. } if **of == *question);
        let letter = self.letters.iter().find(of)?;
        if self.owned {
            return Some(letter);
        }
        let counts = self
            .closed(question)
            .is_some_and(|closed| !closed.by_deadline());
        counts.then_some(letter)
    }

    /// True when a resume would close the question before it took in what is sent now.
    fn is_overdue(&self, question: &str) -> bool {
        let open = self.copy.questions();
        !open.iter().any(|open| *open.id == *question)
    }

    fn closed(&self, question: &str) -> Option<past::Closed> {
        past::closed(&self.turns, question)
    }

    /// What the run would say now. What it would take is taken by the copy, so that the next verdict counts it in.
    pub(crate) fn verdict(&mut self, message: &Message) -> Verdict {
        let now = units::now();
        if self.summary.state.is_final() {
            return Verdict::Refuses(Error::refused(past::ended(&self.summary, &self.turns, now)));
        }
        if let Message::Answer { question, .. } = message
            && let Some(waiting) = self.waiting_answer(question)
        {
            if waiting.message == *message {
                return Verdict::Known(format!(
                    "the same answer to {question} is queued already, {}",
                    past::when(waiting.at, now)
                ));
            }
            return Verdict::Waits(Box::new(waiting.clone()));
        }
        let Some(input) = input_of(message) else {
            return Verdict::Takes;
        };
        match self.copy.handle(now, input) {
            Ok(handled) if handled.turn.is_none() => Verdict::Known(self.known(message, now)),
            Ok(handled) => {
                self.turns.extend(handled.turn);
                Verdict::Takes
            }
            // Its cancel was cut short: the end is only not recorded yet.
            Err(_) if is_cancel_of_all(message) && self.copy.state() == RunState::Cancelled => {
                Verdict::Known(self.known(message, now))
            }
            // A deadline passed while nobody worked on the run: its end, too, is only not recorded yet.
            Err(_) if is_cancel_of_all(message) && self.copy.is_final() => {
                Verdict::Known(self.end_to_record(now))
            }
            Err(reject) => Verdict::Refuses(self.refusal(message, reject.code, &reject.message)),
        }
    }

    /// A refusal with what the log knows about its reason.
    fn refusal(&self, message: &Message, code: &str, text: &str) -> Error {
        let now = units::now();
        if let Message::Answer { question, .. } = message
            && code == "unknown_question"
            && let Some(closed) = self.closed(question)
        {
            let open = past::closed(&self.turns[..self.stored], question).is_none();
            if open && closed.by_deadline() {
                return too_late(&self.summary.run, &closed, now);
            }
            return Error::refused(closed.sentence(now));
        }
        if self.copy.is_final() {
            let hint = format!("`ravel runs resume {}` lets it end", self.summary.run);
            return Error::refused(self.end_to_record(now)).hint(hint);
        }
        super::refused(code, text)
    }

    /// The end that a resume would record, in one sentence.
    fn end_to_record(&self, now: u64) -> String {
        let mut summary = self.copy.summary();
        summary.run = self.summary.run.clone();
        format!(
            "the run is at its end, which nobody recorded yet: {}",
            past::ended(&summary, &self.turns, now)
        )
    }

    fn known(&self, message: &Message, now: u64) -> String {
        match message {
            Message::Signal { name, id, .. } => format!(
                "a message with the id {} came before in {name}; this one is dropped",
                id.as_deref().unwrap_or("-")
            ),
            Message::Cancel { path, .. } => {
                let node = path.as_ref().map_or(Some(0), |path| {
                    let mut nodes = self.copy.nodes();
                    nodes.find(|node| node.path == *path).map(|node| node.node)
                });
                let cancel = past::cancels(&self.turns)
                    .into_iter()
                    .rev()
                    .find(|cancel| Some(cancel.node) == node || cancel.node == 0);
                let what = path.as_deref().unwrap_or("the run");
                let who = cancel.map(|cancel| cancel.who_and_when(now));
                format!(
                    "{what} is stopping already: its cancel was asked for{}",
                    who.unwrap_or_default()
                )
            }
            Message::Answer { .. } | Message::Edit { .. } | Message::Pause => {
                "it is so already".to_owned()
            }
        }
    }
}

fn too_late(run: &str, closed: &past::Closed, now: u64) -> Error {
    Error::refused(format!(
        "the deadline of question {} ({}) passed {}: an answer comes too late",
        closed.id,
        closed.path,
        past::when(closed.at(), now)
    ))
    .hint(format!(
        "no process worked on the run then; `ravel runs resume {run}` goes on without an answer"
    ))
}

fn is_cancel_of_all(message: &Message) -> bool {
    matches!(message, Message::Cancel { path: None, .. })
}

/// What a run is given for a message; nothing for those that the engine takes care of.
fn input_of(message: &Message) -> Option<Input> {
    match message.clone() {
        Message::Answer {
            question,
            value,
            by,
        } => Some(Input::Answer {
            question,
            value,
            by,
        }),
        Message::Signal { name, value, id } => Some(Input::Signal { name, value, id }),
        Message::Cancel { path, by, reason } => Some(Input::Cancel { path, by, reason }),
        Message::Edit { .. } | Message::Pause => None,
    }
}

/// Which open questions of a run nobody works on are over by a clock: an answer comes too late, and a resume closes
/// them.
pub(crate) fn overdue(
    shelf: &Shelf,
    summary: &Summary,
    open: &[Question],
) -> Result<Vec<Arc<str>>> {
    let due = summary.wake_at.is_some_and(|at| at <= units::now());
    if open.is_empty() || !due || super::is_owned(shelf, &summary.run)? {
        return Ok(Vec::new());
    }
    let foresight = Foresight::new(shelf, summary)?;
    let ids = open.iter().map(|question| question.id.clone());
    Ok(ids.filter(|id| foresight.is_overdue(id)).collect())
}

/// Answers that wait for the questions of a run.
pub(crate) fn waiting_answers(shelf: &Shelf, run: &str) -> Result<Vec<(Arc<str>, Posted)>> {
    let rows = shelf.store.waiting(run).map_err(store_error)?;
    Ok(rows
        .into_iter()
        .filter_map(|row| match &row.message {
            Message::Answer { question, .. } => Some((question.clone(), row)),
            Message::Signal { .. }
            | Message::Cancel { .. }
            | Message::Edit { .. }
            | Message::Pause => None,
        })
        .collect())
}
