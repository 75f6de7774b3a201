//! The language, the graph, the checks and the run state machine of Ravel; pure.

pub mod expr;
pub mod value;
