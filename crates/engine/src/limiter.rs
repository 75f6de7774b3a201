//! The limiter: permits for `concurrency: {key, max}` over all runs of the process.
//!
//! `Asked --all keys have room--> Held --released--> gone`, else `Asked --> Waiting --room, in turn--> Held`.
//!
//! * All permits of an attempt are taken at once, so nobody holds one permit while waiting for another: no deadlock.
//!   Only attempts hold permits, so a scope's permit never waits for its own child.
//! * Different `max` for one key: the smallest among those that hold or wait now is in force.
//! * Order: higher priority first, then fair by run (each run's requests are spread as if runs took turns), then age.
//! * A request is granted when on each of its keys more room is left than earlier requests wait for. So a request for
//!   two busy keys is not overtaken for ever, and room that no earlier request needs is not left empty.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ravel_core::event::Attempt;
use ravel_core::mutant::{self, Mutant};

use crate::message::RunKey;

/// Who asks for permits: an attempt of a run in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The run.
    pub run: RunKey,
    /// The attempt.
    pub attempt: Attempt,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All permits are held.
    Granted,
    /// It waits; a later release grants it.
    Waiting,
    /// Too many wait already.
    Full,
}

/// Place in every queue of a request. Smaller is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    priority: Reverse<i32>,
    tag: u64,
    age: u64,
}

#[derive(Debug)]
struct Request {
    permits: Box<[(Arc<str>, u32)]>,
    order: Order,
    held: bool,
}

#[derive(Debug, Default)]
struct Key {
    in_use: u32,
    /// How often each `max` is wished among those that hold or wait.
    maxes: BTreeMap<u32, u32>,
    queue: BTreeMap<Order, Claim>,
}

impl Key {
    fn max(&self) -> u32 {
        self.maxes.first_key_value().map_or(0, |(max, _)| *max)
    }

    fn room(&self) -> usize {
        let max = self.max() + u32::from(mutant::is(Mutant::PermitBeyondMax));
        max.saturating_sub(self.in_use) as usize
    }
}

/// What one key looks like now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The key.
    pub key: Arc<str>,
    /// Permits held.
    pub in_use: u32,
    /// The smallest `max` among those that hold or wait.
    pub max: u32,
    /// Requests that wait.
    pub waiting: usize,
}

/// Permits by key.
#[derive(Debug)]
pub struct Limiter {
    keys: HashMap<Arc<str>, Key>,
    requests: HashMap<Claim, Request>,
    waiting: usize,
    waiting_max: usize,
    /// Tag of the latest grant: where a run that asks for the first time joins the rota.
    now_tag: u64,
    last_tag: HashMap<RunKey, u64>,
    age: u64,
}

impl Limiter {
    /// A limiter that lets at most `waiting_max` requests wait.
    #[must_use]
    pub fn new(waiting_max: usize) -> Self {
        Self {
            keys: HashMap::new(),
            requests: HashMap::new(),
            waiting: 0,
            waiting_max,
            now_tag: 0,
            last_tag: HashMap::new(),
            age: 0,
        }
    }

    /// Asks for all of `permits` at once. A `max` of 0 counts as 1: a limit slows down, it never drops.
    pub fn ask(&mut self, claim: Claim, permits: &[(Arc<str>, u32)], priority: i32) -> Asked {
        if self.waiting >= self.waiting_max {
            return Asked::Full;
        }
        let permits = merged(permits);
        let order = self.next_order(claim.run, priority);
        for (key, max) in &permits {
            let entry = self.keys.entry(Arc::clone(key)).or_default();
            *entry.maxes.entry(*max).or_default() += 1;
            entry.queue.insert(order, claim);
        }
        self.waiting += 1;
        self.requests.insert(
            claim,
            Request {
                permits,
                order,
                held: false,
            },
        );
        if self.try_grant(claim) {
            Asked::Granted
        } else {
            Asked::Waiting
        }
    }

    /// Gives back what an attempt holds or takes its wish away. Requests that can be granted now are added to
    /// `granted`, in order.
    pub fn release(&mut self, claim: Claim, granted: &mut Vec<Claim>) {
        let Some(request) = self.requests.remove(&claim) else {
            return;
        };
        if !request.held {
            self.waiting -= 1;
        }
        for (key, max) in &request.permits {
            let Some(entry) = self.keys.get_mut(key) else {
                continue;
            };
            if request.held {
                entry.in_use -= 1;
            } else {
                entry.queue.remove(&request.order);
            }
            if let Some(count) = entry.maxes.get_mut(max) {
                *count -= 1;
                if *count == 0 {
                    entry.maxes.remove(max);
                }
            }
            if entry.maxes.is_empty() {
                self.keys.remove(key);
            }
        }
        for (key, _) in &request.permits {
            self.grant_waiting(key, granted);
        }
    }

