//! Whether a value is of a type; with the defaults filled in when it is.

use std::fmt;

use serde_json::{Map, Value};

use super::{Property, Shape, Type};
use crate::value::Val;

/// Something in a value that its type does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer into the value; empty for the whole.
    pub pointer: String,
    /// One sentence, lower case.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.pointer, self.message)
        }
    }
}

/// Violations reported for one value; a wrong list of a million items is not described a million times.
pub const VIOLATIONS_MAX: usize = 20;

impl Type {
    /// The value as one of this type, defaults filled in and absent nullable fields null; or what is wrong with it.
    pub fn accepts(&self, value: &Val) -> Result<Val, Vec<Violation>> {
        let mut walk = Walk {
            violations: Vec::new(),
        };
        let changed = walk.value(self, value.json(), &mut Vec::new());
        if !walk.violations.is_empty() {
            return Err(walk.violations);
        }
        let accepted = changed.map_or_else(|| value.clone(), Val::new);
        if self.0.more {
            self.validate(accepted.json())?;
        }
        Ok(accepted)
    }

    /// Whether a JSON value is of this type as it stands or with its defaults.
    pub(crate) fn takes(&self, value: &Value) -> Result<(), Vec<Violation>> {
        self.accepts(&Val::new(value.clone())).map(|_| ())
    }

    fn validate(&self, value: &Value) -> Result<(), Vec<Violation>> {
        // A schema that does not compile is refused when the type is made; types this crate makes itself are valid.
        let compiled = self
            .0
            .validator
            .get_or_init(|| super::validator(self.schema()).ok());
        let Some(validator) = compiled else {
            return Ok(());
        };
        if validator.is_valid(value) {
            return Ok(());
        }
        Err(validator
            .iter_errors(value)
            .take(VIOLATIONS_MAX)
            .map(|error| Violation {
                pointer: error.instance_path().to_string(),
                message: error.to_string(),
            })
            .collect())
    }
}

struct Walk {
    violations: Vec<Violation>,
}

