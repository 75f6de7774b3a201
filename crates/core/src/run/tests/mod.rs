//! The semantics, one fact a test, each under the checks of [`world`].

mod effects;
mod graph;
mod scopes;
mod world;
