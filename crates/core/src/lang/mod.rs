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
mod document;
pub mod formats;
mod keys;
pub mod limits;
mod lower;
pub mod reference;
mod schema;
mod secrets;
mod source;
mod tree;

pub use bundle::Bundle;
pub use catalog::{
    ArgumentRule, Arguments, Catalog, CheckArguments, PricedModels, ToolInfo, WrongArgument,
};
pub use check::Checked;
pub(crate) use diagnostic::names;
pub use diagnostic::{Diagnostic, Excerpt, Severity, Unshown, count};
pub use document::document;
pub use schema::json_schema;
pub use source::{FileId, NoFiles, ReadError, Source, SourceFile, Sources, Span};
pub use tree::{TextLimits, parse_scalar};
