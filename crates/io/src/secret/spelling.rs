//! Spellings: how a program may write a byte other than as itself, and how to read it back while it arrives.
//!
//! A [`Spelling`] reads one layer: `%2F`, `+`, `\u002f`, `&#47;`, a line break within a long word. A view is a list of
//! layers, read from the outside in: a URL inside a JSON string is `[Backslash, Percent]`. Every byte that is read keeps
//! the place in the text that it was read from, so whatever is found in a view can be taken out of the text itself.

/// What UTF-16 begins and ends a pair with.
const HIGH_SURROGATE: std::ops::RangeInclusive<u32> = 0xD800..=0xDBFF;
const LOW_SURROGATE: std::ops::RangeInclusive<u32> = 0xDC00..=0xDFFF;
/// Most digits of a number that has an end sign.
const NUMBER_CHARS_MAX: usize = 8;

/// A byte as a view reads it, and where the text says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) byte: u8,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// One layer of spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// `%2F`, as in URLs.
    Percent,
    /// `+` for a blank, as in forms.
    Plus,
    /// `\/`, `\"`, `\n`, `\u002F`, `\u{2f}`, `\x2f`, `\057`: JSON, the shell between `"` or after `$`, Python, Rust, C.
    Backslash,
    /// `&amp;`, `&#47;`, `&#x2F;`: HTML and XML.
    Entity,
    /// A line break that a tool put into a long line, as `base64` does.
    Wrapped,
}

/// The views that are searched besides the text as it is, outermost layer first.
pub(super) const VIEWS: &[&[Spelling]] = &[
    &[Spelling::Percent],
    &[Spelling::Plus, Spelling::Percent],
    // A URL in a query of another one.
    &[Spelling::Percent, Spelling::Percent],
    &[Spelling::Backslash],
    // JSON in a string of JSON.
    &[Spelling::Backslash, Spelling::Backslash],
    &[Spelling::Backslash, Spelling::Percent],
    &[Spelling::Backslash, Spelling::Plus, Spelling::Percent],
    &[Spelling::Percent, Spelling::Backslash],
    &[Spelling::Entity],
    &[Spelling::Wrapped],
    &[Spelling::Backslash, Spelling::Wrapped],
];

impl Spelling {
    /// True for a byte at which this layer may read something else than what stands there.
    pub(super) const fn begins_at(self, byte: u8) -> bool {
        match self {
            Self::Percent => byte == b'%',
            Self::Plus => byte == b'+',
            Self::Backslash => byte == b'\\',
            Self::Entity => byte == b'&',
            Self::Wrapped => matches!(byte, b'\n' | b'\r'),
        }
    }

    /// What the bytes at hand say. `wrapped`: a line break was just left out.
    fn read(self, bytes: &[u8], wrapped: bool) -> Reading {
        match (self, bytes) {
            (Self::Percent, [b'%', digits @ ..]) => fixed(digits, 2, 16).byte(1),
            (Self::Plus, [b'+', ..]) => Reading::one(b' ', 1),
            (Self::Backslash, [b'\\', rest @ ..]) => escape(rest),
            (Self::Entity, [b'&', rest @ ..]) => entity(rest),
            (Self::Wrapped, [b'\r']) => Reading::Unfinished,
            // One break only: empty lines are no wrapped word, and the wait for its end must end.
            (Self::Wrapped, [b'\n', ..]) if !wrapped => Reading::Nothing(1),
            (Self::Wrapped, [b'\r', b'\n', ..]) if !wrapped => Reading::Nothing(2),
            (Self::Percent | Self::Plus | Self::Backslash | Self::Entity | Self::Wrapped, _) => {
                Reading::Itself
            }
        }
    }
}

/// What a layer makes of the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// More must come before it can be said.
    Unfinished,
    /// The first byte stands for itself.
    Itself,
    /// So many bytes stand for nothing.
    Nothing(usize),
    /// So many bytes stand for this character.
    Char(char, usize),
    /// So many bytes stand for this byte.
    Byte(u8, usize),
}

impl Reading {
    const fn one(byte: u8, used: usize) -> Self {
        Self::Byte(byte, used)
    }
}

/// A number that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Unfinished,
    No,
    Is(u32, usize),
}

