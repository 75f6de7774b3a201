//! The evaluator: walks the tree over borrowed JSON.
//!
//! A name that has no value flows as [`Item::Absent`] or [`Item::Missing`] until something needs the value. Guards
//! (`is defined`, `default`, `first_of`) take such items; everything else *demands* a value and fails there, with the
//! exact place. Short circuits never evaluate their other side, so what is not needed is never missed.

use std::cell::OnceCell;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Limits;
use super::arena::{Arena, Held, Link};
use super::ast::{Args, At, Choice, CompareOp, Kind, LoopField, MathOp, Node, Padded, Unit};
use super::draws::Drawer;
use super::filters::{self, Filter};
use super::functions::Function;
use super::ops;
use super::path::{character, lacks, look_up, step_into, unknown};
use super::predicates::Test;
use super::scope::{EvalError, Lookup, Scope};
use super::{DrawKind, PathStep};

static TRUE: Value = Value::Bool(true);
static FALSE: Value = Value::Bool(false);
static NULL: Value = Value::Null;

/// A `&Value` of a boolean, without an allocation.
pub(crate) fn boolean(value: bool) -> &'static Value {
    if value { &TRUE } else { &FALSE }
}

/// Levels of nesting of a value that an expression makes; what is stored must be readable again.
pub const VALUE_DEPTH_MAX: usize = 100;

/// What a node evaluates to.
#[derive(Clone, Copy)]
pub(crate) enum Item<'v> {
    Value(&'v Value),
    /// Of a step that did not run.
    Absent(&'v Arc<str>),
    /// A field that the value lacks, a name nobody has: the sentence that says so.
    Missing(&'v str, At),
    /// A namespace as a whole.
    Members(&'v str, At),
}

/// A name of the scope, looked up when it is first needed, and how many steps of the path that took.
type Found = OnceCell<(Lookup, usize)>;

/// One evaluation.
pub(crate) struct Evaluator<'v> {
    unit: &'v Unit,
    scope: &'v dyn Scope,
    found: &'v [Found],
    arena: Arena<'v>,
    draws: &'v mut dyn Drawer,
    fuel: u64,
    pub(crate) limits: Limits,
    /// In a condition, `and`, `or`, `not` and `if` take booleans only.
    strict: bool,
    pub(crate) locals: Vec<Option<Item<'v>>>,
    pub(crate) loops: Vec<Loop<'v>>,
}

/// A `for` that is under way.
pub(crate) struct Loop<'v> {
    pub(crate) items: Vec<&'v Value>,
    pub(crate) index: usize,
}

/// What an evaluation is given.
pub(crate) struct Given<'v> {
    pub(crate) unit: &'v Unit,
    pub(crate) scope: &'v dyn Scope,
    pub(crate) draws: &'v mut dyn Drawer,
    pub(crate) limits: Limits,
    pub(crate) strict: bool,
}

/// Runs `body` on `code` with an evaluator; what it returns may not borrow from the evaluation.
pub(crate) fn with_evaluator<'g, C: ?Sized + 'static, T>(
    given: Given<'g>,
    code: &'g C,
    body: impl for<'v> FnOnce(&mut Evaluator<'v>, &'v C) -> Result<T, EvalError>,
) -> Result<T, EvalError> {
    let found: Vec<Found> = given.unit.roots.iter().map(|_| OnceCell::new()).collect();
    let first = Link::default();
    let mut evaluator = Evaluator {
        unit: given.unit,
        scope: given.scope,
        found: &found,
        arena: Arena::new(&first),
        draws: given.draws,
        fuel: given.limits.fuel,
        limits: given.limits,
        strict: given.strict,
        locals: vec![None; given.unit.locals.len()],
        loops: Vec::new(),
    };
    body(&mut evaluator, code)
}

