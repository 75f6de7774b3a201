//! `ravel runs resume`.

use clap::Args;

use super::follow;
use crate::cli::watch::WatchOptions;
use crate::cli::{Context, Json};
use crate::error::Result;
use crate::exit::Exit;
use crate::wire::{self, Session};

/// Goes on with a paused or crashed run
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ravel runs resume last\n\n\
    Settled steps never run again. What was under way is repeated where that is safe; a `once` that may\n\
    have happened asks first.")]
pub(super) struct Resume {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    json: Json,
}

impl Resume {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        if summary.state.is_final() {
            return super::over(context, &summary, self.json.json);
        }
        let session = Session::start(shelf, &config)?;
        follow(context, &session, &summary.run, self.watch, self.json.json)
    }
}
