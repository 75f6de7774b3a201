//! Sorts what endpoints say when a call fails into the closed list of error classes. No I/O.
//!
//! Providers report the same fault as a status, as an `error` object in a 200 body, or as one in the middle of a
//! stream; all three end here, so that a fault is treated alike wherever it shows up.

use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure, Fate, Millis, Outcome};
use serde_json::{Map, Value, json};

/// A call that gave no answer: what is known about it, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    /// Whether the model was run.
    pub(crate) fate: Fate,
    /// Why there is no answer.
    pub(crate) failure: Failure,
}

impl Fault {
    /// Nothing was sent, or the other side refused to begin.
    pub(crate) const fn not_done(failure: Failure) -> Self {
        Self {
            fate: Fate::NotDone,
            failure,
        }
    }

    /// The model may have been run.
    pub(crate) const fn unknown(failure: Failure) -> Self {
        Self {
            fate: Fate::Unknown,
            failure,
        }
    }

    /// The answer is whole, and is no value.
    pub(crate) const fn done(failure: Failure) -> Self {
        Self {
            fate: Fate::Done,
            failure,
        }
    }

    /// The outcome of the attempt.
    pub(crate) fn outcome(self) -> Outcome {
        match self.fate {
            Fate::Done => Outcome::done_with(self.failure),
            Fate::NotDone => Outcome::not_done(self.failure),
            Fate::Unknown => Outcome::unknown(self.failure),
        }
    }
}

/// The answer broke off: no end marker came.
pub(crate) fn incomplete(why: &str) -> Fault {
    let message = format!("the answer broke off before its end: {why}");
    Fault::unknown(Failure::new(ErrorClass::Unavailable, message).with_code("incomplete"))
}

/// A fault that came as an HTTP status.
pub(crate) fn from_status(status: u16, body: &str, retry_after_ms: Option<Millis>) -> Fault {
    let said = Said::read(body);
    let class = said
        .class_by_words()
        .unwrap_or_else(|| class_of_status(status));
    let mut failure = said.failure(
        class,
        &format!("http_{status}"),
        &format!("the endpoint answered with status {status}"),
    );
    failure.data = Some(data(Some(status), &said, body).into());
    failure.retry_after_ms = retry_after_ms;
    let refused = (300..500).contains(&status) || matches!(class, ErrorClass::Overloaded);
    if refused {
        Fault::not_done(failure)
    } else {
        Fault::unknown(failure)
    }
}

/// A fault that came inside a 200 answer: an `error` object in its body or in an event of its stream.
pub(crate) fn from_error(error: &Value) -> Fault {
    let said = Said::from_error(error);
    let class = said
        .class_by_words()
        .or_else(|| said.status.map(class_of_status))
        .or_else(|| said.class_by_type())
        .unwrap_or(ErrorClass::Unavailable);
    let code = said.status.map_or_else(
        || "error_in_answer".to_owned(),
        |status| format!("http_{status}"),
    );
    let mut failure = said.failure(class, &code, "the endpoint reported an error in its answer");
    failure.data = Some(data(said.status, &said, &error.to_string()).into());
    Fault::unknown(failure)
}

/// `Retry-After` and its relative in ms. `now` is seconds since the epoch.
pub(crate) fn retry_after(
    header: Option<&str>,
    header_ms: Option<&str>,
    now: u64,
) -> Option<Millis> {
    let number = |text: &str| {
        text.trim()
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && *number >= 0.0)
    };
    if let Some(ms) = header_ms.and_then(number) {
        return Some(ms.ceil() as Millis);
    }
    let text = header?;
    if let Some(seconds) = number(text) {
        return Some((seconds * 1000.0).ceil() as Millis);
    }
    let at = httpdate::parse_http_date(text.trim()).ok()?;
    let at = at.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(at.saturating_sub(now) * 1000)
}

const fn class_of_status(status: u16) -> ErrorClass {
    match status {
        // The address or the model is not there; a redirect of a POST is an address that is wrong.
        300..=399 | 404 | 410 => ErrorClass::NotFound,
        401..=403 => ErrorClass::Unauthorized,
        408 => ErrorClass::Timeout,
        429 => ErrorClass::RateLimited,
        503 | 529 => ErrorClass::Overloaded,
        400..=499 => ErrorClass::InvalidInput,
        _ => ErrorClass::Unavailable,
    }
}

fn data(status: Option<u16>, said: &Said, body: &str) -> Value {
    let mut data = Map::new();
    if let Some(status) = status {
        data.insert("status".to_owned(), status.into());
    }
    if let Some(code) = &said.code {
        data.insert("provider_code".to_owned(), code.as_str().into());
    }
    if !body.is_empty() {
        data.insert("body".to_owned(), json!(body));
    }
    Value::Object(data)
}

/// What an error object says, whatever its shape.
#[derive(Debug, Default)]
struct Said {
    message: Option<String>,
    code: Option<String>,
    kind: Option<String>,
    status: Option<u16>,
}

