//! Asking a person at the terminal: one line per field of a form, each read as its type and asked again when it is
//! not. The dialog is a machine without I/O, so that a run can go on, or end the question, while somebody types.

use std::io::{BufRead, Write};

use serde_json::{Map, Value};

use super::schema;
use crate::output::Paint;

/// A question under way at the terminal.
#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    form: Value,
    fields: Vec<Asked>,
    at: usize,
    answer: Map<String, Value>,
    /// The form has no fields: the answer is one value.
    lone: bool,
}

#[derive(Clone, Debug)]
struct Asked {
    name: String,
    schema: Value,
    required: bool,
}

/// What a typed line led to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Taken {
    /// It does not fit: why. The same field is asked again.
    Again(String),
    /// The next field.
    Next,
    /// The whole answer.
    Done(Value),
}

impl Dialog {
    /// A dialog for a form.
    pub(crate) fn new(form: &Value) -> Self {
        let mut fields: Vec<Asked> = schema::fields(form)
            .into_iter()
            .map(|field| Asked {
                name: field.name.to_owned(),
                schema: field.schema.clone(),
                required: field.required,
            })
            .collect();
        let lone = fields.is_empty();
        if lone {
            fields.push(Asked {
                name: "answer".to_owned(),
                schema: form.clone(),
                required: true,
            });
        }
        Self {
            form: form.clone(),
            fields,
            at: 0,
            answer: Map::new(),
            lone,
        }
    }

    /// What is shown before the cursor.
    pub(crate) fn prompt(&self, paint: Paint) -> String {
        let field = &self.fields[self.at];
        let resolved = schema::resolve(&field.schema, &self.form);
        let wanted = schema::describe(&field.schema, &self.form);
        let note = match (resolved.get("default"), field.required) {
            (Some(default), _) => format!("{wanted}; Enter for {}", schema::shown(default)),
            (None, false) => format!("{wanted}; Enter for none"),
            (None, true) => wanted,
        };
        let about = resolved.get("description").and_then(Value::as_str);
        let about = about
            .map(|text| format!("  {}\n", paint.dim(text)))
            .unwrap_or_default();
        format!(
            "{about}  {} {}: ",
            field.name,
            paint.dim(&format!("({note})"))
        )
    }

    /// Takes a typed line.
    pub(crate) fn take(&mut self, line: &str) -> Taken {
        let field = &self.fields[self.at];
        let text = line.trim_end_matches(['\n', '\r']);
        let default = schema::resolve(&field.schema, &self.form)
            .get("default")
            .cloned();
        let value = if text.is_empty() && (default.is_some() || !field.required) {
            default
        } else {
            match schema::coerce(text, &field.schema, &self.form) {
                Some(value) => Some(value),
                None => {
                    return Taken::Again(format!(
                        "that is not {}",
                        schema::describe(&field.schema, &self.form)
                    ));
                }
            }
        };
        if self.lone {
            return Taken::Done(value.unwrap_or(Value::Null));
        }
        if let Some(value) = value {
            self.answer.insert(field.name.clone(), value);
        }
        self.at += 1;
        if self.at == self.fields.len() {
            Taken::Done(Value::Object(std::mem::take(&mut self.answer)))
        } else {
            Taken::Next
        }
    }
}

/// Asks for a whole answer and waits for it. `None`: the input ended, so not now.
pub(crate) fn ask(
    question: &str,
    form: &Value,
    paint: Paint,
    from: &mut dyn BufRead,
    to: &mut dyn Write,
) -> std::io::Result<Option<Value>> {
    writeln!(to, "{}", paint.bold(question))?;
    let mut dialog = Dialog::new(form);
    loop {
        write!(to, "{}", dialog.prompt(paint))?;
        to.flush()?;
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            writeln!(to)?;
            return Ok(None);
        }
        match dialog.take(&line) {
            Taken::Again(why) => writeln!(to, "  {why}")?,
            Taken::Next => {}
            Taken::Done(value) => return Ok(Some(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(form: &Value, typed: &str) -> (Option<Value>, String) {
        let mut shown = Vec::new();
        let answer = ask(
            "Refund 12?",
            form,
            Paint::new(false),
            &mut typed.as_bytes(),
            &mut shown,
        )
        .unwrap();
        (answer, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn fields_are_asked_until_they_fit() {
        let form = json!({
            "type": "object",
            "properties": {"ok": {"type": "boolean"}, "why": {"type": "string", "default": "none"}},
            "required": ["ok"]
        });
        let (answer, shown) = asked(&form, "maybe\ny\n\n");
        assert_eq!(answer, Some(json!({"ok": true, "why": "none"})));
        assert_eq!(
            shown,
            "Refund 12?\n  ok (true or false):   that is not true or false\n  ok (true or false):   \
             why (text; Enter for none): "
        );
    }

    #[test]
    fn the_end_of_input_means_not_now() {
        let form = json!({"properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
        assert_eq!(asked(&form, "").0, None);
    }

    #[test]
    fn a_form_without_fields_is_one_value() {
        assert_eq!(asked(&json!({"type": "integer"}), "7\n").0, Some(json!(7)));
    }
}
