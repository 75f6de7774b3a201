//! What an expression is made of, for static checks.

use std::ops::Range;

use serde_json::Value;

use super::ast::{Args, CompareOp, Kind, MathOp, Node, Unit};
use super::{PathStep, Ref};

/// What is known about the kind of a value without looking at types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Nothing.
    Any,
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// A text.
    String,
    /// A list.
    List,
    /// An object.
    Object,
}

impl ValueKind {
    /// The kind of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }

    /// Its name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::List => "list",
            Self::Object => "object",
        }
    }
}

/// A part of an expression and where it stands in the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Bytes in the source.
    pub at: Range<usize>,
    /// What it is.
    pub form: Form,
}

/// What a part of an expression is.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// A reference.
    Path(Ref),
    /// A constant.
    Literal(Value),
    /// A variable of the template, or a field of `loop`.
    Variable,
    /// Static steps below something that is no reference.
    Below {
        /// What they start at.
        of: Box<Shape>,
        /// The steps.
        steps: Vec<PathStep>,
    },
    /// `left op right`; a chain `a < b < c` comes as [`Form::All`] of its pairs.
    Compare {
        /// The operator.
        op: CompareOp,
        /// Its left side.
        left: Box<Shape>,
        /// Its right side.
        right: Box<Shape>,
    },
    /// `not x`
    Not(Box<Shape>),
    /// `x and y and …`
    All(Vec<Shape>),
    /// `x or y or …`
    Any(Vec<Shape>),
    /// `x is defined` (`wanted`) or `x is undefined`.
    Defined {
        /// What is asked about.
        of: Box<Shape>,
        /// False for `is undefined`.
        wanted: bool,
    },
    /// `value | default(other)`
    Default {
        /// The guarded value.
        value: Box<Shape>,
        /// What stands in for it.
        other: Box<Shape>,
    },
    /// `first_of(…)`
    FirstOf(Vec<Shape>),
    /// `then if test else otherwise`
    If {
        /// The condition.
        test: Box<Shape>,
        /// The value when it holds.
        then: Box<Shape>,
        /// The value when it does not.
        otherwise: Option<Box<Shape>>,
    },
    /// Arithmetic.
    Math {
        /// The operator.
        op: MathOp,
        /// Its left side.
        left: Box<Shape>,
        /// Its right side.
        right: Box<Shape>,
    },
    /// `-x`
    Negate(Box<Shape>),
    /// `input | name(args)`
    Filter {
        /// The filter.
        name: &'static str,
        /// What it gives.
        returns: ValueKind,
        /// What it is applied to.
        input: Box<Shape>,
        /// Its arguments.
        args: Vec<Shape>,
    },
    /// `input is name(args)`
    Test {
        /// The test.
        name: &'static str,
        /// What is tested.
        input: Box<Shape>,
        /// Its arguments.
        args: Vec<Shape>,
    },
    /// `name(args)`
    Call {
        /// The function.
        name: &'static str,
        /// What it gives.
        returns: ValueKind,
        /// Its arguments.
        args: Vec<Shape>,
    },
    /// `[…]`
    List(Vec<Shape>),
    /// `{…}`
    Object(Vec<(Shape, Shape)>),
    /// Anything else (computed subscripts, slices, `loop.cycle`) over these parts.
    Other(Vec<Shape>),
}

impl Shape {
    /// What kind of value this gives, as far as the expression alone tells.
    pub fn kind(&self) -> ValueKind {
        match &self.form {
            Form::Literal(value) => ValueKind::of(value),
            Form::Compare { .. } | Form::Not(_) | Form::Defined { .. } | Form::Test { .. } => {
                ValueKind::Boolean
            }
            Form::All(parts) | Form::Any(parts) | Form::FirstOf(parts) => common(parts.iter()),
            Form::Default { value, other } => common([value.as_ref(), other].into_iter()),
            Form::If {
                then, otherwise, ..
            } => common(
                [then]
                    .into_iter()
                    .chain(otherwise.as_ref())
                    .map(Box::as_ref),
            ),
            Form::Math {
                op: MathOp::Concat, ..
            } => ValueKind::String,
            Form::Math {
                op: MathOp::Divide | MathOp::Subtract,
                ..
            } => ValueKind::Number,
            Form::Math { left, .. } => match left.kind() {
                ValueKind::Integer => ValueKind::Number,
                kind => kind,
            },
            Form::Negate(_) => ValueKind::Number,
            Form::Filter { returns, .. } | Form::Call { returns, .. } => *returns,
            Form::List(_) => ValueKind::List,
            Form::Object(_) => ValueKind::Object,
            Form::Path(_) | Form::Variable | Form::Below { .. } | Form::Other(_) => ValueKind::Any,
        }
    }

