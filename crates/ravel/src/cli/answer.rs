//! `ravel answer`: open questions, and answers to them from any terminal.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::stderr;
use std::sync::Arc;

use clap::Args;
use globset::{GlobBuilder, GlobMatcher};
use ravel_core::event::Topic;
use ravel_core::expr::exact_json;
use ravel_core::graph::{Kind, OnDeadline};
use ravel_core::port::Question;
use ravel_core::port_store::{Listing as _, Log as _, Message, Posted};
use ravel_core::value::Val;
use serde_json::{Value, json};

use super::messages::{self, Foresight, Sending, Sent, Verdict};
use super::{Context, Json, reading};
use crate::config::counted;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::input;
use crate::live::ways_to_answer;
use crate::output::{Column, Table, Tone, units};
use crate::wire::{self, Shelf, store_error};

/// Paths of a group of questions that are named.
const PATHS_SHOWN_MAX: usize = 5;

/// Answers open questions
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel answer --list\n  ravel answer q1a2 ok=true comment=\"looks right\"\n  \
    ravel answer --all 'publish/**' not_done=retry\n  ravel answer q1a2 --json-value '{\"ok\": true}'\n\n\
    On a terminal, `ravel answer ID` alone asks for each field.\n\n\
    accepted: the run took it in. queued: no process works on the run, `ravel runs resume` takes it in. A\n\
    question has one answer: a second one is refused with who gave the first, and when."
)]
pub(super) struct Answer {
    /// The question: its id, or a unique beginning or end of it (3 characters or more)
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
    /// Takes the place of an answer that waits for the question
    #[arg(long, conflicts_with = "list")]
    replace: bool,
    /// Who answers, for the log [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    sending: Sending,
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
        let question = offered(&shelf, wire::find_question(&shelf, &id)?)?;
        let value = self.value(context, &shelf, &question)?;
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
        let open = shelf.store.questions(run.as_deref()).map_err(store_error)?;
        open.into_iter().map(|open| offered(shelf, open)).collect()
    }

    fn list(&self, context: &Context, shelf: Option<&Shelf>) -> Result<Exit> {
        let questions = self.questions(shelf)?;
        let queued = match shelf {
            Some(shelf) => queued(shelf, &questions)?,
            None => HashMap::new(),
        };
        let overdue = match shelf {
            Some(shelf) => overdue(shelf, &questions)?,
            None => BTreeSet::new(),
        };
        if self.json.json {
            let listed: Vec<Value> = questions
                .iter()
                .map(|question| {
                    let mut element = element(question, queued.get(&question.id));
                    element["overdue"] = json!(overdue.contains(&question.id));
                    element
                })
                .collect();
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
            let ends = question
                .until
                .map_or_else(|| "-".to_owned(), |until| ends(shelf, question, until, now));
            let (answer, tone) = match queued.get(&question.id) {
                Some(posted) => (format!("queued: {}", messages::waiting(posted)), Tone::Note),
                None if overdue.contains(&question.id) => {
                    let resume = format!("too late: ravel runs resume {}", question.run);
                    (resume, Tone::Faint)
                }
                None => (fields_of(shelf, question), Tone::Faint),
            };
            table.row([
                (question.id.to_string(), None),
                (units::relative(question.asked, now), Some(Tone::Faint)),
                (ends, Some(Tone::Faint)),
                (question.path.to_string(), None),
                (question.ask.to_string(), Some(Tone::Warn)),
                (answer, Some(tone)),
            ]);
        }
        context
            .output
            .data(&table.render(context.output.paint, context.output.data_width()))?;
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
        let Sorted { fit, unfit } = self.sort_out(context, shelf, &questions)?;
        if fit.is_empty() {
            return Err(unfit_error(shelf, &questions, &unfit));
        }
        let mut results = Vec::new();
        let mut worst = Exit::Succeeded;
        for (question, value) in fit {
            let sent = match self.send(shelf, question, value) {
                Ok(sent) => sent,
                Err(error) => Sent::Refused(error),
            };
            let mut said = sent.state().to_owned();
            if let Sent::Refused(error) = &sent {
                worst = Exit::Refused;
                said = format!("refused: {error}");
            }
            if let Sent::Silent(owner, _) = &sent {
                worst = Exit::Refused;
                said = format!("unanswered: process {} is silent", owner.pid);
            }
            if !self.json.json {
                context
                    .output
                    .talk(&format!("{}  {}  {said}", question.id, question.path));
            }
            results.push(json!({"id": question.id, "run": question.run, "path": question.path, "state": said}));
        }
        let answered = results.len();
        for (question, why) in &unfit {
            results.push(
                json!({"id": question.id, "run": question.run, "path": question.path,
                "state": format!("open: {why}")}),
            );
        }
        if self.json.json {
            context.output.json(&json!({"answers": results}))?;
        } else {
            context.output.talk(&counted(answered, "question"));
        }
        if unfit.is_empty() {
            return Ok(worst);
        }
        Err(unfit_error(shelf, &questions, &unfit))
    }

    /// Which questions the answer fits, and why it does not fit the others. Nothing is sent yet.
    fn sort_out<'q>(
        &self,
        context: &Context,
        shelf: &Shelf,
        questions: &'q [Question],
    ) -> Result<Sorted<'q>> {
        let mut runs: HashMap<Arc<str>, Foresight> = HashMap::new();
        let mut sorted = Sorted::default();
        for question in questions {
            let value = match self.value(context, shelf, question) {
                Ok(value) => value,
                Err(error) => {
                    sorted.unfit.push((question, error.to_string()));
                    continue;
                }
            };
            if !runs.contains_key(&question.run) {
                let summary = wire::find_run(shelf, &question.run)?;
                let foresight = Foresight::new(shelf, &summary)?;
                runs.insert(question.run.clone(), foresight);
            }
            let message = self.message(question, value.clone());
            let verdict = runs
                .get_mut(&question.run)
                .map(|foresight| foresight.verdict(&message));
            match verdict {
                // What is refused for another reason than its form is said when it is sent.
                Some(Verdict::Refuses(error)) if error.exit() == Exit::Usage => {
                    sorted.unfit.push((question, error.to_string()));
                }
                Some(_) | None => sorted.fit.push((question, value)),
            }
        }
        Ok(sorted)
    }

    /// The answer as it was typed, or asked for at the terminal.
    fn value(&self, context: &Context, shelf: &Shelf, question: &Question) -> Result<Value> {
        let form = question.form.json();
        if let Some(text) = &self.json_value {
            return exact_json(text)
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
            let ways = ways(Some(shelf), question);
            let error = Error::usage(format!("{} asks: {}", question.path, question.ask));
            return Err(ways.into_iter().fold(error, Error::hint));
        }
        input::pairs(&self.fields, form).map(Value::Object)
    }

    fn message(&self, question: &Question, value: Value) -> Message {
        Message::Answer {
            question: question.id.clone(),
            value: Val::new(value),
            by: self.by.as_deref().map(Arc::from).or_else(messages::sender),
        }
    }

    fn send(&self, shelf: &Shelf, question: &Question, value: Value) -> Result<Sent> {
        let summary = wire::find_run(shelf, &question.run)?;
        let message = self.message(question, value);
        messages::send_or_replace(shelf, &summary, &message, (self.sending, self.replace))
    }
}

