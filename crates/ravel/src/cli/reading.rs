//! How what a store holds is written for those who read it: events and times in JSON documents, long values in tables.

use clap::Args;
use ravel_core::event::{Datum, Event, Turn, Wait};
use ravel_core::port::Question;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::output::units;

/// Characters of a value that a table shows.
pub(crate) const VALUE_CHARS_DEFAULT: usize = 200;
/// Characters of a run's output that are shown beside its steps.
pub(crate) const OUTPUT_CHARS_DEFAULT: usize = 4_000;
/// Of two values that differ late, so much of what they share is shown before the place: a part of all that is shown.
const SHARED_PART: usize = 4;

/// How much of a value is shown to people.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Excerpts {
    /// Characters that are shown of a value; 0 shows all [default: 200, of an output 4000]
    #[arg(long, value_name = "N")]
    value_chars: Option<usize>,
}

impl Excerpts {
    const fn most(self, default: usize) -> usize {
        match self.value_chars {
            None => default,
            Some(0) => usize::MAX,
            Some(most) => most,
        }
    }

    /// A value in a table, and whether it was cut.
    pub(crate) fn of_value(self, text: &str) -> (String, bool) {
        excerpt(text, 0, self.most(VALUE_CHARS_DEFAULT))
    }

    /// A run's output, and whether it was cut.
    pub(crate) fn of_output(self, text: &str) -> (String, bool) {
        excerpt(text, 0, self.most(OUTPUT_CHARS_DEFAULT))
    }

    /// Two values that differ: what is shown begins where both are the same for the last time.
    pub(crate) fn of_two(self, left: &str, right: &str) -> (String, String, bool) {
        let most = self.most(VALUE_CHARS_DEFAULT);
        let same = left
            .char_indices()
            .zip(right.chars())
            .find(|((_, one), other)| one != other)
            .map_or_else(|| left.len().min(right.len()), |((at, _), _)| at);
        let from = if same > most / 2 {
            same - most / SHARED_PART
        } else {
            0
        };
        let (left, left_cut) = excerpt(left, from, most);
        let (right, right_cut) = excerpt(right, from, most);
        (left, right, left_cut || right_cut)
    }

    /// One line that says that values were cut, and how to see them whole.
    pub(crate) fn note(self) -> String {
        "… values are cut; --value-chars N shows more of each, --value-chars 0 all".to_owned()
    }
}

/// At most `most` characters from a byte on; `…` and the size of the whole say that there is more.
fn excerpt(text: &str, from: usize, most: usize) -> (String, bool) {
    let from = text.floor_char_boundary(from);
    let rest = &text[from..];
    let end = rest
        .char_indices()
        .nth(most)
        .map_or(rest.len(), |(at, _)| at);
    if from == 0 && end == rest.len() {
        return (text.to_owned(), false);
    }
    let before = if from > 0 { "…" } else { "" };
    let after = if end < rest.len() { "…" } else { "" };
    let size = units::bytes(text.len() as u64);
    (format!("{before}{}{after} ({size})", &rest[..end]), true)
}

/// The fields of an event for readers. The log's own words are kept, but for what would mean two things there: `at` is
/// when an event happened and nothing else, and every point in time is RFC 3339 in UTC with milliseconds.
pub(crate) fn event(event: &Event) -> Result<Map<String, Value>> {
    let written = serde_json::to_value(event)
        .map_err(|error| Error::trouble("an event cannot be written as JSON").because(error))?;
    let Value::Object(mut fields) = written else {
        return Ok(Map::new());
    };
    if let Event::RetryScheduled { at, .. } = event {
        fields.remove("at");
        fields.insert("due".into(), units::rfc3339(*at).into());
    }
    if let Event::ItemsTaken { .. } | Event::StreamEnded { .. } = event
        && let Some(indexes) = fields.remove("at")
    {
        fields.insert("indexes".into(), indexes);
    }
    if let Event::WaitStarted { until, .. } | Event::Asked { until, .. } = event
        && let Some(until) = until
    {
        fields.insert("until".into(), units::rfc3339(*until).into());
    }
    if let Event::GraphEdited { version, .. } = event {
        // The log counts the edits; people count versions, the first of which is the one that the run was started with.
        fields.insert("version".into(), (version + 1).into());
    }
    if let Some((field, Datum::Ref { .. })) = datum(event)
        && let Some(Value::Object(reference)) =
            fields.get_mut(field).and_then(|datum| datum.get_mut("ref"))
        && let Some(into) = reference.remove("at")
    {
        reference.insert("into".into(), into);
    }
    Ok(fields)
}

