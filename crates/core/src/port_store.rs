//! The store's port: four small traits over one database.
//!
//! Every call blocks; the engine calls from threads of its own. All writes of runs go through [`Log::commit`].

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::effect::Millis;
use crate::event::Turn;
use crate::port::{Question, RunState, Summary};
use crate::value::Val;

/// Who writes: a process's token and the epoch it holds a run under. A commit under an old epoch is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Unique per engine process (UUID v7).
    pub token: Arc<str>,
    /// The run's epoch at this owner's claim.
    pub epoch: u64,
}

/// What one run adds in a commit.
#[derive(Clone, Debug)]
pub struct RunCommit {
    /// The run.
    pub run: Arc<str>,
    /// Who writes.
    pub owner: Owner,
    /// First commit of the run: it must not exist, and `owner.epoch` is 1. With a fork, [`Summary::forked_from`] says
    /// the prefix.
    pub create: bool,
    /// Turns since the run's last commit, contiguous with what is stored.
    pub turns: Vec<Turn>,
    /// What is listed from now on. A final state gives the run up: nobody owns it from this commit on.
    pub summary: Summary,
    /// Questions that these turns opened or changed (same id = replace).
    pub asked: Vec<Question>,
    /// Ids of questions that these turns closed.
    pub closed: Vec<Arc<str>>,
    /// Inbox rows that these turns took in, each with the reply for its sender.
    pub taken: Vec<(i64, Reply)>,
}

/// One transaction: all of it on disk when `commit` returns, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// One entry a run.
    pub runs: Vec<RunCommit>,
}

/// The truth: logs and the graphs they refer to.
pub trait Log: Send + Sync {
    /// Writes a batch atomically and durably. Fails whole with [`Error::Fenced`] (naming the run) when an epoch is
    /// old, [`Error::Exists`] when a created run or its start key exists, [`Error::Gap`] when turns are not contiguous.
    ///
    /// # Errors
    /// See above; [`Error::Full`], [`Error::Damaged`], [`Error::Io`] from the disk.
    fn commit(&self, batch: &Batch) -> Result<(), Error>;
    /// All turns of a run, a fork's prefix included, in order; values whole.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Damaged`].
    fn load(&self, run: &str) -> Result<Vec<Turn>, Error>;
    /// The first turns of a run, to `upto` at most: what comes after them may be damaged.
    ///
    /// # Errors
    /// As [`Log::load`].
    fn load_to(&self, run: &str, upto: u64) -> Result<Vec<Turn>, Error> {
        let mut turns = self.load(run)?;
        turns.retain(|turn| turn.turn <= upto);
        Ok(turns)
    }
    /// Keeps a graph's bundle (canonical JSON text) under its hash. Idempotent.
    ///
    /// # Errors
    /// Errors of the disk.
    fn put_bundle(&self, hash: &str, json: &str) -> Result<(), Error>;
    /// The bundle with this hash.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    fn bundle(&self, hash: &str) -> Result<String, Error>;
    /// Recomputes the hash chain over the stored bytes of a run.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the first turn that does not fit.
    fn verify(&self, run: &str) -> Result<Chain, Error>;
}

/// The result of a chain check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// Turns in the chain, prefix included.
    pub turns: u64,
    /// Hash of the last turn, hex.
    pub head: String,
    /// Bytes that were hashed.
    pub bytes: u64,
}

/// Which process owns which run. An owner that died (its process lock is gone) owns nothing.
pub trait Ownership: Send + Sync {
    /// Takes a run over: a new epoch. Refused while a live process holds it.
    ///
    /// # Errors
    /// [`Error::Held`] by another live process; [`Error::Unknown`].
    fn claim(&self, run: &str, token: &str) -> Result<Owner, Error>;
    /// Gives a run up: it is `paused` until somebody claims it.
    ///
    /// # Errors
    /// Errors of the disk.
    fn release(&self, run: &str, owner: &Owner) -> Result<(), Error>;
    /// Gives up every run that this token owns, in one transaction: an engine that stops cleanly.
    ///
    /// # Errors
    /// Errors of the disk.
    fn release_all(&self, token: &str) -> Result<(), Error>;
    /// Live runs that nobody (alive) owns and that have something to do at `now`: running ones, due wake-ups,
    /// waiting inbox rows; oldest first, at most `most`.
    ///
    /// # Errors
    /// Errors of the disk.
    fn unowned(&self, now: Millis, most: usize) -> Result<Vec<Arc<str>>, Error>;
    /// Earliest wake-up among the live runs that nobody owns.
    ///
    /// # Errors
    /// Errors of the disk.
    fn next_wake(&self) -> Result<Option<Millis>, Error>;
    /// The live owner's token of a run, if any.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    fn owner(&self, run: &str) -> Result<Option<Arc<str>>, Error>;
}

/// What somebody outside the owner wants of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// Answer a question.
    Answer {
        /// The question's id.
        question: Arc<str>,
        /// The answer.
        value: Val,
        /// Who answers.
        by: Option<Arc<str>>,
    },
    /// A message for an inbox of the run.
    Signal {
        /// The inbox.
        name: Arc<str>,
        /// The message.
        value: Val,
        /// The sender's id.
        id: Option<Arc<str>>,
    },
    /// Cancel the run or one activation.
    Cancel {
        /// Path, or the whole run.
        path: Option<Arc<str>>,
        /// Who.
        by: Option<Arc<str>>,
        /// Why, for the log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    /// Go on under another graph.
    Edit {
        /// Version it was made from.
        base: u32,
        /// Hash of the new bundle, already put.
        graph: Arc<str>,
        /// Who and why.
        note: Val,
    },
    /// Stop after a clean point and give the run up.
    Pause,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// Taken in; recorded in this turn.
    Accepted {
        /// The turn.
        turn: u64,
    },
    /// Refused; nothing was recorded.
    Rejected {
        /// A stable code.
        code: String,
        /// One sentence.
        message: String,
    },
}

