//! Expressions and templates: the one expression language of flows.
//!
//! The grammar is Jinja's, read by minijinja's parser; the rules of evaluation are ours and stricter (see
//! `docs/expressions.md`): a value that is not there is an error or an absence, never an empty text; unlike types
//! have no order; a condition is a boolean. That is why the tree is evaluated here, over borrowed JSON, and only the
//! long tail of pure filters is minijinja's.
//!
//! ```text
//! source --parse--> minijinja's tree --lower--> ast (names resolved, refs collected) --eval/render--> value
//! ```
//!
//! Invariants: evaluation is a function of the source, the scope and the draws; it never depends on time, randomness
//! or hash order; it ends within its fuel. Deliberately absent: includes and imports, macros, methods on values,
//! regular expressions, HTML escaping.

mod arena;
mod ast;
mod draws;
mod eval;
mod filters;
mod functions;
mod hint;
mod inner;
mod json;
mod lower;
mod ops;
mod parse;
mod path;
mod predicates;
mod quote;
mod render;
mod scope;
mod shape;
mod template;
mod value_template;

#[cfg(test)]
mod suite;

use std::fmt;
use std::ops::Range;

use serde_json::Value;

pub use ast::{CompareOp, MathOp};
pub use draws::{DrawKind, DrawSource, Draws, SeededDraws};
pub use eval::VALUE_DEPTH_MAX;
pub(crate) use inner::inner_words;
pub(crate) use json::is_too_large;
pub use json::{JsonError, exact_json};
pub(crate) use ops::order_numbers;
pub(crate) use parse::has_tags;
pub use parse::{BLOCK_DEPTH_MAX, SOURCE_BYTES_MAX, TAG_TOKENS_MAX, TAGS_MAX};
pub use quote::{HandQuoted, InnerProgram, Quote};
pub use scope::{EmptyScope, EvalError, Lookup, ObjectScope, Scope, SyntaxError};
pub use shape::{Form, Shape, ValueKind, comparable};
pub use template::{Binding, Mode, Part, Template};
pub use value_template::{Content, Leaf, LeafError, ValueTemplate};

use self::ast::{Kind, Node, Unit};
use self::eval::{Given, Item, demand, with_evaluator};
use crate::value::Val;

/// Operations of one evaluation: a node, an item of a loop, a field that is copied.
pub const FUEL_MAX: u64 = 2_000_000;
/// Bytes of a rendered text.
pub const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// What one evaluation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Operations; see [`FUEL_MAX`].
    pub fuel: u64,
    /// Bytes of a rendered text; see [`OUTPUT_BYTES_MAX`].
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: FUEL_MAX,
            output_bytes: OUTPUT_BYTES_MAX,
        }
    }
}

/// A reference: a name of the scope and the static steps below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ref {
    /// The name.
    pub root: String,
    /// Fields and indexes below it, up to the first computed one.
    pub path: Vec<PathStep>,
    /// A guard (`is defined`, `default`, `first_of`) takes its absence, here or by a condition around it.
    pub guarded: bool,
    /// The conditions around it, as written, that hold where it is evaluated.
    pub under: Vec<String>,
    /// Bytes in the source.
    pub at: Range<usize>,
}

impl Ref {
    /// The first field below the root.
    pub fn member(&self) -> Option<&str> {
        match self.path.first() {
            Some(PathStep::Key(key)) => Some(key),
            Some(PathStep::Index(_)) | None => None,
        }
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        self.path.iter().try_for_each(|step| write!(f, "{step}"))
    }
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// A field.
    Key(String),
    /// A position; negative ones count from the end.
    Index(i64),
}

impl fmt::Display for PathStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, ".{key}"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A parsed expression.
#[derive(Debug)]
pub struct Expr {
    source: String,
    node: Node,
    unit: Unit,
    limits: Limits,
}

impl Expr {
    /// Parses a bare expression, or one written as exactly one `{{ }}`.
    pub fn parse(source: &str) -> Result<Self, SyntaxError> {
        let (node, unit) = parse::expression(source)?;
        Ok(Self {
            source: source.to_owned(),
            node,
            unit,
            limits: Limits::default(),
        })
    }

    /// The expression of a text that is exactly one `{{ }}`; `None` for any other text.
    pub fn parse_tag(source: &str) -> Result<Option<Self>, SyntaxError> {
        let found = parse::single_tag(source)?;
        Ok(found.map(|(node, unit)| Self {
            source: source.to_owned(),
            node,
            unit,
            limits: Limits::default(),
        }))
    }

