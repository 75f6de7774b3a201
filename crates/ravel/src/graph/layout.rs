//! A small layered layout: longest-path layers, barycentre order, least-squares positions, nested bodies as boxes.
//!
//! Edges exist only between siblings, so each body is laid out alone and then treated as one box of its parent.
//! Units are whatever the metrics use: character cells or pixels.

use super::model::{Body, Edge, Item};
use super::order;

/// Sizes of things.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metrics {
    /// Between neighbours of a layer.
    pub(crate) node_gap: i32,
    /// Between two layers, before tracks.
    pub(crate) layer_gap: i32,
    /// Height of one horizontal track between two layers; 0: edges are drawn as curves and need none.
    pub(crate) track: i32,
    /// Between a frame and what is in it.
    pub(crate) padding: i32,
    /// Height of a frame's title.
    pub(crate) title: i32,
    /// Size of an item's own text box.
    pub(crate) measure: fn(&Item) -> (i32, i32),
}

/// Width of a bend of a long edge.
const BEND_WIDTH: i32 = 1;
/// Bends of one body; edges beyond are drawn straight.
const BENDS_MAX: usize = 20_000;

/// A placed item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Placed<'a> {
    pub(crate) item: &'a Item,
    /// Set for the frame of one part of an item that has several.
    pub(crate) part: Option<&'a str>,
    /// A frame around other boxes.
    pub(crate) frame: bool,
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

/// A placed edge: points from the bottom of its source to the top of its target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    pub(crate) edge: Edge,
    pub(crate) points: Vec<(i32, i32)>,
}

/// A finished layout.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layout<'a> {
    /// Frames before what is in them.
    pub(crate) boxes: Vec<Placed<'a>>,
    pub(crate) routes: Vec<Route>,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

impl Layout<'_> {
    fn shift(&mut self, x: i32, y: i32) {
        for placed in &mut self.boxes {
            placed.x += x;
            placed.y += y;
        }
        for point in self.routes.iter_mut().flat_map(|route| &mut route.points) {
            point.0 += x;
            point.1 += y;
        }
    }
}

/// A node of the layered graph: an item, or a bend of a long edge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vertex {
    pub(super) item: Option<usize>,
    pub(super) layer: usize,
    pub(super) width: i32,
    height: i32,
    /// Left edge.
    pub(super) x: i32,
}

impl Vertex {
    pub(super) const fn center(&self) -> i32 {
        self.x + self.width / 2
    }
}

/// The layered graph of one body.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) vertices: Vec<Vertex>,
    /// Segments between neighbouring layers (or straight ones when there are too many bends): from, to.
    pub(super) below: Vec<Vec<usize>>,
    pub(super) above: Vec<Vec<usize>>,
    /// Vertices of each layer, left to right.
    pub(super) rows: Vec<Vec<usize>>,
    /// The chain of vertices of each edge.
    chains: Vec<Vec<usize>>,
}

/// Lays a body out with its top left corner at the origin.
pub(crate) fn lay_out<'a>(body: &'a Body, metrics: &Metrics) -> Layout<'a> {
    let insides: Vec<Layout<'a>> = body
        .items
        .iter()
        .map(|item| inside(item, metrics))
        .collect();
    let sizes: Vec<(i32, i32)> = insides
        .iter()
        .map(|layout| (layout.width, layout.height))
        .collect();
    let mut layers = layer(body, &sizes);
    order::arrange(&mut layers);
    order::place(&mut layers, metrics.node_gap);
    assemble(body, layers, insides, metrics)
}

/// An item's own box, with the layouts of its parts in it.
fn inside<'a>(item: &'a Item, metrics: &Metrics) -> Layout<'a> {
    let (text_width, text_height) = (metrics.measure)(item);
    let several = item
        .parts
        .iter()
        .filter(|part| !part.body.items.is_empty())
        .count()
        > 1;
    let mut parts: Vec<Layout<'a>> = Vec::new();
    for part in item.parts.iter().filter(|part| !part.body.items.is_empty()) {
        let mut layout = lay_out(&part.body, metrics);
        if let Some(label) = part.label.as_deref().filter(|_| several) {
            let wide = i32::try_from(label.len()).unwrap_or(0) * metrics.track.max(1)
                + metrics.padding * 2;
            layout = frame(
                item,
                Some(label),
                layout,
                (wide, metrics.title),
                metrics.padding,
            );
        }
        parts.push(layout);
    }
    if parts.is_empty() {
        let placed = Placed {
            item,
            part: None,
            frame: false,
            x: 0,
            y: 0,
            width: text_width,
            height: text_height,
        };
        return Layout {
            boxes: vec![placed],
            routes: Vec::new(),
            width: text_width,
            height: text_height,
        };
    }
    let mut row = Layout::default();
    for mut part in parts {
        let x = if row.width == 0 {
            0
        } else {
            row.width + metrics.node_gap
        };
        part.shift(x, 0);
        row.width = x + part.width;
        row.height = row.height.max(part.height);
        row.boxes.append(&mut part.boxes);
        row.routes.append(&mut part.routes);
    }
    frame(
        item,
        None,
        row,
        (text_width, metrics.title),
        metrics.padding,
    )
}