    /// Gives back all that a run holds or wishes for, and forgets it.
    pub fn release_run(&mut self, run: RunKey, granted: &mut Vec<Claim>) {
        if !self.requests.is_empty() {
            let mut claims: Vec<Claim> = self
                .requests
                .keys()
                .filter(|claim| claim.run == run)
                .copied()
                .collect();
            claims.sort_by_key(|claim| claim.attempt);
            for claim in claims {
                self.release(claim, granted);
            }
            granted.retain(|claim| claim.run != run);
        }
        self.forget(run);
    }

    /// Forgets a run's place in the rota. Its requests are to be released first.
    pub fn forget(&mut self, run: RunKey) {
        self.last_tag.remove(&run);
    }

    /// Requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// All keys in use, by name.
    #[must_use]
    pub fn usage(&self) -> Vec<KeyUse> {
        let mut all: Vec<KeyUse> = self
            .keys
            .iter()
            .map(|(key, entry)| KeyUse {
                key: Arc::clone(key),
                in_use: entry.in_use,
                max: entry.max(),
                waiting: entry.queue.len(),
            })
            .collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }

    fn next_order(&mut self, run: RunKey, priority: i32) -> Order {
        let last = self.last_tag.entry(run).or_insert(self.now_tag);
        *last = (*last).max(self.now_tag) + 1;
        self.age += 1;
        Order {
            priority: Reverse(priority),
            tag: *last,
            age: self.age,
        }
    }

    /// Grants waiting requests of a key: one pass over as many of the earliest as the key has room for.
    fn grant_waiting(&mut self, key: &str, granted: &mut Vec<Claim>) {
        let Some(entry) = self.keys.get(key) else {
            return;
        };
        let candidates: Vec<Claim> = entry.queue.values().take(entry.room()).copied().collect();
        for claim in candidates {
            if self.try_grant(claim) {
                granted.push(claim);
            }
        }
    }

    fn try_grant(&mut self, claim: Claim) -> bool {
        let Some(request) = self.requests.get_mut(&claim) else {
            return false;
        };
        let fits = request.permits.iter().all(|(key, _)| {
            self.keys.get(key).is_some_and(|entry| {
                let room = entry.room();
                entry.queue.range(..request.order).take(room).count() < room
            })
        });
        if !fits {
            return false;
        }
        request.held = true;
        self.now_tag = self.now_tag.max(request.order.tag);
        self.waiting -= 1;
        for (key, _) in &request.permits {
            if let Some(entry) = self.keys.get_mut(key) {
                entry.queue.remove(&request.order);
                entry.in_use += 1;
            }
        }
        true
    }
}

