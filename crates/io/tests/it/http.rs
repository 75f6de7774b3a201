//! `http.*` against a real server on loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use ravel_core::effect::{ErrorClass, Failure, Fate, Outcome};
use ravel_core::event::{Attempt, Stop};
use ravel_core::port::{Executor, Request, SECRET_CLOSE, SECRET_OPEN};
use ravel_io::secret::Source;
use serde_json::{Value, json};

use crate::common::{Bench, Log, job};

/// What the server saw, as `METHOD path key`.
type Seen = Arc<Mutex<Vec<Value>>>;

struct Server {
    address: String,
    seen: Seen,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let seen = Seen::default();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(seen.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            seen,
            _runtime: runtime,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }
}

async fn answer(
    State(seen): State<Seen>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    seen.lock().unwrap().push(json!({
        "method": method.as_str(),
        "uri": uri.to_string(),
        "key": header("idempotency-key"),
        "auth": header("x-token"),
        "type": header("content-type"),
        "body": String::from_utf8_lossy(&body),
    }));
    match uri.path() {
        "/json" => (
            [("content-type", "application/json"), ("x-a", "1")],
            r#"{"n": 1}"#,
        )
            .into_response(),
        "/text" => "plain".into_response(),
        "/bytes" => ([("content-type", "image/png")], vec![0xFF_u8, 0xD8, 0x00]).into_response(),
        "/echo" => format!("token is {}", header("x-token").unwrap_or_default()).into_response(),
        "/large" => "x".repeat(100_000).into_response(),
        "/loop" => (StatusCode::FOUND, [("location", "/loop")]).into_response(),
        "/moved" => (StatusCode::MOVED_PERMANENTLY, [("location", "/json")]).into_response(),
        "/slow-down" => (
            StatusCode::TOO_MANY_REQUESTS,
            [("retry-after", "7")],
            "later",
        )
            .into_response(),
        "/hang" => std::future::pending().await,
        path => {
            if let Some(place) = path.strip_prefix("/away/") {
                return (
                    StatusCode::FOUND,
                    [("location", format!("http://{place}/echo"))],
                )
                    .into_response();
            }
            let status = path
                .strip_prefix("/status/")
                .and_then(|code| code.parse().ok())
                .unwrap_or(404);
            (StatusCode::from_u16(status).unwrap(), "body").into_response()
        }
    }
}

fn without_date(outcome: Outcome) -> Outcome {
    let mut value = outcome.result.unwrap().into_json();
    let headers = value["headers"].as_object_mut().unwrap();
    headers.shift_remove("date");
    Outcome::done(value.into())
}

#[test]
fn an_answer_is_json_text_or_a_file() {
    let (server, bench) = (Server::new(), Bench::new());
    let get = |path: &str| without_date(bench.tool("http.get", json!({ "url": server.url(path) })));
    let headers = json!({ "content-type": "application/json", "x-a": "1", "content-length": "8" });
    assert_eq!(
        get("/json"),
        Outcome::done(json!({ "status": 200, "headers": headers, "json": { "n": 1 } }).into())
    );
    let headers = json!({ "content-type": "text/plain; charset=utf-8", "content-length": "5" });
    assert_eq!(
        get("/text"),
        Outcome::done(json!({ "status": 200, "headers": headers, "text": "plain" }).into())
    );
    let headers = json!({ "content-type": "image/png", "content-length": "3" });
    let hash = blake3::hash(&[0xFF, 0xD8, 0x00]).to_hex().to_string();
    let file = json!({ "$file": hash, "name": "answer", "bytes": 3 });
    assert_eq!(
        get("/bytes"),
        Outcome::done(json!({ "status": 200, "headers": headers, "file": file }).into())
    );
}

#[test]
fn a_request_carries_query_body_and_key() {
    let (server, bench) = (Server::new(), Bench::new());
    let url = server.url("/text?a=1");
    bench.tool(
        "http.get",
        json!({ "url": url, "query": { "q": "ä b", "l": [1, 2], "n": null } }),
    );
    bench.tool("http.post", json!({ "url": url, "json": { "x": [1] } }));
    bench.tool("http.put", json!({ "url": url, "form": { "x": "a b", "y": 2 }, "headers": { "idempotency-key": "mine" } }));
    let request = |method: &str, uri: &str, key: Value, kind: Value, body: &str| json!({ "method": method, "uri": uri, "key": key, "auth": null, "type": kind, "body": body });
    let form = "application/x-www-form-urlencoded";
    let wanted = [
        request(
            "GET",
            "/text?a=1&q=%C3%A4+b&l=1&l=2",
            Value::Null,
            Value::Null,
            "",
        ),
        request(
            "POST",
            "/text?a=1",
            "key-1".into(),
            "application/json".into(),
            r#"{"x":[1]}"#,
        ),
        request("PUT", "/text?a=1", "mine".into(), form.into(), "x=a+b&y=2"),
    ];
    assert_eq!(server.seen(), wanted);
}

