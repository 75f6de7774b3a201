//! `ravel runs cancel`.

use std::sync::Arc;

use clap::Args;
use ravel_core::port_store::Message;

use super::follow;
use super::list::is_owned;
use crate::cli::messages::{self, Sending, Sent};
use crate::cli::watch::WatchOptions;
use crate::cli::{Context, Json};
use crate::error::Result;
use crate::exit::Exit;
use crate::wire::{self, Session};

/// Cancels a run, or one step of it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel runs cancel last\n  ravel runs cancel 0193 --step docs[3] --reason \"wrong file\"\n\n\
    What is under way is stopped and what was done is compensated. A run that no process works on is taken\n\
    over for that."
)]
pub(super) struct Cancel {
    /// The run: its id, a unique beginning or end of it, or `last`
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
        let what = match &self.step {
            Some(step) => format!("the cancel of {step}"),
            None => "the cancel".to_owned(),
        };
        let message = Message::Cancel {
            path: self.step.map(Arc::from),
            by: messages::sender(),
            reason: self.reason.map(Arc::from),
        };
        let sent = messages::send(&shelf, &summary, &message, self.sending)?;
        let here = match &sent {
            Sent::Queued => true,
            Sent::Known(why) if !is_owned(&shelf, &summary.run)? => {
                context.output.talk(&format!("{why}; going on with that"));
                true
            }
            Sent::Known(_) | Sent::Accepted { .. } | Sent::Silent(..) | Sent::Refused(_) => false,
        };
        if !here {
            return sent.tell(context, self.json.json, &summary.run, &what);
        }

        let session = Session::start(shelf, &config)?;
        let exit = follow(context, &session, &summary.run, self.watch, self.json.json)?;
        // It was asked to be cancelled and it is: that is success for this command.
        Ok(if exit == Exit::Cancelled {
            Exit::Succeeded
        } else {
            exit
        })
    }
}
