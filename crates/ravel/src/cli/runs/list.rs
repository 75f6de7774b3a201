//! `ravel runs list`.

use clap::Args;
use ravel_core::port::{RunState, Summary};
use ravel_core::port_store::{Filter, Listing as _, Ownership as _};
use serde_json::{Value, json};

use crate::cli::messages::past::{self, Cancelled};
use crate::cli::{Context, Json};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::{Column, Table, Tone, units};
use crate::view::{State, short};
use crate::wire::{self, Shelf, shown_state, store_error};

/// Runs that are listed unless said otherwise.
const LIMIT_DEFAULT: usize = 50;
/// The state of a live run that no process works on.
const PAUSED: &str = "paused";

/// Lists runs, newest first
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel runs list --state failed --since 1d\n  ravel runs list --json | jq '.runs[0].id'\n\n\
    A run `lasted` from its start to its end or to now, or to its last turn while it is paused: with\n\
    the time in which it was stopped. `ravel runs show` says how long it was worked on."
)]
pub(super) struct List {
    /// Only these states: running, waiting, paused, cancelling, compensating, succeeded, failed, cancelled
    #[arg(long = "state", value_name = "STATE", value_parser = state)]
    states: Vec<String>,
    /// Only runs of this flow
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// Only runs that were started in this span: 30m, 2h, 7d
    #[arg(long, value_name = "SPAN", value_parser = units::parse_duration)]
    since: Option<u64>,
    /// At most so many; 0 lists all
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT)]
    limit: usize,
    #[command(flatten)]
    json: Json,
}

fn state(text: &str) -> std::result::Result<String, String> {
    if text == PAUSED || RunState::named(text).is_some() {
        Ok(text.to_owned())
    } else {
        let names: Vec<&str> = RunState::ALL
            .iter()
            .map(|state| state.name())
            .chain([PAUSED])
            .collect();
        let near = crate::error::nearest(text, names.iter().copied());
        Err(near.map_or_else(
            || format!("states are {}", names.join(", ")),
            |near| format!("did you mean `{near}`?"),
        ))
    }
}

impl List {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let rows = match wire::open_existing(&config)? {
            Some(shelf) => self.rows(&shelf)?,
            None => Vec::new(),
        };
        if self.json.json {
            let runs: Vec<Value> = rows.iter().map(Row::document).collect();
            context.output.json(&json!({"runs": runs}))?;
            return Ok(Exit::Succeeded);
        }
        if rows.is_empty() {
            context.output.talk(&self.nothing(&config)?);
            return Ok(Exit::Succeeded);
        }
        let now = units::now();
        let mut columns = vec![
            Column::left("run"),
            Column::flexible("flow"),
            Column::left("state"),
            Column::right("started"),
            Column::right("lasted"),
            Column::right("tokens"),
            Column::right("cost"),
        ];
        let tells_why = rows.iter().any(|row| !row.why().is_empty());
        if tells_why {
            columns.push(Column::flexible("why"));
        }
        let mut table = Table::new(columns);
        for row in &rows {
            let Row { summary, state, .. } = row;
            // Of a run that nobody works on, time stands still.
            let end = if summary.state.is_final() || *state == PAUSED {
                summary.updated
            } else {
                now
            };
            let cells = [
                (summary.run.to_string(), None),
                (summary.flow.to_string(), None),
                ((*state).to_owned(), Some(tone(summary.state, state))),
                (units::relative(summary.created, now), None),
                (units::duration(end.saturating_sub(summary.created)), None),
                (units::count(summary.usage.tokens()), None),
                (units::money(summary.usage.cost_microusd), None),
            ];
            let why = tells_why.then(|| (row.why(), Some(Tone::Faint)));
            table.row(cells.into_iter().chain(why));
        }
        context
            .output
            .data(&table.render(context.output.paint, context.output.data_width()))?;
        if self.limit > 0 && rows.len() == self.limit {
            context
                .output
                .talk(&format!("the newest {}; --limit 0 lists all", self.limit));
        }
        Ok(Exit::Succeeded)
    }

    /// Why there is nothing to list.
    fn nothing(&self, config: &Config) -> Result<String> {
        let all = match wire::open_existing(config)? {
            Some(shelf) => shelf.store.runs(&Filter::default()).map_err(store_error)?,
            None => Vec::new(),
        };
        if all.is_empty() {
            return Ok("no runs; `ravel run FLOW` starts one".to_owned());
        }
        let mut asked: Vec<String> = Vec::new();
        asked.extend(self.flow.iter().map(|flow| format!("--flow {flow}")));
        asked.extend(self.states.iter().map(|state| format!("--state {state}")));
        asked.extend(
            self.since
                .map(|since| format!("--since {}", units::duration(since))),
        );
        let mut flows: Vec<&str> = all.iter().map(|run| &*run.flow).collect();
        flows.sort_unstable();
        flows.dedup();
        let known = |flow: &String| flows.iter().any(|known| known == flow);
        let near = self
            .flow
            .as_ref()
            .filter(|flow| !known(flow))
            .and_then(|flow| {
                let near = crate::error::nearest(flow, flows.iter().copied())?;
                Some(format!("; did you mean --flow {near}?"))
            });
        Ok(format!(
            "no runs match {}, of {} in the store{}",
            asked.join(" "),
            all.len(),
            near.unwrap_or_default()
        ))
    }

    fn rows(&self, shelf: &Shelf) -> Result<Vec<Row>> {
        // `paused` is not stored: it means that a live run has no owner, so it is sorted out here.
        let wants_paused = self.states.iter().any(|state| state == PAUSED);
        let named = || self.states.iter().filter_map(|name| RunState::named(name));
        let mut states: Vec<RunState> = named().collect();
        if wants_paused {
            states.extend(RunState::ALL.into_iter().filter(|state| !state.is_final()));
        }
        let sorted_out = wants_paused || named().any(|state| !state.is_final());
        let filter = Filter {
            states,
            flow: self.flow.clone(),
            id_prefix: None,
            since: self.since.map(|span| units::now().saturating_sub(span)),
            limit: if sorted_out { 0 } else { self.limit },
        };
        let mut rows = Vec::new();
        for summary in shelf.store.runs(&filter).map_err(store_error)? {
            let shown = shown_state(shelf, &summary)?;
            if self.states.is_empty() || self.states.iter().any(|state| state == shown) {
                rows.push(Row::new(shelf, summary, shown)?);
            }
            if self.limit > 0 && rows.len() == self.limit {
                break;
            }
        }
        Ok(rows)
    }
}

