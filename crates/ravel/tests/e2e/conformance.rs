//! `ravel conformance` over the cases of the program and over a folder of one's own.

use crate::lab::Lab;

const CASE: &str = "
case: 101
title: a value is a value
why: it has to be
flow: { steps: { a: { tool: t.a, with: {}, effect: read } }, output: '{{ a }}' }
script:
  - end: { path: a, done: 1 }
expect: { state: succeeded, output: 1, started: [a], outcomes: { a: { succeeded: 1 } } }
";

#[test]
fn the_cases_of_the_program_hold() {
    let lab = Lab::new();
    let all = lab.ravel(&["conformance", "--json"]).expect(0).json();
    assert_eq!(
        (&all["ok"], &all["failures"]),
        (&true.into(), &serde_json::json!([]))
    );
    let listed = lab
        .ravel(&["conformance", "--list", "--json"])
        .expect(0)
        .json();
    let sections = all["sections"].as_array().unwrap();
    let cases: u64 = sections
        .iter()
        .filter_map(|one| one["cases"].as_u64())
        .sum();
    assert_eq!(listed["cases"].as_array().unwrap().len() as u64, cases);
    let one = lab.ravel(&["conformance", "101"]).expect(0);
    assert_eq!(one.out, "01-states-and-joins  1 of 1\n");
    lab.ravel(&["conformance", "no such case"]).expect(6);
}

#[test]
fn a_case_that_does_not_hold_is_told_with_its_reason() {
    let lab = Lab::new();
    lab.write("cases/01-mine/101-good.yaml", CASE);
    lab.ravel(&["conformance", "--dir", "cases"]).expect(0);
    let wrong = CASE
        .replace("case: 101", "case: 102")
        .replace("output: 1", "output: 2");
    lab.write("cases/01-mine/102-wrong.yaml", &wrong);
    lab.write("cases/01-mine/103-broken.yaml", "case: [");
    let told = lab.ravel(&["conformance", "--dir", "cases"]).expect(1);
    insta::assert_snapshot!("conformance_told", format!("{}---\n{}", told.out, told.err));
}
