//! The command line: one file a command, one line here that registers it.

mod answer;
mod check;
mod completions;
mod config;
mod conformance;
mod doctor;
mod explain;
mod graph;
mod init;
mod limits;
mod messages;
mod reading;
mod reference;
mod replay;
mod run;
mod runs;
mod schema;
mod signal;
mod watch;

#[cfg(test)]
pub(crate) use conformance::report as conformance_report;
pub(crate) use messages::past;
pub(crate) use runs::first_turn;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::config::{Config, Overrides, World};
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{ColorChoice, Output};
use crate::wire;

/// Runs durable workflows: checked before they run, resumed after any crash, answerable from any terminal.
#[derive(Debug, Parser)]
#[command(
    name = "ravel",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "Start with `ravel init`, then `ravel run hello.yaml`.\nExit codes: 0 done, 1 the run failed, \
    2 usage or check errors, 3 cancelled, 4 paused (resumable), 5 store or engine trouble,\n6 not found, 7 refused by \
    the run, 8 stored data is damaged."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// The database to work on [default: .ravel/ravel.db of the project or of this folder]
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "RAVEL_STORE",
        hide_env_values = true
    )]
    store: Option<PathBuf>,
    /// Sets a key of the configuration for this command
    #[arg(long = "config", global = true, value_name = "KEY=VALUE")]
    assignments: Vec<String>,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: ColorChoice,
    /// Says only what has to be said
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// `--json`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Json {
    /// Prints JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Init),
    Check(check::Check),
    Run(run::Run),
    Runs(runs::Runs),
    Answer(answer::Answer),
    Signal(signal::Signal),
    Replay(replay::Replay),
    Graph(graph::Graph),
    Explain(explain::Explain),
    Schema(schema::Schema),
    Limits(limits::Limits),
    Doctor(doctor::Doctor),
    Conformance(conformance::Conformance),
    Config(config::Show),
    Completions(completions::Completions),
    #[command(hide = true)]
    Reference(reference::Reference),
}

/// What every command gets.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) world: World,
    overrides: Overrides,
}

impl Context {
    /// The merged configuration; a mistake in it is an error with a position.
    pub(crate) fn config(&self) -> Result<Config> {
        Config::load(&self.world, &self.overrides, self.output.paint_talk.is_on())
    }
}

/// Parses the arguments, runs the command, prints its error: the whole process but `fn main`.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Succeeded
            }
            .into();
        }
    };
    wire::survive_file_limits();
    let output = Output::new(cli.global.color, cli.global.quiet);
    crate::logging::init(output.paint_talk.is_on());
    match run(cli, &output) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output.error(&error);
            error.exit().into()
        }
    }
}

fn run(cli: Cli, output: &Output) -> Result<Exit> {
    let Global {
        store, assignments, ..
    } = cli.global;
    let context = Context {
        output: output.clone(),
        world: World::of_process()?,
        overrides: Overrides { store, assignments },
    };
    match cli.command {
        Command::Init(command) => command.run(&context),
        Command::Check(command) => command.run(&context),
        Command::Run(command) => command.run(&context),
        Command::Runs(command) => command.run(&context),
        Command::Answer(command) => command.run(&context),
        Command::Signal(command) => command.run(&context),
        Command::Replay(command) => command.run(&context),
        Command::Graph(command) => command.run(&context),
        Command::Explain(command) => command.run(&context),
        Command::Schema(command) => command.run(&context),
        Command::Limits(command) => command.run(&context),
        Command::Doctor(command) => command.run(&context),
        Command::Conformance(command) => command.run(&context),
        Command::Config(command) => command.run(&context),
        Command::Completions(command) => command.run(&context),
        Command::Reference(command) => command.run(&context),
    }
}

/// The whole command tree, for completions and the reference.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_tree_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        fn walk(command: &clap::Command, missing: &mut Vec<String>) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let help = sub
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                if !help.contains("Example") && sub.get_name() != "help" {
                    missing.push(sub.get_name().to_owned());
                }
                walk(sub, missing);
            }
        }
        let mut missing = Vec::new();
        walk(&command(), &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }
}
