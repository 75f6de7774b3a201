//! Requests: what a leaf asks its executor to do, rendered from the state. No expression is left in a request, only
//! marks of secrets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::env::{Env, shared};
use super::state::{Role, State};
use crate::effect::Usage;
use crate::event::{Attempt, Node};
use crate::expr::EvalError;
use crate::graph::{Kind, Model, Program, RunProgram, StepDef};
use crate::port::{Job, ModelRequest, Request, RunCommand, RunRequest};
use crate::value::Val;

/// A leaf that is ready to start.
pub(super) struct Rendered {
    pub(super) request: Request,
    pub(super) permits: Vec<(Arc<str>, u32)>,
    pub(super) key: Option<String>,
    /// The most it may use.
    pub(super) bound: Usage,
    /// The model whose price nobody knows.
    pub(super) unpriced: Option<Arc<str>>,
}

/// Renders a leaf's next attempt.
pub(super) fn render(state: &State, node: Node, _attempt: Attempt) -> Result<Rendered, EvalError> {
    let activation = state.node(node);
    let step = state.graph.step(activation.step);
    let env = Env::of(state, node);
    let request = match compensation(state, node) {
        Some(request) => request,
        None => request(&env, step)?,
    };
    let mut permits = Vec::with_capacity(step.leaf.concurrency.len());
    for limit in &step.leaf.concurrency {
        permits.push((shared(env.render(&limit.key)?), limit.max));
    }
    let key = step
        .leaf
        .key
        .as_ref()
        .map(|key| env.render(key))
        .transpose()?;
    let (bound, unpriced) = bound(state, &request);
    Ok(Rendered {
        request,
        permits,
        key,
        bound,
        unpriced,
    })
}

/// The request of a compensation was fixed when the effect took place.
fn compensation(state: &State, node: Node) -> Option<Request> {
    let activation = state.node(node);
    if activation.slot != super::state::Slot::Compensation {
        return None;
    }
    let armed = state
        .armed
        .iter()
        .rev()
        .find(|armed| armed.node == activation.parent)?;
    serde_json::from_value(armed.request.json().clone()).ok()
}

/// Renders the request of a step from a place in the run.
pub(super) fn request(env: &Env<'_>, step: &StepDef) -> Result<Request, EvalError> {
    match &step.kind {
        Kind::Model(model) => model_request(env, step, model),
        Kind::Tool(tool) => Ok(Request::Tool {
            name: tool.name.clone(),
            input: env.value(&tool.with)?,
        }),
        Kind::Run(run) => run_request(env, step, run),
        other => unreachable!("`{}` has no request", other.name()),
    }
}

fn model_request(env: &Env<'_>, step: &StepDef, model: &Model) -> Result<Request, EvalError> {
    let mut messages = Vec::new();
    let mut push = |role: &str, content: Value| {
        messages.push(Val::new(json!({ "role": role, "content": content })))
    };
    if let Some(system) = &model.system {
        push("system", env.text(system)?.into());
    }
    if let Some(examples) = &model.examples {
        for example in list_of("examples", "{input, output}", env.value(examples)?)? {
            push("user", plain(&example["input"]));
            push("assistant", plain(&example["output"]));
        }
    }
    if let Some(given) = &model.messages {
        let given = list_of("messages", "{role, content}", env.value(given)?)?;
        messages.extend(given.into_iter().map(Val::new));
    }
    if let Some(prompt) = &model.prompt {
        let text = env.text(prompt)?;
        let content = match &model.images {
            None => Value::String(text),
            Some(images) => with_images(text, env.value(images)?.into_json()),
        };
        messages.push(Val::new(json!({ "role": "user", "content": content })));
    }
    Ok(Request::Model(ModelRequest {
        model: model.name.clone(),
        messages,
        schema: step
            .returns
            .as_ref()
            .map(|returns| Val::new(returns.schema().clone())),
        max_tokens: model.max_tokens,
        temperature: model.temperature,
        seed: model.seed,
        stop: model.stop.clone(),
        emit: model.emit.clone(),
    }))
}

/// The items of a value that is a list: of anything else nothing would reach the model.
fn list_of(key: &str, of: &str, value: Val) -> Result<Vec<Value>, EvalError> {
    match value.into_json() {
        Value::Array(items) => Ok(items),
        other => Err(EvalError::Failed {
            message: format!("`{key}` is a list of {of}, and this is {other}"),
            offset: 0,
            pointer: String::new(),
        }),
    }
}

/// An example's text: strings as they are, other values as compact JSON.
fn plain(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        other => Value::String(other.to_string()),
    }
}

fn with_images(text: String, images: Value) -> Value {
    let images = match images {
        Value::Array(images) => images,
        one => vec![one],
    };
    let mut parts = vec![json!({ "type": "text", "text": text })];
    parts.extend(
        images
            .into_iter()
            .map(|image| json!({ "type": "image", "image": image })),
    );
    Value::Array(parts)
}

