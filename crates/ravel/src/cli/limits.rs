//! `ravel limits`: every bound, what it is for, and the knob that changes it.

use clap::Args;
use ravel_core::lang::limits as language;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Context, Json};
use crate::config::Config;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::{Column, Table, Tone};
use crate::wire;

/// Lists every limit with its value and the key that changes it
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ravel limits\n  ravel --config limits.live_runs=100 run batch.yaml"
)]
pub(super) struct Limits {
    /// Only limits whose key or meaning contains this
    #[arg(value_name = "WORD")]
    word: Option<String>,
    #[command(flatten)]
    json: Json,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    /// The key of the configuration; absent: fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    pub(super) name: String,
    value: u64,
    pub(super) default: u64,
    pub(super) unit: String,
    pub(super) doc: String,
}

impl Limits {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let mut rows = rows(&config)?;
        if let Some(word) = &self.word {
            rows.retain(|row| {
                row.name.contains(word.as_str())
                    || row.doc.to_lowercase().contains(&word.to_lowercase())
            });
        }
        if self.json.json {
            context.output.json(&json!({"limits": rows}))?;
            return Ok(Exit::Succeeded);
        }
        let mut table = Table::new([
            Column::left("limit"),
            Column::right("value"),
            Column::left("unit"),
            Column::flexible("what it bounds"),
        ]);
        for row in rows {
            let tone = (row.value != row.default).then_some(Tone::Note);
            table.row([
                (row.key.unwrap_or(row.name), None),
                (row.value.to_string(), tone),
                (row.unit, Some(Tone::Faint)),
                (row.doc, None),
            ]);
        }
        context
            .output
            .data(&table.render(context.output.paint, context.output.data_width()))?;
        Ok(Exit::Succeeded)
    }
}

/// The rows without any configuration, for the reference.
pub(super) fn defaults() -> Vec<Row> {
    table(&ravel_engine::Limits::default(), &Value::Null)
}

fn rows(config: &Config) -> Result<Vec<Row>> {
    Ok(table(
        &wire::engine_limits(config)?,
        &config.table(&["limits", "run"]),
    ))
}

fn table(engine: &ravel_engine::Limits, run: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for (limit, value) in ravel_engine::table().iter().zip(engine.values()) {
        rows.push(Row {
            key: Some(format!("limits.{}", limit.name)),
            name: limit.name.to_owned(),
            value,
            default: limit.default,
            unit: limit.unit.to_owned(),
            doc: limit.doc.trim().to_owned(),
        });
    }
    let defaults = wire::run_limits();
    for (name, unit, doc) in RUN {
        let default = defaults[*name].as_u64().unwrap_or(0);
        rows.push(Row {
            key: Some(format!("limits.run.{name}")),
            name: (*name).to_owned(),
            value: run[*name].as_u64().unwrap_or(default),
            default,
            unit: (*unit).to_owned(),
            doc: (*doc).to_owned(),
        });
    }
    let defaults = ravel_io::model::Limits::DEFAULT;
    let defaults = [
        ("connect_timeout_ms", defaults.connect_timeout_ms),
        ("first_token_timeout_ms", defaults.first_token_timeout_ms),
        ("idle_timeout_ms", defaults.idle_timeout_ms),
        ("tail_timeout_ms", defaults.tail_timeout_ms),
        ("answer_bytes_max", defaults.answer_bytes_max as u64),
        ("error_bytes_max", defaults.error_bytes_max as u64),
        ("image_bytes_max", defaults.image_bytes_max),
    ];
    for ((name, default), (unit, doc)) in defaults.into_iter().zip(MODEL) {
        rows.push(Row {
            key: Some(format!("providers.*.limits.{name}")),
            name: name.to_owned(),
            value: default,
            default,
            unit: (*unit).to_owned(),
            doc: (*doc).to_owned(),
        });
    }
    rows.extend(FIXED.iter().map(|(name, value, unit, doc)| Row {
        key: None,
        name: (*name).to_owned(),
        value: *value,
        default: *value,
        unit: (*unit).to_owned(),
        doc: (*doc).to_owned(),
    }));
    rows
}

