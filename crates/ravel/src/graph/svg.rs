//! SVG that stands alone: no script, no font of its own, light and dark by the reader's preference.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use super::layout::{Metrics, Placed, Route, lay_out};
use super::model::{Diagram, How, Item};
use crate::view::State;

const CHARACTER_WIDTH: i32 = 8;
const MARGIN: i32 = 16;
const HEADING: i32 = 44;

const METRICS: Metrics = Metrics {
    node_gap: 18,
    layer_gap: 40,
    track: 0,
    padding: 16,
    title: 34,
    measure,
};

fn measure(item: &Item) -> (i32, i32) {
    let widest = item
        .lines(true)
        .iter()
        .map(|line| line.width())
        .max()
        .unwrap_or(0);
    (
        i32::try_from(widest).unwrap_or(i32::MAX / 4096) * CHARACTER_WIDTH + 20,
        46,
    )
}

const STYLE: &str = "\
svg{font:12px ui-monospace,Menlo,Consolas,monospace;background:#fff;color:#222}\
.box{fill:#fff;stroke:#888;stroke-width:1.2}.frame{fill:#0000000a;stroke:#aaa;stroke-dasharray:4 3}\
text{fill:currentColor}.about{opacity:.65;font-size:11px}.title{font-size:16px;font-weight:bold}\
.edge{fill:none;stroke:#888;stroke-width:1.3}.after{stroke-dasharray:6 3}.weak{stroke-dasharray:2 3}\
.pending,.skipped{stroke:#bbb}.running{stroke:#09c;stroke-width:2}.waiting{stroke:#e90;stroke-width:2}\
.succeeded{stroke:#292;stroke-width:2}.failed{stroke:#d33;stroke-width:2.5}.cancelled{stroke:#939;stroke-width:2}\
.critical{stroke-width:3.5}.edge.critical{stroke:#d33;stroke-width:2.5}\
@media(prefers-color-scheme:dark){svg{background:#161616;color:#ddd}.box{fill:#222}.frame{fill:#ffffff0d}}";

/// The picture as SVG.
pub(crate) fn draw(diagram: &Diagram) -> String {
    let layout = lay_out(&diagram.body, &METRICS);
    let heading = diagram
        .title
        .width()
        .max(diagram.subtitle.as_ref().map_or(0, |text| text.width()));
    let heading = i32::try_from(heading).unwrap_or(0) * (CHARACTER_WIDTH + 2);
    let (width, height) = (
        layout.width.max(heading) + MARGIN * 2,
        layout.height + MARGIN * 2 + HEADING,
    );
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n"
    );
    let _ = writeln!(text, "<title>{}</title>", escaped(&diagram.title));
    let _ = writeln!(text, "<style>{STYLE}</style>");
    text.push_str(
        "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#888\"/></marker></defs>\n",
    );
    let _ = writeln!(
        text,
        "<text class=\"title\" x=\"{MARGIN}\" y=\"28\">{}</text>",
        escaped(&diagram.title)
    );
    if let Some(subtitle) = &diagram.subtitle {
        let _ = writeln!(
            text,
            "<text class=\"about\" x=\"{MARGIN}\" y=\"46\">{}</text>",
            escaped(subtitle)
        );
    }
    let _ = writeln!(
        text,
        "<g transform=\"translate({MARGIN} {})\">",
        MARGIN + HEADING
    );
    for placed in &layout.boxes {
        shape(&mut text, placed);
    }
    for route in &layout.routes {
        curve(&mut text, route);
    }
    text.push_str("</g>\n</svg>\n");
    text
}

fn shape(text: &mut String, placed: &Placed<'_>) {
    let item = placed.item;
    let Placed {
        x,
        y,
        width,
        height,
        ..
    } = *placed;
    let mut class = String::from(if placed.frame { "box frame" } else { "box" });
    if let Some(state) = item.state.filter(|_| placed.part.is_none()) {
        class.push(' ');
        class.push_str(State::name(state));
    }
    if item.critical && placed.part.is_none() {
        class.push_str(" critical");
    }
    let [name, about] = item.lines(true);
    let _ = write!(
        text,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>",
        escaped(&item.path)
    );
    if let Some(part) = placed.part {
        let _ = write!(
            text,
            "<text class=\"about\" x=\"{}\" y=\"{}\">{}</text>",
            x + 10,
            y + 18,
            escaped(part)
        );
    } else if placed.frame {
        let _ = write!(
            text,
            "<text x=\"{}\" y=\"{}\">{} <tspan class=\"about\">{}</tspan></text>",
            x + 10,
            y + 20,
            escaped(&name),
            escaped(&about)
        );
    } else {
        let _ = write!(
            text,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            x + 10,
            y + 20,
            escaped(&name)
        );
        let _ = write!(
            text,
            "<text class=\"about\" x=\"{}\" y=\"{}\">{}</text>",
            x + 10,
            y + 36,
            escaped(&about)
        );
    }
    text.push_str("</g>\n");
}

fn curve(text: &mut String, route: &Route) {
    let Some((first, rest)) = route.points.split_first() else {
        return;
    };
    let mut path = format!("M{} {}", first.0, first.1);
    let mut from = *first;
    for to in rest {
        let middle = i32::midpoint(from.1, to.1);
        if from.0 == to.0 {
            let _ = write!(path, " V{}", to.1);
        } else {
            let _ = write!(
                path,
                " C{} {middle} {} {middle} {} {}",
                from.0, to.0, to.0, to.1
            );
        }
        from = *to;
    }
    let how = match route.edge.how {
        How::Value => "",
        How::After => " after",
        How::Weak => " weak",
    };
    let critical = if route.edge.critical { " critical" } else { "" };
    let _ = writeln!(
        text,
        "<path class=\"edge{how}{critical}\" d=\"{path}\" marker-end=\"url(#arrow)\"/>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
