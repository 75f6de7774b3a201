//! Joins, races, recursion, steps that never run.

use super::effects::span_of;
use crate::graph::{BodyId, DepKind, Join, Kind, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::lower::Lower;
use crate::lang::source::Span;

/// Checks what the edges say.
pub(super) fn check(lower: &mut Lower<'_>) {
    for index in 0..lower.steps.len() {
        join(lower, StepId(index as u32));
    }
    for index in 0..lower.bodies.len() {
        let body = BodyId(index as u32);
        race(lower, body);
        unreachable(lower, body);
    }
    recursion(lower);
}

fn join(lower: &mut Lower<'_>, step: StepId) {
    let Some(def) = lower.def(step) else { return };
    let counting = def
        .deps
        .iter()
        .filter(|dep| dep.how != DepKind::Weak)
        .count()
        + def.outer.len();
    let (join, cancel_rest) = (def.join, def.cancel_rest);
    let name = lower.info(step).name.clone();
    let span = span_of(lower, step, "join");
    let problem = match join {
        Join::All => None,
        Join::First(count) if counting == 0 => Some(
            Problem::new(
                codes::JOIN,
                span,
                format!(
                    "step `{name}` waits for no step, so the {} success never comes",
                    nth(count)
                ),
            )
            .hint("name the steps it waits for: `after: [a, b]`"),
        ),
        Join::First(count) if count as usize > counting => Some(
            Problem::new(
                codes::JOIN,
                span,
                format!(
                    "step `{name}` waits for {count} successes of {counting} {}",
                    steps(counting)
                ),
            )
            .hint(format!("write at most `first: {counting}`")),
        ),
        Join::First(_) => None,
        Join::Failed if counting == 0 => Some(
            Problem::new(
                codes::JOIN,
                span,
                format!("step `{name}` waits for no step, so none of them fails and it never runs"),
            )
            .hint("name the steps it watches: `after: [a]`"),
        ),
        Join::Failed => None,
        Join::Settled if counting == 0 => Some(Problem::new(
            codes::POINTLESS,
            span,
            format!("step `{name}` waits for no step, so its `join` has no effect"),
        )),
        Join::Settled => None,
    };
    if let Some(problem) = problem {
        lower.problem(problem);
    }
    if cancel_rest && !matches!(join, Join::First(_)) {
        let span = span_of(lower, step, "cancel_rest");
        let problem = Problem::new(
            codes::POINTLESS,
            span,
            "`cancel_rest` has no effect without `join: any` or `first`",
        );
        lower.problem(problem);
    }
}

fn nth(count: u32) -> String {
    match count {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        count => format!("{count}th"),
    }
}

fn steps(count: usize) -> &'static str {
    if count == 1 { "step" } else { "steps" }
}

/// The children of a race run side by side: an edge between two would make one lose before it starts.
fn race(lower: &mut Lower<'_>, body: BodyId) {
    let Some(scope) = lower.scope_of(body) else {
        return;
    };
    match lower.def(scope).map(|def| &def.kind) {
        Some(Kind::Race(own)) if *own == body => {}
        Some(_) | None => return,
    }
    let children = lower.bodies[body.0 as usize].steps.clone();
    if let [only] = children.as_slice() {
        let span = lower.info(*only).name_span;
        lower.problem(Problem::new(
            codes::POINTLESS,
            span,
            "a race with one step has no other to race with",
        ));
    }
    for child in &children {
        if let Some(edge) = lower.info(*child).edges.first().copied() {
            let (name, other) = (
                lower.info(*child).name.clone(),
                lower.info(children[edge.on as usize]).name.clone(),
            );
            let message = format!("`{name}` waits for `{other}`, and both are in one race");
            lower.problem(
                Problem::new(codes::JOIN, edge.span, message)
                    .hint("put steps that belong together into one group of the race"),
            );
        }
    }
}

/// In a list, what follows a step that always ends the flow.
fn unreachable(lower: &mut Lower<'_>, body: BodyId) {
    if !lower.bodies[body.0 as usize].list {
        return;
    }
    let children = lower.bodies[body.0 as usize].steps.clone();
    let ends = |step: &StepId| {
        lower.def(*step).is_some_and(|def| {
            def.when.is_none()
                && def.catch.is_empty()
                && matches!(def.kind, Kind::Return(_) | Kind::Fail(_))
        })
    };
    let Some(position) = children.iter().position(ends) else {
        return;
    };
    let Some(next) = children.get(position + 1) else {
        return;
    };
    if matches!(
        lower.def(*next).map(|def| def.join),
        Some(Join::Failed | Join::Settled)
    ) {
        return;
    }
    let (span, end) = (
        lower.info(*next).name_span,
        lower.info(children[position]).name_span,
    );
    let problem = Problem::new(
        codes::UNREACHABLE,
        span,
        format!("`{}` never runs", lower.info(*next).name),
    );
    lower.problem(problem.related(end, "the flow ends here"));
}

/// Flows that call themselves, directly or through others, need a bound somewhere on the way.
fn recursion(lower: &mut Lower<'_>) {
    let count = lower.flows.len();
    let unbounded: Vec<Vec<(usize, Span)>> = lower
        .flows
        .iter()
        .map(|flow| {
            flow.calls
                .iter()
                .filter(|call| !call.bounded)
                .map(|call| (call.callee, call.span))
                .collect()
        })
        .collect();
    let mut state = vec![0u8; count];
    for start in 0..count {
        if state[start] != 0 {
            continue;
        }
        // Depth first, without recursion of our own: the chain of calls may be as long as there are flows.
        let mut stack: Vec<(usize, usize)> = vec![(start, 0)];
        state[start] = 1;
        while let Some((flow, next)) = stack.last_mut() {
            let Some((callee, span)) = unbounded[*flow].get(*next).copied() else {
                state[*flow] = 2;
                stack.pop();
                continue;
            };
            *next += 1;
            match state[callee] {
                0 => {
                    state[callee] = 1;
                    stack.push((callee, 0));
                }
                1 => report_recursion(lower, &stack, callee, span),
                _ => {}
            }
        }
    }
}

fn report_recursion(lower: &mut Lower<'_>, stack: &[(usize, usize)], callee: usize, span: Span) {
    let start = stack
        .iter()
        .position(|(flow, _)| *flow == callee)
        .unwrap_or(0);
    let mut names: Vec<String> = stack[start..]
        .iter()
        .map(|(flow, _)| lower.flows[*flow].name.to_string())
        .collect();
    names.push(lower.flows[callee].name.to_string());
    let message = format!(
        "the flow calls itself without a bound: {}",
        names.join(" -> ")
    );
    lower.problem(
        Problem::new(codes::RECURSION, span, message)
            .hint("say how deep it may go: `max_depth: 5` beside `flow:`"),
    );
}
