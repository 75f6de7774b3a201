//! From what people type to ids: a unique beginning or end of one, or `last`.

use ravel_core::port::{Question, Summary};
use ravel_core::port_store::{Filter, Listing as _, Log as _};

use super::{Shelf, store_error};
use crate::cli::past;
use crate::error::{Error, Result};
use crate::output::units;

/// Most candidates that an error lists.
const CANDIDATES_SHOWN_MAX: usize = 5;
/// The word for the newest run.
const LAST: &str = "last";

/// Fewest characters of an id that name anything: an empty variable in a script must not.
const ID_CHARACTERS_MIN: usize = 3;

fn long_enough(what: &str, typed: &str) -> Result<()> {
    if typed.chars().count() < ID_CHARACTERS_MIN {
        let message = format!(
            "`{typed}` is too short to name a {what}: give {ID_CHARACTERS_MIN} characters or more"
        );
        return Err(Error::usage(message));
    }
    Ok(())
}

/// The run that is meant.
pub(crate) fn find_run(shelf: &Shelf, typed: &str) -> Result<Summary> {
    long_enough("run", typed)?;
    let list = |filter: Filter| shelf.store.runs(&filter).map_err(store_error);
    if typed == LAST {
        let newest = list(Filter {
            limit: 1,
            ..Filter::default()
        })?
        .into_iter()
        .next();
        return newest.ok_or_else(|| Error::not_found("there are no runs yet"));
    }
    // No limit: an id may begin other ids, and is meant then.
    let prefix = Filter {
        id_prefix: Some(typed.to_owned()),
        ..Filter::default()
    };
    let mut found = list(prefix)?;
    if found.is_empty() && !typed.is_empty() {
        // Ids begin with the time of their making: of runs made together only the ends differ.
        found = list(Filter::default())?;
        found.retain(|summary| summary.run.ends_with(typed));
    }
    if let Some(index) = found.iter().position(|summary| &*summary.run == typed) {
        return Ok(found.swap_remove(index));
    }
    one_of("run", typed, found, |summary| {
        format!("{}  {}", summary.run, summary.flow)
    })
    .map_err(|error| error.hint("`ravel runs` lists the runs of this store"))
}

/// The open question that is meant. One that was open once is refused with what became of it.
pub(crate) fn find_question(shelf: &Shelf, typed: &str) -> Result<Question> {
    long_enough("question", typed)?;
    let mut found = shelf.store.questions(None).map_err(store_error)?;
    if let Some(index) = found.iter().position(|question| &*question.id == typed) {
        return Ok(found.swap_remove(index));
    }
    found.retain(|question| question.id.starts_with(typed) || question.id.ends_with(typed));
    if found.is_empty()
        && let Some(closed) = closed_question(shelf, typed)?
    {
        return Err(Error::refused(closed.sentence(units::now())));
    }
    one_of("open question", typed, found, |question| {
        format!("{}  {}", question.id, question.path)
    })
    .map_err(|error| error.hint("`ravel answer --list` lists the open questions"))
}

fn one_of<T>(
    what: &str,
    typed: &str,
    mut found: Vec<T>,
    shown: impl Fn(&T) -> String,
) -> Result<T> {
    match (found.len(), found.pop()) {
        (1, Some(one)) => Ok(one),
        (_, None) => Err(Error::not_found(format!("there is no {what} `{typed}`"))),
        (_, Some(last)) => {
            found.push(last);
            let listed: Vec<String> = found
                .iter()
                .take(CANDIDATES_SHOWN_MAX)
                .map(|one| format!("  {}", shown(one)))
                .collect();
            let more = if found.len() > CANDIDATES_SHOWN_MAX {
                "\n  …"
            } else {
                ""
            };
            Err(Error::not_found(format!(
                "`{typed}` fits more than one {what}:\n{}{more}",
                listed.join("\n")
            )))
        }
    }
}

/// A question that the log knows, and that is closed. Runs that continue its run may know it, too: the newest says.
fn closed_question(shelf: &Shelf, typed: &str) -> Result<Option<past::Closed>> {
    // As an event writes it; whatever else is typed is no id.
    let text = format!("\"question\":\"{typed}");
    let runs = shelf
        .store
        .mentions(&text, CANDIDATES_SHOWN_MAX)
        .map_err(store_error)?;
    for run in runs {
        let turns = shelf.store.load(&run).map_err(store_error)?;
        if let Some(closed) = past::closed(&turns, typed) {
            return Ok(Some(closed));
        }
    }
    Ok(None)
}
