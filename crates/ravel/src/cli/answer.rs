//! `ravel answer`: open questions, and answers to them from any terminal.

use std::io::stderr;
use std::sync::Arc;

use clap::Args;
use globset::{GlobBuilder, GlobMatcher};
use ravel_core::port::Question;
use ravel_core::port_store::{Listing as _, Message};
use ravel_core::value::Val;
use serde_json::{Value, json};

use super::messages::{self, Sent};
use super::{Context, Json};
use crate::config::counted;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::input;
use crate::live::how_to_answer;
use crate::output::{Column, Table, Tone, units};
use crate::wire::{self, Shelf, store_error};

/// Answers open questions
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel answer --list\n  ravel answer q1a2 ok=true comment=\"looks right\"\n  \
    ravel answer --all 'publish/**' not_done=retry\n  ravel answer q1a2 --json-value '{\"ok\": true}'\n\n\
    On a terminal, `ravel answer ID` alone asks for each field."
)]
pub(super) struct Answer {
    /// The question: its id, or a unique beginning or end of it
    #[arg(value_name = "ID", required_unless_present_any = ["list", "all"])]
    id: Option<String>,
    /// Fields of the answer: k=text, k=@file or k:=json
    #[arg(value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// Lists the open questions
    #[arg(long, conflicts_with_all = ["all", "fields", "json_value"])]
    list: bool,
    /// Answers every open question whose path matches
    #[arg(long, value_name = "PATHGLOB", value_parser = glob)]
    all: Option<GlobMatcher>,
    /// Only questions of this run, with --list and --all
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// The whole answer as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "fields")]
    json_value: Option<String>,
    /// Who answers, for the log [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    json: Json,
}

/// Paths are matched whole; `*` stays within a segment, `**` does not. Brackets are indexes, not classes.
fn glob(text: &str) -> std::result::Result<GlobMatcher, String> {
    let text = text.replace('[', "\\[").replace(']', "\\]");
    GlobBuilder::new(&text)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| error.to_string())
}

impl Answer {
    pub(super) fn run(mut self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let shelf = wire::open_existing(&config)?;
        if self.list {
            return self.list(context, shelf.as_ref());
        }
        let shelf = shelf.ok_or_else(|| {
            Error::not_found(format!(
                "there is no store at {}",
                config.store_path().display()
            ))
        })?;
        if self.all.is_some() {
            // With --all there is no id: what stands in its place is the first field.
            if let Some(first) = self.id.take() {
                self.fields.insert(0, first);
            }
            return self.all(context, &shelf);
        }
        let id = self.id.clone().unwrap_or_default();
        let question = wire::find_question(&shelf, &id)?;
        let value = self.value(context, &question)?;
        let sent = self.send(&shelf, &question, value)?;
        sent.tell(
            context,
            self.json.json,
            &question.run,
            &format!("the answer to {}", question.path),
        )
    }

    fn questions(&self, shelf: Option<&Shelf>) -> Result<Vec<Question>> {
        let Some(shelf) = shelf else {
            return Ok(Vec::new());
        };
        let run = match &self.run {
            Some(run) => Some(wire::find_run(shelf, run)?.run),
            None => None,
        };
        shelf.store.questions(run.as_deref()).map_err(store_error)
    }

    fn list(&self, context: &Context, shelf: Option<&Shelf>) -> Result<Exit> {
        let questions = self.questions(shelf)?;
        if self.json.json {
            let listed: Vec<Value> = questions.iter().map(element).collect();
            context.output.json(&json!({"questions": listed}))?;
            return Ok(Exit::Succeeded);
        }
        if questions.is_empty() {
            context.output.talk("no open questions");
            return Ok(Exit::Succeeded);
        }
        let now = units::now();
        let mut table = Table::new([
            Column::left("question"),
            Column::left("asked"),
            Column::left("ends"),
            Column::flexible("step"),
            Column::flexible("ask"),
            Column::left("answer with"),
        ]);
        for question in &questions {
            table.row([
                (question.id.to_string(), None),
                (units::relative(question.asked, now), Some(Tone::Faint)),
                (
                    question
                        .until
                        .map_or_else(|| "-".to_owned(), |until| units::relative(until, now)),
                    Some(Tone::Faint),
                ),
                (question.path.to_string(), None),
                (question.ask.to_string(), Some(Tone::Warn)),
                (fields_of(question), Some(Tone::Faint)),
            ]);
        }
        context
            .output
            .data(&table.render(context.output.paint, context.output.width()))?;
        Ok(Exit::Succeeded)
    }

