//! The keys of maps below steps.

use super::{Key, Table, Takes, key};

const NAMES_OF_ERRORS: Takes = Takes::Errors;

macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $title:literal, $text:literal, [$($required:literal),*], $keys:expr) => {
        $(#[$doc])*
        pub(crate) static $name: Table = {
            static KEYS: &[Key] = $keys;
            Table { name: $title, doc: $text, keys: KEYS, required: &[$($required),*] }
        };
    };
}

table! {
    /// `{file, with}` in the place of text.
    FILE, "a file as text", "Text from a file, in place of text. Its template sees only `with`; the path is relative to the naming file.", ["file"],
    &[
        key("file", Takes::Plain, "The path.", "prompts/answer.md"),
        key("with", Takes::Values, "All that the template sees.", "{ team: \"{{ classify.team }}\" }"),
    ]
}

table! {
    /// `retry:`.
    RETRY, "retry", "Tries of one activation of a leaf. A `once` is tried again only when it certainly did not happen.", [],
    &[
        key("attempts", Takes::Integer { min: 1, max: 100 }, "All tries, the first included.", "4"),
        key("backoff", Takes::DurationRange, "First and longest pause between tries; it doubles.", "1s..30s"),
        key("errors", NAMES_OF_ERRORS, "Classes that are tried again; the transient ones when absent.", "[rate_limited]"),
    ]
}

table! {
    /// `budget:`.
    BUDGET, "budget", "The most that may be spent. Reserved before it is spent.", [],
    &[
        key("usd", Takes::Number { min: 0.0, max: 1e9 }, "Dollars.", "0.10"),
        key("tokens", Takes::Count, "Tokens of all classes.", "200k"),
        key("time", Takes::Duration, "Active time: people, waits and downtime do not count.", "10m"),
    ]
}

table! {
    /// An entry of `gates:`.
    GATE, "a gate", "One verification of a step's value; `output` is the value.", [],
    &[
        key("expr", Takes::Condition, "Must be true.", "output.total <= 100"),
        key("schema", Takes::Type, "A further type that the value must be of.", "{ total: number }"),
        key("run", Takes::Any, "A program that must end with 0, as in a `run` step.", "python check.py"),
        key("with", Takes::Value, "With `run`: what the program gets.", "{ answer: \"{{ output }}\" }"),
        key("judge", Takes::Map(&JUDGE), "A model that says whether the value passes.", "{ model: strong, rubric: Polite }"),
    ]
}

table! {
    /// `judge:`.
    JUDGE, "judge", "A model call that returns `{pass, reason, score}`.", ["model", "rubric"],
    &[
        key("model", Takes::Plain, "The model.", "strong"),
        key("rubric", Takes::Text, "What a good value is.", "Polite, and answers the question"),
        key("prompt", Takes::Text, "What is judged; the value itself when absent.", "\"{{ output.reply }}\""),
        key("max_tokens", Takes::Integer { min: 1, max: 1_000_000 }, "Most tokens of the verdict.", "400"),
    ]
}

table! {
    /// An entry of `catch:`.
    CATCH, "a handler", "What gives the value when something has failed. It sees `error` and the finished steps of the scope.", [],
    &[
        key("errors", NAMES_OF_ERRORS, "Classes that it takes; every one but `cancelled` when absent.", "[timeout]"),
        key("steps", Takes::Steps, "Steps that run then.", "{ tell: { run: echo failed } }"),
        key("output", Takes::Value, "The value.", "{ reply: We will come back to you. }"),
    ]
}

table! {
    /// An entry of `concurrency:`.
    CONCURRENCY, "concurrency", "A limit of attempts at once under a key, over all runs.", ["key", "max"],
    &[
        key("key", Takes::Text, "The key.", "\"crm-{{ input.tenant }}\""),
        key("max", Takes::Integer { min: 1, max: 100_000 }, "Most attempts at once.", "4"),
    ]
}

table! {
    /// `on_uncertain: {ask}`.
    ASK, "ask", "Asks a person whether it happened.", [],
    &[
        key("ask", Takes::Map(&ASK_DEADLINE), "With a deadline.", "{ deadline: 24h }"),
    ]
}

table! {
    /// Below `ask`.
    ASK_DEADLINE, "on_uncertain.ask", "How the question is asked.", [],
    &[
        key("deadline", Takes::Duration, "Nobody answered: the step fails with `uncertain`.", "24h"),
    ]
}

table! {
    /// `on_uncertain: {check}`.
    CHECK, "check", "Asks the world: a read leaf with the value `{happened, output}`.", ["check"],
    &[
        key("check", Takes::Step, "The read leaf.", "{ tool: crm.find, with: { key: \"{{ args }}\" } }"),
    ]
}

table! {
    /// `join: {first}`.
    FIRST, "join", "Runs at the k-th success.", ["first"],
    &[
        key("first", Takes::Integer { min: 1, max: 100_000 }, "How many successes.", "2"),
    ]
}

table! {
    /// An entry of `escalate:`.
    ESCALATE, "escalate", "Who is asked next when a deadline passes.", [],
    &[
        key("ask", Takes::Text, "Another text; the same question when absent.", "Still open, refund it?"),
        key("to", Takes::Text, "Who is asked.", "lead"),
        key("deadline", Takes::Duration, "How long this one has.", "4h"),
    ]
}

