//! `ravel runs log`: the events of a run.

use clap::Args;
use ravel_core::event::Turn;
use ravel_core::port_store::Log as _;
use serde_json::Value;

use crate::cli::reading;
use crate::cli::{Context, Json};
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{cut, json_line, one_line, units};
use crate::wire;

/// Prints the events of a run
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel runs log last\n  ravel runs log 0193 --turns 10..20 --json"
)]
pub(super) struct Log {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// Only these turns: 12, 10.., ..20 or 10..20 (both included)
    #[arg(long, value_name = "RANGE", value_parser = turns)]
    turns: Option<(u64, u64)>,
    #[command(flatten)]
    json: Json,
}

fn turns(text: &str) -> std::result::Result<(u64, u64), String> {
    let number = |text: &str, open: u64| {
        if text.is_empty() {
            Ok(open)
        } else {
            text.parse().map_err(|_| format!("`{text}` is no turn"))
        }
    };
    match text.split_once("..") {
        Some((from, to)) => Ok((number(from, 1)?, number(to, u64::MAX)?)),
        None => number(text, 0).map(|turn| (turn, turn)),
    }
}

impl Log {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let (first, last) = self.turns.unwrap_or((1, u64::MAX));
        // What comes after the last turn that is asked for may be damaged.
        let all = shelf
            .store
            .load_to(&summary.run, last)
            .map_err(|error| wire::damaged(&shelf, &summary.run, error))?;
        for turn in all
            .iter()
            .filter(|turn| (first..=last).contains(&turn.turn))
        {
            if self.json.json {
                for event in &turn.events {
                    let line = reading::event_line(&summary.run, turn, event)?;
                    context.output.line(&line)?;
                }
            } else {
                context.output.data(&lines(turn, context)?)?;
            }
        }
        Ok(Exit::Succeeded)
    }
}

fn lines(turn: &Turn, context: &Context) -> Result<String> {
    let paint = context.output.paint;
    let width = context.output.width();
    let mut text = format!(
        "{} {}\n",
        paint.bold(&format!("turn {}", turn.turn)),
        paint.dim(&units::time(turn.at))
    );
    for event in &turn.events {
        let event = reading::event(event)?;
        let name = event
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("event")
            .to_owned();
        let room = width.saturating_sub(name.len() + 4);
        let mut words = Vec::new();
        for (key, value) in event.iter().filter(|(key, _)| *key != "type") {
            let shown = match value.as_str() {
                Some(text) => cut(&one_line(text), room),
                None => json_line(value, room),
            };
            words.push(format!("{key}={shown}"));
        }
        text.push_str(&format!(
            "  {name}  {}\n",
            paint.dim(&cut(&words.join(" "), room))
        ));
    }
    Ok(text)
}
