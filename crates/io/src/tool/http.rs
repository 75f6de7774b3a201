//! `http.*`: one request, one answer.
//!
//! What an answer says about the effect: 2xx is done; 4xx is not done, because the other side says that it refused;
//! 5xx, 408, and a connection lost after the request left are unknown.

mod answer;
mod ask;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ravel_core::effect::{Effect, ErrorClass, Failure, Millis, Outcome};
use reqwest::{Method, StatusCode, Url};
use serde_json::{Value, json};

use super::{Ask, Call, Context, Fault, Tool, number_of};
use crate::abort::stopped;
use crate::model::{Connections, Limits, transport};
use ask::Wanted;

/// Longest wait for a connection, ms.
pub const CONNECT_MS_MAX: Millis = 10_000;
/// Longest silence of the other side while its answer is read, ms.
pub const IDLE_MS_MAX: Millis = 120_000;
/// Largest answer, bytes, unless the step says `max_bytes`.
pub const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most redirects that are followed; only requests that change nothing follow any.
pub const REDIRECTS_MAX: u32 = 5;
/// Most bytes of an answer that are kept in a failure.
pub const FAILURE_BODY_BYTES_MAX: usize = 4096;

/// What the connections of the model client and ours differ in.
const LIMITS: Limits = Limits {
    connect_timeout_ms: CONNECT_MS_MAX,
    ..Limits::DEFAULT
};

macro_rules! tools {
    ($($name:ident $call:ident $method:ident $effect:ident $body:literal $doc:literal $example:literal)*) => {$(
        pub(super) static $name: Tool = Tool {
            name: concat!("http.", stringify!($call)),
            doc: $doc,
            effect: Effect::$effect,
            input: || input($body),
            output: || output(stringify!($call) != "head"),
            example: $example,
            rule: Some(ask::rule),
            call: Call::Task($call),
        };

        fn $call<'a>(context: &'a Context, ask: Ask<'a>) -> BoxFuture<'a, Outcome> {
            carry_out(context, ask, Method::$method).boxed()
        }
    )*};
}

tools! {
    DELETE delete DELETE Write true
        "Deletes what is at a URL. May be repeated with the same key."
        r#"{"url": "https://api.example.com/items/7"}"#
    GET get GET Read false
        "Gets what is at a URL. Follows redirects; headers with secrets go to the first host only."
        r#"{"url": "https://api.example.com/items", "query": {"page": 2}, "headers": {"accept": "application/json"}}"#
    HEAD head HEAD Read false
        "Gets the status and the headers of a URL."
        r#"{"url": "https://api.example.com/items"}"#
    PATCH patch PATCH Once true
        "Changes a part of what is at a URL."
        r#"{"url": "https://api.example.com/items/7", "json": {"price": 9}}"#
    POST post POST Once true
        "Sends something to a URL. The step's key goes along as `Idempotency-Key`."
        r#"{"url": "https://api.example.com/items", "json": {"name": "pen"}}"#
    PUT put PUT Write true
        "Puts something at a URL. May be repeated with the same key."
        r#"{"url": "https://api.example.com/items/7", "json": {"name": "pen", "price": 9}}"#
}

fn input(body: bool) -> Value {
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let plain = json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean", "null", "array"] } });
    let mut fields = json!({
        "url": { "type": "string", "pattern": "^https?://" },
        "query": plain,
        "headers": texts,
        "ok": {
            "type": "array",
            "items": { "type": "integer", "minimum": 100, "maximum": 599 },
            "description": "further statuses that are a result, not an error",
        },
        "max_bytes": { "type": "integer", "minimum": 1, "default": BODY_BYTES_MAX, "description": "largest answer" },
    });
    if let (true, Some(fields)) = (body, fields.as_object_mut()) {
        fields.insert("json".to_owned(), json!({ "description": "sent as JSON" }));
        fields.insert(
            "text".to_owned(),
            json!({ "type": "string", "description": "sent as it is" }),
        );
        fields.insert("form".to_owned(), with_note(plain, "sent as a form"));
    }
    json!({
        "type": "object",
        "properties": fields,
        "required": ["url"],
        "additionalProperties": false,
    })
}

fn with_note(mut schema: Value, note: &str) -> Value {
    schema["description"] = note.into();
    schema
}

fn output(body: bool) -> Value {
    let mut fields = json!({ "status": { "type": "integer" }, "headers": { "type": "object" } });
    if let (true, Some(fields)) = (body, fields.as_object_mut()) {
        fields.insert(
            "json".to_owned(),
            json!({ "description": "when the answer is JSON" }),
        );
        fields.insert(
            "text".to_owned(),
            json!({ "type": "string", "description": "when it is other text" }),
        );
        let file = json!({ "type": "object", "properties": { "$file": { "type": "string" } } });
        fields.insert("file".to_owned(), with_note(file, "when it is not text"));
    }
    json!({
        "type": "object",
        "properties": fields,
        "required": ["status", "headers"],
        "additionalProperties": false,
    })
}

