//! Whether values of one type can be used as another.

use std::sync::Arc;

use serde_json::Value;

use super::accept::same;
use super::{Shape, Type};

/// Whether values of a type fit another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// None does.
    No,
    /// Some may; each is held to the type when it is there.
    Maybe,
    /// All do.
    Yes,
}

/// How deep types that refer to themselves are compared.
const DEPTH_MAX: usize = 24;

impl Type {
    /// Whether a value of this type can be used as one of `other`.
    pub fn fits(&self, other: &Self) -> Fit {
        fits(self, other, 0)
    }

    /// Whether some value is of both types: what makes a comparison for equality worth it.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.fits(other) != Fit::No || other.fits(self) != Fit::No
    }
}

fn fits(from: &Type, to: &Type, depth: usize) -> Fit {
    if Arc::ptr_eq(&from.0, &to.0) {
        return Fit::Yes;
    }
    if depth > DEPTH_MAX {
        return Fit::Maybe;
    }
    let deep = depth + 1;
    let fit = match (from.shape(), to.shape()) {
        (_, Shape::Any) => return Fit::Yes,
        (Shape::Opaque, Shape::Opaque) if from == to => return Fit::Yes,
        (Shape::Any | Shape::Opaque, _) | (_, Shape::Opaque) => return Fit::Maybe,
        (Shape::Named(named), _) => return fits(named.resolve(), to, deep),
        (_, Shape::Named(named)) => return fits(from, named.resolve(), deep),
        (Shape::OneOf(types), _) => return every(types.iter().map(|ty| fits(ty, to, deep))),
        (Shape::Null, Shape::Nullable(_)) => return Fit::Yes,
        (Shape::Nullable(inner), Shape::Nullable(target)) => match fits(inner, target, deep) {
            Fit::No => Fit::Maybe,
            fit => fit,
        },
        (Shape::Nullable(inner), _) => fits(inner, to, deep).min(Fit::Maybe),
        (_, Shape::Nullable(target)) => return fits(from, target, deep),
        (_, Shape::OneOf(types)) => {
            return types
                .iter()
                .map(|ty| fits(from, ty, deep))
                .max()
                .unwrap_or(Fit::No);
        }
        (Shape::Enum(values), _) => return every(values.iter().map(|value| value_fits(value, to))),
        (_, Shape::Enum(values)) => {
            let some = values
                .iter()
                .any(|value| value_fits(value, from) != Fit::No);
            return if some { Fit::Maybe } else { Fit::No };
        }
        (Shape::List(item), Shape::List(target)) => fits(item, target, deep),
        (Shape::Fields { .. }, Shape::Fields { .. }) => fields(from, to, deep),
        (
            Shape::File,
            Shape::Fields {
                properties,
                rest: Some(_),
            },
        ) if properties.is_empty() => Fit::Yes,
        (Shape::Fields { rest: Some(_), .. }, Shape::File) => Fit::Maybe,
        (Shape::Fields { properties, .. }, Shape::File) if properties.contains_key("$file") => {
            Fit::Yes
        }
        (Shape::Integer, Shape::Integer | Shape::Number)
        | (Shape::Number, Shape::Number)
        | (Shape::Text, Shape::Text)
        | (Shape::Boolean, Shape::Boolean)
        | (Shape::Null, Shape::Null)
        | (Shape::File, Shape::File) => Fit::Yes,
        (Shape::Number, Shape::Integer) => Fit::Maybe,
        (
            Shape::Null
            | Shape::Boolean
            | Shape::Integer
            | Shape::Number
            | Shape::Text
            | Shape::File
            | Shape::List(_)
            | Shape::Fields { .. },
            Shape::Null
            | Shape::Boolean
            | Shape::Integer
            | Shape::Number
            | Shape::Text
            | Shape::File
            | Shape::List(_)
            | Shape::Fields { .. },
        ) => return Fit::No,
    };
    // The target says more than its shape (a range, a pattern): a value has to be seen.
    if to.0.more && from != to {
        fit.min(Fit::Maybe)
    } else {
        fit
    }
}

/// All of some variants: yes if all fit, no if none does.
fn every(fits: impl Iterator<Item = Fit>) -> Fit {
    let (mut low, mut high) = (Fit::Yes, Fit::No);
    for fit in fits {
        low = low.min(fit);
        high = high.max(fit);
    }
    if high == Fit::No {
        Fit::No
    } else if low == Fit::Yes {
        Fit::Yes
    } else {
        Fit::Maybe
    }
}

fn value_fits(value: &Value, ty: &Type) -> Fit {
    match ty.shape() {
        Shape::Enum(values) => {
            if values.iter().any(|known| same(known, value)) {
                Fit::Yes
            } else {
                Fit::No
            }
        }
        Shape::Any
        | Shape::Null
        | Shape::Boolean
        | Shape::Integer
        | Shape::Number
        | Shape::Text
        | Shape::File
        | Shape::List(_)
        | Shape::Fields { .. }
        | Shape::Nullable(_)
        | Shape::OneOf(_)
        | Shape::Named(_)
        | Shape::Opaque => match ty.takes(value) {
            Ok(()) => Fit::Yes,
            Err(_) => Fit::No,
        },
    }
}

fn fields(from: &Type, to: &Type, depth: usize) -> Fit {
    let (
        Shape::Fields {
            properties: have,
            rest: open,
        },
        Shape::Fields {
            properties: want,
            rest: takes_more,
        },
    ) = (from.shape(), to.shape())
    else {
        return Fit::Maybe;
    };
    let mut worst = Fit::Yes;
    for (name, wanted) in want {
        let fit = match have.get(name) {
            Some(property) => {
                let fit = fits(&property.ty, &wanted.ty, depth);
                let surely = property.required || property.default.is_some();
                if surely || fit == Fit::No {
                    fit
                } else {
                    fit.min(Fit::Maybe)
                }
            }
            None if !wanted.required => Fit::Yes,
            None if open.is_some() => Fit::Maybe,
            None => Fit::No,
        };
        worst = worst.min(fit);
    }
    let extra = have.iter().filter(|(name, _)| !want.contains_key(*name));
    for (_, property) in extra {
        let fit = match takes_more {
            Some(rest) => fits(&property.ty, rest, depth),
            None if property.required => Fit::No,
            None => Fit::Maybe,
        };
        worst = worst.min(fit);
    }
    if open.is_some() && takes_more.is_none() {
        worst.min(Fit::Maybe)
    } else {
        worst
    }
}
