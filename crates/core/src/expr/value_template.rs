//! JSON whose text leaves are templates.

use std::fmt;

use serde_json::{Map, Value};

use super::draws::Draws;
use super::scope::{EvalError, Scope, SyntaxError};
use super::template::{Mode, Template};
use super::{Expr, Limits, Ref, parse};
use crate::value::Val;

/// The key whose value is taken as it is written.
const LITERAL: &str = "literal";

/// A JSON value whose text leaves are evaluated.
///
/// A leaf that is exactly one `{{ }}` keeps its native type; `{literal: …}` stands for what it holds, untouched.
#[derive(Debug)]
pub struct ValueTemplate {
    shape: Part,
    leaves: Vec<Leaf>,
    refs: Vec<Ref>,
}

#[derive(Debug)]
enum Part {
    Constant(Val),
    Leaf(usize),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// A leaf that is evaluated.
#[derive(Debug)]
pub struct Leaf {
    /// JSON pointer to it.
    pub pointer: String,
    /// What it is.
    pub content: Content,
}

/// What a leaf is.
#[derive(Debug)]
pub enum Content {
    /// Exactly one `{{ }}`: any type.
    Expr(Expr),
    /// Text with tags: always a text.
    Text(Template),
}

impl Content {
    /// Its references.
    pub fn refs(&self) -> &[Ref] {
        match self {
            Self::Expr(expr) => expr.refs(),
            Self::Text(text) => text.refs(),
        }
    }
}

/// A mistake in a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafError {
    /// JSON pointer to the leaf.
    pub pointer: String,
    /// The mistake; its offset is in the leaf's text.
    pub error: SyntaxError,
}

impl fmt::Display for LeafError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl std::error::Error for LeafError {}

impl ValueTemplate {
    /// Parses a value; text leaves that are not one `{{ }}` are templates of `mode`.
    ///
    /// All mistakes are reported, in the order of the value.
    pub fn parse(value: &Value, mode: Mode) -> Result<Self, Vec<LeafError>> {
        Self::parse_with(value, |_| mode)
    }

    /// The same with the mode of each text by its pointer: one field of a request may be a URL.
    pub fn parse_with(value: &Value, mode: impl Fn(&str) -> Mode) -> Result<Self, Vec<LeafError>> {
        let mut parser = Parser {
            mode: &mode,
            leaves: Vec::new(),
            errors: Vec::new(),
        };
        let shape = parser.part(value, &mut String::new());
        if !parser.errors.is_empty() {
            return Err(parser.errors);
        }
        let refs = parser
            .leaves
            .iter()
            .flat_map(|leaf| leaf.content.refs())
            .cloned()
            .collect();
        Ok(Self {
            shape,
            leaves: parser.leaves,
            refs,
        })
    }

    /// A value without anything to evaluate.
    pub fn constant(value: Value) -> Self {
        Self {
            shape: Part::Constant(Val::new(value)),
            leaves: Vec::new(),
            refs: Vec::new(),
        }
    }

