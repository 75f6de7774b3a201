//! What it costs to check a flow of 10,000 steps: a chain, a wide fan, and models with contracts.
//!
//! `cargo run --release -p ravel-core --example check_cost`

#![expect(clippy::print_stdout, reason = "it is a report")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::fmt::Write;
use std::time::Instant;

use ravel_core::lang::Bundle;

const STEPS: usize = 10_000;

fn chain() -> String {
    let mut text = String::from("steps:\n  s0: { set: { n: 0 } }\n");
    for step in 1..STEPS {
        let _ = writeln!(
            text,
            "  s{step}: {{ set: {{ n: \"{{{{ s{}.n + 1 }}}}\" }} }}",
            step - 1
        );
    }
    text + "output: \"{{ s9999.n }}\"\n"
}

fn fan() -> String {
    let mut text = String::from("input: { n: integer }\nsteps:\n");
    for step in 0..STEPS - 1 {
        let _ = writeln!(
            text,
            "  s{step}:\n    run: echo {{{{ input.n }}}}\n    when: input.n > {step}\n    timeout: 5m"
        );
    }
    text.push_str("  join:\n    set: 1\n    join: settled\n    after:\n");
    for step in 0..STEPS - 1 {
        let _ = writeln!(text, "      - s{step}");
    }
    text + "output: \"{{ join }}\"\n"
}

fn models() -> String {
    let mut text = String::from(
        "types: { Reply: { text: string, score: { type: number, minimum: 0 } } }\nsteps:\n",
    );
    for step in 0..STEPS {
        let read = if step == 0 {
            String::from("start")
        } else {
            format!("{{{{ s{}.text }}}}", step / 2)
        };
        let read = if step == 1 {
            String::from("{{ s0.text }}")
        } else {
            read
        };
        let _ = writeln!(
            text,
            "  s{step}:\n    model: fast\n    prompt: |\n      Improve this:\n      {read}\n    returns: Reply\n    gates: [{{ expr: output.score > 3 }}]\n    repair: 2"
        );
    }
    text + "output: \"{{ s9999.text }}\"\n"
}

fn main() {
    for (name, text) in [("chain", chain()), ("fan", fan()), ("models", models())] {
        let start = Instant::now();
        let bundle = Bundle::from_text("flow.yaml", &text);
        let loaded = start.elapsed();
        match bundle.map(|bundle| bundle.check()) {
            Ok(checked) => println!(
                "{name}: {} bytes, read in {loaded:?}, read and checked in {:?}, {} diagnostics, ok: {}",
                text.len(),
                start.elapsed(),
                checked.diagnostics.len(),
                checked.is_ok(),
            ),
            Err(diagnostics) => println!("{name}: refused: {}", diagnostics[0]),
        }
    }
}
