//! The call itself: posts the request, reads the answer under its time limits, books what was used.
//!
//! ```text
//! Unsent --request handed to the connection--> Sent --status 2xx--> Accepted --answer judged--> outcome
//! Unsent, Sent --no connection---------------> Unsent     nothing used, NotDone
//! Sent   --other status----------------------> Rejected   nothing used
//! Sent, Accepted --timeout, abort, loss------> outcome    Unknown; what was delivered is booked
//! ```

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ravel_core::effect::{ErrorClass, Failure, Fate, Millis, Outcome, Usage};
use ravel_core::port::ModelRequest;
use ravel_core::value::Val;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::secret;

use super::answer::Answer;
use super::config::{Config, Limits, Target};
use super::fault::{self, Fault};
use super::images::{self, ReadFile};
use super::items::Scanner;
use super::request::{self, Built};
use super::sse::{Decoder, TooLong};
use super::transport::{self, Transport};
use super::usage::Tokens;

/// Most ms that the end of a finished stream is waited for, so that its connection can be used again.
const DRAIN_MS: u64 = 20;
/// What stands in an error where the endpoint repeated the key.
const REDACTED: &str = "[key]";

/// Calls models at OpenAI-compatible endpoints. Keeps connections; share one.
pub struct Client {
    config: Config,
    transport: Transport,
    read: Option<Arc<ReadFile>>,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is asked.
    pub request: &'a ModelRequest,
    /// The run that asks.
    pub run: &'a str,
    /// Idempotency key, sent as `Idempotency-Key`.
    pub key: &'a str,
    /// Field of the answer whose elements are reported as they come.
    pub stream: Option<&'a str>,
}

/// Sees an answer while it is made. Provisional: what counts is the outcome.
pub trait Sink: Send {
    /// More text.
    fn text(&mut self, text: &str);
    /// Further whole elements of the field of [`Call::stream`].
    fn items(&mut self, items: Vec<Val>);
}

/// A call that is ready to leave.
struct Prepared {
    target: Target,
    built: Built,
    url: Url,
    key: Option<SecretString>,
    scanner: Option<Scanner>,
}

/// How far a call came.
#[derive(Debug, Default)]
struct Progress {
    stage: Stage,
    answer: Answer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Unsent,
    Sent,
    Rejected,
    Accepted,
}

impl Client {
    /// A client. `read` gives the content of file values in messages.
    #[must_use]
    pub fn new(config: Config, read: Option<Arc<ReadFile>>) -> Self {
        Self {
            config,
            transport: Transport::default(),
            read,
        }
    }

    /// What it was configured with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Makes one call. Never repeats it.
    ///
    /// When `abort` resolves, the connection is closed, and the outcome is that failure with what was used until then.
    pub async fn call(
        &self,
        call: Call<'_>,
        abort: impl Future<Output = Failure>,
        sink: &mut dyn Sink,
    ) -> Outcome {
        let mut prepared = match self.prepare(call) {
            Ok(prepared) => prepared,
            Err(failure) => return Outcome::not_done(failure),
        };
        let mut progress = Progress::default();
        let end = tokio::select! {
            biased;
            failure = abort => Err(Fault::unknown(failure)),
            end = self.drive(call, &mut prepared, &mut progress, sink) => end,
        };
        conclude(&prepared, &progress, end)
    }

    fn prepare(&self, call: Call<'_>) -> Result<Prepared, Failure> {
        let target = self.config.resolve(&call.request.model)?;
        let limits = &target.endpoint.limits;
        let messages = images::inline(
            &call.request.messages,
            (call.run, self.read.as_deref()),
            limits.image_bytes_max,
        )?;
        let built = request::build(call.request, &messages, &target)?;
        let address = target.endpoint.chat_url();
        let url = Url::parse(&address).map_err(|error| {
            let message = format!("the endpoint's address `{address}` is not valid: {error}");
            Failure::new(ErrorClass::InvalidInput, message).with_code("bad_url")
        })?;
        let key = target
            .endpoint
            .key
            .as_ref()
            .map(|source| source.read())
            .transpose()?;
        Ok(Prepared {
            target,
            built,
            url,
            key,
            scanner: call.stream.map(Scanner::new),
        })
    }

