//! The stored form of turns and values: compact JSON in which big or deep values are cut out as blobs.
//!
//! A cut value leaves `{"$blob":"<hash>","bytes":<n>}` behind: BLAKE3 and length of the blob's own JSON text, which
//! may itself hold such references. Cutting begins at the innermost values, so two values that share a big part
//! share its blob. Keys of users that look like ours (`$blob`, `$$blob`, …) get one more `$` on the way in and lose
//! it on the way out.
//!
//! Deep values are cut too: JSON readers refuse text that is nested too deeply, and what was acknowledged has to be
//! readable.

pub(crate) mod json;
mod splice;

use ravel_core::event::Turn;
use ravel_core::port_store::Error;
use serde::Serialize;
use serde_json::{Map, Value};

/// Bytes of JSON above which a value is stored as a blob, unless [`crate::Options::inline_bytes_max`] says otherwise.
pub(crate) const INLINE_BYTES_MAX: usize = 16 * 1024;
/// Levels of nesting above which a value is stored as a blob. Readers give up at 128.
const HEIGHT_MAX: u32 = 64;
/// Bytes that are counted in a byte at a time.
const PART: usize = 128;
/// The key of a reference.
const KEY: &str = "$blob";
/// How many containers enclose an event's field: the turn, its list of events, the event. Only what lies inside
/// fields is cut, so an event's type, node and path can always be queried.
const TURN_DEPTH: usize = 3;

/// A value that was cut out.
#[derive(Debug)]
pub(crate) struct Cut {
    /// BLAKE3 of `json`.
    pub(crate) hash: blake3::Hash,
    /// The value's JSON text.
    pub(crate) json: Vec<u8>,
}

/// Turns turns and values into their stored form. Keeps its buffers.
#[derive(Debug)]
pub(crate) struct Encoder {
    inline_bytes_max: usize,
    raw: Vec<u8>,
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    start: usize,
    height: u32,
}

