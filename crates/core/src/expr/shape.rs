//! What an expression is made of, for static checks.

use std::ops::Range;

use serde_json::Value;

use super::ast::{Args, CompareOp, Kind, MathOp, Node, Unit};
use super::filters::Filter;
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
    /// A variable of the template, by its slot; a field of `loop` has none.
    Variable {
        /// What it is called.
        name: String,
        /// Which of the template's variables it is.
        slot: Option<usize>,
    },
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
    /// The one expression of a text with blanks around it, which stay if it gives a text.
    Padded {
        /// The blanks before it.
        before: String,
        /// The expression.
        of: Box<Shape>,
        /// The blanks after it.
        after: String,
    },
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
            Form::Padded { of, .. } => of.kind(),
            Form::Filter { returns, .. } | Form::Call { returns, .. } => *returns,
            Form::List(_) => ValueKind::List,
            Form::Object(_) => ValueKind::Object,
            Form::Path(_) | Form::Variable { .. } | Form::Below { .. } | Form::Other(_) => {
                ValueKind::Any
            }
        }
    }

    pub(crate) fn new(node: &Node, unit: &Unit) -> Self {
        Self {
            at: node.at.range(),
            form: Builder { unit }.form(&node.kind),
        }
    }
}

/// Builds shapes of one expression.
struct Builder<'u> {
    unit: &'u Unit,
}

impl Builder<'_> {
    fn shape(&self, node: &Node) -> Shape {
        Shape::new(node, self.unit)
    }

    fn boxed(&self, node: &Node) -> Box<Shape> {
        Box::new(self.shape(node))
    }

    fn all<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>) -> Vec<Shape> {
        nodes.into_iter().map(|node| self.shape(node)).collect()
    }

    fn form(&self, kind: &Kind) -> Form {
        match kind {
            Kind::Const(value) => Form::Literal(value.clone()),
            Kind::Path { reference, .. } => Form::Path(self.unit.refs[*reference].clone()),
            Kind::Local(slot) => Form::Variable {
                name: self.unit.locals[*slot].clone(),
                slot: Some(*slot),
            },
            Kind::Loop { .. } => Form::Variable {
                name: "loop".to_owned(),
                slot: None,
            },
            Kind::Walk(of, steps) => Form::Below {
                of: self.boxed(of),
                steps: steps.clone(),
            },
            Kind::Subscript(base, key) => Form::Other(self.all([&**base, &**key])),
            Kind::Slice { value, bounds } => {
                Form::Other(self.all([&**value].into_iter().chain(bounds.iter().flatten())))
            }
            Kind::Not(inner) => Form::Not(self.boxed(inner)),
            Kind::Negate(inner) => Form::Negate(self.boxed(inner)),
            Kind::And(left, right) => self.conjunction(left, right),
            Kind::Or(left, right) => self.disjunction(left, right),
            Kind::Compare(op, left, right) => self.compare(*op, left, right),
            Kind::Chain(first, rest) => self.chain(first, rest),
            Kind::Math(op, left, right) => Form::Math {
                op: *op,
                left: self.boxed(left),
                right: self.boxed(right),
            },
            Kind::If(choice) => Form::If {
                test: self.boxed(&choice.test),
                then: self.boxed(&choice.then),
                otherwise: choice.otherwise.as_ref().map(|node| self.boxed(node)),
            },
            Kind::Filter {
                filter,
                input,
                args,
            } => self.filter(filter, input, args),
            Kind::Default { input, other, .. } => Form::Default {
                value: self.boxed(input),
                other: self.boxed(other),
            },
            Kind::Defined(of, wanted) => Form::Defined {
                of: self.boxed(of),
                wanted: *wanted,
            },
            Kind::Test { test, input, args } => {
                let (name, input) = (test.names[0], self.boxed(input));
                Form::Test {
                    name,
                    input,
                    args: self.all(args),
                }
            }
            Kind::FirstOf(args) => Form::FirstOf(self.all(args)),
            Kind::Call { function, args } => {
                let (name, returns) = (function.name, function.returns);
                Form::Call {
                    name,
                    returns,
                    args: self.arguments(args),
                }
            }
            Kind::Cycle { args, .. } => Form::Other(self.all(args)),
            Kind::List(items) => Form::List(self.all(items)),
            Kind::Object(fields) => {
                let field = |(key, value): &(Node, Node)| (self.shape(key), self.shape(value));
                Form::Object(fields.iter().map(field).collect())
            }
            Kind::Padded(padded) => Form::Padded {
                before: padded.before.clone(),
                of: self.boxed(&padded.of),
                after: padded.after.clone(),
            },
        }
    }

    /// `(a and b) and c` is one list of three.
    fn conjunction(&self, left: &Node, right: &Node) -> Form {
        let left = self.shape(left);
        let mut parts = match left.form {
            Form::All(parts) => parts,
            form => vec![Shape { at: left.at, form }],
        };
        parts.push(self.shape(right));
        Form::All(parts)
    }

    fn disjunction(&self, left: &Node, right: &Node) -> Form {
        let left = self.shape(left);
        let mut parts = match left.form {
            Form::Any(parts) => parts,
            form => vec![Shape { at: left.at, form }],
        };
        parts.push(self.shape(right));
        Form::Any(parts)
    }

    fn compare(&self, op: CompareOp, left: &Node, right: &Node) -> Form {
        Form::Compare {
            op,
            left: self.boxed(left),
            right: self.boxed(right),
        }
    }

    fn chain(&self, first: &Node, rest: &[(CompareOp, Node)]) -> Form {
        let lefts = [first].into_iter().chain(rest.iter().map(|(_, node)| node));
        let pair = |(left, (op, right)): (&Node, &(CompareOp, Node))| Shape {
            at: left.at.to(right.at).range(),
            form: self.compare(*op, left, right),
        };
        Form::All(lefts.zip(rest).map(pair).collect())
    }

    fn filter(&self, filter: &Filter, input: &Node, args: &Args) -> Form {
        let (name, returns) = (filter.name, filter.returns);
        Form::Filter {
            name,
            returns,
            input: self.boxed(input),
            args: self.arguments(args),
        }
    }

    fn arguments(&self, args: &Args) -> Vec<Shape> {
        let extra = args.extra.iter().map(|(_, node)| node);
        self.all(args.named.iter().flatten().chain(&args.rest).chain(extra))
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
