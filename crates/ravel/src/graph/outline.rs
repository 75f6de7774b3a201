//! The outline: one line a step in order of its layers, scopes indented, with what each waits for. Fits any width.

use super::model::{Body, Diagram, How, Item};
use super::{Canvas, terminal};
use crate::output::cut;

/// The picture as an outline.
pub(super) fn draw(diagram: &Diagram, canvas: Canvas) -> String {
    let mut lines = terminal::heading(diagram, canvas);
    body(&mut lines, &diagram.body, 0, canvas);
    lines.join("\n") + "\n"
}

fn body(lines: &mut Vec<String>, body_: &Body, depth: usize, canvas: Canvas) {
    for index in in_order(body_) {
        let item = &body_.items[index];
        let mut needs: Vec<String> = body_
            .edges
            .iter()
            .filter(|edge| edge.to == index)
            .map(|edge| match edge.how {
                How::Value => body_.items[edge.from].name.clone(),
                How::After | How::Weak => format!("({})", body_.items[edge.from].name),
            })
            .collect();
        needs.sort();
        lines.push(line(item, &needs, depth, canvas));
        for part in &item.parts {
            let mut inner = depth + 1;
            if let Some(label) = part.label.as_ref().filter(|_| item.parts.len() > 1) {
                lines.push(format!(
                    "{}{}",
                    "  ".repeat(inner),
                    canvas.paint.dim(&format!("{label}:"))
                ));
                inner += 1;
            }
            body(lines, &part.body, inner, canvas);
        }
    }
}

fn line(item: &Item, needs: &[String], depth: usize, canvas: Canvas) -> String {
    const NEEDS_SHOWN_MAX: usize = 6;
    let [name, about] = item.lines(canvas.unicode);
    let mut rest = format!("  {about}");
    if !needs.is_empty() {
        let arrow = if canvas.unicode { "←" } else { "<-" };
        let shown = needs
            .iter()
            .take(NEEDS_SHOWN_MAX)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        rest.push_str(&format!("  {arrow} {shown}"));
        if needs.len() > NEEDS_SHOWN_MAX {
            rest.push_str(&format!(" and {} more", needs.len() - NEEDS_SHOWN_MAX));
        }
    }
    let indent = "  ".repeat(depth);
    let room = canvas
        .width
        .saturating_sub(indent.len() + unicode_width::UnicodeWidthStr::width(name.as_str()));
    let name = item.state.map_or_else(
        || name.clone(),
        |state| canvas.paint.tone(state.tone(), &name),
    );
    let name = if item.critical {
        canvas.paint.bold(&name)
    } else {
        name
    };
    format!("{indent}{name}{}", canvas.paint.dim(&cut(&rest, room)))
}

/// Positions in an order in which every item comes after what it waits for; otherwise as written.
fn in_order(body: &Body) -> Vec<usize> {
    let mut missing = vec![0_usize; body.items.len()];
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); body.items.len()];
    for edge in &body.edges {
        missing[edge.to] += 1;
        out[edge.from].push(edge.to);
    }
    let mut ready: std::collections::BTreeSet<usize> = (0..missing.len())
        .filter(|index| missing[*index] == 0)
        .collect();
    let mut order = Vec::with_capacity(missing.len());
    while let Some(index) = ready.pop_first() {
        order.push(index);
        for next in &out[index] {
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.insert(*next);
            }
        }
    }
    let placed: std::collections::BTreeSet<usize> = order.iter().copied().collect();
    order.extend((0..body.items.len()).filter(|index| !placed.contains(index)));
    order
}
