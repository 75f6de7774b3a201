//! The three ways to show a run that goes on.

use std::io::Stderr;
use std::time::{Duration, Instant};

use ravel_core::event::{Event, Turn};
use ravel_core::port::Summary;
use serde_json::Value;

use crate::cli::reading;
use crate::cli::runs::took_in_words;
use crate::error::{Error, Result};
use crate::live::{Frame, Screen, rows, settled_line, ways_to_answer};
use crate::output::{Output, Tone, is_hung_up, units};
use crate::view::{Away, Folder};

/// Shortest time between two frames: a wide fan-out settles thousands of steps a second.
const FRAME_MIN: Duration = Duration::from_millis(50);

/// How a run is shown.
pub(super) enum Show {
    /// A tree that is redrawn on stderr.
    Live {
        screen: Screen<Stderr>,
        output: Output,
        beat: usize,
        /// When it was drawn last.
        drawn: Option<Instant>,
    },
    /// A line for each step that settles, on stderr.
    Plain { output: Output },
    /// A line for each event, on stdout.
    Json,
}

impl Show {
    pub(super) fn choose(output: &Output, as_json: bool, plain: bool) -> Self {
        if as_json {
            Self::Json
        } else if output.stderr_terminal && !plain && !output.quiet {
            Self::Live {
                screen: Screen::new(std::io::stderr()),
                output: output.clone(),
                beat: 0,
                drawn: None,
            }
        } else {
            Self::Plain {
                output: output.clone(),
            }
        }
    }

    pub(super) const fn is_json(&self) -> bool {
        matches!(self, Self::Json)
    }

    /// True when the state of the whole run is shown while it goes on.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self, Self::Live { .. })
    }

    pub(super) const fn is_for_people(&self) -> bool {
        !self.is_json()
    }

    /// One turn, and the steps that settled in it.
    pub(super) fn turn(
        &mut self,
        output: &Output,
        run: &str,
        turn: &Turn,
        folder: &Folder,
        settled: &[usize],
    ) -> Result<()> {
        match self {
            Self::Live { .. } => Ok(()),
            Self::Plain { output } => {
                plain(output, turn, folder, settled);
                Ok(())
            }
            Self::Json => {
                for event in &turn.events {
                    output.line(&reading::event_line(run, turn, event)?)?;
                }
                Ok(())
            }
        }
    }

    /// Draws the tree as it is now, unless it was drawn just before.
    pub(super) fn draw(&mut self, folder: &Folder) -> Result<()> {
        let Self::Live {
            screen,
            output,
            beat,
            drawn,
        } = self
        else {
            return Ok(());
        };
        if drawn.is_some_and(|drawn| drawn.elapsed() < FRAME_MIN) {
            return Ok(());
        }
        *drawn = Some(Instant::now());
        *beat += 1;
        let frame = frame(output, *beat, false);
        shown(screen.draw(rows(folder.view(), frame)))
    }

    /// Leaves the terminal to somebody else: the next draw begins below.
    pub(super) fn pause_drawing(&mut self) {
        if let Self::Live { screen, .. } = self {
            let _ = screen.clear();
        }
    }

    /// The last frame stays, whole.
    pub(super) fn finish(&mut self, folder: &Folder) -> Result<()> {
        let Self::Live { screen, output, .. } = self else {
            return Ok(());
        };
        let frame = frame(output, 0, true);
        shown(
            screen
                .draw(rows(folder.view(), frame))
                .and_then(|()| screen.leave()),
        )
    }

    /// The result of a run that is over: the output on stdout.
    pub(super) fn result(&self, output: &Output, summary: &Summary, away: &Away) -> Result<()> {
        if self.is_json() {
            return output.json_line(&super::result(summary));
        }
        if let Self::Plain { .. } = self {
            let (from, to) = (summary.created, summary.updated);
            let mut facts = vec![took_in_words(away, from, to)];
            if summary.usage.tokens() > 0 {
                facts.push(format!("{} tokens", units::count(summary.usage.tokens())));
            }
            if summary.usage.cost_microusd > 0 {
                facts.push(units::money(summary.usage.cost_microusd));
            }
            output.talk(&format!(
                "run {} {} ({})",
                summary.run,
                summary.state.name(),
                facts.join(", ")
            ));
        }
        if let Some(error) = &summary.error {
            let paint = output.paint_talk;
            output.shout(&format!(
                "{} in {} {}",
                paint.tone(Tone::Bad, "failed"),
                crate::view::origin(error),
                crate::view::short(error)
            ));
            output.shout(&format!(
                "{} ravel runs why {}",
                paint.tone(Tone::Note, "hint:"),
                summary.run
            ));
        }
        if !summary.uncompensated.is_empty() {
            output.shout(&format!(
                "effects that stand: {}",
                summary.uncompensated.join(", ")
            ));
        }
        match &summary.output {
            Some(value) => print_value(output, value.json()),
            None => Ok(()),
        }
    }
}

/// A value as data: text as it is, everything else as JSON.
pub(crate) fn print_value(output: &Output, value: &Value) -> Result<()> {
    match value {
        Value::String(text) => output.line(text),
        Value::Null => Ok(()),
        other => output.json(other),
    }
}

fn plain(output: &Output, turn: &Turn, folder: &Folder, settled: &[usize]) {
    let view = folder.view();
    let paint = output.paint_talk;
    for event in &turn.events {
        if let Event::RunStarted { run, .. } = event {
            output.talk(&format!("run {run} {}", view.flow));
        }
    }
    for index in settled
        .iter()
        .filter(|index| !view.steps[**index].path.is_empty())
    {
        output.talk(&settled_line(view, *index, paint, output.unicode()));
    }
    for event in &turn.events {
        if let Event::Asked { question, .. } = event
            && let Some(open) = view.questions.iter().find(|open| open.id == **question)
        {
            output.shout(&format!(
                "{} {}: {}",
                paint.tone(Tone::Warn, "?"),
                open.path,
                open.ask
            ));
            for way in ways_to_answer(open) {
                output.shout(&format!("  {way}"));
            }
        }
    }
}

fn frame(output: &Output, beat: usize, whole: bool) -> Frame {
    Frame {
        paint: output.paint_talk,
        unicode: output.unicode(),
        width: output.width(),
        height: output.height(),
        now: units::now(),
        beat,
        whole,
    }
}

/// A terminal that was closed is drawn on no more: the run goes on to its clean stop.
fn shown(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if !is_hung_up(&error) => {
            Err(Error::trouble("cannot draw on the terminal").because(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
