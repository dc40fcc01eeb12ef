//! The notes of the times at which keys expire. They are stored in an ordered index. Its keys are
//! eight bytes of time followed by the key; its values are empty. In a shared index the database's
//! number is before each key.
//!
//! # A note may be early
//!
//! Each key that expires has one note, at its time or before it. The key's record holds the
//! difference ([`ValueRecord::note`]). A write that gives a key a later time leaves the note where
//! it is. So a client that prolongs its keys at each use pays only for the write of the record.
//! When the note is due, [`expire_due`](super::DatabaseKeys::expire_due) reads the key. If the key
//! has time left, the note moves to the key's time ([`Database::check_notes`]).
//!
//! - There are as many notes as keys that expire, so that these are counted by their notes. A write
//!   that removes a key, takes its time away or gives it an earlier one finds the note's time in
//!   the record that it replaces, and removes the note. If the index refuses that, the note leads
//!   to no record, and is removed when it is due.
//! - A key is never expired by its note, only by its record.
//! - A caller that asks for the key that expires next must have the first note checked
//!   ([`Database::soonest`]).
//!
//! A batch of commands gathers the changes to notes and writes them as one batch ([`NoteChanges`]),
//! while it holds the stripes of the keys. One stripe thus guards a key's record and its note.
//! Checks of notes have the keyspace to themselves.
//!
//! In a pool each note is at its key's time. To move one, the record would have to change, and
//! another server may change it at the same time.

use super::database::Database;
use super::record::ValueRecord;
use nearfield::{Batch, ByteStrings, OperationError, OperationOutcome};
use std::ops::Bound;

/// The number of notes that are checked at once in the search for the key that expires next.
const CHECKED_AT_ONCE: usize = 200;
/// The maximum number of such checks in one search. If no note is exact after these, the search
/// returns the key that expires next of those whose notes have moved. Otherwise one search could
/// move the notes of all keys.
const CHECKS_MAX: usize = 5;

/// Returns the key of a note.
pub fn note_key(time_ms: u64, key: &[u8]) -> Vec<u8> {
    [&time_ms.to_be_bytes()[..], key].concat()
}

/// Splits the key of a note into its time and its key.
pub fn parse_note(note: &[u8]) -> Option<(u64, &[u8])> {
    let (time, key) = note.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*time), key))
}

/// The parts of a note: its time and its key.
pub type Note = (u64, Vec<u8>);

impl Database {
    /// Returns true if the note of a key or of a field is due.
    pub fn is_note_due(&self, now_ms: u64) -> bool {
        if self.field_notes().are_due(now_ms) {
            return true;
        }
        if self.is_shared() && self.number > 0 {
            // The first database expires the keys of all databases.
            return false;
        }
        // An index that cannot be read is asked again the next time.
        let first = self.expiries().and_then(|expiries| expiries.first().ok()?);
        let time = first.and_then(|(note, _)| Some(parse_note(&note)?.0));
        time.is_some_and(|time| time <= now_ms)
    }

    /// Returns the first notes up to `until_ms`, at most `limit` of them.
    ///
    /// # Errors
    /// Those of the index.
    pub fn notes(&self, until_ms: u64, limit: usize) -> Result<Vec<Note>, OperationError> {
        let mut notes = Vec::new();
        if let Some(expiries) = self.expiries() {
            let end = until_ms.saturating_add(1).to_be_bytes();
            let range = expiries.range((Bound::Unbounded, Bound::Excluded(&end[..])));
            for entry in range.take(limit) {
                if let Some((time, key)) = parse_note(&entry?.0) {
                    notes.push((time, key.to_vec()));
                }
            }
        }
        debug_assert!(notes.is_sorted_by_key(|note| note.0));
        Ok(notes)
    }

    /// Stores the record of a key, with its note, and returns the record before. `before` is the
    /// note that the key has, which is needed only if the new record has one, too.
    ///
    /// # Errors
    /// Those of the index; the key keeps its record and its note then.
    pub fn store(
        &self,
        key: &[u8],
        stored: &[u8],
        before: Option<u64>,
    ) -> Result<Option<Vec<u8>>, OperationError> {
        let after = ValueRecord::parse(stored).note();
        // The note comes first: to undo a record that was stored could fail, and without a note an
        // expired key would stay until it is read.
        let added = after.filter(|_| after != before && !self.is_shared());
        if let Some(time) = added {
            self.expiries_or_create()?
                .insert(&note_key(time, key), b"")?;
        }
        let entries = self.entries_or_create();
        let old = entries
            .and_then(|entries| entries.insert(key, stored))
            .inspect_err(|_| self.forget_note(key, added))?;
        let before = old
            .as_deref()
            .and_then(|old| ValueRecord::parse(old).note());
        if self.is_shared() {
            self.note_shared_expiry(key, before, after);
        } else if before != after {
            self.forget_note(key, before);
        }
        Ok(old)
    }

