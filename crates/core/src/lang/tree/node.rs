//! The tree: values with spans.

use indexmap::IndexMap;
use serde_json::Number;

use crate::lang::source::Span;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
    pub(crate) style: Style,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Map),
}

/// How a node was written; needed to map an offset in its value back to the source, and to tell what a plain scalar lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Unquoted; `cut` is where ` #` ended it, when it did.
    Plain { cut: Option<u32> },
    /// In single quotes.
    Single,
    /// In double quotes, JSON or YAML.
    Double,
    /// A block, `|` or `>`.
    Block,
    /// A map or a list.
    Tree,
}

/// A map in the order of the text.
pub(crate) type Map = IndexMap<String, Entry>;

/// A key's place and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Span,
    pub(crate) node: Node,
}

impl Node {
    /// A node of text, number and so on without a position of its own: it takes that of what it was made from.
    pub(crate) fn made(value: Value, span: Span) -> Self {
        Self {
            value,
            span,
            style: Style::Tree,
        }
    }

    /// The text, when it is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
                None
            }
        }
    }

    /// The map, when it is a map.
    pub(crate) fn map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Text(_) => {
                None
            }
        }
    }

    /// The list, when it is a list.
    pub(crate) fn list(&self) -> Option<&[Self]> {
        match &self.value {
            Value::List(list) => Some(list),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Map(_) | Value::Text(_) => {
                None
            }
        }
    }

    /// The value under a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.map()?.get(key).map(|entry| &entry.node)
    }

    /// Where a list of scalars was cut by ` #`, when it was.
    pub(crate) fn cut(&self) -> Option<u32> {
        match self.style {
            Style::Plain { cut } => cut,
            Style::Single | Style::Double | Style::Block | Style::Tree => None,
        }
    }

    /// What it is, for messages: `text`, `a map`.
    pub(crate) fn what(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The value without positions.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => serde_json::Value::Bool(*value),
            Value::Number(number) => serde_json::Value::Number(number.clone()),
            Value::Text(text) => serde_json::Value::String(text.clone()),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(map) => serde_json::Value::Object(
                map.iter()
                    .map(|(key, entry)| (key.clone(), entry.node.to_json()))
                    .collect(),
            ),
        }
    }
}

/// What a plain scalar means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plain {
    Null,
    Bool(bool),
    Number(Number),
    Text,
    /// `yes`, `no`, `on`, `off`: a boolean to YAML 1.1, text to 1.2.
    OldBool,
    /// `007`: octal, decimal or text, depending on whom you ask.
    LeadingZero,
    /// `.inf`, `.nan`, or digits beyond a number that JSON can carry.
    NotFinite,
}

/// Resolves a plain scalar by the core schema of YAML 1.2.
pub(crate) fn plain(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "true" | "True" | "TRUE" => return Plain::Bool(true),
        "false" | "False" | "FALSE" => return Plain::Bool(false),
        "yes" | "Yes" | "YES" | "no" | "No" | "NO" | "on" | "On" | "ON" | "off" | "Off" | "OFF" => {
            return Plain::OldBool;
        }
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" => return Plain::NotFinite,
        ".nan" | ".NaN" | ".NAN" if unsigned == text => return Plain::NotFinite,
        _ => {}
    }
    match unsigned.bytes().next() {
        Some(b'0'..=b'9' | b'.') => number(text, unsigned),
        Some(_) | None => Plain::Text,
    }
}

fn number(text: &str, unsigned: &str) -> Plain {
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        if unsigned.len() > 1 && unsigned.starts_with('0') {
            return Plain::LeadingZero;
        }
        let text = text.strip_prefix('+').unwrap_or(text);
        if let Ok(value) = text.parse::<i64>() {
            return Plain::Number(value.into());
        }
        return match text.parse::<u64>() {
            Ok(value) => Plain::Number(value.into()),
            Err(_) => Plain::NotFinite,
        };
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
            return match u64::from_str_radix(digits, radix) {
                Ok(value) if valid => Plain::Number(value.into()),
                Ok(_) => Plain::Text,
                Err(_) if valid => Plain::NotFinite,
                Err(_) => Plain::Text,
            };
        }
    }
    if !is_float(unsigned) {
        return Plain::Text;
    }
    match text.parse::<f64>().ok().and_then(Number::from_f64) {
        Some(number) => Plain::Number(number),
        None => Plain::NotFinite,
    }
}

/// `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let mut rest = &text[whole..];
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix('.') {
        fraction = digits(after);
        rest = &after[fraction..];
    }
    if whole + fraction == 0 {
        return false;
    }
    if let Some(after) = rest.strip_prefix(['e', 'E']) {
        let after = after.strip_prefix(['-', '+']).unwrap_or(after);
        let exponent = digits(after);
        if exponent == 0 {
            return false;
        }
        rest = &after[exponent..];
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        let number = |n: f64| Plain::Number(Number::from_f64(n).expect("finite"));
        let cases = [
            ("", Plain::Null),
            ("true", Plain::Bool(true)),
            ("no", Plain::OldBool),
            ("Off", Plain::OldBool),
            ("12", Plain::Number(12.into())),
            ("-12", Plain::Number((-12).into())),
            ("+12", Plain::Number(12.into())),
            ("0x1F", Plain::Number(31.into())),
            ("0o17", Plain::Number(15.into())),
            ("007", Plain::LeadingZero),
            ("0", Plain::Number(0.into())),
            ("1.5", number(1.5)),
            ("1e3", number(1000.0)),
            (".5", number(0.5)),
            ("5m", Plain::Text),
            ("1.2.3", Plain::Text),
            ("12:30", Plain::Text),
            (".inf", Plain::NotFinite),
            ("99999999999999999999999", Plain::NotFinite),
            ("-", Plain::Text),
            ("n", Plain::Text),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text), expected, "{text}");
        }
    }
}
