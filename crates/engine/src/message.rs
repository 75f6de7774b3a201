//! What goes into the shard machine and what comes out of it.

use std::sync::Arc;

use ravel_core::effect::{Millis, Outcome};
use ravel_core::event::{Attempt, Input, Stop, Turn};
use ravel_core::graph::Graph;
use ravel_core::port::{Job, Summary};
use ravel_core::port_store::{Owner, Reply};
use ravel_core::run::{Run, SharedTerms};
use ravel_core::value::Val;

use crate::error::{EngineError, StopReason};
use crate::timers::Slot;

/// A run in memory: its slot, and which of the slot's tenants it is. A key of a run that is gone matches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunKey {
    /// The slot.
    pub slot: Slot,
    /// Counts the tenants of the slot.
    pub generation: u32,
}

/// Number of a caller's request: comes back with its [`Out::Answer`].
pub type Ticket = u64;

/// A new run.
#[derive(Debug)]
pub struct NewRun {
    /// Its id.
    pub run: Arc<str>,
    /// Its graph, whose bundle the store has.
    pub graph: Arc<Graph>,
    /// Limits and prices.
    pub terms: SharedTerms,
    /// The input.
    pub input: Val,
    /// A second start under the same key gives the first run.
    pub start_key: Option<Arc<str>>,
}

/// A run that was read from the store.
#[derive(Debug)]
pub struct Opened {
    /// Folded.
    pub run: Run,
    /// Under which epoch this engine holds it.
    pub owner: Owner,
    /// True when it was taken over just now; false when it comes back from being parked here.
    pub claimed: bool,
    /// Its start key, as stored. Not read again for a run that was parked here.
    pub start_key: Option<Arc<str>>,
    /// Messages that wait for it, in order of their rows.
    pub rows: Vec<Letter>,
}

/// A stored message, ready for the run.
#[derive(Debug)]
pub struct Letter {
    /// Row in the store's inbox.
    pub row: i64,
    /// When it was posted.
    pub at: Millis,
    /// What it wants.
    pub wish: Wish,
}

/// What a message wants of a run.
#[derive(Debug)]
pub enum Wish {
    /// Something that the run decides about.
    Input(Box<Input>),
    /// Stop at a clean point and give the run up.
    Pause,
    /// It cannot be taken in: an edit whose graph is not there.
    Refused {
        /// A stable code.
        code: String,
        /// One sentence.
        message: String,
    },
}

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A caller in this process.
    Caller(Ticket),
    /// Another process, through the store.
    Row(i64),
}

impl Sender {
    pub(crate) fn ticket(self) -> Option<Ticket> {
        match self {
            Self::Caller(ticket) => Some(ticket),
            Self::Row(_) => None,
        }
    }
}

/// What an executor reported.
#[derive(Debug)]
pub enum Reported {
    /// Live text.
    Text(Arc<str>),
    /// Items of the streamed field.
    Items {
        /// The field.
        field: Arc<str>,
        /// The items.
        items: Vec<Val>,
    },
    /// The end.
    Finished(Outcome),
}

/// What arrives at the shard.
#[derive(Debug)]
pub enum In {
    /// Begin a run.
    Start {
        /// Who waits for it.
        ticket: Ticket,
        /// The run.
        new: Box<NewRun>,
    },
    /// Begin a run on a prefix of another's log: already folded and cut.
    Fork {
        /// Who waits for it.
        ticket: Ticket,
        /// The new run's id.
        run: Arc<str>,
        /// The folded prefix.
        prefix: Box<Run>,
    },
    /// Take a run over, or wake it; nothing to do when it is live here.
    Resume {
        /// Who waits for it; `None`: the engine itself adopts it.
        ticket: Option<Ticket>,
        /// The run.
        run: Arc<str>,
    },
    /// What came of an [`Out::Open`].
    Opened {
        /// For which slot.
        key: RunKey,
        /// The run, or why not.
        opened: Result<Box<Opened>, EngineError>,
    },
    /// An executor reports.
    Report {
        /// The run.
        key: RunKey,
        /// The attempt.
        attempt: Attempt,
        /// What.
        what: Reported,
    },
    /// A message for a run.
    Posted {
        /// Who sent it.
        from: Sender,
        /// The run.
        run: Arc<str>,
        /// When.
        at: Millis,
        /// What it wants.
        wish: Wish,
    },
    /// Stop one run at a clean point.
    Pause {
        /// Who waits for it.
        ticket: Ticket,
        /// The run.
        run: Arc<str>,
    },
    /// Stop everything: at clean points, or at once.
    Shutdown {
        /// Do not wait for what is under way.
        now: bool,
    },
    /// Time passed.
    Tick,
}

/// What a caller gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The run that was started, forked or resumed.
    Run(Arc<str>),
    /// What became of a message.
    Reply(Reply),
    /// The run is paused.
    Paused,
}

/// How a run left the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// It reached a final state, durably.
    Final(Box<Summary>),
    /// It was paused, lost or broke; it may go on elsewhere.
    Left(EngineError),
}

/// What the shard wants done. Carried out in order.
#[derive(Debug)]
pub enum Out {
    /// Hand an attempt to its executor.
    Launch {
        /// Its run.
        key: RunKey,
        /// The job.
        job: Box<Job>,
    },
    /// Stop an attempt.
    Abort {
        /// Its run.
        run: Arc<str>,
        /// The attempt.
        attempt: Attempt,
        /// Why.
        why: Stop,
    },
    /// Read a run from the store and say [`In::Opened`].
    Open {
        /// For which slot.
        key: RunKey,
        /// The run.
        run: Arc<str>,
        /// `Some`: parked here under this ownership; `None`: claim it.
        owner: Option<Owner>,
    },
    /// Answer a caller.
    Answer {
        /// Whom.
        ticket: Ticket,
        /// With what.
        answer: Result<Answer, EngineError>,
    },
    /// Turns of a run that are on disk now, for observers.
    Turns {
        /// The run.
        run: Arc<str>,
        /// The turns.
        turns: Vec<Turn>,
    },
    /// Live text, provisional.
    Text {
        /// The run.
        run: Arc<str>,
        /// The step.
        path: Arc<str>,
        /// The attempt.
        attempt: Attempt,
        /// The text.
        text: Arc<str>,
    },
    /// A run left the engine.
    Ended {
        /// The run.
        run: Arc<str>,
        /// How.
        ending: Ending,
    },
    /// Give a run up in the store.
    Release {
        /// The run.
        run: Arc<str>,
        /// Under which ownership.
        owner: Owner,
    },
    /// Everything is stopped: the last message.
    Stopped {
        /// Why.
        why: StopReason,
    },
}
