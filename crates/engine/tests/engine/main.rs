//! The engine on a store in memory, with a scripted world around it and a clock that moves only when told to.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crash;
mod durability;
mod groups;
mod limits;
mod ownership;
mod parking;
mod pausing;
mod people;
mod shard;
mod sqlite;
mod support;
