//! The limiter of a case: permits by key, taken all at once, in order of priority and then of the wish.

use std::collections::BTreeMap;
use std::sync::Arc;

use ravel_core::event::Attempt;

/// Keys and the most attempts at once under each.
type Keys = Vec<(Arc<str>, u32)>;

#[derive(Debug)]
struct Wish {
    attempt: Attempt,
    keys: Keys,
    priority: i32,
}

/// Permits that are held and wished for.
#[derive(Debug, Default)]
pub(super) struct Permits {
    held: BTreeMap<Attempt, Keys>,
    wishes: Vec<Wish>,
    /// The most that was held at once under each key.
    pub(super) peak: BTreeMap<Arc<str>, u32>,
}

impl Permits {
    pub(super) fn wish(&mut self, attempt: Attempt, keys: Keys, priority: i32) {
        self.wishes.push(Wish {
            attempt,
            keys,
            priority,
        });
    }

    pub(super) fn give_back(&mut self, attempt: Attempt) {
        self.held.remove(&attempt);
        self.wishes.retain(|wish| wish.attempt != attempt);
    }

    /// The engine that gave them is lost.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.wishes.clear();
    }

    /// Grants the first wish that fits.
    pub(super) fn next(&mut self) -> Option<Attempt> {
        let fits = |wish: &&Wish| {
            wish.keys
                .iter()
                .all(|key| self.used(&key.0) < self.most(key))
        };
        let fitting = self.wishes.iter().filter(fits);
        // Of equal priority the first wish, which `max_by_key` would not give.
        let highest = fitting.clone().map(|wish| wish.priority).max()?;
        let attempt = fitting
            .into_iter()
            .find(|wish| wish.priority == highest)?
            .attempt;
        let position = self
            .wishes
            .iter()
            .position(|wish| wish.attempt == attempt)?;
        let wish = self.wishes.remove(position);
        self.held.insert(attempt, wish.keys.clone());
        for (key, _) in wish.keys {
            let used = self.used(&key);
            let peak = self.peak.entry(key).or_default();
            *peak = (*peak).max(used);
        }
        Some(attempt)
    }

    fn used(&self, key: &str) -> u32 {
        let keys = self.held.values().flatten();
        keys.filter(|(other, _)| **other == *key).count() as u32
    }

    /// Of conflicting limits under a key the smallest live one holds.
    fn most(&self, (key, max): &(Arc<str>, u32)) -> u32 {
        let wished = self.wishes.iter().flat_map(|wish| &wish.keys);
        let live = self.held.values().flatten().chain(wished);
        let others = live.filter(|(other, _)| other == key).map(|(_, max)| *max);
        others.min().unwrap_or(*max).min(*max)
    }
}
