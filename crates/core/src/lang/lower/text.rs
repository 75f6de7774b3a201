//! Expressions and templates where they stand: parsed, their names resolved, kept for the checks that need types.

use std::ops::Range;

use indexmap::IndexMap;
use serde_json::Value as Json;

use super::inner::{Inner, inner_hint, inner_problem};
use super::slips::slip;
use super::{Cx, Lower, Owner};
use crate::expr::{
    Content, Expr, LeafError, Mode, Part, Quote, Ref, Shape, SyntaxError, Template, ValueTemplate,
};
use crate::graph::Text;
use crate::lang::bundle::{resolve, unreadable};
use crate::lang::diagnostic::{Problem, names, nearest, quoted};
use crate::lang::source::Span;
use crate::lang::tree::{Locator, Map, Node, Value, cut_text, locate};
use crate::lang::{codes, keys, secrets};
use crate::types::Type;

/// Index of a site.
pub(crate) type SiteId = u32;

/// What a place wants of the value.
#[derive(Debug, Clone)]
pub(crate) enum Want {
    /// Anything.
    Any,
    /// A boolean; the key is for the message.
    Condition(String),
    /// A list, or a map.
    Items,
    /// A value of a type; what it is for, in the message.
    Type {
        ty: Type,
        code: codes::Code,
        what: String,
    },
}

/// An expression, template or value, and what the checks need to know about it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) cx: Cx,
    pub(crate) want: Want,
    pub(crate) span: Span,
    /// For values: what was written, with the expressions still in it.
    pub(crate) json: Option<Json>,
    pub(crate) node: Node,
    pub(crate) exprs: Vec<SiteExpr>,
    /// Expressions that opt out of shell quoting.
    pub(crate) raw: Vec<(Shape, Span)>,
    /// Expressions that become a part of a program which a command runs.
    pub(crate) inner: Vec<Inner>,
}

/// One expression of a site.
#[derive(Debug)]
pub(crate) struct SiteExpr {
    /// Where in the value; empty for a bare expression.
    pub(crate) pointer: String,
    /// It gives its native type; false within text.
    pub(crate) native: bool,
    pub(crate) parts: Vec<Part>,
    /// The scalar it is written in, to map offsets to the source.
    pub(crate) text: Node,
}

/// Bytes of the longest scalar in which every problem of a long report has a place of its own: finding one reads the scalar.
const PLACED_BYTES_MAX: usize = 64 << 10;

