//! The run state machine: one run, as a plain struct.
//!
//! [`Run::handle`] takes one input and gives the turn that it caused, with commands for the engine; [`Run::replay`]
//! folds a log to the same state; [`Run::outstanding`] says what must be under way; [`Run::waits_on`] says what the
//! run waits for. There is no clock, randomness, thread, file or socket in here: `now` is a parameter and everything
//! else arrives as an input.
//!
//! Invariants: a settled activation never changes again; replaying the log gives the live state; a live run waits for
//! something that ends by itself, by a person, or by an executor with a timeout; between turns the agenda is empty.

mod activation;
mod apply;
mod decide;
mod edit;
mod env;
mod request;
mod state;
mod terms;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use terms::{Price, RunLimits, SharedTerms, Terms};
pub use view::NodeView;

use self::decide::{Permit, Turning};
use self::state::State;
use crate::effect::{Millis, Usage};
use crate::event::{Attempt, Command, Event, Input, Node, Reject, SEMANTICS, Turn};
use crate::graph::Graph;
use crate::types::Violation;

/// One execution of a flow.
#[derive(Debug)]
pub struct Run {
    state: State,
    permits: BTreeMap<Node, Permit>,
    /// The wake-up that the engine was last told.
    told_wake: Option<Millis>,
    /// No new attempt starts: the run is about to leave its owner.
    held: bool,
}

/// What handling an input gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Handled {
    /// What to record; `None` when the input changed nothing (a late completion, an early tick).
    pub turn: Option<Turn>,
    /// What to do.
    pub commands: Vec<Command>,
}

/// Why a log cannot be folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// The log is empty or does not begin with a start.
    NoStart,
    /// Written under semantics that this program does not know.
    Newer {
        /// The version found.
        found: u32,
    },
    /// Turns are not contiguous.
    Gap {
        /// The turn that was expected.
        expected: u64,
        /// The turn that came.
        got: u64,
    },
    /// A graph that the log refers to is missing or does not compile.
    Graph {
        /// Its hash.
        hash: Arc<str>,
        /// Why.
        message: String,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStart => write!(f, "the log does not begin with the start of a run"),
            Self::Newer { found } => {
                write!(
                    f,
                    "the log was written under semantics {found}, this program knows up to {SEMANTICS}"
                )
            }
            Self::Gap { expected, got } => {
                write!(f, "the log has turn {got} where turn {expected} must be")
            }
            Self::Graph { hash, message } => write!(f, "graph {hash} cannot be loaded: {message}"),
        }
    }
}

impl std::error::Error for ReplayError {}

impl Run {
    /// A run that has not started: its first input is [`Input::Start`].
    #[must_use]
    pub fn new(id: Arc<str>, graph: Arc<Graph>, terms: impl Into<SharedTerms>) -> Self {
        Self {
            state: State::new(id, graph, terms.into()),
            permits: BTreeMap::new(),
            told_wake: None,
            held: false,
        }
    }

    /// Folds a log. `graphs` gives the compiled graph of a hash.
    ///
    /// # Errors
    /// When the log is not one that this program can fold.
    ///
    /// # Panics
    /// When an event contradicts the state: a damaged log that the store's hash chain did not catch.
    pub fn replay(
        turns: &[Turn],
        graphs: &mut dyn FnMut(&str) -> Result<Arc<Graph>, String>,
    ) -> Result<Self, ReplayError> {
        let first = turns.first().and_then(|turn| turn.events.first());
        let Some(Event::RunStarted {
            semantics,
            run,
            graph,
            ..
        }) = first
        else {
            return Err(ReplayError::NoStart);
        };
        if *semantics > SEMANTICS {
            return Err(ReplayError::Newer { found: *semantics });
        }
        let mut load = |hash: &Arc<str>| {
            graphs(hash).map_err(|message| ReplayError::Graph {
                hash: hash.clone(),
                message,
            })
        };
        let mut replayed = Self::new(run.clone(), load(graph)?, SharedTerms::default());
        for turn in turns {
            let expected = replayed.state.turn + 1;
            if turn.turn != expected {
                return Err(ReplayError::Gap {
                    expected,
                    got: turn.turn,
                });
            }
            replayed.begin(turn.at);
            for event in &turn.events {
                if let Event::GraphEdited { graph, .. } = event {
                    let graph = load(graph)?;
                    replayed.state.apply(event);
                    replayed.state.adopt(graph);
                } else {
                    replayed.state.apply(event);
                }
            }
            replayed.state.turn = turn.turn;
            // What there was to decide is decided: the decisions follow in the log.
            replayed.state.agenda.clear();
        }
        Ok(replayed)
    }

    /// Takes one input: decides, records, and says what to do.
    ///
    /// # Errors
    /// [`Reject`] when the input is refused; nothing changed then.
    pub fn handle(&mut self, now: Millis, input: Input) -> Result<Handled, Reject> {
        self.turn(now, |turning| turning.run(input))
    }

    /// Makes this run, folded from a prefix of another's log, a run of its own. Its first own turn records that, and
    /// that attempts which were open at the cut are lost.
    ///
    /// # Errors
    /// [`Reject`] when the prefix is over already: there is nothing to go on with.
    pub fn fork(&mut self, now: Millis, run: Arc<str>) -> Result<Handled, Reject> {
        if self.is_final() {
            let message = "the run was over at that turn; fork at an earlier one".to_owned();
            return Err(Reject {
                code: "already_settled",
                message,
            });
        }
        let (from, turn) = (self.state.id.clone(), self.state.turn);
        self.turn(now, |turning| {
            turning.fork(run, from, turn);
            Ok(())
        })
    }

