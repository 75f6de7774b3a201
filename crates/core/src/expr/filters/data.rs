//! Filters on objects and on lists of objects.

use serde_json::{Map, Value, json};

use super::{Filter, Out, a_list, a_text, an_object, attribute, canonical};
use crate::expr::eval::Values;
use crate::expr::ops;
use crate::expr::shape::ValueKind;

pub(super) static FILTERS: &[Filter] = &[
    Filter::new("attr", &["name"], 1, ValueKind::Any, |value, args| {
        let name = args.text(0)?.unwrap_or_default();
        let nothing = || Out::Nothing(format!("{} has no field `{name}`", ops::a_kind(value)));
        Ok(attribute(value, name).map_or_else(nothing, Out::Same))
    }),
    Filter::new("dictsort", &["reverse"], 0, ValueKind::List, dictsort),
    Filter::new("group_by", &["attribute"], 1, ValueKind::List, group_by),
    Filter::new("items", &[], 0, ValueKind::List, |value, _| {
        Ok(Out::Made(pairs(an_object(value)?.iter())))
    }),
    Filter::new("keys", &[], 0, ValueKind::List, |value, _| {
        Ok(Out::Made(an_object(value)?.keys().cloned().collect()))
    }),
    Filter::new("merge", &[], 0, ValueKind::Object, merge).rest(),
    Filter::new("pick", &[], 0, ValueKind::Any, pick).rest(),
    Filter::new("put", &[], 0, ValueKind::Object, put)
        .rest()
        .extra(),
    Filter::new("unique_by", &["attribute"], 1, ValueKind::List, unique_by),
    Filter::new("values", &[], 0, ValueKind::List, |value, _| {
        Ok(Out::Made(an_object(value)?.values().cloned().collect()))
    }),
];

fn pairs<'v>(fields: impl Iterator<Item = (&'v String, &'v Value)>) -> Value {
    fields.map(|(key, value)| json!([key, value])).collect()
}

fn dictsort<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let mut fields: Vec<_> = an_object(value)?.iter().collect();
    fields.sort_by_key(|(key, _)| (key.to_lowercase(), *key));
    if args.flag(0)? {
        fields.reverse();
    }
    Ok(Out::Made(pairs(fields.into_iter())))
}

fn group_by<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let path = args.text(0)?.unwrap_or_default();
    let mut groups: indexmap::IndexMap<String, (Value, Vec<Value>)> = indexmap::IndexMap::new();
    for item in a_list(value)? {
        let key = attribute(item, path).cloned().unwrap_or(Value::Null);
        let group = groups
            .entry(canonical(&key))
            .or_insert_with(|| (key, Vec::new()));
        group.1.push(item.clone());
    }
    let groups = groups
        .into_values()
        .map(|(key, items)| json!({ "key": key, "items": items }));
    Ok(Out::Made(groups.collect()))
}

fn unique_by<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let path = args.text(0)?.unwrap_or_default();
    let mut seen = std::collections::BTreeSet::new();
    let mut kept = Vec::new();
    for item in a_list(value)? {
        if seen.insert(canonical(attribute(item, path).unwrap_or(&Value::Null))) {
            kept.push(item.clone());
        }
    }
    Ok(Out::Made(Value::Array(kept)))
}

fn merge<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let mut merged = an_object(value)?.clone();
    for other in &args.rest {
        for (key, value) in an_object(other)? {
            merged.insert(key.clone(), value.clone());
        }
    }
    Ok(Out::Made(Value::Object(merged)))
}

/// The named fields of an object, or of each object of a list; in the order they are named.
fn pick<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    if let Value::Array(items) = value {
        let picked = items
            .iter()
            .map(|item| pick_one(item, args))
            .collect::<Result<Vec<_>, _>>()?;
        return Ok(Out::Made(Value::Array(picked)));
    }
    pick_one(value, args).map(Out::Made)
}

fn pick_one(value: &Value, args: &Values<'_>) -> Result<Value, String> {
    let fields = an_object(value)?;
    let mut picked = Map::new();
    for name in &args.rest {
        let name = a_text(name)?;
        let field = fields
            .get(name)
            .ok_or_else(|| format!("the object has no field `{name}`"))?;
        picked.insert(name.to_owned(), field.clone());
    }
    Ok(Value::Object(picked))
}

fn put<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let mut fields = an_object(value)?.clone();
    let (pairs, []) = args.rest.as_chunks::<2>() else {
        return Err("expected pairs of a name and a value".to_owned());
    };
    for [name, value] in pairs {
        let Value::String(name) = name else {
            return Err(format!("a name is a string, not {}", ops::a_kind(name)));
        };
        fields.insert(name.clone(), (*value).clone());
    }
    for (name, value) in &args.extra {
        fields.insert((*name).to_owned(), (*value).clone());
    }
    Ok(Out::Made(Value::Object(fields)))
}
