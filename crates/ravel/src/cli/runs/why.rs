//! `ravel runs why`: what a run waits for and how to end it, or why it ended as it did.

mod causes;
mod waits;

use clap::Args;
use ravel_core::event::Turn;
use ravel_core::port_store::{Inbox as _, Log as _, Posted};
use ravel_core::run::Run;
use ravel_store::LiveOwner;
use serde_json::{Value, json};

use super::list::is_owned;
use crate::cli::messages::{self, past};
use crate::cli::{Context, Json, reading};
use crate::config::counted;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{Tone, units};
use crate::view::place_of;
use crate::wire::{self, Pulse, Shelf, shown_state, store_error};

pub(crate) use waits::shown;

/// Says what a run waits for, or why it ended as it did
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ravel runs why last")]
pub(super) struct Why {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    json: Json,
}

/// One reason, in words.
#[derive(Clone, Debug, PartialEq)]
struct Reason {
    path: String,
    text: String,
    /// Commands that end it or say more: each can be run as it stands.
    commands: Vec<String>,
    /// What ends it by itself, or where to look.
    notes: Vec<String>,
    tone: Tone,
}

impl Reason {
    fn new(path: &str, text: impl Into<String>, tone: Tone) -> Self {
        Self {
            path: path.to_owned(),
            text: text.into(),
            commands: Vec::new(),
            notes: Vec::new(),
            tone,
        }
    }

    fn command(mut self, commands: impl IntoIterator<Item = String>) -> Self {
        self.commands.extend(commands);
        self
    }

    fn note(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    fn document(&self) -> Value {
        json!({"path": self.path, "why": self.text, "commands": self.commands, "notes": self.notes})
    }
}

impl Why {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let turns = shelf
            .store
            .load(&summary.run)
            .map_err(|error| wire::damaged(&shelf, &summary.run, error))?;
        let run = wire::replayed(&shelf, &summary.run, &turns)?;
        let state = shown_state(&shelf, &summary)?;
        let owned = is_owned(&shelf, &summary.run)?;
        let reasons = if run.is_final() {
            ended(context, &shelf, &run, &turns)?
        } else {
            live(&shelf, &run, &turns)?
        };
        if self.json.json {
            let listed: Vec<Value> = reasons.iter().map(Reason::document).collect();
            let waits: Vec<Value> = if run.is_final() {
                Vec::new()
            } else {
                let waits = run.waits_on();
                waits.iter().map(reading::wait).collect::<Result<_>>()?
            };
            let document = json!({"id": summary.run, "state": state, "owned": owned, "reasons": listed, "waits": waits});
            context.output.json(&document)?;
            return Ok(Exit::Succeeded);
        }
        let paint = context.output.paint;
        context.output.line(&format!(
            "{}  {state}  {}",
            paint.bold(&summary.flow),
            summary.run
        ))?;
        for reason in reasons {
            let path = if reason.path.is_empty() {
                String::new()
            } else {
                format!("{}: ", reason.path)
            };
            let bullet = paint.tone(
                reason.tone,
                if context.output.unicode() { "•" } else { "*" },
            );
            context
                .output
                .line(&format!("  {bullet} {}{}", paint.bold(&path), reason.text))?;
            for line in reason.commands.iter().chain(&reason.notes) {
                context.output.line(&format!("      {}", paint.dim(line)))?;
            }
        }
        Ok(Exit::Succeeded)
    }
}

fn live(shelf: &Shelf, run: &Run, turns: &[Turn]) -> Result<Vec<Reason>> {
    let now = units::now();
    let owner = shelf.store.live_owner(run.id()).map_err(store_error)?;
    let waiting = shelf.store.waiting(run.id()).map_err(store_error)?;
    let mut reasons = Vec::new();
    match &owner {
        None => reasons.push(unowned(run, &waiting)),
        Some(owner) => reasons.extend(silent(owner, run, &waiting, now)),
    }
    let queued = messages::waiting_answers(shelf, run.id())?;
    let mut open = run.questions();
    open.retain(|question| queued.iter().all(|(of, _)| *of != question.id));
    // What was asked for last, of the whole run or of a step.
    for cancel in past::cancels(turns) {
        let Some(node) = run.node(cancel.node).filter(|node| node.ended.is_none()) else {
            continue;
        };
        let asked = open.iter().any(|open| is_within(&open.path, &node.path));
        let then = match (asked, owner.is_some()) {
            (true, _) => "it parks until the open question is answered, and then goes on",
            (false, true) => "what is under way is being stopped, and what was done is compensated",
            (false, false) => "its process ended before it was done; a resume finishes it",
        };
        reasons.push(cancelling(&cancel, &node.path, then, now));
    }
    let overdue = messages::overdue(shelf, &run.summary(), &open)?;
    let late = (&*overdue, now);
    reasons.extend(waits::reasons(run, turns, owner.is_some(), &queued, late));
    Ok(reasons)
}

fn unowned(run: &Run, waiting: &[Posted]) -> Reason {
    let queued = if waiting.is_empty() {
        String::new()
    } else {
        format!("; {} for it", counted(waiting.len(), "message"))
    };
    let text = format!("no process works on the run{queued}");
    Reason::new("", text, Tone::Warn).command([format!("ravel runs resume {}", run.id())])
}

/// An owner that lives and does not do its work: one that is stopped, or does not take messages in.
fn silent(owner: &LiveOwner, run: &Run, waiting: &[Posted], now: u64) -> Option<Reason> {
    let pid = owner.pid;
    let stopped = wire::pulse(pid) == Pulse::Stopped;
    let oldest = waiting.iter().map(|posted| posted.at).min();
    let unread = oldest.map(|at| now.saturating_sub(at));
    if !stopped && unread.is_none_or(|unread| unread < messages::SILENCE_MIN_MS) {
        return None;
    }
    let word = if stopped { "is stopped" } else { "is silent" };
    let since = match unread {
        Some(unread) => format!(
            "{} for it, the oldest for {}",
            counted(waiting.len(), "message"),
            units::duration(unread)
        ),
        None => format!("its last turn was {}", units::relative(run.last_at(), now)),
    };
    let text = format!("process {pid} owns the run and lives, but {word}: {since}");
    let lines = wire::silence(owner);
    let lines = lines
        .lines()
        .map(|line| line.trim_start_matches("hint: ").to_owned());
    Some(Reason::new("", text, Tone::Bad).note(lines))
}

/// True for a step's own path and the paths of what is in it.
fn is_within(path: &str, outer: &str) -> bool {
    outer.is_empty()
        || path
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[', '~']))
}

fn cancelling(cancel: &past::Cancelled, path: &str, then: &str, now: u64) -> Reason {
    let what = if path.is_empty() {
        "the run"
    } else {
        "the step"
    };
    let who = cancel.who_and_when(now);
    Reason::new(
        path,
        format!("{what} is being cancelled, as asked{who}"),
        Tone::Warn,
    )
    .note([then.to_owned()])
}

fn ended(context: &Context, shelf: &Shelf, run: &Run, turns: &[Turn]) -> Result<Vec<Reason>> {
    let bundle = shelf.store.bundle(&run.graph().hash).map_err(store_error)?;
    let places = wire::with_places(&bundle, &context.config()?);
    let place = |path: &str| {
        let place = places.as_ref().and_then(|graph| place_of(graph, path))?;
        Some(format!("{}:{}:{}", place.file, place.line, place.column))
    };
    Ok(causes::reasons(run, turns, &place))
}
