//! `ravel runs export`: a run as one JSON document.

use std::path::PathBuf;

use clap::Args;
use ravel_core::event::Event;
use ravel_core::port_store::Log as _;
use ravel_io::files::Files;
use serde_json::{Map, Value, json};

use super::list::element;
use crate::cli::Context;
use crate::config::counted;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::wire::{self, Shelf, Stored, shown_state, store_error};

/// Version of the document's shape.
const FORMAT: u32 = 1;

/// Writes a run as JSON: its log, its flow and the head of its hash chain
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ravel runs export last -o run.json\n\n\
    The content of stored files is not in it: `files` says where it lies. No command takes it in again.\n\n\
    The head is what `ravel replay RUN --head HASH` compares with later: with it even a lost tail shows.")]
pub(super) struct Export {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// The file [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Export {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let turns = shelf
            .store
            .load(&summary.run)
            .map_err(|error| wire::damaged(&shelf, &summary.run, error))?;
        let chain = shelf.store.verify(&summary.run).map_err(store_error)?;
        let mut graphs = Map::new();
        for event in turns.iter().flat_map(|turn| &turn.events) {
            if let Event::RunStarted { graph, .. } | Event::GraphEdited { graph, .. } = event {
                let text = shelf.store.bundle(graph).map_err(store_error)?;
                let bundle: Value = serde_json::from_str(&text).map_err(|error| {
                    Error::new(Exit::Damaged, "a stored flow is no JSON").because(error)
                })?;
                graphs.insert(graph.to_string(), bundle);
            }
        }
        let files = wire::files(&shelf);
        let stored = wire::stored(&summary.run, &turns);
        let listed: Vec<Value> = stored
            .iter()
            .map(|stored| of_file(stored, &files))
            .collect();
        let document = json!({
            "format": FORMAT,
            "run": element(&summary, shown_state(&shelf, &summary)?),
            "head": chain,
            "graphs": graphs,
            "files": listed,
            "turns": turns,
        });
        match self.output {
            None => context.output.json(&document)?,
            Some(path) => {
                let text = document.to_string() + "\n";
                std::fs::write(&path, text).map_err(|error| {
                    Error::trouble(format!("cannot write {}", path.display())).because(error)
                })?;
                context.output.talk(&format!("wrote {}", path.display()));
            }
        }
        if !listed.is_empty() {
            let lost = listed.iter().filter(|file| !file["lost"].is_null()).count();
            context.output.talk(&left_out(&shelf, listed.len(), lost));
        }
        Ok(Exit::Succeeded)
    }
}

/// What a copy of the document does not hold.
fn left_out(shelf: &Shelf, count: usize, lost: usize) -> String {
    let folder = wire::files(shelf).folder().display().to_string();
    let lost = match lost {
        0 => String::new(),
        lost => format!(" ({lost} cannot be had any more: `ravel doctor` names them)"),
    };
    format!(
        "the content of {} is not in it{lost}: keep a copy of {folder}; `files` names them",
        counted(count, "stored file")
    )
}

/// A stored file in the document: its value, where its content lies, who made it, and why it cannot be had.
fn of_file(stored: &Stored, files: &Files) -> Value {
    let mut value = stored.file.to_json();
    value["step"] = json!(stored.maker.step);
    value["path"] = json!(files.place(&stored.file));
    value["lost"] = json!(files.open(&stored.file).err().map(|lost| lost.to_string()));
    value
}
