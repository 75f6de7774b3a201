//! Operators on JSON values. Types must fit: nothing is converted in silence, nothing unlike is ordered.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::ast::{CompareOp, MathOp};

/// The kind of a value with its article.
pub(crate) fn a_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Jinja's truth: empty, zero and null are false.
pub(crate) fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Bytes of a text, items of a list, fields of an object; else 1. The measure of fuel.
pub(crate) fn length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => text.len(),
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
    }
}

/// Bytes of text that weigh as much as one value.
const TEXT_BYTES_PER_WEIGHT: usize = 64;

/// How much there is of a value, in values; `None` if it is nested deeper than allowed.
pub(crate) fn weight(value: &Value, depth: usize) -> Option<usize> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(1),
        Value::String(text) => Some(1 + text.len() / TEXT_BYTES_PER_WEIGHT),
        Value::Array(items) => {
            let depth = depth.checked_sub(1)?;
            items
                .iter()
                .try_fold(1, |sum, item| Some(sum + weight(item, depth)?))
        }
        Value::Object(fields) => {
            let depth = depth.checked_sub(1)?;
            fields
                .values()
                .try_fold(1, |sum, field| Some(sum + weight(field, depth)?))
        }
    }
}

/// A value printed into text: texts as they are, everything else as compact JSON.
pub(crate) fn print(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        other => out.push_str(&other.to_string()),
    }
}

/// A value as text.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(crate) fn integer(value: &Value) -> Result<i64, String> {
    let whole = |number: &Number| {
        number.as_i64().or_else(|| {
            number
                .as_f64()
                .filter(|f| f.fract() == 0.0)
                .and_then(float_to_integer)
        })
    };
    match value {
        Value::Number(number) => whole(number).ok_or_else(|| format!("{number} is not an integer")),
        other => Err(format!("expected an integer, got {}", a_kind(other))),
    }
}

/// A double that is an exact `i64`.
fn float_to_integer(float: f64) -> Option<i64> {
    (float.abs() < i64::MAX as f64).then_some(float as i64)
}

pub(crate) fn count(value: &Value) -> Result<usize, String> {
    let number = integer(value)?;
    usize::try_from(number).map_err(|_| format!("expected a count, got {number}"))
}

pub(crate) fn float(value: f64) -> Result<Value, String> {
    Number::from_f64(value)
        .map(Value::Number)
        .ok_or_else(|| "the result is not a finite number".to_owned())
}

/// Equal numbers are equal however they are written (`1 == 1.0`), at any depth; unlike types never are.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            order_numbers(left, right) == Some(Ordering::Equal)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        (left, right) => left == right,
    }
}

/// Numbers by their values: an integer is not rounded to be compared with a floating-point number.
pub(crate) fn order_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => order_mixed(left, right.as_f64()?),
        (None, Some(right)) => order_mixed(right, left.as_f64()?).map(Ordering::reverse),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// An integer of 64 bits and a floating-point number.
fn order_mixed(integer: i128, float: f64) -> Option<Ordering> {
    // Beyond the range of an `i128` the conversion ends at its bounds, which no integer here reaches.
    let whole = integer.cmp(&(float.trunc() as i128));
    let fraction = 0.0.partial_cmp(&float.fract())?;
    Some(whole.then(fraction))
}

/// A number as a floating-point one, if that is exact.
pub(crate) fn exact_float(number: &Number) -> Result<f64, String> {
    let float = number.as_f64().unwrap_or(f64::NAN);
    match number.as_i128() {
        Some(integer) if float as i128 != integer => {
            Err(format!("{number} has no exact floating-point number"))
        }
        Some(_) | None => Ok(float),
    }
}

