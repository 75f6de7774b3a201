//! What is declared and not used.

use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::lower::Lower;
use crate::lang::source::Span;

/// Warns of inputs, types, signals, models and flows that nothing reads.
pub(super) fn check(lower: &mut Lower<'_>) {
    // When something could not be read, what it uses is not known.
    let broken = lower
        .problems
        .iter()
        .any(|problem| problem.code.severity() == crate::lang::Severity::Error);
    if broken {
        return;
    }
    let mut found: Vec<(Span, String)> = Vec::new();
    for id in 0..lower.flows.len() {
        let flow = &lower.flows[id];
        let inputs = flow
            .unread_inputs()
            .into_iter()
            .map(|(name, span)| (span, format!("no step reads the input `{name}`")));
        found.extend(inputs);
        let types = flow
            .types
            .unused()
            .into_iter()
            .map(|(name, span)| (span, format!("nothing uses the type `{name}`")));
        found.extend(types);
        let models = flow
            .unused_models()
            .into_iter()
            .map(|(name, span)| (span, format!("no step uses the model `{name}`")));
        found.extend(models);
        let flows = lower
            .unused_flows(id)
            .into_iter()
            .map(|(name, span)| (span, format!("no step calls the flow `{name}`")));
        found.extend(flows);
        let signals = lower
            .unused_signals(id)
            .into_iter()
            .map(|(name, span)| (span, format!("no step waits for the signal `{name}`")));
        found.extend(signals);
    }
    for (span, message) in found {
        lower.problem(Problem::new(codes::UNUSED, span, message).hint("remove it, or use it"));
    }
}
