//! The tree that is evaluated: owned, names resolved, filters and tests looked up. Made by [`super::lower`] only.

use std::ops::Range;

use serde_json::Value;

use super::filters::Filter;
use super::functions::Function;
use super::predicates::Test;
use super::{PathStep, Ref};

/// A node of an expression and where it stands in the source.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: At,
    pub(crate) kind: Kind,
}

/// A byte range of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl At {
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(crate) fn to(self, end: Self) -> Self {
        Self {
            start: self.start,
            end: end.end.max(self.end),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Kind {
    Const(Value),
    /// A name of the scope and the static steps below it; `reference` indexes [`Unit::refs`].
    Path {
        root: usize,
        reference: usize,
    },
    /// A variable of the template itself.
    Local(usize),
    /// A field of the innermost loops' `loop`.
    Loop {
        depth: usize,
        field: LoopField,
    },
    /// Static steps below something that is not a name of the scope.
    Walk(Box<Node>, Vec<PathStep>),
    /// A computed subscript.
    Subscript(Box<Node>, Box<Node>),
    /// `value[start:stop:step]`
    Slice {
        value: Box<Node>,
        bounds: Box<[Option<Node>; 3]>,
    },
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Compare(CompareOp, Box<Node>, Box<Node>),
    /// `a < b < c`: each operand is evaluated once.
    Chain(Box<Node>, Vec<(CompareOp, Node)>),
    Math(MathOp, Box<Node>, Box<Node>),
    If(Box<Choice>),
    Filter {
        filter: &'static Filter,
        input: Box<Node>,
        args: Args,
    },
    /// `value | default(other)`: not a [`Filter`], because its input may be absent.
    Default {
        input: Box<Node>,
        other: Box<Node>,
        falsy: bool,
    },
    /// `value is defined`, with `false` for `is undefined`.
    Defined(Box<Node>, bool),
    Test {
        test: &'static Test,
        input: Box<Node>,
        args: Vec<Node>,
    },
    FirstOf(Vec<Node>),
    Call {
        function: &'static Function,
        args: Args,
    },
    /// `loop.cycle(a, b)`.
    Cycle {
        depth: usize,
        args: Vec<Node>,
    },
    List(Vec<Node>),
    Object(Vec<(Node, Node)>),
    /// The one expression of a text with blanks around it, which stay if it gives a text.
    Padded(Box<Padded>),
}

/// `"  {{ of }}\n"`
#[derive(Debug)]
pub(crate) struct Padded {
    pub(crate) before: String,
    pub(crate) of: Node,
    pub(crate) after: String,
}

/// `then if test else otherwise`
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) test: Node,
    pub(crate) then: Node,
    pub(crate) otherwise: Option<Node>,
}

/// Arguments in the order of the parameters that the callee names, then the others.
#[derive(Debug, Default)]
pub(crate) struct Args {
    /// One per named parameter.
    pub(crate) named: Vec<Option<Node>>,
    /// Positional arguments beyond the named parameters.
    pub(crate) rest: Vec<Node>,
    /// Keyword arguments that are data (`put(a=1)`).
    pub(crate) extra: Vec<(String, Node)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopField {
    Index,
    Index0,
    RevIndex,
    RevIndex0,
    First,
    Last,
    Length,
    Depth,
    Depth0,
    PrevItem,
    NextItem,
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `in`
    In,
    /// `not in`
    NotIn,
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MathOp {
    /// `+`: numbers, texts or lists
    Add,
    /// `-`
    Subtract,
    /// `*`: numbers, or a text or list and a count
    Multiply,
    /// `/`: always a fraction
    Divide,
    /// `//`
    FloorDivide,
    /// `%`
    Remainder,
    /// `**`
    Power,
    /// `~`: both sides as text
    Concat,
}

/// A statement of a template.
#[derive(Debug)]
pub(crate) enum Stmt {
    Text(String),
    Emit {
        node: Node,
        raw: bool,
    },
    For(Box<For>),
    If {
        test: Node,
        then: Vec<Self>,
        otherwise: Vec<Self>,
    },
    Set {
        target: Target,
        node: Node,
    },
    /// `{% set x %}…{% endset %}` and `{% filter f %}…{% endfilter %}`: the body becomes the text in `capture`.
    Capture {
        body: Vec<Self>,
        capture: usize,
        then: Box<Self>,
    },
    /// Variables of the body; they start unset.
    With {
        fresh: Range<usize>,
        assign: Vec<(Target, Node)>,
        body: Vec<Self>,
    },
    Continue,
    Break,
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) at: At,
    pub(crate) target: Target,
    pub(crate) iter: Node,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) otherwise: Vec<Stmt>,
    /// Variables that each round starts without.
    pub(crate) fresh: Range<usize>,
}

#[derive(Debug)]
pub(crate) enum Target {
    Local(usize),
    Unpack(Vec<Self>),
    /// A field of a `namespace()`.
    Field(usize, String),
}

/// What an evaluation needs to know besides the tree.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    pub(crate) roots: Vec<Root>,
    pub(crate) refs: Vec<Ref>,
    /// Names of the template's own variables, by slot.
    pub(crate) locals: Vec<String>,
}

/// A name that is looked up in the scope at most once an evaluation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) name: String,
    /// The first field read below it: all that is looked up if the name is a namespace.
    pub(crate) member: Option<String>,
}
