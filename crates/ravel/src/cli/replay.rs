//! `ravel replay`: does the stored log still say what was written?

use clap::Args;
use ravel_core::port_store::Log as _;
use serde_json::{Value, json};

use super::{Context, Json};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::{Tone, units};
use crate::wire::{self, folded, store_error};

/// What no check of a log alone can see.
const UNSEEN: &str = "a tail that was cut off whole and consistently: compare with an exported head (--head) to see that";

/// Folds a run's log again and verifies its hash chain and state
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel replay last\n  ravel replay 0193 --head 5f3c…\n\nExit code 8 when something does not fit."
)]
pub(super) struct Replay {
    /// The run: its id, a unique beginning or end of it, or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// The head that `ravel runs export` or an earlier replay gave; a run may have grown since
    #[arg(long, value_name = "HASH")]
    head: Option<String>,
    #[command(flatten)]
    json: Json,
}

impl Replay {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let shelf = super::runs::shelf(context)?;
        let listed = wire::find_run(&shelf, &self.run)?;
        let chain = shelf.store.verify(&listed.run).map_err(store_error)?;
        let run = folded(&shelf, &listed.run)?;
        let mut differences = differences(&listed, &run.summary());
        if run.last_turn() != chain.turns {
            differences.push(format!(
                "the chain has {} turns, the fold {}",
                chain.turns,
                run.last_turn()
            ));
        }
        if let Some(head) = self
            .head
            .as_ref()
            .filter(|head| !chain.head.starts_with(head.as_str()))
        {
            let grown = if run.is_final() {
                ""
            } else {
                ", unless the run has grown since"
            };
            differences.push(format!("the head is not {head}{grown}"));
        }
        let fits = differences.is_empty();
        if self.json.json {
            context.output.json(&json!({
                "id": listed.run,
                "ok": fits,
                "turns": chain.turns,
                "bytes": chain.bytes,
                "head": chain.head,
                "differences": differences,
                "cannot_see": if self.head.is_some() { Value::Null } else { json!(UNSEEN) },
            }))?;
        } else {
            let paint = context.output.paint;
            let verdict = if fits {
                paint.tone(Tone::Good, "ok")
            } else {
                paint.tone(Tone::Bad, "damaged")
            };
            context.output.line(&format!(
                "{verdict}  {}  {} turns, {} in the chain",
                listed.run,
                chain.turns,
                units::bytes(chain.bytes)
            ))?;
            context.output.line(&format!("head  {}", chain.head))?;
            for difference in &differences {
                context.output.line(&format!("  {difference}"))?;
            }
            if self.head.is_none() {
                context.output.talk(&format!("this cannot see {UNSEEN}"));
            }
        }
        if fits {
            return Ok(Exit::Succeeded);
        }
        Err(Error::new(
            Exit::Damaged,
            format!("run {} does not replay to what is stored", listed.run),
        )
        .hint("`ravel doctor` checks the whole store"))
    }
}

/// Fields of the stored summary that the folded run does not have. What the engine alone knows is left out: the start
/// key, and waits for permits, which are never in the log.
fn differences(
    stored: &ravel_core::port::Summary,
    folded: &ravel_core::port::Summary,
) -> Vec<String> {
    const LEFT_OUT: [&str; 3] = ["start_key", "waits", "forked_from"];
    let (Ok(Value::Object(stored)), Ok(Value::Object(folded))) =
        (serde_json::to_value(stored), serde_json::to_value(folded))
    else {
        return vec!["the summary cannot be written as JSON".to_owned()];
    };
    stored
        .iter()
        .filter(|(name, value)| {
            !LEFT_OUT.contains(&name.as_str()) && folded.get(*name) != Some(value)
        })
        .map(|(name, value)| {
            let other = folded.get(name).unwrap_or(&Value::Null);
            format!("`{name}` is stored as {value} and folds to {other}")
        })
        .collect()
}
