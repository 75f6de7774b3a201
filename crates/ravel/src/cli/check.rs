//! `ravel check`: every problem of a flow, with its place and what to do.

use clap::Args;
use ravel_core::lang::{self, Diagnostic};
use serde_json::json;

use super::{Context, Json};
use crate::config::counted;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::Tone;
use crate::wire;

/// Checks flows and reports every problem
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel check triage.yaml\n  ravel check flows/*.yaml --json\n\n\
    Exit code 2 when there is an error. `ravel explain CODE` says more about one."
)]
pub(super) struct Check {
    /// The flow files
    #[arg(required = true, value_name = "FLOW")]
    files: Vec<String>,
    /// Warnings are errors
    #[arg(long)]
    deny_warnings: bool,
    #[command(flatten)]
    json: Json,
}

impl Check {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let mut found: Vec<Diagnostic> = Vec::new();
        let mut steps = 0;
        for file in &self.files {
            match wire::load(file, &config)? {
                Ok(loaded) => {
                    steps += loaded.graph.steps.len();
                    add(&mut found, loaded.warnings);
                }
                Err(problems) => add(&mut found, problems),
            }
        }
        let (errors, warnings) = lang::count(&found);
        let fine = errors == 0 && !(self.deny_warnings && warnings > 0);
        if self.json.json {
            context.output.json(
                &json!({"ok": fine, "errors": errors, "warnings": warnings, "diagnostics": found}),
            )?;
        } else {
            self.talk(context, &found, (errors, warnings, steps));
        }
        Ok(if fine { Exit::Succeeded } else { Exit::Usage })
    }

    fn talk(
        &self,
        context: &Context,
        found: &[Diagnostic],
        (errors, warnings, steps): (usize, usize, usize),
    ) {
        let paint = context.output.paint_talk;
        for problem in found {
            context
                .output
                .shout(problem.render(paint.is_on()).trim_end());
            context.output.shout("");
        }
        let files = counted(self.files.len(), "flow");
        if errors == 0 && warnings == 0 {
            context.output.talk(&format!(
                "{} {files}, {}",
                paint.tone(Tone::Good, "ok:"),
                counted(steps, "step")
            ));
            return;
        }
        context.output.shout(&format!(
            "{files}: {}, {}",
            counted(errors, "error"),
            counted(warnings, "warning")
        ));
        if let Some(first) = found.first() {
            let hint = paint.tone(Tone::Note, "hint:");
            context.output.shout(&format!(
                "{hint} `ravel explain {}` says what, why and how to fix",
                first.code
            ));
        }
    }
}

/// Adds what was not found before: flows that several files call are checked with each.
fn add(found: &mut Vec<Diagnostic>, more: Vec<Diagnostic>) {
    for problem in more {
        if !found.contains(&problem) {
            found.push(problem);
        }
    }
}

/// A missing flow file is the most common mistake of all: say which one is meant.
pub(super) fn require_file(path: &str) -> Result<()> {
    if std::path::Path::new(path).exists() {
        return Ok(());
    }
    let near = wire::near_files(path);
    Err(
        Error::usage(format!("there is no file {path}")).hint(near.map_or_else(
            || "`ravel init` writes a flow to start with".to_owned(),
            |near| format!("did you mean {near}?"),
        )),
    )
}
