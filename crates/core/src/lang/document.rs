//! Documents beside flows that are written in the same YAML: cases of the conformance suite.

use serde_json::Value;

use super::bundle::report;
use super::diagnostic::{Diagnostic, Severity};
use super::source::Sources;
use super::tree::{self, TextLimits};

/// Reads a YAML or JSON document by the rules of flow files: no duplicate keys, tags, anchors or YAML 1.1 booleans.
///
/// # Errors
/// Every problem of the text, with its place.
pub fn document(path: &str, text: &str) -> Result<Value, Vec<Diagnostic>> {
    let mut sources = Sources::default();
    let file = sources.add(path, text);
    let (node, problems) = tree::parse(file, path, text, &TextLimits::default());
    let broken = problems
        .iter()
        .any(|problem| problem.code.severity() == Severity::Error);
    match node {
        Some(node) if !broken => Ok(node.to_json()),
        Some(_) | None => Err(report(problems, &sources)),
    }
}