    async fn drive(
        &self,
        call: Call<'_>,
        prepared: &mut Prepared,
        progress: &mut Progress,
        sink: &mut dyn Sink,
    ) -> Result<(), Fault> {
        let limits = prepared.target.endpoint.limits;
        let first = Instant::now() + Duration::from_millis(limits.first_token_timeout_ms);
        let client = self
            .transport
            .client(
                &prepared.url,
                &limits,
                prepared.target.endpoint.quirks.connections,
            )
            .map_err(|error| no_client(&error))?;
        let mut post = client
            .post(prepared.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", call.key)
            .body(prepared.built.body.to_string());
        for (name, value) in &prepared.target.endpoint.headers {
            post = post.header(name, value);
        }
        if let Some(key) = &prepared.key {
            post = post.bearer_auth(key.expose_secret());
        }
        progress.stage = Stage::Sent;
        let sent = timeout_at(first, post.send())
            .await
            .map_err(|_| no_first_token(&limits))?;
        let response = sent.map_err(|error| {
            if error.is_connect() || error.is_builder() {
                progress.stage = Stage::Unsent;
            }
            lost(&error)
        })?;
        if !response.status().is_success() {
            progress.stage = Stage::Rejected;
            return Err(rejected(response, &limits, first).await);
        }
        progress.stage = Stage::Accepted;
        let reader = Reader {
            limits,
            first,
            prepared,
            answer: &mut progress.answer,
            sink,
        };
        if is_event_stream(response.headers()) {
            reader.stream(response).await
        } else {
            reader.body(response).await
        }
    }
}

/// Reads one answer.
struct Reader<'a> {
    limits: Limits,
    first: Instant,
    prepared: &'a mut Prepared,
    answer: &'a mut Answer,
    sink: &'a mut dyn Sink,
}

impl Reader<'_> {
    async fn stream(mut self, mut response: Response) -> Result<(), Fault> {
        let mut decoder = Decoder::new(self.limits.answer_bytes_max);
        let mut last_token = None;
        let mut bytes = 0;
        while !self.answer.is_over() {
            let until = self.wait_until(last_token);
            let chunk = match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => {
                    if let Some(event) = decoder
                        .finish()
                        .map_err(|TooLong| too_large(&self.limits))?
                    {
                        self.event(&event)?;
                    }
                    self.end();
                    return Ok(());
                }
                // The answer is whole; only its usage or end marker is missing.
                Ok(Err(_)) | Err(_) if self.answer.finish.is_some() => break,
                Ok(Err(error)) => return Err(fault::incomplete(&transport::causes(&error))),
                Err(_) if last_token.is_none() => return Err(no_first_token(&self.limits)),
                Err(_) => return Err(no_token(&self.limits)),
            };
            bytes += chunk.len();
            if bytes > self.limits.answer_bytes_max {
                return Err(too_large(&self.limits));
            }
            let before = self.answer.chars;
            for event in decoder
                .push(&chunk)
                .map_err(|TooLong| too_large(&self.limits))?
            {
                self.event(&event)?;
            }
            // Comments and empty deltas keep a connection open, not a call alive.
            if self.answer.chars > before {
                last_token = Some(Instant::now());
            }
        }
        self.end();
        drain(response).await;
        Ok(())
    }

    async fn body(mut self, mut response: Response) -> Result<(), Fault> {
        let mut body = Vec::new();
        loop {
            let until = Instant::now() + Duration::from_millis(self.limits.idle_timeout_ms);
            match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(fault::incomplete(&transport::causes(&error))),
                Err(_) => return Err(no_token(&self.limits)),
            }
            if body.len() > self.limits.answer_bytes_max {
                return Err(too_large(&self.limits));
            }
        }
        let text = self.answer.body(&body)?;
        self.show(&text);
        self.end();
        Ok(())
    }

    fn wait_until(&self, last_token: Option<Instant>) -> Instant {
        match last_token {
            _ if self.answer.finish.is_some() => {
                Instant::now() + Duration::from_millis(self.limits.tail_timeout_ms)
            }
            Some(at) => at + Duration::from_millis(self.limits.idle_timeout_ms),
            None => self.first,
        }
    }

    fn event(&mut self, data: &str) -> Result<(), Fault> {
        let text = self.answer.event(data)?;
        self.show(&text);
        Ok(())
    }

    fn show(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        // Text that may still be cut is shown at its end.
        if self.prepared.built.cut_at.is_empty() {
            self.sink.text(text);
        }
        let items = self
            .prepared
            .scanner
            .as_mut()
            .map(|scanner| scanner.push(text))
            .unwrap_or_default();
        if !items.is_empty() {
            self.sink.items(items.into_iter().map(Val::new).collect());
        }
    }

    fn end(&mut self) {
        if !self.prepared.built.cut_at.is_empty() {
            self.sink.text(self.answer.kept(&self.prepared.built));
        }
    }
}

