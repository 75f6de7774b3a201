//! Each fault that a provider can have, against a scripted one on loopback: one call, the whole outcome.

mod fake;

use ravel_core::effect::{ErrorClass, Failure, Outcome, Usage};
use ravel_core::value::Val;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Call, Client};
use fake::{End, Fake, Log, Reply, Seen, call, config, delta, finish, request, usage};

/// The meta of a call of `hi`, with what a test adds or replaces.
fn meta(changes: Value) -> Value {
    let mut meta = json!({
        "provider": "p", "model": "small-1", "parameters": { "max_tokens": "passed" },
        "usage": "estimated", "delivered_chars": 0, "prices": "t1", "id": "c1",
    });
    for (key, value) in changes.as_object().unwrap() {
        meta[key] = value.clone();
    }
    // `null` in the changes: the key is absent.
    meta.as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    meta
}

/// Prompt and answer tokens at a dollar and two a million.
fn used(input: u64, output: u64) -> Usage {
    Usage {
        input_tokens: input,
        cached_tokens: 0,
        output_tokens: output,
        cost_microusd: input + 2 * output,
    }
}

fn no_id() -> Value {
    json!({ "model": "small", "id": null })
}

fn merged(mut one: Value, two: Value) -> Value {
    for (key, value) in two.as_object().unwrap() {
        one[key] = value.clone();
    }
    one
}

fn incomplete(why: &str) -> Failure {
    Failure::new(
        ErrorClass::Unavailable,
        format!("the answer broke off before its end: {why}"),
    )
    .with_code("incomplete")
}

#[tokio::test]
async fn a_streamed_answer_is_shown_and_booked() {
    let events = [delta("Hel"), delta("lo"), finish("stop"), usage(10, 4, 2)];
    let fake = Fake::start([Reply::events(&events).done()]).await;
    let (outcome, log) = call(&fake.client(json!({}), json!({})), &request()).await;
    // 6 × 1 + 4 × 0.1 + 2 × 2, rounded up.
    let usage = Usage {
        input_tokens: 6,
        cached_tokens: 4,
        output_tokens: 2,
        cost_microusd: 11,
    };
    let meta = meta(json!({ "usage": "reported", "delivered_chars": 5, "finish": "stop" }));
    let expected = Outcome::done(json!({ "text": "Hello" }).into())
        .with_usage(usage)
        .with_meta(meta);
    assert_eq!((outcome, log.text.as_str()), (expected, "Hello"));
    let seen = fake.seen();
    let expected = Seen {
        peer: seen[0].peer,
        authorization: None,
        key: Some("k1".to_owned()),
        team: Some("blue".to_owned()),
        body: json!({
            "model": "small", "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 60,
            "stream": true, "stream_options": { "include_usage": true }
        }),
    };
    assert_eq!(seen, vec![expected]);
}

