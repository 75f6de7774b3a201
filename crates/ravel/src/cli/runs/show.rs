//! `ravel runs show`: one run, step by step.

use clap::Args;
use ravel_core::effect::Failure;
use ravel_core::graph::Graph;
use ravel_core::port::Summary;
use ravel_core::port_store::Log as _;
use ravel_core::run::{NodeView, Run};
use serde_json::{Value, json};

use super::list::{element, tone};
use crate::cli::reading::{self, Excerpts};
use crate::cli::{Context, Json, past};
use crate::error::Result;
use crate::exit::Exit;
use crate::live::ways_to_answer;
use crate::output::{Column, Output, Table, Tone, json_line, one_line, units};
use crate::view::{Away, place_of, short, why_skipped};
use crate::wire::{self, shown_state, store_error};

/// Steps that a table shows unless all are asked for.
const STEPS_SHOWN_MAX: usize = 200;

/// Shows a run: its steps, output and error
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel runs show last\n  ravel runs show 0193 --values\n\n\
    What a run and a step `took` is time in which a process worked on the run; how long it was stopped\n\
    is said apart."
)]
pub(super) struct Show {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// Shows the value of each step
    #[arg(long)]
    values: bool,
    /// Shows every step of large runs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    excerpts: Excerpts,
    #[command(flatten)]
    json: Json,
}

impl Show {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let state = shown_state(&shelf, &summary)?;
        let turns = shelf
            .store
            .load(&summary.run)
            .map_err(|error| wire::damaged(&shelf, &summary.run, error))?;
        let run = wire::replayed(&shelf, &summary.run, &turns)?;
        let away = Away::of(&turns);
        let nodes: Vec<NodeView> = run.nodes().filter(|node| !node.path.is_empty()).collect();
        if self.json.json {
            let mut document = element(&summary, state);
            complete(&mut document, &summary, &run, &away);
            let cancels = past::cancels(&turns);
            let cancels = cancels.iter().filter_map(|cancel| {
                let node = run.node(cancel.node)?;
                Some(cancel.document(&node.path))
            });
            document["cancels"] = cancels.collect();
            context.output.json(&document)?;
            return Ok(Exit::Succeeded);
        }
        let output = &context.output;
        let paint = output.paint;
        let painted = paint.tone(tone(summary.state, state), state);
        output.line(&format!(
            "{}  {painted}  {}",
            paint.bold(&summary.flow),
            summary.run
        ))?;
        output.line(&paint.dim(&facts(&summary, &run, &away).join(", ")))?;
        output.line("")?;
        output.data(&self.table(&nodes, &away, output))?;
        if let Some(input) = run.input() {
            output.line(&format!(
                "\n{} {}",
                paint.dim("input:"),
                compact(input.json(), output)
            ))?;
        }
        if let Some(value) = &summary.output {
            output.line(&format!(
                "{} {}",
                paint.dim("output:"),
                self.excerpts.of_output(&pretty(value.json())).0
            ))?;
        }
        if let Some(error) = &summary.error {
            let bundle = shelf.store.bundle(&summary.graph).map_err(store_error)?;
            print_error(
                output,
                error,
                wire::with_places(&bundle, &config).as_deref(),
            )?;
        }
        for cancel in past::cancels(&turns) {
            let Some(node) = run.node(cancel.node) else {
                continue;
            };
            let what = if node.path.is_empty() {
                "the run"
            } else {
                &*node.path
            };
            let who = cancel.who_and_when(units::now());
            output.line(&format!("the cancel of {what} was asked for{who}"))?;
        }
        for question in run.questions() {
            let question = crate::view::offered(question, &turns);
            let mark = paint.tone(Tone::Warn, "?");
            output.line(&format!(
                "{mark} {} asks: {}",
                question.path,
                one_line(&question.ask)
            ))?;
            for way in ways_to_answer(&super::shown_question(&question, Some(run.graph()))) {
                output.line(&format!("  {way}"))?;
            }
        }
        if !summary.uncompensated.is_empty() {
            output.line(&format!(
                "effects that stand: {}",
                summary.uncompensated.join(", ")
            ))?;
        }
        Ok(Exit::Succeeded)
    }

    fn table(&self, nodes: &[NodeView], away: &Away, output: &Output) -> String {
        let steps = nodes;
        let shown = if self.all {
            steps.len()
        } else {
            steps.len().min(STEPS_SHOWN_MAX)
        };
        let mut table = Table::new([
            Column::flexible("step"),
            Column::left("kind"),
            Column::left("state"),
            Column::right("tries"),
            Column::right("took"),
            Column::right("tokens"),
            Column::right("cost"),
            Column::flexible(if self.values { "value" } else { "why" }),
        ]);
        for node in &steps[..shown] {
            let took = took(node, away).map(units::duration);
            let error = node
                .error
                .as_ref()
                .filter(|_| node.state != "succeeded")
                .map(short);
            let why = error.or_else(|| node.skip.as_ref().map(why_skipped));
            let value = node
                .value
                .as_ref()
                .filter(|_| self.values)
                .map(|value| self.excerpts.of_value(&value.json().to_string()).0);
            table.row([
                (node.path.to_string(), None),
                (node.kind.to_owned(), Some(Tone::Faint)),
                (node.state.to_owned(), Some(state_tone(node.state))),
                (
                    if node.attempts > 0 {
                        node.attempts.to_string()
                    } else {
                        "-".to_owned()
                    },
                    None,
                ),
                (took.unwrap_or_else(|| "-".to_owned()), None),
                (units::count(node.usage.tokens()), None),
                (units::money(node.usage.cost_microusd), None),
                (value.or(why).unwrap_or_default(), Some(Tone::Faint)),
            ]);
        }
        let mut text = table.render(output.paint, output.data_width());
        if shown < steps.len() {
            text.push_str(&format!(
                "… {} more steps; --all shows them\n",
                steps.len() - shown
            ));
        }
        text
    }
}

