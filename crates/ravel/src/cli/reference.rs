//! `ravel reference`: the pages of `docs/reference`, made from this program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use ravel_core::effect::ErrorClass;
use ravel_core::lang::reference as language;

use super::Context;
use crate::config::keys::KEYS;
use crate::error::{Error, Result};
use crate::exit::Exit;

/// Writes the generated pages of the reference, or checks them
#[derive(Debug, Args)]
pub(super) struct Reference {
    /// Writes the pages into this folder
    #[arg(long, value_name = "FOLDER", required_unless_present = "check")]
    write: Option<PathBuf>,
    /// Compares the pages in this folder with what would be written
    #[arg(long, value_name = "FOLDER", conflicts_with = "write")]
    check: Option<PathBuf>,
}

/// A page: its file and who makes it.
type Page = (&'static str, fn() -> String);

/// Every page.
const PAGES: &[Page] = &[
    ("cli.md", cli),
    ("config.md", config),
    ("language.md", language::language),
    ("errors.md", language::errors),
    ("error-classes.md", classes),
    ("limits.md", limits),
    ("tools.md", ravel_io::tool::reference),
];

impl Reference {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        if let Some(folder) = &self.write {
            std::fs::create_dir_all(folder).map_err(|error| {
                Error::trouble(format!("cannot make {}", folder.display())).because(error)
            })?;
            for (file, make) in PAGES {
                let path = folder.join(file);
                std::fs::write(&path, make()).map_err(|error| {
                    Error::trouble(format!("cannot write {}", path.display())).because(error)
                })?;
                context.output.talk(&format!("wrote {}", path.display()));
            }
        }
        let old: Vec<&str> = self
            .check
            .iter()
            .flat_map(|folder| old_pages(folder))
            .collect();
        if old.is_empty() {
            return Ok(Exit::Succeeded);
        }
        Err(Error::new(
            Exit::Failed,
            format!("generated pages are not up to date: {}", old.join(", ")),
        )
        .hint("`just gen` writes them"))
    }
}

fn old_pages(folder: &Path) -> Vec<&'static str> {
    let is_old = |file: &str, make: fn() -> String| {
        std::fs::read_to_string(folder.join(file)).ok() != Some(make())
    };
    PAGES
        .iter()
        .filter(|(file, make)| is_old(file, *make))
        .map(|(file, _)| *file)
        .collect()
}

const NOTE: &str = "<!-- Made by `just gen`; do not edit. -->";

fn classes() -> String {
    let mut text = format!(
        "# Error classes\n\n{NOTE}\n\nWhat `catch`, `retry.errors` and `error.class` speak of.\n\n"
    );
    text.push_str("| class | meaning | what to do | tried again by default |\n|---|---|---|---|\n");
    for class in ErrorClass::ALL {
        let (what, then) = super::explain::about(class);
        let again = if class.is_transient() { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| `{class}` | {} | {} | {again} |",
            cell(what),
            cell(then)
        );
    }
    text
}

fn limits() -> String {
    let mut text = format!("# Limits\n\n{NOTE}\n\n");
    text.push_str("`ravel limits` prints them with the values in force. The key goes into `ravel.toml`, `--config` or a\n");
    text.push_str("`RAVEL_CONFIG__…` variable; a limit whose name has no dot is fixed, or a default that a step changes.\n\n| limit | default | unit | what it bounds |\n|---|---|---|---|\n");
    for row in super::limits::defaults() {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            row.key.as_deref().unwrap_or(&row.name),
            row.default,
            row.unit,
            cell(&row.doc)
        );
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn cli() -> String {
    let mut text = format!("# Command line\n\n{NOTE}\n\n");
    let mut root = super::command();
    root.build();
    let _ = writeln!(
        text,
        "{}\n",
        root.get_about()
            .map(ToString::to_string)
            .unwrap_or_default()
    );
    text.push_str("Data goes to stdout, talk to stderr. `--json` on every command that reads. A run is named by its id, a\n");
    text.push_str("unique beginning or end of it, or `last`.\n\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "| {} | {} |", exit.code(), exit.meaning());
    }
    text.push_str(JSON);
    text.push_str("\n## Environment\n\n| variable | meaning |\n|---|---|\n");
    for (name, meaning) in VARIABLES {
        let _ = writeln!(text, "| `{name}` | {meaning} |");
    }
    text.push_str("\n## Global options\n\n");
    options(&mut text, &root, true);
    for command in root
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        section(&mut text, command, "ravel", 2);
    }
    text
}

/// What holds for every JSON document that a command prints.
const JSON: &str = "
## JSON

`--json` prints one document. `run`, `runs resume`, `runs retry`, `runs fork`, `runs migrate` and `runs cancel`, which
watch a run, print JSON lines: an event each, and the run's result last. `runs log` prints the events alone.

* A point in time is text: RFC 3339 in UTC with milliseconds, `2026-11-30T15:47:23.120Z`. A span is a number of seconds
  and its key ends in `seconds`.
* `at` is when something happened. `until` is when an attempt, a question or a wait ends by itself, `due` when a step is
  tried again, `wake_at` when a run has to be looked at next. `created`, `updated`, `asked`, `began`, `ended` say what
  they are times of.
* `indexes` are positions in a list of items. A value that stands elsewhere in the log is a `ref`: the `node` and `slot`
  that have it, and the keys that lead `into` it.