impl Number {
    /// As one byte, after so many bytes of its sign.
    fn byte(self, sign: usize) -> Reading {
        match self {
            Self::Unfinished => Reading::Unfinished,
            Self::No => Reading::Itself,
            Self::Is(value, digits) => u8::try_from(value)
                .map_or(Reading::Itself, |byte| Reading::one(byte, sign + digits)),
        }
    }

    /// As a character, after so many bytes of its sign and before so many of its end.
    fn char(self, sign: usize) -> Reading {
        match self {
            Self::Unfinished => Reading::Unfinished,
            Self::No => Reading::Itself,
            Self::Is(value, used) => {
                char::from_u32(value).map_or(Reading::Itself, |c| Reading::Char(c, sign + used))
            }
        }
    }
}

/// Exactly so many digits.
fn fixed(bytes: &[u8], count: usize, radix: u32) -> Number {
    let mut value = 0;
    for at in 0..count {
        let Some(byte) = bytes.get(at) else {
            return Number::Unfinished;
        };
        let Some(digit) = char::from(*byte).to_digit(radix) else {
            return Number::No;
        };
        value = value * radix + digit;
    }
    Number::Is(value, count)
}

/// Digits up to an end sign, which counts as used.
fn until(bytes: &[u8], end: u8, radix: u32) -> Number {
    let mut value = 0_u32;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == end && at > 0 {
            return Number::Is(value, at + 1);
        }
        match char::from(*byte).to_digit(radix) {
            Some(digit) if at < NUMBER_CHARS_MAX => {
                value = value.saturating_mul(radix).saturating_add(digit);
            }
            Some(_) | None => return Number::No,
        }
    }
    Number::Unfinished
}

/// What follows a backslash.
fn escape(rest: &[u8]) -> Reading {
    match rest {
        [] => Reading::Unfinished,
        [b'n', ..] => Reading::one(b'\n', 2),
        [b't', ..] => Reading::one(b'\t', 2),
        [b'r', ..] => Reading::one(b'\r', 2),
        [b'b', ..] => Reading::one(0x08, 2),
        [b'f', ..] => Reading::one(0x0C, 2),
        [b'x', digits @ ..] => fixed(digits, 2, 16).byte(2),
        [b'u'] => Reading::Unfinished,
        [b'u', b'{', digits @ ..] => until(digits, b'}', 16).char(3),
        [b'u', digits @ ..] => utf16(digits),
        [b'0'..=b'3', ..] => fixed(rest, 3, 8).byte(1),
        [sign, ..] if sign.is_ascii_punctuation() || *sign == b' ' => Reading::one(*sign, 2),
        [_, ..] => Reading::Itself,
    }
}

/// What follows `\u`: four digits, twice for what UTF-16 writes as a pair.
fn utf16(digits: &[u8]) -> Reading {
    let first = match fixed(digits, 4, 16) {
        Number::Is(first, _) if HIGH_SURROGATE.contains(&first) => first,
        other => return other.char(2),
    };
    let (pair, after) = (b"\\u", &digits[4..]);
    if after.len() < pair.len() {
        return if pair.starts_with(after) {
            Reading::Unfinished
        } else {
            Reading::Itself
        };
    }
    if !after.starts_with(pair) {
        return Reading::Itself;
    }
    match fixed(&after[pair.len()..], 4, 16) {
        Number::Unfinished => Reading::Unfinished,
        Number::Is(second, _) if LOW_SURROGATE.contains(&second) => {
            let value = 0x1_0000 + ((first & 0x3FF) << 10) + (second & 0x3FF);
            Number::Is(value, 10).char(2)
        }
        Number::Is(..) | Number::No => Reading::Itself,
    }
}

/// What follows an ampersand.
fn entity(rest: &[u8]) -> Reading {
    match rest {
        [] | [b'#'] => Reading::Unfinished,
        [b'#', b'x' | b'X', digits @ ..] => until(digits, b';', 16).char(3),
        [b'#', digits @ ..] => until(digits, b';', 10).char(2),
        _ => named(rest),
    }
}

fn named(rest: &[u8]) -> Reading {
    const NAMES: [(&[u8], u8); 5] = [
        (b"amp;", b'&'),
        (b"lt;", b'<'),
        (b"gt;", b'>'),
        (b"quot;", b'"'),
        (b"apos;", b'\''),
    ];
    for (name, byte) in NAMES {
        if rest.starts_with(name) {
            return Reading::one(byte, 1 + name.len());
        }
        if name.starts_with(rest) {
            return Reading::Unfinished;
        }
    }
    Reading::Itself
}

