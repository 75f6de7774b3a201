//! Stored files: which ones a log names, who made them, and whether their content is there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ravel_core::event::{Event, Node, Turn};
use ravel_core::port_store::Log as _;
use ravel_io::files::{FILE_KEY, FileValue, Files, Maker, Makers};
use ravel_store::Sqlite;
use serde_json::Value;

use super::Shelf;
use super::session::work_folder;

/// A file that a log names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) file: FileValue,
    pub(crate) maker: Maker,
}

/// The files beside a store.
pub(crate) fn files(shelf: &Shelf) -> Files {
    Files::new(&work_folder(shelf))
}

/// Finds makers in the log of the run that needs the file.
pub(super) fn makers(store: Arc<Sqlite>) -> Makers {
    Makers::new(move |run, hash| {
        let turns = store.load(run).ok()?;
        let stored = stored(run, &turns).into_iter();
        let mut makers = stored.filter(|stored| stored.file.hash == hash);
        makers.next().map(|stored| stored.maker)
    })
}

/// The files that a log names, each once, with whoever named it first.
pub(crate) fn stored(run: &str, turns: &[Turn]) -> Vec<Stored> {
    let run: Arc<str> = run.into();
    let mut paths: HashMap<Node, Arc<str>> = HashMap::new();
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for event in turns.iter().flat_map(|turn| &turn.events) {
        if let Event::Opened { node, path, .. } | Event::AttemptStarted { node, path, .. } = event {
            paths.insert(*node, path.clone());
        }
        // Looked at as text first: hardly any event holds a file.
        let Ok(text) = serde_json::to_string(event) else {
            continue;
        };
        if !text.contains(FILE_KEY) {
            continue;
        }
        let event: Value = serde_json::from_str(&text).unwrap_or_default();
        let step = event.get("node").and_then(Value::as_u64);
        let step = step.and_then(|node| paths.get(&Node::try_from(node).ok()?));
        let mut files = Vec::new();
        collect(&event, &mut files);
        for file in files {
            if seen.insert(file.hash.clone()) {
                let maker = Maker {
                    run: run.clone(),
                    step: step.filter(|path| !path.is_empty()).cloned(),
                };
                found.push(Stored { file, maker });
            }
        }
    }
    found
}

fn collect(value: &Value, files: &mut Vec<FileValue>) {
    if let Some(file) = FileValue::from_json(value) {
        files.push(file);
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, files)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, files)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
