//! What may be repeated: retries, repairs, checks and caches against the effects of leaves.

use crate::effect::{Effect, ErrorClass};
use crate::graph::{BodyId, Gate, Kind, OnUncertain, StepDef, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::lower::Lower;
use crate::lang::source::Span;
use crate::types::Type;

/// Classes after which nobody knows whether a `once` happened.
pub(super) const UNCERTAIN: &[ErrorClass] = &[
    ErrorClass::Timeout,
    ErrorClass::Deadline,
    ErrorClass::Crashed,
    ErrorClass::Uncertain,
];

/// Checks every step's policies.
pub(super) fn check(lower: &mut Lower<'_>) {
    let mut once = FirstLeaf::new(lower, |def| def.leaf.effect == Effect::Once);
    for index in 0..lower.steps.len() {
        let step = StepId(index as u32);
        leaf(lower, step);
        repair(lower, step, &mut once);
        check_leaf(lower, step);
        raw_shell(lower, step);
    }
}

pub(super) fn span_of(lower: &Lower<'_>, step: StepId, key: &str) -> Span {
    let info = lower.info(step);
    info.span(key).unwrap_or(info.name_span)
}

fn leaf(lower: &mut Lower<'_>, step: StepId) {
    let Some(def) = lower.def(step) else { return };
    if !def.kind.is_leaf() {
        return;
    }
    let inherited = lower.info(step).inherited.contains(&"on_uncertain");
    let (effect, cached) = (def.leaf.effect, def.leaf.cache.is_some());
    let blind = matches!(def.leaf.on_uncertain, OnUncertain::Retry);
    let decided = !matches!(
        def.leaf.on_uncertain,
        OnUncertain::Ask { .. } | OnUncertain::Fail
    );
    let errors = def.leaf.retry.errors.clone().unwrap_or_default();
    let written = lower.info(step).span("on_uncertain").is_some();
    let name = lower.info(step).name.clone();
    if effect != Effect::Once {
        if written && !inherited {
            let span = span_of(lower, step, "on_uncertain");
            let message = format!(
                "`on_uncertain` has no effect: step `{name}` is `{}`, not `once`",
                effect_name(effect)
            );
            lower.problem(Problem::new(codes::POINTLESS, span, message));
        }
    } else if blind && inherited {
        let span = lower.info(step).name_span;
        let message =
            format!("step `{name}` is `once`, and `on_uncertain: retry` comes from `defaults`");
        let problem = Problem::new(codes::BLIND_RETRY, span, message);
        lower.problem(
            problem
                .hint("giving up at-most-once is said on the step itself: `on_uncertain: retry`"),
        );
    } else if let Some(class) = errors.iter().find(|class| UNCERTAIN.contains(class))
        && !decided
    {
        let span = span_of(lower, step, "retry");
        let message = format!(
            "step `{name}` is `once`: after `{class}` it may have happened, and is not tried again"
        );
        let problem = Problem::new(codes::BLIND_RETRY, span, message);
        lower.problem(problem.hint(
            "leave the class out, ask the world by `on_uncertain: { check: … }`, or say `on_uncertain: retry` if twice does no harm",
        ));
    }
    if cached && matches!(effect, Effect::Write | Effect::Once) {
        let span = span_of(lower, step, "cache");
        let message = format!(
            "step `{name}` is `{}`: only results of `pure` and `read` are kept",
            effect_name(effect)
        );
        lower.problem(
            Problem::new(codes::WRONG_PLACE, span, message)
                .hint("leave `cache` out, or say the true `effect`"),
        );
    }
}

pub(super) fn effect_name(effect: Effect) -> &'static str {
    match effect {
        Effect::Pure => "pure",
        Effect::Read => "read",
        Effect::Write => "write",
        Effect::Once => "once",
    }
}

