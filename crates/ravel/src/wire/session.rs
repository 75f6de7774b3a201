//! A running engine on the store, with the executors of this machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ravel_core::graph::{Graph, Kind};
use ravel_core::port_store::Log as _;
use ravel_core::run::{Price, Terms};
use ravel_engine::{Engine, Graphs, Limits, SystemClock};
use ravel_io::LocalExecutor;
use ravel_io::model;
use ravel_store::Sqlite;
use serde_json::Value;

use super::Shelf;
use crate::config::Config;
use crate::error::{Error, Result, nearest};

/// Folder beside the database where processes work.
const WORK_FOLDER: &str = "work";

/// Compiled graphs of stored bundles.
pub(crate) struct GraphCache {
    store: Arc<Sqlite>,
    known: Mutex<HashMap<String, Arc<Graph>>>,
}

impl GraphCache {
    pub(super) fn new(store: Arc<Sqlite>) -> Self {
        Self {
            store,
            known: Mutex::default(),
        }
    }

    /// The graph with this hash, compiled once.
    pub(crate) fn get(&self, hash: &str) -> std::result::Result<Arc<Graph>, String> {
        if let Some(graph) = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(hash)
        {
            return Ok(graph.clone());
        }
        let text = self.store.bundle(hash).map_err(|error| error.to_string())?;
        let graph = Arc::new(super::graph_of_bundle(&text)?);
        self.put(graph.clone());
        Ok(graph)
    }

    /// Keeps a graph that was just compiled.
    pub(crate) fn put(&self, graph: Arc<Graph>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(graph.hash.to_string(), graph);
    }
}

impl Graphs for GraphCache {
    fn graph(&self, hash: &str) -> std::result::Result<Arc<Graph>, String> {
        self.get(hash)
    }
}

/// An engine at work.
pub(crate) struct Session {
    pub(crate) shelf: Shelf,
    pub(crate) engine: Engine,
}

impl Session {
    /// Starts the executors and the engine on a store.
    pub(crate) fn start(shelf: Shelf, config: &Config) -> Result<Self> {
        let failed =
            |error: std::io::Error| Error::trouble("cannot start the engine").because(error);
        let executor = executor(&shelf, config)?;
        let engine = Engine::open(ravel_engine::Config {
            store: shelf.store.clone(),
            executor: Arc::new(executor),
            clock: Arc::new(SystemClock::new()),
            graphs: shelf.graphs.clone(),
            limits: engine_limits(config)?,
            serve: false,
        })
        .map_err(failed)?;
        Ok(Self { shelf, engine })
    }
}

/// The executors of this machine, working beside the store.
fn executor(shelf: &Shelf, config: &Config) -> Result<LocalExecutor> {
    let failed =
        |error: std::io::Error| Error::trouble("cannot start the executors").because(error);
    let mut io = ravel_io::Config::new(work_folder(shelf)).map_err(failed)?;
    io.secrets = super::secret_sources(config)?;
    io.models = models(config)?;
    io.heir = true;
    io.makers = Some(super::files::makers(shelf.store.clone()));
    LocalExecutor::new(io).map_err(failed)
}

/// Removes what the processes of deleted runs left on disk. Best effort: what stays is only space.
pub(crate) fn remove_work(shelf: &Shelf, config: &Config, runs: &[Arc<str>]) -> Result<()> {
    if runs.is_empty() || !work_folder(shelf).exists() {
        return Ok(());
    }
    let executor = executor(shelf, config)?;
    for run in runs {
        if let Err(error) = executor.remove_run(run) {
            tracing::warn!(run = %run, error = %error, "the folder of a deleted run could not be removed");
        }
    }
    Ok(())
}

/// Where the processes of a store's runs work.
pub(super) fn work_folder(shelf: &Shelf) -> std::path::PathBuf {
    shelf
        .path
        .parent()
        .unwrap_or_else(|| std::path::Path::new("."))
        .join(WORK_FOLDER)
}

/// Providers and models: the configuration, completed from the environment.
pub(crate) fn models(config: &Config) -> Result<model::Config> {
    let written = serde_json::json!({"providers": config.table(&["providers"]), "models": config.table(&["models"])});
    let read: model::Config = serde_json::from_value(written).map_err(|error| {
        Error::usage("[providers] or [models] of the configuration is wrong").because(error)
    })?;
    Ok(read.with_env(|name| std::env::var(name).ok()))
}

/// Limits of the engine: the defaults, changed by `[limits]`.
pub(crate) fn engine_limits(config: &Config) -> Result<Limits> {
    let mut limits = Limits::default();
    for (name, value) in config.table(&["limits"]).as_object().into_iter().flatten() {
        let Some(value) = value.as_u64() else {
            continue;
        };
        limits.set(name, value).map_err(|error| {
            let near = nearest(name, ravel_engine::table().iter().map(|limit| limit.name));
            Error::usage(error.to_string())
                .maybe_hint(near.map(|near| format!("did you mean `{near}`?")))
        })?;
    }
    Ok(limits)
}

/// What a new run of a graph is started under: limits, and the prices of the models that it names.
pub(crate) fn terms(graph: &Graph, config: &Config) -> Result<Terms> {
    let written = config.table(&["limits", "run"]);
    let mut limits = serde_json::to_value(Terms::default().limits)
        .map_err(|error| Error::trouble("limits cannot be written").because(error))?;
    for (name, value) in written.as_object().into_iter().flatten() {
        let known: Vec<String> = limits
            .as_object()
            .into_iter()
            .flat_map(|map| map.keys().cloned())
            .collect();
        match limits.get_mut(name) {
            Some(slot) => *slot = value.clone(),
            None => {
                let near = nearest(name, known.iter().map(String::as_str));
                return Err(Error::usage(format!("there is no limit `run.{name}`"))
                    .maybe_hint(near.map(|near| format!("did you mean `run.{near}`?"))));
            }
        }
    }
    let limits = serde_json::from_value(limits).map_err(|error| {
        Error::usage("[limits.run] of the configuration is wrong").because(error)
    })?;
    let models = models(config)?;
    let mut terms = Terms {
        limits,
        ..Terms::default()
    };
    for step in &graph.steps {
        if let Kind::Model(model) = &step.kind
            && let Some((input, output)) = models.prices_at_most(&model.name)
        {
            let price = Price {
                input_microusd_per_mtok: input,
                output_microusd_per_mtok: output,
            };
            terms.models.insert(model.name.clone(), price);
        }
    }
    Ok(terms)
}

/// JSON of the limits of runs with their defaults, for `ravel limits`.
pub(crate) fn run_limits() -> Value {
    serde_json::to_value(Terms::default().limits).unwrap_or(Value::Null)
}
