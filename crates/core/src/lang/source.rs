//! Where text comes from: source files, spans in them, and the line and column of a span.
//!
//! The core reads no files. Whoever has them hands in a [`Source`].

use std::sync::Arc;

/// Reads the files that a flow names: prompt files, sub-flows, `$ref` schemas.
///
/// Called once per file while a flow is loaded; a second read of the same path may return something else, which is why the loader
/// keeps what it read.
pub trait Source {
    /// The text of the file at `path`, which is relative to the place the root flow was named from.
    fn read(&self, path: &str) -> Result<String, ReadError>;
}

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// One sentence in lower case, without the path.
    pub message: String,
    /// Names close to the one asked for, for the hint.
    pub near: Vec<String>,
}

impl ReadError {
    /// An error with a message and no near names.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            near: Vec::new(),
        }
    }
}

/// A source without files: flows that name none.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl Source for NoFiles {
    fn read(&self, _path: &str) -> Result<String, ReadError> {
        Err(ReadError::new("there are no files here"))
    }
}

/// A source held in memory: a map of path to text.
impl Source for std::collections::BTreeMap<String, String> {
    fn read(&self, path: &str) -> Result<String, ReadError> {
        self.get(path).cloned().ok_or_else(|| ReadError {
            message: "no such file".to_owned(),
            near: self.keys().cloned().collect(),
        })
    }
}

/// The number of a file among the [`Sources`] of one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) u16);

/// A range of bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// A span of bytes in a file.
    pub(crate) fn new(file: FileId, start: usize, end: usize) -> Self {
        Self {
            file,
            start: start as u32,
            end: end.max(start) as u32,
        }
    }

    /// The range of bytes, to index the text with.
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One file that was read.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The path as the user or a flow named it.
    pub path: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
    /// Byte offsets of the starts of lines.
    lines: Vec<u32>,
    /// Characters before each block of [`BLOCK_BYTES`]; empty when every character is a byte. A file may be one long line.
    characters: Vec<u32>,
}

const BLOCK_BYTES: usize = 1024;

/// Characters that begin in some bytes.
fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

impl SourceFile {
    fn new(path: &str, text: &str) -> Self {
        let mut lines = vec![0];
        lines.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| at as u32 + 1),
        );
        let mut characters = Vec::new();
        if !text.is_ascii() {
            let mut before = 0;
            for block in text.as_bytes().chunks(BLOCK_BYTES) {
                characters.push(before as u32);
                before += count_characters(block);
            }
            characters.push(before as u32);
        }
        Self {
            path: path.into(),
            text: text.into(),
            lines,
            characters,
        }
    }

    /// Characters before a byte.
    fn characters_before(&self, byte: usize) -> usize {
        let Some(before) = self.characters.get(byte / BLOCK_BYTES) else {
            return byte;
        };
        let block = byte - byte % BLOCK_BYTES;
        *before as usize + count_characters(&self.text.as_bytes()[block..byte])
    }

    /// Line and column, both from 1, of a byte; columns count characters.
    pub(crate) fn position(&self, byte: usize) -> (usize, usize) {
        let line = self.line_index(byte);
        let end = byte.min(self.text.len());
        let column =
            self.characters_before(end) - self.characters_before(self.lines[line] as usize);
        (line + 1, column + 1)
    }

    /// The index, from 0, of the line that holds a byte.
    pub(crate) fn line_index(&self, byte: usize) -> usize {
        self.lines.partition_point(|start| *start as usize <= byte) - 1
    }

    /// The bytes of the lines `first..=last` (from 0), without the last line break.
    pub(crate) fn line_range(&self, first: usize, last: usize) -> std::ops::Range<usize> {
        let start = self
            .lines
            .get(first)
            .map_or(self.text.len(), |at| *at as usize);
        let end = self
            .lines
            .get(last + 1)
            .map_or(self.text.len(), |at| *at as usize - 1);
        start..end.max(start)
    }
}

/// All files of one load, in the order in which they were read; the root flow is the first.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
}

impl Sources {
    /// Adds a file. Ids are dense and stay valid.
    pub(crate) fn add(&mut self, path: &str, text: &str) -> FileId {
        let id = FileId(self.files.len() as u16);
        self.files.push(SourceFile::new(path, text));
        id
    }

    /// How many files were read.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// The file of an id.
    pub(crate) fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// The text under a span.
    pub(crate) fn slice(&self, span: Span) -> &str {
        self.file(span.file).text.get(span.range()).unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_start_at_one() {
        let file = SourceFile::new("a", "äb\ncd\n");
        assert_eq!(file.position(0), (1, 1));
        assert_eq!(file.position(2), (1, 2));
        assert_eq!(file.position(4), (2, 1));
        assert_eq!(file.position(7), (3, 1));
        assert_eq!(file.line_range(0, 1), 0..6);
    }
}
