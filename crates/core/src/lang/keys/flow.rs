//! The keys of a flow.

use super::parts::{BUDGET, CATCH, TRIGGER};
use super::{Key, Table, Takes, key};

/// A flow: a file, or an entry of `flows:`.
pub(crate) static FLOW: Table = Table {
    name: "a flow",
    doc: "A typed, named graph of steps: the whole of a file, or an entry of `flows:` written in place.",
    keys: KEYS,
    required: &["steps"],
};

static KEYS: &[Key] = &[
    key(
        "ravel",
        Takes::Integer { min: 1, max: 1 },
        "Version of the language.",
        "1",
    ),
    key(
        "name",
        Takes::Name,
        "Name of the flow; the file's stem when absent.",
        "triage",
    ),
    key(
        "description",
        Takes::Plain,
        "What the flow is for, in a sentence.",
        "Answers tickets.",
    ),
    key(
        "input",
        Takes::Fields,
        "The input: a map of fields, types only.",
        "{ ticket: string, hook: string | null }",
    ),
    key(
        "returns",
        Takes::Type,
        "The type of the output: for callers, and held at run time.",
        "{ reply: string }",
    ),
    key(
        "types",
        Takes::Types,
        "Named types, for every place that takes a type.",
        "{ Reply: { reply: string } }",
    ),
    key(
        "models",
        Takes::PlainMap,
        "Aliases of models, before those of the project.",
        "{ fast: openai/gpt-4o-mini }",
    ),
    key(
        "signals",
        Takes::Types,
        "Typed inboxes, buffered from the start of the run.",
        "{ user: { text: string } }",
    ),
    key(
        "flows",
        Takes::Flows,
        "Flows that steps call by name: paths, or flows in place.",
        "{ research: research.yaml }",
    ),
    key(
        "defaults",
        Takes::Defaults,
        "Keys that every step of a kind has unless it says otherwise.",
        "{ run: { timeout: 10m } }",
    ),
    key(
        "budget",
        Takes::Map(&BUDGET),
        "Most that a run may spend.",
        "{ usd: 0.10, tokens: 200k }",
    ),
    key(
        "deadline",
        Takes::Duration,
        "The run ends this long after its start.",
        "1h",
    ),
    key(
        "steps",
        Takes::Steps,
        "The steps: a map runs by its data, a list in order.",
        "{ hello: { set: hi } }",
    ),
    key(
        "output",
        Takes::Value,
        "The value of the flow. With one step, its value when absent.",
        "\"{{ draft.reply }}\"",
    ),
    key(
        "catch",
        Takes::Maps(&CATCH),
        "What to do when the flow fails.",
        "[{ errors: [timeout], output: none }]",
    ),
    key(
        "finally",
        Takes::Steps,
        "Steps that run at the end, whatever it is.",
        "{ log: { run: echo done } }",
    ),
    key(
        "triggers",
        Takes::Maps(&TRIGGER),
        "When the server starts the flow by itself.",
        "[{ cron: 0 6 * * 1-5, tz: Europe/Berlin }]",
    ),
];
