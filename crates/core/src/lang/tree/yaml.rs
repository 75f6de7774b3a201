//! YAML events to a tree.

use saphyr_parser::{Event, Parser, ScalarStyle, Span as YamlSpan};

use super::TextLimits;
use super::node::{Entry, Map, Node, Plain, Style, Value, plain};
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, quoted};
use crate::lang::source::{FileId, Span};

/// A map or list whose end was not seen yet.
enum Open {
    List { start: usize, items: Vec<Node> },
    Map { start: usize, map: Map, slot: Slot },
}

/// What the next node of a map is: a key and a value by turns.
enum Slot {
    Key,
    Value(String, Span),
    /// A map or list stands where a key belongs; it and its value are dropped.
    RefusedKey,
    RefusedValue,
}

/// How far before a scalar its anchor and tag are looked for. A file may be one long line.
const DECORATION_BYTES_MAX: usize = 4_096;

struct Builder<'a> {
    file: FileId,
    text: &'a str,
    /// Byte offset of each character, when they differ.
    bytes: Option<Vec<u32>>,
    limits: &'a TextLimits,
    stack: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
    problems: Vec<Problem>,
}

/// Parses YAML; stops at the first syntax error or limit.
pub(super) fn parse(file: FileId, text: &str, limits: &TextLimits) -> (Option<Node>, Vec<Problem>) {
    let bytes = (!text.is_ascii()).then(|| {
        let mut bytes: Vec<u32> = text.char_indices().map(|(at, _)| at as u32).collect();
        bytes.push(text.len() as u32);
        bytes
    });
    let mut builder = Builder {
        file,
        text,
        bytes,
        limits,
        stack: Vec::new(),
        root: None,
        nodes: 0,
        problems: Vec::new(),
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => {
                if builder.event(event, span).is_err() {
                    return (None, builder.problems);
                }
            }
            Err(error) => {
                let at = builder.byte(error.marker().index());
                builder.problems.push(syntax(file, text, at, error.info()));
                return (None, builder.problems);
            }
        }
    }
    (builder.root, builder.problems)
}

/// A syntax error, with the hint for the mistakes that are made most.
fn syntax(file: FileId, text: &str, at: usize, info: &str) -> Problem {
    let at = at.min(text.len());
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or("");
    let end = (at + 1).min(start + line.len()).max(at);
    let end = (end..=text.len())
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(at);
    let problem = Problem::new(
        codes::SYNTAX,
        Span::new(file, at, end),
        format!("this is not YAML: {info}"),
    );
    if text[at..].trim().is_empty()
        && let Some(place) = hidden_bracket(text)
    {
        let span = Span::new(
            file,
            place,
            place + text[place..].lines().next().map_or(1, str::len),
        );
        let message =
            "this is not YAML: a bracket is not closed, because ` #` starts a comment here";
        return Problem::new(codes::SYNTAX, span, message)
            .hint("quote the text that holds the `#`, or put the comment on a line of its own");
    }
    if text[at..].starts_with(": ") && info.contains("flow mapping") {
        let of = |c: char| matches!(c, '{' | ',' | '[');
        let before = text[start..at].rsplit_once(of).map_or("", |(_, part)| part);
        if let Some((key, head)) = before.trim_start().split_once(": ") {
            let tail = &line[at - start..];
            let tail = &tail[..tail.find(['}', ',', ']']).unwrap_or(tail.len())];
            let value = quoted(format!("{head}{tail}").trim());
            return problem.hint(format!("quote the value, it holds `: `: `{key}: {value}`"));
        }
    }
    let value = line.trim_start().trim_start_matches("- ");
    if line.trim_start().starts_with('\t') || line.starts_with('\t') {
        return problem.hint("indent with spaces, YAML takes no tabs");
    }
    match value.split_once(": ") {
        Some((key, value))
            if value.starts_with("{{") || value.starts_with('%') || value.starts_with('`') =>
        {
            problem.hint(format!(
                "quote the value: `{key}: {}`",
                quoted(value.trim_end())
            ))
        }
        Some((key, value)) if value.contains(": ") && !value.starts_with(['"', '\'', '{', '[']) => {
            problem.hint(format!(
                "quote the value, it holds `: `: `{key}: {}`",
                quoted(value.trim_end())
            ))
        }
        Some(_) | None => problem.maybe_hint(indentation(text, at)),
    }
}

/// Lines before an error in which the misindented one is looked for: parsers notice it late.
const INDENT_LINES_MAX: usize = 3;

