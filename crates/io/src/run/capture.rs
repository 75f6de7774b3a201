//! What a process prints: decoded, scrubbed, shown live, and kept up to a limit.

use std::collections::VecDeque;

use ravel_core::value::Val;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::live::Live;
use crate::secret::{self, Secrets, Stream};

/// Read at a time, bytes.
const READ_BYTES: usize = 16 * 1024;
/// Share of the limit that is kept of the end, as a divisor.
const TAIL_SHARE: usize = 4;

/// Text kept up to a limit: its beginning and its end.
#[derive(Debug)]
pub(crate) struct Kept {
    head: String,
    tail: VecDeque<u8>,
    head_bytes_max: usize,
    tail_bytes_max: usize,
    left_out: u64,
    not_text_at: Option<u64>,
}

impl Kept {
    fn new(bytes_max: u64) -> Self {
        let most = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let tail_bytes_max = most / TAIL_SHARE;
        Self {
            head: String::new(),
            tail: VecDeque::new(),
            head_bytes_max: most - tail_bytes_max,
            tail_bytes_max,
            left_out: 0,
            not_text_at: None,
        }
    }

    fn push(&mut self, text: &str) {
        let mut rest = text;
        if self.tail.is_empty() && self.left_out == 0 {
            let room = floor(rest, self.head_bytes_max - self.head.len());
            self.head.push_str(&rest[..room]);
            rest = &rest[room..];
        }
        self.tail.extend(rest.bytes());
        let over = self.tail.len().saturating_sub(self.tail_bytes_max);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// True when nothing was left out.
    pub(crate) const fn is_whole(&self) -> bool {
        self.left_out == 0
    }

    /// Where the first byte stands that is no part of a text, when there is one.
    pub(crate) const fn not_text_at(&self) -> Option<u64> {
        self.not_text_at
    }

    /// The text; where something was left out it says how much.
    pub(crate) fn into_text(self, bytes_max: u64) -> String {
        let tail: Vec<u8> = self.tail.into();
        if self.left_out == 0 {
            return self.head + &String::from_utf8_lossy(&tail);
        }
        // The cut may have gone through a character.
        let broken = tail
            .iter()
            .take_while(|byte| is_continuation(**byte))
            .count();
        let out = self.left_out + broken as u64;
        let tail = String::from_utf8_lossy(&tail[broken..]);
        format!(
            "{}\n[... {out} bytes left out: limits.output is {bytes_max} ...]\n{tail}",
            self.head
        )
    }
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The largest boundary of a character that is not above `most`.
fn floor(text: &str, most: usize) -> usize {
    if most >= text.len() {
        return text.len();
    }
    (0..=most)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Bytes that arrive in pieces, as text.
#[derive(Debug, Default)]
struct Decoder {
    held: Vec<u8>,
    /// Bytes that were decided.
    at: u64,
    /// The first one that is not UTF-8.
    broken_at: Option<u64>,
}

impl Decoder {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut out = String::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    self.at += rest.len() as u64;
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    out.push_str(&String::from_utf8_lossy(good));
                    self.at += good.len() as u64;
                    rest = bad;
                    // A character may be unfinished; anything else is not text.
                    let Some(broken) = error.error_len() else {
                        break;
                    };
                    out.push(char::REPLACEMENT_CHARACTER);
                    self.broken_at.get_or_insert(self.at);
                    self.at += broken as u64;
                    rest = &rest[broken..];
                }
            }
        }
        self.held = rest.to_vec();
        out
    }

    fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.held).is_empty() {
            return "";
        }
        self.broken_at.get_or_insert(self.at);
        "\u{FFFD}"
    }
}

/// Text that arrives in pieces, as whole lines. What comes after the last line break is left to the value.
#[derive(Debug, Default)]
struct Lines {
    rest: String,
}