/// Limits of a run: name, unit, meaning.
const RUN: &[(&str, &str, &str)] = &[
    (
        "for_each_parallel",
        "items",
        "Items of one `for_each` at once when it says no `parallel`.",
    ),
    ("for_each_items_max", "items", "Items of one `for_each`."),
    (
        "activations_max",
        "activations",
        "Activations of a run: steps, items and rounds that came to be.",
    ),
    ("depth_max", "scopes", "Nesting of scopes and flows."),
    (
        "retry_after_max_ms",
        "ms",
        "Longest pause that a server may ask for by Retry-After; a longer one ends the attempts.",
    ),
    (
        "stop_grace_ms",
        "ms",
        "How long a stopped attempt may take to end; after it its effect is unknown.",
    ),
    ("inbox_max", "messages", "Messages that wait in one inbox."),
];

/// Limits of a model call, in the order of their struct: unit, meaning.
const MODEL: &[(&str, &str)] = &[
    ("ms", "Until a connection stands."),
    ("ms", "Until the first token."),
    ("ms", "Between two tokens."),
    (
        "ms",
        "How long a whole answer waits for its usage and end marker.",
    ),
    ("bytes", "An answer, and one event of its stream."),
    ("bytes", "What is kept of an error's body."),
    ("bytes", "Largest image file."),
];