#[tokio::test]
async fn an_answer_in_one_body_is_the_same_answer_asked_for_or_not() {
    let body = json!({
        "id": "c1", "model": "small-1",
        "choices": [{ "message": { "role": "assistant", "content": "Hello" }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 2 }
    });
    for quirks in [json!({ "stream": false }), json!({ "stream": true })] {
        let fake = Fake::start([Reply::json(200, &body)]).await;
        let (outcome, log) = call(&fake.client(quirks.clone(), json!({})), &request()).await;
        let meta = meta(json!({ "usage": "reported", "delivered_chars": 5, "finish": "stop" }));
        let expected = Outcome::done(json!({ "text": "Hello" }).into())
            .with_usage(used(3, 2))
            .with_meta(meta);
        assert_eq!((outcome, log.text.as_str()), (expected, "Hello"));
        assert_eq!(
            fake.seen()[0].body.get("stream"),
            quirks["stream"]
                .as_bool()
                .filter(|on| *on)
                .map(|_| &Value::Bool(true))
        );
    }
}

#[tokio::test]
async fn a_cut_stream_is_no_success_and_its_part_is_booked() {
    // 12 characters are 3 tokens, `hi` is 1.
    let meta = meta(json!({ "delivered_chars": 12 }));
    let fake = Fake::start([Reply::events(&[delta("Once upon"), delta(" a ")])]).await;
    let (outcome, log) = call(&fake.client(json!({}), json!({})), &request()).await;
    let failure = incomplete("neither a finish reason nor an end marker came");
    let expected = Outcome::unknown(failure)
        .with_usage(used(1, 3))
        .with_meta(meta.clone());
    assert_eq!((outcome, log.text.as_str()), (expected, "Once upon a "));

    let fake =
        Fake::start([Reply::events(&[delta("Once upon"), delta(" a ")]).raw("data: {\"choi")])
            .await;
    let (outcome, _) = call(&fake.client(json!({}), json!({})), &request()).await;
    let failure = incomplete("an event of the stream is not JSON");
    assert_eq!(
        outcome,
        Outcome::unknown(failure)
            .with_usage(used(1, 3))
            .with_meta(meta.clone())
    );

    let fake =
        Fake::start([Reply::events(&[delta("Once upon"), delta(" a ")]).ending(End::Break)]).await;
    let (outcome, _) = call(&fake.client(json!({}), json!({})), &request()).await;
    let why = "error reading a body from connection: unexpected EOF during chunk size line";
    assert_eq!(
        outcome,
        Outcome::unknown(incomplete(why))
            .with_usage(used(1, 3))
            .with_meta(meta)
    );
}

#[tokio::test]
async fn a_connection_lost_after_the_finish_reason_costs_nothing() {
    let fake =
        Fake::start([Reply::events(&[delta("Hi"), finish("stop")]).ending(End::Break)]).await;
    let (outcome, _) = call(&fake.client(json!({}), json!({})), &request()).await;
    let meta = meta(json!({ "delivered_chars": 2, "finish": "stop" }));
    assert_eq!(
        outcome,
        Outcome::done(json!({ "text": "Hi" }).into())
            .with_usage(used(1, 1))
            .with_meta(meta)
    );
}

#[tokio::test]
async fn an_error_after_200_before_the_first_token_is_that_error_and_costs_nothing() {
    let error = json!({ "error": { "message": "slow down", "code": 429 } });
    let data = json!({ "status": 429, "body": error["error"].to_string() });
    let failure = Failure::new(
        ErrorClass::RateLimited,
        "the endpoint reported an error in its answer: slow down",
    )
    .with_code("http_429")
    .with_data(data);
    let expected =
        Outcome::unknown(failure).with_meta(meta(merged(no_id(), json!({ "usage": "none" }))));
    for reply in [
        Reply::events(std::slice::from_ref(&error)),
        Reply::json(200, &error),
    ] {
        let fake = Fake::start([reply]).await;
        assert_eq!(
            call(&fake.client(json!({}), json!({})), &request()).await.0,
            expected
        );
    }
}

#[tokio::test]
async fn an_error_in_mid_stream_says_how_much_was_delivered() {
    let error = json!({ "error": { "message": "full", "type": "overloaded_error" } });
    let fake = Fake::start([Reply::events(&[delta("Once"), error.clone()])]).await;
    let (outcome, log) = call(&fake.client(json!({}), json!({})), &request()).await;
    let failure = Failure::new(
        ErrorClass::Overloaded,
        "the endpoint reported an error in its answer: full",
    )
    .with_code("error_in_answer")
    .with_data(json!({ "body": error["error"].to_string() }));
    let expected = Outcome::unknown(failure)
        .with_usage(used(1, 1))
        .with_meta(meta(json!({ "delivered_chars": 4 })));
    assert_eq!((outcome, log.text.as_str()), (expected, "Once"));
}

#[tokio::test]
async fn a_rate_limit_is_reported_with_its_wait_and_not_retried_here() {
    let reply =
        Reply::json(429, &json!({ "error": { "message": "later" } })).header("retry-after", "30");
    let fake = Fake::start([reply]).await;
    let (outcome, _) = call(&fake.client(json!({}), json!({})), &request()).await;
    let mut failure = Failure::new(
        ErrorClass::RateLimited,
        "the endpoint answered with status 429: later",
    )
    .with_code("http_429")
    .with_data(json!({ "status": 429, "body": "{\"error\":{\"message\":\"later\"}}" }));
    failure.retry_after_ms = Some(30_000);
    let expected =
        Outcome::not_done(failure).with_meta(meta(merged(no_id(), json!({ "usage": "none" }))));
    assert_eq!((outcome, fake.seen().len()), (expected, 1));
}

#[tokio::test]
async fn the_last_usage_of_a_stream_is_the_bill() {
    let events = [
        delta("Hi"),
        usage(2006, 0, 1),
        finish("stop"),
        usage(2006, 1920, 300),
    ];
    let fake = Fake::start([Reply::events(&events).done()]).await;
    let (outcome, _) = call(&fake.client(json!({}), json!({})), &request()).await;
    let usage = Usage {
        input_tokens: 86,
        cached_tokens: 1920,
        output_tokens: 300,
        cost_microusd: 86 + 192 + 600,
    };
    let meta = meta(json!({ "usage": "reported", "delivered_chars": 2, "finish": "stop" }));
    assert_eq!(
        outcome,
        Outcome::done(json!({ "text": "Hi" }).into())
            .with_usage(usage)
            .with_meta(meta)
    );
}

#[tokio::test]
async fn a_stall_after_the_first_tokens_ends_at_the_idle_timeout() {
    let (guard, _gone) = oneshot::channel();
    let reply = Reply::events(&[delta("Once")])
        .raw(": keep-alive\n\n")
        .ending(End::Stall(guard));
    let fake = Fake::start([reply]).await;
    let (outcome, _) = call(
        &fake.client(json!({}), json!({ "idle_timeout_ms": 50 })),
        &request(),
    )
    .await;
    let failure = Failure::new(
        ErrorClass::Timeout,
        "no token came for 50 ms (the provider's limits.idle_timeout_ms)",
    )
    .with_code("idle_timeout");
    let expected = Outcome::unknown(failure)
        .with_usage(used(1, 1))
        .with_meta(meta(json!({ "delivered_chars": 4 })));
    assert_eq!(outcome, expected);
}

#[tokio::test]
async fn comments_are_no_first_token() {
    let (guard, _gone) = oneshot::channel();
    let reply = Reply::events(&[])
        .raw(": processing\n\n")
        .ending(End::Stall(guard));
    let fake = Fake::start([reply]).await;
    let limits = json!({ "first_token_timeout_ms": 50 });
    let (outcome, _) = call(&fake.client(json!({}), limits), &request()).await;
    let failure = Failure::new(
        ErrorClass::Timeout,
        "no token came within 50 ms (the provider's limits.first_token_timeout_ms)",
    )
    .with_code("first_token_timeout");
    assert_eq!(
        outcome,
        Outcome::unknown(failure)
            .with_usage(used(1, 0))
            .with_meta(meta(no_id()))
    );
}

#[tokio::test]
async fn a_whole_answer_does_not_wait_for_an_end_marker_that_never_comes() {
    let (guard, _gone) = oneshot::channel();
    let reply = Reply::events(&[delta("Hi"), finish("stop")]).ending(End::Stall(guard));
    let fake = Fake::start([reply]).await;
    let (outcome, _) = call(
        &fake.client(json!({}), json!({ "tail_timeout_ms": 20 })),
        &request(),
    )
    .await;
    let meta = meta(json!({ "delivered_chars": 2, "finish": "stop" }));
    assert_eq!(
        outcome,
        Outcome::done(json!({ "text": "Hi" }).into())
            .with_usage(used(1, 1))
            .with_meta(meta)
    );
}

#[tokio::test]
async fn an_abort_closes_the_connection_and_books_what_came() {
    let (guard, gone) = oneshot::channel();
    let fake = Fake::start([Reply::events(&[delta("Once")]).ending(End::Stall(guard))]).await;
    let client = fake.client(json!({}), json!({}));
    let (sender, receiver) = oneshot::channel();
    let mut log = Log {
        at_first_text: Some(sender),
        ..Log::default()
    };
    let failure = Failure::new(ErrorClass::Cancelled, "stopped");
    let stopped = failure.clone();
    let abort = async move {
        receiver.await.unwrap();
        stopped
    };
    let request = request();
    let outcome = client
        .call(
            Call {
                run: "r",
                request: &request,
                key: "k1",
                stream: None,
            },
            abort,
            &mut log,
        )
        .await;
    let expected = Outcome::unknown(failure)
        .with_usage(used(1, 1))
        .with_meta(meta(json!({ "delivered_chars": 4 })));
    assert_eq!(outcome, expected);
    assert!(
        gone.await.is_err(),
        "the provider sees that the client is gone"
    );
}

#[tokio::test]
async fn an_abort_before_the_call_sends_nothing() {
    let fake = Fake::start([]).await;
    let failure = Failure::new(ErrorClass::Cancelled, "stopped");
    let request = request();
    let call = Call {
        run: "r",
        request: &request,
        key: "k1",
        stream: None,
    };
    let client = fake.client(json!({}), json!({}));
    let outcome = client
        .call(
            call,
            std::future::ready(failure.clone()),
            &mut Log::default(),
        )
        .await;
    let expected =
        Outcome::not_done(failure).with_meta(meta(merged(no_id(), json!({ "usage": "none" }))));
    assert_eq!((outcome, fake.seen()), (expected, Vec::new()));
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_did_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(config(&url, json!({}), json!({})), None);
    let message = "the endpoint cannot be reached: client error (Connect): tcp connect error: Connection refused (os error 111)";
    let failure = Failure::new(ErrorClass::Unavailable, message).with_code("not_reached");
    let expected =
        Outcome::not_done(failure).with_meta(meta(merged(no_id(), json!({ "usage": "none" }))));
    assert_eq!(call(&client, &request()).await.0, expected);
}

#[tokio::test]
async fn a_key_is_sent_and_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    std::fs::write(&path, "s3cret\n").unwrap();
    let reply = Reply::json(401, &json!({ "error": { "message": "wrong key: s3cret" } }));
    let fake = Fake::start([reply]).await;
    let mut config = config(&fake.url, json!({}), json!({}));
    config.providers.get_mut("p").unwrap().key = Some(super::KeySource::File(path.clone()));
    let (outcome, _) = call(&Client::new(config.clone(), None), &request()).await;
    let failure = Failure::new(
        ErrorClass::Unauthorized,
        "the endpoint answered with status 401: wrong key: [key]",
    )
    .with_code("http_401")
    .with_data(json!({ "status": 401, "body": "{\"error\":{\"message\":\"wrong key: [key]\"}}" }));
    let expected =
        Outcome::not_done(failure).with_meta(meta(merged(no_id(), json!({ "usage": "none" }))));
    assert_eq!(outcome, expected);
    assert_eq!(
        fake.seen()[0].authorization.as_deref(),
        Some("Bearer s3cret")
    );

    std::fs::write(&path, "\n").unwrap();
    let (outcome, _) = call(&Client::new(config, None), &request()).await;
    let message = format!(
        "the endpoint's key is missing: file `{}` is not set, not readable or empty",
        path.display()
    );
    let failure = Failure::new(ErrorClass::Unauthorized, message).with_code("key_missing");
    assert_eq!(
        (outcome, fake.seen().len()),
        (Outcome::not_done(failure), 1)
    );
}

