//! Plain tables: columns of text, the flexible ones cut to the width of the terminal.

use unicode_width::UnicodeWidthStr;

use super::{Paint, Tone};

/// Columns between two cells.
const GAP: usize = 2;
/// A flexible column is never cut below this.
const FLEXIBLE_MIN: usize = 8;
/// A text with more characters a column than this (marks without a width) is cut although it would fit.
const CHARACTERS_OF_COLUMN_MAX: usize = 8;

/// Where a cell's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    title: &'static str,
    align: Align,
    flexible: bool,
}

impl Column {
    /// A column of text.
    pub(crate) const fn left(title: &'static str) -> Self {
        Self {
            title,
            align: Align::Left,
            flexible: false,
        }
    }

    /// A column of numbers.
    pub(crate) const fn right(title: &'static str) -> Self {
        Self {
            title,
            align: Align::Right,
            flexible: false,
        }
    }

    /// A column that is cut when the table is too wide.
    pub(crate) const fn flexible(title: &'static str) -> Self {
        Self {
            title,
            align: Align::Left,
            flexible: true,
        }
    }
}

#[derive(Clone, Debug)]
struct Cell {
    text: String,
    tone: Option<Tone>,
}

/// A table under construction.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns and no rows.
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; each cell is a text with an optional meaning.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (String, Option<Tone>)>) {
        let row: Vec<Cell> = cells
            .into_iter()
            .map(|(text, tone)| Cell {
                text: one_line(&text),
                tone,
            })
            .collect();
        assert_eq!(
            row.len(),
            self.columns.len(),
            "a row has a cell for each column"
        );
        self.rows.push(row);
    }

    /// The table as lines, the header first, not wider than `width` where the flexible columns allow it.
    pub(crate) fn render(&self, paint: Paint, width: usize) -> String {
        let widths = self.widths(width);
        let mut text = String::new();
        let header: Vec<Cell> = self
            .columns
            .iter()
            .map(|column| Cell {
                text: column.title.to_owned(),
                tone: Some(Tone::Faint),
            })
            .collect();
        for row in std::iter::once(&header).chain(&self.rows) {
            text.push_str(&self.line(row, &widths, paint));
            text.push('\n');
        }
        text
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|column| column.title.width())
            .collect();
        for row in &self.rows {
            for (most, cell) in widths.iter_mut().zip(row) {
                *most = (*most).max(cell.text.width());
            }
        }
        let mut total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        while total > width {
            let widest = (0..widths.len())
                .filter(|index| self.columns[*index].flexible && widths[*index] > FLEXIBLE_MIN)
                .max_by_key(|index| widths[*index]);
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
            total -= 1;
        }
        widths
    }

    fn line(&self, row: &[Cell], widths: &[usize], paint: Paint) -> String {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            let text = cut(&cell.text, widths[index]);
            let pad = " ".repeat(widths[index] - text.width());
            let painted = cell
                .tone
                .map_or_else(|| text.clone(), |tone| paint.tone(tone, &text));
            let last = index + 1 == row.len();
            match self.columns[index].align {
                Align::Left if last => line.push_str(&painted),
                Align::Left => line.push_str(&(painted + &pad)),
                Align::Right => line.push_str(&(pad + &painted)),
            }
            if !last {
                line.push_str(&" ".repeat(GAP));
            }
        }
        line.trim_end().to_owned()
    }
}

/// Text with its line breaks and control characters made visible, for places that hold one line.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => line.push('⏎'),
            '\t' => line.push(' '),
            other if other.is_control() => line.push('�'),
            other => line.push(other),
        }
    }
    line
}

/// True when a text has so many columns at the most.
fn fits(text: &str, width: usize) -> bool {
    let begin = text
        .char_indices()
        .nth(width.saturating_mul(CHARACTERS_OF_COLUMN_MAX));
    begin.is_none() && text.width() <= width
}

/// Text cut to `width` columns; `…` at its end says that there was more.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let mut kept = String::new();
    let (mut used, mut whole) = (0, true);
    for character in text.chars() {
        let wide = unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        if used + wide + 1 > width {
            // What is behind it is looked at no further than it takes to know that it does not fit.
            whole = fits(text, width);
            break;
        }
        used += wide;
        kept.push(character);
    }
    if whole {
        return text.to_owned();
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            Column::left("id"),
            Column::flexible("flow"),
            Column::right("cost"),
        ]);
        table.row([
            ("a".into(), None),
            ("triage of many long tickets".into(), None),
            ("$0.10".into(), None),
        ]);
        table.row([("bb".into(), None), ("x".into(), None), ("-".into(), None)]);
        table
    }

    #[test]
    fn columns_line_up() {
        let text = table().render(Paint::new(false), 80);
        assert_eq!(
            text,
            "id  flow                          cost\n\
             a   triage of many long tickets  $0.10\n\
             bb  x                                -\n"
        );
    }

    #[test]
    fn the_flexible_column_is_cut() {
        let text = table().render(Paint::new(false), 24);
        assert_eq!(
            text,
            "id  flow            cost\na   triage of ma…  $0.10\nbb  x                  -\n"
        );
    }

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        assert_eq!(one_line("a\u{1b}[31mb\nc"), "a�[31mb⏎c");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 6), "日本語");
    }
}