/// A run that is listed.
struct Row {
    summary: Summary,
    state: &'static str,
    /// Who cancelled it, and why.
    cancel: Option<Cancelled>,
}

impl Row {
    fn new(shelf: &Shelf, summary: Summary, state: &'static str) -> Result<Self> {
        let cancel = match summary.state {
            RunState::Cancelling | RunState::Compensating | RunState::Cancelled => {
                past::cancel_of_all(shelf, &summary.run)?
            }
            RunState::Running | RunState::Waiting | RunState::Succeeded | RunState::Failed => None,
        };
        Ok(Self {
            summary,
            state,
            cancel,
        })
    }

    /// Why it failed, or who cancelled it and why.
    fn why(&self) -> String {
        let cancel = self.cancel.as_ref().map(Cancelled::why_and_who);
        let error = || self.summary.error.as_ref().map(short);
        cancel.or_else(error).unwrap_or_default()
    }

    fn document(&self) -> Value {
        let mut document = element(&self.summary, self.state);
        document["cancel"] = json!(self.cancel.as_ref().map(|cancel| cancel.document("")));
        document
    }
}

/// A run in JSON documents.
pub(super) fn element(summary: &Summary, state: &str) -> Value {
    json!({
        "id": summary.run,
        "flow": summary.flow,
        "state": state,
        "created": units::rfc3339(summary.created),
        "updated": units::rfc3339(summary.updated),
        "wake_at": summary.wake_at.map(units::rfc3339),
        "output": summary.output,
        "error": summary.error,
        "cost": units::dollars(summary.usage.cost_microusd),
        "tokens": summary.usage.tokens(),
        "forked_from": summary.forked_from.as_ref().map(|(run, turn)| json!({"run": run, "turn": turn})),
        "uncompensated": summary.uncompensated,
    })
}

/// The colour of a run's state.
pub(super) fn tone(state: RunState, shown: &str) -> Tone {
    match state {
        _ if shown == PAUSED => State::Waiting.tone(),
        RunState::Running => State::Running.tone(),
        RunState::Waiting => State::Waiting.tone(),
        RunState::Cancelling | RunState::Compensating | RunState::Cancelled => {
            State::Cancelled.tone()
        }
        RunState::Succeeded => State::Succeeded.tone(),
        RunState::Failed => State::Failed.tone(),
    }
}

/// The process that owns a run, when one does.
pub(crate) fn is_owned(shelf: &Shelf, run: &str) -> Result<bool> {
    shelf
        .store
        .owner(run)
        .map(|owner| owner.is_some())
        .map_err(|error| -> Error { store_error(error) })
}
