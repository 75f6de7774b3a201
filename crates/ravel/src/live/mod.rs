//! What a person sees while a run goes on: a tree that is redrawn in place on a terminal, else one line for each step
//! that settles. Both write to stderr.

mod plain;
mod screen;
mod tree;

pub(crate) use plain::settled_line;
pub(crate) use screen::Screen;
pub(crate) use tree::{Frame, how_to_answer, rows};

#[cfg(test)]
mod tests;
