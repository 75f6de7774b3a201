//! JSON to a tree. Written here because positions are wanted and YAML refuses some of JSON.

use serde_json::Number;

use super::TextLimits;
use super::node::{Entry, Map, Node, Style, Value};
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, quoted};
use crate::lang::source::{FileId, Span};

struct Json<'a> {
    file: FileId,
    text: &'a str,
    at: usize,
    depth: usize,
    nodes: usize,
    limits: &'a TextLimits,
    problems: Vec<Problem>,
}

/// The text was refused; the problem is among the problems.
struct Refused;

/// Parses JSON; stops at the first syntax error or limit.
pub(super) fn parse(file: FileId, text: &str, limits: &TextLimits) -> (Option<Node>, Vec<Problem>) {
    let at = if text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        0
    };
    let mut json = Json {
        file,
        text,
        at,
        depth: 0,
        nodes: 0,
        limits,
        problems: Vec::new(),
    };
    json.blanks();
    let root = json.value().and_then(|root| {
        json.blanks();
        if json.at == text.len() {
            Ok(root)
        } else {
            json.fail("text follows the end of the value")
        }
    });
    (root.ok(), json.problems)
}

impl Json<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn fail<T>(&mut self, why: &str) -> Result<T, Refused> {
        let len = self.text[self.at..]
            .chars()
            .next()
            .map_or(0, char::len_utf8);
        let span = Span::new(self.file, self.at, self.at + len);
        self.problems.push(Problem::new(
            codes::SYNTAX,
            span,
            format!("this is not JSON: {why}"),
        ));
        Err(Refused)
    }

    fn limit<T>(&mut self, message: String) -> Result<T, Refused> {
        let span = Span::new(self.file, self.at, self.at);
        self.problems
            .push(Problem::new(codes::TOO_LARGE, span, message).hint(super::SPLIT));
        Err(Refused)
    }

    fn value(&mut self) -> Result<Node, Refused> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes_max {
            return self.limit(format!(
                "the file has more than {} values",
                self.limits.nodes_max
            ));
        }
        let start = self.at;
        let (value, style) = match self.peek() {
            Some(b'{') => (self.nested(Self::object)?, Style::Tree),
            Some(b'[') => (self.nested(Self::array)?, Style::Tree),
            Some(b'"') => (Value::Text(self.string()?), Style::Double),
            Some(b'-' | b'0'..=b'9') => (self.number()?, Style::Plain { cut: None }),
            Some(b't') => (
                self.word("true", Value::Bool(true))?,
                Style::Plain { cut: None },
            ),
            Some(b'f') => (
                self.word("false", Value::Bool(false))?,
                Style::Plain { cut: None },
            ),
            Some(b'n') => (self.word("null", Value::Null)?, Style::Plain { cut: None }),
            Some(_) => return self.fail("a value is expected here"),
            None => return self.fail("the text ends where a value is expected"),
        };
        Ok(Node {
            value,
            span: Span::new(self.file, start, self.at),
            style,
        })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, Refused>) -> Result<Value, Refused> {
        if self.depth >= self.limits.depth_max {
            let message = format!(
                "maps and lists are nested deeper than {}",
                self.limits.depth_max
            );
            return self.limit(message);
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, Refused> {
        let mut map = Map::new();
        self.blanks();
        if self.take(b'}') {
            return Ok(Value::Map(map));
        }
        loop {
            self.blanks();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return self.fail("a key in double quotes is expected here");
            }
            let name = self.string()?;
            let key = Span::new(self.file, start, self.at);
            self.blanks();
            if !self.take(b':') {
                return self.fail("a `:` is expected after the key");
            }
            self.blanks();
            let node = self.value()?;
            self.insert(&mut map, name, key, node);
            self.blanks();
            if self.take(b'}') {
                return Ok(Value::Map(map));
            }
            if !self.take(b',') {
                return self.fail("a `,` or `}` is expected here");
            }
        }
    }

    fn insert(&mut self, map: &mut Map, name: String, key: Span, node: Node) {
        if let Some(first) = map.get(&name) {
            self.problems.push(
                Problem::new(
                    codes::DUPLICATE_KEY,
                    key,
                    format!("the key `{name}` stands twice in this map"),
                )
                .related(first.key, "first here")
                .hint("remove one of them; the first is not overridden"),
            );
        } else {
            map.insert(name, Entry { key, node });
        }
    }

    fn array(&mut self) -> Result<Value, Refused> {
        let mut items = Vec::new();
        self.blanks();
        if self.take(b']') {
            return Ok(Value::List(items));
        }
        loop {
            self.blanks();
            items.push(self.value()?);
            self.blanks();
            if self.take(b']') {
                return Ok(Value::List(items));
            }
            if !self.take(b',') {
                return self.fail("a `,` or `]` is expected here");
            }
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Refused> {
        if !self.text[self.at..].starts_with(word) {
            return self.fail("a value is expected here");
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Refused> {
        let len = self.text[self.at..]
            .bytes()
            .take_while(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
            .count();
        let number = &self.text[self.at..self.at + len];
        if crate::expr::is_too_large(number) {
            let span = Span::new(self.file, self.at, self.at + len);
            self.problems.push(
                Problem::new(
                    codes::AMBIGUOUS,
                    span,
                    format!("the integer {number} does not fit into 64 bits"),
                )
                .hint(format!("write {} for the text", quoted(number))),
            );
            let text = number.to_owned();
            self.at += len;
            return Ok(Value::Text(text));
        }
        match number.parse::<Number>() {
            Ok(number) => {
                self.at += len;
                Ok(Value::Number(number))
            }
            Err(_) => self.fail("this number is not one of JSON"),
        }
    }

    fn string(&mut self) -> Result<String, Refused> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let plain = self.text.as_bytes()[self.at..]
                .iter()
                .take_while(|byte| **byte >= 0x20 && **byte != b'"' && **byte != b'\\')
                .count();
            out.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => {
                    return self
                        .fail("a control character stands in a string, write it as an escape");
                }
                None => return self.fail("the text ends within a string"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Refused> {
        let sign = self.text.as_bytes().get(self.at + 1).copied();
        let decoded = match sign {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            Some(_) | None => return self.fail("this escape is not one of JSON"),
        };
        self.at += 2;
        Ok(decoded)
    }

    fn unicode(&mut self) -> Result<char, Refused> {
        let high = hex4(self.text, self.at + 2);
        let (code, len) = match high {
            Some(high @ 0xd800..=0xdbff) => {
                let pair = self.text.get(self.at + 6..self.at + 8) == Some("\\u");
                match hex4(self.text, self.at + 8) {
                    Some(low @ 0xdc00..=0xdfff) if pair => {
                        (Some(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)), 12)
                    }
                    Some(_) | None => (None, 0),
                }
            }
            Some(code) => (Some(code), 6),
            None => (None, 0),
        };
        match code.and_then(char::from_u32) {
            Some(decoded) => {
                self.at += len;
                Ok(decoded)
            }
            None => self.fail("this escape names no character"),
        }
    }
}

/// Four hexadecimal digits at a byte.
pub(super) fn hex4(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 4)?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| u32::from_str_radix(digits, 16).ok())?
}
