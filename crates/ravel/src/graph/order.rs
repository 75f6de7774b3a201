//! Order within layers (barycentre sweeps, the order with the fewest crossings is kept) and positions (each layer is
//! fitted to its neighbours by isotonic regression: the exact least-squares answer that keeps order and gaps).

use super::layout::Layers;

/// Down-and-up sweeps over the layers.
const SWEEPS: usize = 6;
/// Sweeps that pull boxes towards their neighbours.
const PULLS: usize = 6;

/// Orders the vertices of each layer so that few edges cross.
pub(super) fn arrange(layers: &mut Layers) {
    let mut best = layers.rows.clone();
    let mut fewest = crossings(layers);
    for sweep in 0..SWEEPS {
        if fewest == 0 {
            break;
        }
        let down = sweep % 2 == 0;
        let position = positions(layers);
        let mut position: Vec<f64> = position.into_iter().map(to_float).collect();
        let rows: Vec<usize> = if down {
            (1..layers.rows.len()).collect()
        } else {
            (0..layers.rows.len().saturating_sub(1)).rev().collect()
        };
        for row in rows {
            let neighbours = if down { &layers.above } else { &layers.below };
            let mut keyed: Vec<(f64, usize)> = layers.rows[row]
                .iter()
                .map(|vertex| {
                    (
                        mean(&neighbours[*vertex], &position).unwrap_or(position[*vertex]),
                        *vertex,
                    )
                })
                .collect();
            keyed.sort_by(|left, right| left.0.total_cmp(&right.0));
            for (place, (_, vertex)) in keyed.iter().enumerate() {
                position[*vertex] = to_float(place);
            }
            layers.rows[row] = keyed.into_iter().map(|(_, vertex)| vertex).collect();
        }
        let now = crossings(layers);
        if now < fewest {
            fewest = now;
            best.clone_from(&layers.rows);
        }
    }
    layers.rows = best;
}

/// Gives each vertex its left edge; the leftmost is at 0.
pub(super) fn place(layers: &mut Layers, gap: i32) {
    for row in &layers.rows {
        let mut x = 0;
        for vertex in row {
            layers.vertices[*vertex].x = x;
            x += layers.vertices[*vertex].width + gap;
        }
    }
    for pull in 0..PULLS {
        let down = pull % 2 == 0;
        let rows: Vec<usize> = if down {
            (0..layers.rows.len()).collect()
        } else {
            (0..layers.rows.len()).rev().collect()
        };
        for row in rows {
            fit(layers, row, gap, down);
        }
    }
    let left = layers
        .vertices
        .iter()
        .map(|vertex| vertex.x)
        .min()
        .unwrap_or(0);
    for vertex in &mut layers.vertices {
        vertex.x -= left;
    }
}

/// Moves a layer as near to its neighbours as order and gaps allow.
fn fit(layers: &mut Layers, row: usize, gap: i32, down: bool) {
    let centers: Vec<f64> = layers
        .vertices
        .iter()
        .map(|vertex| f64::from(vertex.center()))
        .collect();
    let neighbours = if down { &layers.above } else { &layers.below };
    // `offset` is where a vertex stands when the row is packed: what is left to choose must not decrease.
    let mut offset = 0;
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    let mut offsets = Vec::with_capacity(layers.rows[row].len());
    for vertex in &layers.rows[row] {
        let own = &layers.vertices[*vertex];
        let wish = mean(&neighbours[*vertex], &centers).unwrap_or(centers[*vertex]);
        // Bends pull harder, so that long edges become straight.
        let weight = if own.item.is_none() { 4.0 } else { 1.0 };
        let want = wish - f64::from(own.width / 2) - f64::from(offset);
        offsets.push(offset);
        offset += own.width + gap;
        let mut block = (want * weight, weight, 1);
        while let Some(last) = blocks.last() {
            if last.0 / last.1 <= block.0 / block.1 {
                break;
            }
            block = (block.0 + last.0, block.1 + last.1, block.2 + last.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    let mut index = 0;
    for (sum, weight, length) in blocks {
        for _ in 0..length {
            let vertex = layers.rows[row][index];
            layers.vertices[vertex].x = rounded(sum / weight) + offsets[index];
            index += 1;
        }
    }
}

fn mean(neighbours: &[usize], values: &[f64]) -> Option<f64> {
    if neighbours.is_empty() {
        return None;
    }
    Some(neighbours.iter().map(|index| values[*index]).sum::<f64>() / to_float(neighbours.len()))
}

fn positions(layers: &Layers) -> Vec<usize> {
    let mut position = vec![0; layers.vertices.len()];
    for row in &layers.rows {
        for (place, vertex) in row.iter().enumerate() {
            position[*vertex] = place;
        }
    }
    position
}

/// Crossings between neighbouring layers, counted with a Fenwick tree.
fn crossings(layers: &Layers) -> usize {
    let position = positions(layers);
    let mut total = 0;
    for row in &layers.rows {
        let mut targets: Vec<usize> = Vec::new();
        for vertex in row {
            let mut own: Vec<usize> = layers.below[*vertex]
                .iter()
                .map(|target| position[*target])
                .collect();
            own.sort_unstable();
            targets.append(&mut own);
        }
        let Some(most) = targets.iter().max() else {
            continue;
        };
        let mut tree = vec![0_usize; most + 2];
        for (seen, target) in targets.iter().enumerate() {
            let mut at = target + 1;
            let mut not_right = 0;
            while at > 0 {
                not_right += tree[at];
                at &= at - 1;
            }
            total += seen - not_right;
            let mut at = target + 1;
            while at < tree.len() {
                tree[at] += 1;
                at += at & at.wrapping_neg();
            }
        }
    }
    total
}

#[expect(clippy::cast_precision_loss, reason = "positions in a layer are small")]
const fn to_float(number: usize) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "coordinates stay far below the range of i32"
)]
fn rounded(number: f64) -> i32 {
    number.round() as i32
}

#[cfg(test)]
mod tests {
    use crate::graph::layout::{Metrics, lay_out};
    use crate::graph::model::{Body, Edge, How, Item};

    #[test]
    fn two_crossed_pairs_are_uncrossed() {
        let edge = |from, to| Edge {
            from,
            to,
            how: How::Value,
            critical: false,
        };
        let body = Body {
            items: (0..4)
                .map(|index| Item::new(format!("{index}"), format!("{index}"), "set"))
                .collect(),
            edges: vec![edge(0, 3), edge(1, 2)],
        };
        let metrics = Metrics {
            node_gap: 1,
            layer_gap: 1,
            track: 1,
            padding: 1,
            title: 1,
            measure: |_| (3, 1),
        };
        let layout = lay_out(&body, &metrics);
        let straight = layout.routes.iter().all(|route| route.points.len() == 2);
        assert!(straight, "{:?}", layout.routes);
    }
}
