//! The kinds of steps and their keys. A new kind is one row of [`KINDS`] and one file in `lang/lower`.

use super::parts::{FAIL, HUMAN, LIMITS, PROGRAM, REPEAT, STREAM, WAIT};
use super::{Key, Table, Takes, key};

/// A kind of step.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The key that makes a step of this kind.
    pub(crate) name: &'static str,
    pub(crate) leaf: bool,
    /// False for kinds that the language has and this version does not run.
    pub(crate) available: bool,
    pub(crate) table: &'static Table,
    /// A whole step.
    pub(crate) example: &'static str,
}

macro_rules! kind {
    ($name:literal, $leaf:expr, $available:expr, $doc:literal, $example:literal, $keys:expr) => {{
        static KEYS: &[Key] = $keys;
        static TABLE: Table = Table {
            name: $name,
            doc: $doc,
            keys: KEYS,
            required: &[$name],
        };
        Kind {
            name: $name,
            leaf: $leaf,
            available: $available,
            table: &TABLE,
            example: $example,
        }
    }};
}

const OUTPUT: Key = key(
    "output",
    Takes::Value,
    "The scope's value. With one step, its value when absent.",
    "\"{{ last_step.text }}\"",
);
const STEPS: Key = key(
    "steps",
    Takes::Steps,
    "The steps: a map runs by its data, a list in order.",
    "{ hello: { set: hi } }",
);

