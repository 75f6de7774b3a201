//! The functions of expressions (`first_of` apart, which is a guard and so a node of its own).

use serde_json::{Map, Value};

use super::DrawKind;
use super::eval::{Evaluator, Values};
use super::ops;
use super::shape::ValueKind;

/// A function.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) params: &'static [&'static str],
    pub(crate) required: usize,
    /// Takes any keyword as data.
    pub(crate) extra: bool,
    pub(crate) returns: ValueKind,
    pub(crate) cost: fn(&Values<'_>) -> usize,
    pub(crate) run: fn(&Values<'_>, &mut Evaluator<'_>) -> Result<Value, String>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

fn free(_: &Values<'_>) -> usize {
    0
}

/// Every function. `first_of` is in [`NAMES`] too.
pub(crate) static FUNCTIONS: &[Function] = &[
    Function {
        name: "range",
        params: &["start", "stop", "step"],
        required: 1,
        extra: false,
        returns: ValueKind::List,
        cost: |args| range_bounds(args).map_or(0, |(start, stop, step)| steps(start, stop, step)),
        run: |args, _| range(args),
    },
    Function {
        name: "namespace",
        params: &[],
        required: 0,
        extra: true,
        returns: ValueKind::Object,
        cost: free,
        run: |args, _| {
            let fields = args
                .extra
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).clone()));
            Ok(Value::Object(fields.collect::<Map<_, _>>()))
        },
    },
    Function {
        name: "now",
        params: &[],
        required: 0,
        extra: false,
        returns: ValueKind::String,
        cost: free,
        run: |_, evaluator| evaluator.draw(DrawKind::Now),
    },
    Function {
        name: "random",
        params: &[],
        required: 0,
        extra: false,
        returns: ValueKind::Number,
        cost: free,
        run: |_, evaluator| evaluator.draw(DrawKind::Random),
    },
    Function {
        name: "uuid",
        params: &[],
        required: 0,
        extra: false,
        returns: ValueKind::String,
        cost: free,
        run: |_, evaluator| evaluator.draw(DrawKind::Uuid),
    },
];

/// The name of the guard among the functions.
pub(crate) const FIRST_OF: &str = "first_of";

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS
        .iter()
        .map(|function| function.name)
        .chain([FIRST_OF])
}

fn range_bounds(args: &Values<'_>) -> Result<(i64, i64, i64), String> {
    let number = |index: usize| args.named[index].map(ops::integer).transpose();
    let (first, second, step) = (number(0)?.unwrap_or(0), number(1)?, number(2)?.unwrap_or(1));
    match (second, step) {
        (_, 0) => Err("the step of a range cannot be 0".to_owned()),
        (Some(stop), step) => Ok((first, stop, step)),
        (None, step) => Ok((0, first, step)),
    }
}

fn steps(start: i64, stop: i64, step: i64) -> usize {
    let (distance, step) = (i128::from(stop) - i128::from(start), i128::from(step));
    if distance.signum() != step.signum() {
        return 0;
    }
    usize::try_from((distance.abs() + step.abs() - 1) / step.abs()).unwrap_or(usize::MAX)
}

fn range(args: &Values<'_>) -> Result<Value, String> {
    let (start, stop, step) = range_bounds(args)?;
    Ok((0..steps(start, stop, step) as i64)
        .map(|n| Value::from(start + n * step))
        .collect())
}
