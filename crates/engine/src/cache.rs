//! The result cache of `cache:`: results of `pure` and `read` leaves, kept for a while and given to equal requests.
//!
//! A hit is a decision of the engine, recorded like any outcome, so a replay never asks the cache.

use std::collections::{BTreeMap, HashMap};

use ravel_core::effect::{Effect, Fate, Millis, Outcome};
use ravel_core::port::Job;
use ravel_core::value::Val;

/// BLAKE3 of the request.
pub type CacheKey = [u8; 32];

/// Keeps results. Called from the shard only.
pub trait ResultCache: Send {
    /// The result of an equal request, if it is kept and still good at `now`.
    fn get(&mut self, key: &CacheKey, now: Millis) -> Option<Val>;
    /// Keeps a result until `until`. May forget it at any time.
    fn put(&mut self, key: CacheKey, value: Val, until: Millis);
}

/// The key of a job whose result may be reused: it asks for it, and it changes nothing outside.
#[must_use]
pub fn key_of(job: &Job) -> Option<CacheKey> {
    match (job.cache, job.effect) {
        (Some(_), Effect::Pure | Effect::Read) => {
            let mut hasher = blake3::Hasher::new();
            // The same relative path means another file in another folder.
            serde_json::to_writer(&mut hasher, &(&job.folder, &job.request)).ok()?;
            Some(*hasher.finalize().as_bytes())
        }
        (None, _) | (Some(_), Effect::Write | Effect::Once) => None,
    }
}

/// The value of an outcome that is worth keeping: a plain success.
#[must_use]
pub fn keepable(outcome: &Outcome) -> Option<&Val> {
    match (outcome.fate, &outcome.result) {
        (Fate::Done, Ok(value)) => Some(value),
        (Fate::Done | Fate::NotDone | Fate::Unknown, _) => None,
    }
}

#[derive(Debug)]
struct Entry {
    value: Val,
    until: Millis,
    bytes: u64,
    used: u64,
}

/// A bounded cache in memory that forgets what was not used for longest.
#[derive(Debug)]
pub struct MemoryCache {
    entries: HashMap<CacheKey, Entry>,
    by_use: BTreeMap<u64, CacheKey>,
    uses: u64,
    bytes: u64,
    entries_max: usize,
    bytes_max: u64,
    value_bytes_max: u64,
}

impl MemoryCache {
    /// A cache with these bounds.
    #[must_use]
    pub fn new(entries_max: usize, bytes_max: u64, value_bytes_max: u64) -> Self {
        Self {
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            entries_max,
            bytes_max,
            value_bytes_max: value_bytes_max.min(bytes_max),
        }
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

impl ResultCache for MemoryCache {
    fn get(&mut self, key: &CacheKey, now: Millis) -> Option<Val> {
        let entry = self.entries.get_mut(key)?;
        if entry.until <= now {
            self.remove(key);
            return None;
        }
        self.uses += 1;
        self.by_use.remove(&entry.used);
        entry.used = self.uses;
        self.by_use.insert(entry.used, *key);
        Some(entry.value.clone())
    }

    fn put(&mut self, key: CacheKey, value: Val, until: Millis) {
        let bytes = json_bytes(&value);
        self.remove(&key);
        if bytes > self.value_bytes_max || self.entries_max == 0 {
            return;
        }
        self.uses += 1;
        self.bytes += bytes;
        self.by_use.insert(self.uses, key);
        self.entries.insert(
            key,
            Entry {
                value,
                until,
                bytes,
                used: self.uses,
            },
        );
        while self.entries.len() > self.entries_max || self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_use.first_key_value() else {
                break;
            };
            let oldest = *oldest;
            self.remove(&oldest);
        }
    }
}

/// Length of the value as JSON, counted without building it.
fn json_bytes(value: &Val) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        // What cannot be counted is not kept.
        Err(_) => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(byte: u8) -> CacheKey {
        [byte; 32]
    }

    fn value(text: &str) -> Val {
        Val::new(json!(text))
    }

    #[test]
    fn a_result_is_given_back_until_its_time_is_over() {
        let mut cache = MemoryCache::new(10, 1_000, 100);
        cache.put(key(1), value("a"), 50);
        assert_eq!(cache.get(&key(1), 49), Some(value("a")));
        assert_eq!(cache.get(&key(1), 50), None);
        assert_eq!(
            (cache.bytes, cache.entries.len(), cache.by_use.len()),
            (0, 0, 0)
        );
    }

    #[test]
    fn the_result_that_was_not_used_for_longest_is_forgotten() {
        let mut cache = MemoryCache::new(2, 1_000, 100);
        cache.put(key(1), value("a"), 99);
        cache.put(key(2), value("b"), 99);
        assert_eq!(cache.get(&key(1), 0), Some(value("a")));
        cache.put(key(3), value("c"), 99);
        assert_eq!(
            [1, 2, 3].map(|byte| cache.get(&key(byte), 0).is_some()),
            [true, false, true]
        );
    }

    #[test]
    fn bytes_are_bounded_and_a_large_result_is_not_kept() {
        let mut cache = MemoryCache::new(10, 10, 8);
        cache.put(key(1), value("1234567"), 99);
        assert_eq!(cache.get(&key(1), 0), None, "9 bytes as JSON");
        cache.put(key(2), value("12345"), 99);
        cache.put(key(3), value("12345"), 99);
        assert_eq!(
            [2, 3].map(|byte| cache.get(&key(byte), 0).is_some()),
            [false, true]
        );
    }
}