    /// Removes a key, with its note, and returns its record.
    ///
    /// # Errors
    /// Those of the index; the key keeps its record and its note then.
    pub fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        let Some(entries) = self.entries() else {
            return Ok(None);
        };
        let old = entries.remove(key)?;
        let before = old
            .as_deref()
            .and_then(|old| ValueRecord::parse(old).note());
        if self.is_shared() {
            self.note_shared_expiry(key, before, None);
        } else {
            self.forget_note(key, before);
        }
        Ok(old)
    }

    /// Adds the note of a key that keeps its record, although the index has refused the note.
    #[cold]
    pub fn note_again(&self, key: &[u8], note: Option<u64>) {
        let Some(time) = note else { return };
        let expiries = self.expiries_or_create();
        let noted = expiries.and_then(|expiries| expiries.insert(&note_key(time, key), b""));
        if let Err(error) = noted {
            // Commands find that it has expired, but the cycle does not delete it.
            tracing::warn!("a key is kept without an expiry note: {error}");
        }
    }

    /// Removes a note that no record names. One that the index does not remove is removed when it
    /// is due.
    fn forget_note(&self, key: &[u8], note: Option<u64>) {
        let Some((time, expiries)) = note.zip(self.expiries()) else {
            return;
        };
        if let Err(error) = expiries.remove(&note_key(time, key)) {
            tracing::warn!("the note of an expiry that has changed stays: {error}");
        }
    }

    /// Moves the note of a shared key from `before` to `after`, where `None` is no note. Must be
    /// called after the key was changed.
    #[inline]
    pub fn note_shared_expiry(&self, key: &[u8], before: Option<u64>, after: Option<u64>) {
        if before == after {
            return;
        }
        // A key without a note disappears for clients when it expires, but it takes memory until it
        // is written again.
        if let Err(error) = self.move_shared_note(key, before, after) {
            tracing::warn!("cannot record the expiry of a key: {error}");
        }
    }

    /// Updates the note of a shared key whose time has changed.
    #[cold]
    fn move_shared_note(
        &self,
        key: &[u8],
        before: Option<u64>,
        after: Option<u64>,
    ) -> Result<(), OperationError> {
        debug_assert!(self.is_shared());
        let expiries = self.expiries_or_create()?;
        if let Some(time) = after {
            expiries.insert(&self.shared_note_key(time, key), b"")?;
        }
        if let Some(time) = before {
            let noted = self.shared_note_key(time, key);
            expiries.remove(&noted)?;
            // Another server may give the key the time `before` again at this moment. It writes the
            // key first and notes the time then. Either its note comes after the removal, or the
            // key is seen to have that time here.
            if self.read(key, |record| record.expires_at_ms)? == Some(Some(time)) {
                expiries.insert(&noted, b"")?;
            }
        }
        Ok(())
    }

    /// Returns the key of the note, if the index is shared.
    fn shared_note_key(&self, time_ms: u64, key: &[u8]) -> Vec<u8> {
        [&time_ms.to_be_bytes()[..], &[self.number], key].concat()
    }

    /// Removes up to `limit` expired keys of all databases of a shared map. Returns the number of
    /// notes visited and the number of keys removed.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn expire_shared(&self, now_ms: u64, limit: usize) -> Result<(usize, u64), OperationError> {
        debug_assert!(self.is_shared());
        let (mut notes, mut keys) = (0, 0);
        let expiries = self.expiries_or_create()?;
        let end = (now_ms + 1).to_be_bytes();
        let due = expiries.range((Bound::Unbounded, Bound::Excluded(&end[..])));
        for entry in due.take(limit) {
            let noted = entry?.0;
            let Some((_, [number, key @ ..])) = parse_note(&noted) else {
                continue;
            };
            let entries = self.home.entries(*number)?;
            // A key that was given another time has another note.
            if let Some(stored) = entries.get(key)?
                && ValueRecord::parse(&stored).is_expired(now_ms)
                && entries.remove_if(key, &stored)?
            {
                keys += 1;
            }
            expiries.remove(&noted)?;
            notes += 1;
        }
        Ok((notes, keys))
    }

    /// Moves early notes to the times of their keys, and returns for each note when its key
    /// expires. A note that does not match its key's record is removed, and its result is `None`.
    /// Needs the exclusive phase, and an index that is not shared.
    ///
    /// # Errors
    /// Those of the index. Each key then has its old note or one at its time.
    pub fn check_notes(&self, notes: &[Note]) -> Result<Vec<Option<u64>>, OperationError> {
        debug_assert!(!self.is_shared());
        let (Some(entries), Some(expiries)) = (self.entries(), self.expiries()) else {
            return Ok(Vec::new());
        };
        let mut read = Batch::new();
        for (_, key) in notes {
            read.get(key.as_slice());
        }
        entries.execute(&mut read)?;
        let (mut times, mut moves) = (Vec::with_capacity(notes.len()), Vec::new());
        let (mut later, mut records, mut over) = (Batch::new(), Batch::new(), Batch::new());
        for (number, (note, key)) in notes.iter().enumerate() {
            if let OperationOutcome::Failed(error) = read.outcome(number) {
                return Err(error);
            }
            let record = read.value(number).map(ValueRecord::parse);
            let record = record.filter(|record| record.note() == Some(*note));
            let time = record.and_then(|record| record.expires_at_ms);
            times.push(time);
            match time {
                None => {
                    over.remove(note_key(*note, key).as_slice());
                }
                Some(time) if time > *note => {
                    later.insert(note_key(time, key).as_slice(), b"".as_slice());
                    moves.push(number);
                }
                Some(_) => {}
            }
        }
        // The order matters: a key whose record expects its note at its time must already have that
        // note.
        expiries.execute(&mut later)?;
        let mut refused = None;
        let mut stored = Vec::new();
        let mut written = Vec::new();
        for (position, &number) in moves.iter().enumerate() {
            let (Some((_, key)), Some(old)) = (notes.get(number), read.value(number)) else {
                continue;
            };
            if let OperationOutcome::Failed(error) = later.outcome(position) {
                refused = Some(error);
                continue;
            }
            stored.clear();
            ValueRecord::parse(old)
                .keeping_note(None)
                .write(&mut stored);
            records.insert(key.as_slice(), stored.as_slice());
            written.push(number);
        }
        entries.execute(&mut records)?;
        for (position, &number) in written.iter().enumerate() {
            let (Some((note, key)), Some(Some(time))) = (notes.get(number), times.get(number))
            else {
                continue;
            };
            if let OperationOutcome::Failed(error) = records.outcome(position) {
                refused = Some(error);
                over.remove(note_key(*time, key).as_slice());
            } else {
                over.remove(note_key(*note, key).as_slice());
            }
        }
        expiries.execute(&mut over)?;
        refused.map_or(Ok(times), Err)
    }

    /// Returns the key that expires next, and when. Needs the exclusive phase.
    ///
    /// # Errors
    /// Those of the index.
    pub fn soonest(&self) -> Result<Option<Note>, OperationError> {
        let mut moved: Option<Note> = None;
        let mut limit = 1;
        for _ in 0..CHECKS_MAX {
            let notes = self.notes(u64::MAX, limit)?;
            if self.is_shared() {
                return Ok(notes.into_iter().next());
            }
            if notes.is_empty() {
                break;
            }
            let times = self.check_notes(&notes)?;
            let first_is_exact = match (notes.first(), times.first()) {
                (Some((note, _)), Some(time)) => *time == Some(*note),
                _ => false,
            };
            let due = |(note, time): (Note, Option<u64>)| Some((time?, note.1));
            let next = notes.into_iter().zip(times).filter_map(due);
            if first_is_exact {
                // All other notes are later, so their keys expire no sooner.
                return Ok(next.into_iter().next());
            }
            // Notes that were not checked may be before the new places of these.
            moved = moved.into_iter().chain(next).min();
            limit = CHECKED_AT_ONCE;
        }
        Ok(moved)
    }
}

