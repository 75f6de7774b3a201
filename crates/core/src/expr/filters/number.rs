//! Filters that make numbers and booleans.

use serde_json::Value;

use super::{Filter, Out, a_list, attribute_of};
use crate::expr::ast::MathOp;
use crate::expr::eval::Values;
use crate::expr::ops;
use crate::expr::shape::ValueKind;

pub(super) static FILTERS: &[Filter] = &[
    Filter::new("abs", &[], 0, ValueKind::Number, abs),
    Filter::new("bool", &[], 0, ValueKind::Boolean, bool),
    Filter::new("count", &[], 0, ValueKind::Integer, length),
    Filter::new("float", &["default"], 0, ValueKind::Number, float),
    Filter::new("int", &["default"], 0, ValueKind::Integer, int),
    Filter::new("length", &[], 0, ValueKind::Integer, length),
    Filter::new("sum", &["attribute"], 0, ValueKind::Number, sum),
];

fn abs<'v>(value: &'v Value, _: &Values<'v>) -> Result<Out<'v>, String> {
    let Value::Number(number) = value else {
        return Err(format!("expected a number, got {}", ops::a_kind(value)));
    };
    match number.as_f64() {
        Some(float) if float < 0.0 => ops::negate(value).map(Out::Made),
        Some(_) | None => Ok(Out::Same(value)),
    }
}

/// Texts must say `true` or `false`; everything else follows Jinja's truth.
fn bool<'v>(value: &'v Value, _: &Values<'v>) -> Result<Out<'v>, String> {
    match value {
        Value::Bool(_) => Ok(Out::Same(value)),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(Out::Made(Value::Bool(true))),
            "false" => Ok(Out::Made(Value::Bool(false))),
            other => Err(format!("{other:?} is neither true nor false")),
        },
        other => Ok(Out::Made(Value::Bool(ops::truthy(other)))),
    }
}

fn length<'v>(value: &'v Value, _: &Values<'v>) -> Result<Out<'v>, String> {
    match value {
        Value::String(text) => Ok(Out::Made(Value::from(text.chars().count()))),
        Value::Array(items) => Ok(Out::Made(Value::from(items.len()))),
        Value::Object(fields) => Ok(Out::Made(Value::from(fields.len()))),
        other => Err(format!("{} has no length", ops::a_kind(other))),
    }
}

/// The conversion, or the given default where it fails.
fn or_default<'v>(made: Result<Value, String>, args: &Values<'v>) -> Result<Out<'v>, String> {
    match (made, args.get(0)) {
        (Err(_), Some(default)) => Ok(Out::Same(default)),
        (made, _) => made.map(Out::Made),
    }
}

fn int<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let made = match value {
        Value::Bool(value) => Ok(Value::from(i64::from(*value))),
        Value::Number(number) if number.is_f64() => {
            ops::integer(&Value::from(number.as_f64().unwrap_or_default().trunc())).map(Value::from)
        }
        Value::Number(_) => return Ok(Out::Same(value)),
        Value::String(text) => whole(text.trim()),
        other => Err(format!("{} is not an integer", ops::a_kind(other))),
    };
    or_default(made, args)
}

fn whole(text: &str) -> Result<Value, String> {
    let integer = text
        .parse::<i64>()
        .map(Value::from)
        .or_else(|_| text.parse::<u64>().map(Value::from));
    integer.map_err(|_| format!("{text:?} is not an integer"))
}

fn float<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let made = match value {
        Value::Number(number) => ops::exact_float(number).and_then(ops::float),
        Value::String(text) => match (whole(text.trim()), text.trim().parse::<f64>()) {
            (Ok(Value::Number(integer)), _) => ops::exact_float(&integer).and_then(ops::float),
            (_, Ok(float)) => ops::float(float),
            (_, Err(_)) => Err(format!("{:?} is not a number", text.trim())),
        },
        other => Err(format!("{} is not a number", ops::a_kind(other))),
    };
    or_default(made, args)
}

fn sum<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let attribute = args.text(0)?;
    let mut total = Value::from(0);
    for item in a_list(value)? {
        let number = attribute.map_or(Ok(item), |path| attribute_of(item, path))?;
        if !number.is_number() {
            return Err(format!("expected numbers, got {}", ops::a_kind(number)));
        }
        total = ops::math(MathOp::Add, &total, number)?;
    }
    Ok(Out::Made(total))
}
