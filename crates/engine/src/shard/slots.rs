//! Slots: where the shard keeps its runs, and how they move between memory, parked and gone.

use std::sync::Arc;

use ravel_core::mutant::{self, Mutant};

use super::Shard;
use super::live::{Live, Parked, Place};
use crate::message::RunKey;
use crate::timers::Slot;

/// A slot and its tenant.
#[derive(Debug, Default)]
pub(super) struct Berth {
    /// Counts the tenants.
    pub(super) generation: u32,
    pub(super) place: Place,
}

impl Shard {
    pub(super) fn admit(&mut self, run: Arc<str>, place: Place) -> RunKey {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.berths.push(Berth::default());
            Slot::try_from(self.berths.len() - 1)
                .expect("runs in memory and parked are far fewer than 2^32")
        });
        let berth = &mut self.berths[slot as usize];
        let key = RunKey {
            slot,
            generation: berth.generation,
        };
        self.count(&place, 1);
        self.berths[slot as usize].place = place;
        self.by_id.insert(run, key);
        key
    }

    /// Replaces what is in a slot; the tenant stays the same.
    pub(super) fn replace(&mut self, key: RunKey, place: Place) -> Place {
        self.count(&place, 1);
        let old = std::mem::replace(&mut self.berths[key.slot as usize].place, place);
        self.count(&old, -1);
        old
    }

    /// Takes a run out of the shard. Its permits go to those who wait, its reports match nobody any more.
    pub(super) fn vacate(&mut self, key: RunKey) -> Place {
        if self.tenant(key.slot) != Some(key) {
            return Place::Vacant;
        }
        let old = self.replace(key, Place::Vacant);
        let id = match &old {
            Place::Vacant => return old,
            Place::Live(live) => live.run.id(),
            Place::Parked(parked) => &parked.run,
            Place::Waking(waking) => &waking.run,
        };
        self.by_id.remove(id);
        if let Place::Live(live) = &old {
            self.in_flight -= live.flights.len();
            self.dirty_turns -= live.pending.turns.len();
            self.forget_start_key(live.start_key.as_ref(), key);
            let mut granted = Vec::new();
            self.limiter.release_run(key, &mut granted);
            self.queue_granted(&granted);
        }
        self.wakes.set(key.slot, None);
        self.leaves.set(key.slot, None);
        let berth = &mut self.berths[key.slot as usize];
        berth.generation = berth.generation.wrapping_add(1);
        self.vacant.push(key.slot);
        old
    }

    /// From here on the store knows the start key, or nobody does.
    pub(super) fn forget_start_key(&mut self, start_key: Option<&Arc<str>>, key: RunKey) {
        if let Some(start_key) = start_key
            && self.start_keys.get(start_key) == Some(&key)
        {
            self.start_keys.remove(start_key);
        }
    }

    pub(super) fn count(&mut self, place: &Place, by: isize) {
        let counter = match place {
            Place::Vacant => return,
            Place::Live(_) => &mut self.live,
            Place::Parked(_) => &mut self.parked,
            Place::Waking(_) => &mut self.waking,
        };
        *counter = counter
            .checked_add_signed(by)
            .expect("what was counted in is counted out");
    }

    pub(super) fn tenant(&self, slot: Slot) -> Option<RunKey> {
        let berth = self.berths.get(slot as usize)?;
        match berth.place {
            Place::Vacant => None,
            Place::Live(_) | Place::Parked(_) | Place::Waking(_) => Some(RunKey {
                slot,
                generation: berth.generation,
            }),
        }
    }

    pub(super) fn place(&mut self, key: RunKey) -> &mut Place {
        let berth = &mut self.berths[key.slot as usize];
        debug_assert_eq!(
            berth.generation, key.generation,
            "the caller has looked the key up"
        );
        &mut berth.place
    }

    pub(super) fn live_mut(&mut self, key: RunKey) -> Option<&mut Live> {
        let berth = self.berths.get_mut(key.slot as usize)?;
        match &mut berth.place {
            Place::Live(live) if berth.generation == key.generation => Some(live),
            Place::Live(_) | Place::Vacant | Place::Parked(_) | Place::Waking(_) => None,
        }
    }

    /// Parks a run: it stays owned, and leaves memory.
    pub(super) fn park(&mut self, key: RunKey) {
        let Some(live) = self.live_mut(key) else {
            return;
        };
        let parked = Parked {
            run: Arc::clone(live.run.id()),
            owner: live.owner.clone(),
            start_key: live.start_key.clone(),
        };
        let wake_at = live
            .run
            .wake_at()
            .filter(|_| !mutant::is(Mutant::ParkedForEver));
        self.replace(key, Place::Parked(Box::new(parked)));
        self.wakes.set(key.slot, wake_at);
        self.limiter.forget(key);
    }
}
