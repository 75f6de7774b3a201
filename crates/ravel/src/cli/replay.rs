//! `ravel replay`: does the stored log still say what was written?

use clap::Args;
use ravel_core::port_store::{Chain, Log as _};
use serde_json::{Value, json};

use super::{Context, Json};
use crate::config::counted;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::{Tone, units};
use crate::wire::{self, Shelf, folded, store_error};

/// What no check of a log alone can see.
const UNSEEN: &str = "a tail that was cut off whole and consistently: compare with an exported head (--head) to see that";

/// Folds a run's log again and verifies its hash chain and state
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel replay last\n  ravel replay 0193 --head 5f3c…\n\nExit code 8 when something does not fit, 6 when no turn of\n    the run has the given head."
)]
pub(super) struct Replay {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// The head that `ravel runs export` or an earlier replay gave: it must be that of a turn of the run
    #[arg(long, value_name = "HASH")]
    head: Option<String>,
    #[command(flatten)]
    json: Json,
}

impl Replay {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let shelf = super::runs::shelf(context)?;
        let listed = wire::find_run(&shelf, &self.run)?;
        let chain = shelf
            .store
            .verify(&listed.run)
            .map_err(|error| wire::damaged(&shelf, &listed.run, error))?;
        let run = folded(&shelf, &listed.run)?;
        let mut differences = differences(&listed, &run.summary());
        if run.last_turn() != chain.turns {
            differences.push(format!(
                "the chain has {} turns, the fold {}",
                chain.turns,
                run.last_turn()
            ));
        }
        let at_head = match &self.head {
            Some(head) => Some(self.turn_of(&shelf, &listed.run, head, &chain)?),
            None => None,
        };
        let fits = differences.is_empty();
        if self.json.json {
            context.output.json(&json!({
                "id": listed.run,
                "ok": fits,
                "turns": chain.turns,
                "bytes": chain.bytes,
                "head": chain.head,
                "head_given_at": at_head,
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
            if let Some(grown) = grown(at_head, &chain) {
                context.output.line(&format!("  {grown}"))?;
            }
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

/// What came after the turn that had the given head.
fn grown(at_head: Option<u64>, chain: &Chain) -> Option<String> {
    let turn = at_head.filter(|turn| *turn < chain.turns)?;
    let since = usize::try_from(chain.turns - turn).unwrap_or(usize::MAX);
    let since = counted(since, "turn");
    Some(format!(
        "the given head is that of turn {turn}; {since} came since"
    ))
}

/// Fewest digits of a head that tell one from another.
const HEAD_DIGITS_MIN: usize = 4;
/// Digits of a whole head.
const HEAD_DIGITS: usize = 64;

impl Replay {
    /// The turn after which the chain had the given head. A head that no turn has is no damage of what is stored.
    fn turn_of(&self, shelf: &Shelf, run: &str, head: &str, chain: &Chain) -> Result<u64> {
        let digits = head.len();
        let is_hash = head.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hash || !(HEAD_DIGITS_MIN..=HEAD_DIGITS).contains(&digits) {
            return Err(Error::usage(format!("`{head}` is no head")).hint(format!(
                "a head has {HEAD_DIGITS} hexadecimal digits, or {HEAD_DIGITS_MIN} and more of its beginning"
            )));
        }
        let found = shelf
            .store
            .turn_with_head(run, &head.to_ascii_lowercase())
            .map_err(store_error)?;
        found.ok_or_else(|| {
            Error::not_found(format!(
                "the hash {head} is not one of run {run}: its chain is whole, and none of its {} turns has it",
                chain.turns
            ))
            .hint("the hash is mistyped or of another run; if it is neither, turns were cut off the end of this one")
            .hint(format!("the head now, after turn {}: {}", chain.turns, chain.head))
        })
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