/// An event as a line of JSON that says where in the log it is. A value that readers see as it is stored is written
/// from where it stands: it may be large.
pub(crate) fn event_line(run: &str, turn: &Turn, event: &Event) -> Result<String> {
    let failed = |error| Error::trouble("an event cannot be written as JSON").because(error);
    let place = json!({"run": run, "turn": turn.turn, "at": units::rfc3339(turn.at)}).to_string();
    let fields = if is_plain(event) {
        serde_json::to_string(event).map_err(failed)?
    } else {
        serde_json::to_string(&self::event(event)?).map_err(failed)?
    };
    // Two objects as one: neither is empty.
    let head = place.strip_suffix('}').unwrap_or(&place);
    Ok(format!(
        "{head},{}",
        fields.strip_prefix('{').unwrap_or(&fields)
    ))
}

/// True for an event whose fields are for readers what they are in the log.
fn is_plain(event: &Event) -> bool {
    let translated = matches!(
        event,
        Event::RetryScheduled { .. }
            | Event::ItemsTaken { .. }
            | Event::StreamEnded { .. }
            | Event::WaitStarted { .. }
            | Event::Asked { .. }
            | Event::GraphEdited { .. }
    );
    !translated && !matches!(datum(event), Some((_, Datum::Ref { .. })))
}

/// The value of an event that may stand elsewhere in the log, with its field's name.
fn datum(event: &Event) -> Option<(&'static str, &Datum)> {
    if let Event::Opened { with, .. } = event {
        return with.as_ref().map(|with| ("with", with));
    }
    if let Event::StreamEnded { with, .. } = event {
        return Some(("with", with));
    }
    if let Event::RoundStarted { carry, .. } = event {
        return Some(("carry", carry));
    }
    if let Event::Settled { value, .. } = event {
        return value.as_ref().map(|value| ("value", value));
    }
    if let Event::Produced { value, .. } | Event::Returned { value, .. } = event {
        return Some(("value", value));
    }
    None
}

/// A wait in JSON documents.
pub(crate) fn wait(wait: &Wait) -> Result<Value> {
    let mut fields = serde_json::to_value(wait)
        .map_err(|error| Error::trouble("a wait cannot be written as JSON").because(error))?;
    if let Some(until) = fields.get("until").and_then(Value::as_u64) {
        fields["until"] = units::rfc3339(until).into();
    }
    Ok(fields)
}

/// An open question in JSON documents.
pub(crate) fn question(question: &Question) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stored: Value) -> Value {
        Value::Object(event(&serde_json::from_value(stored).unwrap()).unwrap())
    }

    #[test]
    fn no_field_of_an_event_is_called_at_and_times_are_text() {
        let error = json!({"class": "timeout", "message": "m"});
        assert_eq!(
            read(json!({"type": "retry_scheduled", "node": 1, "at": 0, "error": error}))["due"],
            "1970-01-01T00:00:00.000Z"
        );
        assert_eq!(
            read(json!({"type": "items_taken", "node": 1, "at": [0, 2]})),
            json!({"type": "items_taken", "node": 1, "indexes": [0, 2]})
        );
        let reference = json!({"ref": {"node": 0, "slot": "input", "at": ["docs"]}});
        assert_eq!(
            read(json!({"type": "stream_ended", "node": 1, "with": reference, "at": [1]})),
            json!({
                "type": "stream_ended", "node": 1, "indexes": [1],
                "with": {"ref": {"node": 0, "slot": "input", "into": ["docs"]}}
            })
        );
        assert_eq!(
            read(json!({"type": "wait_started", "node": 1, "until": 5})),
            json!({"type": "wait_started", "node": 1, "until": "1970-01-01T00:00:00.005Z"})
        );
    }

    #[test]
    fn what_users_wrote_into_a_value_stays() {
        let value = json!({"value": {"ref": {"at": [1]}, "at": 7, "until": 8}});
        let stored = json!({"type": "produced", "node": 1, "value": value});
        assert_eq!(read(stored.clone()), stored);
    }

    #[test]
    fn a_long_value_is_cut_with_its_size_and_a_knob() {
        let excerpts = |value_chars| Excerpts { value_chars };
        let text = "x".repeat(300);
        let (shown, cut) = excerpts(None).of_value(&text);
        assert_eq!((shown, cut), ("x".repeat(200) + "… (300 B)", true));
        assert_eq!(excerpts(Some(0)).of_value(&text), (text.clone(), false));
        assert_eq!(
            excerpts(Some(3)).of_value("日本語の"),
            ("日本語… (12 B)".to_owned(), true)
        );
    }

    #[test]
    fn two_long_values_are_shown_from_where_they_differ() {
        let excerpts = Excerpts {
            value_chars: Some(8),
        };
        let (left, right) = (
            "a".repeat(100) + "left" + &"z".repeat(100),
            "a".repeat(100) + "right",
        );
        assert_eq!(
            excerpts.of_two(&left, &right),
            (
                "…aaleftzz… (204 B)".to_owned(),
                "…aaright (105 B)".to_owned(),
                true
            )
        );
        assert_eq!(
            excerpts.of_two("short", "shore"),
            ("short".to_owned(), "shore".to_owned(), false)
        );
    }
}
