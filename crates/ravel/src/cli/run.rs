//! `ravel run`: check a flow, start it, watch it to its end.

use std::sync::Arc;

use clap::Args;
use ravel_core::event::Event;
use ravel_core::port_store::{self, Listing as _, Log as _};
use ravel_core::value::Val;
use ravel_engine::{StartRequest, new_run_id};
use serde_json::{Map, Value};

use super::watch::{Watch, WatchOptions};
use super::{Context, Json};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::input;
use crate::wire::{self, Loaded, Session, Shelf, store_error};

/// Runs a flow and watches it to its end
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel run hello.yaml -i name=Ada\n  ravel run triage.yaml -i ticket=@mail.txt -i 'docs:=[\"a\",\"b\"]'\n  \
    echo '{\"ticket\": \"…\"}' | ravel run triage.yaml --input - --json\n\n\
    The output is printed on stdout, progress on stderr. Ctrl-C once stops after a clean point and says\n\
    how to resume; twice stops now. What a killed run was doing is never repeated blindly."
)]
pub(super) struct Run {
    /// The flow file
    #[arg(value_name = "FLOW")]
    file: String,
    /// A field of the input: k=text, k=@file (its text) or k:=json
    #[arg(short = 'i', value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// The whole input: @file.json, - (stdin) or JSON; -i adds to it
    #[arg(long, value_name = "INPUT")]
    input: Option<String>,
    /// A second run under the same key gives the first one; with another input it is refused
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    json: Json,
}

impl Run {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        super::check::require_file(&self.file)?;
        let loaded = Loaded::require(&self.file, &config, &context.output)?;
        let input = self.input(&loaded)?;
        let mut terms = wire::terms(&loaded.graph, &config)?;
        terms.folder = Some(wire::folder_of(&self.file, &context.world.folder)?);
        let shelf = wire::open(&config)?;
        shelf.graphs.put(loaded.graph.clone());
        let input = Val::new(Value::Object(input));
        if let Some(key) = &self.key
            && let Some(run) = shelf.store.by_start_key(key).map_err(store_error)?
        {
            same_start(&shelf, &run, key, &loaded, &input)?;
        }
        let session = Session::start(shelf, &config)?;
        let id = new_run_id();
        let mut watch = Watch::new(
            context,
            &session,
            &id,
            loaded.graph.clone(),
            self.watch,
            self.json.json,
        )?;
        let started = session
            .engine
            .start(StartRequest {
                graph: loaded.graph.clone(),
                bundle: loaded.bundle.clone(),
                input: input.clone(),
                terms: terms.into(),
                start_key: self.key.as_deref().map(Arc::from),
                run: Some(id.clone()),
            })
            .map_err(wire::engine_error)?;
        if started != id {
            let key = self.key.as_deref().unwrap_or_default();
            same_start(&session.shelf, &started, key, &loaded, &input)?;
            context
                .output
                .talk(&format!("run {started} was started under this key before"));
            return super::runs::follow(context, &session, &started, self.watch, self.json.json);
        }
        watch.watch()
    }

    fn input(&self, loaded: &Loaded) -> Result<Map<String, Value>> {
        let schema = loaded.graph.main().input.schema().clone();
        let mut whole = match &self.input {
            Some(argument) => input::whole(argument)?,
            None => Map::new(),
        };
        whole.extend(input::pairs(&self.fields, &schema)?);
        Ok(whole)
    }
}

/// A second start under a key must be the same start: with another input, or of another flow, it is a mistake.
fn same_start(shelf: &Shelf, run: &str, key: &str, loaded: &Loaded, input: &Val) -> Result<()> {
    let turns = match shelf.store.load_to(run, 1) {
        Err(port_store::Error::Unknown { .. }) => {
            return Err(Error::not_found(format!(
                "run {run} was started under the key {key} and was removed since"
            ))
            .hint("a key starts one run, for ever: another start needs another --key"));
        }
        found => found.map_err(store_error)?,
    };
    let first = turns.first().and_then(|turn| turn.events.first());
    let Some(Event::RunStarted {
        input: before,
        graph,
        ..
    }) = first
    else {
        return Ok(());
    };
    let other = |what: &str| {
        Err(Error::refused(format!(
            "run {run} was started under the key {key} before, with {what}"
        ))
        .hint(format!(
            "`ravel runs show {run}` shows that run; another start needs another --key"
        )))
    };
    let flow = &shelf
        .graphs
        .get(graph)
        .map(|graph| graph.main().name.clone());
    if let Ok(flow) = flow
        && *flow != loaded.graph.main().name
    {
        return other(&format!("another flow: {flow}"));
    }
    // As a start completes it: with the defaults of the flow.
    let whole = loaded.graph.main().input.accepts(input).ok();
    if whole.as_ref().is_some_and(|whole| whole != before) {
        return other("other input");
    }
    Ok(())
}
