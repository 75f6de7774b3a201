//! `ravel runs fork` and `ravel runs retry`: a new run on a prefix of another's log.

use std::sync::Arc;

use clap::Args;
use ravel_core::event::{Event, Node, Turn};
use ravel_core::port_store::{self, Log as _};

use super::follow;
use crate::cli::watch::WatchOptions;
use crate::cli::{Context, Json};
use crate::error::{Error, Result, nearest};
use crate::exit::Exit;
use crate::output::units;
use crate::view::why_skipped;
use crate::wire::{self, Session, Shelf, engine_error};

/// Starts a new run on the first turns of another
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ravel runs log last\n  ravel runs fork last --at 12\n\n\
    The new run has its own keys and questions. Effects of the prefix belong to the run it came from."
)]
pub(super) struct Fork {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
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
        if self.at == 0 {
            let message = "there is no turn 0: the first one, which starts the run, is 1";
            return Err(Error::usage(message).hint(format!(
                "`ravel run FLOW` starts anew; `ravel runs log {}` shows the turns",
                summary.run
            )));
        }
        let is_damaged = matches!(
            shelf.store.verify(&summary.run),
            Err(port_store::Error::Damaged { .. })
        );
        let session = Session::start(shelf, &config)?;
        let forked = session
            .engine
            .fork(&summary.run, self.at)
            .map_err(engine_error)?;
        if is_damaged {
            context.output.talk(&format!(
                "turns of {} are lost: steps that ran in them run again, and their effects may happen twice",
                summary.run
            ));
        }
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
    Steps that had settled when STEP became ready keep their values and do not run again. A question\n\
    is asked anew, a wait keeps its time, and a step that settles as soon as it is ready (`set`) keeps\n\
    its value: what follows it runs.")]
pub(super) struct Retry {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
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
        let Cut { turn, note } = cut(&shelf, &summary.run, &turns, &self.from)?;
        let session = Session::start(shelf, &config)?;
        let forked = session
            .engine
            .fork(&summary.run, turn)
            .map_err(engine_error)?;
        context.output.talk(&format!(
            "run {forked} runs {} of {} again",
            self.from, summary.run
        ));
        if let Some(note) = note {
            context.output.talk(&note);
        }
        follow(context, &session, &forked, self.watch, self.json.json)
    }
}

/// Where a retry cuts the log, and what has to be said about it.
#[derive(Debug, PartialEq)]
struct Cut {
    /// The last turn that is taken over.
    turn: u64,
    note: Option<String>,
}

/// The turn in which a step became ready. What settled in it stays settled; an attempt that began in it has not left yet
/// in the fork's world, and leaves there; so does a question.
fn cut(shelf: &Shelf, run: &str, turns: &[Turn], path: &str) -> Result<Cut> {
    let whole = wire::replayed(shelf, run, turns)?;
    let Some(step) = whole.nodes().find(|node| *node.path == *path) else {
        let paths: Vec<Arc<str>> = whole.nodes().map(|node| node.path).collect();
        let near = nearest(path, paths.iter().map(|path| &**path));
        return Err(
            Error::not_found(format!("no step `{path}` ran")).hint(near.map_or_else(
                || "`ravel runs show` lists the steps".to_owned(),
                |near| format!("did you mean `{near}`?"),
            )),
        );
    };
    let kind = step.kind;
    let Some(first) = first_of(turns, step.node) else {
        return Err(
            Error::refused(format!("step `{path}` was not ready yet")).hint(format!(
                "`ravel runs resume {run}` goes on with the run as it is"
            )),
        );
    };
    match first {
        First::Began(turn) => Ok(Cut { turn, note: None }),
        First::Waited(turn, until) => {
            let over = until.filter(|until| *until <= units::now());
            let note = over.map(|until| {
                format!(
                    "the time of {path} was over at {}: it ends at once, as it did there",
                    units::time(until)
                )
            });
            Ok(Cut { turn, note })
        }
        First::Settled(turn) => {
            if let Some(skip) = &step.skip {
                return Err(Error::refused(format!(
                    "step `{path}` was skipped, it never became ready: {}",
                    why_skipped(skip)
                ))
                .hint("retry from the step that this depends on"));
            }
            let upto = turns.iter().take_while(|one| one.turn <= turn).count();
            let before = wire::replayed(shelf, run, &turns[..upto])?;
            if step.state != "succeeded" || before.is_final() {
                return Err(Error::refused(format!(
                    "step `{path}` ({kind}) settled in the turn that made it ready (turn {turn}), and would do so \
                     again: nothing is left to run after it"
                ))
                .hint("retry from a step before it; a changed flow needs a new run"));
            }
            let note = format!(
                "{path} ({kind}) keeps its value, which the same input gives again; what comes after it runs"
            );
            Ok(Cut {
                turn,
                note: Some(note),
            })
        }
    }
}

/// The turn in which a step became ready, as the log tells it: where `runs retry --from` cuts.
pub(crate) fn first_turn(turns: &[Turn], step: Node) -> Option<u64> {
    first_of(turns, step).map(|first| match first {
        First::Began(turn) | First::Waited(turn, _) | First::Settled(turn) => turn,
    })
}

/// What a log tells first of a step.
enum First {
    /// It opened, or an attempt of it started.
    Began(u64),
    /// A wait or a question of it began, until a time.
    Waited(u64, Option<u64>),
    /// It settled at once.
    Settled(u64),
}

fn first_of(turns: &[Turn], step: Node) -> Option<First> {
    let mut events = turns
        .iter()
        .flat_map(|turn| turn.events.iter().map(|event| (turn.turn, event)));
    events.find_map(|(turn, event)| {
        if let Event::Opened { node, .. } | Event::AttemptStarted { node, .. } = event
            && *node == step
        {
            return Some(First::Began(turn));
        }
        if let Event::Asked { node, until, .. } | Event::WaitStarted { node, until, .. } = event
            && *node == step
        {
            return Some(First::Waited(turn, *until));
        }
        if let Event::Settled { node, .. } = event
            && *node == step
        {
            return Some(First::Settled(turn));
        }
        None
    })
}
