//! The engine of Ravel: shard, committer, timers, limits, inbox, recovery, and their driver.
//!
//! [`Engine`] is the handle that surfaces use. Behind it one thread drives the [`shard`](shard::Shard), a pure machine
//! that owns the runs; the store, the executors and the clock are ports that are given in [`Config`].
//!
//! | to add | touch |
//! |---|---|
//! | a limit | one row in `limits.rs` |
//! | a message of other processes | `ravel_core::port_store::Message`, and what it wants in `driver/calls.rs` |
//! | a clock, an observer, a result cache | one type that implements [`Clock`], [`Observer`], [`cache::ResultCache`] |

pub mod cache;
mod clock;
mod driver;
mod engine;
mod error;
mod feed;
pub mod limiter;
mod limits;
pub mod message;
mod report;
pub mod shard;
pub mod timers;

pub use self::clock::{Clock, ClockMoved, SystemClock, VirtualClock};
pub use self::driver::{Callback, Config, Driver, Graphs, Progress, Status};
pub use self::engine::{Engine, Pending, StartRequest, new_run_id};
pub use self::error::{EngineError, StopReason};
pub use self::feed::{Feed, FeedItem, Observer, Offer};
pub use self::limits::{Limit, LimitError, Limits, table};
pub use self::message::Ending;
