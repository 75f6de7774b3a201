//! The keys that are not of one kind: of any step, of leaves, of scopes.

use super::parts::{ASK, BUDGET, CATCH, CHECK, CONCURRENCY, FIRST, GATE, RETRY};
use super::{Key, Table, Takes, key};

/// Keys on any step.
pub(crate) static ANY: Table = Table {
    name: "any step",
    doc: "Keys that every step may have, whatever its kind.",
    keys: ANY_KEYS,
    required: &[],
};

static ANY_KEYS: &[Key] = &[
    key(
        "description",
        Takes::Plain,
        "What the step is for, in a sentence.",
        "Classifies the ticket.",
    ),
    key(
        "when",
        Takes::Condition,
        "Runs only if this is true; else the step is skipped.",
        "draft.refund > 0",
    ),
    key(
        "after",
        Takes::Names,
        "Steps that have to be settled first, besides those whose values are read.",
        "[build]",
    ),
    key(
        "join",
        Takes::Either(&[
            Takes::Choice(&["all", "any", "settled", "failed"]),
            Takes::Map(&FIRST),
        ]),
        "When it runs, seen from the steps it waits for: all succeeded (default), the first success, all settled, one failed.",
        "any",
    ),
    key(
        "cancel_rest",
        Takes::Boolean,
        "With `any` or `first`: cancels the steps that are not needed any more.",
        "true",
    ),
    key(
        "returns",
        Takes::Type,
        "The contract of the value: a type, held at run time.",
        "{ team: string }",
    ),
    key(
        "gates",
        Takes::Maps(&GATE),
        "Verifications of the value before the step counts as succeeded.",
        "[{ expr: output.total <= 100 }]",
    ),
    key(
        "repair",
        Takes::Integer { min: 0, max: 20 },
        "How often a failed gate or contract leads to another try, with `last`.",
        "2",
    ),
    key(
        "fallback",
        Takes::Overlays,
        "What to try when the step has failed: keys that replace the step's own. One, or a list.",
        "{ model: strong }",
    ),
    key(
        "catch",
        Takes::Maps(&CATCH),
        "What gives the value when the step has failed.",
        "[{ errors: [timeout], output: none }]",
    ),
    key(
        "deadline",
        Takes::Duration,
        "The whole step, all tries included, fails after this long.",
        "10m",
    ),
    key(
        "budget",
        Takes::Map(&BUDGET),
        "Most that the step may spend.",
        "{ usd: 0.05 }",
    ),
    key(
        "priority",
        Takes::Integer {
            min: -100,
            max: 100,
        },
        "Higher goes first where limits make steps wait.",
        "10",
    ),
    key(
        "labels",
        Takes::Names,
        "Marks for filters and policies; `untrusted` bars `raw_shell`.",
        "[untrusted]",
    ),
    key(
        "compensate",
        Takes::Step,
        "The leaf that undoes this step; `output` is the step's value. When it failed there is none: unguarded, a person is asked to undo it.",
        "{ tool: crm.revoke, with: { id: 7 } }",
    ),
];

/// Keys on leaves.
pub(crate) static LEAF: Table = Table {
    name: "a leaf",
    doc: "Keys of leaves: the steps that do one thing.",
    keys: LEAF_KEYS,
    required: &[],
};

static LEAF_KEYS: &[Key] = &[
    key(
        "retry",
        Takes::Either(&[Takes::Map(&RETRY), Takes::Integer { min: 1, max: 100 }]),
        "Tries of one activation, the first included.",
        "{ attempts: 4, backoff: 1s..30s }",
    ),
    key(
        "timeout",
        Takes::Duration,
        "One attempt ends after this long.",
        "30s",
    ),
    key(
        "effect",
        Takes::Choice(&["pure", "read", "write", "once"]),
        "What it does to the world, and so what may be repeated.",
        "once",
    ),
    key(
        "on_uncertain",
        Takes::Either(&[
            Takes::Choice(&["ask", "retry", "fail"]),
            Takes::Map(&ASK),
            Takes::Map(&CHECK),
        ]),
        "What to do when a `once` may or may not have happened.",
        "ask",
    ),
    key(
        "key",
        Takes::Text,
        "An idempotency key of your own instead of the run's and path's.",
        "\"{{ input.order }}\"",
    ),
    key(
        "cache",
        Takes::Duration,
        "Results of `pure` and `read` leaves are kept this long.",
        "1h",
    ),
    key(
        "concurrency",
        Takes::Maps(&CONCURRENCY),
        "Limits of attempts at once over all runs.",
        "{ key: crm, max: 4 }",
    ),
    key(
        "worker",
        Takes::Plain,
        "The worker that must carry it out.",
        "gpu",
    ),
];

/// Keys on scopes.
pub(crate) static SCOPE: Table = Table {
    name: "a scope",
    doc: "Keys of scopes: the steps that hold steps.",
    keys: SCOPE_KEYS,
    required: &[],
};

static SCOPE_KEYS: &[Key] = &[key(
    "finally",
    Takes::Steps,
    "Steps that run when the scope ends, whatever the end is.",
    "{ clean: { run: rm -rf build } }",
)];
