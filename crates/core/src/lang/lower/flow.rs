//! Flows: documents and the flows written in place below `flows:`.

use std::sync::Arc;

use indexmap::IndexMap;

use super::body::Host;
use super::foreign::foreign_document;
use super::{Cx, FrameId, FrameKind, Lower, NamedTypes, Owner};
use crate::graph::{BodyId, Budget, Catch};
use crate::lang::bundle::{resolve, unreadable};
use crate::lang::diagnostic::Problem;
use crate::lang::source::Span;
use crate::lang::tree::{Map, Node, Value};
use crate::lang::{codes, keys};
use crate::types::Type;

/// A flow while it is lowered.
#[derive(Debug)]
pub(crate) struct FlowState<'b> {
    /// The file it stands in.
    pub(crate) path: String,
    /// Names of the flows in place that lead to it from the file's own.
    inline: Vec<String>,
    /// The flow around it.
    outer: Option<usize>,
    pub(crate) name: Arc<str>,
    pub(crate) node: &'b Node,
    pub(crate) map: &'b Map,
    pub(crate) types: NamedTypes,
    pub(crate) input: Type,
    pub(crate) input_spans: IndexMap<String, Span>,
    inputs_read: Vec<String>,
    whole_input_read: bool,
    pub(crate) returns: Option<Type>,
    pub(crate) signals: IndexMap<Arc<str>, Type>,
    pub(crate) signals_used: Vec<String>,
    models: IndexMap<String, (String, Span)>,
    models_used: Vec<String>,
    flows_used: Vec<String>,
    /// `defaults:` of the flow over those of the project, by kind.
    pub(crate) defaults: IndexMap<String, Map>,
    pub(crate) frame: FrameId,
    pub(crate) body: Option<BodyId>,
    pub(crate) budget: Option<Budget>,
    pub(crate) deadline: Option<u64>,
    pub(crate) catch: Vec<Catch>,
    pub(crate) finally: Option<BodyId>,
    pub(crate) calls: Vec<Call>,
    pub(crate) has_return: bool,
}

/// A call of a flow by a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) callee: usize,
    pub(crate) bounded: bool,
    pub(crate) span: Span,
}

impl FlowState<'_> {
    pub(crate) fn read_input(&mut self, field: Option<&str>) {
        match field {
            Some(field) if self.inputs_read.iter().any(|read| read == field) => {}
            Some(field) => self.inputs_read.push(field.to_owned()),
            None => self.whole_input_read = true,
        }
    }

    pub(crate) fn unread_inputs(&self) -> Vec<(&String, Span)> {
        if self.whole_input_read {
            return Vec::new();
        }
        self.input_spans
            .iter()
            .filter(|(name, _)| !self.inputs_read.contains(name))
            .map(|(name, span)| (name, *span))
            .collect()
    }

    pub(crate) fn unused_models(&self) -> Vec<(&String, Span)> {
        self.models
            .iter()
            .filter(|(name, _)| !self.models_used.contains(name))
            .map(|(name, (_, span))| (name, *span))
            .collect()
    }
}

impl<'b> Lower<'b> {
    /// The flow of a whole file; made at first use.
    pub(crate) fn document_flow(&mut self, path: &str) -> Option<usize> {
        if let Some(known) = self
            .flows
            .iter()
            .position(|flow| flow.path == path && flow.inline.is_empty())
        {
            return Some(known);
        }
        let node = self.origin.trees.get(path)?;
        let stem = path.rsplit('/').next().unwrap_or(path);
        let stem = stem.split('.').next().unwrap_or(stem).to_owned();
        self.new_flow(path.to_owned(), Vec::new(), None, stem, node)
    }

    fn inline_flow(&mut self, outer: usize, name: &str, node: &'b Node) -> Option<usize> {
        let path = self.flows[outer].path.clone();
        let mut inline = self.flows[outer].inline.clone();
        inline.push(name.to_owned());
        if let Some(known) = self
            .flows
            .iter()
            .position(|flow| flow.path == path && flow.inline == inline)
        {
            return Some(known);
        }
        self.new_flow(path, inline, Some(outer), name.to_owned(), node)
    }