/// Each key once, with the smallest of its `max`, none of them 0.
fn merged(permits: &[(Arc<str>, u32)]) -> Box<[(Arc<str>, u32)]> {
    let mut all: Vec<(Arc<str>, u32)> = permits
        .iter()
        .map(|(key, max)| (Arc::clone(key), (*max).max(1)))
        .collect();
    all.sort();
    all.dedup_by(|later, first| later.0 == first.0);
    all.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(run: u32, node: u32) -> Claim {
        Claim {
            run: RunKey {
                slot: run,
                generation: 0,
            },
            attempt: Attempt { node, number: 1 },
        }
    }

    fn permits(list: &[(&str, u32)]) -> Vec<(Arc<str>, u32)> {
        list.iter()
            .map(|(key, max)| (Arc::from(*key), *max))
            .collect()
    }

    fn release(limiter: &mut Limiter, claim: Claim) -> Vec<Claim> {
        let mut granted = Vec::new();
        limiter.release(claim, &mut granted);
        granted
    }

    #[test]
    fn the_peak_is_the_limit_and_each_request_is_granted_once() {
        for max in [1_u32, 2, 16] {
            let mut limiter = Limiter::new(10_000);
            let mut held: Vec<Claim> = Vec::new();
            let mut seen = Vec::new();
            for node in 0..1_000 {
                if limiter.ask(claim(0, node), &permits(&[("k", max)]), 0) == Asked::Granted {
                    held.push(claim(0, node));
                }
            }
            let mut peak = held.len();
            while let Some(first) = held.first().copied() {
                held.remove(0);
                seen.push(first.attempt.node);
                held.extend(release(&mut limiter, first));
                peak = peak.max(held.len());
            }
            assert_eq!((peak, seen), (max as usize, (0..1_000).collect::<Vec<_>>()));
            assert_eq!((limiter.usage(), limiter.waiting()), (vec![], 0));
        }
    }

    #[test]
    fn permits_are_taken_all_at_once_and_a_waiter_for_two_keys_is_not_overtaken_for_ever() {
        let mut limiter = Limiter::new(100);
        assert_eq!(
            limiter.ask(claim(0, 1), &permits(&[("a", 1)]), 0),
            Asked::Granted
        );
        assert_eq!(
            limiter.ask(claim(1, 1), &permits(&[("a", 1), ("b", 1)]), 0),
            Asked::Waiting
        );
        // `b` is free, but the earlier request needs it as well.
        assert_eq!(
            limiter.ask(claim(2, 1), &permits(&[("b", 1)]), -1),
            Asked::Waiting
        );
        assert_eq!(release(&mut limiter, claim(0, 1)), vec![claim(1, 1)]);
        assert_eq!(release(&mut limiter, claim(1, 1)), vec![claim(2, 1)]);
    }

    #[test]
    fn room_that_no_earlier_request_needs_is_used() {
        let mut limiter = Limiter::new(100);
        assert_eq!(
            limiter.ask(claim(0, 1), &permits(&[("a", 1)]), 0),
            Asked::Granted
        );
        assert_eq!(
            limiter.ask(claim(1, 1), &permits(&[("a", 1), ("b", 2)]), 0),
            Asked::Waiting
        );
        assert_eq!(
            limiter.ask(claim(2, 1), &permits(&[("b", 2)]), 0),
            Asked::Granted
        );
    }

    #[test]
    fn priority_goes_first_then_runs_take_turns() {
        let mut limiter = Limiter::new(100);
        assert_eq!(
            limiter.ask(claim(0, 0), &permits(&[("k", 1)]), 0),
            Asked::Granted
        );
        for node in 1..4 {
            limiter.ask(claim(0, node), &permits(&[("k", 1)]), 0);
        }
        for node in 1..3 {
            limiter.ask(claim(1, node), &permits(&[("k", 1)]), 0);
        }
        limiter.ask(claim(2, 1), &permits(&[("k", 1)]), 5);
        let mut order = Vec::new();
        let mut holder = claim(0, 0);
        while let Some(next) = release(&mut limiter, holder).pop() {
            order.push((next.run.slot, next.attempt.node));
            holder = next;
        }
        assert_eq!(order, vec![(2, 1), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3)]);
    }

    #[test]
    fn of_two_limits_for_one_key_the_smaller_live_one_is_in_force() {
        let mut limiter = Limiter::new(100);
        assert_eq!(
            limiter.ask(claim(0, 1), &permits(&[("k", 3)]), 0),
            Asked::Granted
        );
        assert_eq!(
            limiter.ask(claim(1, 1), &permits(&[("k", 1)]), 0),
            Asked::Waiting
        );
        assert_eq!(
            limiter.ask(claim(0, 2), &permits(&[("k", 3)]), 0),
            Asked::Waiting
        );
        assert_eq!(
            limiter.usage(),
            vec![KeyUse {
                key: "k".into(),
                in_use: 1,
                max: 1,
                waiting: 2
            }],
            "the request for 1 is live"
        );
        assert_eq!(
            release(&mut limiter, claim(1, 1)),
            vec![claim(0, 2)],
            "and gone with it"
        );
    }

    #[test]
    fn a_key_named_twice_counts_once_and_a_max_of_zero_counts_as_one() {
        let mut limiter = Limiter::new(100);
        assert_eq!(
            limiter.ask(claim(0, 1), &permits(&[("k", 0), ("k", 7)]), 0),
            Asked::Granted
        );
        assert_eq!(
            limiter.usage(),
            vec![KeyUse {
                key: "k".into(),
                in_use: 1,
                max: 1,
                waiting: 0
            }]
        );
    }

    #[test]
    fn more_waiters_than_the_bound_are_refused() {
        let mut limiter = Limiter::new(1);
        assert_eq!(
            limiter.ask(claim(0, 1), &permits(&[("k", 1)]), 0),
            Asked::Granted
        );
        assert_eq!(
            limiter.ask(claim(0, 2), &permits(&[("k", 1)]), 0),
            Asked::Waiting
        );
        assert_eq!(
            limiter.ask(claim(0, 3), &permits(&[("k", 1)]), 0),
            Asked::Full
        );
    }
}