    pub(crate) fn new(node: &Node, unit: &Unit) -> Self {
        let shape = |node: &Node| Self::new(node, unit);
        let boxed = |node: &Node| Box::new(Self::new(node, unit));
        let all = |nodes: &[Node]| nodes.iter().map(shape).collect::<Vec<_>>();
        let form = match &node.kind {
            Kind::Const(value) => Form::Literal(value.clone()),
            Kind::Path { reference, .. } => Form::Path(unit.refs[*reference].clone()),
            Kind::Local(_) | Kind::Loop { .. } => Form::Variable,
            Kind::Walk(of, steps) => Form::Below {
                of: boxed(of),
                steps: steps.clone(),
            },
            Kind::Subscript(base, key) => Form::Other(vec![shape(base), shape(key)]),
            Kind::Slice {
                value,
                start,
                stop,
                step,
            } => {
                let bounds = [start, stop, step].into_iter().flatten();
                Form::Other(
                    [value]
                        .into_iter()
                        .chain(bounds)
                        .map(|node| shape(node))
                        .collect(),
                )
            }
            Kind::Not(inner) => Form::Not(boxed(inner)),
            Kind::Negate(inner) => Form::Negate(boxed(inner)),
            Kind::And(left, right) => {
                Form::All(joined(shape(left), shape(right), |form| match form {
                    Form::All(parts) => Ok(parts),
                    form => Err(form),
                }))
            }
            Kind::Or(left, right) => {
                Form::Any(joined(shape(left), shape(right), |form| match form {
                    Form::Any(parts) => Ok(parts),
                    form => Err(form),
                }))
            }
            Kind::Compare(op, left, right) => Form::Compare {
                op: *op,
                left: boxed(left),
                right: boxed(right),
            },
            Kind::Chain(first, rest) => Form::All(pairs(first, rest, unit)),
            Kind::Math(op, left, right) => Form::Math {
                op: *op,
                left: boxed(left),
                right: boxed(right),
            },
            Kind::If {
                test,
                then,
                otherwise,
            } => {
                let otherwise = otherwise.as_ref().map(|node| boxed(node));
                Form::If {
                    test: boxed(test),
                    then: boxed(then),
                    otherwise,
                }
            }
            Kind::Filter {
                filter,
                input,
                args,
            } => Form::Filter {
                name: filter.name,
                returns: filter.returns,
                input: boxed(input),
                args: arguments(args, unit),
            },
            Kind::Default { input, other, .. } => Form::Default {
                value: boxed(input),
                other: boxed(other),
            },
            Kind::Defined(of, wanted) => Form::Defined {
                of: boxed(of),
                wanted: *wanted,
            },
            Kind::Test { test, input, args } => Form::Test {
                name: test.names[0],
                input: boxed(input),
                args: all(args),
            },
            Kind::FirstOf(args) => Form::FirstOf(all(args)),
            Kind::Call { function, args } => Form::Call {
                name: function.name,
                returns: function.returns,
                args: arguments(args, unit),
            },
            Kind::Cycle { args, .. } => Form::Other(all(args)),
            Kind::List(items) => Form::List(all(items)),
            Kind::Object(fields) => Form::Object(
                fields
                    .iter()
                    .map(|(key, value)| (shape(key), shape(value)))
                    .collect(),
            ),
        };
        Self {
            at: node.at.range(),
            form,
        }
    }
}

/// The kind that all parts share.
fn common<'s>(mut parts: impl Iterator<Item = &'s Shape>) -> ValueKind {
    let first = parts.next().map_or(ValueKind::Any, Shape::kind);
    if parts.all(|part| part.kind() == first) {
        first
    } else {
        ValueKind::Any
    }
}

/// `(a and b) and c` as one list of three.
fn joined(
    left: Shape,
    right: Shape,
    same: impl Fn(Form) -> Result<Vec<Shape>, Form>,
) -> Vec<Shape> {
    let mut parts = match same(left.form) {
        Ok(parts) => parts,
        Err(form) => vec![Shape { at: left.at, form }],
    };
    parts.push(right);
    parts
}

fn pairs(first: &Node, rest: &[(CompareOp, Node)], unit: &Unit) -> Vec<Shape> {
    let mut left = first;
    let mut pairs = Vec::new();
    for (op, right) in rest {
        let form = Form::Compare {
            op: *op,
            left: Box::new(Shape::new(left, unit)),
            right: Box::new(Shape::new(right, unit)),
        };
        pairs.push(Shape {
            at: left.at.to(right.at).range(),
            form,
        });
        left = right;
    }
    pairs
}

fn arguments(args: &Args, unit: &Unit) -> Vec<Shape> {
    let named = args.named.iter().flatten();
    let extra = args.extra.iter().map(|(_, node)| node);
    named
        .chain(&args.rest)
        .chain(extra)
        .map(|node| Shape::new(node, unit))
        .collect()
}

/// Whether comparing values of these kinds can make sense.
pub fn comparable(op: CompareOp, left: ValueKind, right: ValueKind) -> bool {
    let number = |kind| matches!(kind, ValueKind::Integer | ValueKind::Number);
    if left == ValueKind::Any || right == ValueKind::Any {
        return true;
    }
    match op {
        CompareOp::Equal | CompareOp::NotEqual => {
            left == right
                || (number(left) && number(right))
                || left == ValueKind::Null
                || right == ValueKind::Null
        }
        CompareOp::Less
        | CompareOp::LessOrEqual
        | CompareOp::Greater
        | CompareOp::GreaterOrEqual => {
            (number(left) && number(right))
                || (left == ValueKind::String && right == ValueKind::String)
        }
        CompareOp::In | CompareOp::NotIn => match right {
            ValueKind::List => true,
            ValueKind::String | ValueKind::Object => left == ValueKind::String,
            _ => false,
        },
    }
}
