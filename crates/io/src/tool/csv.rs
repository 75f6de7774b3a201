//! `csv.*`: tables as text and as rows.

use ravel_core::effect::{Effect, Failure};
use serde_json::{Map, Value, json};

use super::json::{object, text_output};
use super::{Call, Tool, flag_of, invalid, text_of};

pub(super) static PARSE: Tool = Tool {
    name: "csv.parse",
    doc: "Reads a table. With `header`, each row is an object by column name; without, a list. Every cell is text.",
    effect: Effect::Pure,
    input: || {
        object(
            json!({
                "text": { "type": "string" },
                "header": { "type": "boolean", "default": true },
                "delimiter": delimiter_schema(),
            }),
            &["text"],
        )
    },
    output: || {
        object(
            json!({
                "columns": { "type": "array", "items": { "type": "string" } },
                "rows": { "type": "array", "items": {} },
            }),
            &["columns", "rows"],
        )
    },
    example: r#"{"text": "name,age\nAda,36\n"}"#,
    call: Call::Inline(parse),
};

pub(super) static FORMAT: Tool = Tool {
    name: "csv.format",
    doc: "Writes rows as a table. Rows are lists, or objects whose columns are `columns` or, without it, the fields in the order in which they first appear.",
    effect: Effect::Pure,
    input: || {
        object(
            json!({
                "rows": { "type": "array", "items": { "type": ["array", "object"] } },
                "columns": { "type": "array", "items": { "type": "string" } },
                "delimiter": delimiter_schema(),
            }),
            &["rows"],
        )
    },
    output: text_output,
    example: r#"{"rows": [{"name": "Ada", "age": 36}]}"#,
    call: Call::Inline(format),
};

fn delimiter_schema() -> Value {
    json!({ "type": "string", "pattern": "^[\\x01-\\x7f]$", "default": "," })
}

fn delimiter(input: &Value) -> u8 {
    text_of(input, "delimiter").bytes().next().unwrap_or(b',')
}

fn parse(input: &Value) -> Result<Value, Failure> {
    let header = flag_of(input, "header", true);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter(input))
        .has_headers(header)
        .from_reader(text_of(input, "text").as_bytes());
    let wrong = |error: csv::Error| invalid(format!("the text is not a table: {error}"));
    let columns: Vec<String> = if header {
        reader
            .headers()
            .map_err(wrong)?
            .iter()
            .map(str::to_owned)
            .collect()
    } else {
        Vec::new()
    };
    if let Some(twice) = columns
        .iter()
        .enumerate()
        .find(|(at, name)| columns[..*at].contains(name))
    {
        return Err(invalid(format!(
            "the column `{}` is there twice; read it with header: false",
            twice.1
        )));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let cells = record.iter().map(Value::from);
        rows.push(if header {
            Value::Object(columns.iter().cloned().zip(cells).collect())
        } else {
            cells.collect()
        });
    }
    Ok(json!({ "columns": columns, "rows": rows }))
}

fn format(input: &Value) -> Result<Value, Failure> {
    let rows = input
        .get("rows")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let columns = columns(input, rows);
    let mut writer = csv::WriterBuilder::new()
        .delimiter(delimiter(input))
        .flexible(true)
        .from_writer(Vec::new());
    let wrong = |error: csv::Error| invalid(format!("the table cannot be written: {error}"));
    if !columns.is_empty() {
        writer.write_record(&columns).map_err(wrong)?;
    }
    for row in rows {
        let cells: Vec<String> = match row {
            Value::Object(fields) => columns
                .iter()
                .map(|column| cell(fields.get(column)))
                .collect(),
            Value::Array(cells) => cells.iter().map(|value| cell(Some(value))).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        writer.write_record(&cells).map_err(wrong)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| invalid(error.to_string()))?;
    Ok(json!({ "text": String::from_utf8_lossy(&bytes) }))
}

fn columns(input: &Value, rows: &[Value]) -> Vec<String> {
    if let Some(columns) = input.get("columns").and_then(Value::as_array) {
        return columns
            .iter()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
    }
    let mut seen: Map<String, Value> = Map::new();
    for key in rows.iter().filter_map(Value::as_object).flat_map(Map::keys) {
        seen.entry(key.clone()).or_insert(Value::Null);
    }
    seen.into_iter().map(|(key, _)| key).collect()
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            other.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_goes_in_and_out_unchanged() {
        let text = "name,note\nAda,\"a, \"\"b\"\"\"\nBob,\n";
        let parsed = parse(&json!({ "text": text })).unwrap();
        let rows = json!([{ "name": "Ada", "note": "a, \"b\"" }, { "name": "Bob", "note": "" }]);
        assert_eq!(parsed, json!({ "columns": ["name", "note"], "rows": rows }));
        assert_eq!(
            format(&json!({ "rows": rows })),
            Ok(json!({ "text": text }))
        );
    }

    #[test]
    fn a_ragged_table_is_refused_with_its_line() {
        let failure = parse(&json!({ "text": "a,b\n1\n" })).unwrap_err();
        let message = "the text is not a table: CSV error: record 1 (line: 2, byte: 4): found record with 1 fields, but the previous record has 2 fields";
        assert_eq!(failure, invalid(message));
    }

    #[test]
    fn lists_become_lines_without_a_header() {
        let input = json!({ "rows": [[1, null, "x;y"]], "delimiter": ";" });
        assert_eq!(format(&input), Ok(json!({ "text": "1;;\"x;y\"\n" })));
    }
}