/// What the document of one run has beside what is listed.
fn complete(document: &mut Value, summary: &Summary, run: &Run, away: &Away) {
    let stopped = away.stopped(summary.created, summary.updated);
    document["input"] = json!(run.input());
    document["turns"] = json!(run.last_turn());
    let worked = away.worked(summary.created, summary.updated);
    document["seconds"] = json!(seconds(worked));
    document["stopped_seconds"] = json!(seconds(stopped));
    document["steps"] = run
        .nodes()
        .filter(|node| !node.path.is_empty())
        .map(|node| step(&node, away))
        .collect();
    document["questions"] = run.questions().iter().map(reading::question).collect();
}

/// One line of facts about the whole run.
fn facts(summary: &Summary, run: &Run, away: &Away) -> Vec<String> {
    let (from, to) = (summary.created, summary.updated);
    let mut facts = vec![
        format!("started {}", units::time(from)),
        format!("took {}", took_in_words(away, from, to)),
        crate::config::counted(
            usize::try_from(run.last_turn()).unwrap_or(usize::MAX),
            "turn",
        ),
    ];
    if summary.usage.tokens() > 0 {
        facts.push(format!("{} tokens", units::count(summary.usage.tokens())));
    }
    if summary.usage.cost_microusd > 0 {
        facts.push(units::money(summary.usage.cost_microusd));
    }
    if let Some((from, turn)) = &summary.forked_from {
        facts.push(format!("forked from {from} at turn {turn}"));
    }
    facts
}

/// `12 s`, and how long the run was stopped, which is not in it.
pub(crate) fn took_in_words(away: &Away, from: u64, to: u64) -> String {
    let took = units::duration(away.worked(from, to));
    let stopped = away.stopped(from, to);
    if stopped == 0 {
        return took;
    }
    let stopped = units::duration(stopped);
    format!("{took} without {stopped} in which it was stopped")
}

/// Milliseconds that an activation took, without those in which no process worked on the run.
fn took(node: &NodeView, away: &Away) -> Option<u64> {
    Some(away.worked(node.began?, node.ended?))
}

/// The error of a failed run with its place in the flow, when the file is still what was run.
fn print_error(output: &Output, error: &Failure, places: Option<&Graph>) -> Result<()> {
    output.line(&format!(
        "{} {}",
        output.paint.tone(Tone::Bad, "error:"),
        short(error)
    ))?;
    let step = error.step.as_ref().filter(|path| !path.is_empty());
    if step.is_none() {
        output.line("  in the flow itself")?;
    }
    if let Some(path) = step {
        let at = places.and_then(|graph| place_of(graph, path));
        let at = at.map(|place| format!(" ({}:{}:{})", place.file, place.line, place.column));
        output.line(&format!("  in step {path}{}", at.unwrap_or_default()))?;
    }
    if let Some(data) = &error.data {
        output.line(&format!("  {}", compact(data.json(), output)))?;
    }
    Ok(())
}

/// A step in JSON documents.
fn step(node: &NodeView, away: &Away) -> Value {
    json!({
        "path": node.path,
        "kind": node.kind,
        "state": node.state,
        "attempts": node.attempts,
        "began": node.began.map(units::rfc3339),
        "ended": node.ended.map(units::rfc3339),
        "seconds": took(node, away).map(seconds),
        "tokens": node.usage.tokens(),
        "cost": units::dollars(node.usage.cost_microusd),
        "value": node.value,
        "error": node.error,
        "skip": node.skip.as_ref().map(why_skipped),
    })
}

#[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

/// The colour of a step's state word.
pub(super) fn state_tone(state: &str) -> Tone {
    match state {
        "succeeded" => Tone::Good,
        "failed" => Tone::Bad,
        "running" | "ready" => Tone::Busy,
        "waiting" | "cancelled" => Tone::Warn,
        _ => Tone::Faint,
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn compact(value: &Value, output: &Output) -> String {
    json_line(value, output.width().saturating_sub(10).max(40))
}
