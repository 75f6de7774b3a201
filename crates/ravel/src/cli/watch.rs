//! Watching a run: the live tree, plain lines or JSON lines; questions at the terminal; Ctrl-C; the result.

mod asker;
mod show;

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use clap::Args;
use ravel_core::event::{Turn, Wait};
use ravel_core::graph::Graph;
use ravel_core::port::{RunState, Summary};
use ravel_core::port_store::{Log as _, Message, Reply};
use ravel_core::run::Run;
use ravel_core::value::Val;
use ravel_engine::{Ending, EngineError, Feed, FeedItem, StopReason};
use serde_json::{Value, json};

use self::asker::Asker;
use self::show::Show;
pub(crate) use self::show::print_value;
use super::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{Output, Tone, units};
use crate::view::Folder;
use crate::wire::{self, Session, StopSignals, engine_error, store_error};

/// Between two looks at signals, typed lines and the clock.
const BEAT: Duration = Duration::from_millis(100);

/// How a run is watched.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct WatchOptions {
    /// Lines instead of a live tree
    #[arg(long)]
    plain: bool,
    /// Does not ask questions here: they wait for `ravel answer`
    #[arg(long)]
    no_ask: bool,
    /// Stops (exit code 4) when nothing but people, signals or clocks can go on. The pause before another try is
    /// work that goes on: it is waited out here
    #[arg(long)]
    park: bool,
}

/// A run that is watched.
pub(crate) struct Watch<'a> {
    output: Output,
    session: &'a Session,
    run: Arc<str>,
    feed: Feed,
    folder: Folder,
    /// Last turn that was shown.
    seen: u64,
    /// The last turn after which the run's summary was looked at.
    looked_at: u64,
    /// The last turn after which the whole run was looked at, and was not left.
    works_at: Option<u64>,
    show: Show,
    asker: Option<Asker>,
    stops: StopSignals,
    stops_heard: usize,
    park: bool,
}

/// True when nothing but people, signals and clocks can go on, as the run itself says. A pause before another try is
/// work that goes on.
fn waits_for_others(summary: &Summary) -> bool {
    let is_elsewhere = |wait: &Val| {
        let text = |field| wait.get_path(&[field]).and_then(Value::as_str);
        match text("on") {
            Some("person" | "signal" | "items") => true,
            Some("time") => text("why") != Some("retry"),
            _ => false,
        }
    };
    !summary.state.is_final() && !summary.waits.is_empty() && summary.waits.iter().all(is_elsewhere)
}

/// The same of all waits: a summary lists the first ones alone.
fn all_wait_for_others(run: &Run) -> bool {
    let is_elsewhere = |wait: &Wait| match wait {
        Wait::Person { .. } | Wait::Signal { .. } | Wait::Items { .. } => true,
        Wait::Time { why, .. } => *why != "retry",
        Wait::Attempt { .. } | Wait::Permit { .. } | Wait::Budget { .. } => false,
    };
    !run.is_final() && run.waits_on().iter().all(is_elsewhere)
}

impl<'a> Watch<'a> {
    /// Begins to watch: from here on nothing of the run is missed.
    pub(crate) fn new(
        context: &Context,
        session: &'a Session,
        run: &Arc<str>,
        graph: Arc<Graph>,
        options: WatchOptions,
        as_json: bool,
    ) -> Result<Self> {
        let output = context.output.clone();
        let show = Show::choose(&output, as_json, options.plain);
        let asks = show.is_for_people()
            && output.stdin_terminal
            && output.stderr_terminal
            && !options.no_ask;
        Ok(Self {
            asker: asks.then(Asker::new).transpose()?,
            show,
            output,
            session,
            run: run.clone(),
            feed: session.engine.subscribe(Some(run)),
            folder: Folder::new(run, graph),
            seen: 0,
            looked_at: 0,
            works_at: None,
            stops: StopSignals::new()?,
            stops_heard: 0,
            park: options.park,
        })
    }

    /// Takes in what the log holds already, without showing each step of it.
    pub(crate) fn catch_up(&mut self, turns: &[Turn]) -> Result<()> {
        for turn in turns {
            self.folder.turn(turn);
            self.seen = turn.turn;
        }
        self.show.draw(&self.folder)
    }

