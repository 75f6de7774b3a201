//! Boxes and lines in character cells. Lines of one source share a track, so that a line can be followed.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Canvas;
use super::layout::{Layout, Metrics, Placed, lay_out};
use super::model::{Diagram, How, Item};
use crate::output::Tone;

/// Larger pictures are of no use in a terminal.
const CELLS_MAX: usize = 4_000_000;

const METRICS_UNICODE: Metrics = Metrics {
    node_gap: 2,
    layer_gap: 2,
    track: 1,
    padding: 2,
    title: 2,
    measure: |item| measure(item, true),
};
const METRICS_ASCII: Metrics = Metrics {
    measure: |item| measure(item, false),
    ..METRICS_UNICODE
};

fn measure(item: &Item, unicode: bool) -> (i32, i32) {
    let widths = item.lines(unicode).map(|line| line.width());
    // A frame has both lines in its upper edge.
    let widest = if item.parts.is_empty() {
        widths.into_iter().max().unwrap_or(0)
    } else {
        widths.iter().sum::<usize>() + 4
    };
    (i32::try_from(widest).unwrap_or(i32::MAX / 1024) + 4, 4)
}

/// Directions of a line cell.
const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    text: Option<char>,
    lines: u8,
    dashed: bool,
    tone: Option<Tone>,
    /// The right half of a wide character.
    covered: bool,
}

/// The lines above a picture.
pub(super) fn heading(diagram: &Diagram, canvas: Canvas) -> Vec<String> {
    let mut lines = vec![canvas.paint.bold(&diagram.title)];
    lines.extend(
        diagram
            .subtitle
            .as_ref()
            .map(|subtitle| canvas.paint.dim(subtitle)),
    );
    lines
}

/// The picture, or `None` when it is wider than the canvas.
pub(super) fn draw(diagram: &Diagram, canvas: Canvas) -> Option<String> {
    let metrics = if canvas.unicode {
        METRICS_UNICODE
    } else {
        METRICS_ASCII
    };
    let layout = lay_out(&diagram.body, &metrics);
    let (width, height) = (
        usize::try_from(layout.width).ok()?,
        usize::try_from(layout.height).ok()?,
    );
    if width > canvas.width || width.saturating_mul(height) > CELLS_MAX {
        return None;
    }
    let mut grid = Grid {
        width,
        cells: vec![Cell::default(); width * height],
        unicode: canvas.unicode,
    };
    grid.layout(&layout);
    let mut lines = heading(diagram, canvas);
    lines.extend(
        grid.cells
            .chunks(width.max(1))
            .map(|row| grid.row(row, canvas)),
    );
    Some(lines.join("\n") + "\n")
}

struct Grid {
    width: usize,
    cells: Vec<Cell>,
    unicode: bool,
}

impl Grid {
    fn layout(&mut self, layout: &Layout<'_>) {
        for route in &layout.routes {
            let tone = if route.edge.critical {
                Tone::Bad
            } else {
                Tone::Faint
            };
            let dashed = route.edge.how != How::Value;
            for pair in route.points.windows(2) {
                self.line(pair[0], pair[1], tone, dashed);
            }
        }
        for placed in &layout.boxes {
            self.frame(placed);
        }
        for route in &layout.routes {
            if let Some((x, y)) = route.points.last() {
                let tone = if route.edge.critical {
                    Tone::Bad
                } else {
                    Tone::Faint
                };
                self.put(*x, *y - 1, if self.unicode { '▼' } else { 'v' }, Some(tone));
            }
        }
    }

