//! Redrawing lines in place with a handful of ANSI sequences, without flicker: the whole frame is one write, inside a
//! synchronized update where the terminal knows it.

use std::io::{self, Write};

const BEGIN_SYNC: &str = "\u{1b}[?2026h";
const END_SYNC: &str = "\u{1b}[?2026l";
const HIDE_CURSOR: &str = "\u{1b}[?25l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";
const CLEAR_LINE_END: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// An area at the bottom of the terminal that is redrawn.
#[derive(Debug)]
pub(crate) struct Screen<W: Write> {
    to: W,
    last: Vec<String>,
    hidden: bool,
}

impl<W: Write> Screen<W> {
    /// An empty area.
    pub(crate) const fn new(to: W) -> Self {
        Self {
            to,
            last: Vec::new(),
            hidden: false,
        }
    }

    /// Shows these lines instead of the last ones. No line may be wider than the terminal.
    pub(crate) fn draw(&mut self, lines: Vec<String>) -> io::Result<()> {
        if lines == self.last {
            return Ok(());
        }
        let mut text = String::from(BEGIN_SYNC);
        if !self.hidden {
            text.push_str(HIDE_CURSOR);
            self.hidden = true;
        }
        self.go_up(&mut text);
        for (index, line) in lines.iter().enumerate() {
            if self.last.get(index) == Some(line) {
                text.push('\n');
            } else {
                text.push_str(line);
                text.push_str(CLEAR_LINE_END);
                text.push('\n');
            }
        }
        text.push_str(CLEAR_BELOW);
        text.push_str(END_SYNC);
        self.last = lines;
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }

    /// Takes the area away and gives the cursor back, for a prompt or the end.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        let mut text = String::new();
        self.go_up(&mut text);
        if !self.last.is_empty() {
            text.push_str(CLEAR_BELOW);
        }
        self.show_cursor(&mut text);
        self.last.clear();
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }

    /// Leaves the lines where they are and gives the cursor back.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        let mut text = String::new();
        self.show_cursor(&mut text);
        self.last.clear();
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }

    fn go_up(&self, text: &mut String) {
        if !self.last.is_empty() {
            text.push_str(&format!("\u{1b}[{}F", self.last.len()));
        }
    }

    fn show_cursor(&mut self, text: &mut String) {
        if self.hidden {
            text.push_str(SHOW_CURSOR);
            self.hidden = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn only_changed_lines_are_written_again() {
        let mut written = Vec::new();
        let mut screen = Screen::new(&mut written);
        screen.draw(lines(&["a", "b"])).unwrap();
        screen.draw(lines(&["a", "c"])).unwrap();
        screen.draw(lines(&["a", "c"])).unwrap();
        screen.leave().unwrap();
        let text = String::from_utf8(written).unwrap();
        assert_eq!(
            text,
            "\u{1b}[?2026h\u{1b}[?25la\u{1b}[K\nb\u{1b}[K\n\u{1b}[J\u{1b}[?2026l\
             \u{1b}[?2026h\u{1b}[2F\nc\u{1b}[K\n\u{1b}[J\u{1b}[?2026l\u{1b}[?25h"
        );
    }

    #[test]
    fn clearing_takes_the_area_away() {
        let mut written = Vec::new();
        let mut screen = Screen::new(&mut written);
        screen.draw(lines(&["a"])).unwrap();
        screen.clear().unwrap();
        screen.clear().unwrap();
        assert!(
            String::from_utf8(written)
                .unwrap()
                .ends_with("\u{1b}[1F\u{1b}[J\u{1b}[?25h")
        );
    }
}