    fn all(&self, context: &Context, shelf: &Shelf) -> Result<Exit> {
        let mut questions = self.questions(Some(shelf))?;
        questions.retain(|question| {
            self.all
                .as_ref()
                .is_some_and(|glob| glob.is_match(&*question.path))
        });
        if questions.is_empty() {
            return Err(Error::not_found("no open question matches")
                .hint("`ravel answer --list` lists the open questions"));
        }
        if self.fields.is_empty() && self.json_value.is_none() {
            return Err(Error::usage("what is the answer?")
                .hint("add fields (ok=true) or --json-value JSON"));
        }
        // All are checked before the first is sent: a slip in a field answers nothing.
        let mut answers = Vec::new();
        for question in &questions {
            answers.push(self.value(context, question)?);
        }
        let mut results = Vec::new();
        let mut worst = Exit::Succeeded;
        for (question, value) in questions.iter().zip(answers) {
            let sent = match self.send(shelf, question, value) {
                Ok(sent) => sent,
                Err(error) => Sent::Refused {
                    code: error.exit().to_string(),
                    message: error.to_string(),
                },
            };
            let state = match &sent {
                Sent::Taken { .. } => "taken".to_owned(),
                Sent::Queued => "queued".to_owned(),
                Sent::Refused { message, .. } => {
                    worst = Exit::Refused;
                    format!("refused: {message}")
                }
            };
            if !self.json.json {
                context
                    .output
                    .talk(&format!("{}  {}  {state}", question.id, question.path));
            }
            results.push(json!({"id": question.id, "run": question.run, "path": question.path, "state": state}));
        }
        if self.json.json {
            context.output.json(&json!({"answers": results}))?;
        } else {
            context.output.talk(&counted(results.len(), "question"));
        }
        Ok(worst)
    }

    /// The answer as it was typed, or asked for at the terminal.
    fn value(&self, context: &Context, question: &Question) -> Result<Value> {
        let form = question.form.json();
        if let Some(text) = &self.json_value {
            return serde_json::from_str(text)
                .map_err(|error| Error::usage("--json-value holds no JSON").because(error));
        }
        let fields = input::fields(form);
        let nothing = self.fields.is_empty();
        if nothing && context.output.stdin_terminal && !fields.is_empty() {
            let ask = format!("{}: {}", question.path, question.ask);
            let mut from = std::io::stdin().lock();
            return input::ask(
                &ask,
                form,
                context.output.paint_talk,
                &mut from,
                &mut stderr(),
            )
            .map_err(|error| Error::trouble("cannot read the terminal").because(error))?
            .ok_or_else(|| Error::usage("no answer was given"));
        }
        if fields.is_empty() && !nothing && self.fields.len() == 1 && !self.fields[0].contains('=')
        {
            return input::typed("answer", &self.fields[0], form, form);
        }
        let missing = fields.iter().any(|field| field.required);
        if nothing && missing {
            return Err(
                Error::usage(format!("{} asks: {}", question.path, question.ask))
                    .hint(how_to_answer(&super::runs::shown_question(question))),
            );
        }
        input::pairs(&self.fields, form).map(Value::Object)
    }

    fn send(&self, shelf: &Shelf, question: &Question, value: Value) -> Result<Sent> {
        let by = self.by.as_deref().map(Arc::from).or_else(messages::sender);
        let message = Message::Answer {
            question: question.id.clone(),
            value: Val::new(value),
            by,
        };
        let summary = wire::find_run(shelf, &question.run)?;
        messages::check(shelf, &summary, &message)?;
        messages::post(shelf, &question.run, &message)
    }
}

/// A question in JSON documents.
fn element(question: &Question) -> Value {
    json!({
        "id": question.id,
        "run": question.run,
        "path": question.path,
        "topic": question.topic.name(),
        "ask": question.ask,
        "form": question.form,
        "to": question.to,
        "asked": units::rfc3339(question.asked),
        "until": question.until.map(units::rfc3339),
    })
}

fn fields_of(question: &Question) -> String {
    let shown = how_to_answer(&super::runs::shown_question(question));
    shown
        .split_once(&*question.id)
        .map(|(_, fields)| fields.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_paths_with_indexes() {
        let fits = |pattern: &str, path: &str| glob(pattern).unwrap().is_match(path);
        assert!(fits("docs[3]/send", "docs[3]/send"));
        assert!(fits("docs*/send", "docs[3]/send"));
        assert!(fits("**/send", "a/docs[3]/send"));
        assert!(fits("**", "a/b"));
        assert!(!fits("*", "a/b"));
        assert!(!fits("docs[3]/send", "docs3/send"));
    }
}