    fn new_flow(
        &mut self,
        path: String,
        inline: Vec<String>,
        outer: Option<usize>,
        name: String,
        node: &'b Node,
    ) -> Option<usize> {
        let Some(map) = node.map() else {
            let problem = Problem::new(
                codes::WRONG_SHAPE,
                node.span,
                format!("a flow is a map, and this is {}", node.what()),
            );
            self.problem(problem.hint("a flow has at least `steps:`"));
            return None;
        };
        if let Some(document) = foreign_document(map) {
            let message = format!("this is {}, not a flow", document.what);
            let span = map[document.key].key;
            self.problem(Problem::new(codes::WRONG_SHAPE, span, message).hint(document.hint));
            return None;
        }
        let id = self.flows.len();
        let frame = self.push_frame(None, FrameKind::Flow(id));
        let name = map
            .get("name")
            .and_then(|entry| entry.node.text())
            .map_or(name, str::to_owned);
        self.flows.push(FlowState {
            path,
            inline,
            outer,
            name: name.into(),
            node,
            map,
            types: NamedTypes::default(),
            input: Type::fields([]),
            input_spans: IndexMap::new(),
            inputs_read: Vec::new(),
            whole_input_read: false,
            returns: None,
            signals: IndexMap::new(),
            signals_used: Vec::new(),
            models: IndexMap::new(),
            models_used: Vec::new(),
            flows_used: Vec::new(),
            defaults: IndexMap::new(),
            frame,
            body: None,
            budget: None,
            deadline: None,
            catch: Vec::new(),
            finally: None,
            calls: Vec::new(),
            has_return: false,
        });
        self.header(id, map);
        Some(id)
    }

    /// What callers and the flow's own steps need to know before its steps are read.
    fn header(&mut self, id: usize, map: &'b Map) {
        self.known_keys(map, &[&keys::FLOW], "a flow");
        self.required_keys(map, &keys::FLOW, self.flows[id].node.span);
        if let Some(entry) = map.get("name")
            && let Some(name) = self.plain_text(&entry.node, "name")
        {
            self.good_flow_name(name, entry.node.span);
        }
        self.version(map);
        self.named_types(id, map);
        if let Some(entry) = map.get("input") {
            // A type that cannot be read stands for anything: what follows from it is not reported again.
            self.flows[id].input = self.read_fields(id, &entry.node).unwrap_or_else(Type::any);
            let fields = entry.node.map().into_iter().flatten();
            self.flows[id].input_spans = fields
                .map(|(name, entry)| (name.clone(), entry.key))
                .collect();
        }
        if let Some(entry) = map.get("returns") {
            self.flows[id].returns =
                Some(self.read_type(id, &entry.node).unwrap_or_else(Type::any));
        }
        if let Some(entry) = map.get("signals")
            && let Some(signals) = self.map(&entry.node, "signals")
        {
            for (name, entry) in signals {
                self.good_name(name, entry.key, "a signal");
                if let Some(ty) = self.read_type(id, &entry.node) {
                    self.flows[id].signals.insert(name.as_str().into(), ty);
                }
            }
        }
        if let Some(entry) = map.get("triggers") {
            self.triggers(&entry.node);
        }
        self.models(id, map);
        self.defaults(id, map);
        self.checked_flows(id, map);
    }

    /// Names of flows may have dashes and dots: they are never in expressions.
    fn good_flow_name(&mut self, name: &str, span: Span) {
        let good = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if !good || name.is_empty() {
            let message =
                format!("`{name}` is no name of a flow: letters, digits, `_`, `-` and `.`");
            self.problem(Problem::new(codes::BAD_NAME, span, message));
        }
    }

    fn version(&mut self, map: &Map) {
        let Some(entry) = map.get("ravel") else {
            return;
        };
        let known = match &entry.node.value {
            Value::Number(number) => number.as_u64() == Some(1),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => false,
        };
        if !known {
            let written = entry.node.to_json();
            let problem = Problem::new(
                codes::VERSION,
                entry.node.span,
                format!("version {written} of the language is not known here"),
            );
            self.problem(problem.hint("this version of Ravel reads `ravel: 1`"));
        }
    }

    fn named_types(&mut self, id: usize, map: &'b Map) {
        let Some(entry) = map.get("types") else {
            return;
        };
        let Some(types) = self.map(&entry.node, "types") else {
            return;
        };
        let entries: IndexMap<String, (Span, Node)> = types
            .iter()
            .map(|(name, entry)| (name.clone(), (entry.key, entry.node.clone())))
            .collect();
        for (name, (span, _)) in &entries {
            let good = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !name.starts_with(|c: char| c.is_ascii_digit());
            if !good || super::types::BASIC.contains(&name.as_str()) {
                let message = format!(
                    "`{name}` cannot name a type: letters, digits and `_`, and none of the basic types"
                );
                self.problem(Problem::new(codes::BAD_NAME, *span, message));
            }
        }
        self.flows[id].types = NamedTypes::new(entries.clone());
        // A type that nothing uses is still read, so that its mistakes are found.
        for (_, (_, node)) in entries {
            self.read_type(id, &node);
        }
    }

