//! Edges between siblings, from what their expressions read; cycles among them.

use std::cmp::Reverse;

use indexmap::IndexMap;

use crate::graph::{BodyId, Dep, DepKind, Items, Join, Kind, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::lower::{Edge, Lower, Placed};
use crate::lang::source::Span;

/// Positions of each body in an order in which every step comes after those it waits for.
pub(super) struct Orders(Vec<Vec<u32>>);

impl Orders {
    pub(super) fn of(&self, body: BodyId) -> &[u32] {
        &self.0[body.0 as usize]
    }
}

/// Makes the edges of every body, reports cycles, and orders the steps.
pub(super) fn build(lower: &mut Lower<'_>) -> Orders {
    let mut orders = Vec::with_capacity(lower.bodies.len());
    for index in 0..lower.bodies.len() {
        orders.push(body(lower, BodyId(index as u32)));
    }
    for index in 0..lower.steps.len() {
        outer(lower, StepId(index as u32));
    }
    Orders(orders)
}

/// The edges of a step, one a sibling, the strongest kind first.
fn merged(lower: &Lower<'_>, step: StepId) -> Vec<Edge> {
    let info = lower.info(step);
    let mut merged = info.edges.clone();
    // The items of a stream are taken from the value of its producer.
    merged.extend(info.stream.map(|stream| Edge {
        how: DepKind::Value,
        ..stream
    }));
    merged.sort_by_key(|edge| (edge.on, Reverse(edge.how)));
    merged.dedup_by_key(|edge| edge.on);
    merged
}

/// Whether a step may take items of its stream before the producer has succeeded: not when it reads the producer in
/// another way, too, or comes after it.
fn takes_early(lower: &Lower<'_>, step: StepId) -> bool {
    let info = lower.info(step);
    info.stream
        .is_some_and(|stream| info.edges.iter().all(|edge| edge.on != stream.on))
}

fn body(lower: &mut Lower<'_>, id: BodyId) -> Vec<u32> {
    let steps = lower.bodies[id.0 as usize].steps.clone();
    let mut waits: Vec<Vec<(u32, Span)>> = Vec::with_capacity(steps.len());
    let mut dependents: Vec<Vec<u32>> = vec![Vec::new(); steps.len()];
    for (position, step) in steps.iter().enumerate() {
        let merged = merged(lower, *step);
        let on: Vec<(u32, Span)> = merged.iter().map(|edge| (edge.on, edge.span)).collect();
        for (other, _) in &on {
            dependents[*other as usize].push(position as u32);
        }
        waits.push(on);
        let early = takes_early(lower, *step);
        if let Some(definition) = &mut lower.steps[step.0 as usize] {
            if let Kind::ForEach(spec) = &mut definition.kind
                && let Items::Stream { ahead, .. } = &mut spec.items
            {
                *ahead = early && definition.join == Join::All;
            }
            definition.deps = merged
                .into_iter()
                .map(|edge| Dep {
                    on: edge.on,
                    how: edge.how,
                })
                .collect();
        }
    }
    lower.bodies[id.0 as usize].dependents = dependents;
    sort(lower, &steps, &waits)
}

/// Kahn's algorithm; what it cannot order holds a cycle, which is reported and cut.
fn sort(lower: &mut Lower<'_>, steps: &[StepId], waits: &[Vec<(u32, Span)>]) -> Vec<u32> {
    let mut missing: Vec<usize> = waits.iter().map(Vec::len).collect();
    let mut after: Vec<Vec<u32>> = vec![Vec::new(); steps.len()];
    for (position, on) in waits.iter().enumerate() {
        for (other, _) in on {
            after[*other as usize].push(position as u32);
        }
    }
    let mut order = Vec::with_capacity(steps.len());
    let mut done = vec![false; steps.len()];
    let mut ready: std::collections::VecDeque<u32> = (0..steps.len() as u32)
        .filter(|position| missing[*position as usize] == 0)
        .collect();
    let mut from = 0;
    loop {
        while let Some(position) = ready.pop_front() {
            if std::mem::replace(&mut done[position as usize], true) {
                continue;
            }
            order.push(position);
            for next in &after[position as usize] {
                missing[*next as usize] = missing[*next as usize].saturating_sub(1);
                if missing[*next as usize] == 0 {
                    ready.push_back(*next);
                }
            }
        }
        while from < done.len() && done[from] {
            from += 1;
        }
        if from == done.len() {
            return order;
        }
        let cycle = find_cycle(from as u32, waits, &done);
        report_cycle(lower, steps, &cycle);
        ready.extend(cycle.iter().map(|(position, _)| *position));
    }
}

/// Follows what is not done from a position until a position comes again; each with the place of its wait for the next.
fn find_cycle(from: u32, waits: &[Vec<(u32, Span)>], done: &[bool]) -> Vec<(u32, Span)> {
    let mut path: Vec<(u32, Span)> = Vec::new();
    let mut seen: IndexMap<u32, usize> = IndexMap::new();
    let mut at = from;
    loop {
        if let Some(start) = seen.get(&at) {
            return path.split_off(*start);
        }
        let next = waits[at as usize]
            .iter()
            .find(|(other, _)| !done[*other as usize]);
        // What Kahn leaves over always waits for something that is left over.
        let Some((next, span)) = next else {
            return path;
        };
        seen.insert(at, path.len());
        path.push((at, *span));
        at = *next;
    }
}

fn report_cycle(lower: &mut Lower<'_>, steps: &[StepId], cycle: &[(u32, Span)]) {
    let name = |position: u32| lower.info(steps[position as usize]).name.clone();
    let Some((first, span)) = cycle.first() else {
        return;
    };
    let mut names: Vec<String> = cycle.iter().map(|(position, _)| name(*position)).collect();
    names.push(name(*first));
    const SHOWN_MAX: usize = 12;
    let path = if names.len() > SHOWN_MAX {
        format!(
            "{} -> … -> {}",
            names[..SHOWN_MAX - 1].join(" -> "),
            name(*first)
        )
    } else {
        names.join(" -> ")
    };
    let mut problem = Problem::new(
        codes::CYCLE,
        *span,
        format!("these steps wait for each other: {path}"),
    );
    for ((position, span), next) in cycle
        .iter()
        .zip(names.iter().skip(1))
        .skip(1)
        .take(SHOWN_MAX)
    {
        problem = problem.related(*span, format!("`{}` waits for `{next}`", name(*position)));
    }
    problem = problem.label(format!("`{}` waits for `{}`", names[0], names[1]));
    lower.problem(
        problem
            .hint("a loop is written with `repeat`; otherwise let one of them not read the other"),
    );
}

/// What a step reads beyond its siblings.
fn outer(lower: &mut Lower<'_>, step: StepId) {
    let info = lower.info(step);
    let own = match info.placed {
        Placed::Body { body, .. } => Some(body),
        Placed::Hidden { .. } => None,
    };
    let mut names: Vec<std::sync::Arc<str>> = Vec::new();
    for read in info.reads.iter().filter(|read| !read.meta) {
        let target = lower.info(read.target);
        let sibling = match target.placed {
            Placed::Body { body, .. } => Some(body) == own,
            Placed::Hidden { .. } => false,
        };
        if !sibling && !names.iter().any(|name| **name == *target.name) {
            names.push(target.name.as_str().into());
        }
    }
    if let Some(definition) = &mut lower.steps[step.0 as usize] {
        definition.outer = names;
    }
}
