//! Messages to a run from another process: judged here, left in the store, answered by whoever works on the run.

mod foresight;
pub(crate) mod past;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use ravel_core::port::Summary;
use ravel_core::port_store::{Inbox as _, Message, Posted, Reply};
use ravel_store::LiveOwner;
use serde_json::json;

pub(crate) use foresight::{Foresight, Verdict, waiting_answers};

use super::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::{Tone, units};
use crate::wire::{self, Shelf, store_error};

/// How long a live owner may take to answer, unless said otherwise, ms.
pub(crate) const REPLY_WAIT_MS: u64 = 10_000;
/// Between two looks for the reply.
const REPLY_POLL: Duration = Duration::from_millis(10);
/// The code of a reply to an answer that another one took the place of.
const REPLACED: &str = "replaced";

/// How a message is sent.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Sending {
    /// How long to wait for the process that works on the run [default: 10s]
    #[arg(long, value_name = "SPAN", value_parser = units::parse_duration)]
    wait: Option<u64>,
}

impl Sending {
    fn wait(self) -> Duration {
        Duration::from_millis(self.wait.unwrap_or(REPLY_WAIT_MS))
    }
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The run took it in.
    Accepted {
        /// The turn that recorded it.
        turn: u64,
    },
    /// There was nothing to record: it is so already.
    Known(String),
    /// Nobody works on the run: it waits and is taken in first.
    Queued,
    /// Somebody works on the run and did not take it in in time: it waits.
    Silent(LiveOwner, Duration),
    /// The run refused it.
    Refused(Error),
}

/// Who sends, as recorded in the log.
pub(crate) fn sender() -> Option<Arc<str>> {
    std::env::var("USER")
        .ok()
        .filter(|user| !user.is_empty())
        .map(Arc::from)
}

/// A refusal by the run as an error.
pub(crate) fn refused(code: &str, message: &str) -> Error {
    Error::new(wire::refusal(code), message)
}

/// Sends a message: asks what the run would say, leaves it, and waits for the owner's reply when there is an owner.
pub(crate) fn send(
    shelf: &Shelf,
    summary: &Summary,
    message: &Message,
    sending: Sending,
) -> Result<Sent> {
    send_or_replace(shelf, summary, message, (sending, false))
}

/// The same; with `true`, an answer that waits for the same question gives way.
pub(crate) fn send_or_replace(
    shelf: &Shelf,
    summary: &Summary,
    message: &Message,
    (sending, replace): (Sending, bool),
) -> Result<Sent> {
    let mut foresight = Foresight::new(shelf, summary)?;
    match foresight.verdict(message) {
        Verdict::Takes => post(shelf, summary, message, sending),
        Verdict::Known(why) => Ok(Sent::Known(why)),
        Verdict::Refuses(error) => Ok(Sent::Refused(error)),
        Verdict::Waits(first) if replace => {
            let mut without = Foresight::without(shelf, summary, Some(first.id))?;
            if let Verdict::Refuses(error) = without.verdict(message) {
                return Ok(Sent::Refused(error));
            }
            let text = "a later answer took its place".to_owned();
            withdraw(shelf, first.id, &text)?;
            post(shelf, summary, message, sending)
        }
        Verdict::Waits(first) => Ok(Sent::Refused(waits_already(&first))),
    }
}

/// Leaves a message and waits for the owner's reply, when there is an owner.
fn post(shelf: &Shelf, summary: &Summary, message: &Message, sending: Sending) -> Result<Sent> {
    let run = &summary.run;
    let row = shelf
        .store
        .post(run, units::now(), message)
        .map_err(store_error)?;
    let began = Instant::now();
    loop {
        // The owner first: one that leaves after this look has left its reply before the next.
        let owner = shelf.store.live_owner(run).map_err(store_error)?;
        if let Some(reply) = shelf.store.reply(row).map_err(store_error)? {
            return said(shelf, summary, message, reply);
        }
        match owner {
            None => return left(shelf, summary, message, row),
            Some(owner) if began.elapsed() > sending.wait() => {
                return Ok(Sent::Silent(owner, sending.wait()));
            }
            Some(_) => std::thread::sleep(REPLY_POLL),
        }
    }
}

/// The owner's reply in words: a refusal is explained by what the log says now.
fn said(shelf: &Shelf, summary: &Summary, message: &Message, reply: Reply) -> Result<Sent> {
    let (code, text) = match reply {
        Reply::Accepted { turn } => return Ok(Sent::Accepted { turn }),
        Reply::Rejected { code, message } => (code, message),
    };
    let now = wire::find_run(shelf, &summary.run)?;
    if let Verdict::Refuses(error) = Foresight::new(shelf, &now)?.verdict(message) {
        return Ok(Sent::Refused(error));
    }
    Ok(Sent::Refused(refused(&code, &text)))
}

