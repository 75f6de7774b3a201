//! Calls from outside: what a caller wants of the engine, and how it gets its answer.

use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::event::Input;
use ravel_core::port::Summary;
use ravel_core::port_store::{Filter, Message, Reply};
use ravel_core::run::Run;

use super::{Callback, Driver};
use crate::error::EngineError;
use crate::feed::Observer;
use crate::limiter::KeyUse;
use crate::message::{Answer, In, NewRun, Sender, Wish};
use crate::shard::Counters;

/// Told once how a run left the engine.
pub(crate) type EndCallback = Callback<Summary>;

/// Numbers about an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The shard's.
    pub counters: Counters,
    /// Permits in use, by key.
    pub permits: Vec<KeyUse>,
    /// How often a sender found the queue full and waited.
    pub blocked_sends: u64,
    /// Observers of the feed.
    pub observers: usize,
    /// Callers that wait for an answer.
    pub callers: usize,
}

/// What a caller wants.
pub(crate) enum Call {
    Start {
        new: Box<NewRun>,
        bundle: Arc<str>,
        then: Callback<Arc<str>>,
    },
    Fork {
        run: Arc<str>,
        turn: u64,
        id: Arc<str>,
        then: Callback<Arc<str>>,
    },
    Resume {
        run: Arc<str>,
        then: Callback<Arc<str>>,
    },
    Post {
        run: Arc<str>,
        message: Message,
        then: Callback<Reply>,
    },
    Pause {
        run: Arc<str>,
        then: Callback<()>,
    },
    Wait {
        run: Arc<str>,
        then: EndCallback,
    },
    Observe {
        run: Option<Arc<str>>,
        observer: Box<dyn Observer>,
    },
    Status {
        then: Callback<Status>,
    },
    Shutdown {
        now: bool,
    },
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Start { .. } => "Start",
            Self::Fork { .. } => "Fork",
            Self::Resume { .. } => "Resume",
            Self::Post { .. } => "Post",
            Self::Pause { .. } => "Pause",
            Self::Wait { .. } => "Wait",
            Self::Observe { .. } => "Observe",
            Self::Status { .. } => "Status",
            Self::Shutdown { .. } => "Shutdown",
        })
    }
}

impl Call {
    /// Answers a call that will not be served.
    pub(crate) fn refuse(self, why: EngineError) {
        match self {
            Self::Start { then, .. } | Self::Fork { then, .. } | Self::Resume { then, .. } => {
                then(Err(why))
            }
            Self::Post { then, .. } => then(Err(why)),
            Self::Pause { then, .. } => then(Err(why)),
            Self::Wait { then, .. } => then(Err(why)),
            Self::Status { then } => then(Err(why)),
            Self::Observe { .. } | Self::Shutdown { .. } => {}
        }
    }
}

/// An answer that is to name a run.
fn named(then: Callback<Arc<str>>) -> Callback<Answer> {
    Box::new(move |answer| {
        then(answer.map(|answer| match answer {
            Answer::Run(run) => run,
            Answer::Reply(_) | Answer::Paused => "".into(),
        }))
    })
}

fn replied(then: Callback<Reply>) -> Callback<Answer> {
    Box::new(move |answer| {
        then(answer.map(|answer| match answer {
            Answer::Reply(reply) => reply,
            Answer::Run(_) | Answer::Paused => Reply::Accepted { turn: 0 },
        }));
    })
}

impl Driver {
    pub(super) fn call(&mut self, now: Millis, call: Call) {
        match call {
            Call::Start { new, bundle, then } => self.start(now, new, &bundle, then),
            Call::Fork {
                run,
                turn,
                id,
                then,
            } => self.fork(now, &run, turn, id, then),
            Call::Resume { run, then } => {
                let ticket = Some(self.ticket(named(then)));
                self.step(now, In::Resume { ticket, run });
            }
            Call::Post { run, message, then } => self.post(now, run, message, then),
            Call::Pause { run, then } => {
                let ticket = self.ticket(Box::new(move |answer| then(answer.map(|_| ()))));
                self.step(now, In::Pause { ticket, run });
            }
            Call::Wait { run, then } => self.wait(run, then),
            Call::Observe { run, observer } => self.hub.add(run, observer),
            Call::Status { then } => then(Ok(self.status())),
            Call::Shutdown { now: at_once } => self.step(now, In::Shutdown { now: at_once }),
        }
    }

