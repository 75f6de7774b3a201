//! The words of other tools, and what is written here for them.

use crate::lang::diagnostic::nearest;
use crate::lang::keys;
use crate::lang::tree::Map;

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
    (
        "attempts",
        &[
            "max",
            "max_attempts",
            "maxAttempts",
            "times",
            "count",
            "limit",
        ],
    ),
    (
        "max",
        &["times", "count", "limit", "max_iterations", "max_rounds"],
    ),
    ("backoff", &["delay", "interval", "wait", "pause"]),
    ("form", &["options", "choices", "fields"]),
    ("ask", &["question", "prompt", "message", "text"]),
    ("prompt", &["question", "message", "input", "text", "user"]),
    ("system", &["system_prompt", "systemPrompt", "instructions"]),
    ("max_tokens", &["maxTokens", "max_output_tokens"]),
    (
        "returns",
        &["outputs", "output_schema", "response_format", "schema"],
    ),
    ("ravel", &["version"]),
];

/// Keys of other languages that are more than another word here.
const FOREIGN_HABITS: &[(&str, &[&str])] = &[
    (
        "a time has its unit here: `timeout: 5m`",
        &[
            "timeout-minutes",
            "timeout_minutes",
            "timeoutMinutes",
            "timeout-seconds",
            "timeout_seconds",
            "timeoutSeconds",
            "timeoutMs",
            "timeout_ms",
        ],
    ),
    (
        "what stands in for the value of a failed step is `catch: [{ output: null }]`; then the flow goes on",
        &[
            "continue-on-error",
            "continue_on_error",
            "continueOnError",
            "continueOnFail",
            "ignore_errors",
            "allow_failure",
        ],
    ),
    (
        "steps run on this machine: leave it out",
        &["runs-on", "runs_on", "runsOn"],
    ),
    (
        "programs run on this machine, without a container; `sandbox: workspace` confines them",
        &["image", "container"],
    ),
    (
        "the key of a step is its name; a sentence about it is its `description`",
        &["name", "id", "title"],
    ),
    (
        "items are the list of a `for_each`, as in `for_each: [1, 2]`",
        &["strategy"],
    ),
];

/// What is written here for a key of another language that has no other word.
pub(super) fn foreign_habit(key: &str) -> Option<&'static str> {
    let found = FOREIGN_HABITS
        .iter()
        .find(|(_, words)| words.contains(&key));
    found.map(|(meant, _)| *meant)
}

/// A document of another tool.
pub(super) struct ForeignDocument {
    /// What it is.
    pub(super) what: &'static str,
    /// What to do.
    pub(super) hint: &'static str,
    /// The key that tells.
    pub(super) key: &'static str,
}

/// Documents of other tools, and how they are known: by keys that hold a map, a list, or anything.
const FOREIGN_DOCUMENTS: &[(ForeignDocument, &[(&str, Holds)])] = &[
    (
        ForeignDocument {
            what: "a workflow of GitHub Actions",
            hint: "a flow has `steps:`: write each `run` as a step, `steps: { build: { run: make } }`; `needs` is `after`, and steps in a list share one directory",
            key: "jobs",
        },
        &[("jobs", Holds::Map), ("on", Holds::Any)],
    ),
    (
        ForeignDocument {
            what: "an export of n8n",
            hint: "a flow has `steps:`: write each node as a step, `steps: { get: { tool: http.get, with: { url: … } } }`; what a step reads, as in `{{ get.json }}`, connects it",
            key: "nodes",
        },
        &[("nodes", Holds::List), ("connections", Holds::Map)],
    ),
    (
        ForeignDocument {
            what: "a Compose file",
            hint: "a flow has `steps:` that end, not services: start those with `run: docker compose up -d`",
            key: "services",
        },
        &[("services", Holds::Map)],
    ),
    (
        ForeignDocument {
            what: "a manifest of Kubernetes",
            hint: "a flow has `steps:`, as in `steps: { hello: { run: echo hi } }`; a manifest is applied by `run: kubectl apply -f FILE`",
            key: "apiVersion",
        },
        &[("apiVersion", Holds::Any), ("kind", Holds::Any)],
    ),
    (
        ForeignDocument {
            what: "a state machine of AWS Step Functions",
            hint: "a flow has `steps:`: write each state as a step; what a step reads, or `after`, says when it runs, and `switch` chooses",
            key: "States",
        },
        &[("StartAt", Holds::Any), ("States", Holds::Map)],
    ),
];

/// What a key of a foreign document holds.
#[derive(Clone, Copy)]
enum Holds {
    Any,
    List,
    Map,
}

/// What a document is when it is none of ours.
pub(super) fn foreign_document(map: &Map) -> Option<&'static ForeignDocument> {
    if map.contains_key("steps") {
        return None;
    }
    let has = |(key, holds): &(&str, Holds)| {
        map.get(*key).is_some_and(|entry| match holds {
            Holds::Any => true,
            Holds::List => entry.node.list().is_some(),
            Holds::Map => entry.node.map().is_some(),
        })
    };
    let found = FOREIGN_DOCUMENTS
        .iter()
        .find(|(_, keys)| keys.iter().all(has));
    found.map(|(document, _)| document)
}

/// What a key of another language is called here, of the keys that there are.
pub(super) fn foreign_key(key: &str, is_here: impl Fn(&str) -> bool) -> Option<&'static str> {
    let mut found = FOREIGN_KEYS
        .iter()
        .filter(|(meant, words)| words.contains(&key) && is_here(meant));
    found.next().map(|(meant, _)| *meant)
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
        &["call", "subflow", "sub_flow", "workflow", "invoke"],
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
            "uses",
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

/// What other tools call the parts of a result, and what they may be called here.
const FOREIGN_FIELDS: &[(&[&str], &[&str])] = &[
    (
        &[
            "body", "data", "content", "contents", "response", "result", "output", "message",
            "answer", "value", "payload",
        ],
        &["text", "json", "stdout"],
    ),
    (&["status_code", "statusCode", "code"], &["status"]),
    (
        &["exit_code", "exitCode", "returncode", "status", "rc"],
        &["code"],
    ),
    (&["out"], &["stdout"]),
    (&["err", "error"], &["stderr"]),
    (&["size", "length"], &["bytes"]),
];

/// The fields that a field of another tool may mean, of those that there are.
pub(crate) fn foreign_fields<'k>(field: &str, known: &'k [String]) -> Vec<&'k str> {
    let all = || FOREIGN_FIELDS.iter().flat_map(|(words, _)| words.iter());
    let exact = all().find(|word| **word == field).copied();
    let Some(word) = exact.or_else(|| nearest(field, all().copied())) else {
        return Vec::new();
    };
    let meant = FOREIGN_FIELDS
        .iter()
        .find(|(words, _)| words.contains(&word))
        .map_or(&[][..], |(_, meant)| meant);
    known
        .iter()
        .map(String::as_str)
        .filter(|known| meant.contains(known))
        .collect()
}

/// A key that some step has.
pub(super) fn known_anywhere(key: &str) -> Option<&'static keys::Key> {
    let common = [&keys::ANY, &keys::LEAF, &keys::SCOPE].into_iter();
    let mut tables = common.chain(keys::KINDS.iter().map(|kind| kind.table));
    tables.find_map(|table| table.get(key))
}
