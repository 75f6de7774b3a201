//! Asking open questions at the terminal while the run goes on: lines are read by a thread of their own.

use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::input::{Dialog, Taken};
use crate::live::ways_to_answer;
use crate::output::{Paint, Tone};
use crate::view::Question;

/// Typed lines that wait at most.
const LINES_MAX: usize = 64;

/// The dialog with the person at this terminal.
#[derive(Debug)]
pub(super) struct Asker {
    lines: Receiver<String>,
    /// The question that is asked now, with its dialog.
    open: Option<(Question, Dialog)>,
    /// Questions that were put aside with Ctrl-D, and the one that was just answered.
    aside: Vec<String>,
    /// stdin ended: nobody is there any more.
    gone: bool,
}

impl Asker {
    /// Begins to read lines.
    pub(super) fn new() -> Result<Self> {
        let (send, lines) = sync_channel(LINES_MAX);
        std::thread::Builder::new()
            .name("ravel-stdin".to_owned())
            .spawn(move || {
                let stdin = std::io::stdin();
                let mut line = String::new();
                while stdin
                    .lock()
                    .read_line(&mut line)
                    .is_ok_and(|bytes| bytes > 0)
                {
                    if send.send(std::mem::take(&mut line)).is_err() {
                        break;
                    }
                }
            })
            .map_err(|error| Error::trouble("cannot read the terminal").because(error))?;
        Ok(Self {
            lines,
            open: None,
            aside: Vec::new(),
            gone: false,
        })
    }

    /// True while a question stands at the terminal: nothing may be drawn over it.
    pub(super) const fn is_busy(&self) -> bool {
        self.open.is_some()
    }

    /// True when the next step will write to the terminal.
    pub(super) fn has_something(&self, questions: &[Question]) -> bool {
        !self.gone
            && self.open.is_none()
            && questions
                .iter()
                .any(|question| !self.aside.contains(&question.id))
    }

    /// The last answer was refused: its question is asked again.
    pub(super) fn again(&mut self) {
        self.aside.pop();
    }

    /// One step: opens a question, takes typed lines. Gives a finished answer.
    pub(super) fn step(&mut self, questions: &[Question], paint: Paint) -> Option<(String, Value)> {
        if let Some((question, _)) = &self.open
            && questions.iter().all(|open| open.id != question.id)
        {
            say(&format!(
                "\n  {}\n",
                paint.tone(Tone::Note, "answered elsewhere")
            ));
            self.open = None;
        }
        if self.has_something(questions) {
            let next = questions
                .iter()
                .find(|question| !self.aside.contains(&question.id))?
                .clone();
            let dialog = Dialog::new(&next.form);
            say(&format!(
                "{} {}: {}\n",
                paint.tone(Tone::Warn, "?"),
                next.path,
                paint.bold(&crate::output::one_line(&next.ask))
            ));
            for way in ways_to_answer(&next) {
                let elsewhere = format!("or from another terminal: {way}");
                say(&format!("  {}\n", paint.dim(&elsewhere)));
            }
            say(&dialog.prompt(paint));
            self.open = Some((next, dialog));
        }
        loop {
            match self.lines.try_recv() {
                Ok(line) => {
                    if let Some(answer) = self.line(&line, paint) {
                        return Some(answer);
                    }
                }
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    if let Some((question, _)) = self.open.take() {
                        say("\n");
                        self.aside.push(question.id);
                    }
                    self.gone = true;
                    return None;
                }
            }
        }
    }

    fn line(&mut self, line: &str, paint: Paint) -> Option<(String, Value)> {
        let (question, dialog) = self.open.as_mut()?;
        match dialog.take(line) {
            Taken::Again(why) => {
                say(&format!("  {why}\n"));
                say(&dialog.prompt(paint));
                None
            }
            Taken::Next => {
                say(&dialog.prompt(paint));
                None
            }
            Taken::Done(value) => {
                let id = question.id.clone();
                self.aside.push(id.clone());
                self.open = None;
                Some((id, value))
            }
        }
    }
}

fn say(text: &str) {
    let mut to = std::io::stderr();
    let _ = to.write_all(text.as_bytes());
    let _ = to.flush();
}
