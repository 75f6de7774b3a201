//! `ravel runs fork` and `ravel runs retry`: a new run on a prefix of another's log.

use clap::Args;
use ravel_core::event::{Event, Turn};
use ravel_core::port_store::Log as _;

use super::follow;
use crate::cli::watch::WatchOptions;
use crate::cli::{Context, Json};
use crate::error::{Error, Result, nearest};
use crate::exit::Exit;
use crate::wire::{self, Session, engine_error};

/// Starts a new run on the first turns of another
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ravel runs log last\n  ravel runs fork last --at 12\n\n\
    The new run has its own keys and questions. Effects of the prefix belong to the run it came from."
)]
pub(super) struct Fork {
    /// The run: its id, a unique beginning or end of it, or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// The last turn that is taken over
    #[arg(long, value_name = "TURN")]
    at: u64,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    json: Json,
}

impl Fork {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let session = Session::start(shelf, &config)?;
        let forked = session
            .engine
            .fork(&summary.run, self.at)
            .map_err(engine_error)?;
        context.output.talk(&format!(
            "run {forked} goes on from turn {} of {}",
            self.at, summary.run
        ));
        follow(context, &session, &forked, self.watch, self.json.json)
    }
}

/// Runs a step and what follows it again, as a new run
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ravel runs retry last --from publish\n\n\
    Steps that had settled when STEP became ready keep their values and do not run again.")]
pub(super) struct Retry {
    /// The run: its id, a unique beginning or end of it, or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// Path of the step
    #[arg(long, value_name = "STEP")]
    from: String,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    json: Json,
}

impl Retry {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let turns = shelf
            .store
            .load(&summary.run)
            .map_err(|error| wire::damaged(&shelf, &summary.run, error))?;
        let turn = turn_of(&turns, &self.from)?;
        let session = Session::start(shelf, &config)?;
        let forked = session
            .engine
            .fork(&summary.run, turn)
            .map_err(engine_error)?;
        context.output.talk(&format!(
            "run {forked} runs {} of {} again",
            self.from, summary.run
        ));
        follow(context, &session, &forked, self.watch, self.json.json)
    }
}

/// The turn in which a step became ready. What settled in it stays settled; an attempt that began in it has not left yet
/// in the fork's world, and leaves there.
fn turn_of(turns: &[Turn], path: &str) -> Result<u64> {
    let mut known: Vec<&str> = Vec::new();
    for turn in turns {
        for event in &turn.events {
            if let Event::Opened { path: opened, .. } | Event::AttemptStarted { path: opened, .. } =
                event
            {
                if **opened == *path {
                    return Ok(turn.turn);
                }
                known.push(opened);
            }
        }
    }
    let near = nearest(path, known.iter().copied());
    Err(
        Error::not_found(format!("no step `{path}` ran")).hint(near.map_or_else(
            || "`ravel runs show` lists the steps".to_owned(),
            |near| format!("did you mean `{near}`?"),
        )),
    )
}
