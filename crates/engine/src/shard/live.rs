//! One run in the shard: where it is, and what of it is not on disk yet.

use std::collections::HashMap;
use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::event::{Attempt, Event, Turn, Wait};
use ravel_core::port::{Job, Question};
use ravel_core::port_store::{Owner, Reply, RunCommit};
use ravel_core::run::Run;

use crate::cache::CacheKey;
use crate::message::{Letter, Sender, Ticket, Wish};

/// Where a run is.
///
/// `Vacant --start, fork--> Live --idle--> Parked --due, message--> Waking --opened--> Live --final, paused, fenced--> Vacant`;
/// `Vacant --resume, adopt--> Waking`.
#[derive(Debug, Default)]
pub(super) enum Place {
    /// Nobody.
    #[default]
    Vacant,
    /// In memory.
    Live(Box<Live>),
    /// Owned, but not in memory: it waits for a clock, a person or a signal.
    Parked(Box<Parked>),
    /// Being read from the store.
    Waking(Box<Waking>),
}

/// What is kept of a run that is not in memory.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) run: Arc<str>,
    pub(super) owner: Owner,
    pub(super) start_key: Option<Arc<str>>,
}

/// A run that is on its way into memory, and what waits for it there.
#[derive(Debug)]
pub(super) struct Waking {
    pub(super) run: Arc<str>,
    /// Known when it was parked here.
    pub(super) start_key: Option<Arc<str>>,
    /// Callers that asked for it to be resumed.
    pub(super) resumed: Vec<Ticket>,
    /// Callers that asked for it to be paused.
    pub(super) paused: Vec<Ticket>,
    pub(super) letters: Vec<(Sender, Millis, Wish)>,
}

impl Waking {
    pub(super) fn new(run: Arc<str>, start_key: Option<Arc<str>>) -> Self {
        Self {
            run,
            start_key,
            resumed: Vec::new(),
            paused: Vec::new(),
            letters: Vec::new(),
        }
    }
}

/// An attempt that was handed out, or will be when its turn is on disk.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) path: Arc<str>,
    /// False while its start is held back.
    pub(super) left: bool,
    /// Where to keep its result, and until how long after now.
    pub(super) cache: Option<(CacheKey, Millis)>,
}

/// What is to be told to whom when a turn is on disk.
#[derive(Debug)]
pub(super) enum Told {
    /// A run was started, forked or resumed.
    Run(Ticket),
    /// A message was taken in or refused.
    Reply(Ticket, Reply),
}

impl Told {
    pub(super) fn ticket(&self) -> Ticket {
        match self {
            Self::Run(ticket) | Self::Reply(ticket, _) => *ticket,
        }
    }
}

/// What a run did that is not on disk yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) turns: Vec<Turn>,
    /// Starts that may leave when the turns are on disk.
    #[expect(
        clippy::vec_box,
        reason = "the box is the command's, and goes on to the executor"
    )]
    pub(super) held: Vec<Box<Job>>,
    pub(super) told: Vec<Told>,
    pub(super) taken: Vec<(i64, Reply)>,
    /// Questions that the turns opened or changed.
    pub(super) asked: Vec<Arc<str>>,
}

/// Why a run is about to leave.
#[derive(Debug)]
pub(super) struct Pausing {
    pub(super) until: Millis,
    pub(super) tickets: Vec<Ticket>,
    /// Rows of the inbox that asked for it.
    pub(super) rows: Vec<i64>,
}

/// A run in memory.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) run: Run,
    pub(super) owner: Owner,
    pub(super) start_key: Option<Arc<str>>,
    /// True when the store has it.
    pub(super) created: bool,
    pub(super) flights: HashMap<Attempt, Flight>,
    pub(super) pending: Pending,
    /// What waits for the commit under way; `None`: no commit of this run is under way.
    pub(super) committing: Option<Pending>,
    /// True while the shard's list of runs to commit names it.
    pub(super) dirty: bool,
    /// Questions that are open as far as the store knows.
    pub(super) open: Vec<Arc<str>>,
    /// Rows of the inbox up to this one were taken in or refused.
    pub(super) last_row: i64,
    /// When it last did something.
    pub(super) active_at: Millis,
    pub(super) pausing: Option<Pausing>,
}

impl Live {
    pub(super) fn new(run: Run, owner: Owner, now: Millis) -> Self {
        Self {
            run,
            owner,
            start_key: None,
            created: false,
            flights: HashMap::new(),
            pending: Pending::default(),
            committing: None,
            dirty: false,
            open: Vec::new(),
            last_row: 0,
            active_at: now,
            pausing: None,
        }
    }

    /// Notes a turn that has to go to disk.
    pub(super) fn record(&mut self, turn: Turn) {
        for event in &turn.events {
            if let Event::Asked { question, .. } = event {
                self.pending.asked.push(Arc::clone(question));
            }
            // Questions that are open in the prefix are the fork's own, under ids of its own.
            if let Event::Forked { .. } = event {
                let open = self.run.questions();
                self.pending
                    .asked
                    .extend(open.into_iter().map(|question| question.id));
            }
        }
        self.pending.turns.push(turn);
    }

    /// True when nothing of it waits for the disk or for an executor.
    pub(super) fn is_quiet(&self) -> bool {
        self.flights.is_empty()
            && !self.dirty
            && self.pending.turns.is_empty()
            && self.committing.is_none()
    }

    /// True when only a clock, a person or a signal can move it.
    pub(super) fn can_park(&self) -> bool {
        self.is_quiet()
            && self.pausing.is_none()
            && !self.run.is_final()
            && self.run.waits_on().iter().all(|wait| match wait {
                // A producer is waited for by itself.
                Wait::Person { .. }
                | Wait::Time { .. }
                | Wait::Signal { .. }
                | Wait::Items { .. } => true,
                Wait::Attempt { .. } | Wait::Permit { .. } | Wait::Budget { .. } => false,
            })
    }

    /// Moves everything that waits for the disk into a commit.
    pub(super) fn cut(&mut self) -> RunCommit {
        let mut pending = std::mem::take(&mut self.pending);
        let mut summary = self.run.summary();
        summary.start_key.clone_from(&self.start_key);
        let (asked, closed) = self.questions(&pending.asked);
        let commit = RunCommit {
            run: Arc::clone(self.run.id()),
            owner: self.owner.clone(),
            create: !self.created,
            turns: std::mem::take(&mut pending.turns),
            summary,
            asked,
            closed,
            taken: std::mem::take(&mut pending.taken),
        };
        self.dirty = false;
        self.committing = Some(pending);
        commit
    }

    /// Questions to list anew and to take off the list. `open` follows.
    fn questions(&mut self, asked: &[Arc<str>]) -> (Vec<Question>, Vec<Arc<str>>) {
        if asked.is_empty() && self.open.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let now_open = self.run.questions();
        let closed: Vec<Arc<str>> = self
            .open
            .iter()
            .filter(|id| now_open.iter().all(|question| question.id != **id))
            .cloned()
            .collect();
        self.open = now_open
            .iter()
            .map(|question| Arc::clone(&question.id))
            .collect();
        let asked = now_open
            .into_iter()
            .filter(|question| asked.contains(&question.id))
            .collect();
        (asked, closed)
    }
}

/// Inbox rows as the run takes them: in order of the time at which they were posted, never later than now.
pub(super) fn in_order_of_time(mut letters: Vec<Letter>, now: Millis) -> Vec<Letter> {
    for letter in &mut letters {
        letter.at = letter.at.min(now);
    }
    letters.sort_by_key(|letter| (letter.at, letter.row));
    letters
}
