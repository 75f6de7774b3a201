//! `ravel doctor`: what works on this machine.

mod checks;
mod repair;

use clap::Args;
use serde_json::json;

use self::checks::{Finding, Verdict};
use super::{Context, Json};
use crate::error::Result;
use crate::exit::Exit;
use crate::output::Tone;

/// Says what works on this machine, and what to do about the rest
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel doctor\n  ravel doctor --json --offline\n  ravel doctor --repair\n\n\
    Exit code 1 when something that is needed does not work.\n\n\
    --repair keeps what proves itself: of each run the turns up to the first loss. The damaged files\n\
    stay as they were, in a folder beside the store. A run of which turns are lost does not go on by\n\
    itself, because their effects may have happened: `ravel runs fork` or `ravel runs cancel` decides.\n\
    Exit code 8 when something is lost."
)]
pub(super) struct Doctor {
    /// Does not connect to model endpoints
    #[arg(long)]
    offline: bool,
    /// Makes a damaged store usable, and says what is lost
    #[arg(long, conflicts_with = "offline")]
    repair: bool,
    #[command(flatten)]
    json: Json,
}

impl Doctor {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        if self.repair {
            return repair::run(context, self.json);
        }
        let findings = checks::all(context, self.offline);
        let failed = findings
            .iter()
            .any(|finding| finding.verdict == Verdict::Fail);
        if self.json.json {
            context
                .output
                .json(&json!({"ok": !failed, "checks": findings}))?;
        } else {
            for finding in &findings {
                context.output.data(&line(finding, context))?;
            }
        }
        Ok(if failed {
            Exit::Failed
        } else {
            Exit::Succeeded
        })
    }
}

fn line(finding: &Finding, context: &Context) -> String {
    let paint = context.output.paint;
    let (glyph, tone) = match finding.verdict {
        Verdict::Ok => ("ok  ", Tone::Good),
        Verdict::Warn => ("warn", Tone::Warn),
        Verdict::Fail => ("FAIL", Tone::Bad),
    };
    let hint = finding
        .hint
        .as_ref()
        .map(|hint| format!("      {} {hint}\n", paint.tone(Tone::Note, "hint:")));
    format!(
        "{}  {}  {}\n{}",
        paint.tone(tone, glyph),
        paint.bold(&finding.name),
        finding.found,
        hint.unwrap_or_default()
    )
}
