//! Budgets in dollars: they can be kept where the price of every model that they cover is known.

use super::effects::span_of;
use crate::graph::{Budget, Kind, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::lower::{Lower, Owner, Placed};

/// Reports models without a price under a budget of money. Says nothing where prices are not known at all.
pub(super) fn check(lower: &mut Lower<'_>) {
    let Some(catalog) = &lower.origin.catalog else {
        return;
    };
    let Some(priced) = &catalog.priced else {
        return;
    };
    let metered = metered_flows(lower);
    for index in 0..lower.steps.len() {
        let step = StepId(index as u32);
        let Some(Kind::Model(model)) = lower.def(step).map(|def| &def.kind) else {
            continue;
        };
        if priced.has(&model.name, catalog.models.as_deref()) || !is_metered(lower, &metered, step)
        {
            continue;
        }
        let message = format!(
            "a budget in dollars cannot be kept here: the price of model `{}` is not known",
            model.name
        );
        let problem = Problem::new(codes::UNPRICED, span_of(lower, step, "model"), message);
        let hint = hint(&model.name);
        lower.problem(problem.hint(hint));
    }
}

fn hint(name: &str) -> String {
    let (provider, model) = name.split_once('/').unwrap_or(("PROVIDER", "MODEL"));
    format!(
        "say it in ravel.toml, `[providers.{provider}.models.\"{model}\".prices]`, with 0 for a model that costs nothing (beside \
         RAVEL_MODEL_URL: RAVEL_MODEL_PRICE=0); or limit `tokens` instead of `usd`"
    )
}

fn is_money(budget: Option<Budget>) -> bool {
    budget.is_some_and(|budget| budget.microusd.is_some())
}

/// The flows that run under a budget of money, by themselves or by a call.
fn metered_flows(lower: &Lower<'_>) -> Vec<bool> {
    let calls: Vec<(StepId, usize)> = (0..lower.steps.len())
        .filter_map(|index| {
            let step = StepId(index as u32);
            match &lower.def(step)?.kind {
                Kind::Flow(call) => Some((step, call.flow.0 as usize)),
                _ => None,
            }
        })
        .collect();
    let mut metered: Vec<bool> = (0..lower.flows.len())
        .map(|flow| {
            // A call that has a budget of its own has it instead of the flow's.
            let called = calls.iter().any(|(_, callee)| *callee == flow);
            let as_written = calls.iter().any(|(step, callee)| {
                *callee == flow && lower.def(*step).is_some_and(|def| def.budget.is_none())
            });
            is_money(lower.flows[flow].budget) && (flow == 0 || !called || as_written)
        })
        .collect();
    loop {
        let reached = calls
            .iter()
            .find(|(step, callee)| !metered[*callee] && is_metered(lower, &metered, *step));
        let Some((_, callee)) = reached else {
            return metered;
        };
        metered[*callee] = true;
    }
}

/// Whether a budget of money is around a step, or is its own.
fn is_metered(lower: &Lower<'_>, metered: &[bool], step: StepId) -> bool {
    let mut at = step;
    loop {
        if lower.def(at).is_some_and(|def| is_money(def.budget)) {
            return true;
        }
        at = match lower.info(at).placed {
            // What is undone is undone whatever it costs.
            Placed::Hidden { host }
                if lower
                    .def(host)
                    .is_some_and(|def| def.compensate == Some(at)) =>
            {
                return false;
            }
            Placed::Hidden { host } => host,
            Placed::Body { body, .. } => match lower.body_info[body.0 as usize].owner {
                Owner::Step(step) => step,
                Owner::Flow(flow) => return metered[flow],
            },
        };
    }
}