#[tokio::test]
async fn a_schema_is_asked_for_and_an_answer_in_a_fence_is_read() {
    let events = [
        delta("Sure!\n```json\n{\"team\": "),
        delta("\"tech\"}\n```"),
        finish("stop"),
        usage(9, 0, 9),
    ];
    let fake = Fake::start([Reply::events(&events).done()]).await;
    let schema = json!({
        "type": "object", "properties": { "team": { "enum": ["tech", "sales"] } }, "required": ["team"], "additionalProperties": false
    });
    let request = ravel_core::port::ModelRequest {
        schema: Some(schema.clone().into()),
        ..request()
    };
    let (outcome, _) = call(&fake.client(json!({}), json!({})), &request).await;
    let meta = meta(json!({
        "usage": "reported", "finish": "stop", "delivered_chars": 34,
        "parameters": { "schema": "passed", "max_tokens": "passed" }
    }));
    assert_eq!(
        outcome,
        Outcome::done(json!({ "team": "tech" }).into())
            .with_usage(used(9, 9))
            .with_meta(meta)
    );
    let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": schema } });
    assert_eq!(fake.seen()[0].body["response_format"], format);
}

#[tokio::test]
async fn elements_of_a_streamed_field_come_before_the_end() {
    let events = [
        delta("{\"items\":[{\"a\":1},{\"a\""),
        delta(":2}"),
        delta(",3"),
        delta("]}"),
        finish("stop"),
    ];
    let fake = Fake::start([Reply::events(&events).done()]).await;
    let mut log = Log::default();
    let request = ravel_core::port::ModelRequest {
        schema: Some(json!({ "type": "object" }).into()),
        ..request()
    };
    let call = Call {
        run: "r",
        request: &request,
        key: "k1",
        stream: Some("items"),
    };
    let client = fake.client(json!({}), json!({}));
    let outcome = client
        .call(call, std::future::pending::<Failure>(), &mut log)
        .await;
    let items = |items: Value| {
        items
            .as_array()
            .unwrap()
            .iter()
            .cloned()
            .map(Val::new)
            .collect::<Vec<_>>()
    };
    let expected = vec![
        items(json!([{ "a": 1 }])),
        items(json!([{ "a": 2 }])),
        items(json!([3])),
    ];
    assert_eq!(
        (outcome.result, log.items),
        (
            Ok(json!({ "items": [{ "a": 1 }, { "a": 2 }, 3] }).into()),
            expected
        )
    );
}