    fn at(&mut self, x: i32, y: i32) -> Option<&mut Cell> {
        let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()?);
        if x < self.width {
            self.cells.get_mut(y * self.width + x)
        } else {
            None
        }
    }

    fn put(&mut self, x: i32, y: i32, text: char, tone: Option<Tone>) {
        if let Some(cell) = self.at(x, y) {
            *cell = Cell {
                text: Some(text),
                tone,
                ..Cell::default()
            };
        }
    }

    fn write(&mut self, x: i32, y: i32, text: &str, tone: Option<Tone>) {
        let mut x = x;
        for character in text.chars() {
            let wide = character.width().unwrap_or(0);
            if wide == 0 {
                continue;
            }
            self.put(x, y, character, tone);
            if wide == 2
                && let Some(cell) = self.at(x + 1, y)
            {
                *cell = Cell {
                    covered: true,
                    ..Cell::default()
                };
            }
            x += i32::try_from(wide).unwrap_or(1);
        }
    }

    /// A line through cells; the last cell of a downward line is the one above its end.
    fn line(&mut self, from: (i32, i32), to: (i32, i32), tone: Tone, dashed: bool) {
        if from.0 == to.0 {
            for y in from.1..to.1 {
                let begins = y == from.1 && self.turns(from);
                self.join(
                    from.0,
                    y,
                    if begins { DOWN } else { UP | DOWN },
                    tone,
                    dashed,
                );
            }
            self.join(to.0, to.1, UP, tone, dashed);
        } else {
            let (left, right) = (from.0.min(to.0), from.0.max(to.0));
            self.join(left, from.1, RIGHT, tone, dashed);
            self.join(right, from.1, LEFT, tone, dashed);
            for x in left + 1..right {
                self.join(x, from.1, LEFT | RIGHT, tone, dashed);
            }
        }
    }

    /// True when a horizontal line already starts or ends in this cell.
    fn turns(&mut self, point: (i32, i32)) -> bool {
        self.at(point.0, point.1)
            .is_some_and(|cell| cell.lines & (LEFT | RIGHT) != 0)
    }

    fn join(&mut self, x: i32, y: i32, lines: u8, tone: Tone, dashed: bool) {
        if let Some(cell) = self.at(x, y) {
            cell.dashed = dashed && (cell.lines == 0 || cell.dashed);
            cell.lines |= lines;
            if cell.tone != Some(Tone::Bad) {
                cell.tone = Some(tone);
            }
        }
    }

    fn frame(&mut self, placed: &Placed<'_>) {
        let item = placed.item;
        let tone = match (item.state, item.critical) {
            (_, true) => Some(Tone::Bad),
            (Some(state), false) => Some(state.tone()),
            (None, false) => None,
        };
        let (right, bottom) = (placed.x + placed.width - 1, placed.y + placed.height - 1);
        let glyphs: [char; 6] = match (self.unicode, placed.frame, item.critical) {
            (false, _, _) => ['+', '+', '+', '+', '-', '|'],
            (true, _, true) => ['┏', '┓', '┗', '┛', '━', '┃'],
            (true, true, false) => ['╭', '╮', '╰', '╯', '╌', '╎'],
            (true, false, false) => ['┌', '┐', '└', '┘', '─', '│'],
        };
        for x in placed.x + 1..right {
            self.put(x, placed.y, glyphs[4], tone);
            self.put(x, bottom, glyphs[4], tone);
        }
        for y in placed.y + 1..bottom {
            self.put(placed.x, y, glyphs[5], tone);
            self.put(right, y, glyphs[5], tone);
        }
        self.put(placed.x, placed.y, glyphs[0], tone);
        self.put(right, placed.y, glyphs[1], tone);
        self.put(placed.x, bottom, glyphs[2], tone);
        self.put(right, bottom, glyphs[3], tone);
        let [name, about] = item.lines(self.unicode);
        let state = item.state.map(crate::view::State::tone);
        match (placed.frame, placed.part) {
            (true, Some(part)) => self.write(
                placed.x + 2,
                placed.y,
                &format!(" {part} "),
                Some(Tone::Faint),
            ),
            (true, None) => {
                let room = usize::try_from(placed.width - 4).unwrap_or(0);
                let title = crate::output::cut(&format!(" {name}  {about} "), room);
                self.write(placed.x + 2, placed.y, &title, state);
            }
            (false, _) => {
                self.write(placed.x + 2, placed.y + 1, &name, state);
                self.write(placed.x + 2, placed.y + 2, &about, Some(Tone::Faint));
            }
        }
    }

    fn row(&self, row: &[Cell], canvas: Canvas) -> String {
        let mut line = String::new();
        let mut run = String::new();
        let mut tone = None;
        for cell in row.iter().filter(|cell| !cell.covered) {
            let character = cell.text.unwrap_or_else(|| self.glyph(cell));
            if cell.tone != tone && character != ' ' {
                flush(&mut line, &mut run, tone, canvas);
                tone = cell.tone;
            }
            run.push(character);
        }
        let kept = run.trim_end().len();
        run.truncate(kept);
        flush(&mut line, &mut run, tone, canvas);
        line.trim_end().to_owned()
    }

    fn glyph(&self, cell: &Cell) -> char {
        const UNICODE: [char; 16] = [
            ' ', '│', '│', '│', '─', '┘', '┐', '┤', '─', '└', '┌', '├', '─', '┴', '┬', '┼',
        ];
        const ASCII: [char; 16] = [
            ' ', '|', '|', '|', '-', '+', '+', '+', '-', '+', '+', '+', '-', '+', '+', '+',
        ];
        let index = usize::from(cell.lines & 15);
        match (self.unicode, cell.dashed, index) {
            (true, true, 1..=3) => '╎',
            (true, true, 4 | 8 | 12) => '╌',
            (true, _, _) => UNICODE[index],
            (false, true, 1..=3) => ':',
            (false, _, _) => ASCII[index],
        }
    }
}

fn flush(line: &mut String, run: &mut String, tone: Option<Tone>, canvas: Canvas) {
    match tone {
        Some(tone) => line.push_str(&canvas.paint.tone(tone, run)),
        None => line.push_str(run),
    }
    run.clear();
}
