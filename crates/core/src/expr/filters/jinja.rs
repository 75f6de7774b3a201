//! Filters that minijinja has and that need nothing of ours: carried over to its values and back.

use std::sync::LazyLock;

use minijinja::value::Serde;
use minijinja::{Environment, Value as Jinja};
use serde_json::Value;

use super::{Filter, Out};
use crate::expr::eval::Values;
use crate::expr::shape::ValueKind;

/// Operations of one filter, as minijinja counts them.
const FUEL: u64 = 1_000_000;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment
});

pub(super) static FILTERS: &[Filter] = &[
    Filter::new(
        "batch",
        &["count", "fill"],
        1,
        ValueKind::List,
        |value, args| run("batch", value, args),
    ),
    Filter::new("capitalize", &[], 0, ValueKind::String, |value, args| {
        run("capitalize", value, args)
    }),
    Filter::new("chain", &[], 0, ValueKind::List, |value, args| {
        run("chain", value, args)
    })
    .rest(),
    Filter::new("format", &[], 0, ValueKind::String, |value, args| {
        run("format", value, args)
    })
    .rest(),
    Filter::new(
        "indent",
        &["width", "first", "blank"],
        1,
        ValueKind::String,
        |value, args| run("indent", value, args),
    ),
    Filter::new(
        "round",
        &["precision"],
        0,
        ValueKind::Number,
        |value, args| run("round", value, args),
    ),
    Filter::new(
        "slice",
        &["count", "fill"],
        1,
        ValueKind::List,
        |value, args| run("slice", value, args),
    ),
    Filter::new("title", &[], 0, ValueKind::String, |value, args| {
        run("title", value, args)
    }),
    Filter::new("zip", &[], 0, ValueKind::List, |value, args| {
        run("zip", value, args)
    })
    .rest(),
];

fn run<'v>(name: &str, input: &'v Value, args: &Values<'v>) -> Result<Out<'v>, String> {
    let given = args
        .named
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    let named = args.named[..given]
        .iter()
        .map(|arg| arg.map_or(Jinja::UNDEFINED, from_json));
    let rest = args.rest.iter().map(|arg| from_json(arg));
    let all: Vec<_> = [from_json(input)]
        .into_iter()
        .chain(named)
        .chain(rest)
        .collect();
    let made = ENVIRONMENT
        .empty_state()
        .apply_filter(name, &all)
        .map_err(|error| {
            error
                .detail()
                .map_or_else(|| error.kind().to_string(), str::to_owned)
        })?;
    serde_json::to_value(&made)
        .map(Out::Made)
        .map_err(|error| error.to_string())
}

fn from_json(value: &Value) -> Jinja {
    Jinja::from(Serde(value))
}
