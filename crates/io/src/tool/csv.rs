//! `csv.*`: tables as text and as rows.

use std::collections::HashSet;

use ravel_core::effect::{Effect, Failure};
use serde_json::{Map, Value, json};

use super::json::{object, text_output};
use super::{Call, Room, Tool, Written, flag_of, invalid, no_room, text_of};

/// What a cell weighs besides its text, bytes.
const CELL_BYTES: usize = 64;

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
    rule: None,
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
    rule: None,
    call: Call::Inline(format),
};

fn delimiter_schema() -> Value {
    json!({ "type": "string", "pattern": "^[\\x01-\\x09\\x0b\\x0c\\x0e-\\x21\\x23-\\x7f]$", "default": "," })
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
    let mut seen = HashSet::new();
    if let Some(twice) = columns.iter().find(|name| !seen.insert(*name)) {
        return Err(invalid(format!(
            "the column `{twice}` is there twice; read it with header: false"
        )));
    }
    let names: usize = columns.iter().map(|name| name.len() + CELL_BYTES).sum();
    let (mut rows, mut room) = (Vec::new(), Room::new());
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        room.take(names + record.as_slice().len() + record.len() * CELL_BYTES)?;
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
        .from_writer(Written::default());
    // Writing into memory fails for lack of room only; a row of another length is taken as it is.
    let wrong = |_: csv::Error| no_room();
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
    let written = writer.into_inner().map_err(|_| no_room())?;
    Ok(json!({ "text": written.into_text() }))
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
    fn hostile_tables_end_in_an_answer() {
        // A header of very many columns is looked through once.
        let wide: Vec<String> = (0..50_000).map(|number| number.to_string()).collect();
        let parsed = parse(&json!({ "text": wide.join(",") + "\n" })).unwrap();
        assert_eq!(parsed["columns"].as_array().unwrap().len(), wide.len());
        let names: Vec<String> = (0..100)
            .map(|number| number.to_string() + &"x".repeat(10_000))
            .collect();
        let text = names.join(",") + "\n" + &(",".repeat(99) + "\n").repeat(100);
        assert_eq!(parse(&json!({ "text": text })), Err(no_room()));
        // An open quote takes in the rest; a zero byte is a character like others.
        let open = parse(&json!({ "text": "a,b\n\"1\u{0},2\n3,4\n" })).unwrap_err();
        assert_eq!(open.class, ravel_core::effect::ErrorClass::InvalidInput);
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
