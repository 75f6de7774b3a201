//! The real binary, end to end: real processes, a real database, nothing mocked.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: a failure is the test's failure"
)]

mod commands;
mod conformance;
mod crash;
mod docs;
mod examples;
mod folders;
mod help;
mod honest;
mod inputs;
mod lab;
mod migrate;
mod park;
mod people;
mod processes;
mod reading;
mod repair;
mod slice;
mod stop;
mod stored;
mod streams;
mod trouble;
