//! `ravel conformance`: plays the cases of the semantics.

use std::path::PathBuf;

use clap::Args;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::{Context, Json};
use crate::config::counted;
use crate::conformance::{self, Difference, Filed};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::Tone;

/// Plays the cases of the execution semantics
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel conformance\n  ravel conformance 05-effects\n  ravel conformance --list compensation\n  \
    ravel conformance --dir my-cases\n\nA case is a flow, what happens outside in order, and what must be seen; \
    `docs/conformance.md` tells more.\nExit code 1 when a case is not as it must be."
)]
pub(super) struct Conformance {
    /// Only cases whose path or title contains this, or the case or section of this number
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
    /// Cases of this folder (`NN-section/NNN-name.yaml` below it) instead of those of the program
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Lists the cases without playing them
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    json: Json,
}

/// A case that is not as it must be.
struct Failed<'f> {
    filed: &'f Filed,
    differences: Vec<Difference>,
}

impl Conformance {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let mut cases = match &self.dir {
            Some(folder) => conformance::of_folder(folder)?,
            None => conformance::carried(),
        };
        if let Some(word) = &self.filter {
            cases.retain(|filed| filed.is_meant(word));
        }
        if cases.is_empty() {
            let message = "there is no such case";
            return Err(Error::not_found(message).hint("`ravel conformance --list` shows them"));
        }
        if self.list {
            return self.listed(context, &cases);
        }
        let mut sections = IndexMap::<&str, (usize, usize)>::new();
        let mut failed = Vec::new();
        for filed in &cases {
            let differences = conformance::run(filed);
            let (all, held) = sections.entry(filed.section()).or_default();
            *all += 1;
            *held += usize::from(differences.is_empty());
            if !differences.is_empty() {
                failed.push(Failed { filed, differences });
            }
        }
        if self.json.json {
            context.output.json(&document(&sections, &failed))?;
        } else {
            told(context, &sections, &failed)?;
        }
        Ok(if failed.is_empty() {
            Exit::Succeeded
        } else {
            Exit::Failed
        })
    }

    fn listed(&self, context: &Context, cases: &[Filed]) -> Result<Exit> {
        if self.json.json {
            let cases: Vec<Value> = cases.iter().map(named).collect();
            context.output.json(&json!({ "cases": cases }))?;
            return Ok(Exit::Succeeded);
        }
        for filed in cases {
            let title = match &filed.case {
                Ok(case) => &case.title,
                Err(_) => "cannot be read",
            };
            context.output.line(&format!("{}  {title}", filed.file))?;
        }
        Ok(Exit::Succeeded)
    }
}

fn named(filed: &Filed) -> Value {
    match &filed.case {
        Ok(case) => {
            json!({ "case": case.case, "file": filed.file, "title": case.title, "why": case.why })
        }
        Err(message) => json!({ "file": filed.file, "error": message }),
    }
}

fn document(sections: &IndexMap<&str, (usize, usize)>, failed: &[Failed<'_>]) -> Value {
    let failures: Vec<Value> = failed
        .iter()
        .map(|one| {
            let mut failure = named(one.filed);
            failure["differences"] = json!(one.differences);
            failure
        })
        .collect();
    let sections: Vec<Value> = sections
        .iter()
        .map(|(name, (all, held))| json!({ "section": name, "cases": all, "held": held }))
        .collect();
    json!({ "ok": failed.is_empty(), "sections": sections, "failures": failures })
}

fn told(
    context: &Context,
    sections: &IndexMap<&str, (usize, usize)>,
    failed: &[Failed<'_>],
) -> Result<()> {
    let paint = context.output.paint;
    let width = sections.keys().map(|name| name.len()).max().unwrap_or(0);
    for (name, (all, held)) in sections {
        let tone = if all == held { Tone::Good } else { Tone::Bad };
        let count = paint.tone(tone, &format!("{held} of {all}"));
        context.output.line(&format!("{name:width$}  {count}"))?;
    }
    for one in failed {
        context.output.line("")?;
        context.output.data(&report(one.filed, &one.differences))?;
    }
    let all: usize = sections.values().map(|(all, _)| all).sum();
    context.output.talk(&format!(
        "{}, {} not as it must be",
        counted(all, "case"),
        failed.len()
    ));
    Ok(())
}

/// A failing case for people.
pub(crate) fn report(filed: &Filed, differences: &[Difference]) -> String {
    let mut text = filed.file.clone();
    if let Ok(case) = &filed.case {
        text = format!("{text}\n  {}\n  why: {}", case.title, case.why);
    }
    for difference in differences {
        text.push_str(&format!(
            "\n  {}: {}\n    expected {}\n    got      {}",
            difference.at,
            difference.what,
            plain(&difference.expected),
            plain(&difference.got)
        ));
    }
    text + "\n"
}

/// A value on a line; text as it is.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('\n', "\n             "),
        Value::Null => "nothing of the kind".to_owned(),
        other => other.to_string(),
    }
}
