//! Flow files: read from disk, held to what this machine offers, compiled.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use ravel_core::graph::Graph;
use ravel_core::lang::{
    Bundle, Catalog, Diagnostic, PricedModels, ReadError, Severity, Source, TextLimits,
};

use crate::config::Config;
use crate::error::{Error, Result, nearest};
use crate::output::Output;

/// Folder of a project's flows that others call by name.
const FLOWS_FOLDER: &str = "flows";

/// A flow that checked.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) graph: Arc<Graph>,
    /// The bundle's JSON text, as the store keeps it.
    pub(crate) bundle: Arc<str>,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Files as the flow names them, relative to the current folder.
struct Disk;

impl Source for Disk {
    fn read(&self, path: &str) -> std::result::Result<String, ReadError> {
        let path = Path::new(path);
        let bytes = std::fs::read(path).map_err(|error| {
            if error.kind() != std::io::ErrorKind::NotFound {
                return ReadError::new(error.to_string());
            }
            let mut unread = ReadError::new("there is no such file");
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
                .unwrap_or_else(|| Path::new("."));
            unread.near = std::fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect();
            unread
        })?;
        String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let lines = error.as_bytes()[..good].iter();
            let line = 1 + lines.filter(|byte| **byte == b'\n').count();
            ReadError::new(format!(
                "line {line} is not UTF-8 text; save the file as UTF-8"
            ))
        })
    }
}

/// Reads and checks a flow; `Err` holds every problem.
pub(crate) fn load(
    path: &str,
    config: &Config,
) -> Result<std::result::Result<Loaded, Vec<Diagnostic>>> {
    let folder = folder_of(path, Path::new(".")).ok();
    let catalog = catalog(config, folder.map(|folder| folder.to_string()))?;
    let bundle = match Bundle::load(path, &Disk, Some(catalog), &TextLimits::default()) {
        Ok(bundle) => bundle,
        Err(problems) => return Ok(Err(problems)),
    };
    let checked = bundle.check();
    let Some(graph) = checked.graph else {
        return Ok(Err(checked.diagnostics));
    };
    if checked
        .diagnostics
        .iter()
        .any(|problem| problem.severity == Severity::Error)
    {
        return Ok(Err(checked.diagnostics));
    }
    let text = serde_json::to_string(&bundle)
        .map_err(|error| Error::trouble("the flow cannot be written as JSON").because(error))?;
    Ok(Ok(Loaded {
        graph: Arc::new(graph),
        bundle: text.into(),
        warnings: checked.diagnostics,
    }))
}

impl Loaded {
    /// Reads and checks a flow that is to be run: problems are an error, warnings are told.
    pub(crate) fn require(path: &str, config: &Config, output: &Output) -> Result<Self> {
        let color = output.paint_talk.is_on();
        match load(path, config)? {
            Ok(loaded) => {
                for warning in &loaded.warnings {
                    output.talk(warning.render(color).trim_end());
                }
                Ok(loaded)
            }
            Err(problems) => {
                let report: Vec<String> = problems
                    .iter()
                    .map(|problem| problem.render(color))
                    .collect();
                let (errors, _) = ravel_core::lang::count(&problems);
                let mut error = Error::usage(format!(
                    "{path} has {}",
                    crate::config::counted(errors, "error")
                ))
                .report(report.join("\n"));
                if let Some(first) = problems.first() {
                    error = error.hint(format!(
                        "`ravel explain {}` says what, why and how to fix",
                        first.code
                    ));
                }
                Err(error)
            }
        }
    }
}

/// The folder that relative paths of a run's steps start at, wherever it is taken up: that of the flow file. A flow
/// that comes through a pipe has none: then it is the current one.
pub(crate) fn folder_of(file: &str, current: &Path) -> Result<Arc<str>> {
    let file = current.join(file);
    let folder = match file.parent() {
        Some(folder) if file.is_file() => folder,
        Some(_) | None => current,
    };
    let shown = folder.display();
    let folder = folder.canonicalize().map_err(|error| {
        Error::trouble(format!("the folder {shown} cannot be found")).because(error)
    })?;
    folder.to_str().map(Arc::from).ok_or_else(|| {
        Error::usage(format!("the name of the folder {shown} is not UTF-8"))
            .hint("a run records the folder that its relative paths start at; move the flow")
    })
}

/// What flows may name on this machine.
fn catalog(config: &Config, folder: Option<String>) -> Result<Catalog> {
    let models = super::session::models(config)?;
    // With an endpoint in the environment every plain name is a model.
    let names = models
        .otherwise
        .is_none()
        .then(|| models.models.keys().cloned().collect());
    let defaults = config.table(&["defaults"]);
    Ok(Catalog {
        tools: Some(ravel_io::tool::catalog()),
        folder,
        models: names,
        providers: Some(models.provider_names()),
        priced: Some(PricedModels {
            names: models.priced_names().into_iter().collect(),
            others: models
                .otherwise
                .as_deref()
                .is_some_and(|model| models.prices(model).is_some()),
        }),
        flows: project_flows(config),
        defaults: defaults
            .as_object()
            .is_some_and(|map| !map.is_empty())
            .then_some(defaults),
    })
}

fn project_flows(config: &Config) -> IndexMap<String, String> {
    let Some(folder) = config.project().map(|project| project.join(FLOWS_FOLDER)) else {
        return IndexMap::new();
    };
    let mut flows: Vec<(String, String)> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
        })
        .filter_map(|path| {
            let name = path.file_stem()?.to_str()?.to_owned();
            Some((name, path.to_str()?.to_owned()))
        })
        .collect();
    flows.sort();
    flows.into_iter().collect()
}

/// Compiles a stored bundle.
pub(crate) fn graph_of_bundle(text: &str) -> std::result::Result<Graph, String> {
    let bundle: Bundle = serde_json::from_str(text)
        .map_err(|error| format!("the stored flow cannot be read: {error}"))?;
    bundle.compile().map_err(|problems| {
        let first = problems
            .first()
            .map(|problem| problem.message.clone())
            .unwrap_or_default();
        format!("the stored flow does not compile: {first}")
    })
}

/// The graph of a stored bundle with places in the user's files, when those are still what was run.
pub(crate) fn with_places(text: &str, config: &Config) -> Option<Arc<Graph>> {
    let stored: Bundle = serde_json::from_str(text).ok()?;
    let loaded = load(&stored.root, config).ok()?.ok()?;
    (*loaded.graph.hash == *stored.hash()).then_some(loaded.graph)
}

/// The flow files of the current folder, for hints.
pub(crate) fn near_files(path: &str) -> Option<String> {
    let files: Vec<String> = std::fs::read_dir(".")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".yaml") || name.ends_with(".yml"))
        .collect();
    nearest(path, files.iter().map(String::as_str)).map(str::to_owned)
}
