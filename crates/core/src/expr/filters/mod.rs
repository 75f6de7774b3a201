//! The filters of expressions: one table, one row per name. All are functions of their input and arguments.
//!
//! To add one: write `fn(&Value, &Values) -> Result<Out, String>` in the file it fits, add its row to that file's
//! table, and its example to `docs/expressions.md` (a test walks the table for it).

mod data;
mod jinja;
mod list;
mod number;
mod order;
mod text;

use serde_json::Value;

use super::eval::Values;
use super::ops;
use super::shape::ValueKind;

/// What a filter gives back.
pub(crate) enum Out<'v> {
    /// A part of what came in.
    Same(&'v Value),
    /// A new value.
    Made(Value),
    /// No value, and the sentence that says why; a guard takes it.
    Nothing(String),
}

/// The code of a filter. The error is a sentence; the evaluator adds the name and the place.
pub(crate) type Run = for<'v> fn(&'v Value, &Values<'v>) -> Result<Out<'v>, String>;

/// A filter.
pub(crate) struct Filter {
    pub(crate) name: &'static str,
    /// Parameters, by position or by name.
    pub(crate) params: &'static [&'static str],
    /// How many of them must be given.
    pub(crate) required: usize,
    /// Takes more positional arguments.
    pub(crate) rest: bool,
    /// Takes any keyword as data.
    pub(crate) extra: bool,
    /// Repeats its arguments for the parts of its input, so that it can make far more than it is given.
    pub(crate) multiplies: bool,
    pub(crate) returns: ValueKind,
    pub(crate) run: Run,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Filter {
    const fn new(
        name: &'static str,
        params: &'static [&'static str],
        required: usize,
        returns: ValueKind,
        run: Run,
    ) -> Self {
        Self {
            name,
            params,
            required,
            rest: false,
            extra: false,
            multiplies: false,
            returns,
            run,
        }
    }

    const fn rest(mut self) -> Self {
        self.rest = true;
        self
    }

    const fn multiplies(mut self) -> Self {
        self.multiplies = true;
        self
    }

    const fn extra(mut self) -> Self {
        self.extra = true;
        self
    }
}

/// The guard among the filters, and its Jinja short form; nodes of their own.
pub(crate) const DEFAULT: [&str; 2] = ["default", "d"];
/// Text that goes into a shell as it is; handled where text is emitted.
pub(crate) const RAW_SHELL: &str = "raw_shell";

/// Every filter of the tables.
pub(crate) fn all() -> impl Iterator<Item = &'static Filter> {
    [
        data::FILTERS,
        list::FILTERS,
        number::FILTERS,
        order::FILTERS,
        text::FILTERS,
        jinja::FILTERS,
    ]
    .into_iter()
    .flatten()
}

/// The filter of a name.
pub(crate) fn find(name: &str) -> Option<&'static Filter> {
    all().find(|filter| filter.name == name)
}

/// The names of all filters, the guards included.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all()
        .map(|filter| filter.name)
        .chain(DEFAULT)
        .chain([super::functions::FIRST_OF, RAW_SHELL])
}

/// Bytes of text that cost one unit of fuel.
const TEXT_BYTES_PER_FUEL: usize = 64;

/// What running a filter costs before it runs: the size of what it is given.
pub(crate) fn cost(filter: &Filter, input: &Value, args: &Values<'_>) -> usize {
    let sum = |size: fn(&Value) -> usize| -> usize {
        args.named
            .iter()
            .flatten()
            .chain(&args.rest)
            .map(|value| size(value))
            .sum()
    };
    let spent = |value: &Value| match value {
        Value::String(text) => text.len() / TEXT_BYTES_PER_FUEL,
        other => ops::length(other),
    };
    let product = if filter.multiplies {
        ops::length(input).saturating_mul(sum(ops::length)) / TEXT_BYTES_PER_FUEL
    } else {
        0
    };
    spent(input) + sum(spent) + product
}

impl<'v> Values<'v> {
    fn get(&self, index: usize) -> Option<&'v Value> {
        self.named
            .get(index)
            .copied()
            .flatten()
            .filter(|value| !value.is_null())
    }

    fn text(&self, index: usize) -> Result<Option<&'v str>, String> {
        self.get(index).map(a_text).transpose()
    }

    fn flag(&self, index: usize) -> Result<bool, String> {
        match self.get(index) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(format!("expected a boolean, got {}", ops::a_kind(other))),
        }
    }

    fn count(&self, index: usize) -> Result<Option<usize>, String> {
        self.get(index).map(ops::count).transpose()
    }

    /// Arguments for a filter that is itself an argument (`map('take', 2)`).
    fn positional(filter: &Filter, given: &[&'v Value]) -> Result<Self, String> {
        let named = filter.params.len();
        if given.len() < filter.required || (given.len() > named && !filter.rest) {
            return Err(format!(
                "`{}` does not take {} arguments",
                filter.name,
                given.len()
            ));
        }
        let (first, rest) = given.split_at(named.min(given.len()));
        let mut named: Vec<_> = first.iter().copied().map(Some).collect();
        named.resize(filter.params.len(), None);
        Ok(Self {
            named,
            rest: rest.to_vec(),
            extra: Vec::new(),
        })
    }
}

fn a_text(value: &Value) -> Result<&str, String> {
    value
        .as_str()
        .ok_or_else(|| format!("expected a string, got {}", ops::a_kind(value)))
}

fn a_list(value: &Value) -> Result<&Vec<Value>, String> {
    value
        .as_array()
        .ok_or_else(|| format!("expected a list, got {}", ops::a_kind(value)))
}

fn an_object(value: &Value) -> Result<&serde_json::Map<String, Value>, String> {
    value
        .as_object()
        .ok_or_else(|| format!("expected an object, got {}", ops::a_kind(value)))
}

/// The value at a dotted path (`a.b.0`); `None` where a part is missing.
fn attribute<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, part| match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// The value at a dotted path, which must be there.
fn attribute_of<'v>(value: &'v Value, path: &str) -> Result<&'v Value, String> {
    attribute(value, path)
        .ok_or_else(|| format!("{} in the list has no `{path}`", ops::a_kind(value)))
}

/// One text per class of equal values: keys sorted, `1.0` as `1`.
fn canonical(value: &Value) -> String {
    fn write(value: &Value, out: &mut String) {
        match value {
            Value::Number(number) => match ops::integer(value) {
                Ok(whole) => out.push_str(&whole.to_string()),
                Err(_) => out.push_str(&number.to_string()),
            },
            Value::Array(items) => {
                out.push('[');
                for item in items {
                    write(item, out);
                    out.push(',');
                }
                out.push(']');
            }
            Value::Object(fields) => {
                let mut keys: Vec<_> = fields.iter().collect();
                keys.sort_by_key(|(key, _)| *key);
                out.push('{');
                for (key, value) in keys {
                    out.push_str(&Value::String(key.clone()).to_string());
                    out.push(':');
                    write(value, out);
                    out.push(',');
                }
                out.push('}');
            }
            Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
        }
    }
    let mut out = String::new();
    write(value, &mut out);
    out
}
