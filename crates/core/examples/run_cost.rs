//! What the run machine alone costs, in CPU microseconds a step: no store, no engine, no executor.
//!
//! `cargo run --release -p ravel-core --example run_cost`
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a measurement prints and times"
)]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use ravel_core::effect::Outcome;
use ravel_core::event::{Command, Input};
use ravel_core::graph::Graph;
use ravel_core::lang::Bundle;
use ravel_core::run::{Run, Terms};
use ravel_core::value::Val;

fn graph(yaml: &str) -> Arc<Graph> {
    let bundle = Bundle::from_text("bench.yaml", yaml).expect("it reads");
    Arc::new(bundle.compile().expect("it checks"))
}

/// Runs to the end; tools answer at once.
fn run(graph: &Arc<Graph>, input: &Val) -> usize {
    let mut run = Run::new("r".into(), graph.clone(), Terms::default());
    let mut now = 1;
    let mut queue: Vec<Input> = vec![Input::Start {
        input: input.clone(),
    }];
    let mut events = 0;
    while let Some(next) = queue.pop() {
        now += 1;
        let handled = run.handle(now, next).expect("nothing is refused");
        events += handled.turn.map_or(0, |turn| turn.events.len());
        for command in handled.commands {
            if let Command::Start(job) = command {
                queue.push(Input::Finished {
                    attempt: job.attempt,
                    outcome: Outcome::done(Val::null()),
                });
            }
        }
    }
    assert!(run.is_final(), "the run ends");
    events
}

fn measure(name: &str, steps: usize, rounds: usize, mut work: impl FnMut() -> usize) {
    let mut best = f64::MAX;
    let mut events = 0;
    for _ in 0..rounds {
        let begun = Instant::now();
        events = work();
        best = best.min(begun.elapsed().as_secs_f64());
    }
    println!(
        "{name:<40} {:>8.2} us/step  ({events} events, best of {rounds})",
        best * 1e6 / steps as f64
    );
}

fn main() {
    let mut chain = String::from("ravel: 1\nname: chain\nsteps:\n  s0: { set: 0 }\n");
    for index in 1..1_000 {
        let _ = writeln!(
            chain,
            "  s{index}: {{ set: '{{{{ s{} + 1 }}}}' }}",
            index - 1
        );
    }
    chain.push_str("output: '{{ s999 }}'\n");
    let begun = Instant::now();
    let chain = graph(&chain);
    println!(
        "check and compile 1,000 steps: {:.1} ms",
        begun.elapsed().as_secs_f64() * 1e3
    );
    let null = Val::new(serde_json::json!({}));
    measure("chain of 1,000 set", 1_000, 20, || run(&chain, &null));
    let fan = graph(
        "ravel: 1\nname: fan\nsteps:\n  all: { for_each: 'range(1000) | list', as: i, steps: { one: { set: '{{ i }}' } } }\noutput: '{{ all | length }}'\n",
    );
    measure("fan-out of 1,000 set", 1_000, 20, || run(&fan, &null));
    let wide = graph(
        "ravel: 1\nname: fan\nsteps:\n  all: { for_each: 'range(4000) | list', as: i, steps: { one: { set: '{{ i }}' } } }\noutput: '{{ all | length }}'\n",
    );
    measure("fan-out of 4,000 set", 4_000, 20, || run(&wide, &null));
    let tools = graph(
        "ravel: 1\nname: fan\nsteps:\n  all: { for_each: 'range(1000) | list', as: i, steps: { one: { tool: test.noop, with: { i: '{{ i }}' }, effect: once } } }\noutput: '{{ all | length }}'\n",
    );
    measure("fan-out of 1,000 tool (once)", 1_000, 20, || {
        run(&tools, &null)
    });
    let mut five = String::from("ravel: 1\nname: five\nsteps:\n  s0: { set: 0 }\n");
    for index in 1..5 {
        let _ = writeln!(
            five,
            "  s{index}: {{ set: '{{{{ s{} + 1 }}}}' }}",
            index - 1
        );
    }
    five.push_str("output: '{{ s4 }}'\n");
    let five = graph(&five);
    measure("1,000 runs of 5 set", 5_000, 20, || {
        (0..1_000).map(|_| run(&five, &null)).sum()
    });
}
