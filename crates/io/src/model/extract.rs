//! Finds the JSON value in the text of an answer: servers that ignore a schema wrap it in prose or fences. No I/O.

use ravel_core::expr::exact_json;
use serde::de::IgnoredAny;
use serde_json::Value;

/// How many places of a text are tried as the start of a value.
const STARTS_MAX: usize = 64;

/// The JSON value of an answer: the text itself, else a fenced block, else the first object or list in it.
pub(crate) fn json(text: &str) -> Option<Value> {
    let text = after_thinking(text).trim();
    exact_json(text)
        .ok()
        .or_else(|| fenced(text))
        .or_else(|| embedded(text))
}

/// Drops a leading `<think>…</think>`: local reasoning models put it into the content.
fn after_thinking(text: &str) -> &str {
    let trimmed = text.trim_start();
    if !trimmed.starts_with("<think>") {
        return text;
    }
    trimmed
        .split_once("</think>")
        .map_or(text, |(_, rest)| rest)
}

fn fenced(text: &str) -> Option<Value> {
    text.split("```").skip(1).step_by(2).find_map(|block| {
        let body = block.split_once('\n').map_or(block, |(language, body)| {
            if language.trim().chars().all(char::is_alphanumeric) {
                body
            } else {
                block
            }
        });
        exact_json(body.trim()).ok()
    })
}

/// The first whole object in prose, else the first whole list.
fn embedded(text: &str) -> Option<Value> {
    first_from(text, '{').or_else(|| first_from(text, '['))
}

fn first_from(text: &str, open: char) -> Option<Value> {
    for (start, _) in text.match_indices(open).take(STARTS_MAX) {
        let rest = &text[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        match values.next()? {
            Ok(_) => return exact_json(&rest[..values.byte_offset()]).ok(),
            // The value that begins here was cut off: what is inside it must not pass for the answer.
            Err(error) if error.is_eof() => return None,
            Err(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_value_is_found_wherever_the_model_put_it() {
        let cases = [
            (r#"{"a":1}"#, json!({"a": 1})),
            ("  \n\"billing\"\n   ", json!("billing")),
            ("```json\n{\"a\":1}\n```", json!({"a": 1})),
            (
                "Here it is:\n```\n[1,2]\n```\nAnything else?",
                json!([1, 2]),
            ),
            ("```{\"a\":1}```", json!({"a": 1})),
            (
                "The answer {as asked} is {\"a\":{\"b\":[1]}}. Bye {",
                json!({"a": {"b": [1]}}),
            ),
            (
                "<think>maybe {\"a\":0}?</think>\n{\"a\":1}",
                json!({"a": 1}),
            ),
            ("As in [1]: {\"a\":1}", json!({"a": 1})),
            ("{\"a\":1}\n\n\n   \n{\"a\"", json!({"a": 1})),
        ];
        for (text, expected) in cases {
            assert_eq!(json(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_integer_that_would_be_rounded_makes_no_value() {
        let large = r#"{"id": 99999999999999999999}"#;
        for text in [
            large.to_owned(),
            format!("It is {large}."),
            format!("```\n{large}\n```"),
        ] {
            assert_eq!(json(&text), None, "{text}");
        }
    }

    #[test]
    fn text_without_a_value_gives_none() {
        for text in [
            "",
            "no",
            "{\"a\":",
            "Well: {\"a\":{\"b\":1},\"c\":",
            "<think>never ends {",
        ] {
            assert_eq!(json(text), None, "{text}");
        }
    }
}