#[test]
fn a_refusal_is_not_done_and_a_broken_server_is_unknown() {
    let (server, bench) = (Server::new(), Bench::new());
    let call = |tool: &str, path: &str| bench.tool(tool, json!({ "url": server.url(path) }));
    let failure = |class, status: u16| {
        Failure::new(class, format!("127.0.0.1 answered {status}"))
            .with_code(format!("http_{status}"))
            .with_data(json!({ "status": status, "body": "body" }))
    };
    assert_eq!(
        call("http.post", "/status/404"),
        Outcome::not_done(failure(ErrorClass::NotFound, 404))
    );
    assert_eq!(
        call("http.post", "/status/500"),
        Outcome::unknown(failure(ErrorClass::ToolError, 500))
    );
    assert_eq!(
        call("http.get", "/status/500"),
        Outcome::unknown(failure(ErrorClass::Unavailable, 500))
    );
    assert_eq!(
        call("http.post", "/status/503"),
        Outcome::unknown(failure(ErrorClass::Overloaded, 503))
    );
    let mut limited =
        failure(ErrorClass::RateLimited, 429).with_data(json!({ "status": 429, "body": "later" }));
    limited.retry_after_ms = Some(7000);
    assert_eq!(call("http.post", "/slow-down"), Outcome::not_done(limited));
    let accepted = bench.tool(
        "http.get",
        json!({ "url": server.url("/status/404"), "ok": [404] }),
    );
    assert_eq!(without_date(accepted).result.unwrap().json()["status"], 404);
}

#[test]
fn a_server_that_is_not_there_is_not_done_and_one_that_hangs_up_is_unknown() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        // Reads the request, answers half, goes away. Twice, so that a repetition would be seen.
        let (mut connection, _) = listener.accept().unwrap();
        let _ = connection.read(&mut [0_u8; 4096]).unwrap();
        connection
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
            .unwrap();
        drop(connection);
        let (mut connection, _) = listener.accept().unwrap();
        let _ = connection.read(&mut [0_u8; 4096]).unwrap();
        drop(connection);
    });
    for _ in 0..2 {
        let outcome = bench.tool("http.post", json!({ "url": url, "text": "x" }));
        assert_eq!(outcome.fate, Fate::Unknown, "{outcome:?}");
        let failure = outcome.result.unwrap_err();
        assert_eq!(
            (failure.class, failure.code.as_deref()),
            (ErrorClass::Unavailable, Some("connection_lost"))
        );
    }
    server.join().unwrap();
    let outcome = bench.tool("http.post", json!({ "url": url }));
    assert_eq!(outcome.fate, Fate::NotDone, "{outcome:?}");
    let failure = outcome.result.unwrap_err();
    assert_eq!(
        (failure.class, failure.code.as_deref()),
        (ErrorClass::Unavailable, Some("connect"))
    );
}

#[test]
fn an_aborted_request_is_unknown() {
    let (server, bench) = (Server::new(), Bench::new());
    let log = Arc::new(Log::default());
    let input = json!({ "url": server.url("/hang") });
    let request = Request::Tool {
        name: "http.post".into(),
        input: input.into(),
    };
    bench.executor.start(job(request), log.clone());
    crate::common::wait_until("the request to arrive", || !server.seen().is_empty());
    bench
        .executor
        .abort("r1", Attempt { node: 3, number: 1 }, Stop::Deadline);
    let failure = Failure::new(ErrorClass::Deadline, "stopped: a deadline passed");
    assert_eq!(log.wait_for_ends(1).remove(0).1, Outcome::unknown(failure));
}

#[test]
fn redirects_are_followed_by_reads_up_to_a_limit() {
    let (server, bench) = (Server::new(), Bench::new());
    let moved = bench.tool("http.get", json!({ "url": server.url("/moved") }));
    assert_eq!(
        without_date(moved).result.unwrap().json()["json"],
        json!({ "n": 1 })
    );
    let looped = bench.tool("http.get", json!({ "url": server.url("/loop") }));
    let text = format!(
        "more than 5 redirects, the last one to {}",
        server.url("/loop")
    );
    assert_eq!(
        looped,
        Outcome::done_with(Failure::new(ErrorClass::ToolError, text).with_code("redirects"))
    );
    let posted = bench.tool("http.post", json!({ "url": server.url("/moved") }));
    assert_eq!(without_date(posted).result.unwrap().json()["status"], 301);
}

#[test]
fn an_answer_that_is_too_large_is_said_so() {
    let (server, bench) = (Server::new(), Bench::new());
    let outcome = bench.tool(
        "http.post",
        json!({ "url": server.url("/large"), "max_bytes": 1000 }),
    );
    let text = "the answer is larger than 1000 bytes (max_bytes)";
    let failure = Failure::new(ErrorClass::InvalidOutput, text).with_code("too_large");
    assert_eq!(outcome, Outcome::done_with(failure));
}

#[test]
fn a_secret_header_goes_to_its_host_only_and_is_scrubbed_from_what_comes_back() {
    let (server, other) = (Server::new(), Server::new());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "hunter2\n").unwrap();
    let bench = Bench::with(|config| {
        config
            .secrets
            .insert("token".to_owned(), Source::File(path));
    });
    let headers = json!({ "x-token": format!("Bearer {SECRET_OPEN}token{SECRET_CLOSE}") });
    let echoed = bench.tool(
        "http.get",
        json!({ "url": server.url("/echo"), "headers": headers }),
    );
    assert_eq!(
        without_date(echoed).result.unwrap().json()["text"],
        "token is Bearer [secret token]"
    );
    assert_eq!(server.seen()[0]["auth"], "Bearer hunter2");
    let place = other.address.strip_prefix("http://").unwrap();
    let away = bench.tool(
        "http.get",
        json!({ "url": server.url(&format!("/away/{place}")), "headers": headers }),
    );
    assert_eq!(
        without_date(away).result.unwrap().json()["text"],
        "token is "
    );
    assert_eq!(other.seen()[0]["auth"], Value::Null);
}
