//! The suite holds, its files are what their schema says, and it can fail.

use std::collections::BTreeSet;

use ravel_core::lang;
use serde_json::{Value, json};

use super::*;

const SCHEMA: &str = include_str!("../../../../conformance/case.schema.json");

#[test]
fn every_case_holds() {
    let failed: Vec<(String, Vec<Difference>)> = carried()
        .iter()
        .map(|filed| (filed.file.clone(), run(filed)))
        .filter(|(_, differences)| !differences.is_empty())
        .collect();
    assert_eq!(failed, []);
}

#[test]
fn every_case_has_a_number_a_fact_and_a_reason_of_its_own() {
    let cases: Vec<_> = carried()
        .into_iter()
        .map(|filed| filed.case.expect("every case reads"))
        .collect();
    let numbers: BTreeSet<u32> = cases.iter().map(|case| case.case).collect();
    let titles: BTreeSet<&str> = cases.iter().map(|case| case.title.as_str()).collect();
    let reasons: BTreeSet<&str> = cases.iter().map(|case| case.why.as_str()).collect();
    let all = cases.len();
    assert_eq!(
        (numbers.len(), titles.len(), reasons.len()),
        (all, all, all)
    );
}

#[test]
fn the_readme_lists_every_section() {
    let readme = include_str!("../../../../conformance/README.md");
    let listed: BTreeSet<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(section, _)| section)
        .filter(|section| section.starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    let cases = carried();
    let there: BTreeSet<&str> = cases.iter().map(|filed| filed.section()).collect();
    assert_eq!(listed, there);
}

fn schema() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn every_case_is_what_the_published_schema_says() {
    let schema = schema();
    for (file, text) in shelf::CARRIED {
        let value = lang::document(file, text).unwrap();
        let problems: Vec<String> = schema
            .iter_errors(&value)
            .map(|problem| format!("{}: {problem}", problem.instance_path()))
            .collect();
        assert_eq!(problems, Vec::<String>::new(), "{file}");
    }
}

/// What the program does not read, the schema refuses, and the other way round.
#[test]
fn the_schema_and_the_program_refuse_the_same() {
    let schema = schema();
    let base = json!({
        "case": 101, "title": "t", "why": "w", "flow": {},
        "expect": { "state": "succeeded", "outcomes": {}, "started": [] },
    });
    let wrong: &[(&str, Value)] = &[
        ("/extra", json!(1)),
        ("/script", json!([{ "jump": {} }])),
        ("/script", json!([{ "end": { "done": 1 } }])),
        (
            "/script",
            json!([{ "end": { "path": "a", "done": 1, "more": 1 } }]),
        ),
        (
            "/script",
            json!([{ "end": { "path": "a", "failed": "no_class" } }]),
        ),
        ("/script", json!([{ "time": "soon" }])),
        ("/script", json!([{ "crash": { "up": "1s" } }])),
        ("/script", json!([{ "edit": { "flow": {} } }])),
        ("/script", json!([{ "expect": { "stat": "running" } }])),
        (
            "/script",
            json!([{ "expect": { "waits": [{ "person": "a", "who": "b" }] } }]),
        ),
        (
            "/script",
            json!([{ "expect": { "states": { "a": { "skipped": "why" } } } }]),
        ),
        (
            "/script",
            json!([{ "expect": { "states": { "a": "done" } } }]),
        ),
        ("/expect/refused", json!("never")),
        ("/expect/started", json!([1])),
        ("/terms", json!({ "prices": { "m": { "input": 1 } } })),
    ];
    assert!(schema.is_valid(&base));
    assert!(serde_json::from_value::<case::Case>(base.clone()).is_ok());
    for (place, value) in wrong {
        let mut case = base.clone();
        let (parent, key) = place.rsplit_once('/').unwrap();
        case.pointer_mut(parent).unwrap()[key] = value.clone();
        let reads = serde_json::from_value::<case::Case>(case.clone()).is_ok();
        assert_eq!(
            (schema.is_valid(&case), reads),
            (false, false),
            "{place}: {value}"
        );
    }
}

/// A run that has a bit of everything: steps that end in each way, a question, a signal, a timer, permits, keys.
const EVERYTHING: &str = "
case: 101
title: t
why: w
flow:
  name: everything
  signals: { user: { text: string } }
  steps:
    good: { tool: t.good, with: { n: 1 }, effect: read, concurrency: { key: shop, max: 1 } }
    again: { tool: t.again, with: {}, effect: read, retry: { attempts: 2, backoff: 1s..1s } }
    not_run: { when: 1 > 2, set: 1 }
    ask: { human: { ask: 'Go?', form: { ok: boolean } } }
    mail: { wait: { signal: user } }
script:
  - end: { path: good, done: 1 }
  - end: { path: again, not_done: unavailable }
  - time: 1s
LOOK
  - end: { path: again, failed: refused }
END
";

/// What is said about a case with this look in the middle and this at its end.
fn said(look: &str, end: &str) -> String {
    let look = match look {
        "" => String::new(),
        look => format!("  - {look}"),
    };
    let text = EVERYTHING.replace("LOOK", &look).replace("END", end);
    let filed = Filed::read("01-tests/101-everything.yaml", &text);
    crate::cli::conformance_report(&filed, &run(&filed))
}

