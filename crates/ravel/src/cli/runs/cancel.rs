//! `ravel runs cancel`.

use std::sync::Arc;

use clap::Args;
use ravel_core::port::Summary;
use ravel_core::port_store::Message;
use serde_json::json;

use super::follow_here;
use super::list::is_owned;
use crate::cli::messages::{self, Sending, Sent};
use crate::cli::watch::WatchOptions;
use crate::cli::{Context, Json};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::wire::{self, Session, Shelf, store_error};

/// How often a run that nobody works on may slip away to another process before the cancel is left for whoever has it.
const TAKEOVERS_MAX: usize = 8;

/// Cancels a run, or one step of it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel runs cancel last\n  ravel runs cancel 0193 --step docs[3] --reason \"wrong file\"\n\n\
    What is under way is stopped and what was done is compensated. A run that no process works on is taken\n\
    over for that, or left to the process that takes it first. A run whose deadline passed while it was stopped ends by\n\
    that. One whose log is damaged cannot undo anything: it is marked as cancelled."
)]
pub(super) struct Cancel {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// Only this step, by path
    #[arg(long, value_name = "PATH")]
    step: Option<String>,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    sending: Sending,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    json: Json,
}

impl Cancel {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        if !summary.state.is_final()
            && !is_owned(&shelf, &summary.run)?
            && let Err(damage) = wire::folded(&shelf, &summary.run)
            && damage.exit() == Exit::Damaged
        {
            return self.give_up(context, &shelf, &summary.run, damage);
        }
        let what = match &self.step {
            Some(step) => format!("the cancel of {step}"),
            None => "the cancel".to_owned(),
        };
        let message = Message::Cancel {
            path: self.step.map(Arc::from),
            by: messages::sender(),
            reason: self.reason.map(Arc::from),
        };
        let mut sent = messages::send(&shelf, &summary, &message, self.sending)?;
        if let Sent::Known(why) = &sent
            && !is_owned(&shelf, &summary.run)?
        {
            context.output.talk(&format!("{why}; going on with that"));
        }
        let mut session = None;
        for _ in 0..TAKEOVERS_MAX {
            let known = matches!(sent, Sent::Known(_));
            if !matches!(sent, Sent::Queued(_)) && (!known || is_owned(&shelf, &summary.run)?) {
                break;
            }
            let session = match &session {
                Some(session) => session,
                None => session.insert(Session::start(shelf.clone(), &config)?),
            };
            let watch = (self.watch, self.json.json);
            if let Some(exit) = follow_here(context, session, &summary.run, watch)? {
                return ended(&shelf, &summary, exit);
            }
            // Another process was quicker: the cancel waits, and it is the one that takes it in.
            if let Sent::Queued(row) = sent {
                sent = messages::reply(&shelf, &summary, (&message, row), self.sending)?;
            }
        }
        sent.tell(context, self.json.json, &summary.run, &what)
    }

    /// Nothing can go on with a damaged run, not even to undo what it did.
    fn give_up(&self, context: &Context, shelf: &Shelf, run: &str, damage: Error) -> Result<Exit> {
        if self.step.is_some() {
            return Err(damage);
        }
        shelf.store.give_up(run).map_err(store_error)?;
        if self.json.json {
            let document = json!({"id": run, "state": "cancelled", "damage": damage.to_string()});
            context.output.json(&document)?;
        } else {
            context.output.talk(&format!("run {run} is cancelled"));
            context.output.talk(&format!(
                "{damage}: what it did stands, nothing was undone; `ravel runs gc` may remove it"
            ));
        }
        Ok(Exit::Succeeded)
    }
}

/// It was asked to be over, and it is, be it by a deadline that passed before: that is success for this command.
fn ended(shelf: &Shelf, summary: &Summary, exit: Exit) -> Result<Exit> {
    let state = wire::find_run(shelf, &summary.run)?.state;
    Ok(if state.is_final() {
        Exit::Succeeded
    } else {
        exit
    })
}