/// The line at or shortly before a place that is indented like none that it could stand beside.
fn indentation(text: &str, at: usize) -> Option<String> {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_code = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let last = text[..at].matches('\n').count();
    let lines: Vec<&str> = text.lines().take(last + 1).collect();
    let first = last.saturating_sub(INDENT_LINES_MAX);
    (first..lines.len()).rev().find_map(|number| {
        let line = lines.get(number).filter(|line| is_code(line))?;
        let own = indent(line);
        // From the line above outwards: the levels that are open here.
        let mut open: Vec<usize> = Vec::new();
        let above = lines[..number].iter().rev().filter(|line| is_code(line));
        for level in above.map(|line| indent(line)) {
            if open.last().is_none_or(|inner| level < *inner) {
                open.push(level);
            }
        }
        let inner = open.first()?;
        let is_below = |level: &usize| {
            lines[..number]
                .iter()
                .rev()
                .find(|line| is_code(line) && indent(line) == *level)
                .is_some_and(|line| line.trim_end().ends_with(':'))
        };
        if open.contains(&own) || (own > *inner && is_below(inner)) {
            return None;
        }
        let levels: Vec<String> = open.iter().rev().map(usize::to_string).collect();
        Some(format!(
            "line {} is indented by {own}; it could stand beside lines indented by {}",
            number + 1,
            levels.join(", ")
        ))
    })
}

/// The last ` #` that hides a closing bracket from an open one on its line.
fn hidden_bracket(text: &str) -> Option<usize> {
    let mut offset = 0;
    let mut found = None;
    for line in text.split_inclusive('\n') {
        if let Some(at) = line.find(" #")
            && line[..at].contains(['{', '['])
            && line[at..].contains(['}', ']'])
        {
            found = Some(offset + at + 1);
        }
        offset += line.len();
    }
    found
}

/// Nothing more can be read.
struct Stop;

