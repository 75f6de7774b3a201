//! The semantics, one fact a test, each under the checks of [`world`].

mod compensation;
mod effects;
mod forks;
mod graph;
mod ladder;
mod money;
mod random;
mod recursion;
mod scopes;
mod streams;
mod world;
