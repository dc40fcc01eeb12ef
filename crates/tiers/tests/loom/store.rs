//! A small model of a store: one key, with a value in a place of a tier or in a slot.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Mutex, RwLock};
use nearfield_tiers::claim::{self, ClaimTarget, Holds, MoveClaim, RetiredList, WatchedSlots};

/// The index's record of the key: absent, or the position of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoomClaimRecord(usize);

impl LoomClaimRecord {
    const ABSENT: LoomClaimRecord = LoomClaimRecord(0);
    /// The record of a value in the slot.
    pub const SLOT: LoomClaimRecord = LoomClaimRecord(1);
    /// The record of a value in the first place.
    pub const PLACE: LoomClaimRecord = LoomClaimRecord(2);

    fn place(number: usize) -> LoomClaimRecord {
        LoomClaimRecord(LoomClaimRecord::PLACE.0 + number)
    }

    fn outside(self) -> Option<ClaimTarget<usize, usize>> {
        match self {
            LoomClaimRecord::ABSENT => None,
            LoomClaimRecord::SLOT => Some(ClaimTarget::Slot(0)),
            LoomClaimRecord(number) => Some(ClaimTarget::Place(number - LoomClaimRecord::PLACE.0)),
        }
    }
}

/// The step that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// The record is published before the value is whole in its new place.
    PublishedEarly,
    /// Retired memory is freed though readers may use it.
    FreedAtOnce,
    /// The new record replaces any other.
    NotCompared,
    /// The old place is not held while the value moves.
    NotHeld,
    /// The mover does not check if the object was changed.
    NotWatched,
    /// The new place is not released when a move is abandoned.
    Lost,
}

/// Number of places of tiers.
const PLACES: usize = 3;
/// Content of a place that was released.
const FREE: usize = usize::MAX;

/// The two halves of a value in a place, which are written one after the other.
#[derive(Debug)]
struct LoomValueCell {
    halves: [AtomicUsize; 2],
}

impl LoomValueCell {
    fn new(value: usize) -> LoomValueCell {
        let half = || AtomicUsize::new(value);
        LoomValueCell {
            halves: [half(), half()],
        }
    }

    fn set(&self, value: usize) {
        for half in &self.halves {
            half.store(value, Ordering::Relaxed);
        }
    }

    fn get(&self) -> usize {
        let [one, other] = [0, 1].map(|half: usize| self.halves[half].load(Ordering::Relaxed));
        assert_eq!(one, other, "a value that is not whole");
        assert_ne!(one, FREE, "an abandoned place");
        one
    }
}

/// The model.
#[derive(Debug)]
pub struct LoomClaimStore {
    flaw: Flaw,
    phase: RwLock<()>,
    /// The lock of the key.
    stripe: Mutex<()>,
    index: AtomicUsize,
    places: [LoomValueCell; PLACES],
    /// The free places.
    free: Mutex<Vec<usize>>,
    slot: Mutex<usize>,
    watched: WatchedSlots<usize>,
    holds: Holds<usize, ()>,
    retired: RetiredList<ClaimTarget<usize, usize>>,
}

impl claim::ClaimStore for LoomClaimStore {
    type Slot = usize;
    type Place = usize;

    fn watched(&self) -> &WatchedSlots<usize> {
        &self.watched
    }

    fn hold(&self, place: usize) {
        if self.flaw != Flaw::NotHeld {
            self.holds.hold(place);
        }
    }

    fn release_hold(&self, place: usize) {
        if self.holds.release_hold(place) {
            self.release(place);
        }
    }

    fn retire(&self, outside: ClaimTarget<usize, usize>) {
        match outside {
            ClaimTarget::Place(place) if self.flaw == Flaw::FreedAtOnce => self.give_up(place),
            ClaimTarget::Place(_) => self.retired.add(outside),
            ClaimTarget::Slot(slot) => {
                self.watched.changed(slot);
                self.retired.add(outside);
            }
        }
    }
}

impl LoomClaimStore {
    pub fn new(record: LoomClaimRecord, value: usize, flaw: Flaw) -> LoomClaimStore {
        let in_place = record == LoomClaimRecord::PLACE;
        LoomClaimStore {
            flaw,
            phase: RwLock::new(()),
            stripe: Mutex::new(()),
            index: AtomicUsize::new(record.0),
            places: [0, 1, 2].map(|place| {
                let is_first = in_place && place == 0;
                LoomValueCell::new(if is_first { value } else { FREE })
            }),
            free: Mutex::new((usize::from(in_place)..PLACES).rev().collect()),
            slot: Mutex::new(value),
            watched: WatchedSlots::default(),
            holds: Holds::default(),
            retired: RetiredList::default(),
        }
    }

    fn put(&self, value: usize) -> usize {
        let place = self.free.lock().expect("a lock").pop().expect("a place");
        self.places[place].set(value);
        place
    }

