//! The door to minijinja's parser: limits first, then its tree and its errors in our words.

use std::sync::LazyLock;

use minijinja::machinery::{Token, ast, parse, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::ast::{At, Kind, Node, Padded, Stmt, Unit};
use super::lower::Lowering;
use super::scope::SyntaxError;
use super::template::Mode;

/// Bytes of one expression or template.
pub const SOURCE_BYTES_MAX: usize = 4 << 20;
/// Tokens between one pair of braces. It bounds how deep the parser's tree can grow to one side.
pub const TAG_TOKENS_MAX: usize = 2_000;
/// Tags nested or chained in one template (`{% if %}`, `{% elif %}`, …).
pub const TAGS_MAX: usize = 20_000;
/// Blocks within blocks (an `elif` counts as one within the other).
pub const BLOCK_DEPTH_MAX: usize = 100;

static SYNTAX: LazyLock<SyntaxConfig> = LazyLock::new(|| {
    let mut builder = SyntaxConfig::builder();
    builder
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true);
    builder.build().expect("the default delimiters are valid")
});

/// Whether a text has anything to evaluate.
pub(crate) fn has_tags(source: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|tag| source.contains(tag))
}

/// Parses a bare expression, or one that is written as one `{{ }}`.
pub(crate) fn expression(source: &str) -> Result<(Node, Unit), SyntaxError> {
    let trimmed = source.trim();
    if trimmed.is_empty() {
        return Err(SyntaxError::new(
            at(0, source.len()),
            "the expression is empty",
        ));
    }
    if let Some((_, node, unit)) = only_tag(source)? {
        return Ok((node, unit));
    }
    if trimmed.starts_with("{{") {
        let start = source.len() - source.trim_start().len();
        let error = SyntaxError::new(at(start, start + 2), "this is text, not one expression");
        return Err(error.hint(BARE));
    }
    check_limits(source, true)?;
    let tree = parse_expr(source).map_err(|error| {
        let error = translate(source, &error);
        if source.contains("{{") {
            error.hint(BARE)
        } else {
            error
        }
    })?;
    let mut lowering = Lowering::new(source, Mode::Text);
    let node = lowering.expr(&tree, false)?;
    Ok((node, lowering.unit))
}

/// The value of a text that is one `{{ }}`, maybe with blanks around it; `None` if the text is anything else.
///
/// The blanks are part of what was written: they stay around a value that is a text.
pub(crate) fn single_tag(source: &str) -> Result<Option<(Node, Unit)>, SyntaxError> {
    Ok(only_tag(source)?.map(|([before, after], node, unit)| {
        if before.is_empty() && after.is_empty() {
            return (node, unit);
        }
        let padded = Node {
            at: node.at,
            kind: Kind::Padded(Box::new(Padded {
                before,
                of: node,
                after,
            })),
        };
        (padded, unit)
    }))
}

/// The expression of a text that is one `{{ }}`, and the blanks before and after it.
fn only_tag(source: &str) -> Result<Option<([String; 2], Node, Unit)>, SyntaxError> {
    let trimmed = source.trim();
    if !trimmed.starts_with("{{") || !trimmed.ends_with("}}") {
        return Ok(None);
    }
    check_limits(source, false)?;
    let tree = parse(source, "", SYNTAX.clone()).map_err(|error| translate(source, &error))?;
    let ast::Stmt::Template(template) = &tree else {
        return Ok(None);
    };
    let mut only = None;
    let mut blanks = [String::new(), String::new()];
    for child in &template.children {
        match child {
            ast::Stmt::EmitRaw(raw) if raw.raw.trim().is_empty() => {
                blanks[usize::from(only.is_some())].push_str(raw.raw);
            }
            ast::Stmt::EmitExpr(emit) if only.is_none() => only = Some(emit),
            _ => return Ok(None),
        }
    }
    let Some(emit) = only else {
        return Ok(None);
    };
    let mut lowering = Lowering::new(source, Mode::Text);
    let node = lowering.expr(&emit.expr, false)?;
    Ok(Some((blanks, node, lowering.unit)))
}

/// The names that have a value where a bare expression, which was parsed before, is true.
pub(crate) fn known(source: &str) -> Vec<String> {
    let Ok((node, unit)) = expression(source) else {
        return Vec::new();
    };
    let mut lowering = Lowering::new(source, Mode::Text);
    lowering.unit = unit;
    lowering.known_under(&node)
}

/// Parses a template.
pub(crate) fn template(source: &str, mode: Mode) -> Result<(Vec<Stmt>, Unit), SyntaxError> {
    if !has_tags(source) {
        let body = if source.is_empty() {
            Vec::new()
        } else {
            vec![Stmt::Text(source.to_owned())]
        };
        return Ok((body, Unit::default()));
    }
    let masked = match mode {
        Mode::Shell => mask_lengths(source),
        Mode::Text | Mode::Url => None,
    };
    let text = masked.as_ref().map_or(source, |(text, _)| text);
    check_limits(text, false)?;
    let tree = parse(text, "", SYNTAX.clone()).map_err(|error| translate(text, &error))?;
    let mut lowering = Lowering::new(text, mode);
    lowering.mask = masked.as_ref().map(|(_, sign)| *sign);
    let body = lowering.template(&tree)?;
    Ok((body, lowering.unit))
}

