//! The words of other tools, and what is written here for them.

use crate::lang::keys;

/// Keys of other languages and what they are called here.
const FOREIGN_KEYS: &[(&str, &[&str])] = &[
    ("else", &["default", "otherwise"]),
    ("after", &["needs", "depends_on", "dependsOn"]),
    ("when", &["if", "condition"]),
    (
        "cwd",
        &["workdir", "working_directory", "working-directory", "dir"],
    ),
    ("env", &["environment"]),
    ("with", &["args", "arguments", "params", "parameters"]),
    ("input", &["inputs"]),
    ("output", &["outputs"]),
    ("retry", &["retries"]),
    ("catch", &["on_error", "rescue", "except"]),
    ("finally", &["ensure", "always"]),
];

/// What a key of another language is called here.
pub(super) fn foreign_key(key: &str) -> Option<&'static str> {
    let found = FOREIGN_KEYS.iter().find(|(_, words)| words.contains(&key));
    found.map(|(meant, _)| *meant)
}

/// What kinds of steps are called elsewhere, and what is written here.
const FOREIGN_KINDS: &[(&str, &[&str])] = &[
    (
        "did you mean `for_each`? As in `for_each: input.docs`, with `as` and `steps` beside it",
        &[
            "foreach",
            "forEach",
            "each",
            "map",
            "loop",
            "with_items",
            "matrix",
        ],
    ),
    (
        "did you mean `run`? As in `run: \"wc -l {{ input.path }}\"`, or `run: { python: … }`",
        &[
            "shell", "bash", "sh", "exec", "cmd", "command", "script", "python", "node", "program",
        ],
    ),
    (
        "did you mean `wait`? As in `wait: 5m`",
        &["sleep", "delay", "pause", "timer", "wait_for"],
    ),
    (
        "did you mean `flow`? As in `flow: NAME`, with its input under `with`",
        &["call", "subflow", "sub_flow", "workflow", "uses", "invoke"],
    ),
    (
        "did you mean `model`? As in `model: fast`, with `prompt` beside it",
        &["llm", "chat", "completion", "ai", "gpt", "generate"],
    ),
    (
        "did you mean `tool`? As in `tool: http.get`, with its arguments under `with`",
        &[
            "http",
            "http_request",
            "request",
            "fetch",
            "function",
            "action",
            "type",
        ],
    ),
    (
        "did you mean `human`? As in `human: { ask: \"Ship it?\", form: { ok: boolean } }`",
        &["approval", "approve", "manual", "ask", "user", "question"],
    ),
    (
        "did you mean `set`? As in `set: { total: \"{{ a.n + b.n }}\" }`",
        &["assign", "vars", "let", "transform", "value"],
    ),
    (
        "did you mean `repeat`? As in `repeat: { until: output > 3, max: 9 }`, with `steps` beside it",
        &["while", "until", "do", "do_while"],
    ),
    (
        "did you mean `switch`? As in `switch: classify.team`, with `cases` beside it; for one condition write `when` on a step",
        &["choice", "match", "case", "branch", "if", "condition"],
    ),
    (
        "steps of a map run side by side as it is: write `steps: { … }`",
        &[
            "parallel_steps",
            "group",
            "block",
            "tasks",
            "jobs",
            "stages",
        ],
    ),
    (
        "did you mean `fail`? As in `fail: { code: too_old, message: the ticket is closed }`",
        &["throw", "raise", "error", "abort"],
    ),
];

/// What is written here for the kind that another tool calls so.
pub(super) fn foreign_kind(key: &str) -> Option<&'static str> {
    let found = FOREIGN_KINDS.iter().find(|(_, words)| words.contains(&key));
    found.map(|(meant, _)| *meant)
}

/// A key that some step has.
pub(super) fn known_anywhere(key: &str) -> Option<&'static keys::Key> {
    let common = [&keys::ANY, &keys::LEAF, &keys::SCOPE].into_iter();
    let mut tables = common.chain(keys::KINDS.iter().map(|kind| kind.table));
    tables.find_map(|table| table.get(key))
}