table! {
    /// `human:`.
    HUMAN, "human", "A question to a person; the value is the answer.", ["ask"],
    &[
        key("ask", Takes::Text, "The question.", "Refund {{ draft.refund }}?"),
        key("form", Takes::Type, "The type of the answer; `{ok: boolean}` when absent.", "{ ok: boolean }"),
        key("to", Takes::Text, "Who should answer; shown, not enforced.", "support"),
        key("deadline", Takes::Duration, "How long it stays open.", "24h"),
        key(
            "on_deadline",
            Takes::Either(&[Takes::Choice(&["fail"]), Takes::Value]),
            "What happens then: `fail` (default), or a value in place of the answer.",
            "{ ok: false }",
        ),
        key("escalate", Takes::Maps(&ESCALATE), "Who is asked next when the deadline passes.", "[{ to: lead, deadline: 4h }]"),
    ]
}

table! {
    /// `wait:` as a map.
    WAIT, "wait", "For a time, or for a signal.", [],
    &[
        key("for", Takes::Value, "How long: a duration, or a number of seconds.", "\"{{ input.seconds }}\""),
        key("until", Takes::Value, "Until when: RFC 3339, or seconds since 1970.", "\"{{ input.at }}\""),
        key("signal", Takes::Name, "For a message in this inbox of `signals:`; the value is the message.", "user"),
        key("deadline", Takes::Duration, "With `signal`: how long.", "1h"),
        key(
            "on_deadline",
            Takes::Either(&[Takes::Choice(&["fail"]), Takes::Value]),
            "What happens then: `fail` (default), or a value in place of the message.",
            "{ text: \"\" }",
        ),
    ]
}

table! {
    /// `fail:` as a map.
    FAIL, "fail", "How the step fails.", ["message"],
    &[
        key("code", Takes::Text, "A free code, for `error.code`.", "too_old"),
        key("message", Takes::Text, "One sentence.", "the ticket is closed"),
        key("class", NAMES_OF_ERRORS, "One of the error classes; `tool_error` when absent.", "invalid_input"),
    ]
}

table! {
    /// `run: {python}` and so on.
    PROGRAM, "run", "A program, and what it gets. The other keys of `run` may stand here or on the step.", [],
    &[
        key("shell", Takes::Text, "Shell text; every `{{ }}` is quoted.", "pytest -q {{ input.path }}"),
        key("python", Takes::Either(&[Takes::Text, Takes::Map(&CODE)]), "Python source; `with` arrives as `args`.", "print(args['n'])"),
        key("node", Takes::Either(&[Takes::Text, Takes::Map(&CODE)]), "Node source; `with` arrives as `args`.", "console.log(args.n)"),
        key("program", Takes::Value, "A program and its arguments, without a shell.", "[git, status]"),
        key("with", Takes::Value, "What the program gets, as JSON.", "{ n: 3 }"),
        key("env", Takes::Values, "Added to the environment. May read `secrets`.", "{ TOKEN: \"{{ secrets.crm }}\" }"),
        key("cwd", Takes::Text, "A directory instead of its own, relative to the folder of the flow file.", "\"{{ input.repo }}\""),
        key("ok", Takes::ExitCodes, "Exit codes that are data; others fail the step.", "[0, 1]"),
        key("files", Takes::Values, "Result files: name to path.", "{ report: out/report.html }"),
        key("sandbox", Takes::Choice(&["none", "workspace", "strict"]), "How far it is confined.", "workspace"),
        key("limits", Takes::Map(&LIMITS), "What it may use.", "{ memory: 1GiB }"),
    ]
}

table! {
    /// `{python: {code}}`.
    CODE, "code", "A program that is data: runs in the sandbox `workspace` unless said otherwise.", ["code"],
    &[
        key("code", Takes::Value, "The source.", "\"{{ write.code }}\""),
    ]
}

table! {
    /// `limits:` of a process.
    LIMITS, "limits", "What a process may use.", [],
    &[
        key("cpu", Takes::Duration, "CPU time.", "1m"),
        key("memory", Takes::Bytes, "Memory, at least 32MiB.", "1GiB"),
        key("output", Takes::Bytes, "Most that stdout may hold, and that is kept of stderr.", "1MiB"),
        key("file", Takes::Bytes, "The largest file it may write.", "100MiB"),
    ]
}

table! {
    /// `repeat:`.
    REPEAT, "repeat", "Rounds of steps; the output of one is the `carry` of the next.", ["max"],
    &[
        key("carry", Takes::Value, "The first `carry`; types `output`. Without it there is none in the first round.", "{ score: 0 }"),
        key("until", Takes::Condition, "Ends the loop; sees the round's steps, `output` and the old `carry`.", "output.score > 8"),
        key("max", Takes::Integer { min: 1, max: 1_000_000 }, "Most rounds.", "5"),
        key("on_max", Takes::Choice(&["fail", "return"]), "After the last round: fail with `exhausted` (default), or return its output.", "return"),
    ]
}

table! {
    /// `for_each: {stream}`.
    STREAM, "for_each", "Items as another step produces them.", ["stream"],
    &[
        key("stream", Takes::Plain, "A step and a field of its value: a list, or text, whose items are its lines.", "plan.items"),
    ]
}

table! {
    /// An entry of `triggers:`.
    TRIGGER, "a trigger", "When the server starts the flow: by the clock, by a request, by a file.", [],
    &[
        key("cron", Takes::Plain, "Minute, hour, day, month, weekday.", "0 6 * * 1-5"),
        key("tz", Takes::Plain, "Time zone of `cron`; UTC when absent.", "Europe/Berlin"),
        key("overlap", Takes::Choice(&["skip", "queue", "allow"]), "What to do when the run before is not over.", "skip"),
        key("missed", Takes::Choice(&["skip", "once", "all"]), "What to do with times that passed while the server was down.", "once"),
        key("webhook", Takes::Plain, "The path of a request that starts it.", "/tickets"),
        key("file", Takes::Plain, "A pattern of files; a new one starts it.", "inbox/*.json"),
        key("input", Takes::Any, "The input; for requests and files what they bring is `request` and `file`.", "{ kind: nightly }"),
    ]
}
