//! Filters that order lists. Every sort is stable, and unlike keys are an error, never an accident.

use std::cmp::Ordering;

use indexmap::IndexMap;
use serde_json::Value;

use super::{Filter, Out, a_list, a_text, attribute, attribute_of, canonical};
use crate::expr::eval::Values;
use crate::expr::ops;
use crate::expr::shape::ValueKind;

pub(super) static FILTERS: &[Filter] = &[
    Filter::new("max", &["attribute"], 0, ValueKind::Any, |value, args| {
        extreme(value, args, Ordering::Greater)
    }),
    Filter::new("min", &["attribute"], 0, ValueKind::Any, |value, args| {
        extreme(value, args, Ordering::Less)
    }),
    Filter::new("rrf", &["k", "key"], 0, ValueKind::List, rrf),
    Filter::new(
        "sort",
        &["reverse", "case_sensitive", "attribute"],
        0,
        ValueKind::List,
        sort,
    ),
    Filter::new("sort_by", &[], 0, ValueKind::List, sort_by).rest(),
    Filter::new(
        "unique",
        &["case_sensitive", "attribute"],
        0,
        ValueKind::List,
        unique,
    ),
];

/// Jinja's key of a value: texts without their case, unless asked.
fn folded(value: &Value, case_sensitive: bool) -> Value {
    match value {
        Value::String(text) if !case_sensitive => Value::String(text.to_lowercase()),
        other => other.clone(),
    }
}

/// Sorts by keys that are made once; fails if two keys have no order.
fn sort_stably<K>(
    items: &mut [(K, &Value)],
    order: impl Fn(&K, &K) -> Result<Ordering, String>,
) -> Result<(), String> {
    let mut failure = None;
    items.sort_by(|(left, _), (right, _)| {
        order(left, right).unwrap_or_else(|sentence| {
            failure.get_or_insert(sentence);
            Ordering::Equal
        })
    });
    failure.map_or(Ok(()), Err)
}

fn taken<K>(items: Vec<(K, &Value)>) -> Value {
    items.into_iter().map(|(_, item)| item.clone()).collect()
}

fn sort<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let (reverse, case_sensitive, path) = (args.flag(0)?, args.flag(1)?, args.text(2)?);
    let mut items = Vec::new();
    for item in a_list(value)? {
        let key = path.map_or(Ok(item), |path| attribute_of(item, path))?;
        items.push((folded(key, case_sensitive), item));
    }
    sort_stably(&mut items, |left, right| {
        ops::order(left, right).map(|order| if reverse { order.reverse() } else { order })
    })?;
    Ok(Out::Made(taken(items)))
}

/// Keys in order of weight, `-name` for the largest first; missing and null keys come last.
fn sort_by<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let mut keys = Vec::new();
    for key in &args.rest {
        let key = a_text(key)?;
        keys.push(
            key.strip_prefix('-')
                .map_or((key, false), |key| (key, true)),
        );
    }
    if keys.is_empty() {
        return Err("name at least one field to sort by".to_owned());
    }
    let mut items: Vec<(Vec<Option<&Value>>, &Value)> = Vec::new();
    for item in a_list(value)? {
        let of = |(path, _): &(&str, bool)| attribute(item, path).filter(|value| !value.is_null());
        items.push((keys.iter().map(of).collect(), item));
    }
    sort_stably(&mut items, |left, right| {
        for ((left, right), (_, reverse)) in left.iter().zip(right).zip(&keys) {
            let order = match (left, right) {
                (Some(left), Some(right)) => ops::order(left, right)?,
                (None, None) => Ordering::Equal,
                (Some(_), None) => return Ok(Ordering::Less),
                (None, Some(_)) => return Ok(Ordering::Greater),
            };
            if order.is_ne() {
                return Ok(if *reverse { order.reverse() } else { order });
            }
        }
        Ok(Ordering::Equal)
    })?;
    Ok(Out::Made(taken(items)))
}

/// The first of the smallest or largest items.
fn extreme<'v>(value: &'v Value, args: &Values<'v>, wanted: Ordering) -> Result<Out<'v>, String> {
    let path = args.text(0)?;
    let mut best: Option<(&Value, &Value)> = None;
    for item in a_list(value)? {
        let key = path.map_or(Ok(item), |path| attribute_of(item, path))?;
        let better = match best {
            Some((best, _)) => ops::order(key, best)? == wanted,
            None => true,
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or_else(
        || Out::Nothing("the list is empty".to_owned()),
        |(_, item)| Out::Same(item),
    ))
}

fn unique<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let (case_sensitive, path) = (args.flag(0)?, args.text(1)?);
    let mut seen = std::collections::BTreeSet::new();
    let mut kept = Vec::new();
    for item in a_list(value)? {
        let key = path.map_or(Ok(item), |path| attribute_of(item, path))?;
        if seen.insert(canonical(&folded(key, case_sensitive))) {
            kept.push(item.clone());
        }
    }
    Ok(Out::Made(Value::Array(kept)))
}

/// The constant of reciprocal rank fusion that the literature settled on.
const RRF_K: f64 = 60.0;

/// Reciprocal rank fusion of ranked lists: an item scores the sum of `1 / (k + rank)` over the lists it is in.
/// Equal scores keep the order of first appearance.
fn rrf<'v>(value: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let k = args.get(0).map_or(Some(RRF_K), Value::as_f64);
    let k = k
        .filter(|k| *k >= 0.0)
        .ok_or_else(|| "`k` must be a number of at least 0".to_owned())?;
    let key = args.text(1)?;
    let mut scores: IndexMap<String, (f64, &Value)> = IndexMap::new();
    for list in a_list(value)? {
        let mut ranked = std::collections::BTreeSet::new();
        for (rank, item) in a_list(list)?.iter().enumerate() {
            let identity = canonical(key.map_or(Ok(item), |path| attribute_of(item, path))?);
            if ranked.insert(identity.clone()) {
                scores.entry(identity).or_insert((0.0, item)).0 += 1.0 / (k + rank as f64 + 1.0);
            }
        }
    }
    let mut fused: Vec<_> = scores.into_values().collect();
    fused.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    Ok(Out::Made(taken(fused)))
}