/// Orders numbers with numbers and texts with texts (by code point); nothing else has an order.
pub(crate) fn order(left: &Value, right: &Value) -> Result<Ordering, String> {
    let ordering = match (left, right) {
        (Value::Number(left), Value::Number(right)) => order_numbers(left, right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    };
    ordering.ok_or_else(|| format!("{} and {} have no order", a_kind(left), a_kind(right)))
}

pub(crate) fn compare(op: CompareOp, left: &Value, right: &Value) -> Result<bool, String> {
    Ok(match op {
        CompareOp::Equal => equal(left, right),
        CompareOp::NotEqual => !equal(left, right),
        CompareOp::Less => order(left, right)?.is_lt(),
        CompareOp::LessOrEqual => order(left, right)?.is_le(),
        CompareOp::Greater => order(left, right)?.is_gt(),
        CompareOp::GreaterOrEqual => order(left, right)?.is_ge(),
        CompareOp::In => contains(left, right)?,
        CompareOp::NotIn => !contains(left, right)?,
    })
}

fn contains(needle: &Value, container: &Value) -> Result<bool, String> {
    match (needle, container) {
        (Value::String(needle), Value::String(text)) => Ok(text.contains(needle.as_str())),
        (Value::String(needle), Value::Object(fields)) => Ok(fields.contains_key(needle)),
        (needle, Value::Array(items)) => Ok(items.iter().any(|item| equal(item, needle))),
        (needle, container) => Err(format!(
            "{} cannot be in {}",
            a_kind(needle),
            a_kind(container)
        )),
    }
}

pub(crate) fn negate(value: &Value) -> Result<Value, String> {
    math(MathOp::Subtract, &Value::from(0), value)
        .map_err(|_| format!("{} cannot be negated", a_kind(value)))
}

/// What an operation costs beyond the node itself: the size of what it makes.
pub(crate) fn cost(op: MathOp, left: &Value, right: &Value) -> usize {
    match op {
        MathOp::Add | MathOp::Concat => length(left).saturating_add(length(right)),
        MathOp::Multiply => match (left, right) {
            (Value::String(_) | Value::Array(_), Value::Number(count)) => {
                length(left).saturating_mul(count.as_u64().unwrap_or(0) as usize)
            }
            _ => 0,
        },
        MathOp::Subtract
        | MathOp::Divide
        | MathOp::FloorDivide
        | MathOp::Remainder
        | MathOp::Power => 0,
    }
}

pub(crate) fn math(op: MathOp, left: &Value, right: &Value) -> Result<Value, String> {
    match (op, left, right) {
        (MathOp::Concat, left, right) => {
            let mut out = text(left);
            print(right, &mut out);
            Ok(Value::String(out))
        }
        (_, Value::Number(left), Value::Number(right)) => numbers(op, left, right),
        (MathOp::Add, Value::String(left), Value::String(right)) => {
            Ok(Value::String(format!("{left}{right}")))
        }
        (MathOp::Add, Value::Array(left), Value::Array(right)) => {
            Ok(Value::Array(left.iter().chain(right).cloned().collect()))
        }
        (MathOp::Multiply, Value::String(text), Value::Number(_)) => {
            Ok(Value::String(text.repeat(count(right)?)))
        }
        (MathOp::Multiply, Value::Array(items), Value::Number(_)) => {
            let times = count(right)?;
            Ok(Value::Array(
                (0..times).flat_map(|_| items.iter().cloned()).collect(),
            ))
        }
        (op, left, right) => Err(refusal(op, left, right)),
    }
}

fn refusal(op: MathOp, left: &Value, right: &Value) -> String {
    let text = matches!(left, Value::String(_)) || matches!(right, Value::String(_));
    let hint = if op == MathOp::Add && text {
        "; `~` joins anything as text"
    } else {
        ""
    };
    format!(
        "`{}` does not take {} and {}{hint}",
        op.sign(),
        a_kind(left),
        a_kind(right)
    )
}

impl MathOp {
    /// How it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Remainder => "%",
            Self::Power => "**",
            Self::Concat => "~",
        }
    }
}

impl CompareOp {
    /// How it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::NotIn => "not in",
        }
    }
}

