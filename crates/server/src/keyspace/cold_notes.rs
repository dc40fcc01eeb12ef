//! The notes of hashes in cold tiers that have fields which expire.
//!
//! A hash in memory owns its [note](FieldNotes). A hash in a cold tier is plain bytes, so the note
//! of its place is kept here. It exists from before the record of the key refers to the place until
//! the place is given up. A hash with expired fields is thus found in every tier.

use crate::object::{FieldNote, FieldNotes};
use hashbrown::HashMap;
use nearfield_tiers::ColdPlace;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The notes, by the places of their hashes.
#[derive(Debug, Default)]
pub struct ColdNotes {
    /// Number of notes, read without the lock: most calls find none.
    count: AtomicUsize,
    notes: Mutex<HashMap<ColdPlace, ColdNote>>,
}

#[derive(Debug)]
struct ColdNote {
    /// The time at which the first field of the hash expires, or before.
    time_ms: u64,
    /// The note that leads to the hash, which is later if the hash could not be read.
    note: FieldNote,
}

impl ColdNotes {
    /// Notes that the first field of the hash of `key` at a place expires at `time_ms` or later.
    /// Replaces an earlier note of the place.
    pub fn set(&self, place: ColdPlace, notes: &Arc<FieldNotes>, time_ms: u64, key: &[u8]) {
        let note = notes.add(time_ms, key);
        let note = ColdNote { time_ms, note };
        let mut notes = self.notes.lock();
        debug_assert_eq!(self.count.load(Ordering::Relaxed), notes.len());
        let before = notes.insert(place, note);
        self.count.store(notes.len(), Ordering::Release);
        // The drop of a note takes the lock of its database's notes.
        drop(notes);
        drop(before);
    }

    /// Moves the note of the hash of `key` at a place, which cannot be read, to `until_ms`. The
    /// fields of the hash are due as before. Returns false if the place has no note.
    pub fn postpone(
        &self,
        place: ColdPlace,
        notes: &Arc<FieldNotes>,
        until_ms: u64,
        key: &[u8],
    ) -> bool {
        let mut note = notes.add(until_ms, key);
        let mut notes = self.notes.lock();
        let noted = notes.get_mut(&place);
        let is_noted = noted.is_some();
        noted
            .into_iter()
            .for_each(|noted| std::mem::swap(&mut noted.note, &mut note));
        // The drop of a note takes the lock of its database's notes.
        drop(notes);
        drop(note);
        is_noted
    }

    /// Removes the note of a place that is given up, if there is one.
    #[inline]
    pub fn remove(&self, place: ColdPlace) {
        // A thread that gives up a place has found it in the index, where it was put after its
        // note.
        if self.count.load(Ordering::Acquire) > 0 {
            self.take(place);
        }
    }

    #[cold]
    fn take(&self, place: ColdPlace) {
        let mut notes = self.notes.lock();
        debug_assert_eq!(self.count.load(Ordering::Relaxed), notes.len());
        let note = notes.remove(&place);
        self.count.store(notes.len(), Ordering::Release);
        drop(notes);
        drop(note);
    }

    /// Returns when the first field of the hash at the place expires, or a time before that; `None`
    /// if no field expires.
    pub fn time_ms(&self, place: ColdPlace) -> Option<u64> {
        self.notes.lock().get(&place).map(|noted| noted.time_ms)
    }

    /// Returns true if there may be expired fields.
    pub fn is_due(&self, place: ColdPlace, now_ms: u64) -> bool {
        self.time_ms(place).is_some_and(|time_ms| time_ms <= now_ms)
    }

    /// Returns the number of notes. For tests.
    pub fn len(&self) -> usize {
        self.notes.lock().len()
    }

    /// Returns true if there are no notes. For tests.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
