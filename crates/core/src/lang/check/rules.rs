//! What operators and filters do to types, and how types are called in sentences.

use serde_json::Value as Json;

use crate::expr::{CompareOp, Form, MathOp, PathStep, Shape, ValueKind};
use crate::types::{Shape as TypeShape, Type};

pub(super) fn part(step: &PathStep) -> String {
    match step {
        PathStep::Key(key) => key.clone(),
        PathStep::Index(index) => index.to_string(),
    }
}

/// A type with an article, for sentences.
pub(super) fn a(ty: &Type) -> String {
    match ty.shape() {
        TypeShape::Integer | TypeShape::Any | TypeShape::Opaque => format!("an {ty}"),
        TypeShape::Null => "null".to_owned(),
        TypeShape::Enum(_) => format!("one of {ty}"),
        TypeShape::List(_) => format!("a list {ty}"),
        TypeShape::Fields { properties, .. } if properties.is_empty() => "an object".to_owned(),
        TypeShape::Fields { .. } => format!("an object {ty}"),
        TypeShape::Boolean
        | TypeShape::Number
        | TypeShape::Text
        | TypeShape::File
        | TypeShape::Nullable(_)
        | TypeShape::OneOf(_)
        | TypeShape::Named(_) => {
            let text = ty.to_string();
            let article = if text.starts_with(['a', 'e', 'i', 'o']) {
                "an"
            } else {
                "a"
            };
            format!("{article} {text}")
        }
    }
}

/// How to make a boolean of a value.
pub(super) fn boolean_hint(ty: &Type) -> Option<String> {
    let hint = match plain(ty).shape() {
        TypeShape::Integer | TypeShape::Number => "there is no truthiness: compare it, `… > 0`",
        TypeShape::Text => "there is no truthiness: compare it, `… != \"\"`",
        TypeShape::List(_) => "there is no truthiness: compare its length, `… | length > 0`",
        TypeShape::Fields { .. } => {
            "there is no truthiness: read one of its fields, or write `… is defined`"
        }
        TypeShape::Null
        | TypeShape::Any
        | TypeShape::Opaque
        | TypeShape::Boolean
        | TypeShape::File
        | TypeShape::Enum(_)
        | TypeShape::Nullable(_)
        | TypeShape::OneOf(_)
        | TypeShape::Named(_) => return None,
    };
    Some(hint.to_owned())
}

/// The type without null and names.
pub(super) fn plain(ty: &Type) -> Type {
    if let TypeShape::Nullable(inner) = ty.shape() {
        plain(inner)
    } else if let TypeShape::Named(named) = ty.shape() {
        plain(named.resolve())
    } else {
        ty.clone()
    }
}

pub(super) fn is_null(shape: &Shape) -> bool {
    matches!(&shape.form, Form::Literal(Json::Null))
}

pub(super) fn joined(left: Type, right: Type) -> Type {
    if left == right {
        left
    } else {
        Type::one_of(&[left, right])
    }
}

/// The type of the values of a `carry` that begins with one of this type: a null in it, at any depth of its fields, says
/// nothing about what comes later.
pub(super) fn first_of_many(ty: &Type) -> Type {
    match ty.shape() {
        TypeShape::Null => Type::any(),
        TypeShape::Fields {
            properties,
            rest: None,
        } => Type::fields(properties.iter().map(|(name, property)| {
            (
                name.as_str(),
                first_of_many(&property.ty),
                property.required,
            )
        })),
        TypeShape::Any
        | TypeShape::Boolean
        | TypeShape::Integer
        | TypeShape::Number
        | TypeShape::Text
        | TypeShape::Enum(_)
        | TypeShape::File
        | TypeShape::List(_)
        | TypeShape::Fields { rest: Some(_), .. }
        | TypeShape::Nullable(_)
        | TypeShape::OneOf(_)
        | TypeShape::Named(_)
        | TypeShape::Opaque => ty.clone(),
    }
}

/// The type of `"  {{ of }}\n"`: texts get the blanks, other values stay what they are.
pub(super) fn padded(before: &str, of: &Type, after: &str) -> Type {
    let each = |types: &[Type]| -> Vec<Type> {
        types.iter().map(|ty| padded(before, ty, after)).collect()
    };
    match of.shape() {
        TypeShape::Text => Type::string(),
        TypeShape::Enum(values) => Type::choice(
            values
                .iter()
                .map(|value| match value {
                    Json::String(text) => Json::String([before, text, after].concat()),
                    Json::Null
                    | Json::Bool(_)
                    | Json::Number(_)
                    | Json::Array(_)
                    | Json::Object(_) => value.clone(),
                })
                .collect(),
        ),
        TypeShape::Nullable(inner) => padded(before, inner, after).nullable(),
        TypeShape::OneOf(types) => Type::one_of(&each(types)),
        TypeShape::Opaque => Type::any(),
        TypeShape::Any
        | TypeShape::Null
        | TypeShape::Boolean
        | TypeShape::Integer
        | TypeShape::Number
        | TypeShape::File
        | TypeShape::List(_)
        | TypeShape::Fields { .. }
        | TypeShape::Named(_) => of.clone(),
    }
}