/// The outcome of a call that ended, with what it used and how it was carried out.
fn conclude(prepared: &Prepared, progress: &Progress, end: Result<(), Fault>) -> Outcome {
    let Progress { stage, answer } = progress;
    let result = end.and_then(|()| answer.judge(&prepared.built));
    let used = match stage {
        Stage::Unsent | Stage::Rejected => false,
        Stage::Sent | Stage::Accepted => !answer.rejected,
    };
    let (tokens, counted) = match answer.usage {
        Some(tokens) => (tokens, "reported"),
        None if used => (
            Tokens::estimated(prepared.built.prompt_chars, answer.chars),
            "estimated",
        ),
        None => (Tokens::default(), "none"),
    };
    let usage: Usage = tokens.priced(prepared.target.prices());
    let outcome = match result {
        Ok(value) => Outcome::done(value.into()),
        Err(mut fault) => {
            if *stage == Stage::Unsent {
                fault.fate = Fate::NotDone;
            }
            // What an endpoint says sometimes repeats the key.
            if let Some(key) = &prepared.key {
                fault.failure = secret::hide(fault.failure, key, REDACTED);
            }
            fault.outcome()
        }
    };
    outcome
        .with_usage(usage)
        .with_meta(meta(prepared, answer, counted))
}

fn meta(prepared: &Prepared, answer: &Answer, counted: &str) -> Value {
    let target = &prepared.target;
    let mut meta = json!({
        "provider": target.provider,
        "model": answer.model.as_ref().unwrap_or(&target.model),
        "parameters": prepared.built.parameters,
        "usage": counted,
        "delivered_chars": answer.chars,
    });
    let optional = [
        ("id", answer.id.as_ref()),
        ("finish", answer.finish.as_ref()),
        ("prices", target.prices().map(|prices| &prices.version)),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            meta[key] = value.as_str().into();
        }
    }
    meta
}

async fn rejected(mut response: Response, limits: &Limits, until: Instant) -> Fault {
    let status = response.status().as_u16();
    let header = |name: &str| {
        response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let retry_after: Option<Millis> =
        fault::retry_after(header(RETRY_AFTER.as_str()), header("retry-after-ms"), now);
    let mut body = Vec::new();
    // What can be read of the body helps; that it cannot be read changes nothing.
    while let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await {
        body.extend_from_slice(&chunk);
        if body.len() >= limits.error_bytes_max {
            body.truncate(limits.error_bytes_max);
            break;
        }
    }
    fault::from_status(status, &String::from_utf8_lossy(&body), retry_after)
}

/// Reads the end of a finished stream, so that the connection goes back to the pool.
async fn drain(mut response: Response) {
    let until = Instant::now() + Duration::from_millis(DRAIN_MS);
    while let Ok(Ok(Some(_))) = timeout_at(until, response.chunk()).await {}
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    kind.trim_start()
        .to_ascii_lowercase()
        .starts_with("text/event-stream")
}

fn no_client(error: &str) -> Fault {
    let message = format!("no HTTP client could be made: {error}");
    Fault::not_done(Failure::new(ErrorClass::Internal, message).with_code("no_client"))
}

fn lost(error: &reqwest::Error) -> Fault {
    let (sentence, code) = if error.is_connect() {
        ("the endpoint cannot be reached", "not_reached")
    } else {
        (
            "the connection was lost before an answer came",
            "connection_lost",
        )
    };
    let message = format!("{sentence}: {}", transport::causes(error));
    Fault::unknown(Failure::new(ErrorClass::Unavailable, message).with_code(code))
}

fn no_first_token(limits: &Limits) -> Fault {
    let ms = limits.first_token_timeout_ms;
    let message =
        format!("no token came within {ms} ms (the provider's limits.first_token_timeout_ms)");
    Fault::unknown(Failure::new(ErrorClass::Timeout, message).with_code("first_token_timeout"))
}

fn no_token(limits: &Limits) -> Fault {
    let message = format!(
        "no token came for {} ms (the provider's limits.idle_timeout_ms)",
        limits.idle_timeout_ms
    );
    Fault::unknown(Failure::new(ErrorClass::Timeout, message).with_code("idle_timeout"))
}

fn too_large(limits: &Limits) -> Fault {
    let message = format!(
        "the answer is larger than {} bytes (the provider's limits.answer_bytes_max)",
        limits.answer_bytes_max
    );
    Fault::unknown(Failure::new(ErrorClass::InvalidOutput, message).with_code("too_large"))
}