    /// The same value under other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.leaves = self
            .leaves
            .into_iter()
            .map(|leaf| leaf.with_limits(limits))
            .collect();
        self
    }

    /// Every reference of every leaf.
    pub fn refs(&self) -> &[Ref] {
        &self.refs
    }

    /// The leaves that are evaluated, in the order of the value.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The value, if there is nothing to evaluate in it.
    pub fn literal(&self) -> Option<&Val> {
        match &self.shape {
            Part::Constant(value) => Some(value),
            Part::Leaf(_) | Part::List(_) | Part::Object(_) => None,
        }
    }

    /// The reference, if the whole value is one path and nothing else.
    pub fn as_reference(&self) -> Option<&Ref> {
        self.as_expr().and_then(Expr::as_reference)
    }

    /// The expression, if the whole value is one `{{ }}`.
    pub fn as_expr(&self) -> Option<&Expr> {
        match (&self.shape, &self.leaves[..]) {
            (
                Part::Leaf(_),
                [
                    Leaf {
                        content: Content::Expr(expr),
                        ..
                    },
                ],
            ) => Some(expr),
            _ => None,
        }
    }

    /// The parts of an object, if the value is written as one: `(name, its references, its constant value)`.
    pub fn field_names(&self) -> Vec<&str> {
        match &self.shape {
            Part::Object(fields) => fields.iter().map(|(name, _)| name.as_str()).collect(),
            Part::Constant(value) => value
                .json()
                .as_object()
                .map(|fields| fields.keys().map(String::as_str).collect())
                .unwrap_or_default(),
            Part::Leaf(_) | Part::List(_) => Vec::new(),
        }
    }

    /// Evaluates it.
    pub fn eval(&self, scope: &dyn Scope, draws: &mut Draws<'_>) -> Result<Value, EvalError> {
        self.part(&self.shape, scope, draws)
    }

    /// Evaluates it to a shared value; a constant or a reference to a whole value is not copied.
    pub fn eval_val(&self, scope: &dyn Scope, draws: &mut Draws<'_>) -> Result<Val, EvalError> {
        match (&self.shape, self.as_expr()) {
            (Part::Constant(value), _) => Ok(value.clone()),
            (_, Some(expr)) => expr.eval_val(scope, draws),
            (shape, None) => self.part(shape, scope, draws).map(Val::new),
        }
    }

    fn part(
        &self,
        part: &Part,
        scope: &dyn Scope,
        draws: &mut Draws<'_>,
    ) -> Result<Value, EvalError> {
        match part {
            Part::Constant(value) => Ok(value.json().clone()),
            Part::Leaf(index) => {
                let leaf = &self.leaves[*index];
                let value = match &leaf.content {
                    Content::Expr(expr) => expr.eval(scope, draws),
                    Content::Text(text) => text.eval(scope, draws),
                };
                value.map_err(|error| error.below(&leaf.pointer))
            }
            Part::List(items) => items
                .iter()
                .map(|item| self.part(item, scope, draws))
                .collect(),
            Part::Object(fields) => {
                let mut object = Map::new();
                for (name, field) in fields {
                    object.insert(name.clone(), self.part(field, scope, draws)?);
                }
                Ok(Value::Object(object))
            }
        }
    }
}

impl Leaf {
    fn with_limits(self, limits: Limits) -> Self {
        let content = match self.content {
            Content::Expr(expr) => Content::Expr(expr.with_limits(limits)),
            Content::Text(text) => Content::Text(text.with_limits(limits)),
        };
        Self {
            pointer: self.pointer,
            content,
        }
    }
}

struct Parser<'m> {
    mode: &'m dyn Fn(&str) -> Mode,
    leaves: Vec<Leaf>,
    errors: Vec<LeafError>,
}

impl Parser<'_> {
    fn part(&mut self, value: &Value, pointer: &mut String) -> Part {
        match value {
            Value::String(text) if parse::has_tags(text) => self.leaf(text, pointer),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Part::Constant(Val::new(value.clone()))
            }
            Value::Array(items) => {
                let mut parts = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    parts.push(self.below(&index.to_string(), item, pointer));
                }
                if parts.iter().all(|part| matches!(part, Part::Constant(_))) {
                    return Part::Constant(Val::new(parts.into_iter().map(constant).collect()));
                }
                Part::List(parts)
            }
            Value::Object(fields) => self.object(fields, pointer),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, pointer: &mut String) -> Part {
        if let (1, Some(value)) = (fields.len(), fields.get(LITERAL)) {
            return Part::Constant(Val::new(value.clone()));
        }
        let mut parts = Vec::with_capacity(fields.len());
        for (name, field) in fields {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            parts.push((name.clone(), self.below(&escaped, field, pointer)));
        }
        if parts
            .iter()
            .all(|(_, part)| matches!(part, Part::Constant(_)))
        {
            let fields = parts.into_iter().map(|(name, part)| (name, constant(part)));
            return Part::Constant(Val::new(Value::Object(fields.collect())));
        }
        Part::Object(parts)
    }

    fn below(&mut self, name: &str, value: &Value, pointer: &mut String) -> Part {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(name);
        let part = self.part(value, pointer);
        pointer.truncate(length);
        part
    }

    fn leaf(&mut self, text: &str, pointer: &str) -> Part {
        let content = match Expr::parse_tag(text) {
            Ok(Some(expr)) => Ok(Content::Expr(expr)),
            Ok(None) => Template::parse(text, (self.mode)(pointer)).map(Content::Text),
            Err(error) => Err(error),
        };
        match content {
            Ok(content) => {
                self.leaves.push(Leaf {
                    pointer: pointer.to_owned(),
                    content,
                });
                Part::Leaf(self.leaves.len() - 1)
            }
            Err(error) => {
                self.errors.push(LeafError {
                    pointer: pointer.to_owned(),
                    error,
                });
                Part::Constant(Val::null())
            }
        }
    }
}

fn constant(part: Part) -> Value {
    match part {
        Part::Constant(value) => value.into_json(),
        Part::Leaf(_) | Part::List(_) | Part::Object(_) => Value::Null,
    }
}