/// A stored message.
#[derive(Clone, Debug, PartialEq)]
pub struct Posted {
    /// Row.
    pub id: i64,
    /// The run.
    pub run: Arc<str>,
    /// When it was posted, epoch ms: recovery merges by this time.
    pub at: Millis,
    /// The message.
    pub message: Message,
}

/// How processes talk to a run's owner.
pub trait Inbox: Send + Sync {
    /// Leaves a message for a run, durably. `at` is the sender's clock.
    ///
    /// # Errors
    /// [`Error::Unknown`] run.
    fn post(&self, run: &str, at: Millis, message: &Message) -> Result<i64, Error>;
    /// Messages that are not taken yet, for these runs (all runs owned by `token`), in order of `id`, after `after`.
    ///
    /// # Errors
    /// Errors of the disk.
    fn fetch(&self, token: &str, after: i64) -> Result<Vec<Posted>, Error>;
    /// Untaken messages of one run.
    ///
    /// # Errors
    /// Errors of the disk.
    fn waiting(&self, run: &str) -> Result<Vec<Posted>, Error>;
    /// The reply to a message, when there is one.
    ///
    /// # Errors
    /// [`Error::Unknown`] row.
    fn reply(&self, id: i64) -> Result<Option<Reply>, Error>;
    /// Marks rows taken outside a commit (rejected ones, which record nothing).
    ///
    /// # Errors
    /// Errors of the disk.
    fn settle(&self, taken: &[(i64, Reply)]) -> Result<(), Error>;
    /// A cheap number that changes whenever another process wrote (SQLite: `PRAGMA data_version`).
    ///
    /// # Errors
    /// Errors of the disk.
    fn version(&self) -> Result<u64, Error>;
}

/// Which runs to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Only these states; empty = all.
    pub states: Vec<RunState>,
    /// Only runs of this flow.
    pub flow: Option<String>,
    /// Only runs whose id begins so.
    pub id_prefix: Option<String>,
    /// Only runs created at or after, epoch ms.
    pub since: Option<Millis>,
    /// Most rows. 0 = all.
    pub limit: usize,
}

/// What is listed without an owner, and retention.
pub trait Listing: Send + Sync {
    /// Runs, newest first.
    ///
    /// # Errors
    /// Errors of the disk.
    fn runs(&self, filter: &Filter) -> Result<Vec<Summary>, Error>;
    /// Open questions, oldest first; of one run or of all.
    ///
    /// # Errors
    /// Errors of the disk.
    fn questions(&self, run: Option<&str>) -> Result<Vec<Question>, Error>;
    /// The run of a start key.
    ///
    /// # Errors
    /// Errors of the disk.
    fn by_start_key(&self, key: &str) -> Result<Option<Arc<str>>, Error>;
    /// Deletes final, unowned runs last updated before `before` (their blobs and bundles too where nothing else
    /// refers to them). A run that is the prefix of a live fork stays. With `dry_run` only counts.
    ///
    /// # Errors
    /// Errors of the disk.
    fn collect(
        &self,
        before: Millis,
        keep_newest: usize,
        dry_run: bool,
    ) -> Result<Collected, Error>;
}

/// What retention removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// Ids of the removed runs.
    pub runs: Vec<Arc<str>>,
    /// Runs that would have been due but are the prefix of another.
    pub pinned: Vec<Arc<str>>,
    /// Blobs removed.
    pub blobs: u64,
    /// Bytes of payload removed.
    pub bytes: u64,
}

/// A whole store.
pub trait Store: Log + Ownership + Inbox + Listing {}
impl<T: Log + Ownership + Inbox + Listing> Store for T {}

/// Why the store did not do it.
#[derive(Debug)]
pub enum Error {
    /// No such run, question, bundle or row.
    Unknown {
        /// What was asked for.
        what: String,
    },
    /// The run or its start key exists already.
    Exists {
        /// The run that exists.
        run: Arc<str>,
    },
    /// Another owner took the run over.
    Fenced {
        /// The run.
        run: Arc<str>,
    },
    /// A live process owns the run.
    Held {
        /// The run.
        run: Arc<str>,
        /// Who: the owner's process id and token, for people.
        by: String,
    },
    /// Turns are not contiguous with what is stored.
    Gap {
        /// The run.
        run: Arc<str>,
        /// The turn that was expected.
        expected: u64,
        /// The turn that came.
        got: u64,
    },
    /// The stored bytes are not what was written.
    Damaged {
        /// Where, and what is lost.
        what: String,
    },
    /// No space left.
    Full {
        /// The underlying message.
        message: String,
    },
    /// Written by a newer version.
    Newer {
        /// The format found.
        found: u32,
        /// The newest one known here.
        known: u32,
    },
    /// Anything else from the disk or the database.
    Io {
        /// The underlying message.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { what } => write!(f, "there is no {what}"),
            Self::Exists { run } => write!(f, "run {run} exists already"),
            Self::Fenced { run } => write!(f, "run {run} was taken over by another process"),
            Self::Held { run, by } => write!(f, "run {run} is owned by {by}"),
            Self::Gap { run, expected, got } => {
                write!(f, "run {run} expected turn {expected} and was given {got}")
            }
            Self::Damaged { what } => write!(f, "the store is damaged: {what}"),
            Self::Full { message } => write!(f, "no space is left for the store: {message}"),
            Self::Newer { found, known } => {
                write!(
                    f,
                    "the store has format {found}, this program knows up to {known}"
                )
            }
            Self::Io { message } => write!(f, "the store failed: {message}"),
        }
    }
}

impl std::error::Error for Error {}
