//! A decoder of server-sent events: bytes in, the data of each event out. No I/O.
//!
//! ```text
//! Line  --byte--> Line          (buffered: a line is decoded whole, so a split UTF-8 sequence never shows)
//! Line  --CR, LF or CRLF--> Line   field `data`: appended to the event; comments and other fields: ignored
//! Line  --empty line--> Line       the event, if it has data, is handed out
//! Line  --finish--> (end)          what is buffered is handed out: some servers omit the last empty line
//! ```
//!
//! Names of events, ids and `retry` are deliberately absent: model endpoints put everything into `data`.

/// A line or event is longer than the limit that the decoder was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Turns bytes into the data of events.
#[derive(Debug)]
pub(crate) struct Decoder {
    bytes_max: usize,
    line: Vec<u8>,
    data: Option<String>,
    /// The last byte was a CR: an LF right after it belongs to the same line end.
    after_cr: bool,
    /// Nothing was decoded yet: a byte order mark may come.
    first: bool,
}

impl Decoder {
    /// A decoder that refuses lines and events of more than `bytes_max` bytes.
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            data: None,
            after_cr: false,
            first: true,
        }
    }

    /// Takes the next bytes; gives the data of the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(&mut events)?,
                other if self.line.len() < self.bytes_max => self.line.push(other),
                _ => return Err(TooLong),
            }
        }
        Ok(events)
    }

    /// The stream ended: gives what is still buffered.
    pub(crate) fn finish(mut self) -> Result<Option<String>, TooLong> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut events)?;
        }
        Ok(self.data.take())
    }

    fn end_line(&mut self, events: &mut Vec<String>) -> Result<(), TooLong> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = bytes.as_slice();
        if std::mem::take(&mut self.first) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            events.extend(self.data.take());
            return Ok(());
        }
        let Some(rest) = line.strip_prefix(b"data") else {
            return Ok(());
        };
        let value = match rest {
            [] => rest,
            [b':', b' ', value @ ..] | [b':', value @ ..] => value,
            // Another field whose name begins with `data`.
            _ => return Ok(()),
        };
        let text = String::from_utf8_lossy(value);
        match &mut self.data {
            Some(data) if data.len() + text.len() >= self.bytes_max => return Err(TooLong),
            Some(data) => {
                data.push('\n');
                data.push_str(&text);
            }
            None => self.data = Some(text.into_owned()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 64;

    /// Decodes in pieces of `size` bytes.
    fn decode(bytes: &[u8], size: usize) -> Vec<String> {
        let mut decoder = Decoder::new(BYTES_MAX);
        let mut events = Vec::new();
        for piece in bytes.chunks(size) {
            events.extend(decoder.push(piece).unwrap());
        }
        events.extend(decoder.finish().unwrap());
        events
    }

    #[test]
    fn every_line_end_and_every_split_gives_the_same_events() {
        let text = "\u{feff}: hello\ndata: {\"a\":\"grün\"}\nid: 7\n\nevent: x\ndata:one\ndata: two\n\ndata\n\ndatax: no\n\ndata: [DONE]";
        let expected = vec![
            "{\"a\":\"grün\"}".to_owned(),
            "one\ntwo".to_owned(),
            String::new(),
            "[DONE]".to_owned(),
        ];
        for end in ["\n", "\r", "\r\n"] {
            let bytes = text.replace('\n', end).into_bytes();
            for size in 1..=bytes.len() {
                assert_eq!(
                    decode(&bytes, size),
                    expected,
                    "line end {end:?}, pieces of {size}"
                );
            }
        }
    }

    #[test]
    fn only_the_first_space_after_the_colon_is_dropped() {
        assert_eq!(
            decode(b"data:  two spaces\n\n", 4),
            vec![" two spaces".to_owned()]
        );
    }

    #[test]
    fn a_line_or_an_event_above_the_limit_is_refused() {
        let mut decoder = Decoder::new(BYTES_MAX);
        assert_eq!(decoder.push(&[b'x'; BYTES_MAX + 1]), Err(TooLong));
        let mut decoder = Decoder::new(BYTES_MAX);
        let line = format!("data: {}\n", "y".repeat(BYTES_MAX / 2));
        assert_eq!(decoder.push(line.as_bytes()), Ok(Vec::new()));
        assert_eq!(decoder.push(line.as_bytes()), Err(TooLong));
    }
}
