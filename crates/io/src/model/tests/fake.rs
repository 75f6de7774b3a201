//! A scripted provider on loopback.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use ravel_core::effect::{Failure, Outcome};
use ravel_core::port::ModelRequest;
use ravel_core::value::Val;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::super::{Call, Client, Config, Sink};

/// How a scripted stream ends.
pub(super) enum End {
    /// The body ends as HTTP wants it.
    Close,
    /// The connection breaks.
    Break,
    /// Nothing more comes, and the socket stays open. The sender is dropped when the client goes.
    Stall(oneshot::Sender<()>),
}

/// One answer of the provider.
pub(super) struct Reply {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    pieces: Vec<String>,
    end: End,
}

impl Reply {
    /// A body of JSON.
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type", "application/json")],
            pieces: vec![body.to_string()],
            end: End::Close,
        }
    }

    /// A stream of events.
    pub(super) fn events(events: &[Value]) -> Self {
        let pieces = events
            .iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect();
        Self {
            status: 200,
            headers: vec![("content-type", "text/event-stream; charset=utf-8")],
            pieces,
            end: End::Close,
        }
    }

    /// The same with the end marker.
    pub(super) fn done(mut self) -> Self {
        self.pieces.push("data: [DONE]\n\n".to_owned());
        self
    }

    /// The same with another end.
    pub(super) fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// The same with a header.
    pub(super) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same with raw text after what it has.
    pub(super) fn raw(mut self, text: &str) -> Self {
        self.pieces.push(text.to_owned());
        self
    }

    fn response(self) -> Response<Body> {
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        let pieces = stream::iter(
            self.pieces
                .into_iter()
                .map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece))),
        );
        let tail = match self.end {
            End::Close => stream::empty().boxed(),
            End::Break => stream::once(async {
                // The server writes what it has while the body is pending.
                tokio::task::yield_now().await;
                Err(std::io::Error::other("scripted"))
            })
            .boxed(),
            End::Stall(guard) => stream::once(async move {
                std::future::pending::<()>().await;
                drop(guard);
                Ok(Bytes::new())
            })
            .boxed(),
        };
        response
            .body(Body::from_stream(pieces.chain(tail)))
            .unwrap()
    }
}

/// A request that the provider saw.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) peer: SocketAddr,
    pub(super) authorization: Option<String>,
    pub(super) key: Option<String>,
    pub(super) team: Option<String>,
    pub(super) body: Value,
}

#[derive(Clone, Default)]
struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// The provider. Stops when it is dropped.
pub(super) struct Fake {
    pub(super) url: String,
    script: Script,
    _server: JoinSet<()>,
}

impl Fake {
    /// Starts a provider that gives these answers, one a call.
    pub(super) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Script {
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            ..Script::default()
        };
        let app = Router::new().fallback(answer).with_state(script.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut server = JoinSet::new();
        server.spawn(async move {
            axum::serve(
                listener,
                app.into_make_service_with_connect_info::<SocketAddr>(),
            )
            .await
            .unwrap();
        });
        Self {
            url,
            script,
            _server: server,
        }
    }

    /// What it was asked.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.script.seen.lock().unwrap().clone()
    }

    /// A client with this provider as `p`, with these quirks and limits, and the alias `fast`.
    pub(super) fn client(&self, quirks: Value, limits: Value) -> Client {
        Client::new(config(&self.url, quirks, limits), None)
    }
}

/// The configuration of [`Fake::client`].
pub(super) fn config(url: &str, quirks: Value, limits: Value) -> Config {
    let prices =
        json!({ "version": "t1", "input": 1_000_000, "cached": 100_000, "output": 2_000_000 });
    serde_json::from_value(json!({
        "providers": { "p": {
            "url": url, "quirks": quirks, "limits": limits, "headers": { "x-team": "blue" },
            "models": { "small": { "prices": prices } }
        } },
        "models": { "fast": "p/small" },
    }))
    .unwrap()
}

async fn answer(
    State(script): State<Script>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let header = |name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let seen = Seen {
        peer,
        authorization: header("authorization"),
        key: header("idempotency-key"),
        team: header("x-team"),
        body: serde_json::from_slice(&body).unwrap(),
    };
    script.seen.lock().unwrap().push(seen);
    let reply = script.replies.lock().unwrap().pop_front();
    reply.map_or_else(
        || Response::new(Body::from("the script is over")),
        Reply::response,
    )
}

/// Keeps what a call shows; at its first text it can call somebody.
#[derive(Default)]
pub(super) struct Log {
    pub(super) text: String,
    pub(super) items: Vec<Vec<Val>>,
    pub(super) at_first_text: Option<oneshot::Sender<()>>,
}

impl Sink for Log {
    fn text(&mut self, text: &str) {
        self.text.push_str(text);
        if let Some(sender) = self.at_first_text.take() {
            let _ = sender.send(());
        }
    }

    fn items(&mut self, items: Vec<Val>) {
        self.items.push(items);
    }
}

/// `hi` to `fast`.
pub(super) fn request() -> ModelRequest {
    ModelRequest {
        model: "fast".into(),
        messages: vec![json!({ "role": "user", "content": "hi" }).into()],
        schema: None,
        max_tokens: 60,
        temperature: None,
        seed: None,
        stop: Vec::new(),
        emit: None,
    }
}

/// Makes a call that nobody stops.
pub(super) async fn call(client: &Client, request: &ModelRequest) -> (Outcome, Log) {
    let mut log = Log::default();
    let call = Call {
        run: "r",
        request,
        key: "k1",
        stream: None,
    };
    let outcome = client
        .call(call, std::future::pending::<Failure>(), &mut log)
        .await;
    (outcome, log)
}

/// An event with text.
pub(super) fn delta(text: &str) -> Value {
    json!({ "id": "c1", "model": "small-1", "choices": [{ "index": 0, "delta": { "content": text } }] })
}

/// An event with the end of the answer.
pub(super) fn finish(reason: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

/// An event with usage.
pub(super) fn usage(prompt: u64, cached: u64, output: u64) -> Value {
    json!({ "choices": [], "usage": {
        "prompt_tokens": prompt, "completion_tokens": output, "prompt_tokens_details": { "cached_tokens": cached }
    } })
}