    /// Watches until the run ends, is paused or is lost.
    pub(crate) fn watch(&mut self) -> Result<Exit> {
        let ending = loop {
            match self.feed.next_within(BEAT) {
                Ok(item) => {
                    if let Some(ending) = self.item(item)? {
                        break ending;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.beat()?,
                Err(RecvTimeoutError::Disconnected) => {
                    break Ending::Left(EngineError::Stopped {
                        why: StopReason::Shutdown,
                    });
                }
            }
        };
        self.show.finish(&self.folder)?;
        self.conclude(ending)
    }

    fn item(&mut self, item: FeedItem) -> Result<Option<Ending>> {
        match item {
            FeedItem::Turns { turns, .. } => {
                for turn in turns.iter() {
                    self.turn(turn)?;
                }
            }
            FeedItem::Text { path, text, .. } => self.folder.text(&path, &text),
            FeedItem::Lagged { .. } => {
                // The log has what the feed dropped.
                for turn in self
                    .session
                    .shelf
                    .store
                    .load(&self.run)
                    .map_err(store_error)?
                {
                    self.turn(&turn)?;
                }
            }
            FeedItem::Ended { ending, .. } => return Ok(Some(ending)),
        }
        self.after_change()?;
        Ok(None)
    }

    fn turn(&mut self, turn: &Turn) -> Result<()> {
        if turn.turn <= self.seen {
            return Ok(());
        }
        self.seen = turn.turn;
        let settled = self.folder.turn(turn);
        self.show
            .turn(&self.output, &self.run, turn, &self.folder, &settled)
    }

    fn beat(&mut self) -> Result<()> {
        let shows_it = self.show.is_live() && self.looked_at != self.seen;
        if self.park || shows_it {
            let summary = wire::find_run(&self.session.shelf, &self.run)?;
            let waits = waits_for_others(&summary);
            self.folder.waits_for_others(waits);
            self.looked_at = self.seen;
            if self.park && waits && self.works_at != Some(self.seen) {
                if all_wait_for_others(&wire::folded(&self.session.shelf, &self.run)?) {
                    self.park = false;
                    self.session.engine.shut_down(false);
                }
                self.works_at = Some(self.seen);
            }
        }
        self.after_change()
    }

    fn after_change(&mut self) -> Result<()> {
        self.hear_stops();
        self.ask()?;
        if self.asker.as_ref().is_none_or(|asker| !asker.is_busy()) {
            self.show.draw(&self.folder)?;
        }
        Ok(())
    }

    /// Ctrl-C once: a clean stop. Twice: now.
    fn hear_stops(&mut self) {
        let count = self.stops.count();
        if count == self.stops_heard {
            return;
        }
        let first = self.stops_heard == 0;
        self.stops_heard = count;
        self.show.pause_drawing();
        if first && count == 1 {
            self.output
                .shout("stopping after what is under way; Ctrl-C again stops now");
            self.session.engine.shut_down(false);
        } else {
            self.output.shout("stopping now");
            self.session.engine.shut_down(true);
        }
    }

    fn ask(&mut self) -> Result<()> {
        let Some(asker) = &mut self.asker else {
            return Ok(());
        };
        let questions = &self.folder.view().questions;
        if asker.has_something(questions) {
            self.show.pause_drawing();
        }
        let Some((question, value)) = asker.step(questions, self.output.paint_talk) else {
            return Ok(());
        };
        let by = super::messages::sender();
        let message = Message::Answer {
            question: question.as_str().into(),
            value: Val::new(value),
            by,
        };
        match self
            .session
            .engine
            .post(&self.run, message)
            .map_err(engine_error)?
        {
            Reply::Accepted { .. } => {}
            Reply::Rejected { message, .. } => {
                self.output.shout(&format!("  that was refused: {message}"));
                if let Some(asker) = &mut self.asker {
                    asker.again();
                }
            }
        }
        Ok(())
    }

    fn conclude(&mut self, ending: Ending) -> Result<Exit> {
        match ending {
            Ending::Final(summary) => {
                let away = &self.folder.view().away;
                self.show.result(&self.output, &summary, away)?;
                Ok(exit_of(&summary))
            }
            Ending::Left(
                EngineError::Paused { .. }
                | EngineError::Stopped {
                    why: StopReason::Shutdown,
                },
            ) => self.paused("paused"),
            Ending::Left(EngineError::Fenced { .. }) => {
                self.output.shout("another process took the run over");
                self.paused("fenced")
            }
            Ending::Left(error) => {
                if self.show.is_json() {
                    self.output
                        .json_line(&self.unfinished("paused", Some(&error.to_string())))?;
                }
                Err(engine_error(error)
                    .hint(format!("resume with: ravel runs resume {}", self.run)))
            }
        }
    }

    fn paused(&self, state: &str) -> Result<Exit> {
        if self.show.is_json() {
            self.output.json_line(&self.unfinished(state, None))?;
        }
        let paint = self.output.paint_talk;
        let command = paint.bold(&format!("ravel runs resume {}", self.run));
        self.output.shout(&format!(
            "{} resume with: {command}",
            paint.tone(Tone::Warn, "paused:")
        ));
        Ok(Exit::Paused)
    }

    fn unfinished(&self, state: &str, error: Option<&str>) -> Value {
        let (tokens, microusd) = if self.folder.view().steps.is_empty() {
            (0, 0)
        } else {
            self.folder.view().usage(0)
        };
        json!({
            "id": self.run,
            "state": state,
            "output": null,
            "error": error,
            "cost": units::dollars(microusd),
            "tokens": tokens,
        })
    }
}

/// The last line of `run --json`, and the element of other documents.
pub(crate) fn result(summary: &Summary) -> Value {
    json!({
        "id": summary.run,
        "state": summary.state.name(),
        "output": summary.output,
        "error": summary.error,
        "cost": units::dollars(summary.usage.cost_microusd),
        "tokens": summary.usage.tokens(),
    })
}

/// What the process ends with after a run ended.
pub(crate) fn exit_of(summary: &Summary) -> Exit {
    match summary.state {
        RunState::Succeeded => Exit::Succeeded,
        RunState::Cancelled => Exit::Cancelled,
        RunState::Failed => Exit::Failed,
        RunState::Running | RunState::Waiting | RunState::Cancelling | RunState::Compensating => {
            Exit::Paused
        }
    }
}