fn run_request(env: &Env<'_>, step: &StepDef, run: &RunProgram) -> Result<Request, EvalError> {
    let program = match &run.program {
        Program::Shell(text) => RunCommand::Shell(shared(env.text(text)?)),
        Program::Python(source) => RunCommand::Python(source.clone()),
        Program::Node(source) => RunCommand::Node(source.clone()),
        Program::PythonCode(code) => RunCommand::Python(shared(text_of(env.value(code)?))),
        Program::NodeCode(code) => RunCommand::Node(shared(text_of(env.value(code)?))),
        Program::Command(words) => match env.value(words)?.json() {
            Value::Array(words) => RunCommand::Command(words.iter().map(word).collect()),
            other => RunCommand::Command(vec![word(other)]),
        },
    };
    let mut environment = Vec::with_capacity(run.env.len());
    for (name, value) in &run.env {
        environment.push((name.clone(), shared(text_of(env.value(value)?))));
    }
    let mut files = Vec::with_capacity(run.files.len());
    for (name, path) in &run.files {
        files.push((name.clone(), shared(env.render(path)?)));
    }
    Ok(Request::Run(RunRequest {
        program,
        args: run.with.as_ref().map(|with| env.value(with)).transpose()?,
        env: environment,
        cwd: run
            .cwd
            .as_ref()
            .map(|cwd| env.render(cwd))
            .transpose()?
            .map(shared),
        ok: run.ok.clone(),
        files,
        json: step.returns.is_some(),
        sandbox: run.sandbox,
        limits: run.limits,
    }))
}

fn text_of(value: Val) -> String {
    match value.into_json() {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn word(value: &Value) -> Arc<str> {
    match value {
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

/// Bytes of UTF-8 text are an upper bound of its tokens in every byte-level tokenizer; this many more a message
/// cover role marks.
const TOKENS_PER_MESSAGE: u64 = 16;

/// The most a request may use, zero when it is not metered; and the model whose price is missing, if it is.
fn bound(state: &State, request: &Request) -> (Usage, Option<Arc<str>>) {
    let Request::Model(model) = request else {
        return (Usage::default(), None);
    };
    let prompt: u64 = model
        .messages
        .iter()
        .map(|message| text_bytes(message.json()) + TOKENS_PER_MESSAGE)
        .sum();
    let schema = model
        .schema
        .as_ref()
        .map_or(0, |schema| schema.json().to_string().len() as u64);
    let (input, output) = (prompt + schema, u64::from(model.max_tokens));
    let known = state.terms.models.get(&model.model).copied();
    let unpriced = known.is_none().then(|| model.model.clone());
    let price = known.unwrap_or_default();
    let microusd = (u128::from(input) * u128::from(price.input_microusd_per_mtok)
        + u128::from(output) * u128::from(price.output_microusd_per_mtok))
    .div_ceil(1_000_000);
    let bound = Usage {
        input_tokens: input,
        cached_tokens: 0,
        output_tokens: output,
        cost_microusd: u64::try_from(microusd).unwrap_or(u64::MAX),
    };
    (bound, unpriced)
}

fn text_bytes(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields.values().map(text_bytes).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The job of an attempt that has been recorded as started.
pub(super) fn job(state: &State, node: Node, path: Arc<str>, rendered: Rendered) -> Job {
    let activation = state.node(node);
    let step = state.graph.step(activation.step);
    let flight = activation
        .extra
        .as_ref()
        .and_then(|extra| extra.flight.as_ref());
    let flight = flight.expect("a job belongs to an attempt under way");
    let again = state.again_of(node);
    let key = rendered
        .key
        .unwrap_or_else(|| idempotency_key(&state.id, &path, again));
    Job {
        run: state.id.clone(),
        path,
        attempt: Attempt {
            node,
            number: flight.number,
        },
        key: key.into(),
        effect: flight.effect,
        until: flight.until,
        workspace: workspace(state, node),
        stream: stream(state, node),
        cache: step.leaf.cache,
        folder: state.terms.folder.clone(),
        request: rendered.request,
    }
}

/// The key that is handed outside: the same for all attempts of one try of an activation. A repair or a fallback
/// is another request and has another key.
fn idempotency_key(run: &str, path: &str, again: u32) -> String {
    let hash = blake3::hash(format!("{run}\n{path}~{again}").as_bytes());
    hash.to_hex()[..32].to_owned()
}

/// The field whose items somebody takes while the attempt is under way. An executor streams one field: that of the
/// first taker; others take their items from the value.
fn stream(state: &State, node: Node) -> Option<Arc<str>> {
    let takers = state.takers(node).into_iter();
    takers.map(|(_, field)| field).next()
}

/// The directory that the steps of a list share: named by the path of the scope that holds the list.
fn workspace(state: &State, node: Node) -> Option<Arc<str>> {
    let mut at = node;
    while at != 0 {
        at = state.node(at).parent;
        let list = state
            .body_of(at)
            .is_some_and(|body| state.graph.body(body).list);
        if list {
            let path = state.path(at);
            return Some(if path.is_empty() { ".".into() } else { path });
        }
        if matches!(state.node(at).role, Role::Root(_)) {
            return None;
        }
    }
    None
}