    fn models(&mut self, id: usize, map: &'b Map) {
        let Some(entry) = map.get("models") else {
            return;
        };
        let Some(models) = self.map(&entry.node, "models") else {
            return;
        };
        for (name, entry) in models {
            match &entry.node.value {
                Value::Text(target) => {
                    self.flows[id]
                        .models
                        .insert(name.clone(), (target.clone(), entry.key));
                }
                Value::Map(_) | Value::List(_) => {
                    let problem = Problem::new(
                        codes::NOT_AVAILABLE,
                        entry.node.span,
                        "routes among models are not available in this version",
                    );
                    self.problem(problem.hint("name one model: `provider/model`"));
                    self.flows[id]
                        .models
                        .insert(name.clone(), (name.clone(), entry.key));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {
                    self.shape(&entry.node, name, "a model's name");
                }
            }
        }
    }

    /// The model that a name stands for, by the aliases of the flow and those around it.
    pub(crate) fn model_name(&mut self, flow: usize, name: &str) -> String {
        let mut at = Some(flow);
        while let Some(id) = at {
            if let Some((target, _)) = self.flows[id].models.get(name) {
                let target = target.clone();
                self.flows[id].models_used.push(name.to_owned());
                return target;
            }
            at = self.flows[id].outer;
        }
        name.to_owned()
    }

    fn defaults(&mut self, id: usize, map: &'b Map) {
        let mut defaults = match self.flows[id].outer {
            Some(outer) => self.flows[outer].defaults.clone(),
            None => IndexMap::new(),
        };
        if self.flows[id].outer.is_none()
            && let Some(project) = &self.bundle.project_defaults
        {
            for (kind, keys) in project.as_object().into_iter().flatten() {
                defaults.insert(kind.clone(), made(keys, self.flows[id].node.span));
            }
        }
        if let Some(entry) = map.get("defaults")
            && let Some(kinds) = self.map(&entry.node, "defaults")
        {
            for (kind, entry) in kinds {
                let Some(known) = keys::KINDS.iter().find(|known| known.name == kind) else {
                    let near = crate::lang::diagnostic::nearest(
                        kind,
                        keys::KINDS.iter().map(|kind| kind.name),
                    );
                    let problem = Problem::new(
                        codes::UNKNOWN_KEY,
                        entry.key,
                        format!("`{kind}` is no kind of step"),
                    );
                    self.problem(
                        problem.maybe_hint(near.map(|near| format!("did you mean `{near}`?"))),
                    );
                    continue;
                };
                let Some(keys) = self.map(&entry.node, kind) else {
                    continue;
                };
                let common = if known.leaf {
                    &keys::LEAF
                } else {
                    &keys::SCOPE
                };
                self.known_keys(
                    keys,
                    &[&keys::ANY, common, known.table],
                    &format!("`{kind}`"),
                );
                let merged = defaults.entry(kind.clone()).or_insert_with(Map::new);
                for (key, entry) in keys {
                    merged.insert(key.clone(), entry.clone());
                }
            }
        }
        self.flows[id].defaults = defaults;
    }

    /// The flows in place and in files are read even if nothing calls them: their mistakes count.
    fn checked_flows(&mut self, id: usize, map: &'b Map) {
        let Some(entry) = map.get("flows") else {
            return;
        };
        let Some(flows) = self.map(&entry.node, "flows") else {
            return;
        };
        for (name, entry) in flows {
            self.good_flow_name(name, entry.key);
            match &entry.node.value {
                Value::Text(path) => {
                    let path = resolve(&self.flows[id].path, path);
                    if self.document_flow(&path).is_none() && !self.origin.trees.contains_key(&path)
                    {
                        self.missing_flow_file(&path, entry.node.span);
                    }
                }
                Value::Map(_) => {
                    self.inline_flow(id, name, &entry.node);
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) => {
                    self.shape(&entry.node, name, "a path, or a flow");
                }
            }
        }
    }

    fn missing_flow_file(&mut self, path: &str, span: Span) {
        let error = self.origin.unreadable.get(path).cloned();
        let error = error.unwrap_or_else(|| crate::lang::ReadError::new("it was not read"));
        self.problem(unreadable(path, &error, span));
    }

    /// The flow that a name means where it is called.
    pub(crate) fn find_flow(&mut self, flow: usize, name: &str, span: Span) -> Option<usize> {
        let mut at = Some(flow);
        let mut known: Vec<String> = Vec::new();
        while let Some(id) = at {
            let map = self.flows[id].map;
            let flows = map.get("flows").and_then(|entry| entry.node.map());
            if let Some(entry) = flows.and_then(|flows| flows.get(name)) {
                self.flows[id].flows_used.push(name.to_owned());
                return match &entry.node.value {
                    Value::Text(path) => {
                        let path = resolve(&self.flows[id].path, path);
                        self.document_flow(&path)
                    }
                    Value::Map(_) => self.inline_flow(id, name, &entry.node),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) => None,
                };
            }
            if *self.flows[id].name == *name {
                return Some(id);
            }
            known.extend(flows.into_iter().flatten().map(|(name, _)| name.clone()));
            known.push(self.flows[id].name.to_string());
            at = self.flows[id].outer;
        }
        if let Some(path) = self.bundle.project_flows.get(name).cloned() {
            let found = self.document_flow(&path);
            if found.is_none() {
                self.missing_flow_file(&path, span);
            }
            return found;
        }
        known.extend(
            self.origin
                .catalog
                .iter()
                .flat_map(|catalog| catalog.flows.keys().cloned()),
        );
        let near = crate::lang::diagnostic::nearest(name, known.iter().map(String::as_str));
        let hint = match (path_of_flow(name), near) {
            (Some(stem), _) => format!(
                "a flow of another file is called by a name: `flows: {{ {stem}: {name} }}` at the top of this file, and here `flow: {stem}`"
            ),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => format!("add it to the file: `flows: {{ {name}: {name}.yaml }}`"),
        };
        self.problem(
            Problem::new(
                codes::UNKNOWN_FLOW,
                span,
                format!("there is no flow `{name}`"),
            )
            .hint(hint),
        );
        None
    }

