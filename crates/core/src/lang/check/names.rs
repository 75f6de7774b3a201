//! Names that nothing has and that are fields of something in sight: `n` for `input.n` or `count.n`.

use super::types::Typer;
use crate::graph::StepId;
use crate::lang::lower::{Bind, Found, Lower, Owner, Placed, Unknown};
use crate::types::{Field, Type};

/// Owners of a field that a hint names.
const OWNERS_SHOWN_MAX: usize = 3;

/// Says where the names live that were written bare.
pub(super) fn check(typer: &mut Typer<'_, '_>) {
    for unknown in std::mem::take(&mut typer.lower.unknown) {
        if let Some(hint) = hint(typer, &unknown) {
            typer.lower.problems[unknown.problem].hint = Some(hint);
        }
    }
}

fn hint(typer: &Typer<'_, '_>, unknown: &Unknown) -> Option<String> {
    let around = around(typer.lower, unknown.cx.owner);
    let mut owners: Vec<String> = Vec::new();
    for name in typer.lower.in_sight(unknown.cx.frame) {
        let Some(ty) = type_of(typer, unknown, &name, &around) else {
            continue;
        };
        if let Field::Found(_) = ty.field(&unknown.name) {
            owners.push(format!("`{name}.{}`", unknown.name));
        }
    }
    // The input comes first: it is what most bare names mean.
    let input = format!("`input.{}`", unknown.name);
    owners.sort_by_key(|owner| *owner != input);
    match owners.as_slice() {
        [] => None,
        [only] => Some(format!("did you mean {only}?")),
        several => Some(format!(
            "a field is read by its owner: {}",
            several[..several.len().min(OWNERS_SHOWN_MAX)].join(" or ")
        )),
    }
}

fn type_of(
    typer: &Typer<'_, '_>,
    unknown: &Unknown,
    name: &str,
    around: &[StepId],
) -> Option<Type> {
    match typer.lower.find(unknown.cx.frame, name)? {
        Found::Step { step, .. } => (!around.contains(&step)).then(|| typer.value_of(step)),
        Found::Input(flow) => Some(typer.lower.flows[flow].input.clone()),
        Found::Bind(Bind::Item(step)) => typer.items.get(&step).cloned(),
        Found::Bind(Bind::Carry(step)) => typer.carries.get(&step).cloned(),
        Found::Bind(Bind::Output(step)) => typer.outputs.get(&step).cloned(),
        Found::Bind(Bind::Loop(step)) => Some(typer.rounds_of(step)),
        Found::Bind(Bind::Error) => Some(typer.common.error.clone()),
        Found::Bind(Bind::Rounds(_) | Bind::Last | Bind::Args)
        | Found::Run
        | Found::Steps
        | Found::Secrets => None,
    }
}

/// A step and all that hold it: their values cannot be read in them.
fn around(lower: &Lower<'_>, owner: Owner) -> Vec<StepId> {
    let mut steps = Vec::new();
    let mut at = owner;
    while let Owner::Step(step) = at {
        steps.push(step);
        at = match lower.info(step).placed {
            Placed::Body { body, .. } => lower.body_info[body.0 as usize].owner,
            Placed::Hidden { host } => Owner::Step(host),
        };
    }
    steps
}
