//! Puts an answer together, from a body or from the events of a stream, and judges it. No I/O.
//!
//! ```text
//! Open --delta-----------> Open       text grows; the delta may be shown
//! Open --finish_reason---> Finished   usage may still follow
//! Open, Finished --[DONE]> Over       nothing that follows counts
//! any  --error object----> a fault, sorted like an HTTP status
//! any  --end of stream---> judged: Open is `incomplete`, never a success; Finished and Over are whole
//! ```

use ravel_core::effect::{ErrorClass, Failure};
use serde_json::{Value, json};

use super::extract;
use super::fault::{self, Fault};
use super::request::Built;
use super::usage::Tokens;

/// Ends a stream.
const DONE: &str = "[DONE]";

/// An answer, whole or in the making.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The text so far.
    pub(crate) text: String,
    /// Why the model refused, in its own words.
    refusal: String,
    /// Characters that were delivered, reasoning included: for an estimate of tokens.
    pub(crate) chars: u64,
    /// `finish_reason`.
    pub(crate) finish: Option<String>,
    /// Tokens as last reported.
    pub(crate) usage: Option<Tokens>,
    /// The model that answered.
    pub(crate) model: Option<String>,
    /// The provider's id of the answer.
    pub(crate) id: Option<String>,
    /// The end marker came.
    over: bool,
    /// An error came before anything was delivered: nothing was used.
    pub(crate) rejected: bool,
}

impl Answer {
    /// Takes the data of one event; gives the text it adds.
    pub(crate) fn event(&mut self, data: &str) -> Result<String, Fault> {
        if self.over {
            return Ok(String::new());
        }
        if data.trim() == DONE {
            self.over = true;
            return Ok(String::new());
        }
        if data.trim().is_empty() {
            return Ok(String::new());
        }
        let event = serde_json::from_str(data)
            .map_err(|_| fault::incomplete("an event of the stream is not JSON"))?;
        self.take(&event, "delta")
    }

    /// Takes the one body of an answer that is not streamed; gives its text.
    pub(crate) fn body(&mut self, body: &[u8]) -> Result<String, Fault> {
        let body: Value =
            serde_json::from_slice(body).map_err(|_| fault::incomplete("the body is not JSON"))?;
        let text = self.take(&body, "message")?;
        if body.pointer("/choices/0/message").is_none() {
            return Err(fault::incomplete("the body has no answer in it"));
        }
        // The body is whole JSON, so the answer is whole even where the server does not say why it ended.
        self.over = true;
        Ok(text)
    }

    /// True when nothing that follows counts.
    pub(crate) const fn is_over(&self) -> bool {
        self.over
    }

