//! Whatever the text, the checker answers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ravel_core::lang::{Bundle, TextLimits};

/// Pieces that flows are made of, to get past the first error.
const PIECES: &[&str] = &[
    "steps:",
    "\n",
    "\n  ",
    "\n    ",
    "\n      ",
    "a: ",
    "b: ",
    "set: ",
    "run: ",
    "model: fast",
    "prompt: ",
    "\"{{ a }}\"",
    "{{ b.c",
    "}}",
    "{ ",
    " }",
    "[",
    "]",
    ", ",
    "- ",
    "for_each: ",
    "repeat: ",
    "switch: ",
    "cases: ",
    "else: ",
    "race: ",
    "flow: ",
    "with: ",
    "when: ",
    "after: ",
    "join: ",
    "output: ",
    "catch: ",
    "finally: ",
    "gates: ",
    "judge: ",
    "fallback: ",
    "returns: ",
    "input: ",
    "types: ",
    "flows: ",
    "string",
    "string | null",
    "[T]",
    "5m",
    "200k",
    "1",
    "true",
    "no",
    "null",
    "#",
    " # x",
    "&x ",
    "*x",
    "!t ",
    "|\n      text",
    ">-\n      text",
    "'it''s'",
    "\"\\u00e4\"",
    "ä",
    "\t",
    "\r\n",
    "---\n",
    "...",
    "? ",
    ": ",
    "$ref: ",
    "file: x",
    "human: ",
    "wait: ",
    "signal: ",
    "return: ",
    "fail: ",
    "steps: ",
    "max: ",
    "until: ",
    "carry: ",
    "as: ",
    "input.x",
    "a.b",
    "defaults: ",
];

fn check(text: &str) {
    for path in ["flow.yaml", "flow.json"] {
        let files = BTreeMap::from([(path.to_owned(), text.to_owned())]);
        let diagnostics = match Bundle::load(path, &files, None, &TextLimits::default()) {
            Ok(bundle) => bundle.check().diagnostics,
            Err(diagnostics) => diagnostics,
        };
        for diagnostic in diagnostics {
            assert!(!diagnostic.render(false).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_checker_panic(text in ".{0,200}") {
        check(&text);
    }

    #[test]
    fn no_bytes_make_the_checker_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_mix_of_pieces_makes_the_checker_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)) {
        check(&pieces.concat());
    }

    #[test]
    fn no_cut_in_a_flow_makes_the_checker_panic(start in 0usize..4000, length in 0usize..40, with in ".{0,4}") {
        let whole = include_str!("good/triage.yaml");
        let start = (0..=start.min(whole.len())).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or(0);
        let end = (start + length).min(whole.len());
        let end = (end..=whole.len()).find(|at| whole.is_char_boundary(*at)).unwrap_or(whole.len());
        check(&format!("{}{with}{}", &whole[..start], &whole[end..]));
    }
}

/// What is nested or chained as far as the parsers allow is checked, or refused, without exhausting the stack.
#[test]
fn deep_and_long_flows_are_checked() {
    let sum = format!(
        "steps:\n  a: {{ set: \"{{{{ {} }}}}\" }}\n",
        vec!["1"; 900].join(" + ")
    );
    let nots = format!(
        "steps:\n  a: {{ set: 1, when: \"{}true\" }}\n",
        "not ".repeat(900)
    );
    let parentheses = format!(
        "steps:\n  a: {{ set: \"{{{{ {}1{} }}}}\" }}\n",
        "(".repeat(400),
        ")".repeat(400)
    );
    let lists = format!(
        "steps: {{ a: {{ set: {}1{} }} }}",
        "[".repeat(90),
        "]".repeat(90)
    );
    let groups = format!(
        "steps: {}{{ a: {{ set: 1 }} }}{}",
        "{ g: { steps: ".repeat(40),
        " } }".repeat(40)
    );
    let growing: String = (1..400)
        .map(|step| format!("  s{step}: {{ set: [\"{{{{ s{} }}}}\", 1] }}\n", step - 1))
        .collect();
    let growing =
        format!("steps:\n  s0: {{ set: 1 }}\n{growing}  end: {{ set: \"{{{{ s399.x }}}}\" }}\n");
    for text in [sum, nots, parentheses, lists, groups, growing] {
        check(&text);
    }
}
