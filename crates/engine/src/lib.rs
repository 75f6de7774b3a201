//! The engine of Ravel: shard, committer, timers, limits, inbox, recovery, and their driver.
