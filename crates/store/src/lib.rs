//!
//! Both implement the port of [`ravel_core::port_store`]. A *handle* ([`Memory`], [`Sqlite`]) stands for one process:
//! while it lives, the tokens that claimed or created runs through it are alive, and nobody else gets those runs.
//! When it is dropped, or the process dies in any way, they are free at once.
//!
//! Invariant: what a commit acknowledged is read back whole and in order, or the read says [`Error::Damaged`].
//! Deliberately absent: caching of folded runs, retries, threads.
//!
//! [`Error::Damaged`]: ravel_core::port_store::Error::Damaged

mod chain;
pub mod conformance;
mod memory;
mod rules;
mod sqlite;
mod text;

pub use memory::Memory;
pub use sqlite::{Check, Cut, LiveOwner, Options, Repair, Sqlite};
