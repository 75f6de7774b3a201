//! `ravel runs migrate`: a run goes on under another version of its flow.

use std::sync::Arc;

use clap::Args;
use ravel_core::event::Input;
use ravel_core::port_store::{Log as _, Message};
use serde_json::json;

use super::follow;
use crate::cli::messages::{self, Sending, Sent};
use crate::cli::watch::WatchOptions;
use crate::cli::{Context, Json};
use crate::error::Result;
use crate::exit::Exit;
use crate::output::units;
use crate::wire::{self, Loaded, Session, folded, store_error};

/// Goes on with a run under a changed flow
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel runs migrate last flow.yaml --check\n  ravel runs migrate 0193 flow.yaml --note \"asks twice\"\n\n\
    A run keeps the flow that it was started with, whatever becomes of the file. This gives it another one: the whole\n\
    change is checked against what has run and taken in as one event of the log, or refused. Steps are the same when\n\
    they stand at the same place; one that has begun must be as it was. A run that no process works on is taken over."
)]
pub(super) struct Migrate {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// The flow file that it goes on under
    #[arg(value_name = "FLOW")]
    flow: String,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Only says whether the run would take it
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    sending: Sending,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    json: Json,
}

impl Migrate {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let loaded = Loaded::require(&self.flow, &config, &context.output)?;
        let mut copy = folded(&shelf, &summary.run)?;
        let base = copy.version();
        let note = json!({ "by": messages::sender(), "note": self.note });
        let input = Input::Edit {
            base,
            graph: Arc::clone(&loaded.graph),
            note: note.clone().into(),
        };
        copy.handle(units::now(), input)
            .map_err(|reject| messages::refused(reject.code, &reject.message))?;
        if self.check {
            if self.json.json {
                let report = json!({ "run": summary.run, "state": "fits", "version": base + 1 });
                context.output.json(&report)?;
            } else {
                context.output.talk(&format!(
                    "run {} can go on under {}, as version {} of its flow",
                    summary.run,
                    self.flow,
                    base + 1
                ));
            }
            return Ok(Exit::Succeeded);
        }

        let hash = Arc::clone(&loaded.graph.hash);
        shelf
            .store
            .put_bundle(&hash, &loaded.bundle)
            .map_err(store_error)?;
        let message = Message::Edit {
            base,
            graph: hash,
            note: note.into(),
        };
        let sent = messages::send(&shelf, &summary, &message, self.sending)?;
        if !matches!(sent, Sent::Queued(_)) {
            return sent.tell(context, self.json.json, &summary.run, "the changed flow");
        }
        let session = Session::start(shelf, &config)?;
        follow(context, &session, &summary.run, self.watch, self.json.json)
    }
}