    /// The same expression under other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What was parsed.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Every reference, in the order of the source; one entry per occurrence.
    pub fn refs(&self) -> &[Ref] {
        &self.unit.refs
    }

    /// The names that have a value where the expression, a bare one, is true.
    pub fn known(&self) -> Vec<String> {
        parse::known(&self.source)
    }

    /// The reference, if the expression is one path and nothing else.
    pub fn as_reference(&self) -> Option<&Ref> {
        match &self.node.kind {
            Kind::Path { reference, .. } => Some(&self.unit.refs[*reference]),
            _ => None,
        }
    }

    /// The value, if the expression is a constant.
    pub fn literal(&self) -> Option<&Value> {
        match &self.node.kind {
            Kind::Const(value) => Some(value),
            _ => None,
        }
    }

    /// What the expression is made of.
    pub fn shape(&self) -> Shape {
        Shape::new(&self.node, &self.unit)
    }

    /// Evaluates it.
    pub fn eval(&self, scope: &dyn Scope, draws: &mut Draws<'_>) -> Result<Value, EvalError> {
        match &self.node.kind {
            Kind::Const(value) => Ok(value.clone()),
            Kind::Path { .. } => self.path(scope, |_, value| value.clone()),
            _ => self.evaluate(scope, draws, false, |value| Ok(value.clone())),
        }
    }

    /// Evaluates it to a shared value; a reference to a whole value is not copied.
    pub fn eval_val(&self, scope: &dyn Scope, draws: &mut Draws<'_>) -> Result<Val, EvalError> {
        match &self.node.kind {
            Kind::Path { .. } => self.path(scope, |whole, value| {
                if std::ptr::eq(whole.json(), value) {
                    whole.clone()
                } else {
                    Val::new(value.clone())
                }
            }),
            _ => self.eval(scope, draws).map(Val::new),
        }
    }

    /// Evaluates a condition: anything but a boolean is an error, also as an operand of `and`, `or`, `not`, `if`.
    pub fn eval_bool(&self, scope: &dyn Scope, draws: &mut Draws<'_>) -> Result<bool, EvalError> {
        let boolean = |value: &Value| match value {
            Value::Bool(value) => Ok(*value),
            other => {
                let message = format!(
                    "a condition must be true or false, not {}",
                    ops::a_kind(other)
                );
                Err(eval::fail(self.node.at, message))
            }
        };
        match &self.node.kind {
            Kind::Const(value) => boolean(value),
            Kind::Path { .. } => self.path(scope, |_, value| boolean(value))?,
            _ => self.evaluate(scope, draws, true, boolean),
        }
    }

    fn evaluate<T>(
        &self,
        scope: &dyn Scope,
        draws: &mut Draws<'_>,
        strict: bool,
        take: impl FnOnce(&Value) -> Result<T, EvalError>,
    ) -> Result<T, EvalError> {
        let given = Given {
            unit: &self.unit,
            scope,
            draws,
            limits: self.limits,
            strict,
        };
        with_evaluator(given, &self.node, |evaluator, node| {
            match evaluator.item(node)? {
                Item::Value(value) => take(value),
                item => Err(demand(item)),
            }
        })
    }

    /// The short way for an expression that is one path: no evaluator, no allocation.
    fn path<T>(
        &self,
        scope: &dyn Scope,
        take: impl FnOnce(&Val, &Value) -> T,
    ) -> Result<T, EvalError> {
        let (root, reference) = (&self.unit.roots[0], &self.unit.refs[0]);
        let at = self.node.at;
        let (found, taken) = path::look_up(scope, root);
        match found {
            Lookup::Value(whole) => {
                let (mut value, mut char);
                value = whole.json();
                for step in &reference.path[taken..] {
                    value = match path::step_into(value, step) {
                        Some(next) => next,
                        None => {
                            let found = path::character(value, step);
                            char = found.ok_or_else(|| eval::fail(at, path::lacks(value, step)))?;
                            &char
                        }
                    };
                }
                Ok(take(&whole, value))
            }
            Lookup::Absent { step } => Err(EvalError::Absent { step }),
            Lookup::Members => Err(demand(Item::Members(&root.name, at))),
            Lookup::Unknown => Err(eval::fail(at, path::unknown(root))),
        }
    }
}
