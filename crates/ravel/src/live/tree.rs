//! The rows of the live tree: what is under way is always shown, what is settled or still to come gives way when the
//! terminal is small.

use unicode_width::UnicodeWidthStr;

use super::ways_to_answer;
use crate::output::{Paint, Tone, cut, units};
use crate::view::{RunView, State, Step};

/// Lines that the header, the questions' tail and the cursor take.
const LINES_RESERVED: usize = 3;
/// Children of a fan-out that are shown at once.
const ITEMS_SHOWN_MAX: usize = 6;
/// Questions shown at once.
const QUESTIONS_SHOWN_MAX: usize = 3;
/// Cells of a fan-out's bar.
const BAR_CELLS: usize = 20;
/// Wider rows are hard to read.
const WIDTH_MAX: usize = 120;

const SPINNER: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];

/// How one frame is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) paint: Paint,
    pub(crate) unicode: bool,
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Epoch ms.
    pub(crate) now: u64,
    /// Counts the frames, for the spinner.
    pub(crate) beat: usize,
    /// Shows settled scopes with what is in them, and never cuts: the last frame.
    pub(crate) whole: bool,
}

/// A row before it is cut to fit.
struct Row {
    depth: usize,
    index: usize,
    /// Rows of the same weight give way together: 0 stays.
    weight: u8,
}

/// The lines of the tree.
pub(crate) fn rows(view: &RunView, frame: Frame) -> Vec<String> {
    let width = frame.width.min(WIDTH_MAX);
    let mut lines = vec![header(view, frame, width)];
    let mut tree = Vec::new();
    for child in view
        .steps
        .first()
        .map_or(&[][..], |root| root.children.as_slice())
    {
        collect(view, *child, 0, frame, &mut tree);
    }
    let questions = questions(view, frame, width);
    let room = frame
        .height
        .saturating_sub(LINES_RESERVED + questions.len())
        .max(4);
    lines.extend(fitted(view, &tree, room, frame, width));
    lines.extend(questions);
    lines
}

fn header(view: &RunView, frame: Frame, width: usize) -> String {
    let state = view.state();
    let (tokens, microusd) = if view.steps.is_empty() {
        (0, 0)
    } else {
        view.usage(0)
    };
    let elapsed = view.elapsed_or_zero(frame.now);
    let mut facts = vec![units::duration(elapsed)];
    if tokens > 0 {
        facts.push(format!("{} tokens", units::count(tokens)));
    }
    if microusd > 0 {
        facts.push(units::money(microusd));
    }
    let glyph = glyph(state, frame);
    let plain = format!(
        "{glyph} {}  {}  {}  {}",
        view.flow,
        state.name(),
        facts.join("  "),
        view.id
    );
    if plain.width() > width {
        return cut(&plain, width);
    }
    format!(
        "{} {}  {}  {}  {}",
        frame.paint.tone(state.tone(), glyph),
        frame.paint.bold(&view.flow),
        frame.paint.tone(state.tone(), state.name()),
        facts.join("  "),
        frame.paint.dim(&view.id)
    )
}

impl RunView {
    fn elapsed_or_zero(&self, now: u64) -> u64 {
        if self.steps.is_empty() {
            0
        } else {
            self.elapsed(0, now).unwrap_or(0)
        }
    }
}

fn collect(view: &RunView, index: usize, depth: usize, frame: Frame, rows: &mut Vec<Row>) {
    let step = &view.steps[index];
    let weight = match step.state {
        State::Running | State::Waiting | State::Failed => 0,
        State::Pending => 2,
        State::Succeeded | State::Skipped | State::Cancelled => 1,
    };
    rows.push(Row {
        depth,
        index,
        weight,
    });
    let collapsed = step.state.is_settled() && step.state != State::Failed && !frame.whole;
    if collapsed || step.state == State::Pending {
        return;
    }
    if step.kind == "for_each" {
        let busy = step.children.iter().filter(|child| {
            matches!(
                view.steps[**child].state,
                State::Running | State::Waiting | State::Failed
            )
        });
        for child in busy.take(ITEMS_SHOWN_MAX) {
            collect(view, *child, depth + 1, frame, rows);
        }
    } else if step.kind == "repeat" {
        for child in step.children.iter().rev().take(1) {
            collect(view, *child, depth + 1, frame, rows);
        }
    } else {
        for child in &step.children {
            collect(view, *child, depth + 1, frame, rows);
        }
    }
}

