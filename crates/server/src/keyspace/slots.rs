//! The slots that store objects. The index stores the number of the slot for the object's key.
//!
//! A slot belongs to one key at a time, and a thread that works on a key holds its stripe (see
//! [`Keyspace`](super::Keyspace)) or has the keyspace to itself; so waits for the lock in each slot
//! are short.
//!
//! Reads of strings hold no stripe. A slot that is given up is therefore not freed at once: a read
//! that found the slot in the index must still find its object there. The slot is *retired*, and
//! freed in the next exclusive phase, when no read is in progress.

use super::Databases;
use crate::object::StoredObject;
use nearfield_tiers::claim::WatchedSlots;
use parking_lot::{Mutex, MutexGuard};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectSlot(u32);

impl ObjectSlot {
    /// Creates the slot of a number.
    pub fn from_number(number: u32) -> ObjectSlot {
        ObjectSlot(number)
    }

    /// Returns the slot's number.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The number of slots of the first segment. Segment `i` has `FIRST << i` slots, so that slots
/// never move.
const FIRST: u32 = 1024;
const SEGMENTS: usize = 22;

// The number after the last slot fits, so that `Vacancies::next` never wraps.
const _: () = assert!((FIRST as u64) << SEGMENTS <= 1 << 32);

type Segment = Box<[Mutex<Option<StoredObject>>]>;

/// All slots of a server.
#[derive(Debug, Default)]
pub struct ObjectSlots {
    segments: [OnceLock<Segment>; SEGMENTS],
    vacancies: Mutex<Vacancies>,
    retired: AtomicUsize,
    /// Slots whose objects are being moved, unless they are changed before that (see
    /// [`moving`](super::moving)).
    watched: WatchedSlots<ObjectSlot>,
}

#[derive(Debug, Default)]
struct Vacancies {
    freed: Vec<u32>,
    retired: Vec<u32>,
    /// The number from which slots have never been used.
    next: u32,
}

impl ObjectSlots {
    /// Creates an empty set of slots.
    pub fn new() -> ObjectSlots {
        ObjectSlots::default()
    }

    /// Puts an object into a free slot. Returns `None` if there are 2^32 already.
    pub fn put(&self, object: StoredObject) -> Option<ObjectSlot> {
        let number = {
            let mut vacancies = self.vacancies.lock();
            match vacancies.freed.pop() {
                Some(number) => number,
                None => {
                    let number = vacancies.next;
                    if locate(number).0 >= SEGMENTS {
                        return None;
                    }
                    vacancies.next += 1;
                    number
                }
            }
        };
        // A mover that watches the slot's former object must not take the new one for it.
        self.watched.changed(ObjectSlot(number));
        let before = self.at(ObjectSlot(number)).lock().replace(object);
        debug_assert!(before.is_none(), "a free slot holds an object");
        Some(ObjectSlot(number))
    }

    /// Opens a slot.
    pub fn open(&self, slot: ObjectSlot) -> MutexGuard<'_, Option<StoredObject>> {
        self.at(slot).lock()
    }

    /// Opens a slot to change its object.
    pub fn open_to_change(&self, slot: ObjectSlot) -> MutexGuard<'_, Option<StoredObject>> {
        let object = self.at(slot).lock();
        // Only with the lock held: a mover that began to watch after the mark could otherwise read
        // the object before it is changed.
        self.watched.changed(slot);
        object
    }

    /// Returns the slots that are watched.
    pub fn watched(&self) -> &WatchedSlots<ObjectSlot> {
        &self.watched
    }

    /// Takes back an object that no key has and that no thread can still find.
    pub fn withdraw(&self, slot: ObjectSlot) -> Option<StoredObject> {
        self.watched.changed(slot);
        let object = self.at(slot).lock().take();
        debug_assert!(object.is_some(), "a slot is withdrawn twice");
        // Only an empty slot is free: another thread may take the number at once.
        self.vacancies.lock().freed.push(slot.0);
        object
    }

    /// Gives up a slot whose key is gone.
    pub fn retire(&self, slot: ObjectSlot) {
        self.watched.changed(slot);
        self.vacancies.lock().retired.push(slot.0);
        self.retired.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of slots that wait to be freed.
    #[inline]
    pub fn retired(&self) -> usize {
        self.retired.load(Ordering::Relaxed)
    }

    /// Frees the slots that were given up, and returns their objects. `_exclusive` shows that the
    /// exclusive phase has not ended yet. Drop the objects after it, because that may take long.
    pub fn reclaim(&self, _exclusive: &mut Databases) -> Vec<StoredObject> {
        let mut vacancies = self.vacancies.lock();
        let retired = std::mem::take(&mut vacancies.retired);
        self.retired.store(0, Ordering::Relaxed);
        let take = |&number: &u32| self.at(ObjectSlot(number)).lock().take();
        let objects: Vec<StoredObject> = retired.iter().filter_map(take).collect();
        // Two keys would get one slot.
        debug_assert_eq!(objects.len(), retired.len(), "a slot was retired twice");
        vacancies.freed.extend(retired);
        objects
    }

    #[expect(clippy::indexing_slicing, reason = "numbers come from `put` alone")]
    fn at(&self, slot: ObjectSlot) -> &Mutex<Option<StoredObject>> {
        let (segment, position) = locate(slot.0);
        let create = || {
            let slots = (FIRST as usize) << segment;
            (0..slots).map(|_| Mutex::new(None)).collect()
        };
        &self.segments[segment].get_or_init(create)[position]
    }
}

fn locate(number: u32) -> (usize, usize) {
    let shifted = u64::from(number) + u64::from(FIRST);
    let segment = (shifted / u64::from(FIRST)).ilog2();
    let position = shifted - (u64::from(FIRST) << segment);
    debug_assert!(position < u64::from(FIRST) << segment);
    (segment as usize, position as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for number in 0..100_000 {
            assert_eq!(locate(number), expected);
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(locate(u32::MAX).0, SEGMENTS);
    }
}
