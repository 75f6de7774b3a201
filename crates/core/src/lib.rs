//! The language, the graph, the checks and the run state machine of Ravel; pure.

pub mod effect;
pub mod event;
pub mod expr;
pub mod graph;
pub mod lang;
pub mod mutant;
pub mod port;
pub mod port_store;
pub mod run;
pub mod types;
pub mod value;
