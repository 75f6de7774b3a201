//! Bounds and defaults of the language, in one place: `ravel limits` prints them.

use crate::effect::Millis;

pub use super::bundle::{BUNDLE_FILES_MAX, DIAGNOSTICS_MAX};
pub use super::tree::{FILE_BYTES_MAX, TREE_DEPTH_MAX, TREE_NODES_MAX};
pub use crate::types::VIOLATIONS_MAX;

/// Largest schema of one type, in bytes of JSON: named types are written out where they are used.
pub const TYPE_SCHEMA_BYTES_MAX: usize = 1 << 20;
/// One attempt of a leaf, unless its kind, the flow or the step says otherwise.
pub const TIMEOUT_DEFAULT_MS: Millis = 60_000;
/// One attempt of a model call: slow local models are models, too.
pub const TIMEOUT_MODEL_MS: Millis = 10 * 60_000;
/// One attempt of a process.
pub const TIMEOUT_RUN_MS: Millis = 30 * 60_000;
/// First pause between tries.
pub const BACKOFF_MIN_MS: Millis = 1_000;
/// Longest pause between tries.
pub const BACKOFF_MAX_MS: Millis = 30_000;
/// Tries of a model call.
pub const ATTEMPTS_MODEL: u32 = 4;
/// Tries of a tool call.
pub const ATTEMPTS_TOOL: u32 = 3;
/// Output tokens of a model call.
pub const MAX_TOKENS_DEFAULT: u32 = 4_096;
/// CPU seconds of a process.
pub const CPU_SECONDS_DEFAULT: u64 = 3_600;
/// Address space of a process, bytes. Runtimes reserve far more than they use.
pub const MEMORY_BYTES_DEFAULT: u64 = 64 << 30;
/// Least memory of a process, bytes: below it nothing starts.
pub const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// Bytes that stdout of a process may hold, and that are kept of stderr.
pub const OUTPUT_BYTES_DEFAULT: u64 = 8 << 20;
/// Largest file that a process may write, bytes.
pub const FILE_BYTES_DEFAULT: u64 = 8 << 30;
/// Deepest nesting of a call of a flow that does not say.
pub const CALL_DEPTH_DEFAULT: u32 = 16;
