//! Joins, races, shared workspaces, recursion, steps that never run.

use indexmap::IndexMap;

use super::edges::Orders;
use crate::graph::{BodyId, DepKind, Join, Kind, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::lower::Lower;
use crate::lang::source::Span;

/// Checks what the edges say.
pub(super) fn check(lower: &mut Lower<'_>, orders: &Orders) {
    for index in 0..lower.steps.len() {
        join(lower, StepId(index as u32));
    }
    for index in 0..lower.bodies.len() {
        let body = BodyId(index as u32);
        race(lower, body);
        unreachable(lower, body);
        workspace(lower, orders, body);
    }
    recursion(lower);
}

fn span_of(lower: &Lower<'_>, step: StepId, key: &str) -> Span {
    let info = lower.info(step);
    info.span(key).unwrap_or(info.name_span)
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

/// Two `run` steps that write into one directory at the same time: side by side below a list, or with the same `cwd`.
fn workspace(lower: &mut Lower<'_>, orders: &Orders, body: BodyId) {
    let shared = !lower.bodies[body.0 as usize].list && in_list(lower, body);
    let mut groups: IndexMap<String, Vec<u32>> = IndexMap::new();
    for (position, step) in lower.bodies[body.0 as usize].steps.iter().enumerate() {
        for directory in directories(lower, *step, shared) {
            let group = groups.entry(directory).or_default();
            if group.last() != Some(&(position as u32)) {
                group.push(position as u32);
            }
        }
    }
    for (directory, group) in groups {
        if group.len() > 1 {
            unordered(lower, orders, body, &directory, &group);
        }
    }
}

/// Whether a body's steps share the directory of a list around it.
fn in_list(lower: &Lower<'_>, body: BodyId) -> bool {
    let mut at = body;
    loop {
        let Some(scope) = lower.scope_of(at) else {
            return false;
        };
        let info = lower.info(scope);
        // Items, rounds and other flows have directories of their own.
        if !info
            .kind
            .is_some_and(|kind| matches!(kind.name, "steps" | "race"))
        {
            return false;
        }
        match info.placed {
            crate::lang::lower::Placed::Body { body: around, .. }
                if lower.bodies[around.0 as usize].list =>
            {
                return true;
            }
            crate::lang::lower::Placed::Body { body: around, .. } => at = around,
            crate::lang::lower::Placed::Hidden { .. } => return false,
        }
    }
}

/// The directories that a step's `run` leaves work in, as far as they are known and shared.
fn directories(lower: &Lower<'_>, step: StepId, shared: bool) -> Vec<String> {
    let Some(def) = lower.def(step) else {
        return Vec::new();
    };
    match &def.kind {
        Kind::Run(program) => match &program.cwd {
            Some(cwd) => cwd.literal().map(str::to_owned).into_iter().collect(),
            None if shared => vec![String::new()],
            None => Vec::new(),
        },
        Kind::Steps(body) => {
            let list = lower.bodies[body.0 as usize].list;
            let steps = &lower.bodies[body.0 as usize].steps;
            steps
                .iter()
                .flat_map(|step| directories(lower, *step, shared && !list))
                .collect()
        }
        Kind::Model(_)
        | Kind::Tool(_)
        | Kind::Human(_)
        | Kind::Wait(_)
        | Kind::Set(_)
        | Kind::Return(_)
        | Kind::Fail(_)
        | Kind::ForEach(_)
        | Kind::Repeat(_)
        | Kind::Switch(_)
        | Kind::Race(_)
        | Kind::Flow(_) => Vec::new(),
    }
}

/// Reports the first two of a group that no path of edges orders.
fn unordered(lower: &mut Lower<'_>, orders: &Orders, body: BodyId, directory: &str, group: &[u32]) {
    let steps = lower.bodies[body.0 as usize].steps.clone();
    let count = steps.len();
    // The member of the group that comes last in the order among those that a step waits for.
    let mut last_before: Vec<Option<usize>> = vec![None; count];
    let mut rank: IndexMap<u32, usize> = IndexMap::new();
    for position in orders.of(body) {
        let deps = lower
            .def(steps[*position as usize])
            .map(|def| def.deps.clone())
            .unwrap_or_default();
        let before = deps
            .iter()
            .filter_map(|dep| rank.get(&dep.on).copied().max(last_before[dep.on as usize]))
            .max();
        last_before[*position as usize] = before;
        if group.binary_search(position).is_err() {
            continue;
        }
        let own = rank.len();
        rank.insert(*position, own);
        if own == 0 || before == Some(own - 1) {
            continue;
        }
        let other = *rank
            .get_index(own - 1)
            .expect("the group's earlier members are ranked")
            .0;
        report_workspace(
            lower,
            directory,
            steps[other as usize],
            steps[*position as usize],
        );
        return;
    }
}

fn report_workspace(lower: &mut Lower<'_>, directory: &str, first: StepId, second: StepId) {
    let (one, two) = (
        lower.info(first).name.clone(),
        lower.info(second).name.clone(),
    );
    let (first, second) = (lower.info(first).name_span, lower.info(second).name_span);
    let place = if directory.is_empty() {
        "the directory of the list around them".to_owned()
    } else {
        format!("`{directory}`")
    };
    let message = format!("`{one}` and `{two}` run at the same time in {place}");
    let problem = Problem::new(codes::WORKSPACE, second, message).related(first, "the other one");
    lower.problem(problem.hint(format!(
        "order them, `after: [{one}]`, or make the group a list"
    )));
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