* `cost` is in dollars. `path` is a step, empty for the flow itself.
* In `runs why`, `commands` can be run as they stand, one a string; `notes` are for people.
* Values are whole. `runs show` and `runs diff` cut them only where people read them (`--value-chars`).

`runs export` is the exception: it holds the log as the store keeps it, where times are epoch milliseconds.
";

const VARIABLES: &[(&str, &str)] = &[
    ("RAVEL_STORE", "The database, as `--store`."),
    (
        "RAVEL_CONFIG__SECTION__KEY",
        "A key of the configuration: `RAVEL_CONFIG__MODELS__FAST=local/qwen`.",
    ),
    (
        "RAVEL_MODEL_URL",
        "An OpenAI-compatible endpoint: every model name that is no alias is called there.",
    ),
    ("RAVEL_MODEL", "The model's name at that endpoint."),
    ("RAVEL_MODEL_KEY", "That endpoint's key."),
    (
        "RAVEL_MODEL_PRICE",
        "That model's price in dollars per million tokens, for budgets in dollars: `0`, or `0.15/0.60`.",
    ),
    ("RAVEL_SECRET_NAME", "The secret `secrets.name`."),
    (
        "RAVEL_LOG",
        "What the program logs about itself: `info`, `ravel_engine=debug`.",
    ),
    ("RAVEL_LOG_FORMAT", "`json` logs one JSON object a line."),
    (
        "NO_COLOR",
        "No colours. `CLICOLOR_FORCE=1`: colours also into pipes.",
    ),
];

fn section(text: &mut String, command: &Command, parent: &str, depth: usize) {
    let name = format!("{parent} {}", command.get_name());
    let _ = writeln!(text, "\n{} `{name}`\n", "#".repeat(depth));
    let _ = writeln!(
        text,
        "{}.\n",
        command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default()
    );
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = writeln!(text, "```text\n{usage}\n```\n");
    options(text, command, false);
    if let Some(help) = command.get_after_help() {
        let _ = writeln!(text, "\n```text\n{help}\n```");
    }
    for sub in command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
    {
        section(text, sub, &name, depth + 1);
    }
}

/// `: one of `a`, `b`; default `a`` for an argument that takes one of a few words.
fn possible_values(argument: &clap::Arg) -> String {
    let is_flag = !argument.get_action().takes_values();
    let words: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if is_flag || words.is_empty() {
        return String::new();
    }
    let default = argument
        .get_default_values()
        .first()
        .map(|default| format!("; default `{}`", default.display()));
    format!(
        ": one of {}{}",
        words.join(", "),
        default.unwrap_or_default()
    )
}

fn options(text: &mut String, command: &Command, global: bool) {
    let arguments = command.get_arguments().filter(|argument| {
        argument.is_global_set() == global
            && !argument.is_hide_set()
            && !matches!(argument.get_id().as_str(), "help" | "version")
    });
    let rows: Vec<String> = arguments
        .map(|argument| {
            let value = argument
                .get_value_names()
                .filter(|_| argument.get_action().takes_values())
                .map(|names| {
                    names
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(" ")
                })
                .unwrap_or_default();
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            let names: Vec<String> = short.into_iter().chain(long).collect();
            let shown = if names.is_empty() {
                value.clone()
            } else {
                format!("{} {value}", names.join(", "))
            };
            let help = argument
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let help = cell(&(help + &possible_values(argument)));
            format!("| `{}` | {help} |", shown.trim().replace('|', "\\|"))
        })
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(
            text,
            "| argument | meaning |\n|---|---|\n{}",
            rows.join("\n")
        );
    }
}

fn config() -> String {
    let mut text = format!("# ravel.toml\n\n{NOTE}\n\n");
    text.push_str("Read from `~/.config/ravel/ravel.toml`, then from the project (the nearest folder upwards with a\n");
    text.push_str("`ravel.toml` or a `.ravel`), then `RAVEL_CONFIG__…` variables, then `--config`; the later wins, key by key.\n");
    text.push_str("`ravel config` shows what is in force and where each value comes from. A key that is not listed here is an\nerror.\n\n");
    text.push_str("| key | type | meaning |\n|---|---|---|\n");
    for key in KEYS {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            key.pattern,
            key.shape.name(),
            cell(key.doc)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_that_takes_one_of_a_few_words_lists_them() {
        fn walk(command: &Command, missing: &mut Vec<String>) {
            let mut page = String::new();
            options(&mut page, command, true);
            options(&mut page, command, false);
            for argument in command.get_arguments().filter(|one| !one.is_hide_set()) {
                let words = argument.get_possible_values();
                let takes = argument.get_action().takes_values();
                if takes
                    && words
                        .iter()
                        .any(|word| !page.contains(&format!("`{}`", word.get_name())))
                {
                    missing.push(format!("{} {}", command.get_name(), argument.get_id()));
                }
            }
            for sub in command.get_subcommands() {
                walk(sub, missing);
            }
        }
        let mut root = super::super::command();
        root.build();
        let mut missing = Vec::new();
        walk(&root, &mut missing);
        assert_eq!(missing, Vec::<String>::new());
        let color = cli()
            .lines()
            .find(|line| line.contains("--color"))
            .map(str::to_owned);
        assert_eq!(
            color.as_deref(),
            Some(
                "| `--color WHEN` | When to use colours: one of `auto`, `always`, `never`; default `auto` |"
            )
        );
    }
}
