//! What a command prints. stdout is data, stderr is talk; meaning is never carried by colour alone.

mod excerpt;
mod paint;
mod table;
pub(crate) mod units;

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

pub(crate) use excerpt::json_line;
pub(crate) use paint::{Paint, Tone};
pub(crate) use table::{Column, Table, cut, one_line};

use crate::error::{Error, Result};

/// Columns that are assumed when the size of the terminal is not known.
pub(crate) const WIDTH_DEFAULT: usize = 100;
/// Rows that are assumed when the size of the terminal is not known.
pub(crate) const HEIGHT_DEFAULT: usize = 24;

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On terminals that want it (`NO_COLOR`, `CLICOLOR_FORCE` and `TERM=dumb` are honoured).
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The two streams of the process and what is known about them.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Colours of stdout.
    pub(crate) paint: Paint,
    /// Colours of stderr.
    pub(crate) paint_talk: Paint,
    /// A person reads stdout.
    stdout_terminal: bool,
    /// A person reads stderr.
    pub(crate) stderr_terminal: bool,
    /// A person types into stdin.
    pub(crate) stdin_terminal: bool,
    /// Less talk.
    pub(crate) quiet: bool,
}

impl Output {
    /// Looks at the process's streams once.
    pub(crate) fn new(color: ColorChoice, quiet: bool) -> Self {
        let stdout_terminal = io::stdout().is_terminal();
        let stderr_terminal = io::stderr().is_terminal();
        Self {
            paint: Paint::new(wants_color(color, stdout_terminal)),
            paint_talk: Paint::new(wants_color(color, stderr_terminal)),
            stdout_terminal,
            stderr_terminal,
            stdin_terminal: io::stdin().is_terminal(),
            quiet,
        }
    }

    /// True when the locale has Unicode: glyphs and box lines, else ASCII.
    pub(crate) fn unicode(&self) -> bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        locale.is_none_or(|locale| locale != "C" && locale != "POSIX")
    }

    /// Columns of the terminal (`COLUMNS` first, for scripts and tests).
    pub(crate) fn width(&self) -> usize {
        from_environment("COLUMNS")
            .or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
            .filter(|width| *width > 0)
            .unwrap_or(WIDTH_DEFAULT)
    }

    /// Columns for data: those of the terminal that reads it. What goes into a file or a pipe is never cut, unless
    /// `COLUMNS` says so.
    pub(crate) fn data_width(&self) -> usize {
        if self.stdout_terminal || from_environment("COLUMNS").is_some() {
            self.width()
        } else {
            usize::MAX
        }
    }

    /// Rows of the terminal.
    pub(crate) fn height(&self) -> usize {
        from_environment("LINES")
            .or_else(|| terminal_size::terminal_size().map(|(_, height)| usize::from(height.0)))
            .filter(|height| *height > 0)
            .unwrap_or(HEIGHT_DEFAULT)
    }

    /// Writes data. A reader that went away (`| head`, a closed terminal) is not an error of ours.
    pub(crate) fn data(&self, text: &str) -> Result<()> {
        match io::stdout()
            .write_all(text.as_bytes())
            .and_then(|()| io::stdout().flush())
        {
            Err(error) if !self.is_gone(&error) => {
                Err(Error::trouble("cannot write to stdout").because(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// True when nobody reads stdout any more.
    fn is_gone(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::BrokenPipe || (self.stdout_terminal && is_hung_up(error))
    }

    /// Writes one line of data.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        self.data(&format!("{text}\n"))
    }

    /// Writes a document as JSON.
    pub(crate) fn json(&self, document: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| Error::trouble("cannot write the result as JSON").because(error))?;
        self.line(&text)
    }

    /// Writes one JSON document on one line: an element of a stream.
    pub(crate) fn json_line(&self, document: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(document)
            .map_err(|error| Error::trouble("cannot write the result as JSON").because(error))?;
        self.line(&text)
    }

    /// Writes one line of talk; nothing with `--quiet`. Talk that cannot be written is lost, never fatal.
    pub(crate) fn talk(&self, text: &str) {
        if !self.quiet {
            self.shout(text);
        }
    }

    /// Writes one line of talk even with `--quiet`: errors, and what a person has to do.
    pub(crate) fn shout(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints a failure with its causes and hints.
    pub(crate) fn error(&self, error: &Error) {
        let paint = self.paint_talk;
        if let Some(report) = error.rendered() {
            self.shout(report.trim_end());
        }
        self.shout(&format!("{} {error}", paint.tone(Tone::Bad, "error:")));
        for cause in error.causes() {
            self.shout(&format!("  {} {cause}", paint.dim("because:")));
        }
        for hint in error.hints() {
            self.shout(&format!("{} {hint}", paint.tone(Tone::Note, "hint:")));
        }
    }
}

/// True when a terminal was closed, by the error of a write to it.
pub(crate) fn is_hung_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

fn wants_color(choice: ColorChoice, terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            let forced = std::env::var_os("CLICOLOR_FORCE")
                .is_some_and(|value| value != "0" && !value.is_empty());
            !set("NO_COLOR") && (forced || (terminal && !dumb))
        }
    }
}

fn from_environment(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}