fn frame<'a>(
    item: &'a Item,
    part: Option<&'a str>,
    mut inner: Layout<'a>,
    title: (i32, i32),
    padding: i32,
) -> Layout<'a> {
    let width = (inner.width + padding * 2).max(title.0);
    let height = inner.height + title.1 + padding;
    inner.shift((width - inner.width) / 2, title.1);
    inner.boxes.insert(
        0,
        Placed {
            item,
            part,
            frame: true,
            x: 0,
            y: 0,
            width,
            height,
        },
    );
    inner.width = width;
    inner.height = height;
    inner
}

/// Longest-path layers, and bends where an edge passes a layer.
fn layer(body: &Body, sizes: &[(i32, i32)]) -> Layers {
    let depth = depths(body);
    let mut layers = Layers::default();
    let rows = depth.iter().max().map_or(0, |deepest| deepest + 1);
    layers.rows = vec![Vec::new(); rows];
    for (index, (width, height)) in sizes.iter().enumerate() {
        layers.vertices.push(Vertex {
            item: Some(index),
            layer: depth[index],
            width: *width,
            height: *height,
            x: 0,
        });
        layers.rows[depth[index]].push(index);
    }
    let mut bends = 0;
    for edge in &body.edges {
        let mut chain = vec![edge.from];
        let between = (depth[edge.from] + 1)..depth[edge.to];
        if bends + between.len() <= BENDS_MAX {
            for row in between {
                bends += 1;
                chain.push(layers.vertices.len());
                layers.rows[row].push(layers.vertices.len());
                layers.vertices.push(Vertex {
                    item: None,
                    layer: row,
                    width: BEND_WIDTH,
                    height: 0,
                    x: 0,
                });
            }
        }
        chain.push(edge.to);
        layers.chains.push(chain);
    }
    layers.below = vec![Vec::new(); layers.vertices.len()];
    layers.above = vec![Vec::new(); layers.vertices.len()];
    for pair in layers.chains.iter().flat_map(|chain| chain.windows(2)) {
        layers.below[pair[0]].push(pair[1]);
        layers.above[pair[1]].push(pair[0]);
    }
    layers
}

/// The longest path from a source to each item. Items on a cycle (a checked flow has none) stay at the top.
fn depths(body: &Body) -> Vec<usize> {
    let mut depth = vec![0; body.items.len()];
    let mut missing = vec![0_usize; body.items.len()];
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); body.items.len()];
    for edge in &body.edges {
        missing[edge.to] += 1;
        out[edge.from].push(edge.to);
    }
    let mut ready: Vec<usize> = (0..missing.len())
        .filter(|index| missing[*index] == 0)
        .collect();
    while let Some(index) = ready.pop() {
        for next in &out[index] {
            depth[*next] = depth[*next].max(depth[index] + 1);
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    depth
}

/// Puts boxes and routes at their final places.
fn assemble<'a>(
    body: &'a Body,
    layers: Layers,
    insides: Vec<Layout<'a>>,
    metrics: &Metrics,
) -> Layout<'a> {
    let heights: Vec<i32> = layers
        .rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|vertex| layers.vertices[*vertex].height)
                .max()
                .unwrap_or(0)
        })
        .collect();
    let tracks: Vec<Tracks> = (0..layers.rows.len())
        .map(|row| Tracks::of(&layers, row))
        .collect();
    let mut tops = Vec::with_capacity(heights.len());
    let mut y = 0;
    for (row, height) in heights.iter().enumerate() {
        tops.push(y);
        y += height
            + metrics.layer_gap
            + metrics.track * i32::try_from(tracks[row].rows).unwrap_or(i32::MAX / 1024);
    }
    let mut layout = Layout::default();
    for (index, mut inner) in insides.into_iter().enumerate() {
        let vertex = &layers.vertices[index];
        inner.shift(vertex.x, tops[vertex.layer]);
        layout.width = layout.width.max(vertex.x + vertex.width);
        layout.height = layout.height.max(tops[vertex.layer] + vertex.height);
        layout.boxes.append(&mut inner.boxes);
        layout.routes.append(&mut inner.routes);
    }
    let paths = Paths {
        layers: &layers,
        heights: &heights,
        tops: &tops,
        tracks: &tracks,
        metrics,
    };
    for (edge, chain) in body.edges.iter().zip(&layers.chains) {
        layout.routes.push(Route {
            edge: *edge,
            points: paths.points(chain),
        });
    }
    let bends = layers
        .vertices
        .iter()
        .filter(|vertex| vertex.item.is_none());
    layout.width = bends
        .map(|vertex| vertex.x + vertex.width)
        .fold(layout.width, i32::max);
    layout
}

/// Horizontal tracks below a layer: one per source that turns, shared where spans do not touch.
#[derive(Debug, Default)]
struct Tracks {
    rows: usize,
    of_source: std::collections::BTreeMap<usize, usize>,
}

