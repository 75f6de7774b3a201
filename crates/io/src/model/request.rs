//! Builds the body of a call: a [`ModelRequest`] in the words of an endpoint. No I/O.
//!
//! No parameter is dropped in silence: each is passed, translated, emulated, left out by configuration, or the call
//! is refused before it is sent; [`Built::parameters`] says which.

use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure};
use ravel_core::port::ModelRequest;
use serde_json::{Map, Value, json};

use super::config::{MaxTokensField, SchemaMode, StopSupport, Support, Target};
use super::schema::Fitted;

/// The schema's name in `response_format`.
const SCHEMA_NAME: &str = "answer";
/// Weak models fill the room between tokens with white space when a grammar lets them.
const COMPACT: &str = "Answer with one compact JSON value on a single line and nothing else.";
/// An image counts as this many characters where usage has to be estimated.
const IMAGE_CHARS: u64 = 4_000;

/// What became of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Passed,
    Translated,
    Emulated,
    LeftOut,
}

impl Treatment {
    const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Translated => "translated",
            Self::Emulated => "emulated",
            Self::LeftOut => "left_out",
        }
    }
}

/// A call, ready to be posted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Built {
    /// The body.
    pub(crate) body: Value,
    /// What became of each parameter that the request sets, by name.
    pub(crate) parameters: Map<String, Value>,
    /// The schema as sent, when there is one.
    pub(crate) fitted: Option<Fitted>,
    /// Where the text is to be cut here.
    pub(crate) cut_at: Vec<Arc<str>>,
    /// Characters of the prompt, for an estimate of its tokens.
    pub(crate) prompt_chars: u64,
}

impl Built {
    fn note(&mut self, parameter: &str, treatment: Treatment) {
        self.parameters
            .insert(parameter.to_owned(), treatment.name().into());
    }

    fn set(&mut self, parameter: &str, value: Value) {
        self.body[parameter] = value;
    }
}

/// Builds the body of a call. `messages` are the request's with every file replaced by a `data:` URL.
pub(crate) fn build(
    request: &ModelRequest,
    messages: &[Value],
    target: &Target,
) -> Result<Built, Failure> {
    let quirks = target.endpoint.quirks;
    let mut built = Built {
        body: json!({ "model": target.model }),
        parameters: Map::new(),
        fitted: request
            .schema
            .as_ref()
            .map(|schema| Fitted::new(schema.json())),
        cut_at: Vec::new(),
        prompt_chars: 0,
    };
    let mut messages = messages
        .iter()
        .map(message)
        .collect::<Result<Vec<_>, _>>()?;
    if messages.is_empty() {
        return Err(refusal("the call has no messages"));
    }
    ask_for_schema(&mut built, &mut messages, target);
    built.prompt_chars = messages.iter().map(chars).sum();
    built.set("messages", Value::Array(messages));
    limit_tokens(&mut built, request.max_tokens, target);
    if let Some(temperature) = request.temperature {
        sample(
            &mut built,
            "temperature",
            temperature.into(),
            quirks.temperature,
        )?;
    }
    if let Some(seed) = request.seed {
        sample(&mut built, "seed", seed.into(), quirks.seed)?;
    }
    stop_at(&mut built, &request.stop, quirks.stop)?;
    if quirks.stream {
        built.set("stream", true.into());
        if quirks.stream_usage {
            built.set("stream_options", json!({ "include_usage": true }));
        }
    }
    Ok(built)
}

fn limit_tokens(built: &mut Built, asked: u32, target: &Target) {
    // Many endpoints refuse a limit above the model's context instead of lowering it.
    let limit = target
        .context()
        .map_or_else(|| asked.into(), |context| context.min(asked.into()));
    let (field, same) = match target.endpoint.quirks.max_tokens {
        MaxTokensField::MaxTokens => ("max_tokens", true),
        MaxTokensField::MaxCompletionTokens => ("max_completion_tokens", false),
    };
    built.set(field, limit.into());
    let passed = same && limit == u64::from(asked);
    built.note(
        "max_tokens",
        if passed {
            Treatment::Passed
        } else {
            Treatment::Translated
        },
    );
}

fn sample(
    built: &mut Built,
    parameter: &str,
    value: Value,
    support: Support,
) -> Result<(), Failure> {
    match support {
        Support::Pass => {
            built.set(parameter, value);
            built.note(parameter, Treatment::Passed);
        }
        Support::LeaveOut => built.note(parameter, Treatment::LeftOut),
        Support::Refuse => return Err(unsupported(parameter)),
    }
    Ok(())
}

fn stop_at(built: &mut Built, stop: &[Arc<str>], support: StopSupport) -> Result<(), Failure> {
    if stop.is_empty() {
        return Ok(());
    }
    match support {
        StopSupport::Pass => {
            built.set(
                "stop",
                stop.iter().map(|text| Value::from(&**text)).collect(),
            );
            built.note("stop", Treatment::Passed);
        }
        StopSupport::Emulate => {
            built.cut_at = stop.to_vec();
            built.note("stop", Treatment::Emulated);
        }
        StopSupport::Refuse => return Err(unsupported("stop")),
    }
    Ok(())
}

