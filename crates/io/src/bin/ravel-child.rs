//! The helper of `run` steps as a binary of its own: for tests, and for programs that embed the executors.

use std::process::ExitCode;

fn main() -> ExitCode {
    ravel_io::child::main(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
