//! `ravel doctor --repair`: a damaged store made usable, and what is lost of it.

use ravel_core::port::RunState;
use ravel_store::{Cut, Repair, Sqlite};
use serde_json::{Value, json};

use crate::cli::{Context, Json};
use crate::config::counted;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{Tone, units};
use crate::wire::store_error;

/// Repairs the store of the configuration. What is lost is the exit code's matter, too.
pub(super) fn run(context: &Context, as_json: Json) -> Result<Exit> {
    let path = context.config()?.store_path();
    // A folder's name: no colons.
    let stamp = units::rfc3339(units::now()).replace(':', "");
    let repair = Sqlite::repair(&path, &stamp).map_err(store_error)?;
    let lost = repair.as_ref().is_some_and(|repair| !repair.cut.is_empty());
    if as_json.json {
        context.output.json(&json!({
            "ok": !lost,
            "store": path,
            "repaired": repair.is_some(),
            "backup": repair.as_ref().map(|repair| &repair.backup),
            "whole": repair.as_ref().map(|repair| repair.whole),
            "nameless_turns": repair.as_ref().map(|repair| repair.nameless_turns),
            "runs": repair.as_ref().map(|repair| repair.cut.iter().map(document).collect::<Vec<_>>()),
        }))?;
    } else {
        match &repair {
            None => context.output.line(&format!(
                "sound     {}: nothing was changed",
                path.display()
            ))?,
            Some(repair) => tell(context, &path.display().to_string(), repair)?,
        }
    }
    Ok(if lost { Exit::Damaged } else { Exit::Succeeded })
}

fn document(cut: &Cut) -> Value {
    json!({
        "id": cut.run, "flow": cut.flow, "state": cut.state, "turns_kept": cut.kept, "turns": cut.had,
        "lost_from": cut.kept + 1, "lost": cut.lost,
    })
}

fn tell(context: &Context, path: &str, repair: &Repair) -> Result<()> {
    let output = &context.output;
    let paint = output.paint;
    let runs = |count| counted(usize::try_from(count).unwrap_or(usize::MAX), "run");
    let verdict = if repair.cut.is_empty() {
        paint.tone(Tone::Good, "repaired")
    } else {
        paint.tone(Tone::Warn, "repaired")
    };
    output.line(&format!(
        "{verdict}  {path}: of {} nothing is lost, of {} something",
        runs(repair.whole),
        runs(repair.cut.len() as u64)
    ))?;
    for cut in &repair.cut {
        let Cut {
            run,
            flow,
            state,
            kept,
            lost,
            ..
        } = cut;
        let had = cut.had.map_or_else(
            || "nobody can tell how many there were".to_owned(),
            |had| format!("there were {had}"),
        );
        output.line(&format!("  {}  {run}", paint.bold(flow)))?;
        output.line(&format!("      {lost}"))?;
        let over = RunState::named(state).is_some_and(RunState::is_final);
        let way = if over {
            format!(
                "it was over ({state}), so nothing goes on; `ravel runs gc` removes what is left of it"
            )
        } else if *kept == 0 {
            format!("no turn is left: `ravel runs cancel {run}` gives it up")
        } else if cut.had == Some(*kept) {
            format!(
                "its turns are there, but nothing goes on without it: `ravel runs cancel {run}` gives it up"
            )
        } else {
            format!(
                "its first {} are kept; {had}. What came after may have happened: look first, then\n      \
                 `ravel runs fork {run} --at {kept}` goes on, and does again what came after; `ravel runs cancel {run}` gives it up",
                counted(usize::try_from(*kept).unwrap_or(usize::MAX), "turn")
            )
        };
        output.line(&format!("      {}", paint.dim(&way)))?;
    }
    if repair.nameless_turns > 0 {
        output.line(&format!(
            "  {} of runs whose names are lost are only in the damaged files",
            counted(
                usize::try_from(repair.nameless_turns).unwrap_or(usize::MAX),
                "turn"
            )
        ))?;
    }
    output.line(&format!(
        "kept      the damaged files, as they were: {}",
        repair.backup.display()
    ))
}