/// What kind of thing the values of a type are, when all are of one kind.
pub(super) fn kind(ty: &Type) -> ValueKind {
    let ty = plain(ty);
    match ty.shape() {
        TypeShape::Boolean => ValueKind::Boolean,
        TypeShape::Integer | TypeShape::Number => ValueKind::Number,
        TypeShape::Text => ValueKind::String,
        TypeShape::List(_) => ValueKind::List,
        TypeShape::Fields { .. } | TypeShape::File => ValueKind::Object,
        TypeShape::Enum(values) => {
            let mut kinds = values.iter().map(|value| match ValueKind::of(value) {
                ValueKind::Integer => ValueKind::Number,
                kind => kind,
            });
            let first = kinds.next().unwrap_or(ValueKind::Any);
            if kinds.all(|kind| kind == first) {
                first
            } else {
                ValueKind::Any
            }
        }
        TypeShape::Null
        | TypeShape::Any
        | TypeShape::Opaque
        | TypeShape::OneOf(_)
        | TypeShape::Nullable(_)
        | TypeShape::Named(_) => ValueKind::Any,
    }
}

pub(super) fn ordered(left: &Type, right: &Type) -> bool {
    crate::expr::comparable(CompareOp::Less, kind(left), kind(right))
        && sortable(left)
        && sortable(right)
}

/// Booleans, lists and objects have no order, whatever they are compared with.
pub(super) fn sortable(ty: &Type) -> bool {
    matches!(
        kind(ty),
        ValueKind::Any | ValueKind::Number | ValueKind::Integer | ValueKind::String
    )
}

pub(super) fn contains(left: &Type, right: &Type) -> bool {
    let right = plain(right);
    if let TypeShape::List(item) = right.shape() {
        left.overlaps(item)
    } else {
        crate::expr::comparable(CompareOp::In, kind(left), kind(&right))
    }
}

pub(super) fn literal(value: &Json) -> Type {
    match value {
        Json::Null => Type::null(),
        Json::Bool(_) => Type::boolean(),
        Json::Number(number) if number.is_f64() => Type::number(),
        Json::Number(_) => Type::integer(),
        Json::String(_) => Type::string(),
        Json::Array(items) => {
            let types: Vec<Type> = items.iter().map(literal).collect();
            if types.is_empty() {
                Type::any().list()
            } else {
                Type::one_of(&types).list()
            }
        }
        Json::Object(map) => {
            let fields: Vec<(&String, Type)> = map
                .iter()
                .map(|(name, value)| (name, literal(value)))
                .collect();
            Type::fields(
                fields
                    .iter()
                    .map(|(name, ty)| (name.as_str(), ty.clone(), true)),
            )
        }
    }
}

pub(super) fn of_kind(kind: ValueKind) -> Type {
    match kind {
        ValueKind::Any => Type::any(),
        ValueKind::Null => Type::null(),
        ValueKind::Boolean => Type::boolean(),
        ValueKind::Integer => Type::integer(),
        ValueKind::Number => Type::number(),
        ValueKind::String => Type::string(),
        ValueKind::List => Type::any().list(),
        ValueKind::Object => Type::object(),
    }
}

pub(super) fn math(op: MathOp, left: &Type, right: &Type) -> Type {
    let whole = |ty: &Type| matches!(ty.shape(), TypeShape::Integer);
    let numeric = |ty: &Type| matches!(kind(ty), ValueKind::Number);
    match op {
        MathOp::Concat => Type::string(),
        MathOp::Divide => Type::number(),
        MathOp::Add
        | MathOp::Multiply
        | MathOp::Subtract
        | MathOp::FloorDivide
        | MathOp::Remainder
        | MathOp::Power => {
            if whole(left) && whole(right) && !matches!(op, MathOp::Power) {
                Type::integer()
            } else if numeric(left) && numeric(right) {
                Type::number()
            } else if matches!(op, MathOp::Add) && kind(left) == kind(right) {
                if kind(left) == ValueKind::String {
                    Type::string()
                } else if kind(left) == ValueKind::List {
                    joined(plain(left), plain(right))
                } else {
                    Type::any()
                }
            } else if matches!(
                op,
                MathOp::Subtract | MathOp::FloorDivide | MathOp::Remainder | MathOp::Power
            ) {
                Type::number()
            } else {
                Type::any()
            }
        }
    }
}

/// What a filter gives, where its input says more than its name.
pub(super) fn filter(name: &str, returns: ValueKind, input: &Type) -> Type {
    let input = plain(input);
    let item = if let TypeShape::List(item) = input.shape() {
        Some(item.clone())
    } else {
        None
    };
    match (name, item) {
        ("first" | "last" | "min" | "max" | "random", Some(item)) => item,
        (
            "sort" | "sort_by" | "unique" | "unique_by" | "reverse" | "take" | "list" | "select"
            | "reject" | "selectattr" | "rejectattr",
            Some(_),
        ) => input,
        ("length" | "count" | "int", _) => Type::integer(),
        ("abs" | "round", _) if matches!(input.shape(), TypeShape::Integer) => Type::integer(),
        (_, _) => of_kind(returns),
    }
}
