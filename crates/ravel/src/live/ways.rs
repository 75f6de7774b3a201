//! The commands that answer a question: each can be copied as it stands.

use ravel_core::event::Topic;
use ravel_core::graph::{Graph, Kind};
use serde_json::{Value, json};

use crate::input::{fields, sample, sample_value};
use crate::view::{self, Question, offers_retry};

/// The ways to answer a question, a command each, with a sample value for each field.
pub(crate) fn ways_to_answer(question: &Question) -> Vec<String> {
    let answer = |fields: &str| format!("ravel answer {} {fields}", question.id);
    match question.topic {
        Topic::Uncertain => {
            let happened = match &question.output {
                Some(output) => {
                    let output = quoted(&format!("output:={output}"));
                    format!("happened=true {output}")
                }
                None => "happened=true".to_owned(),
            };
            let again = offers_retry(&question.form).then(|| answer("not_done=retry"));
            let first = [answer(&happened)].into_iter();
            first
                .chain(again)
                .chain([answer("not_done=fail")])
                .collect()
        }
        Topic::Compensation => ["done", "retry", "give_up"]
            .map(|action| answer(&format!("action={action}")))
            .to_vec(),
        Topic::Human => vec![answer(&human(&question.form))],
    }
}

fn human(form: &Value) -> String {
    let known = fields(form);
    if known.is_empty() {
        let whole = sample_value(form, form);
        return format!("--json-value {}", quoted(&whole.to_string()));
    }
    let needs_some = known.iter().any(|field| field.required);
    let words: Vec<String> = known
        .iter()
        .filter(|field| field.required || !needs_some)
        .map(|field| quoted(&format!("{}={}", field.name, sample(field.schema, form))))
        .collect();
    words.join(" ")
}

/// A message of this type, as `ravel signal` takes it.
pub(crate) fn sample_message(schema: &Value) -> String {
    human(schema)
}

/// A word that a shell reads as it is.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "=_-.,:/@%+".contains(character);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A value of the shape that a step gives, for a person who vouches for its effect.
pub(crate) fn sample_output(graph: &Graph, path: &str) -> Option<Value> {
    let step = view::resolve(graph, path)?;
    let returns = step
        .returns
        .as_ref()
        .map(|returns| sample_value(returns.schema(), returns.schema()));
    match &step.kind {
        Kind::Run(_) => {
            let mut value = json!({"stdout": "TEXT"});
            if let Some(returns) = returns {
                value["json"] = returns;
            }
            Some(value)
        }
        Kind::Tool(tool) => returns.or_else(|| {
            let known = ravel_io::tool::all()
                .iter()
                .find(|known| *known.name == *tool.name)?;
            let schema = (known.output)();
            Some(sample_value(&schema, &schema))
        }),
        Kind::Model(_)
        | Kind::Human(_)
        | Kind::Wait(_)
        | Kind::Set(_)
        | Kind::Return(_)
        | Kind::Fail(_)
        | Kind::Steps(_)
        | Kind::ForEach(_)
        | Kind::Repeat(_)
        | Kind::Switch(_)
        | Kind::Race(_)
        | Kind::Flow(_) => returns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(topic: Topic, form: Value, output: Option<Value>) -> Question {
        Question {
            id: "q1".into(),
            path: "pay".into(),
            ask: "?".into(),
            form,
            topic,
            output,
            until: None,
        }
    }

    #[test]
    fn an_uncertain_effect_has_three_ways_that_can_be_copied() {
        let open = question(
            Topic::Uncertain,
            Value::Null,
            Some(json!({"stdout": "it's"})),
        );
        assert_eq!(
            ways_to_answer(&open),
            [
                r#"ravel answer q1 happened=true 'output:={"stdout":"it'\''s"}'"#,
                "ravel answer q1 not_done=retry",
                "ravel answer q1 not_done=fail",
            ]
        );
        let over = json!({"properties": {"not_done": {"enum": ["fail"]}}});
        let over = question(Topic::Uncertain, over, None);
        assert_eq!(
            ways_to_answer(&over),
            [
                "ravel answer q1 happened=true",
                "ravel answer q1 not_done=fail"
            ]
        );
        let plain = question(Topic::Uncertain, Value::Null, None);
        assert_eq!(ways_to_answer(&plain)[0], "ravel answer q1 happened=true");
    }

    #[test]
    fn a_form_is_answered_with_what_it_requires() {
        let form = json!({
            "properties": {"ok": {"type": "boolean"}, "team": {"enum": ["a b", "c"]}, "why": {"type": "string"}},
            "required": ["ok", "team"]
        });
        assert_eq!(
            ways_to_answer(&question(Topic::Human, form, None)),
            ["ravel answer q1 ok=true 'team=a b'"]
        );
    }

    #[test]
    fn a_compensation_that_failed_has_three_ways() {
        assert_eq!(
            ways_to_answer(&question(Topic::Compensation, Value::Null, None)),
            [
                "ravel answer q1 action=done",
                "ravel answer q1 action=retry",
                "ravel answer q1 action=give_up",
            ]
        );
    }
}
