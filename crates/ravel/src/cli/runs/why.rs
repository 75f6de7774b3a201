//! `ravel runs why`: what a run waits for and how to end it, or why it ended as it did.

use clap::Args;
use ravel_core::event::{Topic, Wait};
use ravel_core::port::Question;
use ravel_core::port_store::{Inbox as _, Log as _};
use ravel_core::run::{NodeView, Run};
use serde_json::{Value, json};

use super::list::is_owned;
use crate::cli::{Context, Json};
use crate::error::Result;
use crate::exit::Exit;
use crate::live::how_to_answer;
use crate::output::{Tone, units};
use crate::view::{self, place_of, short, why_skipped};
use crate::wire::{self, folded, shown_state, store_error};

/// Skipped steps that are listed.
const SKIPS_SHOWN_MAX: usize = 20;

/// Says what a run waits for, or why it ended as it did
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ravel runs why last")]
pub(super) struct Why {
    /// The run: its id, a unique beginning or end of it, or `last`
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    json: Json,
}

/// One reason, in words.
#[derive(Debug, PartialEq)]
struct Reason {
    path: String,
    text: String,
    /// What ends it, as a command or in words.
    ends: Option<String>,
    tone: Tone,
}

impl Why {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let shelf = super::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let run = folded(&shelf, &summary.run)?;
        let state = shown_state(&shelf, &summary)?;
        let owned = is_owned(&shelf, &summary.run)?;
        let mut reasons = Vec::new();
        if summary.state.is_final() {
            let bundle = shelf.store.bundle(&summary.graph).map_err(store_error)?;
            let places = wire::with_places(&bundle, &config);
            let place = |path: &str| places.as_ref().and_then(|graph| place_of(graph, path));
            reasons.extend(causes(&run, &|path| {
                place(path).map(|place| format!("{}:{}:{}", place.file, place.line, place.column))
            }));
        } else {
            if !owned {
                let waiting = shelf
                    .store
                    .waiting(&summary.run)
                    .map_err(store_error)?
                    .len();
                let queued = if waiting > 0 {
                    format!("; {waiting} messages wait for it")
                } else {
                    String::new()
                };
                reasons.push(Reason {
                    path: String::new(),
                    text: format!("no process works on the run{queued}"),
                    ends: Some(format!("ravel runs resume {}", summary.run)),
                    tone: Tone::Warn,
                });
            }
            reasons.extend(waits(&run, owned, units::now()));
        }
        if self.json.json {
            let listed: Vec<Value> = reasons
                .iter()
                .map(|reason| json!({"path": reason.path, "why": reason.text, "ends": reason.ends}))
                .collect();
            let waits: Vec<Wait> = if run.is_final() {
                Vec::new()
            } else {
                run.waits_on()
            };
            context.output.json(
                &json!({"id": summary.run, "state": state, "owned": owned, "reasons": listed, "waits": waits}),
            )?;
            return Ok(Exit::Succeeded);
        }
        let paint = context.output.paint;
        context.output.line(&format!(
            "{}  {}  {}",
            paint.bold(&summary.flow),
            state,
            summary.run
        ))?;
        for reason in reasons {
            let path = if reason.path.is_empty() {
                String::new()
            } else {
                format!("{}: ", reason.path)
            };
            context.output.line(&format!(
                "  {} {}{}",
                paint.tone(reason.tone, "•"),
                paint.bold(&path),
                reason.text
            ))?;
            if let Some(ends) = reason.ends {
                context
                    .output
                    .line(&format!("      {}", paint.dim(&ends)))?;
            }
        }
        Ok(Exit::Succeeded)
    }
}

/// What a live run waits for.
fn waits(run: &Run, owned: bool, now: u64) -> Vec<Reason> {
    let questions = run.questions();
    run.waits_on()
        .iter()
        .map(|wait| reason(run, wait, &questions, owned, now))
        .collect()
}

