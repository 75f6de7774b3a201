//! The hash chain over a run's turns: BLAKE3 of the previous hash and the turn's stored bytes.

/// A link of the chain.
pub(crate) type Link = [u8; 32];

/// What comes before the first turn.
pub(crate) const START: Link = [0; 32];

/// Computes links; keeps its buffer from one turn to the next.
#[derive(Debug, Default)]
pub(crate) struct Linker {
    buffer: Vec<u8>,
}

impl Linker {
    /// The link after a turn. `line` is the stored text without its newline.
    pub(crate) fn next(&mut self, previous: &Link, line: &[u8]) -> Link {
        self.buffer.clear();
        self.buffer.extend_from_slice(previous);
        self.buffer.extend_from_slice(line);
        *blake3::hash(&self.buffer).as_bytes()
    }
}

/// A link as people see it.
pub(crate) fn hex(link: &Link) -> String {
    blake3::Hash::from_bytes(*link).to_hex().to_string()
}