/// Nobody works on the run: the message waits, unless the run ended meanwhile or somebody else's answer was first.
fn left(shelf: &Shelf, summary: &Summary, message: &Message, row: i64) -> Result<Sent> {
    let now = wire::find_run(shelf, &summary.run)?;
    if now.state.is_final() {
        withdraw(shelf, row, "the run is over")?;
        if let Verdict::Refuses(error) = Foresight::new(shelf, &now)?.verdict(message) {
            return Ok(Sent::Refused(error));
        }
    }
    if let Message::Answer { question, .. } = message {
        let first = waiting_answers(shelf, &now.run)?
            .into_iter()
            .find(|(of, other)| of == question && other.id < row);
        if let Some((_, first)) = first {
            withdraw(shelf, row, "another answer was first")?;
            return Ok(Sent::Refused(waits_already(&first)));
        }
    }
    Ok(Sent::Queued)
}

fn withdraw(shelf: &Shelf, row: i64, why: &str) -> Result<()> {
    let reply = Reply::Rejected {
        code: REPLACED.to_owned(),
        message: why.to_owned(),
    };
    shelf.store.settle(&[(row, reply)]).map_err(store_error)
}

fn waits_already(first: &Posted) -> Error {
    let (question, about) = match &first.message {
        Message::Answer { question, .. } => (question.to_string(), waiting(first)),
        Message::Signal { .. } | Message::Cancel { .. } | Message::Edit { .. } | Message::Pause => {
            (String::new(), String::new())
        }
    };
    Error::refused(format!(
        "an answer to {question} is queued already: {about}"
    ))
    .hint(format!(
        "it is taken in at `ravel runs resume {}`; --replace puts this one in its place",
        first.run
    ))
}

/// `by ada at 2026-11-30 15:47:23 (3 s ago): {"ok":true}`.
pub(crate) fn waiting(posted: &Posted) -> String {
    let now = units::now();
    match &posted.message {
        Message::Answer { value, by, .. } => format!(
            "{}{}: {}",
            by.as_deref()
                .map(|by| format!("by {by} "))
                .unwrap_or_default(),
            past::when(posted.at, now),
            past::shown(value)
        ),
        Message::Signal { .. } | Message::Cancel { .. } | Message::Edit { .. } | Message::Pause => {
            past::when(posted.at, now)
        }
    }
}

impl Sent {
    /// The word for it.
    pub(crate) const fn state(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Known(_) => "known",
            Self::Queued => "queued",
            Self::Silent(..) => "unanswered",
            Self::Refused(_) => "refused",
        }
    }

    /// Says what became of it; a refusal is an error.
    pub(crate) fn tell(
        self,
        context: &Context,
        as_json: bool,
        run: &str,
        what: &str,
    ) -> Result<Exit> {
        let paint = context.output.paint_talk;
        let (state, mut turn, mut exit) = (self.state(), None, Exit::Succeeded);
        let text = match self {
            Self::Refused(error) => return Err(error),
            Self::Accepted { turn: taken } => {
                turn = Some(taken);
                let accepted = paint.tone(Tone::Good, "accepted:");
                format!("{accepted} {what} (turn {taken} of run {run})")
            }
            Self::Known(why) => format!("{} {why}", paint.tone(Tone::Note, "known:")),
            Self::Queued => {
                let queued = paint.tone(Tone::Warn, "queued:");
                format!(
                    "{queued} {what}; no process works on the run now, it is taken in first at: ravel runs resume {run}"
                )
            }
            Self::Silent(owner, waited) => {
                exit = Exit::Trouble;
                let lines = wire::silence(&owner);
                let unanswered = paint.tone(Tone::Bad, "unanswered:");
                let waited = units::duration(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
                format!(
                    "{unanswered} {what} was left for process {}, which works on the run but did not take it in within \
                     {waited} (--wait); it waits there\n{lines}",
                    owner.pid
                )
            }
        };
        if as_json {
            let document = json!({"run": run, "state": state, "turn": turn});
            context.output.json(&document)?;
        } else if exit == Exit::Succeeded {
            context.output.talk(&text);
        }
        if exit != Exit::Succeeded {
            context.output.shout(&text);
        }
        Ok(exit)
    }
}