/// Every kind.
pub(crate) static KINDS: &[Kind] = &[
    kind! { "model", true, true, "One call of a model. The value is `{text}`, or what `returns` says.",
        "{ model: fast, prompt: \"Summarise: {{ input.text }}\" }", &[
        key("model", Takes::Plain, "An alias, or `provider/model`.", "fast"),
        key("prompt", Takes::Text, "The user's message.", "Which team owns this?"),
        key("system", Takes::Text, "The system message.", "You are terse."),
        key("messages", Takes::Value, "A conversation instead of `prompt`: a list of `{role, content}`.", "[{ role: user, content: Hi }]"),
        key("images", Takes::Value, "Files or URLs shown with the prompt.", "[\"{{ input.photo }}\"]"),
        key("examples", Takes::Value, "A list of `{input, output}` shown before the prompt.", "[{ input: a, output: b }]"),
        key("max_tokens", Takes::Integer { min: 1, max: 1_000_000 }, "Most tokens of the answer.", "500"),
        key("temperature", Takes::Number { min: 0.0, max: 2.0 }, "Sampling temperature.", "0.2"),
        key("seed", Takes::Integer { min: 0, max: i64::MAX }, "Sampling seed.", "7"),
        key("stop", Takes::Texts, "Texts that end the answer.", "[\"END\"]"),
        key("emit", Takes::Name, "The channel its tokens are streamed to.", "reply"),
        key("early", Takes::Boolean, "With gates: streams before they have passed.", "true"),
    ] },
    kind! { "tool", true, true, "One call of a tool. The value is its structured result, else `{text}`.",
        "{ tool: http.get, with: { url: \"{{ input.url }}\" } }", &[
        key("tool", Takes::Plain, "The tool.", "http.get"),
        key("with", Takes::Value, "Its arguments.", "{ url: https://example.org }"),
    ] },
    kind! { "run", true, true, "A process. The value is `{code, stdout, stderr, files}`, and `json` with `returns`.",
        "{ run: \"wc -l {{ input.path }}\" }", &[
        key("run", Takes::Either(&[Takes::Text, Takes::Map(&PROGRAM)]), "Shell text, or a program.", "pytest -q"),
        key("with", Takes::Value, "What the program gets, as JSON.", "{ n: 3 }"),
        key("env", Takes::Values, "Added to the environment. May read `secrets`.", "{ TOKEN: \"{{ secrets.crm }}\" }"),
        key("cwd", Takes::Text, "A directory instead of its own, relative to the folder of the flow file.", "\"{{ input.repo }}\""),
        key("ok", Takes::ExitCodes, "Exit codes that are data; others fail the step.", "[0, 1]"),
        key("files", Takes::Values, "Result files: name to path.", "{ report: out/report.html }"),
        key("sandbox", Takes::Choice(&["none", "workspace", "strict"]), "How far it is confined.", "workspace"),
        key("limits", Takes::Map(&LIMITS), "What it may use.", "{ memory: 1GiB }"),
    ] },
    kind! { "human", true, true, "A question to a person. The value is the answer.",
        "{ human: { ask: \"Ship it?\", form: { ok: boolean }, deadline: 24h } }", &[
        key("human", Takes::Map(&HUMAN), "The question.", "{ ask: Ship it?, form: { ok: boolean } }"),
    ] },
    kind! { "wait", true, true, "For a time, or for a signal.",
        "{ wait: 5m }", &[
        key("wait", Takes::Either(&[Takes::Duration, Takes::Scalar, Takes::Map(&WAIT)]), "How long, until when, or for what.", "5m"),
    ] },
    kind! { "set", true, true, "A value, made of others.",
        "{ set: { total: \"{{ a.n + b.n }}\" } }", &[
        key("set", Takes::Value, "The value.", "{ total: \"{{ a.n + b.n }}\" }"),
    ] },
    kind! { "return", true, true, "Settles the flow with this value and cancels the rest.",
        "{ when: cached.hit, return: { reply: \"{{ cached.reply }}\" } }", &[
        key("return", Takes::Value, "The value of the flow.", "{ reply: \"{{ cached.reply }}\" }"),
    ] },
    kind! { "fail", true, true, "Fails, with an error of your own.",
        "{ when: input.age > 30, fail: { code: too_old, message: the ticket is closed } }", &[
        key("fail", Takes::Either(&[Takes::Map(&FAIL), Takes::Text]), "The error, or its message.", "{ code: too_old, message: closed }"),
    ] },
    kind! { "steps", false, true, "A group of steps.",
    "{ steps: { a: { set: 1 }, b: { set: 2 } }, output: \"{{ a + b }}\" }", &[STEPS, OUTPUT] },
    kind! { "for_each", false, true, "Steps for each item of a list, side by side. The value is the list of the successes, in the order of the items.",
        "{ for_each: input.docs, as: doc, steps: { sum: { model: fast, prompt: \"{{ doc }}\" } } }", &[
        key("for_each", Takes::Either(&[Takes::Expression, Takes::List, Takes::Map(&STREAM)]), "The items: an expression, a list, or a stream.", "input.docs"),
        key("as", Takes::Name, "The item's name; `item` when absent.", "doc"),
        key("parallel", Takes::Integer { min: 1, max: 100_000 }, "Most items at once.", "8"),
        key("item_key", Takes::Expression, "A stable name for each item instead of its index.", "doc.id"),
        key("tolerate", Takes::Tolerance, "How many failed items are absorbed.", "5%"),
        STEPS, OUTPUT,
    ] },
    kind! { "repeat", false, true, "Steps again and again, until a condition holds or a number of rounds is over.",
        "{ repeat: { carry: 0, until: output > 3, max: 9 }, steps: { add: { set: \"{{ carry + 1 }}\" } } }", &[
        key("repeat", Takes::Map(&REPEAT), "The loop.", "{ max: 5 }"),
        STEPS, OUTPUT,
    ] },
    kind! { "switch", false, true, "One of several steps, by a value.",
        "{ switch: classify.team, cases: { billing: { set: 1 } }, else: { set: 2 } }", &[
        key("switch", Takes::Expression, "The value.", "classify.team"),
        key("cases", Takes::Cases, "A step for each value.", "{ billing: { set: 1 } }"),
        key("else", Takes::Either(&[Takes::Step, Takes::Steps]), "The step for every other value.", "{ set: 2 }"),
    ] },
    kind! { "race", false, true, "Steps side by side; the first success wins, the others are cancelled. The value is `{winner, value}`.",
        "{ race: { a: { model: fast, prompt: Hi }, b: { model: strong, prompt: Hi } } }", &[
        key("race", Takes::StepMap, "The steps.", "{ a: { set: 1 }, b: { set: 2 } }"),
    ] },
    kind! { "flow", false, true, "A call of another flow. The value is its output.",
        "{ flow: research, with: { topic: \"{{ input.topic }}\" } }", &[
        key("flow", Takes::Plain, "A flow of `flows:`, then of the project.", "research"),
        key("with", Takes::Value, "Its input.", "{ topic: otters }"),
        key("max_depth", Takes::Integer { min: 1, max: 64 }, "Deepest nesting of a flow that calls itself.", "5"),
    ] },
    kind! { "agent", false, false, "A model that calls tools in turns until it is done.",
        "{ agent: { model: strong, instructions: Help, tools: [http.get], turns: 8 } }", &[
        key("agent", Takes::Any, "The agent.", "{ model: strong, instructions: Help }"),
    ] },
    kind! { "plan", false, false, "Steps that a planner writes and the engine checks.",
        "{ plan: { model: strong, goal: \"{{ input.goal }}\" } }", &[
        key("plan", Takes::Any, "The planner.", "{ model: strong }"),
    ] },
    kind! { "route", false, false, "A choice among models by a policy.",
        "{ route: { candidates: [fast, strong] } }", &[
        key("route", Takes::Any, "The policy.", "{ candidates: [fast, strong] }"),
    ] },
];
