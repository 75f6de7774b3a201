//! `ravel runs`: what is in the store, and what can be done with it.

mod cancel;
mod diff;
mod export;
mod fork;
mod gc;
mod list;
mod log;
mod migrate;
mod resume;
mod show;
mod why;

pub(crate) use fork::first_turn;
pub(super) use list::is_owned;
pub(super) use show::took_in_words;
pub(super) use why::shown as shown_question;

use std::sync::Arc;

use clap::{Args, Subcommand};
use ravel_core::port_store::Log as _;
use ravel_engine::EngineError;

use super::Context;
use super::watch::{Watch, WatchOptions, exit_of, print_value, result};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::wire::{self, Session, Shelf};

/// Lists runs, shows them, and goes on with them
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel runs\n  ravel runs show last\n  ravel runs why 0193\n\n\
    A run is named by its id, a unique beginning or end of it (3 characters or more), or `last`.",
    args_conflicts_with_subcommands = true
)]
pub(super) struct Runs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: list::List,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Show(show::Show),
    Log(log::Log),
    Why(why::Why),
    Cancel(cancel::Cancel),
    Resume(resume::Resume),
    Retry(fork::Retry),
    Fork(fork::Fork),
    Migrate(migrate::Migrate),
    Diff(diff::Diff),
    Export(export::Export),
    Gc(gc::Gc),
}

impl Runs {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        match self.command {
            None => self.list.run(context),
            Some(Command::List(command)) => command.run(context),
            Some(Command::Show(command)) => command.run(context),
            Some(Command::Log(command)) => command.run(context),
            Some(Command::Why(command)) => command.run(context),
            Some(Command::Cancel(command)) => command.run(context),
            Some(Command::Resume(command)) => command.run(context),
            Some(Command::Retry(command)) => command.run(context),
            Some(Command::Fork(command)) => command.run(context),
            Some(Command::Migrate(command)) => command.run(context),
            Some(Command::Diff(command)) => command.run(context),
            Some(Command::Export(command)) => command.run(context),
            Some(Command::Gc(command)) => command.run(context),
        }
    }
}

/// The store of a command that names a run: it must be there.
pub(super) fn shelf(context: &Context) -> Result<Shelf> {
    let config = context.config()?;
    wire::open_existing(&config)?.ok_or_else(|| {
        Error::not_found(format!(
            "there is no store at {}",
            config.store_path().display()
        ))
        .hint("`ravel run FLOW` makes one; --store names another")
    })
}

/// Goes on with a run that is in the store, here, and watches it to its end.
pub(super) fn follow(
    context: &Context,
    session: &Session,
    run: &Arc<str>,
    options: WatchOptions,
    as_json: bool,
) -> Result<Exit> {
    let held = |owner: &Shelf| match owner.store.live_owner(run) {
        Ok(owner) => wire::held(run, owner.as_ref()),
        Err(error) => wire::store_error(error),
    };
    let exit = follow_here(context, session, run, (options, as_json))?;
    exit.ok_or_else(|| held(&session.shelf))
}

/// The same; nothing when another process works on the run.
pub(super) fn follow_here(
    context: &Context,
    session: &Session,
    run: &Arc<str>,
    (options, as_json): (WatchOptions, bool),
) -> Result<Option<Exit>> {
    let summary = wire::find_run(&session.shelf, run)?;
    if summary.state.is_final() {
        return over(context, &summary, as_json).map(Some);
    }
    let graph = session
        .shelf
        .graphs
        .get(&summary.graph)
        .map_err(|message| {
            Error::new(Exit::Damaged, format!("the flow of run {run} is not there")).hint(message)
        })?;
    let mut watch = Watch::new(context, session, run, graph, options, as_json)?;
    let turns = session
        .shelf
        .store
        .load(run)
        .map_err(|error| wire::damaged(&session.shelf, run, error))?;
    watch.catch_up(&turns)?;
    match session.engine.resume(run) {
        Ok(_) => watch.watch().map(Some),
        Err(EngineError::Held { .. }) => Ok(None),
        Err(error) => Err(wire::engine_error(error)),
    }
}

/// A run that is over already: its result again.
pub(super) fn over(
    context: &Context,
    summary: &ravel_core::port::Summary,
    as_json: bool,
) -> Result<Exit> {
    if as_json {
        context.output.json_line(&result(summary))?;
    } else {
        context.output.talk(&format!(
            "run {} is {} already",
            summary.run,
            summary.state.name()
        ));
        if let Some(output) = &summary.output {
            print_value(&context.output, output.json())?;
        }
    }
    Ok(exit_of(summary))
}
