//! `ravel explain`: a diagnostic's code, a step kind, a key of the language, an error class.

use clap::Args;
use ravel_core::effect::ErrorClass;
use ravel_core::lang::{codes, reference};

use super::{Context, Json};
use crate::error::{Error, Result, nearest};
use crate::exit::Exit;
use serde_json::json;

/// Explains a code of `check`, a step kind, a key of the language or an error class
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel explain RV0102\n  ravel explain for_each\n  ravel explain retry\n  ravel explain type\n  ravel explain rate_limited\n  ravel explain --list"
)]
pub(super) struct Explain {
    /// RV0102, model, timeout, …
    #[arg(value_name = "TOPIC", required_unless_present = "list")]
    topic: Option<String>,
    /// Lists everything that can be explained
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    json: Json,
}

/// Something that can be explained.
struct Topic {
    name: String,
    title: String,
    page: String,
}

impl Explain {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let topics = topics();
        if self.list {
            if self.json.json {
                let listed: Vec<_> = topics
                    .iter()
                    .map(|topic| json!({"topic": topic.name, "title": topic.title}))
                    .collect();
                context.output.json(&json!({"topics": listed}))?;
            } else {
                for topic in &topics {
                    context.output.line(&format!(
                        "{:<18} {}",
                        topic.name,
                        context.output.paint.dim(&topic.title)
                    ))?;
                }
            }
            return Ok(Exit::Succeeded);
        }
        let wanted = self.topic.unwrap_or_default();
        let code = codes::Code::from_text(&wanted).map(|code| code.to_string());
        let name = code.unwrap_or_else(|| wanted.clone());
        let Some(topic) = topics.iter().find(|topic| topic.name == name) else {
            let near = nearest(&wanted, topics.iter().map(|topic| topic.name.as_str()));
            return Err(
                Error::not_found(format!("there is nothing called `{wanted}`")).hint(
                    near.map_or_else(
                        || "`ravel explain --list` lists everything".to_owned(),
                        |near| format!("did you mean `{near}`?"),
                    ),
                ),
            );
        };
        if self.json.json {
            context
                .output
                .json(&json!({"topic": topic.name, "title": topic.title, "text": topic.page}))?;
        } else {
            let paint = context.output.paint;
            context
                .output
                .line(&format!("{}  {}\n", paint.bold(&topic.name), topic.title))?;
            context.output.line(topic.page.trim_end())?;
        }
        Ok(Exit::Succeeded)
    }
}

fn topics() -> Vec<Topic> {
    let codes = codes::TABLE.iter().map(|entry| Topic {
        name: entry.code.to_string(),
        title: entry.title.to_owned(),
        page: reference::page(entry),
    });
    let classes = ErrorClass::ALL.into_iter().map(|class| Topic {
        name: class.name().to_owned(),
        title: "an error class".to_owned(),
        page: class_page(class),
    });
    let kinds = reference::kinds().filter_map(|kind| {
        let page = reference::kind(kind)?;
        Some(Topic {
            name: kind.to_owned(),
            title: "a kind of step".to_owned(),
            page,
        })
    });
    let mut topics: Vec<Topic> = codes.chain(kinds).chain(classes).collect();
    for name in reference::entries() {
        let told = topics.iter().any(|topic| topic.name == name);
        if let (false, Some(page)) = (told, reference::entry(name)) {
            topics.push(Topic {
                name: name.to_owned(),
                title: "a key of the language".to_owned(),
                page,
            });
        }
    }
    topics
}

fn class_page(class: ErrorClass) -> String {
    let (what, then) = about(class);
    let retried = if class.is_transient() {
        "Tried again by `retry` unless `retry.errors` says otherwise."
    } else {
        "Not tried again unless `retry.errors` names it."
    };
    format!("{what}\n\n{then}\n\n{retried} `catch: [{{ errors: [{class}], … }}]` takes it.")
}