fn ask_for_schema(built: &mut Built, messages: &mut Vec<Value>, target: &Target) {
    let Some(fitted) = built.fitted.clone() else {
        return;
    };
    let quirks = target.endpoint.quirks;
    let in_prompt = match quirks.schema {
        SchemaMode::JsonSchema => {
            let schema =
                json!({ "name": SCHEMA_NAME, "strict": fitted.strict, "schema": fitted.schema });
            built.set(
                "response_format",
                json!({ "type": "json_schema", "json_schema": schema }),
            );
            built.note(
                "schema",
                if fitted.changed {
                    Treatment::Translated
                } else {
                    Treatment::Passed
                },
            );
            quirks.schema_in_prompt
        }
        SchemaMode::JsonObject => {
            built.set("response_format", json!({ "type": "json_object" }));
            built.note("schema", Treatment::Emulated);
            true
        }
        SchemaMode::Prompt => {
            built.note("schema", Treatment::Emulated);
            true
        }
    };
    let mut ask = COMPACT.to_owned();
    if in_prompt {
        ask.push_str(&format!(" It must fit this JSON Schema: {}", fitted.schema));
    }
    instruct(messages, &ask);
}

/// Adds an instruction to the system message. It stands before what changes from call to call, so that a provider's
/// prefix cache keeps serving it.
fn instruct(messages: &mut Vec<Value>, text: &str) {
    let system = messages
        .first_mut()
        .filter(|message| message["role"] == "system");
    match system.map(|message| &mut message["content"]) {
        Some(Value::String(content)) => {
            content.push_str("\n\n");
            content.push_str(text);
        }
        Some(Value::Array(parts)) => parts.push(json!({ "type": "text", "text": text })),
        Some(_) | None => messages.insert(0, json!({ "role": "system", "content": text })),
    }
}

/// A message in the endpoint's words.
fn message(message: &Value) -> Result<Value, Failure> {
    let role = message.get("role").and_then(Value::as_str);
    let role = role.ok_or_else(|| refusal("a message needs a `role`"))?;
    let content = match message.get("content") {
        Some(Value::String(text)) => json!(text),
        Some(Value::Array(parts)) => {
            Value::Array(parts.iter().map(part).collect::<Result<_, _>>()?)
        }
        Some(_) | None => {
            return Err(refusal(
                "a message's `content` must be text or a list of parts",
            ));
        }
    };
    Ok(json!({ "role": role, "content": content }))
}