impl<'v> Evaluator<'v> {
    /// Takes `cost` off the fuel.
    pub(crate) fn spend(&mut self, at: At, cost: usize) -> Result<(), EvalError> {
        match self.fuel.checked_sub(cost as u64) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => {
                let message = format!(
                    "the expression takes more than {} operations",
                    self.limits.fuel
                );
                Err(fail(at, message))
            }
        }
    }

    /// Keeps a new value until the evaluation ends.
    pub(crate) fn keep(&self, value: Value) -> &'v Value {
        match value {
            Value::Null => &NULL,
            Value::Bool(value) => boolean(value),
            value @ (Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
                match self.arena.hold(Held::Json(value)) {
                    Held::Json(value) => value,
                    Held::Lookup(_) => &NULL,
                }
            }
        }
    }

    /// Keeps a new value and charges for what it takes, so that values cannot grow faster than fuel burns.
    pub(crate) fn make(&mut self, at: At, value: Value) -> Result<&'v Value, EvalError> {
        let Some(weight) = ops::weight(&value, VALUE_DEPTH_MAX) else {
            let message = format!("the value is nested deeper than {VALUE_DEPTH_MAX} levels");
            return Err(fail(at, message));
        };
        self.spend(at, weight)?;
        Ok(self.keep(value))
    }

    fn missing(&self, at: At, sentence: String) -> Item<'v> {
        match self.keep(Value::String(sentence)) {
            Value::String(sentence) => Item::Missing(sentence, at),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Item::Missing("", at),
        }
    }

    /// The value of a node, which must have one.
    pub(crate) fn value(&mut self, node: &'v Node) -> Result<&'v Value, EvalError> {
        match self.item(node)? {
            Item::Value(value) => Ok(value),
            item => Err(demand(item)),
        }
    }

    /// The value of a node, or why it has none.
    pub(crate) fn item(&mut self, node: &'v Node) -> Result<Item<'v>, EvalError> {
        self.spend(node.at, 1)?;
        match &node.kind {
            Kind::Const(value) => Ok(Item::Value(value)),
            Kind::Path { root, reference } => self.path(*root, *reference, node.at),
            Kind::Local(slot) => Ok(self.local(*slot, node.at)),
            Kind::Loop { depth, field } => self.loop_field(*depth, *field, node.at),
            Kind::Walk(base, steps) => self.item(base).map(|base| self.walk(base, steps, node.at)),
            Kind::Subscript(base, key) => self.subscript(base, key),
            Kind::Slice { value, bounds } => self.slice(node.at, value, bounds),
            Kind::If(choice) => self.choose(choice, node.at),
            Kind::And(left, right) => self.and_or(left, right, false),
            Kind::Or(left, right) => self.and_or(left, right, true),
            Kind::Default {
                input,
                other,
                falsy,
            } => self.default(input, other, *falsy),
            Kind::FirstOf(args) => self.first_of(args, node.at),
            Kind::Padded(padded) => self.padded(padded, node.at),
            Kind::Not(inner) => self.truth(inner).map(|value| Item::Value(boolean(!value))),
            Kind::Defined(inner, wanted) => self.defined(inner, *wanted),
            Kind::Compare(op, left, right) => self.compare_nodes(node.at, *op, left, right),
            Kind::Chain(first, rest) => self.chain(first, rest),
            Kind::Negate(inner) => {
                let value = self.value(inner)?;
                self.made(node.at, ops::negate(value))
            }
            Kind::Math(op, left, right) => self.math(node.at, *op, left, right),
            Kind::Filter {
                filter,
                input,
                args,
            } => self.filter(node.at, filter, input, args),
            Kind::Test { test, input, args } => self.test(node.at, test, input, args),
            Kind::Call { function, args } => self.call(node.at, function, args),
            Kind::Cycle { depth, args } => {
                let index = self.loops[*depth].index % args.len();
                self.item(&args[index])
            }
            Kind::List(items) => {
                let items = self.values(items)?.into_iter().cloned().collect();
                self.make(node.at, Value::Array(items)).map(Item::Value)
            }
            Kind::Object(fields) => self.object(fields, node.at),
        }
    }

    fn choose(&mut self, choice: &'v Choice, at: At) -> Result<Item<'v>, EvalError> {
        if self.truth(&choice.test)? {
            return self.item(&choice.then);
        }
        match &choice.otherwise {
            Some(otherwise) => self.item(otherwise),
            None => Ok(Item::Missing(
                "the condition is false and there is no `else`",
                at,
            )),
        }
    }

    fn defined(&mut self, node: &'v Node, wanted: bool) -> Result<Item<'v>, EvalError> {
        let defined = matches!(self.item(node)?, Item::Value(_) | Item::Members(..));
        Ok(Item::Value(boolean(defined == wanted)))
    }

    fn math(
        &mut self,
        at: At,
        op: MathOp,
        left: &'v Node,
        right: &'v Node,
    ) -> Result<Item<'v>, EvalError> {
        let (left, right) = (self.value(left)?, self.value(right)?);
        self.spend(at, ops::cost(op, left, right))?;
        self.made(at, ops::math(op, left, right))
    }

    fn test(
        &mut self,
        at: At,
        test: &'static Test,
        input: &'v Node,
        args: &'v [Node],
    ) -> Result<Item<'v>, EvalError> {
        let input = self.value(input)?;
        let args = self.values(args)?;
        let passes = (test.run)(input, &args).map_err(|message| fail(at, message))?;
        Ok(Item::Value(boolean(passes)))
    }

    fn call(
        &mut self,
        at: At,
        function: &'static Function,
        args: &'v Args,
    ) -> Result<Item<'v>, EvalError> {
        let args = self.args(args)?;
        self.spend(at, (function.cost)(&args))?;
        let made = (function.run)(&args, self);
        self.made(at, made)
    }

    /// Draws a recorded value.
    pub(crate) fn draw(&mut self, kind: DrawKind) -> Result<Value, String> {
        self.draws.draw(kind)
    }

    fn made(&mut self, at: At, made: Result<Value, String>) -> Result<Item<'v>, EvalError> {
        match made {
            Ok(value) => self.make(at, value).map(Item::Value),
            Err(message) => Err(fail(at, message)),
        }
    }

    fn path(&mut self, root: usize, reference: usize, at: At) -> Result<Item<'v>, EvalError> {
        let (scope, unit) = (self.scope, self.unit);
        let slot = &unit.roots[root];
        let (found, taken) = self.found[root].get_or_init(|| look_up(scope, slot));
        Ok(match found {
            Lookup::Value(value) => {
                let steps = &unit.refs[reference].path[*taken..];
                self.walk(Item::Value(value.json()), steps, at)
            }
            Lookup::Absent { step } => Item::Absent(step),
            Lookup::Members => Item::Members(&slot.name, at),
            Lookup::Unknown => self.missing(at, unknown(slot)),
        })
    }

    fn local(&self, slot: usize, at: At) -> Item<'v> {
        self.locals[slot].unwrap_or_else(|| {
            self.missing(at, format!("`{}` was not set", self.unit.locals[slot]))
        })
    }

    fn loop_field(&self, depth: usize, field: LoopField, at: At) -> Result<Item<'v>, EvalError> {
        let round = &self.loops[depth];
        let (index, length) = (round.index, round.items.len());
        let neighbour = |index: Option<usize>| {
            let item = index.and_then(|index| round.items.get(index).copied());
            item.map_or(
                Item::Missing("there is no item on that side", at),
                Item::Value,
            )
        };
        let number = match field {
            LoopField::Index => index + 1,
            LoopField::Index0 => index,
            LoopField::RevIndex => length - index,
            LoopField::RevIndex0 => length - index - 1,
            LoopField::Length => length,
            LoopField::Depth => depth + 1,
            LoopField::Depth0 => depth,
            LoopField::First => return Ok(Item::Value(boolean(index == 0))),
            LoopField::Last => return Ok(Item::Value(boolean(index + 1 == length))),
            LoopField::PrevItem => return Ok(neighbour(index.checked_sub(1))),
            LoopField::NextItem => return Ok(neighbour(Some(index + 1))),
        };
        Ok(Item::Value(self.keep(Value::from(number))))
    }

    fn walk(&self, base: Item<'v>, steps: &[PathStep], at: At) -> Item<'v> {
        let Item::Value(mut value) = base else {
            return match (base, steps.first()) {
                (Item::Members(namespace, at), Some(PathStep::Key(key))) => {
                    let found = self.member(namespace, key, at);
                    self.walk(found, &steps[1..], at)
                }
                (other, _) => other,
            };
        };
        for step in steps {
            value = match step_into(value, step) {
                Some(next) => next,
                None => match character(value, step) {
                    Some(char) => self.keep(char),
                    None => return self.missing(at, lacks(value, step)),
                },
            };
        }
        Item::Value(value)
    }

    fn member(&self, namespace: &'v str, key: &str, at: At) -> Item<'v> {
        match self
            .arena
            .hold(Held::Lookup(self.scope.member(namespace, key)))
        {
            Held::Lookup(Lookup::Value(value)) => Item::Value(value.json()),
            Held::Lookup(Lookup::Absent { step }) => Item::Absent(step),
            Held::Lookup(Lookup::Members | Lookup::Unknown) | Held::Json(_) => {
                self.missing(at, format!("`{namespace}` has no `{key}`"))
            }
        }
    }

    fn subscript(&mut self, base: &'v Node, key: &'v Node) -> Result<Item<'v>, EvalError> {
        let at = base.at.to(key.at);
        let base = self.item(base)?;
        let step = match self.value(key)? {
            Value::String(key) => PathStep::Key(key.clone()),
            Value::Number(index) if index.is_i64() => {
                PathStep::Index(index.as_i64().unwrap_or_default())
            }
            other => {
                let message = format!(
                    "a subscript is a text or an integer, not {}",
                    ops::a_kind(other)
                );
                return Err(fail(key.at, message));
            }
        };
        Ok(self.walk(base, &[step], at))
    }

    fn slice(
        &mut self,
        at: At,
        value: &'v Node,
        bounds: &'v [Option<Node>; 3],
    ) -> Result<Item<'v>, EvalError> {
        let value = self.value(value)?;
        let mut numbers = [None; 3];
        for (number, bound) in numbers.iter_mut().zip(bounds) {
            *number = match bound {
                None => None,
                Some(bound) => match self.value(bound)? {
                    Value::Null => None,
                    given => Some(ops::integer(given).map_err(|message| fail(bound.at, message))?),
                },
            };
        }
        self.spend(at, ops::length(value))?;
        self.made(at, ops::slice(value, numbers))
    }

    /// Whether a node counts as true: in a condition it must be a boolean, elsewhere Jinja's rule holds.
    pub(crate) fn truth(&mut self, node: &'v Node) -> Result<bool, EvalError> {
        let value = self.value(node)?;
        self.is_true(node.at, value)
    }

    fn is_true(&self, at: At, value: &Value) -> Result<bool, EvalError> {
        match value {
            Value::Bool(value) => Ok(*value),
            other if self.strict => Err(fail(
                at,
                format!(
                    "a condition needs a boolean here, not {}",
                    ops::a_kind(other)
                ),
            )),
            other => Ok(ops::truthy(other)),
        }
    }

    /// `and` ends at the first false operand, `or` at the first true one; that operand is the result.
    fn and_or(
        &mut self,
        left: &'v Node,
        right: &'v Node,
        ends_at: bool,
    ) -> Result<Item<'v>, EvalError> {
        let value = self.value(left)?;
        if self.is_true(left.at, value)? == ends_at {
            return Ok(Item::Value(value));
        }
        let item = self.item(right)?;
        if let (true, Item::Value(value)) = (self.strict, item) {
            self.is_true(right.at, value)?;
        }
        Ok(item)
    }

    fn default(
        &mut self,
        input: &'v Node,
        other: &'v Node,
        falsy: bool,
    ) -> Result<Item<'v>, EvalError> {
        match self.item(input)? {
            Item::Value(value) if !falsy || ops::truthy(value) => Ok(Item::Value(value)),
            Item::Members(..) => Err(demand(self.item(input)?)),
            Item::Value(_) | Item::Absent(_) | Item::Missing(..) => self.item(other),
        }
    }

    fn first_of(&mut self, args: &'v [Node], at: At) -> Result<Item<'v>, EvalError> {
        let mut last = Item::Missing("`first_of` was given nothing", at);
        for arg in args {
            last = self.item(arg)?;
            if matches!(last, Item::Value(_) | Item::Members(..)) {
                break;
            }
        }
        Ok(last)
    }

    /// A text keeps the blanks that are written around it; any other value is what it is.
    fn padded(&mut self, padded: &'v Padded, at: At) -> Result<Item<'v>, EvalError> {
        let item = self.item(&padded.of)?;
        let Item::Value(Value::String(text)) = item else {
            return Ok(item);
        };
        let whole = [&padded.before, text.as_str(), &padded.after].concat();
        self.make(at, Value::String(whole)).map(Item::Value)
    }

    fn compare_nodes(
        &mut self,
        at: At,
        op: CompareOp,
        left: &'v Node,
        right: &'v Node,
    ) -> Result<Item<'v>, EvalError> {
        let (left, right) = (self.value(left)?, self.value(right)?);
        let holds = self.compare(at, op, left, right)?;
        Ok(Item::Value(boolean(holds)))
    }

    fn compare(
        &mut self,
        at: At,
        op: CompareOp,
        left: &Value,
        right: &Value,
    ) -> Result<bool, EvalError> {
        let cost = match op {
            CompareOp::In | CompareOp::NotIn => ops::length(right),
            CompareOp::Equal | CompareOp::NotEqual => ops::length(left).min(ops::length(right)),
            CompareOp::Less
            | CompareOp::LessOrEqual
            | CompareOp::Greater
            | CompareOp::GreaterOrEqual => 0,
        };
        self.spend(at, cost)?;
        ops::compare(op, left, right).map_err(|message| fail(at, message))
    }

    fn chain(
        &mut self,
        first: &'v Node,
        rest: &'v [(CompareOp, Node)],
    ) -> Result<Item<'v>, EvalError> {
        let mut left = self.value(first)?;
        for (op, node) in rest {
            let right = self.value(node)?;
            if !self.compare(node.at, *op, left, right)? {
                return Ok(Item::Value(&FALSE));
            }
            left = right;
        }
        Ok(Item::Value(&TRUE))
    }

    fn filter(
        &mut self,
        at: At,
        filter: &'static Filter,
        input: &'v Node,
        args: &'v Args,
    ) -> Result<Item<'v>, EvalError> {
        let input = self.value(input)?;
        let args = self.args(args)?;
        self.spend(at, filters::cost(filter, input, &args))?;
        match (filter.run)(input, &args) {
            Ok(filters::Out::Same(value)) => Ok(Item::Value(value)),
            Ok(filters::Out::Made(value)) => self.make(at, value).map(Item::Value),
            Ok(filters::Out::Nothing(sentence)) => {
                Ok(self.missing(at, format!("`{}`: {sentence}", filter.name)))
            }
            Err(message) => Err(fail(at, format!("`{}`: {message}", filter.name))),
        }
    }

    fn values(&mut self, nodes: &'v [Node]) -> Result<Vec<&'v Value>, EvalError> {
        nodes.iter().map(|node| self.value(node)).collect()
    }

    fn args(&mut self, args: &'v Args) -> Result<Values<'v>, EvalError> {
        let mut named = Vec::with_capacity(args.named.len());
        for arg in &args.named {
            named.push(arg.as_ref().map(|arg| self.value(arg)).transpose()?);
        }
        let rest = self.values(&args.rest)?;
        let mut extra = Vec::with_capacity(args.extra.len());
        for (name, arg) in &args.extra {
            extra.push((name.as_str(), self.value(arg)?));
        }
        Ok(Values { named, rest, extra })
    }

    fn object(&mut self, fields: &'v [(Node, Node)], at: At) -> Result<Item<'v>, EvalError> {
        let mut object = Map::new();
        for (key, value) in fields {
            let name = match self.value(key)? {
                Value::String(name) => name.clone(),
                other => {
                    let message = format!("a key is a string, not {}", ops::a_kind(other));
                    return Err(fail(key.at, message));
                }
            };
            object.insert(name, self.value(value)?.clone());
        }
        self.make(at, Value::Object(object)).map(Item::Value)
    }
}

/// Evaluated arguments, in the shape of [`Args`].
#[derive(Default)]
pub(crate) struct Values<'v> {
    pub(crate) named: Vec<Option<&'v Value>>,
    pub(crate) rest: Vec<&'v Value>,
    pub(crate) extra: Vec<(&'v str, &'v Value)>,
}

/// The error of needing the value of something that has none.
pub(crate) fn demand(item: Item<'_>) -> EvalError {
    match item {
        Item::Absent(step) => EvalError::Absent { step: step.clone() },
        Item::Missing(message, at) => fail(at, message),
        Item::Members(name, at) => fail(
            at,
            format!("`{name}` has no value as a whole: read one of its members"),
        ),
        Item::Value(value) => fail(
            At { start: 0, end: 0 },
            format!("{} has a value", ops::a_kind(value)),
        ),
    }
}

pub(crate) fn fail(at: At, message: impl Into<String>) -> EvalError {
    EvalError::failed(at.start as usize, message)
}