/// What `--all` does with the questions that match.
#[derive(Default)]
struct Sorted<'q> {
    /// The answer fits them.
    fit: Vec<(&'q Question, Value)>,
    /// It does not, and why.
    unfit: Vec<(&'q Question, String)>,
}

/// Answers that wait for questions, by question.
fn queued(shelf: &Shelf, questions: &[Question]) -> Result<HashMap<Arc<str>, Posted>> {
    let runs: BTreeSet<&Arc<str>> = questions.iter().map(|question| &question.run).collect();
    let mut queued = HashMap::new();
    for run in runs {
        for (question, posted) in messages::waiting_answers(shelf, run)? {
            queued.entry(question).or_insert(posted);
        }
    }
    Ok(queued)
}

/// Questions whose time passed while nobody worked on their runs.
fn overdue(shelf: &Shelf, questions: &[Question]) -> Result<BTreeSet<Arc<str>>> {
    let mut by_run: BTreeMap<&Arc<str>, Vec<Question>> = BTreeMap::new();
    for question in questions {
        by_run
            .entry(&question.run)
            .or_default()
            .push(question.clone());
    }
    let mut overdue = BTreeSet::new();
    for (run, open) in by_run {
        let summary = wire::find_run(shelf, run)?;
        overdue.extend(messages::overdue(shelf, &summary, &open)?);
    }
    Ok(overdue)
}

/// A question without what is not to be had any more: its run's log says so.
fn offered(shelf: &Shelf, question: Question) -> Result<Question> {
    if question.topic != Topic::Uncertain {
        return Ok(question);
    }
    let turns = shelf.store.load(&question.run).map_err(store_error)?;
    Ok(crate::view::offered(question, &turns))
}

/// Questions that an answer does not fit, a group a form, with what each form needs.
fn unfit_error(shelf: &Shelf, questions: &[Question], unfit: &[(&Question, String)]) -> Error {
    let mut groups: Vec<(&Question, Vec<&str>, &str)> = Vec::new();
    for (question, why) in unfit {
        match groups
            .iter_mut()
            .find(|(first, _, _)| first.form == question.form && first.topic == question.topic)
        {
            Some((_, paths, _)) => paths.push(&question.path),
            None => groups.push((question, vec![&question.path], why)),
        }
    }
    let count = counted(unfit.len(), "question");
    let message = if unfit.len() == questions.len() {
        format!("the answer fits no question: {count} asked for something else")
    } else {
        format!("the answer does not fit {count}, which stay open")
    };
    groups.iter().fold(Error::usage(message), |error, group| {
        let (first, paths, why) = group;
        let more = paths.len().saturating_sub(PATHS_SHOWN_MAX);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let shown = &paths[..paths.len().min(PATHS_SHOWN_MAX)];
        error.hint(format!(
            "{}{more}: {why}; it is answered with {}",
            shown.join(", "),
            fields_of(Some(shelf), first)
        ))
    })
}

/// A question in JSON documents.
fn element(question: &Question, queued: Option<&Posted>) -> Value {
    let queued = queued.and_then(|posted| {
        let Message::Answer { value, by, .. } = &posted.message else {
            return None;
        };
        Some(json!({"by": by, "at": units::rfc3339(posted.at), "value": value}))
    });
    let mut element = reading::question(question);
    element["queued"] = json!(queued);
    element
}

/// What is typed after the id, in one line; several ways are parted by `|`.
fn fields_of(shelf: Option<&Shelf>, question: &Question) -> String {
    let ways = ways(shelf, question);
    let fields: Vec<&str> = ways
        .iter()
        .filter_map(|way| way.split_once(&*question.id))
        .map(|(_, fields)| fields.trim())
        .collect();
    fields.join(" | ")
}

/// When a question ends without an answer, and whether its step fails then.
fn ends(shelf: Option<&Shelf>, question: &Question, until: u64, now: u64) -> String {
    let when = units::relative(until, now);
    if until <= now {
        return format!("over, {when}");
    }
    let graph = shelf.and_then(|shelf| {
        let summary = wire::find_run(shelf, &question.run).ok()?;
        shelf.graphs.get(&summary.graph).ok()
    });
    let step = graph
        .as_ref()
        .and_then(|graph| crate::view::resolve(graph, &question.path));
    match step.map(|step| &step.kind) {
        Some(Kind::Human(human))
            if human.escalate.is_empty() && matches!(human.on_deadline, OnDeadline::Fail) =>
        {
            format!("fails {when}")
        }
        Some(_) if question.topic == Topic::Uncertain => format!("fails {when}"),
        Some(_) | None => when,
    }
}

/// The ways to answer a question, with the shape of an effect's value where the run's graph tells it.
fn ways(shelf: Option<&Shelf>, question: &Question) -> Vec<String> {
    let graph = shelf
        .filter(|_| question.topic == Topic::Uncertain)
        .and_then(|shelf| {
            let summary = wire::find_run(shelf, &question.run).ok()?;
            shelf.graphs.get(&summary.graph).ok()
        });
    ways_to_answer(&super::runs::shown_question(question, graph.as_deref()))
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