impl Encoder {
    pub(crate) const fn new(inline_bytes_max: usize) -> Self {
        Self {
            inline_bytes_max,
            raw: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Appends a turn's line (without newline) to `out`, and what was cut out of it to `cuts`.
    pub(crate) fn turn(
        &mut self,
        turn: &Turn,
        out: &mut Vec<u8>,
        cuts: &mut Vec<Cut>,
    ) -> Result<(), Error> {
        self.write(turn, TURN_DEPTH, out, cuts)
    }

    /// Appends a value, which may be cut out as a whole.
    pub(crate) fn value<T: Serialize>(
        &mut self,
        value: &T,
        out: &mut Vec<u8>,
        cuts: &mut Vec<Cut>,
    ) -> Result<(), Error> {
        self.write(value, 0, out, cuts)
    }

    fn write<T: Serialize>(
        &mut self,
        value: &T,
        depth_min: usize,
        out: &mut Vec<u8>,
        cuts: &mut Vec<Cut>,
    ) -> Result<(), Error> {
        let start = out.len();
        json::write(out, value).map_err(|error| Error::Io {
            message: format!("a value cannot be written as JSON: {error}"),
        })?;
        if self.is_plain(&out[start..]) {
            return Ok(());
        }
        self.raw.clear();
        self.raw.extend_from_slice(&out[start..]);
        out.truncate(start);
        self.cut(depth_min, out, cuts);
        Ok(())
    }

    /// True when nothing has to be cut or escaped, judged in one cheap pass that may err towards false.
    fn is_plain(&self, text: &[u8]) -> bool {
        if text.len() > self.inline_bytes_max {
            return false;
        }
        let (mut opened, mut dollars) = (0_u32, false);
        for part in text.chunks(PART) {
            // Sums in bytes, which the compiler turns into vector instructions.
            let (mut count, mut dollar) = (0_u8, 0_u8);
            for byte in part {
                count += u8::from(*byte == b'{') + u8::from(*byte == b'[');
                dollar |= u8::from(*byte == b'$');
            }
            opened += u32::from(count);
            dollars |= dollar != 0;
        }
        opened < HEIGHT_MAX && !(dollars && has_marker(text))
    }

    /// Copies `self.raw` to `out`, cutting and escaping.
    fn cut(&mut self, depth_min: usize, out: &mut Vec<u8>, cuts: &mut Vec<Cut>) {
        let raw = std::mem::take(&mut self.raw);
        self.open.clear();
        let mut copied = 0;
        let mut at = 0;
        while at < raw.len() {
            let position = out.len() + (at - copied);
            match raw[at] {
                b'{' | b'[' => self.open.push(Open {
                    start: position,
                    height: 1,
                }),
                b'}' | b']' => {
                    let Open { start, height } =
                        self.open.pop().expect("serde_json closes what it opened");
                    let length = position + 1 - start;
                    let cut = self.open.len() >= depth_min
                        && (length > self.inline_bytes_max || height >= HEIGHT_MAX);
                    if cut {
                        out.extend_from_slice(&raw[copied..=at]);
                        copied = at + 1;
                        take(start, out, cuts);
                    }
                    if let Some(parent) = self.open.last_mut() {
                        parent.height = parent.height.max(if cut { 2 } else { height + 1 });
                    }
                }
                b'"' => {
                    let end = string_end(&raw, at);
                    if raw.get(end) == Some(&b':') {
                        if is_marker(&raw[at + 1..end - 1]) {
                            out.extend_from_slice(&raw[copied..=at]);
                            copied = at + 1;
                            out.push(b'$');
                        }
                    } else if end - at > self.inline_bytes_max && self.open.len() >= depth_min {
                        out.extend_from_slice(&raw[copied..end]);
                        copied = end;
                        take(position, out, cuts);
                    }
                    at = end;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        out.extend_from_slice(&raw[copied..]);
        self.raw = raw;
    }
}

/// Moves everything from `start` on into a blob and leaves the reference.
fn take(start: usize, out: &mut Vec<u8>, cuts: &mut Vec<Cut>) {
    let json = out.split_off(start);
    let hash = blake3::hash(&json);
    let reference = format!(
        "{{\"{KEY}\":\"{}\",\"bytes\":{}}}",
        hash.to_hex(),
        json.len()
    );
    out.extend_from_slice(reference.as_bytes());
    cuts.push(Cut { hash, json });
}

/// The position after the string that begins at `start`.
fn string_end(raw: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while raw[at] != b'"' {
        at += if raw[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// True for `$blob`, `$$blob` and so on.
fn is_marker(key: &[u8]) -> bool {
    key.starts_with(b"$")
        && key.ends_with(KEY.as_bytes())
        && key[..key.len() - KEY.len()]
            .iter()
            .all(|byte| *byte == b'$')
}

/// True when a key that looks like ours may be in the text.
pub(crate) fn has_marker(text: &[u8]) -> bool {
    text.contains(&b'$') && text.windows(KEY.len() + 2).any(|part| part == b"$blob\":")
}

/// Where the text of blobs comes from.
pub(crate) trait Blobs {
    /// The JSON text of the blob with this hash (hex), checked against it.
    fn json(&mut self, hash: &str) -> Result<std::sync::Arc<[u8]>, Error>;
}

/// A turn from its stored line.
pub(crate) fn decode_turn(line: &[u8], blobs: &mut dyn Blobs) -> Result<Turn, Error> {
    if has_marker(line) {
        // Text that is nested too deeply for a reader is no mistake: its parts were stored apart.
        if let Some(text) = splice::spliced(line, blobs)?
            && let Ok(turn) = serde_json::from_slice(&text)
        {
            return Ok(turn);
        }
        let whole = restore(parse(line)?, blobs)?;
        serde_json::from_value(whole).map_err(|error| unreadable(&error))
    } else {
        serde_json::from_slice(line).map_err(|error| unreadable(&error))
    }
}

/// A value from its stored text.
pub(crate) fn decode_value(text: &[u8], blobs: &mut dyn Blobs) -> Result<Value, Error> {
    let value = parse(text)?;
    if has_marker(text) {
        restore(value, blobs)
    } else {
        Ok(value)
    }
}

fn parse(text: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(text).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> Error {
    Error::Damaged {
        what: format!("stored JSON cannot be read ({error})"),
    }
}

/// Puts blobs back in place of their references and takes the escapes away.
fn restore(value: Value, blobs: &mut dyn Blobs) -> Result<Value, Error> {
    match value {
        Value::Object(fields) => match fields.get(KEY) {
            Some(Value::String(hash)) => {
                let json = blobs.json(hash)?;
                decode_value(&json, blobs)
            }
            Some(_) => Err(Error::Damaged {
                what: "a reference to a value has no hash".into(),
            }),
            None => {
                let mut whole = Map::with_capacity(fields.len());
                for (key, value) in fields {
                    let key = if is_marker(key.as_bytes()) {
                        key[1..].to_owned()
                    } else {
                        key
                    };
                    whole.insert(key, restore(value, blobs)?);
                }
                Ok(Value::Object(whole))
            }
        },
        Value::Array(items) => items
            .into_iter()
            .map(|item| restore(item, blobs))
            .collect::<Result<_, _>>()
            .map(Value::Array),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value),
    }
}

#[cfg(test)]
mod tests;
