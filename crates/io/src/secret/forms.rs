//! The forms of a secret: what is searched for in every view of a text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::SECRET_BYTES_MIN;

/// Shortest line of a secret of several lines that is looked for by itself, bytes: a shorter one is a word of any text.
pub const SECRET_LINE_BYTES_MIN: usize = 8;
/// The lines around a key, which are no secret.
const ARMOUR: &str = "-----";

/// Everything that gives the secret away: itself, its lines, and all of these as base64, as hex and between quotes.
pub(super) fn forms(secret: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for piece in pieces(secret) {
        forms.extend(base64(piece.as_bytes()));
        forms.extend([hex(piece.as_bytes()), hex(piece.as_bytes()).to_uppercase()]);
        // Between single quotes a shell ends the quotes for each one inside; Python's `shlex` puts it in double ones.
        forms.extend([
            piece.replace('\'', r"'\''"),
            piece.replace('\'', r#"'"'"'"#),
        ]);
        forms.insert(piece);
    }
    // What is left of a short line would be a word of any text.
    forms.retain(|form| form.len() >= SECRET_BYTES_MIN);
    forms
}

/// The secret, without blanks around it, without its line breaks, and its lines. A break may be spelt `\n`, as in a
/// key that lies in JSON.
fn pieces(secret: &str) -> BTreeSet<String> {
    let mut pieces = BTreeSet::from([secret.to_owned()]);
    let joined: String = secret.split(['\r', '\n']).collect();
    for whole in [secret.trim(), &joined] {
        if whole.len() >= SECRET_BYTES_MIN {
            pieces.insert(whole.to_owned());
        }
    }
    let lines = secret
        .lines()
        .flat_map(|line| line.split("\\n"))
        .map(str::trim);
    let useful = |line: &&str| line.len() >= SECRET_LINE_BYTES_MIN && !line.starts_with(ARMOUR);
    pieces.extend(lines.filter(useful).map(str::to_owned));
    pieces
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The base64 of any text that holds these bytes: what they alone decide, wherever they begin within a group of three;
/// and what the end of that text looks like when they are the end.
fn base64(bytes: &[u8]) -> BTreeSet<String> {
    /// Characters that the bytes before have a part in, by how many of them lie in the same group.
    const LEAD: [usize; 3] = [0, 2, 3];
    let mut forms = BTreeSet::new();
    for (before, lead) in LEAD.into_iter().enumerate() {
        let mut data = vec![0; before];
        data.extend_from_slice(bytes);
        let decided = data.len() * 8 / 6;
        for alphabet in [&STANDARD, &URL_SAFE] {
            let text = alphabet.encode(&data);
            let unpadded = text.trim_end_matches('=').len();
            forms.extend([decided, unpadded, text.len()].map(|end| text[lead..end].to_owned()));
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_found_wherever_the_bytes_begin_and_end() {
        let forms = base64(b"hunter2!");
        for before in ["", "u", "us", "user:"] {
            for after in ["", "a", "ab", "abc"] {
                let text = STANDARD.encode(format!("{before}hunter2!{after}"));
                assert!(
                    forms.iter().any(|form| text.contains(form)),
                    "{before} {after}"
                );
            }
        }
        assert!(forms.contains("aHVudGVyMiE="));
    }

    #[test]
    fn useful_lines_of_a_key_are_pieces_and_its_armour_is_not() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nab==\n-----END KEY-----";
        let joined = "-----BEGIN KEY-----MIIEvQIBADANBgab==-----END KEY-----";
        let wanted = [key, joined, "MIIEvQIBADANBg"].map(str::to_owned);
        assert_eq!(pieces(key), BTreeSet::from(wanted));
        let written = r#"{"key": "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n"}"#;
        assert!(pieces(written).contains("MIIEvQIBADANBg"));
    }
}