#[tokio::test]
async fn connections_are_kept_when_asked_for_and_never_to_loopback_unasked() {
    for (quirks, kept) in [(json!({}), false), (json!({ "connections": "keep" }), true)] {
        let reply = || Reply::events(&[delta("Hi"), finish("stop")]).done();
        let fake = Fake::start([reply(), reply()]).await;
        let client = fake.client(quirks, json!({}));
        for _ in 0..2 {
            assert!(call(&client, &request()).await.0.result.is_ok());
        }
        let seen = fake.seen();
        assert_eq!((seen.len(), seen[0].peer == seen[1].peer), (2, kept));
    }
}

#[tokio::test]
async fn an_answer_above_the_limit_is_refused() {
    let fake = Fake::start([Reply::events(&[delta(&"x".repeat(500))])]).await;
    let (outcome, _) = call(
        &fake.client(json!({}), json!({ "answer_bytes_max": 100 })),
        &request(),
    )
    .await;
    let message = "the answer is larger than 100 bytes (the provider's limits.answer_bytes_max)";
    let failure = Failure::new(ErrorClass::InvalidOutput, message).with_code("too_large");
    assert_eq!(
        outcome,
        Outcome::unknown(failure)
            .with_usage(used(1, 0))
            .with_meta(meta(no_id()))
    );
}