/// Limits without a key: they bound what is read from people and files, or are defaults that a step changes.
const FIXED: &[(&str, u64, &str, &str)] = &[
    (
        "flow_file_bytes_max",
        language::FILE_BYTES_MAX as u64,
        "bytes",
        "Largest flow file.",
    ),
    (
        "flow_depth_max",
        language::TREE_DEPTH_MAX as u64,
        "levels",
        "Nesting of maps and lists in a flow file.",
    ),
    (
        "flow_nodes_max",
        language::TREE_NODES_MAX as u64,
        "nodes",
        "Maps, lists and scalars in a flow file.",
    ),
    (
        "bundle_files_max",
        language::BUNDLE_FILES_MAX as u64,
        "files",
        "Files that one flow may name.",
    ),
    (
        "diagnostics_max",
        language::DIAGNOSTICS_MAX as u64,
        "problems",
        "What one report of the checker tells; the others are counted.",
    ),
    (
        "type_schema_bytes_max",
        language::TYPE_SCHEMA_BYTES_MAX as u64,
        "bytes",
        "Schema of one type, written out.",
    ),
    (
        "timeout",
        language::TIMEOUT_DEFAULT_MS,
        "ms",
        "One attempt of a leaf; `timeout:` changes it.",
    ),
    (
        "model.timeout",
        language::TIMEOUT_MODEL_MS,
        "ms",
        "One attempt of a model call; `timeout:` changes it.",
    ),
    (
        "run.timeout",
        language::TIMEOUT_RUN_MS,
        "ms",
        "One attempt of a process; `timeout:` changes it.",
    ),
    (
        "model.attempts",
        language::ATTEMPTS_MODEL as u64,
        "attempts",
        "Tries of a model call; `retry:` changes it.",
    ),
    (
        "tool.attempts",
        language::ATTEMPTS_TOOL as u64,
        "attempts",
        "Tries of a tool call; `retry:` changes it.",
    ),
    (
        "backoff_min",
        language::BACKOFF_MIN_MS,
        "ms",
        "First pause between tries; `retry.backoff` changes it.",
    ),
    (
        "backoff_max",
        language::BACKOFF_MAX_MS,
        "ms",
        "Longest pause between tries; `retry.backoff` changes it.",
    ),
    (
        "model.max_tokens",
        language::MAX_TOKENS_DEFAULT as u64,
        "tokens",
        "Output of a model call; `max_tokens:` changes it.",
    ),
    (
        "run.cpu_seconds",
        language::CPU_SECONDS_DEFAULT,
        "seconds",
        "CPU time of a process; `limits: {cpu: …}` changes it.",
    ),
    (
        "run.memory_bytes",
        language::MEMORY_BYTES_DEFAULT,
        "bytes",
        "Memory of a process; `limits: {memory: …}` changes it.",
    ),
    (
        "run.output_bytes",
        language::OUTPUT_BYTES_DEFAULT,
        "bytes",
        "Stdout, and kept stderr; `limits: {output: …}` changes it.",
    ),
    (
        "run.file_bytes",
        language::FILE_BYTES_DEFAULT,
        "bytes",
        "Largest file of a process; `limits: {file: …}` changes it.",
    ),
    (
        "http.max_bytes",
        ravel_io::tool::http::BODY_BYTES_MAX,
        "bytes",
        "Largest answer to `http.*`; `max_bytes` changes it.",
    ),
    (
        "http.connect_ms",
        ravel_io::tool::http::CONNECT_MS_MAX,
        "ms",
        "Wait for a connection; `timeout:` ends it sooner.",
    ),
    (
        "http.idle_ms",
        ravel_io::tool::http::IDLE_MS_MAX,
        "ms",
        "Silence within an answer; `timeout:` ends it sooner.",
    ),
    (
        "http.redirects",
        ravel_io::tool::http::REDIRECTS_MAX as u64,
        "redirects",
        "Redirects that a read follows.",
    ),
    (
        "file.max_bytes",
        ravel_io::tool::file::READ_BYTES_MAX,
        "bytes",
        "Largest file read into a value; `max_bytes` changes it.",
    ),
    (
        "file.entries",
        ravel_io::tool::file::LIST_MAX as u64,
        "entries",
        "Entries of `file.list`; `glob` narrows it.",
    ),
    (
        "file.depth",
        ravel_io::tool::file::LIST_DEPTH_MAX as u64,
        "folders",
        "Depth of a recursive `file.list`.",
    ),
    (
        "text.matches",
        ravel_io::tool::text::MATCHES_MAX,
        "matches",
        "Matches of `text.match`; `max` makes it fewer.",
    ),
    (
        "tool.result_bytes",
        ravel_io::tool::RESULT_BYTES_MAX as u64,
        "bytes",
        "Largest result of `csv.*`, `json.*` and `text.*`.",
    ),
    (
        "flow.max_depth",
        language::CALL_DEPTH_DEFAULT as u64,
        "calls",
        "Nesting of a call of a flow; `max_depth:` changes it.",
    ),
    (
        "reply_wait",
        super::messages::REPLY_WAIT_MS,
        "ms",
        "Until the process that works on a run takes a message in; `--wait` changes it.",
    ),
    (
        "value_chars",
        super::reading::VALUE_CHARS_DEFAULT as u64,
        "characters",
        "A value in the tables of `runs show` and `runs diff`; `--value-chars` changes it.",
    ),
    (
        "output_chars",
        super::reading::OUTPUT_CHARS_DEFAULT as u64,
        "characters",
        "The output in `runs show`; `--value-chars` changes it.",
    ),
    (
        "config_file_bytes_max",
        crate::config::CONFIG_FILE_BYTES_MAX,
        "bytes",
        "Largest ravel.toml.",
    ),
    (
        "input_bytes_max",
        crate::input::INPUT_BYTES_MAX,
        "bytes",
        "Largest input from a file or stdin.",
    ),
    (
        "secret_bytes_max",
        ravel_io::secret::SECRET_BYTES_MAX,
        "bytes",
        "Largest secret.",
    ),
    (
        "secret_bytes_min",
        ravel_io::secret::SECRET_BYTES_MIN as u64,
        "bytes",
        "Shortest secret; a shorter one cannot be hidden.",
    ),
    (
        "attempts_max",
        ravel_io::executor::ATTEMPTS_MAX as u64,
        "attempts",
        "Attempts of a process under way at once.",
    ),
    (
        "queue_max",
        ravel_io::executor::QUEUE_MAX as u64,
        "attempts",
        "Attempts of a process that wait for their turn.",
    ),
];
