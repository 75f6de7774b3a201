//! Colours, on or off. Everything that is painted also says its meaning in words or with a glyph.

use anstyle::{AnsiColor, Style};

/// Paints text, or leaves it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

/// What a text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Done, fine.
    Good,
    /// Failed, broken.
    Bad,
    /// Needs somebody, or may be wrong.
    Warn,
    /// Under way.
    Busy,
    /// A remark, a hint.
    Note,
    /// Of little weight: skipped, pending, units.
    Faint,
}

impl Paint {
    /// With colours or without.
    pub(crate) const fn new(on: bool) -> Self {
        Self { on }
    }

    /// True when colours are used.
    pub(crate) const fn is_on(self) -> bool {
        self.on
    }

    /// Text in the colour of its meaning.
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        self.style(
            match tone {
                Tone::Good => color(AnsiColor::Green),
                Tone::Bad => color(AnsiColor::Red).bold(),
                Tone::Warn => color(AnsiColor::Yellow),
                Tone::Busy => color(AnsiColor::Cyan),
                Tone::Note => color(AnsiColor::Blue),
                Tone::Faint => Style::new().dimmed(),
            },
            text,
        )
    }

    /// Bold text.
    pub(crate) fn bold(self, text: &str) -> String {
        self.style(Style::new().bold(), text)
    }

    /// Text of little weight.
    pub(crate) fn dim(self, text: &str) -> String {
        self.style(Style::new().dimmed(), text)
    }

    fn style(self, style: Style, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("{}{text}{}", style.render(), style.render_reset())
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_leaves_text_alone() {
        assert_eq!(Paint::new(false).tone(Tone::Bad, "x"), "x");
    }

    #[test]
    fn on_wraps_text_and_resets() {
        assert_eq!(Paint::new(true).dim("x"), "\u{1b}[2mx\u{1b}[0m");
    }
}
