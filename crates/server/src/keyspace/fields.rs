//! The deletion of expired fields of hashes.
//!
//! Each hash with fields that expire has a [note](FieldNotes) in its database. A command that reads
//! a hash does not see expired fields ([`StoredObject::at`]). They are removed before a command
//! changes the hash, and by the [cycle](DatabaseKeys::expire_fields) that searches for due notes.
//! Each removal is logged as `HDEL`, so that a replay of the log does the same at any time.

use super::keys::DatabaseKeys;
use super::{Class, Database, Outside};
use crate::error::CommandError;
use crate::object::{FieldNotes, Hash, RedisType, StoredObject};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Database {
    /// Returns the notes of the times at which fields of hashes expire.
    #[inline]
    pub fn field_notes(&self) -> &Arc<FieldNotes> {
        &self.field_notes
    }

    /// Ensures that an object has its note. Must be called when a key gets an object, and after
    /// fields were given times.
    #[inline]
    pub fn note_fields(&self, key: &[u8], object: &mut StoredObject) {
        if let StoredObject::Hash(hash) = object {
            hash.note_in(&self.field_notes, key);
        }
    }
}

/// Removes up to `limit` expired fields and returns the command that does the same, or `None` if
/// there are none. Notes the hash again for its remaining fields.
pub(super) fn take_due(
    key: &[u8],
    object: &mut StoredObject,
    now_ms: u64,
    limit: usize,
    database: &Database,
) -> Option<Vec<Vec<u8>>> {
    let StoredObject::Hash(hash) = object else {
        return None;
    };
    let due = hash.take_due(now_ms, limit);
    debug_assert!(due.len() <= limit);
    // The note may have been earlier than the first field.
    hash.forget_note();
    hash.note_in(database.field_notes(), key);
    if due.is_empty() {
        return None;
    }
    let mut words = vec![b"HDEL".to_vec(), key.to_vec()];
    words.extend(due);
    Some(words)
}

/// Number of fields that are removed in the time that it takes to read a hash from a file.
/// *Assumed*.
const FIELDS_PER_READ: usize = 20;

/// The number of words before the fields in the `HDEL` command of [`take_due`].
pub(super) const WORDS_BEFORE: usize = 2;

impl DatabaseKeys<'_> {
    /// Removes expired fields of a hash before it is changed.
    #[inline]
    pub(super) fn drop_due_fields(&mut self, key: &[u8]) -> Result<(), CommandError> {
        if self.database().field_notes().are_due(self.field_time_ms()) {
            self.expire_fields_of(key, usize::MAX)?;
        }
        Ok(())
    }

    /// Returns the time up to which fields have expired: 0 while a log is replayed, when no field
    /// expires.
    #[inline]
    pub(super) fn field_time_ms(&self) -> u64 {
        // Time 0 has passed, except for a replay of the log, where no time ever has.
        match self.has_expired(Some(0)) {
            true => self.now_ms(),
            false => 0,
        }
    }

    /// Removes up to `limit` expired fields of a hash. Returns their number, and true if the hash
    /// was read from a cold tier.
    #[cold]
    fn expire_fields_of(
        &mut self,
        key: &[u8],
        limit: usize,
    ) -> Result<(usize, bool), CommandError> {
        let Some(found) = self
            .peek(key)?
            .filter(|found| found.kind == RedisType::Hash)
        else {
            return Ok((0, false));
        };
        let (keyspace, now_ms) = (self.keyspace(), self.field_time_ms());
        let slot = match found.outside {
            Some(Outside::Slot(slot)) => slot,
            Some(Outside::Place(place)) if keyspace.cold_notes.is_due(place, now_ms) => {
                // A hash that cannot be read stays. No command sees its expired fields, and a
                // command that changes the hash gets the reason as its error.
                let Ok(object) = keyspace.thaw(key, found.kind, place, &keyspace.heap) else {
                    return Ok((0, true));
                };
                self.put_warm(key, &found, place, object)?
            }
            _ => return Ok((0, false)),
        };
        let was_cold = !matches!(found.outside, Some(Outside::Slot(_)));
        // Before the slot is opened, because a snapshot opens it to write the hash.
        self.before_change(key);
        let mut guard = keyspace.slots.open_to_change(slot);
        let Some(object) = guard.as_mut() else {
            return Ok((0, was_cold));
        };
        let words = take_due(key, object, now_ms, limit, self.database());
        let is_empty = object.is_empty();
        drop(guard);
        let Some(words) = words else {
            return Ok((0, was_cold));
        };
        let count = words.len() - WORDS_BEFORE;
        let expired = &keyspace.expired_fields;
        expired.fetch_add(count as u64, Ordering::Relaxed);
        self.log_before(words);
        self.happened(key, Class::Hash, "hexpired");
        if is_empty {
            self.remove(key)?;
            self.happened(key, Class::Generic, "del");
        }
        Ok((count, was_cold))
    }

    /// Removes up to `limit` expired fields of the database's hashes. It visits at most `limit`
    /// notes, and fewer if hashes are read from cold tiers. Returns the number of notes or fields
    /// processed, which is less than `limit` if none is left. Needs the exclusive phase.
    ///
    /// # Errors
    /// Those of the index.
    pub fn expire_fields(&mut self, limit: usize) -> Result<usize, CommandError> {
        debug_assert!(self.is_exclusive());
        let notes = Arc::clone(self.database().field_notes());
        let due = notes.due(self.field_time_ms(), limit);
        let mut fields = 0;
        for note in &due {
            if fields >= limit {
                break;
            }
            let (removed, was_cold) = self.expire_fields_of(&note.key, limit - fields)?;
            fields += removed + FIELDS_PER_READ * usize::from(was_cold);
            // A hash that still has this key has got another note meanwhile.
            notes.remove(note);
        }
        Ok(fields.max(due.len()))
    }

    /// Notes the hash of a renamed key under its new name.
    pub(super) fn note_renamed(&self, key: &[u8]) -> Result<(), CommandError> {
        let database = self.database();
        let outside = database.read(key, |record| match record.kind {
            RedisType::Hash => record.outside(),
            _ => None,
        })?;
        let notes = database.field_notes();
        match outside.flatten() {
            Some(Outside::Slot(slot)) => {
                // A note names its key, and the old name leads nowhere.
                if let Some(StoredObject::Hash(hash)) = &mut *self.keyspace().slots.open(slot) {
                    hash.forget_note();
                    Hash::note_in(hash, notes, key);
                }
            }
            Some(Outside::Place(place)) => {
                let all = &self.keyspace().cold_notes;
                if let Some(time_ms) = all.time_ms(place) {
                    all.set(place, notes, time_ms, key);
                }
            }
            None => {}
        }
        Ok(())
    }
}
