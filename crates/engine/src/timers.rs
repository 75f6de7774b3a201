//! Timers: at most one wake-up for each slot, found in order of time.
//!
//! A run moves its wake-up at nearly every turn, mostly to a later time. So the heap is lazy: a slot keeps the entry
//! that it has when the wish moves back, and is put back when that entry comes up too early. A wish that moves forward
//! leaves a stale entry behind, which is skipped; the heap is rebuilt when stale entries outnumber the slots.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ravel_core::effect::Millis;

/// Index of something that can be woken: small and dense, reused after it is cleared.
pub type Slot = u32;

/// Heap entries beyond twice the slots before the heap is rebuilt.
const STALE_SLACK: usize = 1_024;

#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    /// When the slot is to be woken.
    at: Option<Millis>,
    /// The heap entry that stands for it: never later than `at`.
    queued: Option<Millis>,
}

/// Wake-ups by slot.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Millis, Slot)>>,
    wishes: Vec<Wish>,
    wanted: usize,
}

impl Timers {
    /// Sets, moves or clears the wake-up of a slot.
    pub fn set(&mut self, slot: Slot, at: Option<Millis>) {
        let index = slot as usize;
        if index >= self.wishes.len() {
            if at.is_none() {
                return;
            }
            self.wishes.resize(index + 1, Wish::default());
        }
        let wish = &mut self.wishes[index];
        self.wanted = self.wanted + usize::from(at.is_some()) - usize::from(wish.at.is_some());
        wish.at = at;
        let Some(at) = at else { return };
        if wish.queued.is_none_or(|queued| queued > at) {
            wish.queued = Some(at);
            self.heap.push(Reverse((at, slot)));
            self.rebuild_when_stale();
        }
    }

    /// Takes out one slot that is due at `now`. Its wake-up is cleared.
    pub fn pop_due(&mut self, now: Millis) -> Option<Slot> {
        self.settle_top();
        let &Reverse((at, slot)) = self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        self.wishes[slot as usize] = Wish::default();
        self.wanted -= 1;
        Some(slot)
    }

    /// The earliest wake-up.
    pub fn earliest(&mut self) -> Option<Millis> {
        self.settle_top();
        self.heap.peek().map(|&Reverse((at, _))| at)
    }

    /// Brings an entry to the top that says what its slot really wants.
    fn settle_top(&mut self) {
        while let Some(&Reverse((at, slot))) = self.heap.peek() {
            let wish = &mut self.wishes[slot as usize];
            if wish.queued != Some(at) {
                self.heap.pop();
                continue;
            }
            match wish.at {
                Some(wanted) if wanted == at => return,
                Some(wanted) => {
                    wish.queued = Some(wanted);
                    self.heap.pop();
                    self.heap.push(Reverse((wanted, slot)));
                }
                None => {
                    wish.queued = None;
                    self.heap.pop();
                }
            }
        }
    }

    fn rebuild_when_stale(&mut self) {
        if self.heap.len() <= 2 * self.wanted + STALE_SLACK {
            return;
        }
        let mut entries = Vec::with_capacity(self.wanted);
        for (slot, wish) in (0..).zip(&mut self.wishes) {
            wish.queued = wish.at;
            entries.extend(wish.at.map(|at| Reverse((at, slot))));
        }
        self.heap = BinaryHeap::from(entries);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn drain(timers: &mut Timers, now: Millis) -> Vec<Slot> {
        std::iter::from_fn(|| timers.pop_due(now)).collect()
    }

    #[test]
    fn a_wake_up_fires_once_at_its_time_and_not_before() {
        let mut timers = Timers::default();
        timers.set(3, Some(20));
        timers.set(1, Some(10));
        assert_eq!(timers.earliest(), Some(10));
        assert_eq!(drain(&mut timers, 9), Vec::<Slot>::new());
        assert_eq!(drain(&mut timers, 20), vec![1, 3]);
        assert_eq!((timers.earliest(), drain(&mut timers, 99)), (None, vec![]));
    }

    #[test]
    fn a_wake_up_that_moves_fires_at_the_new_time_only() {
        let mut timers = Timers::default();
        timers.set(0, Some(10));
        timers.set(0, Some(30));
        assert_eq!(
            (timers.earliest(), drain(&mut timers, 10)),
            (Some(30), vec![])
        );
        timers.set(0, Some(20));
        assert_eq!(drain(&mut timers, 20), vec![0]);
        assert_eq!(drain(&mut timers, 99), Vec::<Slot>::new());
        timers.set(0, Some(40));
        timers.set(0, None);
        assert_eq!((timers.earliest(), drain(&mut timers, 99)), (None, vec![]));
    }

    #[test]
    fn wake_ups_that_only_move_forward_do_not_grow_the_heap_without_bound() {
        let mut timers = Timers::default();
        for step in 0..100_000_u64 {
            timers.set(0, Some(1_000_000 - step));
        }
        assert!(timers.heap.len() <= 2 + STALE_SLACK);
        assert_eq!(timers.earliest(), Some(900_001));
    }

    #[test]
    fn any_order_of_changes_fires_what_a_plain_map_would() {
        let mut timers = Timers::default();
        let mut model = BTreeMap::<Slot, Millis>::new();
        let mut seed = 7_u64;
        for now in 0..20_000_u64 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let slot = u32::try_from(seed >> 33 & 15).unwrap();
            let at = now + (seed >> 40 & 63);
            if seed >> 60 == 0 {
                timers.set(slot, None);
                model.remove(&slot);
            } else {
                timers.set(slot, Some(at));
                model.insert(slot, at);
            }
            assert_eq!(timers.earliest(), model.values().min().copied());
            let mut fired = drain(&mut timers, now);
            fired.sort_unstable();
            let due: Vec<Slot> = model
                .iter()
                .filter(|(_, at)| **at <= now)
                .map(|(slot, _)| *slot)
                .collect();
            model.retain(|_, at| *at > now);
            assert_eq!(fired, due);
        }
    }
}