fn reason(run: &Run, wait: &Wait, questions: &[Question], owned: bool, now: u64) -> Reason {
    let ends_at = |until: Option<u64>| {
        until.map(|until| format!("ends by itself {}", units::relative(until, now)))
    };
    match wait {
        Wait::Attempt {
            path,
            number,
            until,
        } => Reason {
            path: path.to_string(),
            text: if owned {
                format!("attempt {number} is under way")
            } else {
                format!("attempt {number} was under way when its process ended")
            },
            ends: owned.then(|| format!("stopped {} at the latest", units::relative(*until, now))),
            tone: Tone::Busy,
        },
        Wait::Permit { path, keys } => Reason {
            path: path.to_string(),
            text: format!("waits for its turn under {}", keys.join(", ")),
            ends: Some("an attempt that holds a permit ends".into()),
            tone: Tone::Faint,
        },
        Wait::Budget { path } => Reason {
            path: path.to_string(),
            text:
                "is ready, and waits to be started or for budget that other attempts have reserved"
                    .into(),
            ends: Some("an attempt ends".into()),
            tone: Tone::Faint,
        },
        Wait::Person {
            path,
            question,
            ask,
            topic,
            until,
        } => {
            let ask = crate::output::one_line(ask);
            let text = match topic {
                Topic::Human => format!("asks a person: {ask}"),
                Topic::Uncertain => format!("is uncertain: it may or may not have happened. {ask}"),
                Topic::Compensation => format!("could not be compensated. {ask}"),
            };
            let open = questions.iter().find(|open| open.id == *question);
            let answer = open.map_or_else(
                || format!("ravel answer {question}"),
                |open| how_to_answer(&shown(open)),
            );
            let by_itself = ends_at(*until)
                .map(|text| format!("  ({text})"))
                .unwrap_or_default();
            Reason {
                path: path.to_string(),
                text,
                ends: Some(format!("{answer}{by_itself}")),
                tone: Tone::Warn,
            }
        }
        Wait::Time { path, until, why } => Reason {
            path: path.to_string(),
            text: match *why {
                "retry" => "is tried again after a pause".to_owned(),
                "deadline" => "has a deadline".to_owned(),
                _ => "waits for a clock".to_owned(),
            },
            ends: Some(format!(
                "{} ({})",
                units::relative(*until, now),
                units::time(*until)
            )),
            tone: Tone::Faint,
        },
        Wait::Signal { path, name, until } => {
            let by_itself = ends_at(*until)
                .map(|text| format!("  ({text})"))
                .unwrap_or_default();
            Reason {
                path: path.to_string(),
                text: format!("waits for a message in `{name}`"),
                ends: Some(format!("ravel signal {} {name} …{by_itself}", run.id())),
                tone: Tone::Warn,
            }
        }
    }
}

/// An open question in the form that the live view shows.
pub(crate) fn shown(question: &Question) -> view::Question {
    view::Question {
        id: question.id.to_string(),
        path: question.path.to_string(),
        ask: crate::output::one_line(&question.ask),
        form: question.form.json().clone(),
        until: question.until,
    }
}

/// The causal chain of a run that is over.
fn causes(run: &Run, place: &dyn Fn(&str) -> Option<String>) -> Vec<Reason> {
    let nodes: Vec<NodeView> = run.nodes().collect();
    let mut reasons = Vec::new();
    let origin = run.error().and_then(|error| error.step.clone());
    if let Some(error) = run.error() {
        reasons.push(Reason {
            path: String::new(),
            text: format!("the run failed with {}", short(error)),
            ends: error
                .step
                .as_ref()
                .map(|step| format!("it began in {step}")),
            tone: Tone::Bad,
        });
    }
    // From the step where it began outwards: each scope that failed with it.
    let mut failed: Vec<&NodeView> = nodes
        .iter()
        .filter(|node| node.state == "failed" && !node.path.is_empty())
        .collect();
    failed.sort_by_key(|node| (node.ended, std::cmp::Reverse(node.path.len())));
    for node in failed {
        let began = origin.as_deref() == Some(&*node.path);
        let error = node.error.as_ref().map(short).unwrap_or_default();
        let tries = if node.attempts > 1 {
            format!(" after {} attempts", node.attempts)
        } else {
            String::new()
        };
        let data = node
            .error
            .as_ref()
            .filter(|_| began)
            .and_then(|error| error.data.as_ref());
        let detail = data.map(|data| detail(data.json()));
        let at = place(&node.path);
        reasons.push(Reason {
            path: node.path.to_string(),
            text: if began {
                format!("{} failed{tries}: {error}", node.kind)
            } else {
                format!("failed with it: {error}")
            },
            ends: [at, detail]
                .into_iter()
                .flatten()
                .reduce(|at, detail| format!("{at}\n      {detail}")),
            tone: Tone::Bad,
        });
    }
    let skipped: Vec<&NodeView> = nodes.iter().filter(|node| node.skip.is_some()).collect();
    for node in skipped.iter().take(SKIPS_SHOWN_MAX) {
        let why = node.skip.as_ref().map(why_skipped).unwrap_or_default();
        reasons.push(Reason {
            path: node.path.to_string(),
            text: format!("skipped: {why}"),
            ends: None,
            tone: Tone::Faint,
        });
    }
    if skipped.len() > SKIPS_SHOWN_MAX {
        let text = format!("and {} more were skipped", skipped.len() - SKIPS_SHOWN_MAX);
        reasons.push(Reason {
            path: String::new(),
            text,
            ends: None,
            tone: Tone::Faint,
        });
    }
    for path in run.uncompensated() {
        reasons.push(Reason {
            path: path.to_string(),
            text: "its effect stands: it was not compensated".into(),
            ends: None,
            tone: Tone::Warn,
        });
    }
    if reasons.is_empty() {
        let text = "every step did what it should".into();
        reasons.push(Reason {
            path: String::new(),
            text,
            ends: None,
            tone: Tone::Good,
        });
    }
    reasons
}

/// The part of an error's detail that people look for first.
fn detail(data: &Value) -> String {
    const SHOWN_CHARS_MAX: usize = 300;
    let stderr = data
        .get("stderr")
        .or_else(|| data.get("stderr_tail"))
        .and_then(Value::as_str);
    let text = stderr
        .filter(|text| !text.trim().is_empty())
        .map_or_else(|| data.to_string(), |text| text.trim().to_owned());
    crate::output::cut(&crate::output::one_line(&text), SHOWN_CHARS_MAX)
}
