//! `text.*`: cutting, finding and replacing.

use ravel_core::effect::{Effect, Failure};
use ravel_core::lang::{Arguments, WrongArgument};
use regex::{Captures, Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use super::json::object;
use super::{
    Call, RESULT_BYTES_MAX, Room, Tool, flag_of, invalid, no_room, number_of, text_of, wrong,
};

/// Largest compiled pattern, bytes.
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// What a group of a match weighs besides its text, bytes.
const VALUE_BYTES: usize = 64;
/// Most matches that `text.match` gives.
pub const MATCHES_MAX: u64 = 100_000;

pub(super) static SPLIT: Tool = Tool {
    name: "text.split",
    doc: "Cuts a text at each `by`.",
    effect: Effect::Pure,
    input: || {
        object(
            json!({
                "text": { "type": "string" },
                "by": { "type": "string", "minLength": 1 },
                "trim": { "type": "boolean", "default": false, "description": "take blanks off both ends of each part" },
                "keep_empty": { "type": "boolean", "default": true },
            }),
            &["text", "by"],
        )
    },
    output: || list_output("parts"),
    example: r#"{"text": "a, b,c", "by": ",", "trim": true}"#,
    rule: None,
    call: Call::Inline(|input| {
        let parts = text_of(input, "text").split(text_of(input, "by"));
        Ok(json!({ "parts": parts_of(input, parts, true)? }))
    }),
};

pub(super) static LINES: Tool = Tool {
    name: "text.lines",
    doc: "Cuts a text into its lines.",
    effect: Effect::Pure,
    input: || {
        object(
            json!({
                "text": { "type": "string" },
                "trim": { "type": "boolean", "default": false },
                "keep_empty": { "type": "boolean", "default": false },
            }),
            &["text"],
        )
    },
    output: || list_output("lines"),
    example: r#"{"text": "a\n\nb\n"}"#,
    rule: None,
    call: Call::Inline(|input| {
        let lines = text_of(input, "text").lines();
        Ok(json!({ "lines": parts_of(input, lines, false)? }))
    }),
};

pub(super) static MATCH: Tool = Tool {
    name: "text.match",
    doc: "Finds a regular expression (Rust syntax, linear time). `groups` are the numbered groups from 1 on, `named` the named ones; a group that took no part is null. `at` counts characters.",
    effect: Effect::Pure,
    input: || {
        object(
            json!({
                "text": { "type": "string" },
                "pattern": { "type": "string" },
                "ignore_case": { "type": "boolean", "default": false },
                "max": { "type": "integer", "minimum": 1, "maximum": MATCHES_MAX, "default": MATCHES_MAX },
            }),
            &["text", "pattern"],
        )
    },
    output: || {
        let one = object(
            json!({
                "text": { "type": "string" },
                "at": { "type": "integer" },
                "groups": { "type": "array", "items": { "type": ["string", "null"] } },
                "named": { "type": "object" },
            }),
            &["text", "at", "groups", "named"],
        );
        object(
            json!({ "found": { "type": "boolean" }, "matches": { "type": "array", "items": one } }),
            &["found", "matches"],
        )
    },
    example: r#"{"text": "order 4471, order 4472", "pattern": "order (?<id>\\d+)"}"#,
    rule: Some(|arguments| pattern_rule(arguments, "pattern")),
    call: Call::Inline(find),
};

pub(super) static REPLACE: Tool = Tool {
    name: "text.replace",
    doc: "Replaces each `find` by `with`. With `regex`, `find` is a pattern and `with` may hold `$1` or `${name}`.",
    effect: Effect::Pure,
    input: || {
        object(
            json!({
                "text": { "type": "string" },
                "find": { "type": "string", "minLength": 1 },
                "with": { "type": "string" },
                "regex": { "type": "boolean", "default": false },
                "ignore_case": { "type": "boolean", "default": false },
            }),
            &["text", "find", "with"],
        )
    },
    output: || {
        let fields = json!({ "text": { "type": "string" }, "count": { "type": "integer" } });
        object(fields, &["text", "count"])
    },
    example: r#"{"text": "2026-03-01", "find": "(\\d+)-(\\d+)-(\\d+)", "with": "$3.$2.$1", "regex": true}"#,
    rule: Some(replace_rule),
    call: Call::Inline(replace),
};

pub(super) static CHUNK: Tool = Tool {
    name: "text.chunk",
    doc: "Cuts a text into pieces of at most `size` units, each beginning with the last `overlap` units of the one before. Put together without the overlaps they are the text.",
    effect: Effect::Pure,
    input: || {
        object(
            json!({
                "text": { "type": "string" },
                "size": { "type": "integer", "minimum": 1 },
                "overlap": { "type": "integer", "minimum": 0, "default": 0 },
                "by": { "enum": ["chars", "words", "lines"], "default": "chars" },
            }),
            &["text", "size"],
        )
    },
    output: || list_output("chunks"),
    example: r#"{"text": "one two three four", "size": 2, "overlap": 1, "by": "words"}"#,
    rule: Some(chunk_rule),
    call: Call::Inline(chunk),
};

fn list_output(name: &str) -> Value {
    object(
        json!({ name: { "type": "array", "items": { "type": "string" } } }),
        &[name],
    )
}

fn parts_of<'a>(
    input: &Value,
    parts: impl Iterator<Item = &'a str>,
    keep_empty: bool,
) -> Result<Vec<&'a str>, Failure> {
    let trim = flag_of(input, "trim", false);
    let keep_empty = flag_of(input, "keep_empty", keep_empty);
    let mut room = Room::new();
    parts
        .map(|part| if trim { part.trim() } else { part })
        .filter(|part| keep_empty || !part.is_empty())
        .map(|part| room.take(part.len()).map(|()| part))
        .collect()
}