impl Builder<'_> {
    fn byte(&self, character: usize) -> usize {
        match &self.bytes {
            None => character.min(self.text.len()),
            Some(bytes) => bytes
                .get(character)
                .map_or(self.text.len(), |at| *at as usize),
        }
    }

    fn event(&mut self, event: Event<'_>, span: YamlSpan) -> Result<(), Stop> {
        let start = self.byte(span.start.index());
        let end = self.byte(span.end.index());
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.document(start, end),
            Event::Alias(_) => {
                self.refuse_anchor(start, end, "an alias");
                self.scalar_node(Node::made(Value::Null, Span::new(self.file, start, end)))
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.decorated(anchor, tag.is_some(), start);
                self.scalar(&text, style, start, end)
            }
            Event::SequenceStart(anchor, tag) => {
                self.decorated(anchor, tag.is_some(), start);
                self.open(
                    Open::List {
                        start,
                        items: Vec::new(),
                    },
                    start,
                    end,
                )
            }
            Event::MappingStart(anchor, tag) => {
                self.decorated(anchor, tag.is_some(), start);
                let map = Open::Map {
                    start,
                    map: Map::new(),
                    slot: Slot::Key,
                };
                self.open(map, start, end)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(start, end),
        }
    }

    fn document(&mut self, start: usize, end: usize) -> Result<(), Stop> {
        if self.root.is_none() {
            return Ok(());
        }
        let span = Span::new(self.file, start, end.max(start));
        self.problems.push(
            Problem::new(
                codes::DOCUMENTS,
                span,
                "a second document starts here, and a file holds one flow",
            )
            .hint("put the second flow into a file of its own and name it under `flows:`"),
        );
        Err(Stop)
    }

    fn decorated(&mut self, anchor: usize, tag: bool, start: usize) {
        if anchor == 0 && !tag {
            return;
        }
        // The scalar's span starts after its anchor and tag: they are found in the text before it, on the same line.
        let from = start.saturating_sub(DECORATION_BYTES_MAX);
        let from = (from..=start)
            .find(|from| self.text.is_char_boundary(*from))
            .unwrap_or(start);
        let line = self.text[from..start]
            .rfind('\n')
            .map_or(from, |at| from + at + 1);
        let find = |sign: char| {
            let at = self.text[line..start]
                .rfind(sign)
                .map_or(start, |at| line + at);
            let end = self.text[at..]
                .find(char::is_whitespace)
                .map_or(self.text.len(), |len| at + len);
            (at, end)
        };
        let (anchor_at, tag_at) = (find('&'), find('!'));
        if anchor != 0 {
            self.refuse_anchor(anchor_at.0, anchor_at.1, "an anchor");
        }
        if tag {
            let span = Span::new(self.file, tag_at.0, tag_at.1);
            let name = self.text[tag_at.0..tag_at.1].to_owned();
            self.problems.push(
                Problem::new(
                    codes::TAG,
                    span,
                    format!("a YAML tag, `{name}`, is not part of the language"),
                )
                .hint(format!(
                    "leave it out, or quote the text: {}",
                    quoted(&format!("{name} …"))
                )),
            );
        }
    }

    fn refuse_anchor(&mut self, start: usize, end: usize, what: &str) {
        let span = Span::new(self.file, start, end);
        let text = self.text[start..end].trim().to_owned();
        self.problems.push(
            Problem::new(codes::ANCHOR, span, format!("{what}, `{text}`, is not part of the language"))
                .hint(format!("repeat the value, use `defaults:` or `types:`; text that starts with this sign is quoted: {}", quoted(&text))),
        );
    }

    fn count(&mut self, start: usize, end: usize) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes <= self.limits.nodes_max {
            return Ok(());
        }
        let message = format!("the file has more than {} values", self.limits.nodes_max);
        self.problems.push(
            Problem::new(codes::TOO_LARGE, Span::new(self.file, start, end), message)
                .hint(super::SPLIT),
        );
        Err(Stop)
    }

    fn open(&mut self, open: Open, start: usize, end: usize) -> Result<(), Stop> {
        self.count(start, end)?;
        if self.stack.len() >= self.limits.depth_max {
            let message = format!(
                "maps and lists are nested deeper than {}",
                self.limits.depth_max
            );
            self.problems.push(
                Problem::new(codes::TOO_LARGE, Span::new(self.file, start, end), message)
                    .hint("move the inner part into a flow of its own under `flows:`"),
            );
            return Err(Stop);
        }
        if let Some(Open::Map {
            slot: slot @ Slot::Key,
            ..
        }) = self.stack.last_mut()
        {
            *slot = Slot::RefusedKey;
            let span = Span::new(self.file, start, end.max(start));
            self.problems.push(bad_key(span));
        }
        self.stack.push(open);
        Ok(())
    }

    fn close(&mut self, at: usize, end: usize) -> Result<(), Stop> {
        let open = self
            .stack
            .pop()
            .expect("the parser balances starts and ends");
        let (start, value, last) = match open {
            Open::List { start, items } => {
                let last = items.last().map_or(start, |node| node.span.end as usize);
                (start, Value::List(items), last)
            }
            Open::Map { start, map, .. } => {
                let last = map.last().map_or(start, |(_, entry)| {
                    entry.node.span.end.max(entry.key.end) as usize
                });
                (start, Value::Map(map), last)
            }
        };
        // A flow collection ends at its bracket; a block one has no end of its own, the parser reports the next token.
        let bracket = end > at && matches!(self.text.as_bytes().get(end - 1), Some(b'}' | b']'));
        let span = Span::new(self.file, start, if bracket { end } else { last });
        self.attach(Node {
            value,
            span,
            style: Style::Tree,
        });
        Ok(())
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        start: usize,
        end: usize,
    ) -> Result<(), Stop> {
        let span = Span::new(self.file, start, end);
        let is_key = matches!(
            self.stack.last(),
            Some(Open::Map {
                slot: Slot::Key,
                ..
            })
        );
        let node = match style {
            ScalarStyle::SingleQuoted => text_node(text, span, Style::Single),
            ScalarStyle::DoubleQuoted => text_node(text, span, Style::Double),
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let trimmed = self.text[start..end].trim_end().len();
                text_node(
                    text,
                    Span::new(self.file, start, start + trimmed),
                    Style::Block,
                )
            }
            ScalarStyle::Plain => self.plain(text, span, is_key),
        };
        self.scalar_node(node)
    }

    fn plain(&mut self, text: &str, span: Span, is_key: bool) -> Node {
        let style = Style::Plain {
            cut: self.comment_after(span),
        };
        let value = match plain(text) {
            Plain::Null => Value::Null,
            Plain::Bool(value) => Value::Bool(value),
            Plain::Number(number) => Value::Number(number),
            Plain::Text => Value::Text(text.to_owned()),
            refused @ (Plain::OldBool | Plain::LeadingZero | Plain::NotFinite) => {
                if !is_key {
                    self.problems.push(ambiguous(text, span, &refused));
                }
                Value::Text(text.to_owned())
            }
        };
        if let Value::Text(_) = &value {
            self.refuse_cut_word(text, span, style);
        }
        Node { value, span, style }
    }

    /// `title: Issue #12` is cut in silence by YAML, wherever it stands: a `#` that touches what follows was meant as text.
    fn refuse_cut_word(&mut self, text: &str, span: Span, style: Style) {
        let Style::Plain { cut: Some(at) } = style else {
            return;
        };
        let at = at as usize;
        let one_space = at == span.end as usize + 1;
        let touches = self.text[at + 1..].starts_with(|c: char| c.is_alphanumeric());
        if one_space && touches {
            self.problems.push(cut_text(self.text, text, span, at));
        }
    }

    /// Where ` #` follows on the same line.
    fn comment_after(&self, span: Span) -> Option<u32> {
        let rest = &self.text[span.end as usize..];
        let blanks = rest
            .bytes()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count();
        (blanks > 0 && rest[blanks..].starts_with('#')).then_some(span.end + blanks as u32)
    }

    fn scalar_node(&mut self, node: Node) -> Result<(), Stop> {
        self.count(node.span.start as usize, node.span.end as usize)?;
        self.attach(node);
        Ok(())
    }

    /// Gives a finished node to what holds it: as a key, a value, an item, or the root.
    fn attach(&mut self, node: Node) {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { map, slot, .. }) => {
                *slot = match std::mem::replace(slot, Slot::Key) {
                    Slot::Key => Slot::Value(key_text(&node, self.text), node.span),
                    Slot::RefusedKey => Slot::RefusedValue,
                    Slot::RefusedValue => Slot::Key,
                    Slot::Value(name, span) => {
                        insert(map, name, span, node, &mut self.problems);
                        Slot::Key
                    }
                };
            }
        }
    }
}