/// What each class means, and what to do about it, in the order of [`ErrorClass::ALL`].
const CLASSES: [(ErrorClass, &str, &str); ErrorClass::ALL.len()] = [
    (
        ErrorClass::InvalidInput,
        "What a step was given does not fit: its type, its schema, a missing argument.",
        "Correct the step that made the value, or the type.",
    ),
    (
        ErrorClass::InvalidOutput,
        "A step's value does not fit its `returns`.",
        "`repair: N` lets a model try again with the problems; a looser type may say what is meant.",
    ),
    (
        ErrorClass::GateFailed,
        "A gate looked at the value and said no.",
        "`repair: N` tries again with `last.verdict`; `fallback` goes on with something else.",
    ),
    (
        ErrorClass::Timeout,
        "One attempt took longer than its `timeout`.",
        "Its effect is unknown: a `once` becomes `uncertain` first. A longer `timeout`, or less work.",
    ),
    (
        ErrorClass::Deadline,
        "A `deadline` of the step or of a scope around it passed, all tries included.",
        "`on_deadline` of a question or wait can say what then.",
    ),
    (
        ErrorClass::RateLimited,
        "The other side said: too many requests.",
        "It is waited as long as it asked for. `concurrency: {key, max}` keeps below its limit.",
    ),
    (
        ErrorClass::Overloaded,
        "The other side, or this engine, has no room for more.",
        "It passes; if it does not, fewer at once: `parallel`, `concurrency`.",
    ),
    (
        ErrorClass::Unavailable,
        "The other side could not be reached, or answered with a server error.",
        "Look whether it is up: `ravel doctor` tries the model endpoints.",
    ),
    (
        ErrorClass::Unauthorized,
        "A key or secret is missing or not accepted.",
        "`ravel doctor` says which secrets are there.",
    ),
    (
        ErrorClass::Refused,
        "The other side understood and will not do it: a content policy, a forbidden request.",
        "Another request, or a `fallback` with another model.",
    ),
    (
        ErrorClass::NotFound,
        "What was asked for does not exist: HTTP 404, a missing file, an unknown model.",
        "Check the name or the path.",
    ),
    (
        ErrorClass::BudgetExceeded,
        "A `budget` of the step or of a scope around it does not cover the call.",
        "A larger budget, a cheaper model, smaller `max_tokens`.",
    ),
    (
        ErrorClass::PolicyDenied,
        "A person or a policy said no.",
        "Not an accident: handle it with `catch`.",
    ),
    (
        ErrorClass::ToolError,
        "A tool or a program failed: a non-zero exit code, an error result.",
        "`ravel runs why RUN` shows the end of its stderr. `ok: [0, 1]` makes exit codes data.",
    ),
    (
        ErrorClass::JoinUnmet,
        "`join: any` or `first: k` can no longer be met: too many of the steps failed.",
        "Handle the failures of the steps, or ask for fewer.",
    ),
    (
        ErrorClass::Exhausted,
        "A `repeat` did its `max` rounds and `until` was never true.",
        "More rounds, or `on_max: return`.",
    ),
    (
        ErrorClass::Crashed,
        "The process that carried the attempt out died.",
        "It is repeated where that is safe; look at memory and CPU limits if it comes again.",
    ),
    (
        ErrorClass::Uncertain,
        "A `once` may or may not have happened, and nobody could say.",
        "`on_uncertain` says what then: ask, check, retry, fail.",
    ),
    (
        ErrorClass::Cancelled,
        "Somebody cancelled it, or its scope was decided without it.",
        "`catch` takes it only when it names it.",
    ),
    (
        ErrorClass::Internal,
        "Ravel itself did something wrong.",
        "Please report it, with `ravel runs export RUN`.",
    ),
];

/// What a class means, and what to do about it.
pub(super) fn about(class: ErrorClass) -> (&'static str, &'static str) {
    let row = CLASSES.iter().find(|(known, _, _)| *known == class);
    row.map_or(("", ""), |(_, what, then)| (what, then))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_class_is_explained() {
        assert_eq!(CLASSES.map(|(class, _, _)| class), ErrorClass::ALL);
    }

    #[test]
    fn topics_have_unique_names_and_pages() {
        let mut names: Vec<String> = topics().iter().map(|topic| topic.name.clone()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(topics().iter().all(|topic| !topic.page.trim().is_empty()));
    }
}