    pub(crate) fn unused_flows(&self, id: usize) -> Vec<(&String, Span)> {
        let flows = self.flows[id]
            .map
            .get("flows")
            .and_then(|entry| entry.node.map());
        let used = &self.flows[id].flows_used;
        flows
            .into_iter()
            .flatten()
            .filter(|(name, _)| !used.contains(name))
            .map(|(name, entry)| (name, entry.key))
            .collect()
    }

    pub(crate) fn unused_signals(&self, id: usize) -> Vec<(&String, Span)> {
        let signals = self.flows[id]
            .map
            .get("signals")
            .and_then(|entry| entry.node.map());
        let used = &self.flows[id].signals_used;
        signals
            .into_iter()
            .flatten()
            .filter(|(name, _)| !used.contains(name))
            .map(|(name, entry)| (name, entry.key))
            .collect()
    }

    /// Steps, output, handlers.
    pub(crate) fn lower_flow(&mut self, id: usize) {
        let map = self.flows[id].map;
        let frame = self.flows[id].frame;
        let host = Host {
            flow: id,
            owner: Owner::Flow(id),
            frame,
        };
        let output = map.get("output").map(|entry| &entry.node);
        let body = map
            .get("steps")
            .and_then(|entry| self.body(host, &entry.node, output));
        self.flows[id].body = body;
        if let Some(entry) = map.get("budget") {
            self.flows[id].budget = self.budget(&entry.node);
        }
        if let Some(entry) = map.get("deadline") {
            self.flows[id].deadline = self.time_limit(&entry.node, "deadline");
        }
        let inner = body.map_or(frame, |body| self.body_info[body.0 as usize].frame);
        let cx = Cx {
            flow: id,
            owner: Owner::Flow(id),
            frame: inner,
            late: true,
            secrets: false,
            output_of: None,
        };
        if let Some(entry) = map.get("catch") {
            self.flows[id].catch = self.catch(cx, &entry.node);
        }
        if let Some(entry) = map.get("finally") {
            let host = Host {
                frame: inner,
                ..host
            };
            self.flows[id].finally = self.body(host, &entry.node, None);
        }
    }
}

/// A map made from JSON, all of it at one place.
fn made(json: &serde_json::Value, span: Span) -> Map {
    fn node(json: &serde_json::Value, span: Span) -> Node {
        use serde_json::Value as Json;
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::Number(number.clone()),
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(items) => Value::List(items.iter().map(|item| node(item, span)).collect()),
            Json::Object(_) => Value::Map(made(json, span)),
        };
        Node::made(value, span)
    }
    json.as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            (
                key.clone(),
                crate::lang::tree::Entry {
                    key: span,
                    node: node(value, span),
                },
            )
        })
        .collect()
}

/// The name that a flow could have which is called by its path.
fn path_of_flow(name: &str) -> Option<String> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = [".yaml", ".yml", ".json"]
        .iter()
        .find_map(|end| file.strip_suffix(end));
    let stem = match stem {
        Some(stem) => stem,
        None if name.contains('/') => file,
        None => return None,
    };
    let plain = |sign: char| {
        if sign.is_ascii_alphanumeric() {
            sign.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    Some(stem.chars().map(plain).collect())
}
