//! The deletion of expired fields of hashes.
//!
//! Each hash with fields that expire has a [note](FieldNotes) in its database. A command that reads
//! a hash does not see expired fields ([`StoredObject::at`]). They are removed before a command
//! changes the hash, and by the [cycle](DatabaseKeys::expire_fields) that searches for due notes.
//! Each removal is logged as `HDEL`, so that a replay of the log does the same at any time.

use super::keys::DatabaseKeys;
use super::{Class, Database, KeyMetadata, KeyView, Outside, ValueRecord, cold};
use crate::error::CommandError;
use crate::object::{FieldNotes, Hash, RedisType, StoredObject};
use std::sync::Arc;

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
fn take_due(
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

/// The time after which the cycle reads a hash again that it could not read: rarely, because each
/// read is an error in the log of the server.
const UNREAD_PAUSE_MS: u64 = 60_000;

/// The number of words before the fields in the `HDEL` command of [`take_due`].
const WORDS_BEFORE: usize = 2;

/// Returns the facts about a key that a command is about to change. Removes expired fields of a
/// hash before.
///
/// # Errors
/// Those of the index; the hash is stored in a cold tier and cannot be read.
#[inline]
pub(super) fn find_to_change<'v>(
    view: &mut impl KeyView<'v>,
    key: &[u8],
) -> Result<Option<KeyMetadata>, CommandError> {
    let found = view.peek(key)?;
    match found.filter(|found| may_be_due(view, found)) {
        None => Ok(found),
        Some(hash) => {
            expire_fields_of(view, key, &hash, usize::MAX)?;
            // The hash may have another slot, or be gone.
            view.peek(key)
        }
    }
}

/// Returns true if it is a hash that may have expired fields.
#[inline]
fn may_be_due<'v>(view: &impl KeyView<'v>, found: &KeyMetadata) -> bool {
    let now_ms = view.field_time_ms();
    match found.outside.filter(|_| found.kind == RedisType::Hash) {
        None => false,
        Some(Outside::Slot(_)) => view.database().field_notes().are_due(now_ms),
        Some(Outside::Place(place)) => view.keyspace().cold_notes.is_due(place, now_ms),
    }
}

/// Removes up to `limit` expired fields of a hash, and returns their number. Brings a hash from a
/// cold tier into memory.
#[cold]
fn expire_fields_of<'v>(
    view: &mut impl KeyView<'v>,
    key: &[u8],
    found: &KeyMetadata,
    limit: usize,
) -> Result<usize, CommandError> {
    debug_assert_eq!(found.kind, RedisType::Hash);
    let slot = match found.outside {
        Some(Outside::Slot(slot)) => slot,
        Some(Outside::Place(place)) => cold::warm(view, key, found, place)?,
        None => return Ok(0),
    };
    // Before the slot is opened, because a snapshot opens it to write the hash.
    view.before_change(key, slot);
    let mut guard = view.keyspace().slots.open_to_change(slot);
    let Some(object) = guard.as_mut() else {
        return Ok(0);
    };
    let words = take_due(key, object, view.field_time_ms(), limit, view.database());
    let is_empty = object.is_empty();
    drop(guard);
    let Some(words) = words else {
        return Ok(0);
    };
    debug_assert!(words.len() > WORDS_BEFORE);
    let count = words.len() - WORDS_BEFORE;
    view.count_expired_fields(count);
    view.log_before(&words);
    view.happened(key, Class::Hash, "hexpired");
    if is_empty {
        view.remove(key)?;
        view.happened(key, Class::Generic, "del");
    }
    Ok(count)
}

impl DatabaseKeys<'_> {
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
            let found = self.peek(&note.key)?;
            if let Some(hash) = found.filter(|found| may_be_due(self, found)) {
                match expire_fields_of(self, &note.key, &hash, limit - fields) {
                    Ok(removed) => fields += removed,
                    Err(error) => self.postpone(&note.key, &hash, error)?,
                }
                let was_cold = matches!(hash.outside, Some(Outside::Place(_)));
                fields += FIELDS_PER_READ * usize::from(was_cold);
            }
            // A hash that still has this key has got another note meanwhile.
            notes.remove(note);
        }
        Ok(fields.max(due.len()))
    }

    /// Makes the cycle return later to a hash whose expired fields it could not remove. No command
    /// sees these fields meanwhile, and a command that changes the hash gets the reason as its
    /// error.
    ///
    /// # Errors
    /// `error`, if the hash is in memory.
    fn postpone(
        &self,
        key: &[u8],
        hash: &KeyMetadata,
        error: CommandError,
    ) -> Result<(), CommandError> {
        let (all, notes) = (&self.keyspace().cold_notes, self.database().field_notes());
        let until_ms = self.field_time_ms().saturating_add(UNREAD_PAUSE_MS);
        match hash.outside {
            Some(Outside::Place(place)) if all.postpone(place, notes, until_ms, key) => Ok(()),
            _ => Err(error),
        }
    }

    /// Notes the hash of a renamed key, whose record is given, under its new name.
    pub(super) fn note_renamed(&self, key: &[u8], record: &ValueRecord<'_>) {
        if record.kind != RedisType::Hash {
            return;
        }
        let notes = self.database().field_notes();
        match record.outside() {
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
    }
}