impl Lower<'_> {
    pub(crate) fn at(&self, node: &Node, range: Range<usize>) -> Span {
        if node.span.range().len() > PLACED_BYTES_MAX && !self.wants_hints() {
            return node.span;
        }
        locate(self.source(node.span), node, range)
    }

    pub(crate) fn add_site(&mut self, site: Site) -> SiteId {
        let id = self.sites.len() as SiteId;
        match site.cx.owner {
            Owner::Step(step) => self.info_mut(step).sites.push(id),
            Owner::Flow(flow) => self.flow_sites.entry(flow).or_default().push(id),
        }
        self.sites.push(site);
        id
    }

    fn syntax_error(&mut self, node: &Node, error: &SyntaxError, code: codes::Code) {
        let span = self.at(node, error.offset..error.offset + error.length.max(1));
        let code = if error.message.starts_with("there is no ") {
            codes::UNKNOWN_FUNCTION
        } else {
            code
        };
        let hint = match (&error.hint, node.cut()) {
            (Some(hint), _) => Some(hint.clone()),
            (None, Some(_)) => Some(
                "` #` starts a comment and may have cut the expression: quote the whole of it"
                    .to_owned(),
            ),
            (None, None) => node.text().and_then(|text| slip(text, error.offset)),
        };
        self.problem(Problem::new(code, span, error.message.clone()).maybe_hint(hint));
    }

    fn references(&mut self, cx: Cx, node: &Node, refs: &[Ref]) {
        if refs.is_empty() {
            return;
        }
        let locator = Locator::new(self.source(node.span), node);
        for reference in refs {
            let span = locator.span(reference.at.clone());
            self.reference(cx, reference, span);
        }
    }

    /// A condition: one expression that must yield a boolean.
    pub(crate) fn condition(&mut self, cx: Cx, node: &Node, key: &str) -> Option<Expr> {
        let (expr, _) = self.bare(cx, node, key, Want::Condition(key.to_owned()))?;
        Some(expr)
    }

    /// A bare expression with what its place wants.
    pub(crate) fn bare(
        &mut self,
        cx: Cx,
        node: &Node,
        key: &str,
        want: Want,
    ) -> Option<(Expr, SiteId)> {
        let source = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Map(_) if self.looks_braced(node) => return None,
            Value::Null | Value::List(_) | Value::Map(_) => {
                self.shape(node, key, "an expression");
                return None;
            }
        };
        let expr = match Expr::parse(&source) {
            Ok(expr) => expr,
            Err(error) => {
                self.syntax_error(node, &error, codes::EXPRESSION);
                return None;
            }
        };
        self.references(cx, node, expr.refs());
        let text = SiteExpr {
            pointer: String::new(),
            native: true,
            parts: vec![only(&expr)],
            text: node.clone(),
        };
        let site = Site {
            cx,
            want,
            span: node.span,
            json: None,
            node: Node::made(Value::Null, node.span),
            exprs: vec![text],
            raw: Vec::new(),
            inner: Vec::new(),
        };
        let id = self.add_site(site);
        Some((expr, id))
    }

    /// Text that ` #` has cut off, and keys of services written into it.
    pub(crate) fn refuse_text(&mut self, node: &Node, free: bool) {
        let Some(text) = node.text() else { return };
        if let Some(at) = node.cut()
            && (free || text.contains(' '))
        {
            let problem = cut_text(self.source(node.span), text, node.span, at as usize);
            self.problem(problem);
        }
        if let Some((range, what)) = secrets::find(text) {
            let span = self.at(node, range);
            let problem = Problem::new(
                codes::PLAIN_SECRET,
                span,
                format!("this looks like {what} in plain text"),
            );
            self.problem(problem.hint("keep it in the environment or a file and read it as `{{ secrets.NAME }}` in `env` or headers"));
        }
    }

    /// A template that sees the names of its place.
    pub(crate) fn template(
        &mut self,
        cx: Cx,
        node: &Node,
        key: &str,
        mode: Mode,
    ) -> Option<Template> {
        let source = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Map(_) if self.looks_braced(node) => return None,
            Value::Null | Value::List(_) | Value::Map(_) => {
                self.shape(node, key, "text");
                return None;
            }
        };
        self.refuse_text(node, true);
        let template = self.parse_template(node, &source, mode)?;
        self.references(cx, node, template.refs());
        self.template_site(cx, node, &template);
        Some(template)
    }

    fn parse_template(&mut self, node: &Node, source: &str, mode: Mode) -> Option<Template> {
        let template = match Template::parse(source, mode) {
            Ok(template) => template,
            Err(error) => {
                self.syntax_error(node, &error, codes::EXPRESSION);
                return None;
            }
        };
        let programs = template.inner_programs();
        for place in template.hand_quoted() {
            let span = self.at(node, place.at.clone());
            let inside = match place.inside {
                Quote::Single | Quote::Double => {
                    "inside quotes in shell text, where it is quoted once more"
                }
                Quote::HereDocument => "in a here-document, where it is quoted once more",
                Quote::Comment => "in a comment of shell text, which its first newline ends",
                Quote::Backslash => {
                    "behind a backslash in shell text, which takes its quoting away"
                }
                Quote::Arithmetic => "inside `$(( ))` of shell text, which evaluates it",
                Quote::Dollar => {
                    "behind a `$` in shell text, which changes how its quotes are read"
                }
            };
            let problem =
                Problem::new(codes::HAND_QUOTED, span, format!("a value stands {inside}"));
            let hint = match programs.iter().find(|program| program.at == place.at) {
                Some(program) => inner_hint(&program.reader),
                None if place.inside == Quote::Dollar => "write `{{ }}` without the `$`".to_owned(),
                None => "leave the quotes out, every `{{ }}` becomes one word; for a part of a longer text hand it in by `env: { NAME: … }` and write \"$NAME\"".to_owned(),
            };
            self.problem(problem.hint(hint));
        }
        Some(template)
    }

    fn template_site(&mut self, cx: Cx, node: &Node, template: &Template) {
        if template.literal().is_some() {
            return;
        }
        let raw: Vec<(Shape, Span)> = template
            .raw_shell()
            .into_iter()
            .map(|shape| {
                let span = self.at(node, shape.at.clone());
                (shape, span)
            })
            .collect();
        let parts = template.parts();
        let inner = self.inner_programs(node, template, &parts);
        let text = SiteExpr {
            pointer: String::new(),
            native: false,
            parts,
            text: node.clone(),
        };
        let made = Node::made(Value::Null, node.span);
        self.add_site(Site {
            cx,
            want: Want::Any,
            span: node.span,
            json: None,
            node: made,
            exprs: vec![text],
            raw,
            inner,
        });
    }

    /// Text: a template, or `{file, with}`.
    pub(crate) fn text(&mut self, cx: Cx, node: &Node, key: &str, mode: Mode) -> Option<Text> {
        match &node.value {
            Value::Map(map) if map.contains_key("file") => self.file_text(cx, node, map, mode),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => {
                let template = self.template(cx, node, key, mode)?;
                Some(Text {
                    template,
                    with: None,
                    file: None,
                })
            }
        }
    }

    /// The content of the file of a `{file, with}`, as a node that spans it.
    pub(crate) fn file_node(&mut self, flow: usize, map: &Map) -> Option<(String, Node)> {
        let entry = map.get("file")?;
        let path = self.plain_text(&entry.node, "file")?;
        let path = resolve(&self.flows[flow].path, path);
        let (Some(text), Some(file)) = (
            self.bundle.texts.get(&path),
            self.origin.text_files.get(&path),
        ) else {
            let error = self.origin.unreadable.get(&path).cloned();
            let error = error.unwrap_or_else(|| crate::lang::ReadError::new("it was not read"));
            self.problem(unreadable(&path, &error, entry.node.span));
            return None;
        };
        let span = Span::new(*file, 0, text.len());
        let node = Node::made(Value::Text(text.clone()), span);
        Some((path, node))
    }

    fn file_text(&mut self, cx: Cx, node: &Node, map: &Map, mode: Mode) -> Option<Text> {
        self.table_map(node, &keys::FILE);
        let with = match map.get("with") {
            Some(entry) => self.values(cx, &entry.node, "with")?,
            None => IndexMap::new(),
        };
        let (path, content) = self.file_node(cx.flow, map)?;
        let source = content.text().unwrap_or_default().to_owned();
        let template = self.parse_template(&content, &source, mode)?;
        for reference in template
            .refs()
            .iter()
            .filter(|reference| !with.contains_key(reference.root.as_str()))
        {
            let span = self.at(&content, reference.at.clone());
            let known = || with.keys().map(|name| &**name);
            let hint = match nearest(&reference.root, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if with.is_empty() => format!(
                    "hand it in: `{{ file: …, with: {{ {0}: \"{{{{ {0} }}}}\" }} }}`",
                    reference.root
                ),
                None => format!(
                    "`with` has {}; a file's template sees nothing else",
                    names(known())
                ),
            };
            let message = format!("`with` hands no `{}` to this file", reference.root);
            self.problem(
                Problem::new(codes::UNKNOWN_NAME, span, message)
                    .related(node.span, "named here")
                    .hint(hint),
            );
        }
        for inner in self.inner_programs(&content, &template, &template.parts()) {
            self.problem(inner_problem(&inner.reader, inner.span).related(node.span, "named here"));
        }
        Some(Text {
            template,
            with: Some(with),
            file: Some(path.into()),
        })
    }

    /// A map of names to values.
    pub(crate) fn values(
        &mut self,
        cx: Cx,
        node: &Node,
        key: &str,
    ) -> Option<IndexMap<std::sync::Arc<str>, ValueTemplate>> {
        let map = self.map(node, key)?;
        let mut values = IndexMap::new();
        for (name, entry) in map {
            if let Some((value, _)) = self.value(cx, &entry.node, Want::Any, Places::default()) {
                values.insert(name.as_str().into(), value);
            }
        }
        Some(values)
    }

    /// A value in which every text is a template.
    pub(crate) fn value(
        &mut self,
        cx: Cx,
        node: &Node,
        want: Want,
        places: Places,
    ) -> Option<(ValueTemplate, SiteId)> {
        self.refuse_in_value(node);
        let json = node.to_json();
        let value = match self.parse_value(&json, places.url) {
            Ok(value) => value,
            Err(errors) => {
                for LeafError { pointer, error } in errors {
                    let leaf = at_pointer(node, &pointer).unwrap_or(node).clone();
                    self.syntax_error(&leaf, &error, codes::EXPRESSION);
                }
                return None;
            }
        };
        let mut exprs = Vec::new();
        for leaf in value.leaves() {
            let text = at_pointer(node, &leaf.pointer).unwrap_or(node).clone();
            let secrets = cx.secrets
                || places
                    .secrets_below
                    .is_some_and(|prefix| leaf.pointer.starts_with(prefix));
            self.references(Cx { secrets, ..cx }, &text, leaf.content.refs());
            let (native, parts) = match &leaf.content {
                Content::Expr(expr) => (true, vec![only(expr)]),
                Content::Text(template) => (false, template.parts()),
            };
            exprs.push(SiteExpr {
                pointer: leaf.pointer.clone(),
                native,
                parts,
                text,
            });
        }
        let site = Site {
            cx,
            want,
            span: node.span,
            json: Some(json),
            node: node.clone(),
            exprs,
            raw: Vec::new(),
            inner: Vec::new(),
        };
        let id = self.add_site(site);
        Some((value, id))
    }

    fn parse_value(&self, json: &Json, url: bool) -> Result<ValueTemplate, Vec<LeafError>> {
        if !url {
            return ValueTemplate::parse(json, Mode::Text);
        }
        ValueTemplate::parse_with(json, |pointer| {
            if pointer == "/url" {
                Mode::Url
            } else {
                Mode::Text
            }
        })
    }

    fn refuse_in_value(&mut self, node: &Node) {
        match &node.value {
            Value::Text(_) => self.refuse_text(node, false),
            Value::List(items) => items.iter().for_each(|item| self.refuse_in_value(item)),
            Value::Map(map) => {
                for (name, entry) in map {
                    self.refuse_named_secret(name, &entry.node);
                    self.refuse_in_value(&entry.node);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// `{{ x }}` without quotes: to YAML a map whose key is a map. The tree has said so and left it empty.
    pub(crate) fn looks_braced(&self, node: &Node) -> bool {
        node.map().is_some_and(Map::is_empty)
            && self.origin.sources.slice(node.span).starts_with("{{")
    }

    /// `password: hunter2hunter2`.
    pub(crate) fn refuse_named_secret(&mut self, name: &str, node: &Node) {
        if let Some(text) = node.text()
            && secrets::is_literal_secret(name, text)
        {
            let problem = Problem::new(
                codes::PLAIN_SECRET,
                node.span,
                format!("`{name}` holds a secret in plain text"),
            );
            self.problem(problem.hint(format!(
                "keep it in the environment or a file and write {}",
                quoted("{{ secrets.NAME }}")
            )));
        }
    }
}

/// An expression that stands alone.
fn only(expr: &Expr) -> Part {
    Part {
        shape: expr.shape(),
        binds: None,
    }
}

/// Places within a value that follow rules of their own.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Places {
    /// `/url` is a URL: its parts are percent-encoded.
    pub(crate) url: bool,
    /// Secrets may be read below this pointer.
    pub(crate) secrets_below: Option<&'static str>,
}

/// The node at a JSON pointer.
pub(crate) fn at_pointer<'n>(node: &'n Node, pointer: &str) -> Option<&'n Node> {
    let mut at = node;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        at = match &at.value {
            Value::Map(map) => &map.get(&part)?.node,
            Value::List(items) => items.get(part.parse::<usize>().ok()?)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => return None,
        };
    }
    Some(at)
}