/// A step of the pointer; rendered only when something is wrong.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl Walk {
    /// The value with defaults, when they change it.
    fn value<'a>(
        &mut self,
        ty: &'a Type,
        value: &'a Value,
        at: &mut Vec<Step<'a>>,
    ) -> Option<Value> {
        match (ty.shape(), value) {
            (Shape::Any | Shape::Opaque, _)
            | (Shape::Null, Value::Null)
            | (Shape::Boolean, Value::Bool(_))
            | (Shape::Number, Value::Number(_))
            | (Shape::Text, Value::String(_)) => None,
            (Shape::Integer, Value::Number(number)) if is_whole(number) => None,
            (Shape::Nullable(_), Value::Null) => None,
            (Shape::Nullable(inner), _) => self.value(inner, value, at),
            (Shape::Enum(values), _) if values.iter().any(|known| same(known, value)) => None,
            (Shape::File, Value::Object(map)) if map.get("$file").is_some_and(Value::is_string) => {
                None
            }
            (Shape::List(item), Value::Array(items)) => self.list(item, items, at),
            (Shape::Fields { properties, rest }, Value::Object(map)) => {
                self.object(properties, rest.as_ref(), map, at)
            }
            (Shape::OneOf(types), _) => self.variant(ty, types, value, at),
            (Shape::Named(named), _) => self.value(named.resolve(), value, at),
            (
                Shape::Null
                | Shape::Boolean
                | Shape::Integer
                | Shape::Number
                | Shape::Text
                | Shape::Enum(_)
                | Shape::File
                | Shape::List(_)
                | Shape::Fields { .. },
                _,
            ) => {
                let why = match ty.shape() {
                    Shape::Integer if is_rounded(value) => {
                        "; an integer beyond 64 bits is handed in as text"
                    }
                    _ => "",
                };
                self.wrong(
                    at,
                    format!("{} is not {}{why}", shown(value), described(ty)),
                );
                None
            }
        }
    }

    fn list<'a>(
        &mut self,
        item: &'a Type,
        items: &'a [Value],
        at: &mut Vec<Step<'a>>,
    ) -> Option<Value> {
        let mut changed: Option<Vec<Value>> = None;
        for (index, value) in items.iter().enumerate() {
            at.push(Step::Index(index));
            if let Some(new) = self.value(item, value, at) {
                changed.get_or_insert_with(|| items.to_vec())[index] = new;
            }
            at.pop();
            if self.violations.len() >= VIOLATIONS_MAX {
                break;
            }
        }
        changed.map(Value::Array)
    }

    fn object<'a>(
        &mut self,
        properties: &'a indexmap::IndexMap<String, Property>,
        rest: Option<&'a Type>,
        map: &'a Map<String, Value>,
        at: &mut Vec<Step<'a>>,
    ) -> Option<Value> {
        let mut changed: Option<Map<String, Value>> = None;
        for (name, property) in properties {
            let new = match map.get(name) {
                Some(value) => {
                    at.push(Step::Key(name));
                    let new = self.value(&property.ty, value, at);
                    at.pop();
                    new
                }
                None => self.absent(name, property, at),
            };
            if let Some(new) = new {
                changed
                    .get_or_insert_with(|| map.clone())
                    .insert(name.clone(), new);
            }
        }
        for (name, value) in map
            .iter()
            .filter(|(name, _)| !properties.contains_key(*name))
        {
            at.push(Step::Key(name));
            match rest {
                Some(ty) => {
                    if let Some(new) = self.value(ty, value, at) {
                        changed
                            .get_or_insert_with(|| map.clone())
                            .insert(name.clone(), new);
                    }
                }
                None => {
                    let known = crate::lang::names(properties.keys().map(String::as_str));
                    self.wrong(
                        at,
                        format!("there is no field `{name}` here; the fields are {known}"),
                    );
                }
            }
            at.pop();
        }
        changed.map(Value::Object)
    }

    fn absent(&mut self, name: &str, property: &Property, at: &[Step<'_>]) -> Option<Value> {
        if let Some(default) = &property.default {
            // A default is itself held to its type, so that its own fields get theirs; the checker has seen that it fits.
            return Some(
                property
                    .ty
                    .accepts(&Val::new(default.clone()))
                    .map_or_else(|_| default.clone(), Val::into_json),
            );
        }
        if property.required {
            self.wrong(at, format!("the field `{name}` is missing"));
            return None;
        }
        matches!(property.ty.shape(), Shape::Nullable(_) | Shape::Null).then_some(Value::Null)
    }

    fn variant<'a>(
        &mut self,
        ty: &Type,
        types: &'a [Type],
        value: &'a Value,
        at: &[Step<'a>],
    ) -> Option<Value> {
        for candidate in types {
            if let Ok(accepted) = candidate.accepts(&Val::new(value.clone())) {
                return (accepted.json() != value).then(|| accepted.into_json());
            }
        }
        self.wrong(at, format!("{} is none of {ty}", shown(value)));
        None
    }

    fn wrong(&mut self, at: &[Step<'_>], message: String) {
        if self.violations.len() >= VIOLATIONS_MAX {
            return;
        }
        let mut pointer = String::new();
        for step in at {
            pointer.push('/');
            match step {
                Step::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
                Step::Index(index) => pointer.push_str(&index.to_string()),
            }
        }
        self.violations.push(Violation { pointer, message });
    }
}

/// Largest integer up to which every integer is a floating-point number: of a larger one nobody knows what it was.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

fn is_whole(number: &serde_json::Number) -> bool {
    let is_exact = |value: f64| value.fract() == 0.0 && value.abs() <= EXACT_FLOAT_MAX;
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(is_exact)
}

/// An integer that was rounded to a floating-point number, or may have been.
fn is_rounded(value: &Value) -> bool {
    let large = |float: f64| float.fract() == 0.0 && float.abs() > EXACT_FLOAT_MAX;
    value.is_f64() && value.as_f64().is_some_and(large)
}

/// Equality as JSON Schema has it: `1` and `1.0` are the same number.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            crate::expr::order_numbers(left, right) == Some(std::cmp::Ordering::Equal)
        }
        _ => left == right,
    }
}

fn described(ty: &Type) -> String {
    match ty.shape() {
        Shape::Enum(_) => format!("one of {ty}"),
        Shape::Integer => "an integer".to_owned(),
        Shape::List(_) => format!("a list, {ty}"),
        Shape::Fields { .. } => format!("an object, {ty}"),
        Shape::Any
        | Shape::Null
        | Shape::Boolean
        | Shape::Number
        | Shape::Text
        | Shape::File
        | Shape::Nullable(_)
        | Shape::OneOf(_)
        | Shape::Named(_)
        | Shape::Opaque => format!("a {ty}"),
    }
}

/// Characters of a value quoted in a message.
const VALUE_SHOWN_MAX: usize = 60;

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_SHOWN_MAX) {
        None => text,
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}
