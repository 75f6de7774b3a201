//! The `ravel` binary.
fn main() {}
