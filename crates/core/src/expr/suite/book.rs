//! The examples of `docs/expressions.md` are true, and cover every name.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::*;
use super::super::{filters, functions, predicates};

static PAGE: &str = include_str!("../../../../../docs/expressions.md");

/// `expression => JSON` lines of the page's `expr` blocks.
fn examples() -> Vec<(&'static str, &'static str)> {
    let mut examples = Vec::new();
    let mut inside = false;
    for line in PAGE.lines() {
        match line {
            "```expr" => inside = true,
            "```" => inside = false,
            line if inside && !line.trim().is_empty() => {
                examples.push(
                    line.split_once(" => ")
                        .unwrap_or_else(|| panic!("no ` => ` in {line}")),
                );
            }
            _ => {}
        }
    }
    examples
}

/// The values that the page's examples read: its first `json` block.
fn values() -> ObjectScope {
    let start = PAGE.find("```json\n").unwrap() + "```json\n".len();
    let end = start + PAGE[start..].find("```").unwrap();
    let Value::Object(fields) = serde_json::from_str(&PAGE[start..end]).unwrap() else {
        panic!("the values are no object");
    };
    ObjectScope::new(fields)
}

struct Page(ObjectScope);

impl Scope for Page {
    fn lookup(&self, name: &str) -> Lookup {
        match name {
            "skipped" => Lookup::Absent {
                step: "skipped".into(),
            },
            name => self.0.lookup(name),
        }
    }
}

#[test]
fn every_example_of_the_page_is_true() {
    let scope = Page(values());
    for (source, expected) in examples() {
        let (source, expected) = (source.trim(), expected.trim());
        let found = Expr::parse(source)
            .map_err(|error| error.to_string())
            .and_then(|expr| {
                let mut draws = SeededDraws::new(1_700_000_000_000, b"page");
                expr.eval(&scope, &mut Draws::live(&mut draws))
                    .map_err(|error| error.to_string())
            });
        match expected.strip_prefix("error: ") {
            Some(message) => assert_eq!(found, Err(message.to_owned()), "{source}"),
            None => assert_eq!(
                found.map(|value| value.to_string()),
                Ok(expected.to_owned()),
                "{source}"
            ),
        }
    }
}

#[test]
fn every_filter_test_and_function_has_an_example() {
    let text: String = examples()
        .into_iter()
        .map(|(source, _)| format!("{source}\n"))
        .collect();
    let words: BTreeSet<_> = text
        .split(|char: char| !(char.is_alphanumeric() || char == '_'))
        .collect();
    let signs = |name: &&str| {
        name.chars()
            .all(|char| char.is_alphanumeric() || char == '_')
    };
    // Shell text has its own section; short forms are listed in words.
    let elsewhere = [
        "raw_shell",
        "d",
        "int",
        "eq",
        "equalto",
        "ne",
        "lt",
        "lessthan",
        "le",
        "gt",
        "greaterthan",
        "ge",
    ];
    let missing: Vec<_> = filters::names()
        .chain(functions::names())
        .chain(predicates::names())
        .filter(signs)
        .filter(|name| {
            let listed = elsewhere.contains(name) && PAGE.contains(&format!("`{name}`"));
            !(listed || words.contains(name))
        })
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
