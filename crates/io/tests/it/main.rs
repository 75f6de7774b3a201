//! The executors with the real things: processes, kernels, sockets. One binary, so that it links once.

mod common;
mod executor;
mod file;
mod http;
mod run;
mod sandbox;
