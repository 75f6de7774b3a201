//! Lines for logs and pipes: one for each step that settles.

use crate::output::{Paint, one_line, units};
use crate::view::RunView;

/// One line about a step that settled: glyph, path, state, kind, attempts, time, tokens, cost, why.
pub(crate) fn settled_line(view: &RunView, index: usize, paint: Paint, unicode: bool) -> String {
    let step = &view.steps[index];
    let mut facts = Vec::new();
    if step.attempts > 1 {
        facts.push(format!("{} attempts", step.attempts));
    }
    facts.extend(
        step.settled
            .and_then(|settled| view.elapsed(index, settled))
            .map(units::duration),
    );
    let (tokens, microusd) = view.usage(index);
    if tokens > 0 {
        facts.push(format!("{} tokens", units::count(tokens)));
    }
    if microusd > 0 {
        facts.push(units::money(microusd));
    }
    let glyph = if unicode {
        step.state.glyph()
    } else {
        step.state.ascii()
    };
    let path = if step.path.is_empty() {
        view.flow.as_str()
    } else {
        step.path.as_str()
    };
    let note = step
        .note
        .as_ref()
        .map(|note| format!("  {}", one_line(note)))
        .unwrap_or_default();
    format!(
        "{} {path}  {} {}{note}",
        paint.tone(step.state.tone(), glyph),
        step.state.name(),
        paint.dim(&format!("({})", facts.join(", ")))
    )
    .replace(" ()", "")
}
