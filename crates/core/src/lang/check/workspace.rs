//! Directories that `run` steps share.

use indexmap::IndexMap;

use super::edges::Orders;
use crate::effect::Effect;
use crate::graph::{BodyId, Kind, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::lower::Lower;

/// Checks every body.
pub(super) fn check(lower: &mut Lower<'_>, orders: &Orders) {
    for index in 0..lower.bodies.len() {
        workspace(lower, orders, BodyId(index as u32));
    }
}

/// A `run` leaf that works in a shared directory.
#[derive(Clone)]
struct Worker {
    /// `cwd`, or empty for the directory of the list around it.
    directory: String,
    writes: bool,
    /// It runs several times side by side, as in a `for_each`.
    many: bool,
    step: StepId,
}

/// Two `run` steps of which one writes, in one directory at the same time: side by side below a list, or with the same `cwd`.
fn workspace(lower: &mut Lower<'_>, orders: &Orders, body: BodyId) {
    let list = lower.bodies[body.0 as usize].list;
    let shared = list || in_list(lower, body);
    let mut groups: IndexMap<String, Vec<(u32, Worker)>> = IndexMap::new();
    for (position, step) in lower.bodies[body.0 as usize].steps.iter().enumerate() {
        for worker in workers(lower, *step, shared) {
            groups
                .entry(worker.directory.clone())
                .or_default()
                .push((position as u32, worker));
        }
    }
    for (directory, group) in groups {
        // Reported where the loop stands, not again for every scope around it.
        let looped = group.iter().find(|(position, worker)| {
            worker.many
                && worker.writes
                && is_loop(
                    lower,
                    lower.bodies[body.0 as usize].steps[*position as usize],
                )
        });
        if let Some((_, worker)) = looped {
            report_loop(lower, &directory, worker.step);
        }
        if !list && group.len() > 1 && group.iter().any(|(_, worker)| worker.writes) {
            unordered(lower, orders, body, &directory, &group);
        }
    }
}

fn is_loop(lower: &Lower<'_>, step: StepId) -> bool {
    lower
        .info(step)
        .kind
        .is_some_and(|kind| kind.name == "for_each")
}

/// Whether a body's steps share the directory of a list around it.
fn in_list(lower: &Lower<'_>, body: BodyId) -> bool {
    let mut at = body;
    loop {
        let Some(mut step) = lower.scope_of(at) else {
            return false;
        };
        loop {
            match lower.info(step).placed {
                crate::lang::lower::Placed::Hidden { host } => step = host,
                crate::lang::lower::Placed::Body { body: around, .. } => {
                    at = around;
                    break;
                }
            }
        }
        if lower.bodies[at.0 as usize].list {
            return true;
        }
    }
}

/// The `run` leaves of a step that work in a directory which others may use, too.
fn workers(lower: &Lower<'_>, step: StepId, shared: bool) -> Vec<Worker> {
    let Some(def) = lower.def(step) else {
        return Vec::new();
    };
    let inside = |body: BodyId| -> Vec<Worker> {
        // A list inside has a directory of its own.
        let shared = shared && !lower.bodies[body.0 as usize].list;
        let steps = &lower.bodies[body.0 as usize].steps;
        steps
            .iter()
            .flat_map(|step| workers(lower, *step, shared))
            .collect()
    };
    match &def.kind {
        Kind::Run(program) => {
            let directory = match &program.cwd {
                Some(cwd) => cwd.literal().map(str::to_owned),
                None => shared.then(String::new),
            };
            let writes = matches!(def.leaf.effect, Effect::Write | Effect::Once);
            directory
                .map(|directory| Worker {
                    directory,
                    writes,
                    many: false,
                    step,
                })
                .into_iter()
                .collect()
        }
        Kind::Steps(body) | Kind::Race(body) => inside(*body),
        Kind::Repeat(spec) => inside(spec.body),
        Kind::ForEach(spec) => {
            let many = spec.parallel != Some(1);
            inside(spec.body)
                .into_iter()
                .map(|worker| Worker {
                    many: many || worker.many,
                    ..worker
                })
                .collect()
        }
        Kind::Switch(spec) => {
            let cases = spec
                .cases
                .iter()
                .map(|(_, case)| *case)
                .chain(spec.otherwise);
            cases
                .flat_map(|case| workers(lower, case, shared))
                .collect()
        }
        Kind::Model(_)
        | Kind::Tool(_)
        | Kind::Human(_)
        | Kind::Wait(_)
        | Kind::Set(_)
        | Kind::Return(_)
        | Kind::Fail(_)
        | Kind::Flow(_) => Vec::new(),
    }
}

/// Reports the first two of a group that no path of edges orders, if one of them writes.
fn unordered(
    lower: &mut Lower<'_>,
    orders: &Orders,
    body: BodyId,
    directory: &str,
    group: &[(u32, Worker)],
) {
    let steps = lower.bodies[body.0 as usize].steps.clone();
    let members: IndexMap<u32, Worker> = group.iter().rev().cloned().collect();
    // The member of the group that comes last in the order among those that a step waits for.
    let mut last_before: Vec<Option<usize>> = vec![None; steps.len()];
    let mut rank: IndexMap<u32, usize> = IndexMap::new();
    for position in orders.of(body) {
        let before = lower.def(steps[*position as usize]).and_then(|def| {
            let member = |on: &u32| rank.get(on).copied().max(last_before[*on as usize]);
            def.deps.iter().filter_map(|dep| member(&dep.on)).max()
        });
        last_before[*position as usize] = before;
        let Some(worker) = members.get(position) else {
            continue;
        };
        let own = rank.len();
        rank.insert(*position, own);
        if own == 0 || before == Some(own - 1) {
            continue;
        }
        let (other, _) = rank
            .get_index(own - 1)
            .expect("the group's earlier members are ranked");
        let other = members[other].clone();
        if worker.writes || other.writes {
            report_workspace(lower, directory, other.step, worker.step);
            return;
        }
    }
}

fn place_name(directory: &str) -> String {
    if directory.is_empty() {
        "the directory of the list around them".to_owned()
    } else {
        format!("`{directory}`")
    }
}

fn report_workspace(lower: &mut Lower<'_>, directory: &str, first: StepId, second: StepId) {
    let (one, two) = (
        lower.info(first).name.clone(),
        lower.info(second).name.clone(),
    );
    let (first, second) = (lower.info(first).name_span, lower.info(second).name_span);
    let message = format!(
        "`{one}` and `{two}` run at the same time in {}",
        place_name(directory)
    );
    let problem = Problem::new(codes::WORKSPACE, second, message).related(first, "the other one");
    lower.problem(problem.hint(format!(
        "order them, `after: [{one}]`, make the group a list, or say `effect: read` on those that only read"
    )));
}

fn report_loop(lower: &mut Lower<'_>, directory: &str, step: StepId) {
    let (name, span) = (lower.info(step).name.clone(), lower.info(step).name_span);
    let message = format!(
        "the items of a `for_each` run `{name}` at the same time in {}",
        place_name(directory)
    );
    let problem = Problem::new(codes::WORKSPACE, span, message);
    lower.problem(problem.hint(
        "write the item's steps as a list, which gives each item a directory of its own, or say `parallel: 1`, or `effect: read`",
    ));
}
