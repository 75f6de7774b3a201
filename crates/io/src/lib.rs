//! The executors of Ravel: models, tools, processes, secrets.
//!
//! [`LocalExecutor`] carries out the attempts that an engine hands it through the `Executor` port of `ravel-core`.
//! What is deliberately absent: retries, timeouts and limits over attempts are the engine's.

pub mod abort;
pub mod child;
pub mod executor;
pub mod files;
mod jail;
pub mod live;
pub mod model;
pub mod run;
pub mod sandbox;
pub mod secret;
pub mod tool;
mod trouble;

pub use executor::{Config, LocalExecutor};
