//! `ravel run`: check a flow, start it, watch it to its end.

use std::sync::Arc;

use clap::Args;
use ravel_core::value::Val;
use ravel_engine::{StartRequest, new_run_id};
use serde_json::{Map, Value};

use super::watch::{Watch, WatchOptions};
use super::{Context, Json};
use crate::error::Result;
use crate::exit::Exit;
use crate::input;
use crate::wire::{self, Loaded, Session};

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
    /// A second run under the same key gives the first one
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
        let terms = wire::terms(&loaded.graph, &config)?;
        let shelf = wire::open(&config)?;
        shelf.graphs.put(loaded.graph.clone());
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
                graph: loaded.graph,
                bundle: loaded.bundle,
                input: Val::new(Value::Object(input)),
                terms: terms.into(),
                start_key: self.key.map(Arc::from),
                run: Some(id.clone()),
            })
            .map_err(wire::engine_error)?;
        if started != id {
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