/// The first leaf of a body or step that is of a kind; bodies are looked at once each.
pub(super) struct FirstLeaf {
    found: Vec<Option<Option<StepId>>>,
    wanted: fn(&StepDef) -> bool,
}

impl FirstLeaf {
    pub(super) fn new(lower: &Lower<'_>, wanted: fn(&StepDef) -> bool) -> Self {
        let found = vec![None; lower.bodies.len()];
        Self { found, wanted }
    }

    fn in_body(&mut self, lower: &Lower<'_>, body: BodyId) -> Option<StepId> {
        if let Some(known) = self.found[body.0 as usize] {
            return known;
        }
        // A flow that calls itself holds, through that call, no more than it holds anyway.
        self.found[body.0 as usize] = Some(None);
        let steps = lower.bodies[body.0 as usize].steps.clone();
        let found = steps.into_iter().find_map(|step| self.in_step(lower, step));
        self.found[body.0 as usize] = Some(found);
        found
    }

    pub(super) fn in_step(&mut self, lower: &Lower<'_>, step: StepId) -> Option<StepId> {
        let def = lower.def(step)?;
        match &def.kind {
            Kind::Model(_)
            | Kind::Tool(_)
            | Kind::Run(_)
            | Kind::Human(_)
            | Kind::Wait(_)
            | Kind::Set(_)
            | Kind::Return(_)
            | Kind::Fail(_) => (self.wanted)(def).then_some(step),
            Kind::Steps(body) | Kind::Race(body) => self.in_body(lower, *body),
            Kind::ForEach(spec) => self.in_body(lower, spec.body),
            Kind::Repeat(spec) => self.in_body(lower, spec.body),
            Kind::Switch(spec) => {
                let cases = spec
                    .cases
                    .iter()
                    .map(|(_, case)| *case)
                    .chain(spec.otherwise);
                cases.into_iter().find_map(|case| self.in_step(lower, case))
            }
            Kind::Flow(call) => {
                let body = lower.flows[call.flow.0 as usize].body?;
                self.in_body(lower, body)
            }
        }
    }
}

fn repair(lower: &mut Lower<'_>, step: StepId, once: &mut FirstLeaf) {
    let Some(def) = lower.def(step) else { return };
    if def.repair == 0 {
        return;
    }
    let span = span_of(lower, step, "repair");
    if def.gates.is_empty() && def.returns.is_none() {
        let problem = Problem::new(
            codes::POINTLESS,
            span,
            "`repair` has no effect without `gates` or `returns`",
        );
        lower.problem(problem);
        return;
    }
    let leaf = def.kind.is_leaf();
    let Some(culprit) = once.in_step(lower, step) else {
        return;
    };
    let (name, inner) = (
        lower.info(step).name.clone(),
        lower.info(culprit).name.clone(),
    );
    let at = lower.info(culprit).name_span;
    let problem = if leaf {
        let message = format!("step `{name}` is `once`, so a failed gate cannot make it run again");
        Problem::new(codes::REPAIR_ONCE, span, message)
    } else {
        let message = format!(
            "`{name}` cannot be repaired: its step `{inner}` is `once` and must not run again"
        );
        Problem::new(codes::REPAIR_ONCE, span, message).related(at, "a `once` step")
    };
    lower.problem(problem.hint(format!(
        "say `effect: read` or `pure` on `{inner}` if running it again does no harm, or move it out of what is repaired"
    )));
}