    fn take(&mut self, event: &Value, holder: &str) -> Result<String, Fault> {
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            self.rejected = self.chars == 0;
            return Err(fault::from_error(error));
        }
        // The last one counts: some servers report a running total.
        self.usage = event.get("usage").and_then(Tokens::reported).or(self.usage);
        for (slot, key) in [(&mut self.model, "model"), (&mut self.id, "id")] {
            if let Some(text) = event
                .get(key)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
            {
                *slot = Some(text.to_owned());
            }
        }
        let Some(choice) = event.pointer("/choices/0") else {
            return Ok(String::new());
        };
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(reason.to_owned());
        }
        let Some(delta) = choice.get(holder) else {
            return Ok(String::new());
        };
        let text = delta.get("content").map(content).unwrap_or_default();
        let refusal = delta
            .get("refusal")
            .and_then(Value::as_str)
            .unwrap_or_default();
        // Reasoning is billed and not shown; its field has two names in the wild.
        let reasoning = ["reasoning_content", "reasoning"]
            .iter()
            .find_map(|key| delta.get(*key)?.as_str());
        for piece in [&text, refusal, reasoning.unwrap_or_default()] {
            self.chars += piece.chars().count() as u64;
        }
        self.refusal.push_str(refusal);
        self.text.push_str(&text);
        Ok(text)
    }

    /// The text that counts: up to the first of the stop strings that are emulated.
    pub(crate) fn kept(&self, call: &Built) -> &str {
        let end = call
            .cut_at
            .iter()
            .filter_map(|stop| self.text.find(&**stop))
            .min();
        &self.text[..end.unwrap_or(self.text.len())]
    }

    /// The value of an answer whose stream or body ended.
    pub(crate) fn judge(&self, call: &Built) -> Result<Value, Fault> {
        let finish = self.finish.as_deref();
        if finish.is_none() && !self.over {
            return Err(fault::incomplete(
                "neither a finish reason nor an end marker came",
            ));
        }
        let failed = |class, code: &str, message: &str| {
            let failure = Failure::new(class, message)
                .with_code(code)
                .with_data(json!({ "text": self.text }));
            Err(Fault::done(failure))
        };
        if !self.refusal.is_empty() {
            let message = format!("the model refused: {}", self.refusal);
            return failed(ErrorClass::Refused, "refusal", &message);
        }
        if finish == Some("content_filter") {
            return failed(
                ErrorClass::Refused,
                "content_filter",
                "the provider's content filter ended the answer",
            );
        }
        let truncated = finish == Some("length");
        let text = self.kept(call);
        if let Some(fitted) = &call.fitted {
            // A value that is whole counts, even when the model went on until the limit.
            return match extract::json(text) {
                Some(value) => Ok(fitted.unwrap(value)),
                None if truncated => failed(ErrorClass::InvalidOutput, "truncated", TRUNCATED),
                None => failed(
                    ErrorClass::InvalidOutput,
                    "not_json",
                    "the answer holds no JSON value",
                ),
            };
        }
        if truncated {
            return failed(ErrorClass::Exhausted, "truncated", TRUNCATED);
        }
        if text.is_empty() && call.cut_at.is_empty() {
            return failed(ErrorClass::InvalidOutput, "empty", "the answer is empty");
        }
        Ok(json!({ "text": text }))
    }
}

const TRUNCATED: &str = "the answer reached `max_tokens` before its end";