/// Reads one layer of a text that arrives byte by byte.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    spelling: Spelling,
    /// What is not decided yet, and its bytes.
    pending: Vec<Unit>,
    bytes: Vec<u8>,
    wrapped: bool,
}

impl Reader {
    pub(super) const fn new(spelling: Spelling) -> Self {
        Self {
            spelling,
            pending: Vec::new(),
            bytes: Vec::new(),
            wrapped: false,
        }
    }

    pub(super) const fn spelling(&self) -> Spelling {
        self.spelling
    }

    /// True when the next byte is read as if it were the first one.
    pub(super) const fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.wrapped
    }

    /// Where the undecided part begins.
    pub(super) fn hold(&self) -> Option<usize> {
        self.pending.first().map(|unit| unit.start)
    }

    /// Takes a byte and gives what is decided by it.
    pub(super) fn push(&mut self, unit: Unit, out: &mut Vec<Unit>) {
        if self.pending.is_empty() && !self.spelling.begins_at(unit.byte) {
            self.wrapped = false;
            out.push(unit);
            return;
        }
        self.pending.push(unit);
        self.bytes.push(unit.byte);
        while let Some(first) = self.pending.first().copied() {
            let used = match self.spelling.read(&self.bytes, self.wrapped) {
                Reading::Unfinished => return,
                Reading::Itself => {
                    out.push(first);
                    self.wrapped = false;
                    1
                }
                Reading::Nothing(used) => {
                    self.wrapped = true;
                    used
                }
                Reading::Byte(byte, used) => {
                    out.push(Unit {
                        byte,
                        start: first.start,
                        end: self.pending[used - 1].end,
                    });
                    used
                }
                Reading::Char(c, used) => {
                    let end = self.pending[used - 1].end;
                    let spelt = c.encode_utf8(&mut [0; 4]).to_owned();
                    out.extend(spelt.bytes().map(|byte| Unit {
                        byte,
                        start: first.start,
                        end,
                    }));
                    used
                }
            };
            self.pending.drain(..used);
            self.bytes.drain(..used);
        }
    }

    /// Gives what never was decided, as it stands.
    pub(super) fn finish(&mut self) -> Vec<Unit> {
        self.wrapped = false;
        self.bytes.clear();
        std::mem::take(&mut self.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(spelling: Spelling, text: &str) -> String {
        let mut reader = Reader::new(spelling);
        let mut out = Vec::new();
        for (start, byte) in text.bytes().enumerate() {
            reader.push(
                Unit {
                    byte,
                    start,
                    end: start + 1,
                },
                &mut out,
            );
        }
        out.extend(reader.finish());
        String::from_utf8(out.into_iter().map(|unit| unit.byte).collect()).unwrap()
    }

    #[test]
    fn each_layer_is_read_and_what_is_no_spelling_stays() {
        let cases = [
            (Spelling::Percent, "%2Fa%2fb%c3%BC%%4%zz%4", "/a/bü%%4%zz%4"),
            (Spelling::Plus, "a+b", "a b"),
            (
                Spelling::Backslash,
                r#"\/\"\\\n\u00fC\ud83D\ude00\x41\u{1F600}\101\ "#,
                "/\"\\\nü😀A😀A ",
            ),
            (
                Spelling::Backslash,
                r"\ud83d!\ude00\q\u12\u{}\x4",
                r"\ud83d!\ude00\q\u12\u{}\x4",
            ),
            (
                Spelling::Entity,
                "&amp;&#47;&#x2f;&quot;&am;&#;&",
                "&//\"&am;&#;&",
            ),
            (Spelling::Wrapped, "ab\ncd\r\nef\n\ngh\r", "abcdef\ngh\r"),
        ];
        for (spelling, text, wanted) in cases {
            assert_eq!(read(spelling, text), wanted, "{spelling:?} {text}");
        }
    }

    #[test]
    fn a_byte_keeps_the_place_that_it_was_read_from() {
        let mut reader = Reader::new(Spelling::Percent);
        let mut out = Vec::new();
        for (start, byte) in "a%41b".bytes().enumerate() {
            reader.push(
                Unit {
                    byte,
                    start,
                    end: start + 1,
                },
                &mut out,
            );
        }
        let unit = |byte, start, end| Unit { byte, start, end };
        assert_eq!(out, [unit(b'a', 0, 1), unit(b'A', 1, 4), unit(b'b', 4, 5)]);
    }
}
