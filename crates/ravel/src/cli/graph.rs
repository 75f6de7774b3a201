//! `ravel graph`: a picture of a flow, or of a run with its states and times.

use std::path::{Path, PathBuf};

use clap::Args;

use ravel_core::port_store::Log as _;

use super::Context;
use super::runs::{is_owned, took_in_words};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::graph::model::Diagram;
use crate::graph::{self, Canvas, Format};
use crate::output::units;
use crate::view::Away;
use crate::wire::{self, Loaded, shown_state};

/// Draws a flow, or a run with its states, times and critical path
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel graph triage.yaml\n  ravel graph last\n  ravel graph triage.yaml --format svg -o triage.svg"
)]
pub(super) struct Graph {
    /// A flow file, or a run
    #[arg(value_name = "FLOW|RUN")]
    target: String,
    /// How it is drawn
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// The file [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Scopes deeper than this are drawn closed
    #[arg(long, value_name = "N", default_value_t = graph::DEPTH_DEFAULT)]
    depth: usize,
}

impl Graph {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let diagram = self.diagram(context)?;
        let to_file = self.output.is_some();
        let canvas = Canvas {
            paint: if to_file {
                crate::output::Paint::new(false)
            } else {
                context.output.paint
            },
            width: context.output.width(),
            unicode: context.output.unicode(),
        };
        let text = match self.format {
            Format::Terminal => graph::to_terminal(&diagram, canvas),
            Format::Outline => graph::to_outline(&diagram, canvas),
            Format::Mermaid => graph::to_mermaid(&diagram),
            Format::Dot => graph::to_dot(&diagram),
            Format::Svg => graph::to_svg(&diagram),
            Format::Json => serde_json::to_string_pretty(&diagram)
                .map(|text| text + "\n")
                .map_err(|error| {
                    Error::trouble("the picture cannot be written as JSON").because(error)
                })?,
        };
        match self.output {
            None => context.output.data(&text)?,
            Some(path) => {
                std::fs::write(&path, text).map_err(|error| {
                    Error::trouble(format!("cannot write {}", path.display())).because(error)
                })?;
                context.output.talk(&format!("wrote {}", path.display()));
            }
        }
        Ok(Exit::Succeeded)
    }

    fn diagram(&self, context: &Context) -> Result<Diagram> {
        let config = context.config()?;
        let looks_like_file = ["yaml", "yml", "json"].iter().any(|end| {
            Path::new(&self.target)
                .extension()
                .is_some_and(|extension| extension == *end)
        });
        if looks_like_file || Path::new(&self.target).is_file() {
            super::check::require_file(&self.target)?;
            let loaded = Loaded::require(&self.target, &config, &context.output)?;
            return Ok(graph::of_flow(&loaded.graph, self.depth));
        }
        let shelf = super::runs::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.target)?;
        let turns = shelf
            .store
            .load(&summary.run)
            .map_err(|error| wire::damaged(&shelf, &summary.run, error))?;
        let run = wire::replayed(&shelf, &summary.run, &turns)?;
        let away = Away::of(&turns);
        let state = shown_state(&shelf, &summary)?;
        let mut diagram = graph::of_flow(run.graph(), self.depth);
        // Of a run that nobody works on, time stands still.
        let end = if run.is_final() || !is_owned(&shelf, &summary.run)? {
            summary.updated
        } else {
            units::now()
        };
        graph::dress(&mut diagram, run.nodes(), &away, end);
        diagram.subtitle = Some(format!(
            "{}  {state}  {}",
            summary.run,
            took_in_words(&away, summary.created, end)
        ));
        Ok(diagram)
    }
}
