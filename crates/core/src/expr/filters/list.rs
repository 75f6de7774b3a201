//! Filters on lists.

use serde_json::Value;

use super::{Filter, Out, a_list, a_text, attribute, attribute_of, find};
use crate::expr::eval::Values;
use crate::expr::shape::ValueKind;
use crate::expr::{ops, predicates};

pub(super) static FILTERS: &[Filter] = &[
    Filter::new("first", &[], 0, ValueKind::Any, |value, _| end(value, true)),
    Filter::new("flatten", &["depth"], 0, ValueKind::List, flatten),
    Filter::new("last", &[], 0, ValueKind::Any, |value, _| end(value, false)),
    Filter::new("list", &[], 0, ValueKind::List, list),
    Filter::new(
        "map",
        &["filter", "attribute", "default"],
        0,
        ValueKind::List,
        map,
    )
    .rest()
    .multiplies(),
    Filter::new("reject", &["test"], 0, ValueKind::List, |value, args| {
        select(value, args, false)
    })
    .rest(),
    Filter::new(
        "rejectattr",
        &["attribute", "test"],
        1,
        ValueKind::List,
        |value, args| selectattr(value, args, false),
    )
    .rest(),
    Filter::new("reverse", &[], 0, ValueKind::Any, reverse),
    Filter::new("select", &["test"], 0, ValueKind::List, |value, args| {
        select(value, args, true)
    })
    .rest(),
    Filter::new(
        "selectattr",
        &["attribute", "test"],
        1,
        ValueKind::List,
        |value, args| selectattr(value, args, true),
    )
    .rest(),
    Filter::new("take", &["count"], 1, ValueKind::Any, take),
];

fn end(value: &Value, first: bool) -> Result<Out<'_>, String> {
    if let Value::String(text) = value {
        let mut chars = text.chars();
        let char = if first {
            chars.next()
        } else {
            chars.next_back()
        };
        let made = char.map(|char| Out::Made(Value::String(char.to_string())));
        return Ok(made.unwrap_or_else(|| Out::Nothing("the text is empty".to_owned())));
    }
    let items = a_list(value)?;
    let item = if first { items.first() } else { items.last() };
    Ok(item.map_or_else(|| Out::Nothing("the list is empty".to_owned()), Out::Same))
}

/// Characters of a text, names of an object, a list as it is.
fn list<'v>(value: &'v Value, _: &Values<'v>) -> Result<Out<'v>, String> {
    match value {
        Value::Array(_) => Ok(Out::Same(value)),
        Value::String(text) => Ok(Out::Made(
            text.chars()
                .map(|char| Value::from(char.to_string()))
                .collect(),
        )),
        Value::Object(fields) => Ok(Out::Made(fields.keys().cloned().collect())),
        other => Err(format!("{} is not a list", ops::a_kind(other))),
    }
}

fn reverse<'v>(value: &'v Value, _: &Values<'v>) -> Result<Out<'v>, String> {
    match value {
        Value::String(text) => Ok(Out::Made(Value::String(text.chars().rev().collect()))),
        other => Ok(Out::Made(a_list(other)?.iter().rev().cloned().collect())),
    }
}

fn take<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let count = args.count(0)?.unwrap_or_default();
    match value {
        Value::Array(items) if items.len() <= count => Ok(Out::Same(value)),
        Value::String(text) => Ok(Out::Made(Value::String(text.chars().take(count).collect()))),
        other => Ok(Out::Made(
            a_list(other)?.iter().take(count).cloned().collect(),
        )),
    }
}

/// Levels of nesting that `flatten` opens up unless told otherwise.
const FLATTEN_DEPTH: usize = 1;

fn flatten<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    fn open(items: &[Value], depth: usize, out: &mut Vec<Value>) {
        for item in items {
            match item {
                Value::Array(inner) if depth > 0 => open(inner, depth - 1, out),
                other => out.push(other.clone()),
            }
        }
    }
    let mut out = Vec::new();
    open(
        a_list(value)?,
        args.count(0)?.unwrap_or(FLATTEN_DEPTH),
        &mut out,
    );
    Ok(Out::Made(Value::Array(out)))
}

fn map<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let items = a_list(value)?;
    let mapped: Result<Vec<Value>, String> = match (args.text(0)?, args.text(1)?) {
        (None, Some(path)) => {
            let default = args.named[2];
            let of = |item| {
                attribute(item, path)
                    .or(default)
                    .map_or_else(|| attribute_of(item, path), Ok)
            };
            items.iter().map(|item| of(item).cloned()).collect()
        }
        (Some(name), None) => {
            let filter = find(name).ok_or_else(|| format!("there is no filter `{name}`"))?;
            let args = Values::positional(filter, &args.rest)?;
            let run = |item| match (filter.run)(item, &args)? {
                Out::Same(value) => Ok(value.clone()),
                Out::Made(value) => Ok(value),
                Out::Nothing(sentence) => Err(sentence),
            };
            items.iter().map(run).collect()
        }
        (Some(_), Some(_)) | (None, None) => {
            Err("give it a filter's name or `attribute=`".to_owned())
        }
    };
    mapped.map(|items| Out::Made(Value::Array(items)))
}

/// Whether a value passes the named test, or Jinja's truth where none is named.
fn passes(value: &Value, test: Option<&str>, args: &[&Value]) -> Result<bool, String> {
    let Some(name) = test else {
        return Ok(ops::truthy(value));
    };
    let test = predicates::find(name).ok_or_else(|| format!("there is no test `{name}`"))?;
    if test.args != args.len() {
        return Err(format!(
            "the test `{name}` takes {} arguments, not {}",
            test.args,
            args.len()
        ));
    }
    (test.run)(value, args)
}

fn select<'v>(value: &'v Value, args: &Values<'v>, wanted: bool) -> Result<Out<'v>, String> {
    let test = args.text(0)?;
    let mut kept = Vec::new();
    for item in a_list(value)? {
        if passes(item, test, &args.rest)? == wanted {
            kept.push(item.clone());
        }
    }
    Ok(Out::Made(Value::Array(kept)))
}

/// `defined` and `undefined` ask for the attribute itself; other tests need it to be there.
fn selectattr<'v>(value: &'v Value, args: &Values<'v>, wanted: bool) -> Result<Out<'v>, String> {
    let path = a_text(args.named[0].unwrap_or(&Value::Null))?;
    let test = args.text(1)?;
    let mut kept = Vec::new();
    for item in a_list(value)? {
        let passes = match test {
            Some(predicates::DEFINED) => attribute(item, path).is_some(),
            Some(predicates::UNDEFINED) => attribute(item, path).is_none(),
            test => passes(attribute_of(item, path)?, test, &args.rest)?,
        };
        if passes == wanted {
            kept.push(item.clone());
        }
    }
    Ok(Out::Made(Value::Array(kept)))
}
