//! Retries that never come: kinds without attempts, classes that no attempt fails with, effects that are not repeated.

use std::collections::BTreeSet;

use super::effects::UNCERTAIN;
use crate::effect::{Effect, ErrorClass};
use crate::graph::{Kind, OnUncertain, StepDef, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, names};
use crate::lang::lower::Lower;
use crate::lang::source::Span;

/// Classes that come from outside of an attempt: they end the step, or another key takes them up.
const NEVER: &[(ErrorClass, &str)] = &[
    (
        ErrorClass::GateFailed,
        "after a failed gate `repair` tries again: `repair: 2`",
    ),
    (
        ErrorClass::Deadline,
        "a deadline ends the step; the time of one try is `timeout`, and its class is `timeout`, too",
    ),
    (
        ErrorClass::BudgetExceeded,
        "a used up budget ends the step; raise it",
    ),
    (
        ErrorClass::JoinUnmet,
        "only scopes and joins fail with it; leave it out",
    ),
    (
        ErrorClass::Cancelled,
        "what was cancelled stays so; leave it out",
    ),
];
/// What a process fails with that did not begin.
const NOT_BEGUN: &[ErrorClass] = &[
    ErrorClass::InvalidInput,
    ErrorClass::NotFound,
    ErrorClass::PolicyDenied,
    ErrorClass::Unavailable,
    ErrorClass::Internal,
];
/// What a process fails with that ran to its end.
const ENDED: &[ErrorClass] = &[ErrorClass::ToolError, ErrorClass::InvalidOutput];

/// Warns of every `retry` that cannot do what it seems to say.
pub(super) fn check(lower: &mut Lower<'_>) {
    // A fallback of another kind inherits a `retry` that was not written for it.
    let fallbacks: BTreeSet<StepId> = lower
        .steps
        .iter()
        .flatten()
        .flat_map(|def| def.fallback.iter().copied())
        .collect();
    for index in 0..lower.steps.len() {
        let step = StepId(index as u32);
        if !fallbacks.contains(&step)
            && let Some(problem) = of_step(lower, step)
        {
            lower.problem(problem);
        }
    }
}

fn pointless(span: Span, message: String, hint: impl Into<String>) -> Option<Problem> {
    Some(Problem::new(codes::POINTLESS, span, message).hint(hint))
}

fn of_step(lower: &Lower<'_>, step: StepId) -> Option<Problem> {
    let (def, info) = (lower.def(step)?, lower.info(step));
    let span = info.span("retry")?;
    if info.inherited.contains(&"retry") {
        return None;
    }
    let name = &info.name;
    match &def.kind {
        Kind::Model(_) | Kind::Tool(_) | Kind::Run(_) => {}
        Kind::Human(_) | Kind::Wait(_) | Kind::Set(_) | Kind::Return(_) | Kind::Fail(_) => {
            let kind = def.kind.name();
            let message = format!("`retry` has no effect: a `{kind}` step makes no tries");
            return pointless(span, message, "leave it out");
        }
        Kind::Steps(_)
        | Kind::ForEach(_)
        | Kind::Repeat(_)
        | Kind::Switch(_)
        | Kind::Race(_)
        | Kind::Flow(_) => return None,
    }
    if !info.says_attempts && def.leaf.retry.attempts == 1 {
        let message = format!(
            "`retry` has no effect: a `{}` step has 1 try",
            def.kind.name()
        );
        return pointless(
            span,
            message,
            "say how many, the first included: `attempts: 3`",
        );
    }
    if def.leaf.retry.attempts == 1 {
        // Said so: the tries of its kind are turned off.
        return None;
    }
    if let Some((class, hint)) = never(def) {
        let message = format!("`retry` never takes up `{class}`");
        return pointless(span, message, hint);
    }
    match (matches!(def.kind, Kind::Run(_)), def.leaf.effect) {
        // Whether a model or a tool got as far as the other side shows only when it has failed.
        (false, _) => None,
        (true, Effect::Once) => once_process(def, span, name),
        (true, Effect::Pure | Effect::Read | Effect::Write) => process(def, span),
    }
}

fn never(def: &StepDef) -> Option<(ErrorClass, &'static str)> {
    let classes = def.leaf.retry.errors.as_ref()?;
    NEVER
        .iter()
        .find(|(class, _)| classes.contains(class))
        .copied()
}

/// A `once` is tried again when it has certainly not happened: of a process, when it has not begun.
fn once_process(def: &StepDef, span: Span, name: &str) -> Option<Problem> {
    const AGAIN: &str = "if running it again does no harm say `effect: read` or `effect: write`";
    let decided = matches!(
        def.leaf.on_uncertain,
        OnUncertain::Retry | OnUncertain::Check(_)
    );
    let Some(classes) = &def.leaf.retry.errors else {
        if decided {
            return None;
        }
        let message = format!(
            "step `{name}` is `once`: it is tried again only when it did not begin, never after an exit code or a timeout"
        );
        let hint = format!(
            "{AGAIN}, and `errors: [tool_error]` for exit codes; if only that is meant, `errors: [unavailable]`"
        );
        return pointless(span, message, hint);
    };
    if let Some(class) = classes.iter().find(|class| ENDED.contains(class)) {
        let message = format!(
            "step `{name}` is `once`: after `{class}` it did happen, and is not tried again"
        );
        return pointless(span, message, AGAIN);
    }
    if classes.iter().any(|class| UNCERTAIN.contains(class)) {
        // Decided, it applies; else it is an error of its own.
        return None;
    }
    impossible(classes, NOT_BEGUN, span)
}

/// A process that may be repeated: an exit code is no transient error.
fn process(def: &StepDef, span: Span) -> Option<Problem> {
    let Some(classes) = &def.leaf.retry.errors else {
        let message = "an exit code is not tried again: it is a `tool_error`, and without `errors` only transient ones are";
        return pointless(
            span,
            message.to_owned(),
            "add `errors: [tool_error, timeout]`; if exit codes are not meant, `errors: [timeout]`",
        );
    };
    let possible = [
        NOT_BEGUN,
        ENDED,
        &[ErrorClass::Timeout, ErrorClass::Crashed],
    ]
    .concat();
    impossible(classes, &possible, span)
}

/// None of the classes is one that a process fails with.
fn impossible(classes: &[ErrorClass], possible: &[ErrorClass], span: Span) -> Option<Problem> {
    if classes.is_empty() || classes.iter().any(|class| possible.contains(class)) {
        return None;
    }
    let message = format!(
        "`retry` has no effect: this process never fails with {}",
        names(classes.iter().map(|class| class.name()))
    );
    let hint = format!(
        "it fails with {}",
        names(possible.iter().map(|class| class.name()))
    );
    pointless(span, message, hint)
}