fn pattern(input: &Value, text: &str) -> Result<Regex, Failure> {
    RegexBuilder::new(text)
        .case_insensitive(flag_of(input, "ignore_case", false))
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| {
            // The first lines show the place, under the pattern; the last one says what it is.
            let error = error.to_string();
            let why = error.lines().last().unwrap_or_default();
            let why = why.trim_start_matches("error: ");
            invalid(format!("the pattern is not right: {why}"))
        })
}

/// A pattern that is written out is one.
fn pattern_rule(arguments: &Arguments, field: &'static str) -> Result<(), WrongArgument> {
    let fields = &arguments.fields;
    match fields.get(field).and_then(Value::as_str) {
        Some(text) => pattern(fields, text)
            .map(|_| ())
            .map_err(|failure| wrong(Some(field), &failure)),
        None => Ok(()),
    }
}

fn replace_rule(arguments: &Arguments) -> Result<(), WrongArgument> {
    if flag_of(&arguments.fields, "regex", false) {
        return pattern_rule(arguments, "find");
    }
    Ok(())
}

fn chunk_rule(arguments: &Arguments) -> Result<(), WrongArgument> {
    let fields = &arguments.fields;
    if fields.get("size").is_some_and(Value::is_number)
        && fields.get("overlap").is_some_and(Value::is_number)
    {
        sizes(fields).map_err(|failure| wrong(Some("overlap"), &failure))?;
    }
    Ok(())
}

fn find(input: &Value) -> Result<Value, Failure> {
    let text = text_of(input, "text");
    let pattern = pattern(input, text_of(input, "pattern"))?;
    let max = usize::try_from(number_of(input, "max", MATCHES_MAX)).unwrap_or(usize::MAX);
    let (mut matches, mut room) = (Vec::new(), Room::new());
    let (mut byte, mut at) = (0, 0);
    for captures in pattern.captures_iter(text).take(max) {
        let Some(whole) = captures.get(0) else {
            continue;
        };
        at += text[byte..whole.start()].chars().count();
        byte = whole.start();
        let texts: usize = captures.iter().flatten().map(|group| group.len()).sum();
        // Each group stands in `groups`, and may stand in `named`.
        room.take(2 * texts.saturating_add(captures.len() * VALUE_BYTES))?;
        matches.push(found(&pattern, &captures, whole.as_str(), at));
    }
    Ok(json!({ "found": !matches.is_empty(), "matches": matches }))
}

fn found(pattern: &Regex, captures: &Captures<'_>, text: &str, at: usize) -> Value {
    let group =
        |group: Option<regex::Match<'_>>| group.map_or(Value::Null, |group| group.as_str().into());
    let groups: Vec<Value> = captures.iter().skip(1).map(group).collect();
    let names = pattern.capture_names().flatten();
    let named: Map<String, Value> = names
        .map(|name| (name.to_owned(), group(captures.name(name))))
        .collect();
    json!({ "text": text, "at": at, "groups": groups, "named": named })
}

fn replace(input: &Value) -> Result<Value, Failure> {
    let (text, find, with) = (
        text_of(input, "text"),
        text_of(input, "find"),
        text_of(input, "with"),
    );
    let regex = flag_of(input, "regex", false);
    if !regex && !flag_of(input, "ignore_case", false) {
        let count = text.matches(find).count();
        let size = count
            .saturating_mul(with.len())
            .saturating_add(text.len() - count * find.len());
        if size > RESULT_BYTES_MAX {
            return Err(no_room());
        }
        return Ok(json!({ "text": text.replace(find, with), "count": count }));
    }
    let quoted = regex::escape(find);
    let pattern = pattern(input, if regex { find } else { &quoted })?;
    let (mut new, mut rest, mut count) = (String::new(), 0, 0_u64);
    for captures in pattern.captures_iter(text) {
        let Some(whole) = captures.get(0) else {
            continue;
        };
        new.push_str(&text[rest..whole.start()]);
        if regex {
            captures.expand(with, &mut new);
        } else {
            new.push_str(with);
        }
        (rest, count) = (whole.end(), count + 1);
        if new.len() > RESULT_BYTES_MAX {
            return Err(no_room());
        }
    }
    new.push_str(&text[rest..]);
    Ok(json!({ "text": new, "count": count }))
}

