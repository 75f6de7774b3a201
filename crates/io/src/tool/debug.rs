//! `debug.*`: tools for trying flows out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ravel_core::effect::{Effect, ErrorClass, Failure, Outcome};
use serde_json::json;

use super::json::object;
use super::{Ask, Call, Context, Tool, number_of, text_of};
use crate::abort::stopped;

/// Longest `debug.sleep`, ms.
pub const SLEEP_MS_MAX: u64 = 3_600_000;

pub(super) static ECHO: Tool = Tool {
    name: "debug.echo",
    doc: "Gives its arguments back.",
    effect: Effect::Pure,
    input: || json!({ "type": "object" }),
    output: || json!({}),
    example: r#"{"greeting": "hello"}"#,
    rule: None,
    call: Call::Inline(|input| Ok(input.clone())),
};

pub(super) static FAIL: Tool = Tool {
    name: "debug.fail",
    doc: "Fails with a class of your choice. `fate` says what is known about its effect: with `unknown`, the step becomes uncertain.",
    effect: Effect::Once,
    input: || {
        json!({
            "type": "object",
            "properties": {
                "class": { "enum": ErrorClass::ALL.map(ErrorClass::name), "default": "tool_error" },
                "message": { "type": "string", "default": "failed as asked" },
                "fate": { "enum": ["not_done", "done", "unknown"], "default": "not_done" },
            },
            "additionalProperties": false,
        })
    },
    output: || json!({}),
    example: r#"{"class": "rate_limited", "message": "too fast", "fate": "unknown"}"#,
    rule: None,
    call: Call::Task(fail),
};

fn fail<'a>(_: &'a Context, ask: Ask<'a>) -> BoxFuture<'a, Outcome> {
    let class = ErrorClass::from_name(text_of(ask.input, "class")).unwrap_or(ErrorClass::ToolError);
    let failure = Failure::new(class, text_of(ask.input, "message"));
    let outcome = match text_of(ask.input, "fate") {
        "unknown" => Outcome::unknown(failure),
        "done" => Outcome::done_with(failure),
        _ => Outcome::not_done(failure),
    };
    std::future::ready(outcome).boxed()
}

pub(super) static COUNT: Tool = Tool {
    name: "debug.count",
    doc: "Adds one to a counter of this process and gives its value: an effect that can be counted.",
    effect: Effect::Once,
    input: || {
        json!({
            "type": "object",
            "properties": { "name": { "type": "string", "default": "" } },
            "additionalProperties": false,
        })
    },
    output: || object(json!({ "count": { "type": "integer" } }), &["count"]),
    example: r#"{"name": "mails"}"#,
    rule: None,
    call: Call::Inline(|input| {
        let mut counters = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counters
            .entry(text_of(input, "name").to_owned())
            .or_default();
        *count += 1;
        Ok(json!({ "count": *count }))
    }),
};

static COUNTERS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// What a counter of `debug.count` stands at.
#[must_use]
pub fn count(name: &str) -> u64 {
    COUNTERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(name)
        .copied()
        .unwrap_or_default()
}

pub(super) static SLEEP: Tool = Tool {
    name: "debug.sleep",
    doc: "Takes its time, as a slow tool would, and gives `value` back.",
    effect: Effect::Read,
    input: || {
        json!({
            "type": "object",
            "properties": { "ms": { "type": "integer", "minimum": 0, "maximum": SLEEP_MS_MAX }, "value": {} },
            "required": ["ms"],
            "additionalProperties": false,
        })
    },
    output: || json!({}),
    example: r#"{"ms": 50, "value": "done"}"#,
    rule: None,
    call: Call::Task(sleep),
};

fn sleep<'a>(_: &'a Context, ask: Ask<'a>) -> BoxFuture<'a, Outcome> {
    async move {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(number_of(ask.input, "ms", 0))) => {
                Outcome::done(ask.input.get("value").cloned().unwrap_or_default().into())
            }
            why = ask.abort.wait() => Outcome::not_done(stopped(why)),
        }
    }
    .boxed()
}