/// One request to its end, whatever that is.
async fn carry_out(context: &Context, ask: Ask<'_>, method: Method) -> Outcome {
    let wanted = match Wanted::read(context, ask, method) {
        Ok(wanted) => wanted,
        Err(failure) => return Outcome::not_done(failure),
    };
    if let Some(why) = ask.abort.stopped() {
        return Outcome::not_done(stopped(why));
    }
    tokio::select! {
        biased;
        // The request may be anywhere between here and there.
        why = ask.abort.wait() => Outcome::unknown(stopped(why)),
        outcome = exchange(context, ask, wanted) => outcome,
    }
}

async fn exchange(context: &Context, ask: Ask<'_>, mut wanted: Wanted) -> Outcome {
    for _ in 0..=REDIRECTS_MAX {
        let response = match send(context, &wanted).await {
            Ok(response) => response,
            Err(fault) => return fault.into(),
        };
        match redirect(&wanted, &response) {
            Some(Ok(next)) => wanted.redirect(next),
            Some(Err(failure)) => return Outcome::done_with(failure),
            None => {
                let most = number_of(ask.input, "max_bytes", BODY_BYTES_MAX);
                return answer::judge(context, ask.input, &wanted, response, most).await;
            }
        }
    }
    let text = format!(
        "more than {REDIRECTS_MAX} redirects, the last one to {}",
        wanted.url
    );
    Outcome::done_with(Failure::new(ErrorClass::ToolError, text).with_code("redirects"))
}

async fn send(context: &Context, wanted: &Wanted) -> Result<reqwest::Response, Fault> {
    let host = wanted.url.host_str().unwrap_or_default();
    // A kept connection may have been closed by the other side just now. A read is tried again; a write would be
    // uncertain for nothing.
    let connections = if wanted.method.is_safe() {
        Connections::Auto
    } else {
        Connections::Fresh
    };
    let client = context
        .transport
        .client(&wanted.url, &LIMITS, connections)
        .map_err(|error| {
            let text = format!("no HTTP client can be made: {error}");
            Fault::not_done(Failure::new(ErrorClass::Internal, text))
        })?;
    let request = wanted.request(&client);
    request.send().await.map_err(|error| {
        let causes = transport::causes(&error);
        if error.is_builder() {
            return Fault::not_done(super::invalid(format!(
                "the request cannot be made: {causes}"
            )));
        }
        let text = format!("{host} cannot be reached: {causes}");
        if error.is_connect() {
            return Fault::not_done(
                Failure::new(ErrorClass::Unavailable, text).with_code("connect"),
            );
        }
        lost(host, &causes)
    })
}

/// The connection went away after the request had left.
fn lost(host: &str, causes: &str) -> Fault {
    let text = format!("the connection to {host} was lost: {causes}");
    Fault::unknown(Failure::new(ErrorClass::Unavailable, text).with_code("connection_lost"))
}

/// Where the answer sends us on to, if we follow.
fn redirect(wanted: &Wanted, response: &reqwest::Response) -> Option<Result<Url, Failure>> {
    let follows = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !wanted.method.is_safe() || !follows.contains(&response.status()) {
        return None;
    }
    let place = response
        .headers()
        .get(reqwest::header::LOCATION)?
        .to_str()
        .ok()?;
    Some(next(&wanted.url, place))
}

/// The address that a redirect names, when it may be gone to.
fn next(from: &Url, place: &str) -> Result<Url, Failure> {
    let refuse = |text: String| {
        Err(Failure::new(ErrorClass::PolicyDenied, text).with_code("redirect_refused"))
    };
    match from.join(place) {
        Ok(next) if !matches!(next.scheme(), "http" | "https") => {
            refuse(format!("a redirect to {} is not followed", next.scheme()))
        }
        Ok(next) if from.scheme() == "https" && next.scheme() == "http" => {
            refuse("a redirect from https to http is not followed".to_owned())
        }
        Ok(next) => Ok(next),
        Err(error) => refuse(format!("the redirect's address is not valid: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_leaves_the_web_and_never_gives_up_encryption() {
        let from = Url::parse("https://a.example/x/y").unwrap();
        let refused = |text: &str| {
            Err(Failure::new(ErrorClass::PolicyDenied, text).with_code("redirect_refused"))
        };
        for (place, wanted) in [
            ("z", Ok("https://a.example/x/z")),
            ("//b.example/", Ok("https://b.example/")),
            (
                "http://a.example/",
                Err("a redirect from https to http is not followed"),
            ),
            (
                "file:///etc/passwd",
                Err("a redirect to file is not followed"),
            ),
            (
                "FILE:/etc/passwd",
                Err("a redirect to file is not followed"),
            ),
            (
                "gopher://a.example/",
                Err("a redirect to gopher is not followed"),
            ),
        ] {
            let wanted = wanted.map_or_else(refused, |url| Ok(Url::parse(url).unwrap()));
            assert_eq!(next(&from, place), wanted, "{place}");
        }
    }
}
