//! Notes of hashes in cold tiers some of whose fields expire.
//!
//! A hash in memory owns its [note](FieldNotes). One in a cold tier is bytes, and its place has the
//! note here: from before the record of the key refers to the place, until the place is given up.
//! So such a hash is found when a field's time is over, wherever it lies.

use crate::object::{FieldNote, FieldNotes};
use hashbrown::HashMap;
use nearfield_tiers::Place;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The notes, by the places of their hashes.
#[derive(Debug, Default)]
pub struct ColdNotes {
    /// How many there are, for who finds none.
    count: AtomicUsize,
    notes: Mutex<HashMap<Place, FieldNote>>,
}

impl ColdNotes {
    /// Notes that the first field of the hash of `key` at a place expires at `time_ms`, or later,
    /// and forgets what was noted of the place before.
    pub fn set(&self, place: Place, notes: &Arc<FieldNotes>, time_ms: u64, key: &[u8]) {
        let note = notes.add(time_ms, key);
        let mut notes = self.notes.lock();
        let before = notes.insert(place, note);
        self.count.store(notes.len(), Ordering::Release);
        drop(notes);
        drop(before);
    }

    /// Forgets the note of a place that is given up, if there is one.
    #[inline]
    pub fn remove(&self, place: Place) {
        // Who gives up a place has read of it in the index, where it was put after its note.
        if self.count.load(Ordering::Acquire) > 0 {
            self.take(place);
        }
    }

    #[cold]
    fn take(&self, place: Place) {
        let mut notes = self.notes.lock();
        let note = notes.remove(&place);
        self.count.store(notes.len(), Ordering::Release);
        drop(notes);
        drop(note);
    }

    /// When the first field of the hash at a place expires, or before; `None` if none does.
    pub fn time_ms(&self, place: Place) -> Option<u64> {
        self.notes.lock().get(&place).map(FieldNote::time_ms)
    }

    /// True if there may be fields whose time is over.
    pub fn is_due(&self, place: Place, now_ms: u64) -> bool {
        self.time_ms(place).is_some_and(|time_ms| time_ms <= now_ms)
    }

    /// How many there are. For tests.
    pub fn len(&self) -> usize {
        self.notes.lock().len()
    }

    /// True if there are none. For tests.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
