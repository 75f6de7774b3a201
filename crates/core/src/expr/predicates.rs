//! The tests of expressions: `value is NAME`. `defined` and `undefined` are guards and so nodes of their own.

use serde_json::Value;

use super::ast::CompareOp;
use super::ops;

/// A test.
pub(crate) struct Test {
    pub(crate) names: &'static [&'static str],
    pub(crate) args: usize,
    pub(crate) run: fn(&Value, &[&Value]) -> Result<bool, String>,
}

impl std::fmt::Debug for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.names[0])
    }
}

/// A test without arguments.
const fn plain(
    names: &'static [&'static str],
    run: fn(&Value, &[&Value]) -> Result<bool, String>,
) -> Test {
    Test {
        names,
        args: 0,
        run,
    }
}

/// A test against a second value.
const fn against(
    names: &'static [&'static str],
    run: fn(&Value, &[&Value]) -> Result<bool, String>,
) -> Test {
    Test {
        names,
        args: 1,
        run,
    }
}

/// The guards among the tests.
pub(crate) const DEFINED: &str = "defined";
/// The guards among the tests.
pub(crate) const UNDEFINED: &str = "undefined";

/// Every test.
pub(crate) static TESTS: &[Test] = &[
    plain(&["none", "null"], |value, _| Ok(value.is_null())),
    plain(&["boolean"], |value, _| Ok(value.is_boolean())),
    plain(&["true"], |value, _| Ok(*value == Value::Bool(true))),
    plain(&["false"], |value, _| Ok(*value == Value::Bool(false))),
    plain(&["number"], |value, _| Ok(value.is_number())),
    plain(&["integer", "int"], |value, _| {
        Ok(value.is_i64() || value.is_u64())
    }),
    plain(&["float"], |value, _| Ok(value.is_f64())),
    plain(&["string"], |value, _| Ok(value.is_string())),
    plain(&["list", "sequence"], |value, _| Ok(value.is_array())),
    plain(&["object", "mapping"], |value, _| Ok(value.is_object())),
    plain(&["iterable"], |value, _| {
        Ok(value.is_array() || value.is_object() || value.is_string())
    }),
    plain(&["odd"], |value, _| {
        Ok(ops::integer(value)?.rem_euclid(2) == 1)
    }),
    plain(&["even"], |value, _| {
        Ok(ops::integer(value)?.rem_euclid(2) == 0)
    }),
    against(&["divisibleby"], |value, args| {
        let (value, by) = (ops::integer(value)?, ops::integer(args[0])?);
        value
            .checked_rem_euclid(by)
            .map(|rest| rest == 0)
            .ok_or_else(|| "division by zero".to_owned())
    }),
    plain(&["lower"], |value, _| {
        text(value).map(|text| !text.chars().any(char::is_uppercase))
    }),
    plain(&["upper"], |value, _| {
        text(value).map(|text| !text.chars().any(char::is_lowercase))
    }),
    against(&["startingwith"], |value, args| {
        Ok(text(value)?.starts_with(text(args[0])?))
    }),
    against(&["endingwith"], |value, args| {
        Ok(text(value)?.ends_with(text(args[0])?))
    }),
    against(&["eq", "equalto", "=="], |value, args| {
        ops::compare(CompareOp::Equal, value, args[0])
    }),
    against(&["ne", "!="], |value, args| {
        ops::compare(CompareOp::NotEqual, value, args[0])
    }),
    against(&["lt", "lessthan", "<"], |value, args| {
        ops::compare(CompareOp::Less, value, args[0])
    }),
    against(&["le", "<="], |value, args| {
        ops::compare(CompareOp::LessOrEqual, value, args[0])
    }),
    against(&["gt", "greaterthan", ">"], |value, args| {
        ops::compare(CompareOp::Greater, value, args[0])
    }),
    against(&["ge", ">="], |value, args| {
        ops::compare(CompareOp::GreaterOrEqual, value, args[0])
    }),
    against(&["in"], |value, args| {
        ops::compare(CompareOp::In, value, args[0])
    }),
];

/// The test of a name.
pub(crate) fn find(name: &str) -> Option<&'static Test> {
    TESTS.iter().find(|test| test.names.contains(&name))
}

/// The names of all tests.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TESTS
        .iter()
        .flat_map(|test| test.names)
        .copied()
        .chain([DEFINED, UNDEFINED])
}

fn text(value: &Value) -> Result<&str, String> {
    value
        .as_str()
        .ok_or_else(|| format!("expected a string, got {}", ops::a_kind(value)))
}
