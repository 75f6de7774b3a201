//! What is wrong with a flow, said so that it can be fixed.
//!
//! Inside the checker a [`Problem`] points at spans. A [`Diagnostic`] is what leaves it: complete in itself (file, line, column, the
//! lines it quotes), so that it can be printed, stored and sent without the sources.

use std::fmt;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde::{Deserialize, Serialize};

use super::codes::Code;
use super::source::{SourceFile, Sources, Span};

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The flow cannot run.
    Error,
    /// The flow runs, but probably not as meant.
    Warning,
}

/// A problem found while a flow is read, with spans into the sources of that load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) label: String,
    pub(crate) related: Vec<(Span, String)>,
    pub(crate) hint: Option<String>,
}

impl Problem {
    /// A problem of a code at a span. The message is one sentence in lower case.
    pub(crate) fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            span,
            message: message.into(),
            label: String::new(),
            related: Vec::new(),
            hint: None,
        }
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do about it, when something is known.
    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// A few words under the marked text.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Another place that matters.
    pub(crate) fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }
}

/// Problems that a report leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unshown {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
}

impl Unshown {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Something wrong with a flow: what, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The code, `RV0102`; `ravel explain` tells more.
    pub code: String,
    /// Whether the flow can run.
    pub severity: Severity,
    /// One sentence, lower case.
    pub message: String,
    /// The file as it was named.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The line of the end.
    pub end_line: usize,
    /// The column after the last character.
    pub end_column: usize,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// On the last one of a report: those that are not in it.
    #[serde(default, skip_serializing_if = "Unshown::is_none")]
    pub unshown: Unshown,
    /// The lines it quotes, one excerpt a file.
    #[serde(skip)]
    pub excerpts: Vec<Excerpt>,
}

/// Lines of a source file with marks in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The file as it was named.
    pub file: String,
    /// The number of the first line, from 1.
    pub first_line: usize,
    /// The lines.
    pub text: String,
    /// Ranges of bytes in `text` with their labels; the first is the place of the diagnostic.
    pub marks: Vec<(std::ops::Range<usize>, String)>,
    /// The column of the first mark, when `text` is a piece of a line too long to quote.
    pub column: Option<usize>,
}

/// Lines of a span that an excerpt shows; the rest of a longer span is left out.
const EXCERPT_LINES_MAX: usize = 6;
/// Bytes that an excerpt quotes whole; of longer lines a piece around the mark is shown.
const EXCERPT_BYTES_MAX: usize = 4_000;
/// Bytes before and after the mark in a piece of a long line.
const PIECE_BYTES: usize = 200;
/// How far apart, in lines, marks of one excerpt may be.
const EXCERPT_GAP_LINES_MAX: usize = 400;

impl Diagnostic {
    /// Makes a problem independent of its sources.
    pub(crate) fn new(problem: Problem, sources: &Sources) -> Self {
        let file = sources.file(problem.span.file);
        let (line, column) = file.position(problem.span.start as usize);
        let (end_line, end_column) = file.position(problem.span.end as usize);
        let mut excerpts: Vec<Excerpt> = Vec::new();
        excerpts.push(excerpt(sources, problem.span, problem.label));
        for (span, label) in problem.related {
            add_related(&mut excerpts, sources, span, label);
        }
        Self {
            code: problem.code.to_string(),
            severity: problem.code.severity(),
            message: problem.message,
            file: file.path.to_string(),
            line,
            column,
            end_line,
            end_column,
            hint: problem.hint,
            unshown: Unshown::default(),
            excerpts,
        }
    }

    /// The diagnostic as a person reads it, with colours when `styled`.
    pub fn render(&self, styled: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level
            .primary_title(self.message.as_str())
            .id(self.code.as_str());
        let mut group = Group::with_title(title);
        for (index, excerpt) in self.excerpts.iter().enumerate() {
            let mut snippet = Snippet::source(excerpt.text.as_str()).line_start(excerpt.first_line);
            match excerpt.column {
                // In a piece of a line the renderer would count from the start of the piece.
                Some(column) => {
                    let place = Origin::path(excerpt.file.as_str());
                    group = group.element(place.line(excerpt.first_line).char_column(column));
                }
                None => snippet = snippet.path(excerpt.file.as_str()),
            }
            for (at, (range, label)) in excerpt.marks.iter().enumerate() {
                let kind = if index == 0 && at == 0 {
                    AnnotationKind::Primary
                } else {
                    AnnotationKind::Context
                };
                let mark = kind.span(range.clone());
                snippet = snippet.annotation(if label.is_empty() {
                    mark
                } else {
                    mark.label(label.as_str())
                });
            }
            group = group.element(snippet);
        }
        let mut report = vec![group];
        if let Some(hint) = &self.hint {
            report.push(Group::with_title(
                Level::HELP.with_name("hint").secondary_title(hint.as_str()),
            ));
        }
        let renderer = if styled {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&report)
    }
}

