//! The executors with the real things: processes, kernels, sockets. One binary, so that it links once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod escape;
mod executor;
mod file;
mod hostile;
mod http;
mod orphans;
mod run;
mod sandbox;