impl Said {
    fn read(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::from_error(value.get("error").unwrap_or(&value)),
            Err(_) => Self::default(),
        }
    }

    fn from_error(error: &Value) -> Self {
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| {
            error
                .get(key)
                .and_then(Value::as_u64)
                .and_then(|code| u16::try_from(code).ok())
        };
        let message = error.as_str().map(str::to_owned);
        Self {
            message: message
                .or_else(|| text("message"))
                .or_else(|| text("detail")),
            code: text("code"),
            kind: text("type"),
            status: number("code")
                .or_else(|| number("status"))
                .filter(|status| (300..600).contains(status)),
        }
    }

    /// Words that say more than a status does.
    fn class_by_words(&self) -> Option<ErrorClass> {
        let filtered = [
            "content_filter",
            "content_policy_violation",
            "responsibleaipolicyviolation",
        ];
        let words = [self.code.as_deref(), self.kind.as_deref()];
        let is = |names: &[&str]| {
            words
                .iter()
                .flatten()
                .any(|word| names.contains(&word.to_lowercase().as_str()))
        };
        is(&filtered).then_some(ErrorClass::Refused)
    }

    /// The class by the type's name, for errors without a status.
    fn class_by_type(&self) -> Option<ErrorClass> {
        [&self.kind, &self.code]
            .into_iter()
            .flatten()
            .find_map(|word| match word.as_str() {
                "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => {
                    Some(ErrorClass::RateLimited)
                }
                "overloaded_error" | "overloaded" | "unavailable_error" => {
                    Some(ErrorClass::Overloaded)
                }
                "invalid_request_error"
                | "exceed_context_size_error"
                | "context_length_exceeded" => Some(ErrorClass::InvalidInput),
                "authentication_error" | "permission_error" | "invalid_api_key" => {
                    Some(ErrorClass::Unauthorized)
                }
                "not_found_error" | "model_not_found" => Some(ErrorClass::NotFound),
                "timeout" | "timeout_error" => Some(ErrorClass::Timeout),
                _ => None,
            })
    }

    fn failure(&self, class: ErrorClass, code: &str, sentence: &str) -> Failure {
        let message: Arc<str> = match &self.message {
            Some(message) => format!("{sentence}: {message}").into(),
            None => sentence.into(),
        };
        Failure::new(class, message).with_code(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_class_and_fate() {
        use ErrorClass::*;
        let cases = [
            (302, NotFound, Fate::NotDone),
            (400, InvalidInput, Fate::NotDone),
            (401, Unauthorized, Fate::NotDone),
            (402, Unauthorized, Fate::NotDone),
            (403, Unauthorized, Fate::NotDone),
            (404, NotFound, Fate::NotDone),
            (408, Timeout, Fate::NotDone),
            (413, InvalidInput, Fate::NotDone),
            (422, InvalidInput, Fate::NotDone),
            (429, RateLimited, Fate::NotDone),
            (500, Unavailable, Fate::Unknown),
            (502, Unavailable, Fate::Unknown),
            (503, Overloaded, Fate::NotDone),
            (504, Unavailable, Fate::Unknown),
            (529, Overloaded, Fate::NotDone),
        ];
        for (status, class, fate) in cases {
            let message = format!("the endpoint answered with status {status}");
            let failure = Failure::new(class, message)
                .with_code(format!("http_{status}"))
                .with_data(json!({ "status": status }));
            assert_eq!(
                from_status(status, "", None),
                Fault { fate, failure },
                "{status}"
            );
        }
    }

    #[test]
    fn a_content_filter_is_a_refusal_whatever_the_status() {
        let body = r#"{"error":{"message":"filtered","type":"invalid_request_error","code":"content_filter"}}"#;
        let failure = Failure::new(
            ErrorClass::Refused,
            "the endpoint answered with status 400: filtered",
        )
        .with_code("http_400")
        .with_data(json!({ "status": 400, "provider_code": "content_filter", "body": body }));
        assert_eq!(from_status(400, body, None), Fault::not_done(failure));
    }

    #[test]
    fn an_error_inside_an_answer_is_sorted_like_a_status() {
        let cases = [
            (
                json!({ "message": "slow", "code": 429 }),
                ErrorClass::RateLimited,
                Some("http_429"),
            ),
            (
                json!({ "message": "full", "type": "overloaded_error" }),
                ErrorClass::Overloaded,
                None,
            ),
            (
                json!({ "message": "long", "code": "context_length_exceeded" }),
                ErrorClass::InvalidInput,
                None,
            ),
            (json!("broken"), ErrorClass::Unavailable, None),
            (
                json!({ "message": "odd", "type": "who_knows" }),
                ErrorClass::Unavailable,
                None,
            ),
        ];
        for (error, class, code) in cases {
            let fault = from_error(&error);
            let found = (
                fault.fate,
                fault.failure.class,
                fault.failure.code.as_deref(),
            );
            assert_eq!(
                found,
                (Fate::Unknown, class, code.or(Some("error_in_answer"))),
                "{error}"
            );
        }
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        assert_eq!(retry_after(Some("30"), None, 0), Some(30_000));
        assert_eq!(retry_after(Some("1.5"), None, 0), Some(1_500));
        assert_eq!(retry_after(Some("30"), Some("250"), 0), Some(250));
        assert_eq!(
            retry_after(Some("Thu, 01 Jan 1970 00:01:00 GMT"), None, 20),
            Some(40_000)
        );
        assert_eq!(
            retry_after(Some("Thu, 01 Jan 1970 00:01:00 GMT"), None, 90),
            Some(0)
        );
        assert_eq!(retry_after(Some("soon"), None, 0), None);
        assert_eq!(retry_after(None, None, 0), None);
    }
}