fn part(part: &Value) -> Result<Value, Failure> {
    match part.get("type").and_then(Value::as_str) {
        Some("text") => {
            let text = part.get("text").and_then(Value::as_str);
            let text = text.ok_or_else(|| refusal("a text part needs a `text`"))?;
            Ok(json!({ "type": "text", "text": text }))
        }
        Some("image") => {
            let url = part.get("image").and_then(Value::as_str);
            let url =
                url.ok_or_else(|| refusal("an image part needs an `image`: a file or a URL"))?;
            if !["http://", "https://", "data:"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
            {
                return Err(refusal(
                    "an image is a file value or a URL that starts with http:, https: or data:",
                ));
            }
            Ok(json!({ "type": "image_url", "image_url": { "url": url } }))
        }
        Some(other) => Err(refusal(&format!(
            "a message part cannot be of type `{other}`: text or image"
        ))),
        None => Err(refusal("a message part needs a `type`: text or image")),
    }
}

fn chars(message: &Value) -> u64 {
    let count = |text: &str| text.chars().count() as u64;
    match &message["content"] {
        Value::String(text) => count(text),
        Value::Array(parts) => parts
            .iter()
            .map(|part| part["text"].as_str().map_or(IMAGE_CHARS, count))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => 0,
    }
}

fn refusal(message: &str) -> Failure {
    Failure::new(ErrorClass::InvalidInput, message).with_code("bad_request")
}

fn unsupported(parameter: &str) -> Failure {
    let message = format!(
        "the endpoint does not take `{parameter}`: remove it from the step, choose another model, \
         or let it be left out in the provider's quirks"
    );
    Failure::new(ErrorClass::InvalidInput, message).with_code("unsupported_parameter")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ravel_core::value::Val;

    use super::super::config::{Model, Provider, Quirks};
    use super::*;

    fn target(quirks: Quirks) -> Target {
        Target {
            provider: "p".to_owned(),
            endpoint: Provider {
                url: "http://x".to_owned(),
                quirks,
                models: BTreeMap::from([(
                    "m".to_owned(),
                    Model {
                        context: Some(1000),
                        prices: None,
                    },
                )]),
                ..Provider::default()
            },
            model: "m".to_owned(),
        }
    }

    fn request(schema: Option<Value>) -> ModelRequest {
        ModelRequest {
            model: "m".into(),
            messages: Vec::new(),
            schema: schema.map(Val::new),
            max_tokens: 50,
            temperature: Some(0.5),
            seed: Some(7),
            stop: vec!["END".into()],
            emit: None,
        }
    }

    fn user() -> Vec<Value> {
        vec![json!({ "role": "user", "content": "hi" })]
    }

    const TEAM: &str = r#"{"type":"object","properties":{"team":{"enum":["a","b"]}},"required":["team"],"additionalProperties":false}"#;

    #[test]
    fn everything_is_passed_to_a_server_that_takes_everything() {
        let schema: Value = serde_json::from_str(TEAM).unwrap();
        let built = build(
            &request(Some(schema.clone())),
            &user(),
            &target(Quirks::UNKNOWN),
        )
        .unwrap();
        let ask = format!("{COMPACT} It must fit this JSON Schema: {TEAM}");
        let expected = Built {
            body: json!({
                "model": "m",
                "response_format": { "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": schema } },
                "messages": [{ "role": "system", "content": ask }, { "role": "user", "content": "hi" }],
                "max_tokens": 50, "temperature": 0.5, "seed": 7, "stop": ["END"],
                "stream": true, "stream_options": { "include_usage": true }
            }),
            parameters: json!({
                "schema": "passed", "max_tokens": "passed", "temperature": "passed", "seed": "passed", "stop": "passed"
            })
            .as_object()
            .unwrap()
            .clone(),
            fitted: Some(Fitted::new(&schema)),
            cut_at: Vec::new(),
            prompt_chars: ask.chars().count() as u64 + 2,
        };
        assert_eq!(built, expected);
    }

    #[test]
    fn what_a_server_does_not_take_is_translated_emulated_or_left_out_and_noted() {
        let quirks = Quirks {
            schema: SchemaMode::Prompt,
            max_tokens: MaxTokensField::MaxCompletionTokens,
            stream: false,
            temperature: Support::LeaveOut,
            stop: StopSupport::Emulate,
            ..Quirks::UNKNOWN
        };
        let request = ModelRequest {
            seed: None,
            max_tokens: 5000,
            ..request(Some(json!({ "type": "integer" })))
        };
        let messages = [
            json!({ "role": "system", "content": "Be brief." }),
            user().remove(0),
        ];
        let built = build(&request, &messages, &target(quirks)).unwrap();
        let sent = r#"{"type":"object","properties":{"value":{"type":"integer"}},"required":["value"],"additionalProperties":false}"#;
        let system = format!("Be brief.\n\n{COMPACT} It must fit this JSON Schema: {sent}");
        let expected = Built {
            body: json!({
                "model": "m",
                "messages": [{ "role": "system", "content": system }, { "role": "user", "content": "hi" }],
                "max_completion_tokens": 1000
            }),
            parameters: json!({
                "schema": "emulated", "max_tokens": "translated", "temperature": "left_out", "stop": "emulated"
            })
            .as_object()
            .unwrap()
            .clone(),
            fitted: Some(Fitted::new(&json!({ "type": "integer" }))),
            cut_at: vec!["END".into()],
            prompt_chars: system.chars().count() as u64 + 2,
        };
        assert_eq!(built, expected);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_before_anything_is_sent() {
        let quirks = Quirks {
            seed: Support::Refuse,
            ..Quirks::UNKNOWN
        };
        assert_eq!(
            build(&request(None), &user(), &target(quirks)),
            Err(unsupported("seed"))
        );
        let quirks = Quirks {
            stop: StopSupport::Refuse,
            ..Quirks::UNKNOWN
        };
        assert_eq!(
            build(&request(None), &user(), &target(quirks)),
            Err(unsupported("stop"))
        );
        let empty = build(&request(None), &[], &target(Quirks::UNKNOWN));
        assert_eq!(empty, Err(refusal("the call has no messages")));
    }

    #[test]
    fn text_and_image_parts_take_the_endpoints_form_and_paths_are_no_images() {
        let parts = json!([{ "type": "text", "text": "what is it?" }, { "type": "image", "image": "data:image/png;base64,AA==" }]);
        let messages = [json!({ "role": "user", "content": parts })];
        let built = build(&request(None), &messages, &target(Quirks::UNKNOWN)).unwrap();
        let expected = json!([{ "role": "user", "content": [
            { "type": "text", "text": "what is it?" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } }
        ] }]);
        assert_eq!(
            (&built.body["messages"], built.prompt_chars),
            (&expected, 11 + IMAGE_CHARS)
        );
        let path =
            [json!({ "role": "user", "content": [{ "type": "image", "image": "/etc/passwd" }] })];
        let expected =
            refusal("an image is a file value or a URL that starts with http:, https: or data:");
        assert_eq!(
            build(&request(None), &path, &target(Quirks::UNKNOWN)),
            Err(expected)
        );
    }
}
