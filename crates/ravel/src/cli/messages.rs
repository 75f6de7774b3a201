//! Messages to a run from another process: checked here, left in the store, answered by whoever works on the run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ravel_core::event::Input;
use ravel_core::port::Summary;
use ravel_core::port_store::{Inbox as _, Message, Ownership as _, Reply};
use serde_json::json;

use super::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::{Tone, units};
use crate::wire::{self, Shelf, folded, store_error};

/// How long a live owner may take to answer.
const REPLY_WAIT: Duration = Duration::from_secs(10);
/// Between two looks for the reply.
const REPLY_POLL: Duration = Duration::from_millis(10);

/// What became of a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sent {
    /// The run took it in.
    Taken {
        /// The turn that recorded it.
        turn: u64,
    },
    /// Nobody works on the run: it waits and is taken in first.
    Queued,
    /// The run refused it.
    Refused {
        /// A stable code.
        code: String,
        /// One sentence.
        message: String,
    },
}

/// Who sends, as recorded in the log.
pub(crate) fn sender() -> Option<Arc<str>> {
    std::env::var("USER")
        .ok()
        .filter(|user| !user.is_empty())
        .map(Arc::from)
}

/// Asks a copy of the run whether it would take the message: what is refused is refused here and now, also when
/// nobody works on the run.
pub(crate) fn check(shelf: &Shelf, summary: &Summary, message: &Message) -> Result<()> {
    let mut copy = folded(shelf, &summary.run)?;
    let now = units::now();
    let input = match message.clone() {
        Message::Answer {
            question,
            value,
            by,
        } => Input::Answer {
            question,
            value,
            by,
        },
        Message::Signal { name, value, id } => Input::Signal { name, value, id },
        Message::Cancel { path, by } => Input::Cancel { path, by },
        Message::Edit { .. } | Message::Pause => return Ok(()),
    };
    match copy.handle(now, input) {
        Ok(_) => Ok(()),
        Err(reject) => Err(refused(reject.code, &reject.message)),
    }
}

/// Leaves a message and waits for the owner's reply, when there is an owner.
pub(crate) fn post(shelf: &Shelf, run: &str, message: &Message) -> Result<Sent> {
    let row = shelf
        .store
        .post(run, units::now(), message)
        .map_err(store_error)?;
    let began = Instant::now();
    loop {
        match shelf.store.reply(row).map_err(store_error)? {
            Some(Reply::Accepted { turn }) => return Ok(Sent::Taken { turn }),
            Some(Reply::Rejected { code, message }) => return Ok(Sent::Refused { code, message }),
            None => {}
        }
        let owned = shelf.store.owner(run).map_err(store_error)?.is_some();
        if !owned || began.elapsed() > REPLY_WAIT {
            return Ok(Sent::Queued);
        }
        std::thread::sleep(REPLY_POLL);
    }
}

/// A refusal as an error.
pub(crate) fn refused(code: &str, message: &str) -> Error {
    Error::new(wire::refusal(code), message)
}

impl Sent {
    /// Says what became of it; a refusal is an error.
    pub(crate) fn tell(
        &self,
        context: &Context,
        as_json: bool,
        run: &str,
        what: &str,
    ) -> Result<Exit> {
        let paint = context.output.paint_talk;
        match self {
            Self::Taken { turn } => {
                if as_json {
                    context
                        .output
                        .json(&json!({"run": run, "state": "taken", "turn": turn}))?;
                } else {
                    context.output.talk(&format!(
                        "{} {what} (turn {turn} of run {run})",
                        paint.tone(Tone::Good, "taken:")
                    ));
                }
            }
            Self::Queued => {
                if as_json {
                    context
                        .output
                        .json(&json!({"run": run, "state": "queued", "turn": null}))?;
                } else {
                    context.output.talk(&format!(
                        "{} {what}; no process works on the run now, it is taken in first when one does: \
                         ravel runs resume {run}",
                        paint.tone(Tone::Warn, "queued:")
                    ));
                }
            }
            Self::Refused { code, message } => return Err(refused(code, message)),
        }
        Ok(Exit::Succeeded)
    }
}