/// Errors and warnings of reports, those that are not shown included.
pub fn count<'d>(reports: impl IntoIterator<Item = &'d Diagnostic>) -> (usize, usize) {
    reports
        .into_iter()
        .fold((0, 0), |(errors, warnings), found| {
            let is_error = usize::from(found.severity == Severity::Error);
            (
                errors + is_error + found.unshown.errors,
                warnings + 1 - is_error + found.unshown.warnings,
            )
        })
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// The lines around a span.
fn excerpt(sources: &Sources, span: Span, label: String) -> Excerpt {
    let file = sources.file(span.file);
    let first = file.line_index(span.start as usize);
    let last = file
        .line_index((span.end.max(span.start + 1) - 1) as usize)
        .min(first + EXCERPT_LINES_MAX - 1);
    let lines = file.line_range(first, last.max(first));
    if lines.len() > EXCERPT_BYTES_MAX {
        return piece(file, span, label);
    }
    let text = file.text.get(lines.clone()).unwrap_or("").to_owned();
    let start = (span.start as usize)
        .saturating_sub(lines.start)
        .min(text.len());
    let end = (span.end as usize)
        .saturating_sub(lines.start)
        .clamp(start, text.len());
    Excerpt {
        file: file.path.to_string(),
        first_line: first + 1,
        text,
        marks: vec![(start..end, label)],
        column: None,
    }
}

/// A piece of one line around a span.
fn piece(file: &SourceFile, span: Span, label: String) -> Excerpt {
    let (line, column) = file.position(span.start as usize);
    let lines = file.line_range(line - 1, line - 1);
    let at = (span.start as usize).min(lines.end);
    let until = (span.end as usize)
        .clamp(at, lines.end)
        .min(at + PIECE_BYTES);
    let boundary = |from: usize| (from..=lines.end).find(|at| file.text.is_char_boundary(*at));
    let start = boundary(at.saturating_sub(PIECE_BYTES).max(lines.start)).unwrap_or(at);
    let until = boundary(until).unwrap_or(at);
    let end = boundary((until + PIECE_BYTES).min(lines.end)).unwrap_or(until);
    Excerpt {
        file: file.path.to_string(),
        first_line: line,
        text: file.text.get(start..end).unwrap_or("").to_owned(),
        marks: vec![(at - start..until - start, label)],
        column: Some(column),
    }
}

/// Adds a mark to the excerpt of its file, widening it, or starts another.
fn add_related(excerpts: &mut Vec<Excerpt>, sources: &Sources, span: Span, label: String) {
    let added = excerpt(sources, span, label);
    let source = sources.file(span.file);
    let near = excerpts.iter_mut().find(|excerpt| {
        let whole = excerpt.column.is_none() && added.column.is_none();
        whole
            && excerpt.file == added.file
            && excerpt.first_line.abs_diff(added.first_line) <= EXCERPT_GAP_LINES_MAX
    });
    let Some(host) = near else {
        excerpts.push(added);
        return;
    };
    let last = |excerpt: &Excerpt| excerpt.first_line + excerpt.text.matches('\n').count();
    let first_line = host.first_line.min(added.first_line);
    let last_line = last(host).max(last(&added));
    let lines = source.line_range(first_line - 1, last_line - 1);
    let shift = |excerpt: &Excerpt| {
        source
            .line_range(excerpt.first_line - 1, excerpt.first_line - 1)
            .start
            - lines.start
    };
    let (host_shift, added_shift) = (shift(host), shift(&added));
    for (range, _) in &mut host.marks {
        *range = range.start + host_shift..range.end + host_shift;
    }
    host.marks.extend(
        added
            .marks
            .into_iter()
            .map(|(range, label)| (range.start + added_shift..range.end + added_shift, label)),
    );
    host.first_line = first_line;
    host.text = source.text.get(lines).unwrap_or("").to_owned();
}

/// Text as a scalar in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// The known name that was most probably meant, if one is near enough.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let allowed = match length {
        0..=1 => 0,
        2..=4 => 1,
        5 => 2,
        length => length / 3,
    };
    known
        .into_iter()
        .filter(|candidate| *candidate != name)
        // Cheap before dear: a name that is much longer or shorter is no typing error.
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= allowed.max(4))
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The file that was most probably meant: the ends of names are alike without saying anything.
pub(crate) fn nearest_file<'a>(
    path: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let stem = |path: &'a str| path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let file = path.rsplit('/').next().unwrap_or(path);
    let wanted = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let known: Vec<&str> = known.into_iter().collect();
    // The same name with another end first.
    let same = known.iter().find(|file| stem(file) == wanted);
    let near = || {
        let near = nearest(wanted, known.iter().map(|file| stem(file)))?;
        known.iter().find(|file| stem(file) == near)
    };
    same.or_else(near).copied()
}

fn distance(name: &str, candidate: &str) -> usize {
    // A plural, a prefix or a word left out is nearer than its letters say: `items` for `item_list` is not a typing error.
    let edits = strsim::osa_distance(name, candidate);
    let contains = candidate.len() >= 4
        && name.len() >= 4
        && (candidate.contains(name) || name.contains(candidate));
    if contains { edits.min(1) } else { edits }
}

/// A list of names for a hint: `a`, `b` and `c`; long lists are cut.
pub(crate) fn names<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    const NAMES_SHOWN_MAX: usize = 8;
    let all: Vec<&str> = known.into_iter().collect();
    let shown: Vec<String> = all
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(|name| format!("`{name}`"))
        .collect();
    match (shown.split_last(), all.len() > NAMES_SHOWN_MAX) {
        (None, _) => String::new(),
        (Some(_), true) => format!(
            "{} and {} more",
            shown.join(", "),
            all.len() - NAMES_SHOWN_MAX
        ),
        (Some((last, [])), false) => last.clone(),
        (Some((last, rest)), false) => format!("{} and {last}", rest.join(", ")),
    }
}