impl Tracks {
    fn of(layers: &Layers, row: usize) -> Self {
        let mut spans: Vec<(i32, i32, usize)> = layers.rows[row]
            .iter()
            .filter_map(|source| {
                let own = layers.vertices[*source].center();
                let targets = layers.below[*source]
                    .iter()
                    .map(|target| layers.vertices[*target].center());
                let (left, right) =
                    targets.fold((own, own), |(left, right), x| (left.min(x), right.max(x)));
                (left < right).then_some((left, right, *source))
            })
            .collect();
        spans.sort_unstable();
        let mut ends: Vec<i32> = Vec::new();
        let mut tracks = Self::default();
        for (left, right, source) in spans {
            let free = ends
                .iter()
                .position(|end| *end < left)
                .unwrap_or(ends.len());
            if free == ends.len() {
                ends.push(right);
            } else {
                ends[free] = right;
            }
            tracks.of_source.insert(source, free);
        }
        tracks.rows = ends.len();
        tracks
    }
}

struct Paths<'a> {
    layers: &'a Layers,
    heights: &'a [i32],
    tops: &'a [i32],
    tracks: &'a [Tracks],
    metrics: &'a Metrics,
}

impl Paths<'_> {
    fn points(&self, chain: &[usize]) -> Vec<(i32, i32)> {
        let mut points = Vec::with_capacity(chain.len() * 3);
        for pair in chain.windows(2) {
            let (from, to) = (self.layers.vertices[pair[0]], self.layers.vertices[pair[1]]);
            let start = (from.center(), self.tops[from.layer] + from.height);
            let end = (to.center(), self.tops[to.layer]);
            points.push(start);
            if self.metrics.track > 0 && start.0 != end.0 {
                let track = self.tracks[from.layer]
                    .of_source
                    .get(&pair[0])
                    .copied()
                    .unwrap_or(0);
                let floor = self.tops[from.layer] + self.heights[from.layer];
                let y = floor
                    + self.metrics.track * i32::try_from(track).unwrap_or(0)
                    + self.metrics.layer_gap / 2;
                points.push((start.0, y));
                points.push((end.0, y));
            }
            points.push(end);
        }
        points.dedup();
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::model::{How, Part};

    fn metrics() -> Metrics {
        Metrics {
            node_gap: 2,
            layer_gap: 2,
            track: 1,
            padding: 1,
            title: 2,
            measure: |_| (5, 3),
        }
    }

    fn body(count: usize, edges: &[(usize, usize)]) -> Body {
        Body {
            items: (0..count)
                .map(|index| Item::new(format!("s{index}"), format!("s{index}"), "set"))
                .collect(),
            edges: edges
                .iter()
                .map(|(from, to)| Edge {
                    from: *from,
                    to: *to,
                    how: How::Value,
                    critical: false,
                })
                .collect(),
        }
    }

    fn overlapping(layout: &Layout<'_>) -> usize {
        let leaves: Vec<&Placed<'_>> = layout.boxes.iter().filter(|placed| !placed.frame).collect();
        let mut count = 0;
        for (index, one) in leaves.iter().enumerate() {
            for other in &leaves[index + 1..] {
                let apart = one.x + one.width <= other.x
                    || other.x + other.width <= one.x
                    || one.y + one.height <= other.y
                    || other.y + other.height <= one.y;
                count += usize::from(!apart);
            }
        }
        count
    }

    #[test]
    fn edges_go_down() {
        let body = body(5, &[(0, 1), (0, 2), (1, 3), (2, 3), (0, 4), (3, 4)]);
        let layout = lay_out(&body, &metrics());
        for route in &layout.routes {
            let ys: Vec<i32> = route.points.iter().map(|point| point.1).collect();
            assert!(ys.is_sorted(), "{ys:?}");
        }
        assert_eq!(overlapping(&layout), 0);
    }

    #[test]
    fn nothing_overlaps_in_a_wide_and_deep_graph() {
        let mut edges = Vec::new();
        for index in 1..400_usize {
            edges.push(((index * 7919) % index, index));
            edges.push(((index * 104_729) % index, index));
        }
        edges.sort_unstable();
        edges.dedup();
        let body = body(400, &edges);
        let layout = lay_out(&body, &metrics());
        assert_eq!(overlapping(&layout), 0);
        assert_eq!(layout.boxes.len(), 400);
    }

    #[test]
    fn frames_hold_their_parts() {
        let mut outer = body(2, &[(0, 1)]);
        outer.items[0].parts.push(Part {
            label: None,
            body: body(3, &[(0, 1)]),
        });
        let layout = lay_out(&outer, &metrics());
        let frame = layout.boxes.iter().find(|placed| placed.frame).unwrap();
        for inner in layout
            .boxes
            .iter()
            .filter(|placed| placed.item.path != "s1" || placed.y < frame.y + frame.height)
        {
            assert!(inner.x >= frame.x && inner.x + inner.width <= frame.x + frame.width);
        }
        let last = layout.boxes.last().unwrap();
        assert!(last.y > frame.y + frame.height);
    }

    #[test]
    fn an_empty_body_has_no_size() {
        assert_eq!(lay_out(&Body::default(), &metrics()), Layout::default());
    }
}
