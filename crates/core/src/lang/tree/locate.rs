//! From an offset in a scalar's value back to the source.
//!
//! Folding, chomping, indentation and escapes change only white space and escapes: the other characters of a value stand in the source
//! in the same order. So the n-th of them here is the n-th of them there, whatever the style. Computed only when a problem is reported.

use super::json::hex4;
use super::node::{Node, Style};
use crate::lang::source::Span;

/// The span in the source of a range of bytes in a text node's value. `source` is the text of the node's file.
pub(crate) fn locate(source: &str, node: &Node, range: std::ops::Range<usize>) -> Span {
    Locator::new(source, node).span(range)
}

/// Maps ranges of one text node's value to the source. Making one reads the whole scalar, asking it does not.
pub(crate) struct Locator<'n> {
    node: &'n Node,
    way: Way<'n>,
}

enum Way<'n> {
    /// The node is no text of its file.
    Whole,
    /// The value stands in the source as it is, from a byte of the file on.
    Verbatim { value: &'n str, base: usize },
    /// Offsets in the value, and starts and ends in the file, of the characters that are not white space.
    Scattered {
        solid: Vec<usize>,
        places: Vec<(usize, usize)>,
    },
}

impl<'n> Locator<'n> {
    pub(crate) fn new(source: &str, node: &'n Node) -> Self {
        let way = match (node.text(), source.get(node.span.range())) {
            (Some(value), Some(raw)) => Self::way(value, raw, node),
            (_, _) => Way::Whole,
        };
        Self { node, way }
    }

