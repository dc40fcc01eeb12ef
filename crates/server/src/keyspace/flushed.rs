//! Databases that were flushed: gives their memory back.

use super::record::Record;
use super::slots::Slots;
use super::{Cold, ColdNotes, Database, Keyspace, Outside};
use crate::allocator;
use crate::object::Object;
use parking_lot::Mutex;
use std::ops::Bound;
use std::sync::Arc;

/// Fewer keys than this are freed at once, which takes less time than to start a thread.
const KEYS_AT_ONCE: usize = 1000;

/// Frees databases that were taken out of the keyspace in the exclusive phase, and their objects.
/// Where there are many keys a thread of its own does it.
pub fn free(databases: Vec<Database>, keyspace: &Keyspace) {
    let (slots, cold, notes) = (&keyspace.slots, &keyspace.cold, &keyspace.cold_notes);
    // What cannot be counted is freed by the thread.
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

/// Frees databases, and gives their objects to `free`.
fn free_all(
    databases: Vec<Database>,
    slots: &Slots,
    cold: &Cold,
    notes: &ColdNotes,
    mut free: impl FnMut(Object),
) {
    for database in databases {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let entries = database.entries().into_iter();
        for (_, stored) in entries.flat_map(|entries| entries.range(all)).flatten() {
            // Nobody who has read the slot's number from the index is still at work, as that
            // would have been before the exclusive phase.
            match Record::parse(&stored).outside() {
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
    // It lies in pages of the threads that have made the keys.
    allocator::ask();
}
