//! From an answer to an outcome.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ravel_core::effect::{ErrorClass, Failure, Fate, Outcome};
use ravel_core::expr::exact_json;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::ask::Wanted;
use super::{FAILURE_BODY_BYTES_MAX, IDLE_MS_MAX, lost};
use crate::model::fault::retry_after;
use crate::model::transport;
use crate::tool::{Context, Fault};

/// Reads the answer and says what it means.
pub(super) async fn judge(
    context: &Context,
    input: &Value,
    wanted: &Wanted,
    response: Response,
    most: u64,
) -> Outcome {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let accepted = input.get("ok").and_then(Value::as_array);
    let accepted =
        accepted.is_some_and(|ok| ok.iter().any(|one| one.as_u64() == Some(status.into())));
    let good = status < 400 || accepted;
    let keep = if good {
        most
    } else {
        FAILURE_BODY_BYTES_MAX as u64
    };
    let (bytes, end) = read(response, keep).await;
    if !good {
        // The status is known; of the body, what came is enough.
        let body = match end {
            // The cut may have gone through a secret.
            End::TooLarge => context.secrets.scrub_cut(&text_before_cut(&bytes)),
            End::Whole | End::Lost(_) => String::from_utf8_lossy(&bytes).into_owned(),
        };
        return refused(status, &headers, &body, wanted);
    }
    match end {
        End::Whole => {}
        End::Lost(causes) => {
            return lost(wanted.url.host_str().unwrap_or_default(), &causes).into();
        }
        End::TooLarge => {
            let text = format!("the answer is larger than {most} bytes (max_bytes)");
            return Outcome::done_with(
                Failure::new(ErrorClass::InvalidOutput, text).with_code("too_large"),
            );
        }
    }
    match value(context, status, &headers, bytes) {
        Ok(value) => Outcome::done(value.into()),
        Err(error) => {
            let text = format!("the answer cannot be stored: {error}");
            Outcome::done_with(Failure::new(ErrorClass::Internal, text))
        }
    }
}

/// How reading ended.
enum End {
    Whole,
    Lost(String),
    TooLarge,
}

/// Reads at most `most` bytes.
async fn read(mut response: Response, most: u64) -> (Vec<u8>, End) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    loop {
        match timeout(Duration::from_millis(IDLE_MS_MAX), response.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
            Ok(Ok(None)) => return (bytes, End::Whole),
            Ok(Err(error)) => return (bytes, End::Lost(transport::causes(&error))),
            Err(_) => return (bytes, End::Lost(format!("silent for {IDLE_MS_MAX} ms"))),
        }
        if bytes.len() > most {
            bytes.truncate(most);
            return (bytes, End::TooLarge);
        }
    }
}

fn value(
    context: &Context,
    status: u16,
    headers: &HeaderMap,
    body: Vec<u8>,
) -> std::io::Result<Value> {
    let mut value = Map::new();
    value.insert("status".to_owned(), status.into());
    value.insert("headers".to_owned(), headers_of(headers));
    let parsed = if is_json(headers) {
        std::str::from_utf8(&body)
            .ok()
            .and_then(|text| exact_json(text).ok())
    } else {
        None
    };
    match (parsed, String::from_utf8(body)) {
        (Some(parsed), _) => value.insert("json".to_owned(), parsed),
        (None, Ok(text)) if text.is_empty() => None,
        (None, Ok(text)) => value.insert("text".to_owned(), text.into()),
        (None, Err(error)) => {
            let bytes = error.into_bytes();
            let file =
                tokio::task::block_in_place(|| context.files.put("answer", bytes.as_slice()))?;
            value.insert("file".to_owned(), file.to_json())
        }
    };
    Ok(Value::Object(value))
}

fn headers_of(headers: &HeaderMap) -> Value {
    let mut all: Map<String, Value> = Map::new();
    for name in headers.keys() {
        let values: Vec<_> = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        all.insert(name.to_string(), values.join(", ").into());
    }
    Value::Object(all)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// What a status says about the effect, and the class of its error.
fn meaning(status: u16, safe: bool) -> (Fate, ErrorClass) {
    match status {
        401 | 403 => (Fate::NotDone, ErrorClass::Unauthorized),
        404 | 410 => (Fate::NotDone, ErrorClass::NotFound),
        // It gave up waiting for the rest of the request: what it did with the beginning is not known.
        408 => (Fate::Unknown, ErrorClass::Timeout),
        400 | 422 => (Fate::NotDone, ErrorClass::InvalidInput),
        429 => (Fate::NotDone, ErrorClass::RateLimited),
        400..=499 => (Fate::NotDone, ErrorClass::ToolError),
        503 | 529 => (Fate::Unknown, ErrorClass::Overloaded),
        502 | 504 => (Fate::Unknown, ErrorClass::Unavailable),
        _ if safe => (Fate::Unknown, ErrorClass::Unavailable),
        _ => (Fate::Unknown, ErrorClass::ToolError),
    }
}

/// Bytes that were cut off somewhere, as text: without the character that the cut may have gone through.
fn text_before_cut(bytes: &[u8]) -> Cow<'_, str> {
    let begins = |byte: &u8| byte & 0xC0 != 0x80;
    let last = bytes
        .iter()
        .rposition(begins)
        .filter(|at| !bytes[*at].is_ascii());
    String::from_utf8_lossy(&bytes[..last.unwrap_or(bytes.len())])
}

fn refused(status: u16, headers: &HeaderMap, body: &str, wanted: &Wanted) -> Outcome {
    let (fate, class) = meaning(status, wanted.method.is_safe());
    let host = wanted.url.host_str().unwrap_or_default();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let mut failure = Failure::new(class, format!("{host} answered {status}"))
        .with_code(format!("http_{status}"))
        .with_data(json!({ "status": status, "body": body }));
    failure.retry_after_ms =
        retry_after(header(RETRY_AFTER.as_str()), header("retry-after-ms"), now);
    Fault { fate, failure }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_became_of_the_effect() {
        let wanted = [
            (400, Fate::NotDone, ErrorClass::InvalidInput),
            (401, Fate::NotDone, ErrorClass::Unauthorized),
            (403, Fate::NotDone, ErrorClass::Unauthorized),
            (404, Fate::NotDone, ErrorClass::NotFound),
            (408, Fate::Unknown, ErrorClass::Timeout),
            (409, Fate::NotDone, ErrorClass::ToolError),
            (422, Fate::NotDone, ErrorClass::InvalidInput),
            (429, Fate::NotDone, ErrorClass::RateLimited),
            (500, Fate::Unknown, ErrorClass::ToolError),
            (502, Fate::Unknown, ErrorClass::Unavailable),
            (503, Fate::Unknown, ErrorClass::Overloaded),
            (529, Fate::Unknown, ErrorClass::Overloaded),
        ];
        for (status, fate, class) in wanted {
            assert_eq!(meaning(status, false), (fate, class), "{status}");
        }
        assert_eq!(meaning(500, true), (Fate::Unknown, ErrorClass::Unavailable));
    }
}