    fn way(value: &'n str, raw: &str, node: &Node) -> Way<'n> {
        let base = node.span.start as usize;
        if let Some(start) = verbatim(raw, value, node.style) {
            let base = base + start;
            return Way::Verbatim { value, base };
        }
        let mut places = places(raw, node.style);
        for (start, end) in &mut places {
            (*start, *end) = (*start + base, *end + base);
        }
        let solid = value.char_indices().filter(|(_, c)| !is_blank(*c));
        Way::Scattered {
            solid: solid.map(|(at, _)| at).collect(),
            places,
        }
    }

    /// The span of a range of bytes in the value.
    pub(crate) fn span(&self, range: std::ops::Range<usize>) -> Span {
        let file = self.node.span.file;
        match &self.way {
            Way::Whole => self.node.span,
            Way::Verbatim { value, base } => {
                let end = range
                    .end
                    .max(range.start + 1)
                    .min(value.len())
                    .max(range.start);
                let end = (end..=value.len())
                    .find(|end| value.is_char_boundary(*end))
                    .unwrap_or(value.len());
                Span::new(file, base + range.start.min(value.len()), base + end)
            }
            Way::Scattered { solid, places } => {
                let first = solid.partition_point(|at| *at < range.start);
                let past = solid.partition_point(|at| *at < range.end.max(range.start + 1));
                let start = (first < solid.len()).then(|| places.get(first)).flatten();
                let end = past.checked_sub(1).and_then(|last| places.get(last));
                match (start, end) {
                    (Some(start), Some(end)) if start.0 < end.1 => Span::new(file, start.0, end.1),
                    (Some(start), _) => Span::new(file, start.0, start.1),
                    (None, Some(end)) => Span::new(file, end.1, end.1),
                    (None, None) => self.node.span,
                }
            }
        }
    }
}

/// Where the value stands in the raw scalar as it is, when it does: the usual case, one line without escapes.
fn verbatim(raw: &str, value: &str, style: Style) -> Option<usize> {
    let (start, end) = match style {
        Style::Plain { .. } | Style::Tree | Style::Block => (0, raw.len()),
        Style::Single | Style::Double => (1, raw.len().saturating_sub(1)),
    };
    (raw.get(start..end)? == value).then_some(start)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Start and end in the raw scalar of each of its characters that is not white space.
fn places(raw: &str, style: Style) -> Vec<(usize, usize)> {
    match style {
        // A block's span starts at its content, after the line with the `|`.
        Style::Plain { .. } | Style::Tree | Style::Block => solid(raw),
        Style::Single => {
            let mut out = Vec::new();
            let mut chars = raw.char_indices().skip(1).peekable();
            while let Some((at, c)) = chars.next() {
                if c == '\'' {
                    if chars.next_if(|(_, next)| *next == '\'').is_none() {
                        break;
                    }
                    out.push((at, at + 2));
                } else if !is_blank(c) {
                    out.push((at, at + c.len_utf8()));
                }
            }
            out
        }
        Style::Double => double(raw),
    }
}

fn solid(raw: &str) -> Vec<(usize, usize)> {
    raw.char_indices()
        .filter(|(_, c)| !is_blank(*c))
        .map(|(at, c)| (at, at + c.len_utf8()))
        .collect()
}

fn double(raw: &str) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut at = 1;
    while let Some(c) = raw.get(at..).and_then(|rest| rest.chars().next()) {
        let (blank, len) = match c {
            '"' => break,
            '\\' => escape(raw, at),
            c => (is_blank(c), c.len_utf8()),
        };
        if !blank {
            out.push((at, at + len));
        }
        at += len;
    }
    out
}

/// Whether an escape stands for white space, and its length in bytes.
fn escape(raw: &str, at: usize) -> (bool, usize) {
    let Some(sign) = raw[at + 1..].chars().next() else {
        return (true, 1);
    };
    let code = |digits: usize| {
        raw.get(at + 2..at + 2 + digits)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
    };
    let blank = |code: Option<u32>| code.and_then(char::from_u32).is_some_and(is_blank);
    match sign {
        'n' | 'r' | 't' | ' ' | '\n' | '\r' | '\t' => (true, 2),
        'x' => (blank(code(2)), 4),
        'u' => {
            let pair = hex4(raw, at + 2).is_some_and(|high| (0xd800..0xdc00).contains(&high));
            (blank(code(4)), if pair { 12 } else { 6 })
        }
        'U' => (blank(code(8)), 10),
        other => (false, 1 + other.len_utf8()),
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::source::FileId;
    use crate::lang::tree::{TextLimits, parse};

    /// The text in the source that a word of the value under `key` maps to.
    fn mapped(source: &str, word: &str) -> String {
        let (root, problems) = parse(FileId(0), "f.yaml", source, &TextLimits::default());
        assert_eq!(problems, Vec::new());
        let root = root.expect("parses");
        let node = root.get("k").expect("has k");
        let at = node
            .text()
            .expect("text")
            .find(word)
            .expect("the word is in the value");
        let span = super::locate(source, node, at..at + word.len());
        format!("{}@{}", &source[span.range()], span.start)
    }

    #[test]
    fn offsets_in_every_scalar_style_map_back_to_the_source() {
        assert_eq!(mapped("k: a {{ b.c }} d", "b.c"), "b.c@8");
        assert_eq!(mapped("k: 'it''s {{ b.c }}'", "b.c"), "b.c@13");
        assert_eq!(mapped("k: \"\\u00e4\\n\\t{{ b.c }}\"", "b.c"), "b.c@17");
        assert_eq!(mapped("k: |\n  one\n\n   two {{ b.c }}\n", "b.c"), "b.c@22");
        assert_eq!(
            mapped("k: >-\n  one\n  two\n\n  {{ b.c }}\n", "b.c"),
            "b.c@24"
        );
        assert_eq!(mapped("k: one\n  two {{ b.c }}\n", "b.c"), "b.c@16");
        assert_eq!(mapped("{\"k\": \"\\ud83d\\ude00 b.c\"}", "b.c"), "b.c@20");
        assert_eq!(mapped("ä: 1\nk: ö {{ b.c }}", "b.c"), "b.c@15");
    }
}