/// The changes to the notes of the keys that a batch writes.
#[derive(Debug, Default)]
pub struct NoteChanges {
    batch: Batch<ByteStrings>,
    /// The write whose note each operation of the batch adds; `None` if it removes one.
    added: Vec<Option<u32>>,
    stored: Vec<u8>,
}

impl NoteChanges {
    /// Moves the note of `key`, the key of the given write, from `before` to `after`.
    #[inline]
    pub fn add(&mut self, write: u32, key: &[u8], before: Option<u64>, after: Option<u64>) {
        if before == after {
            return;
        }
        for (time, is_new) in [(before, false), (after, true)] {
            let Some(time) = time else { continue };
            self.stored.clear();
            self.stored.extend_from_slice(&time.to_be_bytes());
            self.stored.extend_from_slice(key);
            match is_new {
                true => self.batch.insert(self.stored.as_slice(), b"".as_slice()),
                false => self.batch.remove(self.stored.as_slice()),
            };
            self.added.push(is_new.then_some(write));
        }
    }

    /// Changes the notes in the index, and returns each write whose new note was refused. An old
    /// note that is not removed is no reason to undo a write: it is removed when it is due.
    pub fn apply(&mut self, database: &Database) -> Vec<(u32, OperationError)> {
        debug_assert_eq!(self.added.len(), self.batch.len());
        if self.added.is_empty() {
            return Vec::new();
        }
        let executed = database
            .expiries_or_create()
            .and_then(|expiries| expiries.execute(&mut self.batch));
        let error = |position: usize| match (&executed, self.batch.outcome(position)) {
            (Err(error), _) => Some(error.clone()),
            (_, OperationOutcome::Failed(error)) => Some(error),
            _ => None,
        };
        let (mut refused, mut stays) = (Vec::new(), None);
        for (position, &added) in self.added.iter().enumerate() {
            match (added, error(position)) {
                (_, None) => {}
                (Some(write), Some(error)) => refused.push((write, error)),
                (None, Some(error)) => stays = Some(error),
            }
        }
        if let Some(error) = stays {
            tracing::warn!("notes of expiries that have changed stay: {error}");
        }
        self.batch.clear();
        self.added.clear();
        refused
    }
}
