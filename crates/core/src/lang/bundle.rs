//! A flow with everything it names, resolved and hashed: what a run records and what a graph is compiled from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::catalog::{Catalog, ToolInfo};
use super::check::{Checked, check};
use super::diagnostic::{Diagnostic, Problem, Severity, Unshown, nearest_file};
use super::source::{FileId, ReadError, Source, Sources, Span};
use super::tree::{self, Node, TextLimits, Value};
use super::{codes, keys};
use crate::graph::Graph;

/// Files that one flow may name, sub-flows and their files included.
pub const BUNDLE_FILES_MAX: usize = 10_000;
/// Problems of one report; of more, the first ones are told and the others counted. Fixed: who mends the first
/// ones sees the next.
pub const DIAGNOSTICS_MAX: usize = 200;

/// A flow, its sub-flows, prompt files and schemas, and what of the project it depends on.
///
/// Complete in itself: it compiles to the same graph whenever and wherever it is read again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bundle {
    /// Path of the main flow.
    pub root: String,
    /// Flows by path.
    pub flows: IndexMap<String, Json>,
    /// Prompt and script files by path.
    pub texts: IndexMap<String, String>,
    /// Schema files by path.
    pub schemas: IndexMap<String, Json>,
    /// Flows of the project that are called by name: name to path.
    pub project_flows: IndexMap<String, String>,
    /// `defaults` of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_defaults: Option<Json>,
    /// The tools that the flows name, as they were when it was loaded. `None`: nobody knew the tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<IndexMap<String, ToolInfo>>,
    #[serde(skip)]
    origin: Option<Arc<Origin>>,
}

/// What is known only when a bundle was just loaded: positions, and what there would be to choose from.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) sources: Sources,
    pub(crate) trees: IndexMap<String, Node>,
    pub(crate) text_files: BTreeMap<String, FileId>,
    pub(crate) unreadable: BTreeMap<String, ReadError>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) catalog: Option<Catalog>,
}

