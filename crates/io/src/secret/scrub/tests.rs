use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

fn patterns(secrets: &[(&str, &str)]) -> Arc<Patterns> {
    let secrets: Vec<(String, SecretString)> = secrets
        .iter()
        .map(|(name, value)| (format!("[secret {name}]"), SecretString::from(*value)))
        .collect();
    let marked = secrets.iter().map(|(mark, value)| (mark.clone(), value));
    Arc::new(Patterns::new(marked))
}

/// What comes out of a stream that is cut after each of these many characters, over and over.
fn streamed(patterns: &Arc<Patterns>, text: &str, cuts: &[usize]) -> String {
    let mut stream = Stream::new(Arc::clone(patterns));
    let mut chars = text.chars();
    let mut out = String::new();
    for size in cuts.iter().cycle() {
        let piece: String = chars.by_ref().take((*size).max(1)).collect();
        if piece.is_empty() {
            break;
        }
        out.push_str(&stream.push(&piece));
    }
    out + &stream.finish()
}

#[test]
fn a_secret_is_found_however_the_stream_is_cut() {
    let patterns = patterns(&[
        ("a", "hunter2"),
        ("b", "hunter2-and-more"),
        ("c", "ünïcode"),
    ]);
    let text = "x hunter2 y hunter2-and-more z hunt ünïcode!";
    for size in 1..text.len() {
        assert_eq!(
            streamed(&patterns, text, &[size]),
            "x [secret a] y [secret b] z hunt [secret c]!",
            "cut every {size} characters"
        );
    }
}

#[test]
fn every_spelling_of_a_tool_is_the_secret() {
    let patterns = patterns(&[("a", "p@s/s \"w'ö\nrd+1")]);
    let spellings = [
        "p@s/s \"w'ö\nrd+1",
        "p%40s%2Fs%20%22w%27%C3%B6%0Ard%2B1",
        "p%40s/s%20%22w%27%c3%b6%0ard%2b1",
        "p%40s%2Fs+%22w%27%C3%B6%0Ard%2B1",
        "p%2540s%252Fs%2520%2522w%2527%25C3%25B6%250Ard%252B1",
        r#"p@s/s \"w'ö\nrd+1"#,
        r#"p@s\/s \"w'\u00f6\nrd+1"#,
        r#"p@s\/s\u0020\u0022w\u0027\u00F6\u000Ard\u002B1"#,
        r#"p@s/s \\\"w'ö\\nrd+1"#,
        r#"p@s\\\/s \\\"w'\\u00f6\\nrd+1"#,
        r#"p@s/s \"w\'\xc3\xb6\nrd+1"#,
        r#"p@s/s\ \"w\'\303\266\nrd+1"#,
        r"p%40s\/s%20%22w%27%C3%B6%0Ard%2B1",
        "p@s/s \"w'\\''ö\nrd+1",
        "p@s/s \"w'\"'\"'ö\nrd+1",
        "p@s/s &quot;w&#39;ö\nrd+1",
        "p@s/s &#34;w&apos;&#xF6;&#10;rd+1",
        "704073 7773",
        "7040732f73202277 27c3b60a72642b31",
    ];
    for spelling in &spellings[..17] {
        assert_eq!(patterns.scrub(spelling), "[secret a]", "{spelling}");
        let logged = format!("{{\"a\":\"{spelling}\"}}");
        assert_eq!(
            patterns.scrub(&logged),
            "{\"a\":\"[secret a]\"}",
            "{spelling}"
        );
    }
    for other in &spellings[17..] {
        assert_eq!(patterns.scrub(other), *other);
    }
    let hex: String = "p@s/s \"w'ö\nrd+1"
        .bytes()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(patterns.scrub(&hex), "[secret a]");
    assert_eq!(patterns.scrub(&hex.to_uppercase()), "[secret a]");
}

#[test]
fn basic_authorization_hides_what_stands_behind_the_user() {
    let patterns = patterns(&[("a", "hunter2!?")]);
    for (user, wanted) in [
        ("a:b:", "YTpiO[secret a]"),
        ("ab:", "YWI6[secret a]"),
        ("me@x:", "bWVAeD[secret a]"),
    ] {
        let text = STANDARD.encode(format!("{user}hunter2!?"));
        let out = patterns.scrub(&text).into_owned();
        assert!(out.ends_with("[secret a]"), "{text} {out}");
        // What is left before the mark is the user, and at most a character that both have a part in.
        assert!(out.len() <= wanted.len() + 1, "{text} {out}");
    }
}

#[test]
fn base64_that_was_wrapped_is_found_and_so_is_each_line_of_a_key() {
    let secret = "0123456789".repeat(12);
    let patterns = patterns(&[
        ("a", &secret),
        (
            "key",
            "-----BEGIN-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END-----\n",
        ),
    ]);
    let text = STANDARD.encode(&secret);
    let wrapped = format!("{}\n{}\n{}", &text[..76], &text[76..152], &text[152..]);
    assert_eq!(patterns.scrub(&wrapped), "[secret a]");
    assert_eq!(patterns.scrub(&wrapped.replace('\n', "\r\n")), "[secret a]");
    assert_eq!(patterns.scrub(&wrapped.replace('\n', "\\n")), "[secret a]");
    assert_eq!(
        patterns.scrub("-----BEGIN-----\n> MIIEvQIBADAN\n> BgkqhkiG9w0B\n-----END-----"),
        "-----BEGIN-----\n> [secret key]\n> [secret key]\n-----END-----"
    );
}

