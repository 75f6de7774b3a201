//! Effects that are cut short: losers of a race, and steps that a join goes on without.
//!
//! What is stopped in the middle of a `once` or `write` has happened or has not, and nobody knows: it becomes a question.

use super::effects::{FirstLeaf, effect_name, span_of};
use crate::effect::Effect;
use crate::graph::{DepKind, Join, Kind, OnUncertain, StepDef, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, names};
use crate::lang::lower::{Lower, Placed};

/// Other steps of one race or join that a report points at.
const RELATED_MAX: usize = 3;

const HINT: &str = "let them only look, and act in a step after it; or say what is to become of one that is cut short: \
    `effect: read` if half of it does no harm, `on_uncertain: { check: … }` to ask the world, `on_uncertain: fail` to ask nobody";

/// Whether a person is asked when it is stopped on its way.
fn is_asked_about(def: &StepDef) -> bool {
    let acts = matches!(def.leaf.effect, Effect::Write | Effect::Once);
    acts && matches!(
        def.leaf.on_uncertain,
        OnUncertain::Ask { .. } | OnUncertain::Retry
    )
}

/// Warns of races and joins that cut effects short.
pub(super) fn check(lower: &mut Lower<'_>) {
    let mut asked = FirstLeaf::new(lower, is_asked_about);
    for index in 0..lower.steps.len() {
        let step = StepId(index as u32);
        race(lower, step, &mut asked);
        cancel_rest(lower, step, &mut asked);
    }
}

fn race(lower: &mut Lower<'_>, step: StepId, asked: &mut FirstLeaf) {
    let Some(Kind::Race(body)) = lower.def(step).map(|def| &def.kind) else {
        return;
    };
    let children = lower.bodies[body.0 as usize].steps.clone();
    if children.len() < 2 {
        return;
    }
    let cut: Vec<StepId> = children
        .into_iter()
        .filter_map(|child| asked.in_step(lower, child))
        .collect();
    let what = format!(
        "the losers of race `{}` are cut short",
        lower.info(step).name
    );
    report(lower, step, "race", &cut, &what);
}

fn cancel_rest(lower: &mut Lower<'_>, step: StepId, asked: &mut FirstLeaf) {
    let Some(def) = lower.def(step) else { return };
    let Placed::Body { body, .. } = lower.info(step).placed else {
        return;
    };
    if !def.cancel_rest || !matches!(def.join, Join::First(_)) {
        return;
    }
    let siblings = &lower.bodies[body.0 as usize].steps;
    let joined: Vec<StepId> = def
        .deps
        .iter()
        .filter(|dep| dep.how != DepKind::Weak)
        .map(|dep| siblings[dep.on as usize])
        .collect();
    let cut: Vec<StepId> = joined
        .into_iter()
        .filter_map(|other| asked.in_step(lower, other))
        .collect();
    let what = "`cancel_rest` cuts short what is still running".to_owned();
    report(lower, step, "cancel_rest", &cut, &what);
}

fn report(lower: &mut Lower<'_>, step: StepId, key: &str, cut: &[StepId], what: &str) {
    let Some(first) = cut.first() else { return };
    let span = match key {
        // The value of `race` is all of its steps.
        "race" => lower.info(step).name_span,
        key => span_of(lower, step, key),
    };
    let called = names(cut.iter().map(|step| lower.info(*step).name.as_str()));
    let are = if cut.len() == 1 {
        let effect = lower
            .def(*first)
            .map_or(Effect::Once, |def| def.leaf.effect);
        format!("step {called} is `{}`", effect_name(effect))
    } else {
        format!("steps {called} have effects")
    };
    let message = format!("{what}, and {are}: a person is asked about each that was under way");
    let mut problem = Problem::new(codes::CUT_SHORT, span, message).hint(HINT);
    for culprit in cut.iter().take(RELATED_MAX) {
        problem = problem.related(lower.info(*culprit).name_span, "it may be cut short");
    }
    lower.problem(problem);
}