fn numbers(op: MathOp, left: &Number, right: &Number) -> Result<Value, String> {
    let both = left.as_i128().zip(right.as_i128());
    match (op, both) {
        (MathOp::Divide, _) | (_, None) => floats(op, left, right),
        (_, Some((left, right))) => integers(op, left, right),
    }
}

fn integers(op: MathOp, left: i128, right: i128) -> Result<Value, String> {
    let zero = || "division by zero".to_owned();
    let result = match op {
        MathOp::Add => left.checked_add(right),
        MathOp::Subtract => left.checked_sub(right),
        MathOp::Multiply => left.checked_mul(right),
        MathOp::FloorDivide if right == 0 => return Err(zero()),
        MathOp::Remainder if right == 0 => return Err(zero()),
        MathOp::FloorDivide => Some(left.div_euclid(right)),
        MathOp::Remainder => Some(left.rem_euclid(right)),
        MathOp::Power => match u32::try_from(right) {
            Ok(exponent) => left.checked_pow(exponent),
            // A negative exponent: the result is a fraction.
            Err(_) => return power(left, right),
        },
        MathOp::Divide | MathOp::Concat => None,
    };
    let number = result.and_then(|result| Number::from_i128(result).filter(|_| fits(result)));
    number
        .map(Value::Number)
        .ok_or_else(|| "the result is too large for an integer".to_owned())
}

fn power(left: i128, right: i128) -> Result<Value, String> {
    let number = |integer| Number::from_i128(integer).unwrap_or_else(|| 0.into());
    floats(MathOp::Power, &number(left), &number(right))
}

/// What JSON integers are stored as.
fn fits(number: i128) -> bool {
    i64::try_from(number).is_ok() || u64::try_from(number).is_ok()
}

fn floats(op: MathOp, left: &Number, right: &Number) -> Result<Value, String> {
    let exact = |number: &Number| {
        exact_float(number).map_err(|why| match op {
            MathOp::Divide => format!("{why}, which `/` gives; `//` divides integers"),
            _ => why,
        })
    };
    let (left, right) = (exact(left)?, exact(right)?);
    if right == 0.0 && matches!(op, MathOp::Divide | MathOp::FloorDivide | MathOp::Remainder) {
        return Err("division by zero".to_owned());
    }
    float(match op {
        MathOp::Add => left + right,
        MathOp::Subtract => left - right,
        MathOp::Multiply => left * right,
        MathOp::Divide => left / right,
        MathOp::FloorDivide => left.div_euclid(right),
        MathOp::Remainder => left.rem_euclid(right),
        MathOp::Power => left.powf(right),
        MathOp::Concat => f64::NAN,
    })
}

/// Python's slices of lists and texts: `[start:stop:step]`, negative positions from the end.
pub(crate) fn slice(value: &Value, [start, stop, step]: [Option<i64>; 3]) -> Result<Value, String> {
    let step = step.unwrap_or(1);
    if step <= 0 {
        return Err(
            "the step of a slice must be at least 1; `reverse` turns a list around".to_owned(),
        );
    }
    let bounds = |length: usize| {
        let place = |position: i64| {
            let position = if position < 0 {
                position + length as i64
            } else {
                position
            };
            position.clamp(0, length as i64) as usize
        };
        let (start, stop) = (start.map_or(0, place), stop.map_or(length, place));
        (start, stop.max(start))
    };
    match value {
        Value::Array(items) => {
            let (start, stop) = bounds(items.len());
            Ok(Value::Array(
                items[start..stop]
                    .iter()
                    .step_by(step as usize)
                    .cloned()
                    .collect(),
            ))
        }
        Value::String(text) => {
            let (start, stop) = bounds(text.chars().count());
            let part = text
                .chars()
                .skip(start)
                .take(stop - start)
                .step_by(step as usize);
            Ok(Value::String(part.collect()))
        }
        other => Err(format!("{} has no slices", a_kind(other))),
    }
}
