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

pub(crate) use foresight::{Foresight, Verdict, overdue, waiting_answers};

use super::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::{Tone, units};
use crate::wire::{self, Shelf, store_error};

/// How long a live owner may take to answer, unless said otherwise, ms.
pub(crate) const REPLY_WAIT_MS: u64 = 10_000;
/// An owner that left a message unread for so long is said to be silent, ms.
pub(crate) const SILENCE_MIN_MS: u64 = 2_000;
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
    /// Nobody works on the run: it waits, in this row, and is taken in first.
    Queued(i64),
    /// Somebody works on the run and did not take it in in time: it waits.
    Silent(LiveOwner, Duration),
    /// The run refused it.
    Refused(Error),
}

/// Who sends, as recorded in the log: `$USER`, else the name that the system knows the user by, else the number.
pub(crate) fn sender() -> Option<Arc<str>> {
    let named = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let uid = rustix::process::getuid().as_raw().to_string();
    let known = || {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let fields = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>());
        let mine = |user: &Vec<&str>| user.get(2) == Some(&uid.as_str());
        fields
            .filter(mine)
            .find_map(|user| user.first().map(ToString::to_string))
    };
    let name = named.or_else(known);
    Some(name.unwrap_or_else(|| format!("user {uid}")).into())
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
            let mut without = Foresight::without(shelf, summary, first.id)?;
            if let Verdict::Refuses(error) = without.verdict(message) {
                return Ok(Sent::Refused(error));
            }
            let text = "a later answer took its place".to_owned();
            withdraw(shelf, first.id, &text)?;
            post(shelf, summary, message, sending)
        }
        Verdict::Waits(first) => Ok(Sent::Refused(waits_already(shelf, &first)?)),
    }
}

/// True when a process works on the run.
fn is_owned(shelf: &Shelf, run: &str) -> Result<bool> {
    Ok(shelf.store.live_owner(run).map_err(store_error)?.is_some())
}

/// Leaves a message and waits for the owner's reply, when there is an owner.
fn post(shelf: &Shelf, summary: &Summary, message: &Message, sending: Sending) -> Result<Sent> {
    let row = shelf
        .store
        .post(&summary.run, units::now(), message)
        .map_err(store_error)?;
    reply(shelf, summary, (message, row), sending)
}

