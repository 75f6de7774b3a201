//! The type of a part of a value.

use super::{Shape, Type};

/// What a path into a type leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// A part of this type.
    Found(Type),
    /// No such part; the parts there are.
    Missing(Vec<String>),
    /// The type does not say.
    Unknown,
}

impl Type {
    /// The type of a field, or of the items for an index. Null is looked through: who reads a field of a null gets an error at run time.
    pub fn field(&self, name: &str) -> Field {
        match self.shape() {
            Shape::Any | Shape::Opaque => Field::Unknown,
            Shape::Fields { properties, rest } => match (properties.get(name), rest) {
                (Some(property), _) => Field::Found(property.ty.clone()),
                (None, Some(rest)) if matches!(rest.shape(), Shape::Any) => Field::Unknown,
                (None, Some(rest)) => Field::Found(rest.clone()),
                (None, None) => Field::Missing(properties.keys().cloned().collect()),
            },
            Shape::List(item) => match name.parse::<i64>() {
                Ok(_) => Field::Found(item.clone()),
                Err(_) => Field::Missing(Vec::new()),
            },
            Shape::Nullable(inner) => inner.field(name),
            Shape::Named(named) => named.resolve().field(name),
            Shape::OneOf(types) => one_of(types, name),
            Shape::Enum(values) => enumeration(values, name),
            Shape::File => match name {
                "$file" | "name" => Field::Found(Self::string()),
                "bytes" => Field::Found(Self::integer()),
                _ => Field::Missing(["name", "bytes"].map(str::to_owned).to_vec()),
            },
            Shape::Null | Shape::Boolean | Shape::Integer | Shape::Number | Shape::Text => {
                Field::Missing(Vec::new())
            }
        }
    }

    /// The type at the end of a path.
    pub fn at<S: AsRef<str>>(&self, path: &[S]) -> Field {
        let mut current = self.clone();
        for part in path {
            match current.field(part.as_ref()) {
                Field::Found(next) => current = next,
                other @ (Field::Missing(_) | Field::Unknown) => return other,
            }
        }
        Field::Found(current)
    }

    /// The type of the items, for a list.
    pub fn item(&self) -> Field {
        match self.shape() {
            Shape::List(item) => Field::Found(item.clone()),
            Shape::Any | Shape::Opaque => Field::Unknown,
            Shape::Nullable(inner) => inner.item(),
            Shape::Named(named) => named.resolve().item(),
            Shape::OneOf(_) => Field::Unknown,
            Shape::Fields { properties, rest } => {
                let mut types: Vec<Self> = properties
                    .values()
                    .map(|property| property.ty.clone())
                    .collect();
                types.extend(rest.clone());
                let value = if types.is_empty() {
                    Self::any()
                } else {
                    Self::one_of(&types)
                };
                Field::Found(Self::fields([
                    ("key", Self::string(), true),
                    ("value", value, true),
                ]))
            }
            Shape::Enum(_)
            | Shape::File
            | Shape::Null
            | Shape::Boolean
            | Shape::Integer
            | Shape::Number
            | Shape::Text => Field::Missing(Vec::new()),
        }
    }
}

fn one_of(types: &[Type], name: &str) -> Field {
    let mut found = Vec::new();
    let mut known = Vec::new();
    let mut unknown = false;
    for ty in types {
        match ty.field(name) {
            Field::Found(ty) => found.push(ty),
            Field::Missing(names) => known.extend(names),
            Field::Unknown => unknown = true,
        }
    }
    match (unknown, found.is_empty()) {
        (true, _) => Field::Unknown,
        (false, false) => Field::Found(Type::one_of(&found)),
        (false, true) => Field::Missing(known),
    }
}

fn enumeration(values: &[serde_json::Value], name: &str) -> Field {
    let found: Vec<serde_json::Value> = values
        .iter()
        .filter_map(|value| value.get(name))
        .cloned()
        .collect();
    if found.is_empty() {
        return Field::Missing(Vec::new());
    }
    Field::Found(Type::choice(found))
}