/// Drops settled rows from the top, then pending ones from the bottom, until the rest fits.
fn fitted(view: &RunView, tree: &[Row], room: usize, frame: Frame, width: usize) -> Vec<String> {
    let mut keep = vec![true; tree.len()];
    let mut over = if frame.whole {
        0
    } else {
        tree.len().saturating_sub(room)
    };
    let (mut settled, mut pending, mut busy) = (0, 0, 0);
    if over > 0 {
        over += 2;
    }
    let mut drop = |index: usize, count: &mut usize| {
        if over > 0 {
            keep[index] = false;
            over -= 1;
            *count += 1;
        }
    };
    for index in (0..tree.len()).filter(|index| tree[*index].weight == 1) {
        drop(index, &mut settled);
    }
    for index in (0..tree.len())
        .rev()
        .filter(|index| tree[*index].weight == 2)
    {
        drop(index, &mut pending);
    }
    for index in (0..tree.len())
        .rev()
        .filter(|index| tree[*index].weight == 0)
    {
        drop(index, &mut busy);
    }
    let mut lines = Vec::new();
    let dots = if frame.unicode { "…" } else { "..." };
    if settled > 0 {
        lines.push(frame.paint.dim(&format!("  {dots} {settled} settled")));
    }
    lines.extend(
        tree.iter()
            .zip(&keep)
            .filter(|(_, keep)| **keep)
            .map(|(row, _)| line(view, row, frame, width)),
    );
    let more: Vec<String> = [(busy, "under way"), (pending, "to come")]
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if !more.is_empty() {
        lines.push(frame.paint.dim(&format!("  {dots} {}", more.join(", "))));
    }
    lines
}

fn line(view: &RunView, row: &Row, frame: Frame, width: usize) -> String {
    let step = &view.steps[row.index];
    let indent = "  ".repeat(row.depth + 1);
    let glyph = glyph(step.state, frame);
    let facts = facts(view, row.index, frame);
    let facts_width = facts.as_str().width();
    let room = width.saturating_sub(indent.len() + 2 + facts_width + 2);
    let name = cut(&step.name, room);
    let rest = room.saturating_sub(name.width() + 2);
    let about = cut(&about(view, step, frame), rest);
    let pad = " ".repeat(room.saturating_sub(name.width() + 2 + about.as_str().width()));
    let tone = if step.state == State::Failed {
        Tone::Bad
    } else {
        Tone::Faint
    };
    format!(
        "{indent}{} {name}  {}{pad}  {}",
        frame.paint.tone(step.state.tone(), glyph),
        frame.paint.tone(tone, &about),
        frame.paint.dim(&facts)
    )
    .trim_end()
    .to_owned()
}

fn glyph(state: State, frame: Frame) -> &'static str {
    match (state, frame.unicode) {
        (State::Running, true) if !frame.whole => SPINNER[frame.beat % SPINNER.len()],
        (_, true) => state.glyph(),
        (_, false) => state.ascii(),
    }
}

/// What stands after the name: a bar, a note, live text, or the kind.
fn about(view: &RunView, step: &Step, frame: Frame) -> String {
    if step.kind == "for_each" && step.state != State::Pending {
        let done = step
            .children
            .iter()
            .filter(|child| view.steps[**child].state.is_settled())
            .count();
        let failed = step
            .children
            .iter()
            .filter(|child| view.steps[**child].state == State::Failed)
            .count();
        let all = step.items.unwrap_or(step.children.len());
        let failures = if failed > 0 {
            format!(", {failed} failed")
        } else {
            String::new()
        };
        let note = step
            .note
            .as_ref()
            .map(|note| format!("  {note}"))
            .unwrap_or_default();
        return format!("{} {done}/{all}{failures}{note}", bar(done, all, frame));
    }
    let mut words = vec![step.kind.to_owned()];
    if step.attempts > 1 {
        words.push(format!("attempt {}", step.attempts));
    }
    words.extend(step.note.clone());
    if let Some(text) = step.text.as_ref().filter(|text| !text.trim().is_empty()) {
        words.push(text.trim().to_owned());
    }
    crate::output::one_line(&words.join("  "))
}

fn bar(done: usize, all: usize, frame: Frame) -> String {
    let filled = (done * BAR_CELLS)
        .checked_div(all)
        .unwrap_or(BAR_CELLS)
        .min(BAR_CELLS);
    if frame.unicode {
        format!("{}{}", "█".repeat(filled), "░".repeat(BAR_CELLS - filled))
    } else {
        format!("[{}{}]", "#".repeat(filled), "-".repeat(BAR_CELLS - filled))
    }
}

/// Right of a row: tokens, cost, elapsed.
fn facts(view: &RunView, index: usize, frame: Frame) -> String {
    let (tokens, microusd) = view.usage(index);
    let mut facts = Vec::new();
    if tokens > 0 {
        facts.push(format!("{} tok", units::count(tokens)));
    }
    if microusd > 0 {
        facts.push(units::money(microusd));
    }
    facts.extend(view.elapsed(index, frame.now).map(units::duration));
    facts.join("  ")
}

fn questions(view: &RunView, frame: Frame, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for question in view.questions.iter().take(QUESTIONS_SHOWN_MAX) {
        let until = question
            .until
            .map(|until| format!(" (ends {})", units::relative(until, frame.now)));
        let text = format!(
            "? {}: {}{}",
            question.path,
            crate::output::one_line(&question.ask),
            until.unwrap_or_default()
        );
        lines.push(frame.paint.tone(Tone::Warn, &cut(&text, width)));
        for way in ways_to_answer(question) {
            lines.push(frame.paint.dim(&cut(&format!("  {way}"), width)));
        }
    }
    if view.questions.len() > QUESTIONS_SHOWN_MAX {
        let more = view.questions.len() - QUESTIONS_SHOWN_MAX;
        lines.push(frame.paint.dim(&cut(
            &format!("  and {more} more: ravel answer --list"),
            width,
        )));
    }
    lines
}
