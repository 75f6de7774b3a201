//! `ravel runs why`: what a run waits for and how to end it, or why it ended as it did.

mod causes;
mod waits;

use clap::Args;
use ravel_core::event::Wait;
use ravel_core::port_store::{Inbox as _, Log as _};
use ravel_core::run::Run;
use serde_json::{Value, json};

use super::list::is_owned;
use crate::cli::{Context, Json};
use crate::config::counted;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{Tone, units};
use crate::view::place_of;
use crate::wire::{self, Shelf, folded, shown_state, store_error};

pub(crate) use waits::shown;

/// Says what a run waits for, or why it ended as it did
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ravel runs why last")]
pub(super) struct Why {
    /// The run: its id, a unique beginning or end of it, or `last`
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
    /// What ends it, or where to look: commands and words, a line each.
    next: Vec<String>,
    tone: Tone,
}

impl Reason {
    fn new(path: &str, text: impl Into<String>, tone: Tone) -> Self {
        Self {
            path: path.to_owned(),
            text: text.into(),
            next: Vec::new(),
            tone,
        }
    }

    fn next(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.next.extend(lines);
        self
    }
}

impl Why {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let run = folded(&shelf, &summary.run)?;
        let state = shown_state(&shelf, &summary)?;
        let owned = is_owned(&shelf, &summary.run)?;
        let reasons = if run.is_final() {
            ended(context, &shelf, &run)?
        } else {
            live(&shelf, &run, owned)?
        };
        if self.json.json {
            let listed: Vec<Value> = reasons
                .iter()
                .map(|reason| json!({"path": reason.path, "why": reason.text, "next": reason.next}))
                .collect();
            let waits: Vec<Wait> = if run.is_final() {
                Vec::new()
            } else {
                run.waits_on()
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
            for next in reason.next {
                context
                    .output
                    .line(&format!("      {}", paint.dim(&next)))?;
            }
        }
        Ok(Exit::Succeeded)
    }
}

fn live(shelf: &Shelf, run: &Run, owned: bool) -> Result<Vec<Reason>> {
    let mut reasons = Vec::new();
    if !owned {
        let waiting = shelf.store.waiting(run.id()).map_err(store_error)?.len();
        let queued = if waiting > 0 {
            format!("; {} for it", counted(waiting, "message"))
        } else {
            String::new()
        };
        let text = format!("no process works on the run{queued}");
        reasons.push(
            Reason::new("", text, Tone::Warn).next([format!("ravel runs resume {}", run.id())]),
        );
    }
    reasons.extend(waits::reasons(run, owned, units::now()));
    Ok(reasons)
}

fn ended(context: &Context, shelf: &Shelf, run: &Run) -> Result<Vec<Reason>> {
    let bundle = shelf.store.bundle(&run.graph().hash).map_err(store_error)?;
    let places = wire::with_places(&bundle, &context.config()?);
    let turns = shelf.store.load(run.id()).map_err(store_error)?;
    let place = |path: &str| {
        let place = places.as_ref().and_then(|graph| place_of(graph, path))?;
        Some(format!("{}:{}:{}", place.file, place.line, place.column))
    };
    Ok(causes::reasons(run, &turns, &place))
}