/// Waits for the owner's reply to a message that was left before, when there is an owner.
pub(crate) fn reply(
    shelf: &Shelf,
    summary: &Summary,
    (message, row): (&Message, i64),
    sending: Sending,
) -> Result<Sent> {
    let run = &summary.run;
    let began = Instant::now();
    loop {
        // The owner first: one that leaves after this look has left its reply before the next.
        let owner = shelf.store.live_owner(run).map_err(store_error)?;
        if let Some(reply) = shelf.store.reply(row).map_err(store_error)? {
            return said(shelf, summary, message, reply);
        }
        match owner {
            None => {
                if let Some(sent) = left(shelf, summary, message, row)? {
                    return Ok(sent);
                }
            }
            Some(owner) if began.elapsed() > sending.wait() => {
                let sent = Sent::Silent(owner, sending.wait());
                return unread(shelf, run, (message, row), sent);
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

/// An owner did not take a message in in time. The message waits for it, but an answer behind which another one to the
/// same question waits already is taken back: the first one wins.
fn unread(shelf: &Shelf, run: &str, (message, row): (&Message, i64), silent: Sent) -> Result<Sent> {
    let Message::Answer { question, .. } = message else {
        return Ok(silent);
    };
    let of_it = |letter: &Posted| matches!(&letter.message, Message::Answer { question: of, .. } if of == question);
    let waiting = shelf.store.waiting(run).map_err(store_error)?;
    let first = waiting
        .into_iter()
        .find(|letter| letter.id < row && of_it(letter));
    let Some(first) = first else {
        return Ok(silent);
    };
    withdraw(shelf, row, "another answer was first")?;
    Ok(match shelf.store.reply(row).map_err(store_error)? {
        Some(Reply::Accepted { turn }) => Sent::Accepted { turn },
        Some(Reply::Rejected { .. }) | None => Sent::Refused(waits_already(shelf, &first)?),
    })
}

/// Nobody works on the run: the message waits, unless what happened or was left meanwhile comes before it (the run
/// ended, somebody cancelled it, another answer was first). Nothing when somebody began to work on the run: that
/// process replies.
fn left(shelf: &Shelf, summary: &Summary, message: &Message, row: i64) -> Result<Option<Sent>> {
    let now = wire::find_run(shelf, &summary.run)?;
    let verdict = Foresight::before(shelf, &now, row)?.verdict(message);
    let owned = shelf.store.live_owner(&now.run).map_err(store_error)?;
    if owned.is_some() || shelf.store.reply(row).map_err(store_error)?.is_some() {
        return Ok(None);
    }
    let (why, sent) = match verdict {
        Verdict::Takes => return Ok(Some(Sent::Queued(row))),
        Verdict::Known(why) => ("it is so already", Sent::Known(why)),
        Verdict::Waits(first) => (
            "another answer was first",
            Sent::Refused(waits_already(shelf, &first)?),
        ),
        Verdict::Refuses(error) => ("the run refuses it", Sent::Refused(error)),
    };
    withdraw(shelf, row, why)?;
    // The first reply stands: should a process have taken the message in just now, it says so.
    Ok(match shelf.store.reply(row).map_err(store_error)? {
        Some(Reply::Accepted { turn }) => Some(Sent::Accepted { turn }),
        Some(Reply::Rejected { .. }) | None => Some(sent),
    })
}

fn withdraw(shelf: &Shelf, row: i64, why: &str) -> Result<()> {
    let reply = Reply::Rejected {
        code: REPLACED.to_owned(),
        message: why.to_owned(),
    };
    shelf.store.settle(&[(row, reply)]).map_err(store_error)
}

fn waits_already(shelf: &Shelf, first: &Posted) -> Result<Error> {
    let (question, about) = match &first.message {
        Message::Answer { question, .. } => (question.to_string(), waiting(first)),
        Message::Signal { .. } | Message::Cancel { .. } | Message::Edit { .. } | Message::Pause => {
            (String::new(), String::new())
        }
    };
    let owner = shelf.store.live_owner(&first.run).map_err(store_error)?;
    let when = match owner {
        Some(owner) => format!("when process {} goes on, which owns the run", owner.pid),
        None => format!("at `ravel runs resume {}`", first.run),
    };
    Ok(Error::refused(format!(
        "an answer to {question} is queued already: {about}"
    ))
    .hint(format!(
        "it is taken in {when}; --replace puts this one in its place"
    )))
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
            Self::Queued(_) => "queued",
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
            Self::Queued(_) => {
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

#[cfg(test)]
mod tests {
    use ravel_core::lang::Bundle;
    use ravel_core::port_store::Listing as _;
    use ravel_core::run::Terms;
    use ravel_core::value::Val;
    use ravel_engine::StartRequest;

    use super::*;
    use crate::config::{Config, Overrides, World};
    use crate::wire::Session;

    const ASKS: &str = "
ravel: 1
name: asks
steps:
  look: { human: { ask: 'Well?', form: { ok: boolean } } }
";

    /// A run that asks, and that no process works on.
    fn asking() -> (tempfile::TempDir, Shelf, Summary) {
        let folder = tempfile::tempdir().unwrap();
        let world = World {
            folder: folder.path().to_owned(),
            user: None,
            variables: Vec::new(),
        };
        let config = Config::load(&world, &Overrides::default(), false).unwrap();
        let shelf = wire::open(&config).unwrap();
        let session = Session::start(shelf.clone(), &config).unwrap();
        let bundle = Bundle::from_text("asks.yaml", ASKS).unwrap();
        let request = StartRequest {
            graph: Arc::new(bundle.compile().unwrap()),
            bundle: serde_json::to_string(&bundle).unwrap().into(),
            input: Val::new(json!({})),
            terms: Terms::default().into(),
            start_key: None,
            run: None,
        };
        let run = session.engine.start(request).unwrap();
        session.engine.shut_down(false);
        session.engine.join();
        let summary = wire::find_run(&shelf, &run).unwrap();
        (folder, shelf, summary)
    }

    fn cancel() -> Message {
        Message::Cancel {
            path: None,
            by: Some("ada".into()),
            reason: None,
        }
    }

    fn answer(shelf: &Shelf, run: &str) -> Message {
        let questions = shelf.store.questions(Some(run)).unwrap();
        Message::Answer {
            question: questions[0].id.clone(),
            value: Val::new(json!({"ok": true})),
            by: Some("bob".into()),
        }
    }

    /// Leaves messages in this order and says what becomes of the first answer, and whether it waits still.
    fn becomes_of(messages: &dyn Fn(Message) -> Vec<Message>) -> (&'static str, bool) {
        let (_folder, shelf, summary) = asking();
        let answer = answer(&shelf, &summary.run);
        let mut row = 0;
        for message in messages(answer.clone()) {
            let posted = shelf.store.post(&summary.run, units::now(), &message);
            if message == answer {
                row = posted.unwrap();
            }
        }
        let sent = left(&shelf, &summary, &answer, row).unwrap().unwrap();
        let waits = shelf.store.reply(row).unwrap().is_none();
        (sent.state(), waits)
    }

    #[test]
    fn an_answer_that_a_cancel_came_before_is_refused_and_taken_back() {
        assert_eq!(
            becomes_of(&|answer| vec![cancel(), answer]),
            ("refused", false)
        );
    }

    #[test]
    fn an_answer_that_came_before_a_cancel_waits_to_be_taken_in_first() {
        assert_eq!(
            becomes_of(&|answer| vec![answer, cancel()]),
            ("queued", true)
        );
    }
}