/// A `check` looks and says `{happened, output}`; a judge and a gate look, too.
fn check_leaf(lower: &mut Lower<'_>, step: StepId) {
    let Some(def) = lower.def(step) else { return };
    let OnUncertain::Check(check) = def.leaf.on_uncertain else {
        return;
    };
    let gates: Vec<StepId> = def
        .gates
        .iter()
        .filter_map(|gate| match gate {
            Gate::Run(step) | Gate::Judge(step) => Some(*step),
            Gate::Expr(_) | Gate::Schema(_) => None,
        })
        .collect();
    debug_assert!(!gates.contains(&check), "a check is no gate");
    let Some(leaf) = lower.def(check) else { return };
    if !leaf.kind.is_leaf() {
        return;
    }
    if matches!(leaf.leaf.effect, Effect::Write | Effect::Once) {
        let span = lower.info(check).name_span;
        let message = format!(
            "a `check` looks at the world, and this one is `{}`",
            effect_name(leaf.leaf.effect)
        );
        lower.problem(
            Problem::new(codes::CHECK_EFFECT, span, message)
                .hint("say `effect: read` if it only looks"),
        );
    }
    let wanted = Type::fields([("happened", Type::boolean(), true)]).open();
    if let Some(returns) = lower.info(check).declared.clone()
        && returns.fits(&wanted) == crate::types::Fit::No
    {
        let span = span_of(lower, check, "returns");
        let message =
            "a `check` returns `{ happened: boolean }`, and `output` if it knows the value";
        lower.problem(Problem::new(codes::MISFIT, span, message));
    }
}

/// `raw_shell` on what a step with the label `untrusted` gave, or in such a step.
fn raw_shell(lower: &mut Lower<'_>, step: StepId) {
    for site in lower.info(step).sites.clone() {
        let raw: Vec<(Vec<String>, Span)> = lower.sites[site as usize]
            .raw
            .iter()
            .map(|(shape, span)| (roots(shape), *span))
            .collect();
        let frame = lower.sites[site as usize].cx.frame;
        for (names, span) in raw {
            let culprit = names.iter().find_map(|name| match lower.find(frame, name) {
                Some(crate::lang::lower::Found::Step { step, .. }) => {
                    untrusted(lower, step).then(|| name.clone())
                }
                Some(_) | None => None,
            });
            let culprit =
                culprit.or_else(|| untrusted(lower, step).then(|| lower.info(step).name.clone()));
            if let Some(name) = culprit {
                let message = format!(
                    "`raw_shell` lets the words of `{name}`, which is labelled `untrusted`, run as shell"
                );
                let problem = Problem::new(codes::RAW_SHELL, span, message);
                lower.problem(problem.hint(
                    "leave `raw_shell` out: the value becomes one word; a list becomes words",
                ));
            }
        }
    }
}

fn untrusted(lower: &Lower<'_>, step: StepId) -> bool {
    lower
        .def(step)
        .is_some_and(|def| def.labels.iter().any(|label| &**label == "untrusted"))
}

/// Names that an expression reads.
fn roots(shape: &crate::expr::Shape) -> Vec<String> {
    use crate::expr::Form;
    match &shape.form {
        Form::Path(reference) => vec![reference.root.clone()],
        Form::Literal(_) | Form::Variable { .. } => Vec::new(),
        Form::Below { of, .. } | Form::Not(of) | Form::Defined { of, .. } | Form::Negate(of) => {
            roots(of)
        }
        Form::Compare { left, right, .. } | Form::Math { left, right, .. } => {
            [roots(left), roots(right)].concat()
        }
        Form::Default { value, other } => [roots(value), roots(other)].concat(),
        Form::If {
            test,
            then,
            otherwise,
        } => {
            let otherwise = otherwise
                .as_ref()
                .map(|shape| roots(shape))
                .unwrap_or_default();
            [roots(test), roots(then), otherwise].concat()
        }
        Form::Padded { of, .. } => roots(of),
        Form::Filter { input, args, .. } | Form::Test { input, args, .. } => {
            [roots(input), args.iter().flat_map(roots).collect()].concat()
        }
        Form::All(parts)
        | Form::Any(parts)
        | Form::FirstOf(parts)
        | Form::List(parts)
        | Form::Other(parts) => parts.iter().flat_map(roots).collect(),
        Form::Call { args, .. } => args.iter().flat_map(roots).collect(),
        Form::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| [roots(key), roots(value)].concat())
            .collect(),
    }
}
