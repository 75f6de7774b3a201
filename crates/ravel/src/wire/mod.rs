//! Wiring: the store, the executors and the engine that commands work with, made from the configuration.

mod files;
mod flows;
mod ids;
mod owner;
mod secrets;
mod session;
mod stop;
mod store;

pub(crate) use files::{Stored, files, stored};
pub(crate) use flows::{Loaded, folder_of, graph_of_bundle, load, near_files, with_places};
pub(crate) use ids::{find_question, find_run};
pub(crate) use owner::{Pulse, held, pulse, silence};
pub(crate) use secrets::sources as secret_sources;
pub(crate) use session::{
    GraphCache, Session, engine_limits, models, remove_work, run_limits, terms,
};
pub(crate) use stop::{StopSignals, survive_file_limits};
pub(crate) use store::{Shelf, damaged, folded, open, open_existing, replayed, shown_state};

use ravel_core::port_store;

use crate::error::Error;
use crate::exit::Exit;

/// A failure of the store in the words and exit codes of the command line.
pub(crate) fn store_error(error: port_store::Error) -> Error {
    use port_store::Error as Store;
    let exit = match &error {
        Store::Unknown { .. } => Exit::NotFound,
        Store::Damaged { .. } => Exit::Damaged,
        Store::Exists { .. } | Store::Held { .. } => Exit::Refused,
        Store::Fenced { .. }
        | Store::Gap { .. }
        | Store::Full { .. }
        | Store::Newer { .. }
        | Store::Io { .. } => Exit::Trouble,
    };
    let hint = match &error {
        Store::Held { .. } => {
            Some("it goes on in that process; answers, signals and cancels reach it from here")
        }
        Store::Full { .. } => Some("free some space; nothing that was acknowledged is lost"),
        Store::Damaged { .. } => Some(
            "`ravel doctor` checks the whole store; `ravel doctor --repair` keeps what is good of every run",
        ),
        Store::Newer { .. } => Some("use the ravel that wrote it, or a newer one"),
        Store::Unknown { .. }
        | Store::Exists { .. }
        | Store::Fenced { .. }
        | Store::Gap { .. }
        | Store::Io { .. } => None,
    };
    Error::new(exit, error.to_string()).maybe_hint(hint.map(str::to_owned))
}

/// A failure of the engine in the words and exit codes of the command line.
pub(crate) fn engine_error(error: ravel_engine::EngineError) -> Error {
    use ravel_engine::EngineError as Engine;
    use ravel_engine::StopReason;
    let exit = match &error {
        Engine::Rejected { code, .. } => refusal(code),
        Engine::Held { .. } => Exit::Refused,
        Engine::UnknownRun { .. } => Exit::NotFound,
        Engine::Fenced { .. }
        | Engine::Paused { .. }
        | Engine::Stopped {
            why: StopReason::Shutdown,
        } => Exit::Paused,
        Engine::Overloaded { .. } | Engine::Store { .. } | Engine::Stopped { .. } => Exit::Trouble,
        Engine::Broken { .. } => Exit::Damaged,
    };
    let hint = match &error {
        Engine::Held { .. } => {
            Some("it goes on in that process; answers, signals and cancels reach it from here")
        }
        Engine::Overloaded { .. } => {
            Some("`ravel limits` says what the limit is for and how to change it")
        }
        Engine::Stopped {
            why: StopReason::Full { .. },
        } => Some("free some space; nothing that was acknowledged is lost"),
        Engine::Rejected { .. }
        | Engine::UnknownRun { .. }
        | Engine::Fenced { .. }
        | Engine::Paused { .. }
        | Engine::Broken { .. }
        | Engine::Store { .. }
        | Engine::Stopped { .. } => None,
    };
    Error::new(exit, error.to_string()).maybe_hint(hint.map(str::to_owned))
}

/// The exit code of a refusal by the run, by its stable code.
pub(crate) fn refusal(code: &str) -> Exit {
    match code {
        "unknown_question" | "unknown_path" | "unknown_step" | "unknown_signal"
        | "unknown_turn" => Exit::NotFound,
        "invalid_answer" | "invalid_signal" | "invalid_input" => Exit::Usage,
        _ => Exit::Refused,
    }
}
