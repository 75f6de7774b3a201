//! The words of the language: one table of keys for each place that has keys.
//!
//! The parser takes its known keys from here, [`crate::lang::json_schema`] makes the schema for editors from it, and the reference
//! its tables: what is not in a table is not in the language, and what is in it is documented.

mod flow;
mod kinds;
mod parts;
mod step;

pub(crate) use flow::FLOW;
pub(crate) use kinds::{KINDS, Kind};
pub(crate) use parts::*;
pub(crate) use step::{ANY, LEAF, SCOPE};

/// A key: its name, what it takes, what it is for.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) doc: &'static str,
    /// A value as a user writes it, in YAML flow style.
    pub(crate) example: &'static str,
}

/// The keys of one place.
#[derive(Debug)]
pub(crate) struct Table {
    /// The place as a message names it: `a flow`, `retry`.
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [Key],
    pub(crate) required: &'static [&'static str],
}

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    /// A template, or `{file, with}`.
    Text,
    /// Text that is not a template.
    Plain,
    /// A bare expression that yields a boolean.
    Condition,
    /// A bare expression.
    Expression,
    /// A value in which every text is a template.
    Value,
    /// A text or number that is a template.
    Scalar,
    /// A list of values.
    List,
    /// A map of values.
    Values,
    /// A name.
    Name,
    /// A name or a list of names.
    Names,
    /// Text or a list of texts.
    Texts,
    /// A map of names to plain texts.
    PlainMap,
    Integer {
        min: i64,
        max: i64,
    },
    Number {
        min: f64,
        max: f64,
    },
    Boolean,
    /// `5m`, `1s`.
    Duration,
    /// `1s..30s` or one duration.
    DurationRange,
    /// `200k` or a number.
    Count,
    /// `512MiB`.
    Bytes,
    /// `5%` or a number of items.
    Tolerance,
    /// One word of some.
    Choice(&'static [&'static str]),
    /// A list of error classes.
    Errors,
    /// A list of exit codes.
    ExitCodes,
    /// A type: a name, a list, or a map of fields.
    Type,
    /// A map of fields to types.
    Fields,
    /// A map of names to types.
    Types,
    /// Steps: a map, or a list of one-key maps.
    Steps,
    /// A map of steps.
    StepMap,
    /// One step without a name.
    Step,
    /// Keys of steps, to replace those of another one; or a list of such.
    Overlays,
    /// Case values to steps.
    Cases,
    /// Names to flows: paths or flows written in place.
    Flows,
    /// A map with the keys of a table.
    Map(&'static Table),
    /// A list of maps with the keys of a table, or one such map.
    Maps(&'static Table),
    /// Any of some.
    Either(&'static [Self]),
    /// Defaults for kinds of steps.
    Defaults,
    /// Whatever the server understands.
    Any,
}

/// Shorthand that keeps the tables readable.
pub(crate) const fn key(
    name: &'static str,
    takes: Takes,
    doc: &'static str,
    example: &'static str,
) -> Key {
    Key {
        name,
        takes,
        doc,
        example,
    }
}

impl Takes {
    /// The tables of the maps that may stand here.
    pub(crate) fn tables(self) -> Vec<&'static Table> {
        match self {
            Self::Map(table) | Self::Maps(table) => vec![table],
            Self::Either(choices) => choices.iter().flat_map(|choice| choice.tables()).collect(),
            Self::Text
            | Self::Plain
            | Self::Condition
            | Self::Expression
            | Self::Value
            | Self::Scalar
            | Self::List
            | Self::Values
            | Self::Name
            | Self::Names
            | Self::Texts
            | Self::PlainMap
            | Self::Integer { .. }
            | Self::Number { .. }
            | Self::Boolean
            | Self::Duration
            | Self::DurationRange
            | Self::Count
            | Self::Bytes
            | Self::Tolerance
            | Self::Choice(_)
            | Self::Errors
            | Self::ExitCodes
            | Self::Type
            | Self::Fields
            | Self::Types
            | Self::Steps
            | Self::StepMap
            | Self::Step
            | Self::Overlays
            | Self::Cases
            | Self::Flows
            | Self::Defaults
            | Self::Any => Vec::new(),
        }
    }
}

impl Table {
    /// The key with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// Every table, with those that are only reached through keys.
pub(crate) fn tables() -> Vec<&'static Table> {
    fn add(table: &'static Table, out: &mut Vec<&'static Table>) {
        if out.iter().any(|known| std::ptr::eq(*known, table)) {
            return;
        }
        out.push(table);
        for key in table.keys {
            for below in key.takes.tables() {
                add(below, out);
            }
        }
    }
    let mut out = Vec::new();
    // A file stands wherever text does, so no key names it.
    for table in [&FLOW, &ANY, &LEAF, &SCOPE, &FILE] {
        add(table, &mut out);
    }
    for kind in KINDS {
        add(kind.table, &mut out);
    }
    out
}

/// Names of keys that take text somewhere in the language: where `{file: …}` names a file to read.
pub(crate) fn text_keys() -> Vec<&'static str> {
    fn takes_text(takes: Takes) -> bool {
        if let Takes::Either(choices) = takes {
            return choices.iter().any(|choice| takes_text(*choice));
        }
        matches!(takes, Takes::Text)
    }
    tables()
        .iter()
        .flat_map(|table| table.keys)
        .filter(|key| takes_text(key.takes))
        .map(|key| key.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::source::FileId;
    use crate::lang::tree::{TextLimits, parse};

    #[test]
    fn every_key_has_a_sentence_and_an_example_that_can_be_pasted() {
        for table in tables() {
            assert!(!table.doc.is_empty(), "{}", table.name);
            for key in table.keys {
                assert!(key.doc.ends_with('.'), "{}.{}", table.name, key.name);
                let text = format!("{}: {}\n", key.name, key.example);
                let (node, problems) = parse(FileId(0), "x.yaml", &text, &TextLimits::default());
                assert_eq!(problems, Vec::new(), "{text}");
                assert!(
                    node.is_some_and(|node| node.get(key.name).is_some()),
                    "{text}"
                );
            }
            for required in table.required {
                assert!(table.get(required).is_some(), "{}.{required}", table.name);
            }
        }
    }
}
