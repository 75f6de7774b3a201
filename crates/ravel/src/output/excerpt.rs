//! The beginning of a value as JSON, written no further than it is shown.

use std::io::{self, Write};

use serde::Serialize;

use super::table::{cut, one_line};

/// Longest character of UTF-8, bytes.
const CHARACTER_BYTES_MAX: usize = 4;

/// Takes so many bytes and refuses the next, which ends the writing.
struct Bounded {
    text: Vec<u8>,
    room: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room);
        if taken == 0 && !bytes.is_empty() {
            return Err(io::Error::other("enough"));
        }
        self.text.extend_from_slice(&bytes[..taken]);
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value as JSON on one line, cut to `width` columns: the cost is that of what is shown.
pub(crate) fn json_line(value: &impl Serialize, width: usize) -> String {
    let room = width.saturating_add(1).saturating_mul(CHARACTER_BYTES_MAX);
    let mut to = Bounded {
        text: Vec::new(),
        room,
    };
    let whole = serde_json::to_writer(&mut to, value).is_ok();
    let text = String::from_utf8_lossy(&to.text);
    // What was cut inside a character is behind the columns that are shown.
    let shown = cut(&one_line(&text), width);
    if whole || shown.ends_with('…') {
        shown
    } else {
        cut(&format!("{shown}…"), width)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_beginning_of_a_value_is_what_the_whole_would_be_cut_to() {
        for value in [
            json!(null),
            json!({"a": [1, 2, 3], "text": "plain"}),
            json!({"a": "é\n\tß".repeat(100)}),
            json!(["漢字".repeat(100)]),
            json!("e\u{301}".repeat(100)),
        ] {
            for width in [1, 7, 40, 1_000] {
                let whole = cut(&one_line(&value.to_string()), width);
                assert_eq!(json_line(&value, width), whole, "{width} of {value}");
            }
        }
    }

    #[test]
    fn a_value_is_written_no_further_than_it_is_shown() {
        struct Endless;
        impl Serialize for Endless {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_seq(std::iter::repeat(Value::from(1)))
            }
        }
        assert_eq!(json_line(&Endless, 8), "[1,1,1,…");
    }
}
