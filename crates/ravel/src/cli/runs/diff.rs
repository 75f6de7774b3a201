//! `ravel runs diff`: two runs by outcome, and where their logs part.

use std::collections::BTreeMap;

use clap::Args;
use ravel_core::event::Turn;
use ravel_core::port_store::Log as _;
use ravel_core::run::{NodeView, Run};
use ravel_core::value::Val;
use serde_json::{Value, json};

use crate::cli::reading::{self, Excerpts};
use crate::cli::{Context, Json};
use crate::config::counted;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{Column, Table, Tone};
use crate::wire::{self, Shelf, folded, store_error};

/// Compares two runs by their outcome: path, state and value of each step
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ravel runs diff 0193a 0193b\n\nExit code 1 when they differ. Of two long values the parts \
    from where they begin to differ\nare shown; --json has them whole."
)]
pub(super) struct Diff {
    /// One run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    left: String,
    /// The other run, named in the same way
    #[arg(value_name = "RUN")]
    right: String,
    #[command(flatten)]
    excerpts: Excerpts,
    #[command(flatten)]
    json: Json,
}

/// How a step ended: what equality of runs is made of.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    state: &'static str,
    value: Option<Val>,
}

impl Diff {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let shelf = super::shelf(context)?;
        let left = wire::find_run(&shelf, &self.left)?.run;
        let right = wire::find_run(&shelf, &self.right)?.run;
        let (one, other) = (
            outcomes(&folded(&shelf, &left)?),
            outcomes(&folded(&shelf, &right)?),
        );
        let mut paths: Vec<&String> = one.keys().chain(other.keys()).collect();
        paths.sort();
        paths.dedup();
        let differing: Vec<&String> = paths
            .into_iter()
            .filter(|path| one.get(*path) != other.get(*path))
            .collect();
        let parting = parting(&shelf, &left, &right)?;
        let same = differing.is_empty();
        if self.json.json {
            let steps: Vec<Value> = differing
                .iter()
                .map(|path| json!({"path": path, "left": shown(one.get(*path)), "right": shown(other.get(*path))}))
                .collect();
            context.output.json(&json!({"left": left, "right": right, "same": same, "steps": steps, "logs": parting}))?;
        } else {
            if same {
                context
                    .output
                    .line(&format!("the same outcome: {}", counted(one.len(), "step")))?;
            } else {
                self.table(context, &differing, &one, &other)?;
            }
            match &parting {
                Some(at) => context.output.line(&format!(
                    "the logs part at turn {}: {} and {}",
                    at["turn"], at["left"], at["right"]
                ))?,
                None => context.output.line("the logs tell the same events")?,
            }
        }
        Ok(if same { Exit::Succeeded } else { Exit::Failed })
    }
}

type Outcomes = BTreeMap<String, Outcome>;

impl Diff {
    fn table(
        &self,
        context: &Context,
        differing: &[&String],
        one: &Outcomes,
        other: &Outcomes,
    ) -> Result<()> {
        let mut table = Table::new([
            Column::flexible("step"),
            Column::flexible("left"),
            Column::flexible("right"),
        ]);
        let mut is_cut = false;
        for path in differing {
            let name = if path.is_empty() {
                "(the flow)"
            } else {
                path.as_str()
            };
            let (left, right) = (text(one.get(*path)), text(other.get(*path)));
            let (left, right, cut) = self.excerpts.of_two(&left, &right);
            is_cut |= cut;
            table.row([
                (name.to_owned(), None),
                (left, Some(Tone::Bad)),
                (right, Some(Tone::Good)),
            ]);
        }
        let output = &context.output;
        output.data(&table.render(output.paint, output.data_width()))?;
        if is_cut {
            output.line(&self.excerpts.note())?;
        }
        Ok(())
    }
}

fn outcomes(run: &Run) -> Outcomes {
    let outcome = |node: NodeView| {
        let (state, value) = (node.state, node.value);
        (node.path.to_string(), Outcome { state, value })
    };
    run.nodes().map(outcome).collect()
}

fn shown(outcome: Option<&Outcome>) -> Value {
    outcome.map_or(
        Value::Null,
        |outcome| json!({"state": outcome.state, "value": outcome.value}),
    )
}

fn text(outcome: Option<&Outcome>) -> String {
    let Some(Outcome { state, value }) = outcome else {
        return "(not there)".to_owned();
    };
    match value.as_ref().map(Val::json) {
        None | Some(Value::Null) => (*state).to_owned(),
        Some(value) => format!("{state} {value}"),
    }
}

/// The first turn whose events differ in more than ids and times.
fn parting(shelf: &Shelf, left: &str, right: &str) -> Result<Option<Value>> {
    let (one, other) = (
        shelf.store.load(left).map_err(store_error)?,
        shelf.store.load(right).map_err(store_error)?,
    );
    for index in 0..one.len().max(other.len()) {
        let (a, b) = (
            one.get(index).map(comparable),
            other.get(index).map(comparable),
        );
        if a != b {
            let first = |turn: Option<Vec<Value>>, against: Option<&Vec<Value>>| {
                let turn = turn.unwrap_or_default();
                let position = (0..turn.len())
                    .find(|at| against.and_then(|other| other.get(*at)) != turn.get(*at));
                position.map_or_else(
                    || json!("nothing more"),
                    |at| {
                        json!(format!(
                            "{}{}",
                            turn[at]["type"].as_str().unwrap_or("event"),
                            place(&turn[at])
                        ))
                    },
                )
            };
            return Ok(Some(json!({
                "turn": index + 1,
                "left": first(a.clone(), b.as_ref()),
                "right": first(b, a.as_ref()),
            })));
        }
    }
    Ok(None)
}

fn place(event: &Value) -> String {
    event["path"]
        .as_str()
        .map(|path| format!(" {path}"))
        .unwrap_or_default()
}

/// Events without what differs between any two runs: ids, clocks, usage.
fn comparable(turn: &Turn) -> Vec<Value> {
    const OWN: [&str; 9] = [
        "run", "question", "due", "until", "epoch", "usage", "meta", "terms", "by",
    ];
    turn.events
        .iter()
        .filter_map(|event| reading::event(event).ok())
        .map(|mut fields| {
            fields.retain(|key, _| !OWN.contains(&key.as_str()));
            Value::Object(fields)
        })
        .collect()
}
