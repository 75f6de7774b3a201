//! From arguments to a request.

use ravel_core::effect::Failure;
use ravel_core::lang::{Arguments, WrongArgument};
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};
use reqwest::{Client, Method, RequestBuilder, Url};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use super::super::{Ask, Context, invalid, text_of, wrong};
use crate::secret;

/// Why a value cannot be a header's. The value itself may be a secret.
const NOT_A_HEADER: &str = "the value holds a line break or another character that no header can have; \
                            a secret from a file must be one line";

/// The header that carries the step's key.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request, ready to leave.
pub(super) struct Wanted {
    pub(super) method: Method,
    pub(super) url: Url,
    headers: HeaderMap,
    /// Headers that only the first host may see.
    private: Vec<HeaderName>,
    body: Option<Vec<u8>>,
}

impl Wanted {
    pub(super) fn read(context: &Context, ask: Ask<'_>, method: Method) -> Result<Self, Failure> {
        let input = ask.input;
        one_body(input)?;
        let mut url = address(text_of(input, "url"))?;
        if let Some(query) = input.get("query").and_then(Value::as_object) {
            let mut pairs = url.query_pairs_mut();
            pairs.extend_pairs(pairs_of(query));
        }
        let mut headers = HeaderMap::new();
        let mut private = vec![AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];
        let (body, kind) = body(input, &url);
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if !method.is_safe() {
            let key = HeaderValue::from_str(&ask.job.key)
                .map_err(|_| invalid("the step's key is no header value"))?;
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let given = input.get("headers").and_then(Value::as_object);
        for (name, value) in given.into_iter().flatten() {
            let header = header_name(name)?;
            let text = value.as_str().unwrap_or_default();
            let resolved = context.secrets.resolve(text)?;
            let mut value = HeaderValue::from_str(resolved.expose_secret())
                .map_err(|_| invalid(format!("headers.{name}: {NOT_A_HEADER}")))?;
            if secret::has_mark(text) {
                value.set_sensitive(true);
                private.push(header.clone());
            }
            headers.insert(header, value);
        }
        Ok(Self {
            method,
            url,
            headers,
            private,
            body,
        })
    }

    pub(super) fn request(&self, client: &Client) -> RequestBuilder {
        let request = client
            .request(self.method.clone(), self.url.clone())
            .headers(self.headers.clone());
        match &self.body {
            Some(body) => request.body(body.clone()),
            None => request,
        }
    }

    /// Goes on to another address. Another host sees nothing private.
    pub(super) fn redirect(&mut self, next: Url) {
        if self.url.origin() != next.origin() {
            for name in &self.private {
                self.headers.remove(name);
            }
        }
        self.url = next;
    }
}

/// What is wrong with arguments before anything is asked.
pub(super) fn rule(arguments: &Arguments) -> Result<(), WrongArgument> {
    let fields = &arguments.fields;
    one_body(fields).map_err(|failure| wrong(None, &failure))?;
    if let Some(url) = fields.get("url").and_then(Value::as_str) {
        address(url).map_err(|failure| wrong(Some("url"), &failure))?;
    }
    let headers = fields.get("headers").and_then(Value::as_object);
    for name in headers.into_iter().flat_map(Map::keys) {
        header_name(name).map_err(|failure| wrong(Some("headers"), &failure))?;
    }
    Ok(())
}

fn one_body(input: &Value) -> Result<(), Failure> {
    let bodies = ["json", "text", "form"]
        .iter()
        .filter(|name| input.get(**name).is_some());
    if bodies.count() > 1 {
        return Err(invalid("a request has one body: `json`, `text` or `form`"));
    }
    Ok(())
}

fn address(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|error| invalid(format!("url: `{text}` is not valid: {error}")))
}

fn header_name(name: &str) -> Result<HeaderName, Failure> {
    let header = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| invalid(format!("headers: {name:?} is not the name of a header")))?;
    if [CONTENT_LENGTH, TRANSFER_ENCODING].contains(&header) {
        let text = format!("headers: `{name}` follows from the body and cannot be given");
        return Err(invalid(text));
    }
    Ok(header)
}

/// The body and its type.
fn body(input: &Value, url: &Url) -> (Option<Vec<u8>>, Option<&'static str>) {
    if let Some(value) = input.get("json") {
        return (
            Some(value.to_string().into_bytes()),
            Some("application/json"),
        );
    }
    if let Some(text) = input.get("text").and_then(Value::as_str) {
        return (
            Some(text.as_bytes().to_vec()),
            Some("text/plain; charset=utf-8"),
        );
    }
    if let Some(form) = input.get("form").and_then(Value::as_object) {
        // A form is spelt like a query.
        let mut scratch = url.clone();
        scratch
            .query_pairs_mut()
            .clear()
            .extend_pairs(pairs_of(form));
        let text = scratch.query().unwrap_or_default().as_bytes().to_vec();
        return (Some(text), Some("application/x-www-form-urlencoded"));
    }
    (None, None)
}

/// Names and values; a list is its name repeated, null is left out.
fn pairs_of(fields: &Map<String, Value>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Null => {}
            Value::Array(items) => {
                pairs.extend(items.iter().map(|item| (name.clone(), plain(item))))
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                pairs.push((name.clone(), plain(value)));
            }
        }
    }
    pairs
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
