//! The language: text to a checked [`crate::graph::Graph`].
//!
//! ```text
//! files --tree--> nodes with positions --lower--> steps, edges, sites --check--> graph, or diagnostics
//! ```
//!
//! [`Bundle`] is the door: it holds a flow with everything that it names, and [`Bundle::compile`] is the only maker of graphs. Nothing
//! here reads a file, a clock or the environment; files come through [`Source`], tools and models through [`Catalog`].

mod bundle;
mod catalog;
mod check;
pub mod codes;
mod diagnostic;
pub mod formats;
mod keys;
mod lower;
mod secrets;
mod source;
mod tree;

pub use bundle::{BUNDLE_FILES_MAX, Bundle};
pub use catalog::{Catalog, ToolInfo};
pub use check::Checked;
pub(crate) use diagnostic::names;
pub use diagnostic::{Diagnostic, Excerpt, Severity};
pub use source::{FileId, NoFiles, ReadError, Source, SourceFile, Sources, Span};
pub use tree::{FILE_BYTES_MAX, TREE_DEPTH_MAX, TREE_NODES_MAX, TextLimits, parse_scalar};
