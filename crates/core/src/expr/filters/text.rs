//! Filters on texts.

use serde_json::Value;

use super::{Filter, Out, a_list, a_text, attribute_of};
use crate::expr::eval::Values;
use crate::expr::json::exact_json;
use crate::expr::ops;
use crate::expr::quote::percent_encode;
use crate::expr::shape::ValueKind;
use crate::port::without_marks;
use crate::value::Val;

pub(super) static FILTERS: &[Filter] = &[
    Filter::new("from_json", &["default"], 0, ValueKind::Any, from_json),
    Filter::new(
        "join",
        &["separator", "attribute"],
        0,
        ValueKind::String,
        join,
    )
    .multiplies(),
    Filter::new("lines", &[], 0, ValueKind::List, |value, _| {
        Ok(Out::Made(a_text(value)?.lines().map(Value::from).collect()))
    }),
    Filter::new("lower", &[], 0, ValueKind::String, |value, _| {
        made(a_text(value)?.to_lowercase())
    }),
    Filter::new("replace", &["old", "new"], 2, ValueKind::String, replace).multiplies(),
    Filter::new("split", &["separator", "max"], 0, ValueKind::List, split),
    Filter::new("string", &[], 0, ValueKind::String, string),
    Filter::new("to_json", &["indent"], 0, ValueKind::String, to_json),
    Filter::new("tojson", &["indent"], 0, ValueKind::String, to_json),
    Filter::new("trim", &["chars"], 0, ValueKind::String, trim),
    Filter::new(
        "truncate",
        &["length", "end"],
        1,
        ValueKind::String,
        truncate,
    ),
    Filter::new("upper", &[], 0, ValueKind::String, |value, _| {
        made(a_text(value)?.to_uppercase())
    }),
    Filter::new("urlencode", &[], 0, ValueKind::String, |value, _| {
        made(percent_encode(&ops::text(value)))
    }),
    Filter::new("words", &[], 0, ValueKind::List, |value, _| {
        Ok(Out::Made(
            a_text(value)?.split_whitespace().map(Value::from).collect(),
        ))
    }),
];

fn made<'v>(text: String) -> Result<Out<'v>, String> {
    Ok(Out::Made(Value::String(text)))
}

fn string<'v>(value: &'v Value, _: &Values<'v>) -> Result<Out<'v>, String> {
    match value {
        Value::String(_) => Ok(Out::Same(value)),
        other => made(ops::text(other)),
    }
}

fn from_json<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let text = a_text(value)?;
    match (exact_json(text), args.named.first().copied().flatten()) {
        // An escape in the text must not become the mark of a secret.
        (Ok(value), _) => Ok(Out::Made(without_marks(Val::new(value)).into_json())),
        (Err(_), Some(default)) => Ok(Out::Same(default)),
        (Err(error), None) => Err(format!("the text is not JSON: {error}")),
    }
}

/// Spaces of the widest indentation.
const INDENT_MAX: usize = 16;

fn to_json<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let Some(indent) = args.count(0)? else {
        return made(value.to_string());
    };
    let spaces = " ".repeat(indent.min(INDENT_MAX));
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    serde::Serialize::serialize(value, &mut serializer).map_err(|error| error.to_string())?;
    made(String::from_utf8_lossy(&out).into_owned())
}

fn join<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let (separator, attribute) = (args.text(0)?.unwrap_or_default(), args.text(1)?);
    let mut out = String::new();
    for (index, item) in a_list(value)?.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        ops::print(
            attribute.map_or(Ok(item), |path| attribute_of(item, path))?,
            &mut out,
        );
    }
    made(out)
}

fn replace<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let part = |index: usize| args.named[index].map_or_else(|| Ok(""), a_text);
    made(a_text(value)?.replace(part(0)?, part(1)?))
}

fn split<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let text = a_text(value)?;
    let parts = args
        .count(1)?
        .map_or(usize::MAX, |max| max.saturating_add(1));
    let separator = match args.text(0)? {
        Some("") => return Err("the separator is empty".to_owned()),
        separator => separator,
    };
    Ok(Out::Made(match separator {
        Some(separator) => text.splitn(parts, separator).map(Value::from).collect(),
        None => text.split_whitespace().map(Value::from).collect(),
    }))
}

fn trim<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let text = a_text(value)?;
    made(match args.text(0)? {
        Some(chars) => text.trim_matches(|c| chars.contains(c)).to_owned(),
        None => text.trim().to_owned(),
    })
}

fn truncate<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let (text, end) = (a_text(value)?, args.text(1)?.unwrap_or("..."));
    let length = args.count(0)?.unwrap_or_default();
    if text.chars().count() <= length {
        return Ok(Out::Same(value));
    }
    let kept = length.saturating_sub(end.chars().count());
    made(text.chars().take(kept).chain(end.chars()).collect())
}
