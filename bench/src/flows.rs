//! The flows of the cases, as text.

use std::fmt::Write as _;

/// `set` steps, each reading the one before.
pub(crate) fn chain(steps: usize) -> String {
    let mut text = String::from("ravel: 1\nname: chain\nsteps:\n  s0: { set: { n: 1 } }\n");
    for step in 1..steps {
        let _ = writeln!(
            text,
            "  s{step}: {{ set: {{ n: '{{{{ s{}.n + 1 }}}}' }} }}",
            step - 1
        );
    }
    let _ = writeln!(text, "output: '{{{{ s{}.n }}}}'", steps - 1);
    text
}

/// The same of `tool` leaves with an effect: each is an attempt of its own.
pub(crate) fn tool_chain(steps: usize, effect: &str) -> String {
    let mut text = String::from("ravel: 1\nname: tool_chain\nsteps:\n");
    for step in 0..steps {
        let _ = writeln!(
            text,
            "  - s{step}: {{ tool: bench.echo, with: {{ n: {step} }}, effect: {effect} }}"
        );
    }
    let _ = writeln!(text, "output: '{{{{ s{}.n }}}}'", steps - 1);
    text
}

/// So many `set` steps beside each other, and one that reads them all.
pub(crate) fn fan(width: usize) -> String {
    let mut text = String::from("ravel: 1\nname: fan\nsteps:\n  first: { set: { n: 1 } }\n");
    for step in 0..width {
        let _ = writeln!(
            text,
            "  w{step}: {{ set: {{ n: '{{{{ first.n + {step} }}}}' }} }}"
        );
    }
    let all: Vec<String> = (0..width).map(|step| format!("w{step}")).collect();
    let _ = writeln!(
        text,
        "  join: {{ after: [{}], set: {{ n: '{{{{ w{}.n }}}}' }} }}",
        all.join(", "),
        width - 1
    );
    text.push_str("output: '{{ join.n }}'\n");
    text
}

/// A `for_each` over so many items, each one leaf with an effect, and a join.
pub(crate) fn fan_tools(effect: &str, parallel: usize) -> String {
    format!(
        "
ravel: 1
name: fan_tools
input: {{ items: [integer] }}
steps:
  all:
    for_each: input.items
    parallel: {parallel}
    steps:
      act: {{ tool: bench.echo, with: {{ n: '{{{{ item }}}}' }}, effect: {effect} }}
    output: '{{{{ act.n }}}}'
  join: {{ set: {{ n: '{{{{ all | length }}}}' }} }}
output: '{{{{ join.n }}}}'
"
    )
}

/// A random graph of `set` steps with about so many edges, the same at every call.
pub(crate) fn dag(nodes: usize, edges: usize) -> String {
    let mut seed = 42_u64;
    let mut random = move |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut text = String::from("ravel: 1\nname: dag\nsteps:\n  n0: { set: { n: 1 } }\n");
    let per_node = edges.div_ceil(nodes - 1);
    for node in 1..nodes {
        let mut from: Vec<usize> = (0..per_node).map(|_| random(node)).collect();
        from.sort_unstable();
        from.dedup();
        let sum: Vec<String> = from.iter().map(|from| format!("n{from}.n")).collect();
        let _ = writeln!(
            text,
            "  n{node}: {{ set: {{ n: '{{{{ ({}) % 1000 }}}}' }} }}",
            sum.join(" + ")
        );
    }
    let _ = writeln!(text, "output: '{{{{ n{}.n }}}}'", nodes - 1);
    text
}

/// Five `set` steps, and with `once` one leaf after them.
pub(crate) fn five(once: bool) -> String {
    let mut text = String::from("ravel: 1\nname: five\nsteps:\n  s0: { set: { n: 1 } }\n");
    for step in 1..5 {
        let _ = writeln!(
            text,
            "  s{step}: {{ set: {{ n: '{{{{ s{}.n + 1 }}}}' }} }}",
            step - 1
        );
    }
    if once {
        text.push_str("  act: { tool: bench.echo, with: { n: '{{ s4.n }}' }, effect: once }\noutput: '{{ act.n }}'\n");
    } else {
        text.push_str("output: '{{ s4.n }}'\n");
    }
    text
}

/// One `once` leaf.
pub(crate) const ONE: &str = "ravel: 1\nname: one\nsteps:\n  act: { tool: bench.echo, with: { n: 1 }, effect: once }\noutput: '{{ act.n }}'\n";

/// A question that nobody answers.
pub(crate) const ASKING: &str = "
ravel: 1
name: asking
steps:
  look: { set: { n: 1 } }
  ask: { human: { ask: 'Is {{ look.n }} right?', form: { ok: boolean }, deadline: 30d, on_deadline: fail } }
output: '{{ ask.ok }}'
";

/// One list of so many set steps.
pub(crate) fn wide(items: u64) -> String {
    format!(
        "
ravel: 1
name: wide
steps:
  all:
    for_each: range({items})
    as: item
    steps:
      n: {{ set: '{{{{ item }}}}' }}
"
    )
}

/// A step that takes longer than the case.
pub(crate) const LONG: &str = "ravel: 1\nname: long\nsteps:\n  look: { set: { n: 1 } }\n  nap: { after: look, tool: bench.sleep, with: { ms: 600000 }, effect: read }\n";

/// A wide `for_each` of sleeping reads.
pub(crate) fn sleepers(width: usize, ms: u64) -> String {
    format!(
        "
ravel: 1
name: sleepers
steps:
  all:
    for_each: range({width})
    parallel: {width}
    steps:
      nap: {{ tool: bench.sleep, with: {{ ms: {ms} }}, effect: read }}
    output: '{{{{ nap.ms }}}}'
"
    )
}
