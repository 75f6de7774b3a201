//! The `ravel` binary.

mod cli;
mod config;
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

fn main() -> ExitCode {
    // A `run` step starts this binary again as the supervisor of its process.
    ravel_io::child::main(std::env::args_os()).unwrap_or_else(cli::main)
}