impl PartialEq for Bundle {
    fn eq(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Bundle {
    /// Reads a flow and all that it names. Problems of the text are kept for [`Bundle::check`], which reports them with the others;
    /// only a main flow that cannot be read at all is refused here.
    pub fn load(
        path: &str,
        source: &dyn Source,
        catalog: Option<Catalog>,
        limits: &TextLimits,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut loader = Loader::new(source, catalog, *limits);
        loader.run(path);
        let origin = loader.origin;
        if !origin.trees.contains_key(path) {
            return Err(report(origin.problems, &origin.sources));
        }
        let mut bundle = Self {
            root: path.to_owned(),
            flows: origin
                .trees
                .iter()
                .map(|(path, tree)| (path.clone(), tree.to_json()))
                .collect(),
            texts: loader.texts,
            schemas: loader.schemas,
            project_flows: loader.project_flows,
            project_defaults: origin
                .catalog
                .as_ref()
                .and_then(|catalog| catalog.defaults.clone()),
            tools: None,
            origin: None,
        };
        bundle.tools = origin
            .catalog
            .as_ref()
            .and_then(|catalog| catalog.tools.as_ref())
            .map(|tools| {
                let used = &loader.tools;
                tools
                    .iter()
                    .filter(|(name, _)| used.contains(*name))
                    .map(|(name, tool)| (name.clone(), tool.clone()))
                    .collect()
            });
        bundle.origin = Some(Arc::new(origin));
        Ok(bundle)
    }

    /// Reads a flow from text, without files.
    pub fn from_text(path: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let files = BTreeMap::from([(path.to_owned(), text.to_owned())]);
        Self::load(path, &files, None, &TextLimits::default())
    }

    /// Compiles to a graph, or says everything that is wrong.
    pub fn compile(&self) -> Result<Graph, Vec<Diagnostic>> {
        let Checked { graph, diagnostics } = self.check();
        graph.ok_or(diagnostics)
    }

    /// Compiles and keeps the warnings, too.
    pub fn check(&self) -> Checked {
        match &self.origin {
            Some(origin) => check(self, origin),
            None => check(self, &self.rebuild()),
        }
    }

    /// BLAKE3 of the canonical JSON, in hex.
    pub fn hash(&self) -> String {
        blake3::hash(self.canonical().as_bytes())
            .to_hex()
            .to_string()
    }

    /// The JSON that is hashed: keys in order, no blanks. The order of steps counts (a list runs by it, a map is shown by it), so
    /// only the bundle's own maps are sorted.
    fn canonical(&self) -> String {
        let mut flows: Vec<_> = self.flows.iter().collect();
        let mut texts: Vec<_> = self.texts.iter().collect();
        let mut schemas: Vec<_> = self.schemas.iter().collect();
        let mut projects: Vec<_> = self.project_flows.iter().collect();
        flows.sort_by_key(|(path, _)| *path);
        texts.sort();
        schemas.sort_by_key(|(path, _)| *path);
        projects.sort();
        let mut tools: Vec<_> = self.tools.iter().flatten().collect();
        tools.sort_by_key(|(name, _)| *name);
        serde_json::json!([
            self.root,
            flows,
            texts,
            schemas,
            projects,
            self.project_defaults,
            self.tools.is_some(),
            tools
        ])
        .to_string()
    }

    /// Trees for a bundle that was stored: positions are in its JSON.
    fn rebuild(&self) -> Origin {
        let mut origin = Origin::new(None);
        for (path, flow) in &self.flows {
            let text = serde_json::to_string_pretty(flow).unwrap_or_default();
            let file = origin.sources.add(path, &text);
            // A stored bundle was parsed under the limits of its time: no limit of today refuses it.
            let limits = TextLimits {
                file_bytes_max: usize::MAX,
                depth_max: tree::TREE_DEPTH_MAX * 2,
                nodes_max: usize::MAX,
            };
            let (node, problems) = tree::parse(file, "stored.json", &text, &limits);
            origin.problems.extend(problems);
            if let Some(node) = node {
                origin.trees.insert(path.clone(), node);
            }
        }
        for (path, text) in &self.texts {
            let file = origin.sources.add(path, text);
            origin.text_files.insert(path.clone(), file);
        }
        origin
    }

    /// True when it was just loaded from the user's files, so that places are lines of those.
    pub(crate) fn has_places(&self) -> bool {
        self.origin.is_some()
    }
}

impl Origin {
    fn new(catalog: Option<Catalog>) -> Self {
        Self {
            sources: Sources::default(),
            trees: IndexMap::new(),
            text_files: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            problems: Vec::new(),
            catalog,
        }
    }
}

/// Problems as a report: sorted by place, without those that only follow from another at the same place.
pub(crate) fn report(mut problems: Vec<Problem>, sources: &Sources) -> Vec<Diagnostic> {
    problems.sort_by(|left, right| {
        (left.span.file, left.span.start, left.code).cmp(&(
            right.span.file,
            right.span.start,
            right.code,
        ))
    });
    problems.dedup_by(|later, first| {
        later.span == first.span && (later.code == first.code || is_text(first))
    });
    let unshown = shorten(&mut problems);
    let mut report: Vec<Diagnostic> = problems
        .into_iter()
        .map(|problem| Diagnostic::new(problem, sources))
        .collect();
    report.dedup();
    if let (Some(last), true) = (report.last_mut(), unshown != Unshown::default()) {
        let count = unshown.errors + unshown.warnings;
        last.message
            .push_str(&format!("; and {count} more, which are not shown"));
        last.unshown = unshown;
    }
    report
}

/// Keeps the first problems, errors before warnings, in their order. Returns how many were dropped.
fn shorten(problems: &mut Vec<Problem>) -> Unshown {
    let mut unshown = Unshown::default();
    if problems.len() <= DIAGNOSTICS_MAX {
        return unshown;
    }
    let is_error = |problem: &Problem| problem.code.severity() == Severity::Error;
    let errors = problems.iter().filter(|problem| is_error(problem)).count();
    let mut room_of_errors = DIAGNOSTICS_MAX;
    let mut room_of_warnings = DIAGNOSTICS_MAX.saturating_sub(errors);
    problems.retain(|problem| {
        let room = if is_error(problem) {
            &mut room_of_errors
        } else {
            &mut room_of_warnings
        };
        let fits = *room > 0;
        *room = room.saturating_sub(1);
        let dropped = if is_error(problem) {
            &mut unshown.errors
        } else {
            &mut unshown.warnings
        };
        *dropped += usize::from(!fits);
        fits
    });
    unshown
}

/// Problems of the text itself: what else is wrong at their place follows from them.
fn is_text(problem: &Problem) -> bool {
    problem.code < codes::FILE
}

/// A path named in a file, as seen from where the root is named.
pub(crate) fn resolve(naming: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let mut parts: Vec<&str> = naming.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts
                .last()
                .is_some_and(|last| !last.is_empty() && *last != "..") =>
            {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

struct Loader<'a> {
    source: &'a dyn Source,
    limits: TextLimits,
    origin: Origin,
    texts: IndexMap<String, String>,
    schemas: IndexMap<String, Json>,
    project_flows: IndexMap<String, String>,
    tools: BTreeSet<String>,
    text_keys: BTreeSet<&'static str>,
    pending: Vec<String>,
}

impl<'a> Loader<'a> {
    fn new(source: &'a dyn Source, catalog: Option<Catalog>, limits: TextLimits) -> Self {
        Self {
            source,
            limits,
            origin: Origin::new(catalog),
            texts: IndexMap::new(),
            schemas: IndexMap::new(),
            project_flows: IndexMap::new(),
            tools: BTreeSet::new(),
            text_keys: keys::text_keys().into_iter().collect(),
            pending: Vec::new(),
        }
    }

    fn run(&mut self, root: &str) {
        self.pending.push(root.to_owned());
        while let Some(path) = self.pending.pop() {
            if self.origin.trees.contains_key(&path) || self.origin.unreadable.contains_key(&path) {
                continue;
            }
            let is_root = path == root;
            self.flow(&path, is_root);
        }
    }

    fn flow(&mut self, path: &str, is_root: bool) {
        let text = match self.read(path) {
            Ok(text) => text,
            Err(error) => {
                if is_root {
                    // There is no text to point at: the place is the start of an empty file of that name.
                    let file = self.origin.sources.add(path, "");
                    self.origin
                        .problems
                        .push(unreadable(path, &error, Span::new(file, 0, 0)));
                }
                self.origin.unreadable.insert(path.to_owned(), error);
                return;
            }
        };
        let file = self.origin.sources.add(path, &text);
        let (node, problems) = tree::parse(file, path, &text, &self.limits);
        let silent = problems.is_empty();
        self.origin.problems.extend(problems);
        match node {
            Some(node) => {
                self.discover(path, &node);
                self.origin.trees.insert(path.to_owned(), node);
            }
            None if silent => {
                let problem = Problem::new(
                    codes::DOCUMENTS,
                    Span::new(file, 0, 0),
                    "the file holds no flow",
                )
                .hint("a flow has at least `steps:`; `ravel init` writes a small one");
                self.origin.problems.push(problem);
                self.origin
                    .unreadable
                    .insert(path.to_owned(), ReadError::new("it holds no flow"));
            }
            None => {
                self.origin
                    .unreadable
                    .insert(path.to_owned(), ReadError::new("it cannot be parsed"));
            }
        }
    }

    fn read(&self, path: &str) -> Result<String, ReadError> {
        if self.origin.sources.len() >= BUNDLE_FILES_MAX {
            return Err(ReadError::new(format!(
                "more than {BUNDLE_FILES_MAX} files are named"
            )));
        }
        self.source.read(path)
    }

    /// Finds the files that a flow names.
    fn discover(&mut self, path: &str, node: &Node) {
        match &node.value {
            Value::Map(map) => {
                for (key, entry) in map {
                    self.named(path, key, &entry.node);
                    self.discover(path, &entry.node);
                }
            }
            Value::List(items) => items.iter().for_each(|item| self.discover(path, item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
        }
    }

    fn named(&mut self, naming: &str, key: &str, node: &Node) {
        match (key, &node.value) {
            ("flows", Value::Map(flows)) => {
                for entry in flows.values() {
                    if let Some(path) = entry.node.text() {
                        self.pending.push(resolve(naming, path));
                    }
                }
            }
            ("flow", Value::Text(name)) => {
                let project = self
                    .origin
                    .catalog
                    .as_ref()
                    .and_then(|catalog| catalog.flows.get(name))
                    .cloned();
                if let Some(path) = project {
                    self.pending.push(path.clone());
                    self.project_flows.insert(name.clone(), path);
                }
            }
            ("tool", Value::Text(name)) => {
                self.tools.insert(name.clone());
            }
            ("$ref", Value::Text(reference)) if !reference.starts_with('#') => {
                self.schema(naming, reference)
            }
            (key, Value::Map(map)) if self.text_keys.contains(key) => {
                if let Some(path) = map.get("file").and_then(|entry| entry.node.text())
                    && map.keys().all(|key| key == "file" || key == "with")
                {
                    self.text(&resolve(naming, path));
                }
            }
            (
                _,
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Text(_)
                | Value::List(_)
                | Value::Map(_),
            ) => {}
        }
    }

    fn text(&mut self, path: &str) {
        if self.texts.contains_key(path) || self.origin.unreadable.contains_key(path) {
            return;
        }
        match self.read(path) {
            Ok(text) => {
                let file = self.origin.sources.add(path, &text);
                self.origin.text_files.insert(path.to_owned(), file);
                self.texts.insert(path.to_owned(), text);
            }
            Err(error) => {
                self.origin.unreadable.insert(path.to_owned(), error);
            }
        }
    }

    fn schema(&mut self, naming: &str, reference: &str) {
        let path = resolve(naming, reference.split('#').next().unwrap_or(reference));
        if self.schemas.contains_key(&path) || self.origin.unreadable.contains_key(&path) {
            return;
        }
        let text = match self.read(&path) {
            Ok(text) => text,
            Err(error) => {
                self.origin.unreadable.insert(path, error);
                return;
            }
        };
        let file = self.origin.sources.add(&path, &text);
        let (node, problems) = tree::parse(file, &path, &text, &self.limits);
        self.origin.problems.extend(problems);
        match node {
            Some(node) => {
                self.schemas.insert(path, node.to_json());
            }
            None => {
                self.origin
                    .unreadable
                    .insert(path, ReadError::new("it cannot be parsed"));
            }
        }
    }
}

/// The problem of a file that cannot be read.
pub(crate) fn unreadable(path: &str, error: &ReadError, span: Span) -> Problem {
    // The file itself is no other one: that it is there is not what is wrong with it.
    let own = path.rsplit('/').next().unwrap_or(path);
    let others = error.near.iter().map(String::as_str);
    let hint = nearest_file(path, others.filter(|near| *near != own))
        .map(|near| format!("did you mean `{near}`?"));
    Problem::new(
        codes::FILE,
        span,
        format!("`{path}` cannot be read: {}", error.message),
    )
    .maybe_hint(hint)
}