    fn begin(&mut self, at: Millis) {
        self.state.before = self.state.now;
        self.state.now = at;
    }

    fn turn(
        &mut self,
        now: Millis,
        decide: impl FnOnce(&mut Turning<'_>) -> Result<(), Reject>,
    ) -> Result<Handled, Reject> {
        let (last, before) = (self.state.now, self.state.before);
        self.begin(now.max(last));
        let mut turning = Turning {
            state: &mut self.state,
            permits: &mut self.permits,
            held: self.held,
            events: Vec::new(),
            commands: Vec::new(),
        };
        let decided = decide(&mut turning);
        let Turning {
            events,
            mut commands,
            ..
        } = turning;
        if events.is_empty() {
            // Nothing happened: not even time passed.
            (self.state.now, self.state.before) = (last, before);
        }
        decided?;
        assert!(
            self.state.agenda.is_empty(),
            "a turn ends when there is nothing left to decide"
        );
        let wake = self.wake_at();
        if wake != self.told_wake {
            self.told_wake = wake;
            commands.push(Command::WakeAt(wake));
        }
        if events.is_empty() {
            return Ok(Handled {
                turn: None,
                commands,
            });
        }
        self.state.turn += 1;
        let turn = Turn {
            turn: self.state.turn,
            at: self.state.now,
            events,
        };
        Ok(Handled {
            turn: Some(turn),
            commands,
        })
    }

    /// Starts no new attempts from here on (or does again): leaves that are ready stay so, which the log shows, and
    /// the next owner starts them. For a run that is about to leave its owner.
    pub fn set_hold(&mut self, held: bool) {
        self.held = held;
    }

    /// What must be under way now: starts of all attempts without an end, wishes for permits, the wake-up.
    #[must_use]
    pub fn outstanding(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        for node in &self.state.flights {
            let Some(flight) = self
                .state
                .node(*node)
                .extra
                .as_ref()
                .and_then(|extra| extra.flight.clone())
            else {
                continue;
            };
            let attempt = Attempt {
                node: *node,
                number: flight.number,
            };
            if let Ok(rendered) = request::render(&self.state, *node, attempt) {
                let job = request::job(&self.state, *node, self.state.path(*node), rendered);
                commands.push(Command::Start(Box::new(job)));
            }
            if let Some((why, _)) = flight.stopping {
                commands.push(Command::Abort { attempt, why });
            }
        }
        for node in self.state.queued.clone() {
            let number = self
                .state
                .node(node)
                .extra
                .as_ref()
                .map_or(0, |extra| extra.attempts)
                + 1;
            let attempt = Attempt { node, number };
            let Ok(rendered) = request::render(&self.state, node, attempt) else {
                continue;
            };
            if !rendered.permits.is_empty() {
                self.permits.insert(node, Permit::Wished);
                let priority = self.state.graph.step(self.state.node(node).step).priority;
                commands.push(Command::Acquire {
                    attempt,
                    permits: rendered.permits,
                    priority,
                });
            }
        }
        self.told_wake = self.wake_at();
        commands.push(Command::WakeAt(self.told_wake));
        commands
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> &Arc<str> {
        &self.state.id
    }

    /// The graph it runs now.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.state.graph
    }

    /// The version of its graph: 1, and one more for each edit.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.state.version
    }

    /// Number of its last turn; 0 before the start.
    #[must_use]
    pub fn last_turn(&self) -> u64 {
        self.state.turn
    }

    /// Time of its last turn.
    #[must_use]
    pub fn last_at(&self) -> Millis {
        self.state.now
    }

    /// True when the run is over.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !self.state.nodes.is_empty() && self.state.settled(0).is_some()
    }

    /// What it used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.state.usage
    }

    /// When it has to be woken.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        self.state.next_timer()
    }
}

/// One sentence about what is wrong with a value.
fn value_problems(what: &str, problems: &[Violation]) -> String {
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    format!("{what} does not fit its type: {}", texts.join("; "))
}

/// A value's kind, in the words of the language.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A span for people.
fn span(ms: Millis) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{} s", ms as f64 / 1_000.0),
        _ => format!("{} min", (ms as f64 / 6_000.0).round() / 10.0),
    }
}

impl Run {
    /// The whole state as text: two runs are in the same state when their portraits are equal. For checks; not stable
    /// between versions.
    #[must_use]
    pub fn portrait(&self) -> String {
        let State {
            id,
            version,
            turn,
            nodes,
            timers,
            questions,
            waiting,
            inbox,
            armed,
            flights,
            queued,
            streams,
            kept_back,
            usage,
            ..
        } = &self.state;
        // Room for what an activation may need says nothing of what it is.
        let room = format!("extra: Some({:?})", state::Extra::default());
        let nodes = format!("{nodes:?}").replace(&room, "extra: None");
        let mut waiting = waiting.clone();
        waiting.retain(|_, queue| !queue.is_empty());
        let mut inbox = inbox.clone();
        inbox.retain(|_, queue| !queue.is_empty());
        format!(
            "{:?}",
            (
                id,
                version,
                turn,
                nodes,
                timers,
                (questions, waiting, inbox, armed),
                (flights, queued, streams, kept_back, usage)
            )
        )
    }
}
