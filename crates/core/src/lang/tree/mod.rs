//! Text to a tree with exact positions: YAML 1.2 and JSON, held to the subset that cannot surprise.
//!
//! Refused with the quoted form as the hint: duplicate keys, tags, anchors and aliases, the YAML 1.1 booleans, numbers with leading
//! zeros, several documents in one file. What depends on the place (text cut by ` #`) is noted on the node and judged by the reader of
//! that place. JSON is read by its own parser, since YAML refuses some of it (tabs, surrogate pairs).

mod json;
mod locate;
mod node;
mod yaml;

pub(crate) use locate::{Locator, locate};
pub(crate) use node::{Entry, Map, Node, Value};
pub(crate) use yaml::cut_text;

use super::codes;
use super::diagnostic::Problem;
use super::source::{FileId, Span};

/// What to do about a file beyond a limit.
const SPLIT: &str = "split it into sub-flows under `flows:`";

/// Bounds on a file of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// Bytes of one file.
    pub file_bytes_max: usize,
    /// Nesting of maps and lists.
    pub depth_max: usize,
    /// Maps, lists and scalars in one file.
    pub nodes_max: usize,
}

/// Bytes of one file, unless said otherwise.
pub const FILE_BYTES_MAX: usize = 32 << 20;
/// Nesting of maps and lists in a file, unless said otherwise.
pub const TREE_DEPTH_MAX: usize = 96;
/// Maps, lists and scalars in one file, unless said otherwise.
pub const TREE_NODES_MAX: usize = 4_000_000;

impl Default for TextLimits {
    fn default() -> Self {
        Self {
            file_bytes_max: FILE_BYTES_MAX,
            depth_max: TREE_DEPTH_MAX,
            nodes_max: TREE_NODES_MAX,
        }
    }
}

/// Parses a file. The tree is `None` when nothing could be made of the text; problems may come with a usable tree.
pub(crate) fn parse(
    file: FileId,
    path: &str,
    text: &str,
    limits: &TextLimits,
) -> (Option<Node>, Vec<Problem>) {
    if text.len() > limits.file_bytes_max {
        let problem = Problem::new(
            codes::TOO_LARGE,
            Span::new(file, 0, 0),
            format!(
                "the file has {} bytes, more than the limit of {}",
                text.len(),
                limits.file_bytes_max
            ),
        )
        .hint(SPLIT);
        return (None, vec![problem]);
    }
    let named_json = path.ends_with(".json");
    let looks_json = text
        .trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n'])
        .starts_with('{');
    if !named_json && !looks_json {
        return yaml::parse(file, text, limits);
    }
    match json::parse(file, text, limits) {
        (Some(node), problems) => (Some(node), problems),
        (None, problems) if named_json => (None, problems),
        (None, _) => yaml::parse(file, text, limits),
    }
}

/// Parses a scalar that stands alone, such as `field=value` on a command line, by the rules of plain scalars.
pub fn parse_scalar(text: &str) -> serde_json::Value {
    match node::plain(text) {
        node::Plain::Null => serde_json::Value::Null,
        node::Plain::Bool(value) => serde_json::Value::Bool(value),
        node::Plain::Number(number) => serde_json::Value::Number(number),
        node::Plain::Text
        | node::Plain::OldBool
        | node::Plain::LeadingZero
        | node::Plain::NotFinite => serde_json::Value::String(text.to_owned()),
    }
}