/// Shell text in which the brace of every `${#name}` (a length, to a shell) is a sign that stands nowhere else in it, so that the
/// parser sees no comment there. As long as the source: places stay.
fn mask_lengths(source: &str) -> Option<(String, char)> {
    if !source.contains("${#") {
        return None;
    }
    let sign = ('\u{1}'..='\u{8}').find(|sign| !source.contains(*sign))?;
    let mut masked = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(found) = rest.find('{') {
        let (before, from) = rest.split_at(found);
        masked.push_str(before);
        let length = match from.as_bytes().get(1) {
            Some(b'#') if before.ends_with('$') => {
                masked.push(sign);
                rest = &from[1..];
                continue;
            }
            Some(b'{') => tag_length(from, "}}"),
            Some(b'%') => tag_length(from, "%}"),
            Some(b'#') => from.find("#}").map_or(from.len(), |end| end + 2),
            Some(_) | None => 1,
        };
        masked.push_str(&from[..length]);
        rest = &from[length..];
    }
    masked.push_str(rest);
    Some((masked, sign))
}

/// Bytes of a tag with its end, which does not stand in quotes.
fn tag_length(text: &str, end: &str) -> usize {
    let mut quote = None;
    for (at, char) in text.char_indices().skip(2) {
        match (quote, char) {
            (None, '"' | '\'') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            (None, _) if text[at..].starts_with(end) => return at + end.len(),
            (_, _) => {}
        }
    }
    text.len()
}

fn at(start: usize, end: usize) -> At {
    At {
        start: start as u32,
        end: end as u32,
    }
}

/// Bounds what the recursive parser, and the recursive drop of its tree, can be led into.
fn check_limits(source: &str, in_expression: bool) -> Result<(), SyntaxError> {
    if source.len() > SOURCE_BYTES_MAX {
        let message = format!("the text is longer than {SOURCE_BYTES_MAX} bytes");
        return Err(SyntaxError::new(at(0, 0), message));
    }
    let mut counted = Counted::default();
    for token in tokenize(source, in_expression, SYNTAX.clone()) {
        // What cannot be read is the parser's to report.
        let Ok((token, span)) = token else {
            return Ok(());
        };
        counted.see(&token);
        let place = super::lower::at(span);
        if counted.tokens > TAG_TOKENS_MAX {
            let message = format!("the expression has more than {TAG_TOKENS_MAX} tokens");
            return Err(SyntaxError::new(place, message));
        }
        if counted.tags > TAGS_MAX {
            return Err(SyntaxError::new(
                place,
                format!("the text has more than {TAGS_MAX} tags"),
            ));
        }
        if counted.depth() > BLOCK_DEPTH_MAX {
            let message = format!("blocks are nested deeper than {BLOCK_DEPTH_MAX} levels");
            return Err(SyntaxError::new(place, message));
        }
    }
    Ok(())
}

/// How much of each limit a source has used so far.
#[derive(Default)]
struct Counted {
    tokens: usize,
    tags: usize,
    /// Levels that each open block takes: an `if` takes one more for every `elif`.
    open: Vec<usize>,
    /// The next token is the word of a `{% %}`.
    at_word: bool,
    /// In a `{% set %}` that has no `=` so far: with none it opens a block.
    in_set: bool,
}

impl Counted {
    fn depth(&self) -> usize {
        self.open.iter().sum()
    }

    fn see(&mut self, token: &Token<'_>) {
        self.tokens += 1;
        let at_word = std::mem::replace(&mut self.at_word, false);
        match token {
            Token::VariableStart | Token::BlockStart => {
                self.tokens = 0;
                self.tags += 1;
                self.at_word = matches!(token, Token::BlockStart);
            }
            Token::BlockEnd if self.in_set => {
                self.open.push(1);
                self.in_set = false;
            }
            Token::Assign => self.in_set = false,
            Token::Ident(word) if at_word => match *word {
                "for" | "if" | "with" | "filter" => self.open.push(1),
                "elif" => {
                    if let Some(levels) = self.open.last_mut() {
                        *levels += 1;
                    }
                }
                "set" => self.in_set = true,
                word if word.starts_with("end") => {
                    self.open.pop();
                }
                _ => {}
            },
            _ => {}
        }
    }
}

fn translate(source: &str, error: &minijinja::Error) -> SyntaxError {
    let range = error.range().unwrap_or(0..0);
    let end = range.end.min(source.len());
    let start = range.start.min(end);
    let message = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    let found = SyntaxError::new(at(start, end), message);
    if found.message.starts_with("unknown statement") {
        return found.hint(STATEMENTS);
    }
    if found.message == "unexpected end of comment" {
        return found.hint(COMMENT);
    }
    let rest = &source.as_bytes()[start..];
    if rest.starts_with(b".") && source[..start].trim_end().ends_with("{{") {
        return found.hint(RAW);
    }
    match FOREIGN
        .iter()
        .find(|(sign, _)| rest.starts_with(sign.as_bytes()))
    {
        Some((_, hint)) => found.hint(*hint),
        None => found,
    }
}

/// The statements that there are.
pub(crate) const STATEMENTS: &str = "for, if, set, with, filter, raw, break and continue are";

const COMMENT: &str = "`{#` starts a comment of the template, up to `#}`; for the signs themselves write `{{ \"{#\" }}`";
const RAW: &str =
    "braces of another template language stand between `{% raw %}` and `{% endraw %}`";

/// Signs of other languages, and what says the same here.
const FOREIGN: &[(&str, &str)] = &[
    ("&", "write `and`"),
    ("|", "write `or`"),
    ("!", "write `not`"),
    ("?", "write `a if condition else b`"),
];

const BARE: &str = "write the bare expression, or one `{{ }}` around the whole";
