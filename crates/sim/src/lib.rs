//! Deterministic simulation: the run machine and the engine's shard in a seeded world with a virtual clock, a faulty
//! store and scripted executors.
//!
//! [`Case::random`] makes the world of a seed, [`simulate`] lives it to its end, [`shrink`] cuts a failing one down to
//! what a person can read. The same case gives the same history, byte for byte.
//!
//! What is real here: the language's checker, the run machine, the shard with its limiter, timers, parking, pausing and
//! recovery, and the store in memory with its fences. What is played: the clock, the disk's faults, executors, people.
//! The driver, SQLite and processes are not here; tests of the binary cover those.

mod case;
mod dice;
mod executor;
mod flows;
mod life;
mod shrink;
mod small;
mod watch;
mod world;

pub use case::{Act, Case, Deed, Weather};
pub use shrink::shrink;
pub use small::{Explored, Profile, Small, explore};
pub use world::{History, Violation, simulate};
