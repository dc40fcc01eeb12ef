//! Notes of the times at which fields of hashes expire. They lead to the hashes with expired
//! fields.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The notes of all hashes of a database that have fields which expire.
///
/// Each such hash has one note: at the time at which the first of its fields expires, or before,
/// because a note stays where it is when a field is given a later time. A hash owns its note, which
/// is dropped with it, whatever happens to its key; for a hash in a cold tier another object owns
/// the note. The note names the key that the hash had when the note was made.
#[derive(Debug)]
pub struct FieldNotes {
    /// The time of the first note; the largest number if there is none.
    soonest_ms: AtomicU64,
    notes: Mutex<Notes>,
}

/// A time, and a number that no other note has.
type Place = (u64, u64);

#[derive(Debug, Default)]
struct Notes {
    keys: BTreeMap<Place, Box<[u8]>>,
    next_number: u64,
    key_bytes: usize,
}

/// The note of a hash, which is removed when this is dropped.
#[derive(Debug)]
pub struct FieldNote {
    notes: Arc<FieldNotes>,
    place: Place,
}

/// A note that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNote {
    place: Place,
    /// The key of the hash, if it still has this key.
    pub key: Box<[u8]>,
}

impl Default for FieldNotes {
    fn default() -> FieldNotes {
        FieldNotes {
            soonest_ms: AtomicU64::new(u64::MAX),
            notes: Mutex::default(),
        }
    }
}

impl FieldNotes {
    /// Returns true if there may be expired fields.
    #[inline]
    pub fn are_due(&self, now_ms: u64) -> bool {
        self.soonest_ms.load(Ordering::Acquire) <= now_ms
    }

    /// Returns the number of hashes that have fields which expire.
    pub fn len(&self) -> usize {
        self.notes.lock().keys.len()
    }

    /// Returns true if there is no such hash.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns about how many bytes the notes take.
    pub fn memory_bytes(&self) -> usize {
        /// The bytes of a note, with its share of a tree node.
        const NOTE_BYTES: usize = 48;
        let notes = self.notes.lock();
        notes.keys.len() * NOTE_BYTES + notes.key_bytes
    }

    /// Returns the first notes up to now, at most `limit` of them.
    pub fn due(&self, now_ms: u64, limit: usize) -> Vec<DueNote> {
        let notes = self.notes.lock();
        // All numbers are included, and thus all notes of this millisecond.
        let due = notes.keys.range(..=(now_ms, u64::MAX)).take(limit);
        due.map(|(&place, key)| DueNote {
            place,
            key: key.clone(),
        })
        .collect()
    }

    /// Removes a note whose hash has another key, or no key. Does nothing if the note is gone.
    pub fn remove(&self, note: &DueNote) {
        self.remove_at(note.place);
    }

    /// Makes a note for the hash of a key.
    pub fn add(self: &Arc<Self>, time_ms: u64, key: &[u8]) -> FieldNote {
        let mut notes = self.notes.lock();
        let place = (time_ms, notes.next_number);
        notes.next_number += 1;
        notes.key_bytes += key.len();
        let before = notes.keys.insert(place, key.into());
        debug_assert!(before.is_none(), "two notes have one number");
        self.publish(&notes);
        FieldNote {
            notes: Arc::clone(self),
            place,
        }
    }

    fn remove_at(&self, place: Place) {
        let mut notes = self.notes.lock();
        if let Some(key) = notes.keys.remove(&place) {
            notes.key_bytes -= key.len();
            self.publish(&notes);
        }
    }

    fn publish(&self, notes: &Notes) {
        // The caller holds the lock, so that no older time overwrites this one.
        let first = notes.keys.first_key_value();
        let soonest = first.map_or(u64::MAX, |(&(time_ms, _), _)| time_ms);
        self.soonest_ms.store(soonest, Ordering::Release);
    }
}

impl FieldNote {
    /// Returns the time of the note.
    pub fn time_ms(&self) -> u64 {
        self.place.0
    }

    /// Returns true if the note is in `notes` and not after `time_ms`.
    pub fn serves(&self, notes: &Arc<FieldNotes>, time_ms: u64) -> bool {
        // A hash that was moved to another database needs a note there.
        Arc::ptr_eq(&self.notes, notes) && self.place.0 <= time_ms
    }
}

impl Drop for FieldNote {
    fn drop(&mut self) {
        self.notes.remove_at(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_by_their_times_and_go_with_their_owners() {
        let notes = Arc::new(FieldNotes::default());
        assert!(!notes.are_due(u64::MAX - 1) && notes.is_empty());
        let late = notes.add(20, b"late");
        let soon = notes.add(10, b"soon");
        let same = notes.add(10, b"same");
        assert_eq!(
            (notes.len(), notes.are_due(9), notes.are_due(10)),
            (3, false, true)
        );
        let keys = |now_ms, limit| -> Vec<Box<[u8]>> {
            let due = notes.due(now_ms, limit);
            due.into_iter().map(|note| note.key).collect()
        };
        assert_eq!(keys(9, 9), [] as [Box<[u8]>; 0]);
        assert_eq!(keys(10, 9), [b"soon"[..].into(), b"same"[..].into()]);
        assert_eq!(keys(99, 1), [b"soon"[..].into()]);
        assert!(late.serves(&notes, 20) && late.serves(&notes, 21) && !late.serves(&notes, 19));
        assert!(!late.serves(&Arc::default(), 20));
        drop(soon);
        assert_eq!(keys(99, 9), [b"same"[..].into(), b"late"[..].into()]);
        let due = notes.due(10, 1);
        notes.remove(&due[0]);
        notes.remove(&due[0]);
        drop(same);
        assert!(!notes.are_due(19) && notes.are_due(20));
        drop(late);
        assert_eq!((notes.len(), notes.memory_bytes()), (0, 0));
    }
}
