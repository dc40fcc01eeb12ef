//! The release of the memory of flushed databases.

use super::record::ValueRecord;
use super::slots::ObjectSlots;
use super::{ColdNotes, ColdTiers, Database, Keyspace, Outside};
use crate::allocator;
use crate::object::StoredObject;
use parking_lot::Mutex;
use std::ops::Bound;
use std::sync::Arc;

/// The number of keys up to which a database is freed at once, which takes less time than to start
/// a thread.
const KEYS_AT_ONCE: usize = 1000;

/// Frees databases that were taken out of the keyspace in the exclusive phase, and their objects.
/// If there are many keys, a separate thread does it.
pub fn free(databases: Vec<Database>, keyspace: &Keyspace) {
    let (slots, cold, notes) = (&keyspace.slots, &keyspace.cold, &keyspace.cold_notes);
    // Databases whose keys cannot be counted are freed by the thread.
    let keys: usize = databases
        .iter()
        .map(|database| database.len().unwrap_or(KEYS_AT_ONCE + 1))
        .sum();
    if keys <= KEYS_AT_ONCE {
        let mut objects = Vec::new();
        free_all(databases, slots, cold, notes, |object| objects.push(object));
        // Few keys may have large values.
        keyspace.freeing.free(objects);
        return;
    }
    let databases = Arc::new(Mutex::new(databases));
    let started = std::thread::Builder::new()
        .name("nearfield-free".into())
        .spawn({
            let (databases, slots) = (Arc::clone(&databases), Arc::clone(slots));
            let (cold, notes) = (Arc::clone(cold), Arc::clone(notes));
            move || {
                free_all(
                    std::mem::take(&mut databases.lock()),
                    &slots,
                    &cold,
                    &notes,
                    drop,
                );
                allocator::give_back();
            }
        });
    if started.is_err() {
        free_all(
            std::mem::take(&mut databases.lock()),
            slots,
            cold,
            notes,
            drop,
        );
    }
}

/// Frees databases, and passes their objects to `free`.
fn free_all(
    databases: Vec<Database>,
    slots: &ObjectSlots,
    cold: &ColdTiers,
    notes: &ColdNotes,
    mut free: impl FnMut(StoredObject),
) {
    for database in databases {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let entries = database.entries().into_iter();
        for (_, stored) in entries.flat_map(|entries| entries.range(all)).flatten() {
            // No thread that has read the slot's number from the index is still working, because it
            // would have done so before the exclusive phase.
            match ValueRecord::parse(&stored).outside() {
                None => {}
                Some(Outside::Slot(slot)) => {
                    if let Some(object) = slots.withdraw(slot) {
                        free(object);
                    }
                }
                Some(Outside::Place(place)) => {
                    notes.remove(place);
                    cold.release(place);
                }
            }
        }
    }
    // The memory is in pages of the threads that created the keys.
    allocator::ask();
}