/// `size` and `overlap`.
fn sizes(input: &Value) -> Result<(usize, usize), Failure> {
    let number = |field: &str| usize::try_from(number_of(input, field, 0)).unwrap_or(usize::MAX);
    let (size, overlap) = (number("size"), number("overlap"));
    if overlap >= size {
        return Err(invalid(format!(
            "`overlap` ({overlap}) must be smaller than `size` ({size})"
        )));
    }
    Ok((size, overlap))
}

fn chunk(input: &Value) -> Result<Value, Failure> {
    let text = text_of(input, "text");
    let (size, overlap) = sizes(input)?;
    // Where each unit begins; the end of the text closes the last one.
    let mut starts: Vec<usize> = match text_of(input, "by") {
        "words" => word_starts(text),
        "lines" => text
            .split_inclusive('\n')
            .scan(0, |at, line| Some(std::mem::replace(at, *at + line.len())))
            .collect(),
        _ => text.char_indices().map(|(at, _)| at).collect(),
    };
    let units = starts.len();
    starts.push(text.len());
    let (mut chunks, mut room) = (Vec::new(), Room::new());
    let mut from = 0;
    while from < units {
        let to = from.saturating_add(size).min(units);
        room.take(starts[to] - starts[from])?;
        chunks.push(&text[starts[from]..starts[to]]);
        if to == units {
            break;
        }
        from = to - overlap;
    }
    Ok(json!({ "chunks": chunks }))
}

/// Beginnings of words; the blanks after a word are its own, blanks before the first word the first word's.
fn word_starts(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut blank = true;
    for (at, c) in text.char_indices() {
        if blank && !c.is_whitespace() {
            starts.push(at);
        }
        blank = c.is_whitespace();
    }
    match starts.first_mut() {
        Some(first) => *first = 0,
        None if !text.is_empty() => starts.push(0),
        None => {}
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_without_their_overlaps_are_the_text() {
        let text = "  eins zwei\n  drei vier fünf\n";
        for by in ["chars", "words", "lines"] {
            let chunks = chunk(&json!({ "text": text, "size": 2, "by": by })).unwrap();
            let joined: String = chunks["chunks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|part| part.as_str().unwrap())
                .collect();
            assert_eq!(joined, text, "{by}");
        }
        let input = json!({ "text": "a b c d", "size": 2, "overlap": 1, "by": "words" });
        assert_eq!(
            chunk(&input),
            Ok(json!({ "chunks": ["a b ", "b c ", "c d"] }))
        );
    }

    #[test]
    fn a_match_gives_groups_names_and_its_place_in_characters() {
        let input = json!({ "text": "ä 12 x7", "pattern": "(?<letter>[a-z])?(\\d+)" });
        let matches = json!([
            { "text": "12", "at": 2, "groups": [null, "12"], "named": { "letter": null } },
            { "text": "x7", "at": 5, "groups": ["x", "7"], "named": { "letter": "x" } },
        ]);
        assert_eq!(
            find(&input),
            Ok(json!({ "found": true, "matches": matches }))
        );
    }

    #[test]
    fn plain_replacement_takes_signs_literally() {
        let input = json!({ "text": "a.b A.B", "find": "a.b", "with": "$1", "ignore_case": true });
        assert_eq!(replace(&input), Ok(json!({ "text": "$1 $1", "count": 2 })));
    }

    #[test]
    fn a_result_that_would_take_the_engine_along_is_refused() {
        let long = "a".repeat(100_000);
        let once = json!({ "text": long, "find": "a", "with": long });
        assert_eq!(replace(&once), Err(no_room()));
        let pattern = json!({ "text": long, "find": "a", "with": long, "regex": true });
        assert_eq!(replace(&pattern), Err(no_room()));
        assert_eq!(
            chunk(&json!({ "text": long, "size": 50_000, "overlap": 49_999 })),
            Err(no_room())
        );
        let many = "()".repeat(2000) + "a";
        let groups = json!({ "text": "a".repeat(300), "pattern": many });
        assert_eq!(find(&groups), Err(no_room()));
        let blanks = "\n".repeat(2_000_000);
        let kept = json!({ "keep_empty": true });
        assert_eq!(parts_of(&kept, blanks.lines(), false), Err(no_room()));
    }

    #[test]
    fn a_pattern_that_would_grow_without_end_is_refused() {
        let input = json!({ "text": "", "pattern": "(((a{1000}){1000}){1000})" });
        let failure = find(&input).unwrap_err();
        assert_eq!(failure.class, ravel_core::effect::ErrorClass::InvalidInput);
        assert!(failure.message.starts_with("the pattern is not right: "));
    }

    #[test]
    fn an_overlap_as_large_as_the_size_is_refused() {
        let input = json!({ "text": "abc", "size": 2, "overlap": 2 });
        assert_eq!(
            chunk(&input),
            Err(invalid("`overlap` (2) must be smaller than `size` (2)"))
        );
    }
}
