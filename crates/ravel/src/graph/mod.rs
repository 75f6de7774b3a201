//! Pictures of flows and runs: for the terminal, as Mermaid, DOT, SVG and JSON.

mod dot;
mod layout;
mod mermaid;
pub(crate) mod model;
mod of_flow;
mod order;
mod outline;
mod svg;
mod terminal;
#[cfg(test)]
mod tests;

use model::Diagram;

use crate::output::Paint;

/// Nested scopes that are drawn open unless said otherwise.
pub(crate) const DEPTH_DEFAULT: usize = 8;

/// `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Boxes and lines; an outline when they do not fit.
    #[default]
    Terminal,
    /// One line a step with what it waits for.
    Outline,
    /// For Markdown that renders Mermaid.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// A picture that stands alone.
    Svg,
    /// The picture's data.
    Json,
}

/// How a picture for the terminal is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    pub(crate) paint: Paint,
    pub(crate) width: usize,
    pub(crate) unicode: bool,
}

/// Draws for a terminal: boxes when they fit, else an outline.
pub(crate) fn to_terminal(diagram: &Diagram, canvas: Canvas) -> String {
    terminal::draw(diagram, canvas).unwrap_or_else(|| outline::draw(diagram, canvas))
}

/// Draws an outline.
pub(crate) fn to_outline(diagram: &Diagram, canvas: Canvas) -> String {
    outline::draw(diagram, canvas)
}

pub(crate) use dot::draw as to_dot;
pub(crate) use mermaid::draw as to_mermaid;
pub(crate) use of_flow::{dress, of_flow};
pub(crate) use svg::draw as to_svg;