#[test]
fn a_flood_of_beginnings_is_held_no_longer_than_a_secret() {
    let patterns = patterns(&[("a", "aaaaaaaa")]);
    let mut stream = Stream::new(Arc::clone(&patterns));
    let mut out = String::new();
    for _ in 0..1000 {
        out.push_str(&stream.push("aaaaaaaaaaaaaaaa"));
        assert!(stream.mask.held.len() <= 16 + 8 && stream.mask.spans.len() <= 16 * VIEWS.len());
    }
    out.push_str(&stream.push("b%%%%"));
    assert_eq!(out + &stream.finish(), "[secret a]b%%%%");
}

#[test]
fn the_undecided_end_of_a_text_that_was_cut_is_not_given() {
    let patterns = patterns(&[("a", "hunter2!")]);
    let mut stream = Stream::new(patterns);
    assert_eq!(stream.push("one hunter2! two hunt"), "one [secret a] two ");
}

/// How a secret may be spelt, each by a rule that also takes choices: which of two ways a character is written.
#[derive(Clone, Copy, Debug)]
enum How {
    Plain,
    Percent,
    Form,
    Json,
    JsonTwice,
    Shell,
    Html,
    Hex,
    HexUpper,
}

fn percent(text: &str, choices: &[bool], blank: &str) -> String {
    let mut out = String::new();
    for (at, byte) in text.bytes().enumerate() {
        let choice = choices[at % choices.len()];
        let kept = byte.is_ascii_alphanumeric()
            || b"-._~".contains(&byte)
            || (b"/:@".contains(&byte) && choice);
        match byte {
            b' ' => out.push_str(blank),
            _ if kept => out.push(char::from(byte)),
            _ if choice => out.push_str(&format!("%{byte:02X}")),
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}

fn json(text: &str, choices: &[bool]) -> String {
    let mut out = String::new();
    for (at, c) in text.chars().enumerate() {
        let choice = choices[at % choices.len()];
        let units = |out: &mut String| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&if at % 2 == 0 {
                    format!("\\u{unit:04x}")
                } else {
                    format!("\\u{unit:04X}")
                });
            }
        };
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '/' if choice => out.push_str("\\/"),
            _ if choice && !c.is_ascii_alphanumeric() => units(&mut out),
            _ => out.push(c),
        }
    }
    out
}

fn spelt(how: How, text: &str, choices: &[bool]) -> String {
    match how {
        How::Plain => text.to_owned(),
        How::Percent => percent(text, choices, "%20"),
        How::Form => percent(text, choices, "+"),
        How::Json => json(text, choices),
        How::JsonTwice => json(&json(text, choices), &[false]),
        How::Shell => text.replace('\'', "'\\''"),
        How::Html => text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;")
            .replace('\'', "&#x27;"),
        How::Hex => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        How::HexUpper => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
    }
}

fn secret() -> impl Strategy<Value = String> {
    let c = prop::sample::select(
        "abcXYZ019/+%&\\\"' \n.,:;=<>#@$!?-_{}()éß€😀"
            .chars()
            .collect::<Vec<_>>(),
    );
    prop::collection::vec(c, 6..40).prop_map(|chars| chars.into_iter().collect())
}

fn how() -> impl Strategy<Value = How> {
    use How::{Form, Hex, HexUpper, Html, Json, JsonTwice, Percent, Plain, Shell};
    prop::sample::select(vec![
        Plain, Percent, Form, Json, JsonTwice, Shell, Html, Hex, HexUpper,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_secret_in_any_spelling_and_any_pieces_is_one_mark(
        secret in secret(),
        how in how(),
        choices in prop::collection::vec(any::<bool>(), 1..8),
        cuts in prop::collection::vec(1_usize..12, 1..6),
    ) {
        let patterns = patterns(&[("a", &secret)]);
        // No spelling has these signs.
        let text = format!("~|{}|~", spelt(how, &secret, &choices));
        prop_assert_eq!(patterns.scrub(&text).into_owned(), "~|[secret a]|~");
        prop_assert_eq!(streamed(&patterns, &text, &cuts), "~|[secret a]|~");
    }

    #[test]
    fn base64_of_a_longer_text_gives_nothing_of_the_secret_away(
        secret in secret(),
        before in "[a-z:]{0,7}",
        after in "[a-z\n]{0,4}",
        cuts in prop::collection::vec(1_usize..12, 1..6),
    ) {
        let patterns = patterns(&[("a", &secret)]);
        for alphabet in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
            let text = alphabet.encode(format!("{before}{secret}{after}"));
            let out = patterns.scrub(&text).into_owned();
            // What is left is what the texts around it are spelt with, and the characters that they share with it.
            let (left, right) = out.split_once("[secret a]").unwrap();
            prop_assert!(left.len() <= (before.len() * 8).div_ceil(6), "{text} {out}");
            prop_assert!(right.len() <= (after.len() * 8).div_ceil(6) + 3, "{text} {out}");
            prop_assert_eq!(&streamed(&patterns, &text, &cuts), &out);
        }
    }

    #[test]
    fn the_pieces_change_nothing(
        parts in prop::collection::vec(prop::sample::select(vec![
            "hunter2", "hunt", "er2", "hunter", "%68", "%6", "%", "+", "\\u0068", "\\u00", "\\", "unter2", "&amp;", "&#104;",
            "&", "\n", "\r\n", "aHVudGVyMg==", "aHVud", "ä", "\\ud83d", " ",
        ]), 0..30),
        cuts in prop::collection::vec(1_usize..9, 1..6),
    ) {
        let patterns = patterns(&[("a", "hunter2"), ("b", "2hunter"), ("c", "r2&hunt")]);
        let text = parts.concat();
        prop_assert_eq!(streamed(&patterns, &text, &cuts), patterns.scrub(&text).into_owned());
    }
}
