//! What a question offers: an effect whose scope is over is not tried again, whatever a person says.

use ravel_core::event::{Event, Topic, Turn};
use ravel_core::port::Question;
use ravel_core::value::Val;
use serde_json::Value;

/// Where the form of an uncertain effect lists what may follow when it did not happen.
const NOT_DONE: &str = "/properties/not_done/enum";
/// Another try.
const RETRY: &str = "retry";

/// The question as it can be answered now: without another try where the log says that the step is over.
pub(crate) fn offered(mut question: Question, turns: &[Turn]) -> Question {
    if question.topic == Topic::Uncertain && is_over(turns, &question.id) {
        question.form = Val::new(without_retry(question.form.json()));
    }
    question
}

/// The form of an uncertain effect without another try.
pub(crate) fn without_retry(form: &Value) -> Value {
    let mut form = form.clone();
    if let Some(choices) = form.pointer_mut(NOT_DONE).and_then(Value::as_array_mut) {
        choices.retain(|choice| choice != RETRY);
    }
    form
}

/// True when the form of an uncertain effect lets it be tried again.
pub(crate) fn offers_retry(form: &Value) -> bool {
    let choices = form.pointer(NOT_DONE).and_then(Value::as_array);
    choices.is_none_or(|choices| choices.iter().any(|choice| choice == RETRY))
}

/// True when the step of a question is being stopped: by a cancel, a deadline or a budget of a scope around it.
fn is_over(turns: &[Turn], question: &str) -> bool {
    let events = || turns.iter().flat_map(|turn| &turn.events);
    let asked = events().find_map(|event| {
        let Event::Asked {
            question: id, node, ..
        } = event
        else {
            return None;
        };
        (**id == *question).then_some(*node)
    });
    let stops =
        |event: &Event| matches!(event, Event::Stopping { node, .. } if Some(*node) == asked);
    asked.is_some() && events().any(stops)
}