fn text_node(text: &str, span: Span, style: Style) -> Node {
    Node {
        value: Value::Text(text.to_owned()),
        span,
        style,
    }
}

/// A key is text; a number or a boolean written as key is its text.
fn key_text(node: &Node, source: &str) -> String {
    match &node.value {
        Value::Text(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
            source[node.span.range()].to_owned()
        }
    }
}

fn bad_key(span: Span) -> Problem {
    Problem::new(codes::BAD_KEY, span, "a key is text, not a map or a list")
        .hint("text that starts with `{{` is quoted: `\"{{ … }}\"`")
}

fn insert(map: &mut Map, name: String, span: Span, node: Node, problems: &mut Vec<Problem>) {
    if let Some(first) = map.get(&name) {
        problems.push(
            Problem::new(
                codes::DUPLICATE_KEY,
                span,
                format!("the key `{name}` stands twice in this map"),
            )
            .related(first.key, "first here")
            .hint("remove one of them; the first is not overridden"),
        );
        return;
    }
    map.insert(name, Entry { key: span, node });
}

fn ambiguous(text: &str, span: Span, kind: &Plain) -> Problem {
    let message = match kind {
        Plain::OldBool => format!(
            "`{text}` without quotes is a boolean to some readers of YAML and text to others"
        ),
        Plain::LeadingZero => format!("`{text}` without quotes would lose its leading zero"),
        Plain::NotFinite => format!("`{text}` is no number that JSON can carry"),
        Plain::Null | Plain::Bool(_) | Plain::Number(_) | Plain::Text => {
            format!("`{text}` is ambiguous")
        }
    };
    let hint = match (kind, text.to_ascii_lowercase().as_str()) {
        (Plain::OldBool, "yes" | "on") => format!(
            "write {} for the text, `true` for the boolean",
            quoted(text)
        ),
        (Plain::OldBool, _) => format!(
            "write {} for the text, `false` for the boolean",
            quoted(text)
        ),
        (
            Plain::Null
            | Plain::Bool(_)
            | Plain::Number(_)
            | Plain::Text
            | Plain::LeadingZero
            | Plain::NotFinite,
            _,
        ) => {
            format!("write {} for the text", quoted(text))
        }
    };
    Problem::new(codes::AMBIGUOUS, span, message).hint(hint)
}

/// Text that ` #` has cut off.
pub(crate) fn cut_text(source: &str, text: &str, span: Span, at: usize) -> Problem {
    let rest = source[at..].lines().next().unwrap_or("").trim_end();
    let whole = format!("{text} {rest}");
    let problem_span = Span::new(span.file, at, at + rest.len());
    Problem::new(
        codes::CUT_TEXT,
        problem_span,
        "` #` starts a comment here and cuts the text before it",
    )
    .hint(format!(
        "quote the text, {}, or put the comment on a line of its own",
        quoted(&whole)
    ))
}