/// The right end, line by line.
const END: &str = "expect:
  state: failed
  error: { class: refused, step: again }
  outcomes: { good: { succeeded: 1 }, again: { failed: refused }, not_run: { skipped: when }, ask: cancelled, mail: cancelled }
  started: [again, good, again]
  time: 1s
  keys: { again: [1, 1], good: [2] }
  peak: { shop: 1 }
";

#[test]
fn the_case_of_these_tests_holds() {
    let filed = Filed::read(
        "01-tests/101-everything.yaml",
        &EVERYTHING.replace("LOOK\n", "").replace("END", END),
    );
    assert_eq!(run(&filed), []);
}

#[test]
fn each_kind_of_look_can_fail() {
    let wrong = [
        "expect: { state: waiting }",
        "expect: { output: 1 }",
        "expect: { error: refused }",
        "expect: { states: { good: cancelled } }",
        "expect: { states: { good: { succeeded: 2 } } }",
        "expect: { states: { again: { failed: refused } } }",
        "expect: { states: { not_run: { skipped: { uses: good } } } }",
        "expect: { states: { nobody: pending } }",
        "expect: { outcomes: { good: { succeeded: 1 } } }",
        "expect: { started: [good, again, again] }",
        "expect: { started: [[good, again]] }",
        "expect: { settled: [good, not_run] }",
        "expect: { history: [settle good, start good] }",
        "expect: { under_way: [] }",
        "expect: { stopping: [again] }",
        "expect: { waits: [] }",
        "expect: { waits: [{ person: ask }, { signal: mail, inbox: other }] }",
        "expect: { sent: { good: { n: 2 } } }",
        "expect: { sent: { ask: 1 } }",
        "expect: { keys: { again: [1, 2] } }",
        "expect: { uncompensated: [good] }",
        "expect: { usage: { usd: 0.1 } }",
        "expect: { time: 2s }",
        "expect: { peak: { shop: 2 } }",
    ];
    let all: Vec<String> = wrong
        .iter()
        .map(|look| format!("{look}\n{}", said(look, END)))
        .collect();
    insta::assert_snapshot!("wrong_looks", all.join("\n"));
}

#[test]
fn each_kind_of_move_can_fail() {
    let wrong = [
        "end: { path: good, done: 1 }",
        "end: { path: good, attempt: 7, done: 1 }",
        "end: { path: again, attempt: 1, done: 1 }",
        "end: { path: again, attempt: 2, done: 1, ignored: true }",
        "end: { path: again, done: 1, unknown: timeout }",
        "items: { path: good, field: f, items: [] }",
        "answer: { path: good, value: 1 }",
        "answer: { path: ask, value: { ok: 1 } }",
        "answer: { path: ask, value: { ok: 1 }, refused: unknown_question }",
        "answer: { path: ask, value: { ok: true }, refused: invalid_answer }",
        "signal: { name: nobody, value: 1 }",
        "signal: { name: user, value: 1, refused: inbox_full }",
        "cancel: { path: nobody }",
        "edit: { base: 2, flow: { name: everything, steps: { a: { set: 1 } } } }",
        "edit: { base: 1, flow: { steps: { a: { set: '{{ b }}' } } } }",
        "time: 10ms",
        "fork: nowhere",
        "retry_from: nobody",
        "jump: {}",
    ];
    let all: Vec<String> = wrong
        .iter()
        .map(|one| format!("{one}\n{}", said(one, END)))
        .collect();
    insta::assert_snapshot!("wrong_moves", all.join("\n"));
}

#[test]
fn an_end_must_say_everything() {
    let open = "expect: {}\n";
    let short = format!(
        "{}\n{}",
        said("", open),
        said("cancel: { path: again }", END)
    );
    insta::assert_snapshot!("short_ends", short);
}

#[test]
fn a_refusal_that_does_not_come_is_told() {
    let case = |flow: &str, input: &str, refused: &str| {
        let text = format!(
            "case: 101\ntitle: t\nwhy: w\nflow: {flow}\ninput: {input}\nexpect: {{ refused: {refused} }}\n"
        );
        let filed = Filed::read("01-tests/101-refused.yaml", &text);
        crate::cli::conformance_report(&filed, &run(&filed))
    };
    let flow = "{ input: { n: integer }, steps: { a: { set: 1 } } }";
    let said = [
        case(flow, "{ n: 1 }", "check"),
        case(flow, "{ n: 1 }", "input"),
        case("{ steps: { a: { set: '{{ b }}' } } }", "{}", "input"),
    ];
    insta::assert_snapshot!("refusals", said.join("\n"));
    assert_eq!(
        carried()
            .iter()
            .filter(|filed| filed.is_meant("209"))
            .map(|filed| filed.section())
            .collect::<Vec<_>>(),
        ["02-absent-values"]
    );
}

#[test]
fn a_file_is_named_after_its_case() {
    let text = "case: 101\ntitle: t\nwhy: w\nflow: {}\nexpect: {}\n";
    for file in [
        "02-tests/101-a.yaml",
        "01-tests/102-a.yaml",
        "01-tests/a.yaml",
    ] {
        assert!(Filed::read(file, text).case.is_err(), "{file}");
    }
    assert!(Filed::read("01-tests/101-a.yaml", text).case.is_ok());
    let twice = Filed::read("01-tests/101-a.yaml", "case: 101\ncase: 101\n");
    assert!(twice.case.is_err(), "a key that stands twice");
}
