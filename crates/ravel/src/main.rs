//! The `ravel` binary.

mod cli;
mod config;
mod conformance;
mod error;
mod exit;
mod graph;
mod input;
mod live;
mod logging;
mod output;
mod view;
mod wire;

use std::process::ExitCode;

// The engine makes many small things on one thread and drops them on another; the system's allocator spends a quarter
// of a step on that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A `run` step starts this binary again as the supervisor of its process.
    ravel_io::child::main(std::env::args_os()).unwrap_or_else(cli::main)
}