impl Lines {
    fn push(&mut self, text: &str) -> Vec<Val> {
        let Some(end) = text.rfind('\n') else {
            self.rest.push_str(text);
            return Vec::new();
        };
        let mut whole = std::mem::take(&mut self.rest);
        whole.push_str(&text[..end]);
        text[end + 1..].clone_into(&mut self.rest);
        // As `str::lines` of the whole text: an empty line is a line.
        let lines = whole.split('\n');
        let lines = lines.map(|line| line.strip_suffix('\r').unwrap_or(line));
        let clean = |line: &str| Val::new(secret::without_marks(line.into()));
        lines.map(clean).collect()
    }
}

/// What becomes of the output of a process.
#[derive(Clone, Copy)]
pub(crate) struct Taking<'a> {
    pub(crate) secrets: &'a Secrets,
    pub(crate) live: &'a Live,
    /// Most bytes kept, shown and given as lines.
    pub(crate) bytes_max: u64,
    /// Field whose items are the lines, when somebody takes them as they are printed.
    pub(crate) lines: Option<&'a str>,
}

/// Reads a stream to its end. What is kept, shown and given on hold no secret, however the stream was cut. Who takes
/// lines more slowly than they come holds the process up: nothing is queued here.
pub(crate) async fn read(mut from: impl AsyncRead + Unpin, taking: Taking<'_>) -> Kept {
    let Taking {
        secrets,
        live,
        bytes_max,
        lines: field,
    } = taking;
    let mut kept = Kept::new(bytes_max);
    let mut decoder = Decoder::default();
    let mut scrubber: Stream = secrets.stream();
    let mut lines = Lines::default();
    let mut shown: u64 = 0;
    let mut take = |text: &str| {
        if text.is_empty() {
            return;
        }
        kept.push(text);
        // Live text is for people: a flood is not shown beyond what is kept.
        if shown < bytes_max {
            shown += text.len() as u64;
            live.text(text);
            if let Some(field) = field {
                let items = lines.push(text);
                if !items.is_empty() {
                    live.items(field, items);
                }
            }
            if shown >= bytes_max {
                live.text(&format!(
                    "\n[... more is not shown: limits.output is {bytes_max} ...]\n"
                ));
            }
        }
    };
    let mut buffer = vec![0_u8; READ_BYTES];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => take(&scrubber.push(&decoder.push(&buffer[..count]))),
        }
    }
    take(&scrubber.push(decoder.finish()));
    take(&scrubber.finish());
    kept.not_text_at = decoder.broken_at;
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept_and_the_hole_is_said() {
        let mut kept = Kept::new(16);
        for piece in ["0123456789", "abcdefghij", "ÄÖÜ", "xyz"] {
            kept.push(piece);
        }
        assert!(!kept.is_whole());
        let text = kept.into_text(16);
        assert_eq!(
            text,
            "0123456789ab\n[... 14 bytes left out: limits.output is 16 ...]\nxyz"
        );
    }

    #[test]
    fn text_at_the_limit_is_whole() {
        let mut kept = Kept::new(8);
        kept.push("0123");
        kept.push("4567");
        assert_eq!(kept.into_text(8), "01234567");
    }

    #[test]
    fn lines_cut_anywhere_are_those_of_the_whole_text() {
        let text = "one\r\ntwo\n\nvier ä\nrest";
        let whole: Vec<Val> = text
            .lines()
            .take(4)
            .map(|line| Val::new(line.into()))
            .collect();
        for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let mut lines = Lines::default();
            let mut given = lines.push(&text[..cut]);
            given.extend(lines.push(&text[cut..]));
            assert_eq!(
                (given, &*lines.rest),
                (whole.clone(), "rest"),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_character_cut_in_two_is_put_together_and_garbage_is_marked() {
        let mut decoder = Decoder::default();
        let bytes = "ä€".as_bytes();
        assert_eq!(decoder.push(&bytes[..1]), "");
        assert_eq!(decoder.push(&bytes[1..4]), "ä");
        assert_eq!(decoder.push(&bytes[4..]), "€");
        assert_eq!(decoder.push(b"a\xFFb\xE2"), "a\u{FFFD}b");
        assert_eq!(decoder.finish(), "\u{FFFD}");
        assert_eq!(decoder.broken_at, Some(6));
    }
}
