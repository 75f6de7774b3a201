//! What a person sees while a run goes on: a tree that is redrawn in place on a terminal, else one line for each step
//! that settles. Both write to stderr.

mod plain;
mod screen;
mod tree;
mod ways;

pub(crate) use plain::settled_line;
pub(crate) use screen::Screen;
pub(crate) use tree::{Frame, rows};
pub(crate) use ways::{sample_message, sample_output, ways_to_answer};

#[cfg(test)]
mod tests;