    /// Numbers about the engine.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            counters: self.shard.counters(),
            permits: self.shard.permits(),
            blocked_sends: self.port.blocked(),
            observers: self.hub.len(),
            callers: self.callers.len() + self.waiters.values().map(Vec::len).sum::<usize>(),
        }
    }

    fn start(&mut self, now: Millis, new: Box<NewRun>, bundle: &str, then: Callback<Arc<str>>) {
        if let Some(start_key) = &new.start_key {
            match self.config.store.by_start_key(start_key) {
                Ok(Some(run)) => return then(Ok(run)),
                Ok(None) => {}
                Err(error) => return then(Err(store_error(&error))),
            }
        }
        let hash = Arc::clone(&new.graph.hash);
        if !self.bundles.contains(&hash) {
            if let Err(error) = self.config.store.put_bundle(&hash, bundle) {
                return then(Err(store_error(&error)));
            }
            self.bundles.insert(Arc::clone(&hash));
        }
        self.keep_graph(Arc::clone(&new.graph));
        let ticket = self.ticket(named(then));
        self.step(now, In::Start { ticket, new });
    }

    fn fork(
        &mut self,
        now: Millis,
        run: &Arc<str>,
        turn: u64,
        id: Arc<str>,
        then: Callback<Arc<str>>,
    ) {
        let prefix = match self.prefix(run, turn) {
            Ok(prefix) => prefix,
            Err(why) => return then(Err(why)),
        };
        let ticket = self.ticket(named(then));
        self.step(
            now,
            In::Fork {
                ticket,
                run: id,
                prefix: Box::new(prefix),
            },
        );
    }

    fn prefix(&mut self, run: &Arc<str>, turn: u64) -> Result<Run, EngineError> {
        let store = Arc::clone(&self.config.store);
        let turns = store
            .load_to(run, turn)
            .map_err(|error| open_error(run, &error))?;
        let last = turns.last().map_or(0, |turn| turn.turn);
        if turn == 0 || turn > last {
            let message = format!("run {run} has turns 1 to {last}, not {turn}");
            return Err(EngineError::Rejected {
                code: "unknown_turn".to_owned(),
                message,
            });
        }
        self.fold(run, &turns)
    }

    /// A message for a run: to the shard when the run is here, else through the store to whoever owns it.
    fn post(&mut self, now: Millis, run: Arc<str>, message: Message, then: Callback<Reply>) {
        if self.shard.has(&run) {
            let wish = self.wish(message);
            let ticket = self.ticket(replied(then));
            self.step(
                now,
                In::Posted {
                    from: Sender::Caller(ticket),
                    run,
                    at: now,
                    wish,
                },
            );
            return;
        }
        match self.config.store.post(&run, now, &message) {
            Ok(row) => {
                self.foreign.insert(row, then);
            }
            Err(ravel_core::port_store::Error::Unknown { .. }) => {
                then(Err(EngineError::UnknownRun { run }))
            }
            Err(error) => then(Err(store_error(&error))),
        }
    }

    /// What a message wants, with the graph of an edit found.
    pub(super) fn wish(&mut self, message: Message) -> Wish {
        let input = match message {
            Message::Answer {
                question,
                value,
                by,
            } => Input::Answer {
                question,
                value,
                by,
            },
            Message::Signal { name, value, id } => Input::Signal { name, value, id },
            Message::Cancel { path, by, reason } => Input::Cancel { path, by, reason },
            Message::Edit { base, graph, note } => match self.graph(&graph) {
                Ok(graph) => Input::Edit { base, graph, note },
                Err(message) => {
                    return Wish::Refused {
                        code: "unknown_graph".to_owned(),
                        message,
                    };
                }
            },
            Message::Pause => return Wish::Pause,
        };
        Wish::Input(Box::new(input))
    }

    fn wait(&mut self, run: Arc<str>, then: EndCallback) {
        if !self.shard.has(&run) {
            match self.stored(&run) {
                Ok(summary) if summary.state.is_final() => return then(Ok(summary)),
                Ok(_) => {}
                Err(why) => return then(Err(why)),
            }
        }
        self.waiters.entry(run).or_default().push(then);
    }

    /// What the store lists about a run.
    pub(super) fn stored(&self, run: &Arc<str>) -> Result<Summary, EngineError> {
        // No limit: an id may begin other ids.
        let filter = Filter {
            id_prefix: Some(run.to_string()),
            ..Filter::default()
        };
        let found = self
            .config
            .store
            .runs(&filter)
            .map_err(|error| store_error(&error))?;
        let exact = found.into_iter().find(|summary| summary.run == *run);
        exact.ok_or_else(|| EngineError::UnknownRun {
            run: Arc::clone(run),
        })
    }
}

pub(super) fn store_error(error: &ravel_core::port_store::Error) -> EngineError {
    EngineError::Store {
        message: error.to_string(),
    }
}

/// Why a run could not be read.
pub(super) fn open_error(run: &Arc<str>, error: &ravel_core::port_store::Error) -> EngineError {
    use ravel_core::port_store::Error;
    match error {
        Error::Unknown { .. } => EngineError::UnknownRun {
            run: Arc::clone(run),
        },
        Error::Held { by, .. } => EngineError::Held {
            run: Arc::clone(run),
            by: by.clone(),
        },
        Error::Damaged { .. } | Error::Newer { .. } => EngineError::Broken {
            run: Arc::clone(run),
            message: error.to_string(),
        },
        Error::Exists { .. }
        | Error::Fenced { .. }
        | Error::Gap { .. }
        | Error::Full { .. }
        | Error::Io { .. } => store_error(error),
    }
}
