//! The store that commands work on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ravel_core::port::Summary;
use ravel_core::port_store::{Log as _, Ownership as _};
use ravel_core::run::Run;
use ravel_store::{Options, Sqlite};

use super::{GraphCache, store_error};
use crate::config::Config;
use crate::error::{Error, Result};

/// A store with the graphs that are in it.
#[derive(Clone)]
pub(crate) struct Shelf {
    pub(crate) store: Arc<Sqlite>,
    pub(crate) graphs: Arc<GraphCache>,
    pub(crate) path: PathBuf,
}

impl Shelf {
    fn new(store: Sqlite, path: PathBuf) -> Self {
        let store = Arc::new(store);
        Self {
            graphs: Arc::new(GraphCache::new(store.clone())),
            store,
            path,
        }
    }
}

/// Opens the store; makes it, and its folder, when it is not there.
pub(crate) fn open(config: &Config) -> Result<Shelf> {
    let path = config.store_path();
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| {
            Error::trouble(format!("cannot make {}", folder.display())).because(error)
        })?;
        keep_out_of_git(folder);
    }
    let store = Sqlite::open(&path).map_err(|error| opening(&path, error))?;
    Ok(Shelf::new(store, path))
}

/// Opens the store if there is one.
pub(crate) fn open_existing(config: &Config) -> Result<Option<Shelf>> {
    let path = config.store_path();
    if !path.exists() {
        return Ok(None);
    }
    let store =
        Sqlite::open_with(&path, Options::default()).map_err(|error| opening(&path, error))?;
    Ok(Some(Shelf::new(store, path)))
}

fn opening(path: &Path, error: ravel_core::port_store::Error) -> Error {
    let inner = store_error(error);
    let exit = inner.exit();
    let hints = inner.hints().to_vec();
    let outer =
        Error::new(exit, format!("cannot open the store {}", path.display())).because(inner);
    hints.into_iter().fold(outer, Error::hint)
}

/// A `.ravel` folder ignores itself: databases do not belong into a repository. Best effort.
fn keep_out_of_git(folder: &Path) {
    let file = folder.join(".gitignore");
    if folder
        .file_name()
        .is_some_and(|name| name == crate::config::FOLDER_NAME)
        && !file.exists()
    {
        let _ = std::fs::write(file, "*\n");
    }
}

/// A run folded from its log.
pub(crate) fn folded(shelf: &Shelf, run: &str) -> Result<Run> {
    let turns = shelf.store.load(run).map_err(store_error)?;
    Run::replay(&turns, &mut |hash| shelf.graphs.get(hash)).map_err(|error| {
        Error::new(
            crate::exit::Exit::Damaged,
            format!("run {run} cannot be folded from its log"),
        )
        .because(error)
    })
}

/// The state as people see it: a live run that no process owns is `paused`.
pub(crate) fn shown_state(shelf: &Shelf, summary: &Summary) -> Result<&'static str> {
    if summary.state.is_final() {
        return Ok(summary.state.name());
    }
    let owner = shelf.store.owner(&summary.run).map_err(store_error)?;
    Ok(if owner.is_some() {
        summary.state.name()
    } else {
        "paused"
    })
}