/// Text, or the text parts of a list.
fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text")?.as_str())
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Map;

    use super::super::schema::Fitted;
    use super::*;

    fn call(schema: Option<Value>, stop: &[&str]) -> Built {
        Built {
            body: Value::Null,
            parameters: Map::new(),
            fitted: schema.map(|schema| Fitted::new(&schema)),
            cut_at: stop.iter().map(|text| Arc::from(*text)).collect(),
            prompt_chars: 0,
        }
    }

    fn streamed(events: &[&str]) -> Result<Answer, Fault> {
        let mut answer = Answer::default();
        for event in events {
            answer.event(event)?;
        }
        Ok(answer)
    }

    const HALF: &str = r#"{"id":"a1","model":"m-2","choices":[{"index":0,"delta":{"content":"Hel"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#;
    const REST: &str = r#"{"choices":[{"delta":{"content":[{"type":"text","text":"lo"}],"reasoning_content":"hm"},"finish_reason":null}],"usage":null}"#;
    const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;

    #[test]
    fn a_stream_adds_up_and_its_last_usage_counts() {
        let expected = Answer {
            text: "Hello".to_owned(),
            refusal: String::new(),
            chars: 7,
            finish: Some("stop".to_owned()),
            usage: Some(Tokens {
                input: 9,
                cached: 0,
                output: 2,
            }),
            model: Some("m-2".to_owned()),
            id: Some("a1".to_owned()),
            over: true,
            rejected: false,
        };
        let answer = streamed(&[HALF, REST, STOP, USAGE, "[DONE]", HALF]).unwrap();
        assert_eq!(answer, expected);
        assert_eq!(
            answer.judge(&call(None, &[])),
            Ok(json!({ "text": "Hello" }))
        );
    }

    #[test]
    fn a_stream_without_an_end_is_no_success() {
        let open = streamed(&[HALF, REST]).unwrap();
        let expected = fault::incomplete("neither a finish reason nor an end marker came");
        assert_eq!(open.judge(&call(None, &[])), Err(expected));
        let cut = streamed(&[HALF, r#"{"choices":[{"del"#]);
        assert_eq!(
            cut,
            Err(fault::incomplete("an event of the stream is not JSON"))
        );
        for whole in [&[HALF, STOP][..], &[HALF, "[DONE]"]] {
            assert_eq!(
                streamed(whole).unwrap().judge(&call(None, &[])),
                Ok(json!({ "text": "Hel" }))
            );
        }
    }

    #[test]
    fn an_error_event_ends_the_call() {
        let error = r#"{"error":{"message":"busy","code":503}}"#;
        assert_eq!(
            streamed(&[HALF, error]),
            Err(fault::from_error(
                &json!({ "message": "busy", "code": 503 })
            ))
        );
    }

    fn finished(text: &str, reason: &str) -> Answer {
        Answer {
            text: text.to_owned(),
            finish: Some(reason.to_owned()),
            ..Answer::default()
        }
    }

    fn failed(class: ErrorClass, code: &str, message: &str, text: &str) -> Result<Value, Fault> {
        Err(Fault::done(
            Failure::new(class, message)
                .with_code(code)
                .with_data(json!({ "text": text })),
        ))
    }

    #[test]
    fn an_answer_that_reached_the_limit_counts_only_as_a_whole_value() {
        let schema = call(
            Some(json!({ "type": "object", "properties": { "a": { "type": "integer" } } })),
            &[],
        );
        let whole = finished("{\"a\":1}\n\n\n ", "length");
        assert_eq!(whole.judge(&schema), Ok(json!({ "a": 1 })));
        let half = finished("{\"a\":", "length");
        assert_eq!(
            half.judge(&schema),
            failed(ErrorClass::InvalidOutput, "truncated", TRUNCATED, "{\"a\":")
        );
        let text = finished("Once upon", "length");
        assert_eq!(
            text.judge(&call(None, &[])),
            failed(ErrorClass::Exhausted, "truncated", TRUNCATED, "Once upon")
        );
    }

    #[test]
    fn what_is_no_answer_fails_with_its_class() {
        let refused = Answer {
            refusal: "No.".to_owned(),
            ..finished("", "stop")
        };
        assert_eq!(
            refused.judge(&call(None, &[])),
            failed(ErrorClass::Refused, "refusal", "the model refused: No.", "")
        );
        let message = "the provider's content filter ended the answer";
        let filtered = finished("Well", "content_filter");
        assert_eq!(
            filtered.judge(&call(None, &[])),
            failed(ErrorClass::Refused, "content_filter", message, "Well")
        );
        let message = "the answer holds no JSON value";
        let prose =
            finished("I think so", "stop").judge(&call(Some(json!({ "type": "object" })), &[]));
        assert_eq!(
            prose,
            failed(ErrorClass::InvalidOutput, "not_json", message, "I think so")
        );
        let empty = finished("", "stop").judge(&call(None, &[]));
        assert_eq!(
            empty,
            failed(
                ErrorClass::InvalidOutput,
                "empty",
                "the answer is empty",
                ""
            )
        );
    }

    #[test]
    fn a_stop_string_that_is_emulated_cuts_the_text() {
        let answer = finished("one END two STOP", "stop");
        assert_eq!(
            answer.judge(&call(None, &["STOP", "END"])),
            Ok(json!({ "text": "one " }))
        );
    }

    #[test]
    fn a_body_is_one_answer_or_none() {
        let mut answer = Answer::default();
        let text = answer.body(br#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#);
        let expected = Answer {
            usage: Some(Tokens {
                input: 3,
                cached: 0,
                output: 1,
            }),
            over: true,
            chars: 2,
            ..finished("Hi", "stop")
        };
        assert_eq!((text, answer), (Ok("Hi".to_owned()), expected));
        for (body, why) in [
            ("{\"choi", "the body is not JSON"),
            ("{\"choices\":[]}", "the body has no answer in it"),
        ] {
            assert_eq!(
                Answer::default().body(body.as_bytes()),
                Err(fault::incomplete(why))
            );
        }
    }
}