    fn release(&self, place: usize) {
        self.places[place].set(FREE);
        let mut free = self.free.lock().expect("a lock");
        assert!(!free.contains(&place), "released twice");
        free.push(place);
    }

    fn give_up(&self, place: usize) {
        if self.holds.give_up(place) {
            self.release(place);
        }
    }

    fn record(&self) -> LoomClaimRecord {
        LoomClaimRecord(self.index.load(Ordering::Acquire))
    }

    fn value_of(&self, record: LoomClaimRecord) -> Option<usize> {
        record.outside().map(|outside| match outside {
            ClaimTarget::Place(place) => self.places[place].get(),
            ClaimTarget::Slot(_) => *self.slot.lock().expect("a lock"),
        })
    }

    /// Reads the value as a reader without the key's lock.
    pub fn read(&self) -> Option<usize> {
        let _phase = self.phase.read().expect("a phase");
        self.value_of(self.record())
    }

    /// Claims the value, and reads it.
    pub fn claim(&self) -> Option<(MoveClaim<'_, LoomClaimStore>, LoomClaimRecord, usize)> {
        let _phase = self.phase.read().expect("a phase");
        let record = self.record();
        let claim = MoveClaim::take(self, record.outside());
        let value = self.value_of(record)?;
        Some((claim, record, value))
    }

    /// Moves the value to another place.
    pub fn move_value(&self) {
        let Some((claim, old, value)) = self.claim() else {
            return;
        };
        let place = match self.flaw {
            Flaw::PublishedEarly => self.free.lock().expect("a lock").pop().expect("a place"),
            _ => self.put(value),
        };
        let _phase = self.phase.read().expect("a phase");
        let stripe = self.stripe.lock().expect("a lock");
        let replace = || {
            let (old, new) = (old.0, LoomClaimRecord::place(place).0);
            if self.flaw == Flaw::NotCompared {
                self.index.store(new, Ordering::Release);
                return Ok::<bool, ()>(true);
            }
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let swapped = self.index.compare_exchange(old, new, order.0, order.1);
            Ok(swapped.is_ok())
        };
        let published = match self.flaw {
            Flaw::NotWatched => replace(),
            _ => claim.publish(replace),
        };
        match published {
            Ok(true) if self.flaw == Flaw::PublishedEarly => self.places[place].set(value),
            Ok(false) if self.flaw != Flaw::Lost => self.release(place),
            _ => {}
        }
        // As in the store, the claim ends within the phase.
        drop(claim);
        drop(stripe);
    }

    /// Replaces the key's record. The caller holds the key's lock.
    fn replace(&self, record: LoomClaimRecord) {
        let old = LoomClaimRecord(self.index.swap(record.0, Ordering::AcqRel));
        if let Some(outside) = old.outside() {
            claim::ClaimStore::retire(self, outside);
        }
    }

    /// Overwrites the key with a value in a tier, after retired memory was freed: the new value may
    /// reuse the old place.
    pub fn overwrite(&self, value: usize) {
        self.delete();
        self.free();
        let place = self.put(value);
        let _phase = self.phase.read().expect("a phase");
        let _stripe = self.stripe.lock().expect("a lock");
        self.replace(LoomClaimRecord::place(place));
    }

    /// Changes the object in its slot, or brings it back there first.
    pub fn change(&self, value: usize) {
        let _phase = self.phase.read().expect("a phase");
        let _stripe = self.stripe.lock().expect("a lock");
        if self.record() == LoomClaimRecord::SLOT {
            let mut slot = self.slot.lock().expect("a lock");
            self.watched.changed(0);
            *slot = value;
            return;
        }
        let place = self.put(value);
        self.replace(LoomClaimRecord::place(place));
    }

    pub fn delete(&self) {
        let _phase = self.phase.read().expect("a phase");
        let _stripe = self.stripe.lock().expect("a lock");
        self.replace(LoomClaimRecord::ABSENT);
    }

    /// Frees what was retired.
    pub fn free(&self) {
        let taken = {
            let _phase = self.phase.write().expect("a phase");
            self.retired.take()
        };
        for outside in taken {
            match outside {
                ClaimTarget::Place(place) => self.give_up(place),
                ClaimTarget::Slot(_) => *self.slot.lock().expect("a lock") = FREE,
            }
        }
    }

    /// Checks that each place is free or has the value of the key, and that nothing is held.
    pub fn check_accounts(&self) {
        assert_eq!(self.retired.count(), 0);
        let free = self.free.lock().expect("a lock").len();
        let used = match self.record().outside() {
            Some(ClaimTarget::Place(_)) => 1,
            Some(ClaimTarget::Slot(_)) | None => 0,
        };
        assert_eq!(free + used, PLACES, "a place is lost");
        assert!(self.watched.is_empty() && self.holds.is_empty());
    }
}
