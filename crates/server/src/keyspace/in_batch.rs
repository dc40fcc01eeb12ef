//! The keys of a command whose operations are executed in one batch with those of other commands.
//!
//! A batch runs in one of two ways:
//!
//! - *Applied*: no command needs to read a key before it changes one. Each operation of the batch
//!   is the change itself, and its outcome is the value that it has replaced.
//! - *Folded*: the result of some command depends on what it reads (`INCR`, `SET` with `NX`). The
//!   batch reads each key once. The commands then change the values that were read, one command
//!   after the other, in [`BatchValueChanges`]. A second batch writes the last value of each key.
//!
//! In both cases a command sees what the commands before it have done, because the index executes a
//! batch as if its operations ran in their order, and because a fold follows that order.
//!
//! The writes of a batch have no observer (see [`WriteObserver`](super::WriteObserver)), so that no
//! events are collected here.

use super::effects::Class;
use super::notes::NoteChanges;
use super::record::{RecordPayload, ValueRecord, is_plain};
use super::slots::ObjectSlot;
use super::view::{KeyLedger, KeyStore};
use super::{Database, Entry, Keyspace, Outside};
use crate::error::CommandError;
use crate::object::PartOf;
use crate::resp::encode;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use nearfield::{Batch, ByteStrings, OperationError, OperationOutcome, ScanDirection};
use nearfield_core::ArenaSpan;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The joint effects of the commands of a batch, apart from the values of keys.
#[derive(Debug, Default)]
pub struct BatchEffects {
    /// Number of lookups that found their key.
    pub hits: u64,
    /// Number of lookups that did not find their key.
    pub misses: u64,
    /// Number of changes.
    pub changes: u64,
    /// Number of expired keys.
    pub expired: u64,
    /// Number of expired fields of hashes.
    pub expired_fields: u64,
    /// True if there is a log.
    pub logging: bool,
    /// The entries to log, as the log stores them.
    pub log: Vec<u8>,
    /// The changes to the notes of the keys.
    pub notes: NoteChanges,
    /// True if the command has changed an object that its key had before the batch. This
    /// change cannot be taken back if the index refuses a write.
    pub in_place: bool,
    /// Number of changes before the command.
    changes_before: u64,
    /// Number of bytes of the log before the command.
    log_before: usize,
    /// True if the command has logged other words in place of those that were sent.
    has_own_log: bool,
}

impl BatchEffects {
    /// Makes ready for the next batch and keeps the memory.
    pub fn clear(&mut self) {
        *self = BatchEffects {
            log: std::mem::take(&mut self.log),
            notes: std::mem::take(&mut self.notes),
            ..BatchEffects::default()
        };
        self.log.clear();
    }

    /// Begins a command.
    #[inline]
    pub fn begin(&mut self) {
        self.changes_before = self.changes;
        self.log_before = self.log.len();
        self.has_own_log = false;
        self.in_place = false;
    }

    /// Ends a command. Logs `request` if the command has changed something and has not logged other
    /// words. Returns the range of the command's part of the log.
    #[inline]
    pub fn end(&mut self, request: &[u8]) -> Range<usize> {
        debug_assert!(self.changes >= self.changes_before);
        debug_assert!(self.log.len() >= self.log_before);
        // A request is staged in the form of the log, so that it need not be encoded once more.
        if self.logging && self.changes > self.changes_before && !self.has_own_log {
            self.log.extend_from_slice(request);
        }
        self.log_before..self.log.len()
    }
}

/// The changes that the commands of a batch make to the values that it has read.
#[derive(Debug, Default)]
pub struct BatchValueChanges {
    /// The get that has read the key of each operation, by the operation's number.
    gets: Vec<u32>,
    /// The key of each get, as clients name it and as it is stored.
    keys: Vec<(ArenaSpan, ArenaSpan)>,
    /// The table that finds the get of a key.
    by_key: HashTable<u32>,
    /// The state of the key of each get.
    states: Vec<BatchKeyState>,
    /// New values, as they are stored.
    values: Vec<u8>,
    /// The gets whose keys were changed.
    changed: Vec<u32>,
    scratch: Vec<u8>,
    /// True, for each get, if some command may change its key.
    to_change: Vec<bool>,
    /// The get of the last key that a command may change.
    last_to_change: Option<u32>,
    /// True if a key may be changed, then another one, then the first one again.
    changes_alternate: bool,
}

#[derive(Clone, Debug)]
enum BatchKeyState {
    /// The key is as it was read.
    Unchanged,
    /// The key was removed.
    Absent,
    /// The key has this value now, given by its range of `values`.
    Stored(Range<usize>),
}

impl BatchValueChanges {
    /// Makes ready for the next batch and keeps the memory.
    pub fn clear(&mut self) {
        self.gets.clear();
        self.keys.clear();
        self.by_key.clear();
        self.states.clear();
        self.values.clear();
        self.changed.clear();
        self.to_change.clear();
        self.last_to_change = None;
        self.changes_alternate = false;
    }

    /// Returns true if other clients see the changes in their order although each key is written
    /// once: no key is changed again after another one.
    pub fn keeps_order(&self) -> bool {
        !self.changes_alternate
    }

    /// Adds an operation on `key`, which may change it or not. Makes `batch` read the key, stored
    /// in the index as `stored_key`, unless it does so already. Returns the key's hash.
    #[inline]
    pub fn add(
        &mut self,
        batch: &mut Batch<ByteStrings>,
        key: ArenaSpan,
        stored_key: ArenaSpan,
        may_change: bool,
        hash_of: impl Fn(&[u8]) -> u64,
    ) -> u64 {
        let name = |get: u32| {
            let keys = self.keys.get(get as usize);
            keys.map(|&(key, _)| batch.staged(key)).unwrap_or_default()
        };
        let bytes = batch.staged(key);
        let hash = hash_of(bytes);
        let entry = self
            .by_key
            .entry(hash, |&get| name(get) == bytes, |&get| hash_of(name(get)));
        let get = match entry {
            Place::Occupied(entry) => *entry.get(),
            Place::Vacant(entry) => {
                let get = self.keys.len() as u32;
                entry.insert(get);
                let operation = batch.get_staged(stored_key);
                debug_assert_eq!(operation, get as usize, "the batch has other operations");
                self.keys.push((key, stored_key));
                self.states.push(BatchKeyState::Unchanged);
                self.to_change.push(false);
                get
            }
        };
        self.gets.push(get);
        if may_change {
            self.note_change(get);
        }
        hash
    }

    /// Returns the key of a get.
    pub fn key<'b>(&self, batch: &'b Batch<ByteStrings>, get: u32) -> &'b [u8] {
        let keys = self.keys.get(get as usize);
        keys.map(|&(key, _)| batch.staged(key)).unwrap_or_default()
    }

    /// Notes that the key of a get may be changed next.
    fn note_change(&mut self, get: u32) {
        if let Some(is_changed) = self.to_change.get_mut(get as usize) {
            self.changes_alternate |= *is_changed && self.last_to_change != Some(get);
            *is_changed = true;
            self.last_to_change = Some(get);
        }
    }

    /// Returns the get that has read the key of an operation.
    pub fn get_of(&self, operation: usize) -> usize {
        // The default would be another operation's key.
        debug_assert!(operation < self.gets.len());
        self.gets.get(operation).map_or(0, |&get| get as usize)
    }

    /// Returns what is stored for the key of an operation after the commands so far.
    fn stored<'a>(
        &'a self,
        batch: &'a Batch<ByteStrings>,
        operation: usize,
    ) -> Result<Option<&'a [u8]>, CommandError> {
        let get = self.get_of(operation);
        match self.states.get(get) {
            Some(BatchKeyState::Unchanged) => value_met(batch, get),
            Some(BatchKeyState::Stored(place)) => Ok(self.values.get(place.clone())),
            Some(BatchKeyState::Absent) | None => Ok(None),
        }
    }

    /// Sets what is stored for the key of an operation. Returns what the value before refers to if
    /// the caller must give it up: the batch has created it, and the new value does not refer to
    /// it.
    #[inline]
    fn change(
        &mut self,
        batch: &Batch<ByteStrings>,
        operation: usize,
        value: Option<ValueRecord<'_>>,
    ) -> Option<Outside> {
        let get = self.get_of(operation);
        let state = match value {
            None => BatchKeyState::Absent,
            Some(record) => {
                let start = self.values.len();
                record.write(&mut self.values);
                BatchKeyState::Stored(start..self.values.len())
            }
        };
        let before = std::mem::replace(self.states.get_mut(get)?, state);
        match before {
            BatchKeyState::Unchanged => {
                self.changed.push(get as u32);
                None
            }
            BatchKeyState::Absent => None,
            BatchKeyState::Stored(place) => {
                let before = ValueRecord::parse(self.values.get(place)?).outside()?;
                let is_kept = value.and_then(|value| value.outside()) == Some(before);
                // The value that was read is given up when the batch is written.
                (!is_kept && self.read(batch, operation) != Some(before)).then_some(before)
            }
        }
    }

    /// Returns the note that the key of an operation has until the batch is written: that of the
    /// value that was read.
    fn note(&self, batch: &Batch<ByteStrings>, operation: usize) -> Option<u64> {
        let read = batch.value(self.get_of(operation))?;
        ValueRecord::parse(read).note()
    }

    /// Returns what the value that the batch has read for the key of an operation refers to.
    fn read(&self, batch: &Batch<ByteStrings>, operation: usize) -> Option<Outside> {
        let read = batch.value(self.get_of(operation))?;
        ValueRecord::parse(read).outside()
    }

    /// Fills `writes` with the changes to the keys that `read` has read, and returns their gets. If
    /// the keys are shared with other servers, each write compares with what was read.
    pub fn plan_writes(
        &self,
        writes: &mut Batch<ByteStrings>,
        read: &Batch<ByteStrings>,
        is_shared: bool,
    ) -> &[u32] {
        // Its operations are numbered as the changed gets.
        debug_assert!(writes.is_empty());
        for &get in &self.changed {
            let key = self.keys.get(get as usize);
            let key = key.map(|&(_, key)| read.staged(key)).unwrap_or_default();
            let now = self.now(get);
            // The index holds what was read. It has seen none of the values that commands of the
            // batch gave the key in between.
            let before = || read.value(get as usize);
            match now {
                Some(value) if is_shared => writes.update(key, before(), value),
                Some(value) => writes.insert(key, value),
                None if is_shared => match before() {
                    Some(before) => writes.remove_if(key, before),
                    // It was absent, and is absent again.
                    None => writes.get(key),
                },
                None => writes.remove(key),
            };
        }
        debug_assert_eq!(writes.len(), self.changed.len());
        &self.changed
    }

    /// Returns the new value of the key of a get that was changed, `None` if it is removed.
    #[inline]
    pub fn now(&self, get: u32) -> Option<&[u8]> {
        let state = self.states.get(get as usize);
        debug_assert!(!matches!(state, Some(BatchKeyState::Unchanged)));
        match self.states.get(get as usize)? {
            BatchKeyState::Stored(place) => {
                Some(self.values.get(place.clone()).unwrap_or_default())
            }
            _ => None,
        }
    }
}

/// Returns the value that an operation has found. A key that is longer than keys can be is absent.
///
/// # Errors
/// The error of the operation.
#[inline]
fn value_met(batch: &Batch<ByteStrings>, operation: usize) -> Result<Option<&[u8]>, CommandError> {
    match batch.value(operation) {
        None => match batch.outcome(operation) {
            OperationOutcome::Failed(OperationError::KeyTooLong { .. }) => Ok(None),
            OperationOutcome::Failed(error) => Err(error.into()),
            _ => Ok(None),
        },
        value => Ok(value),
    }
}

/// The keys of one command of a batch.
#[derive(Debug)]
pub struct InBatch<'b> {
    /// The state that is shared between databases.
    pub keyspace: &'b Keyspace,
    /// The database.
    pub database: &'b Database,
    /// The batch, already executed.
    pub batch: &'b Batch<ByteStrings>,
    /// The number of the command's first operation.
    pub first: usize,
    /// The number of the operation on the key that was [selected](InBatch::at).
    pub operation: usize,
    /// The values as the commands so far have changed them, in a batch that is folded.
    pub folded: Option<&'b mut BatchValueChanges>,
    /// The other effects of the commands.
    pub ledger: &'b mut BatchEffects,
    /// True if the command changes keys.
    pub writes: bool,
    /// The time of the command.
    pub now_ms: u64,
    /// The function that returns the part of each key's object that the command touches, and its
    /// arguments.
    pub part: (PartOf, &'b [&'b [u8]]),
}

impl InBatch<'_> {
    /// Selects the key at `position` among those of the command for what follows.
    #[inline]
    pub fn at(&mut self, position: usize) -> &mut Self {
        self.operation = self.first + position;
        self
    }

    /// Gives up what was stored for a key that an applied batch has removed, or has set to a string
    /// that does not expire.
    fn give_up(&mut self, key: &[u8], old: ValueRecord<'_>) {
        self.keyspace.retire(old.outside());
        if self.keyspace.is_shared() {
            self.database.note_shared_expiry(key, old.note(), None);
        } else {
            let notes = &mut self.ledger.notes;
            notes.add(self.operation as u32, key, old.note(), None);
        }
    }

    /// Returns the key that is nearest to that of the command's operation, itself included, and
    /// what is stored for it. Needs a batch that has the keyspace to itself and changes nothing.
    ///
    /// # Errors
    /// Those of the index.
    pub fn nearest(
        &self,
        key: &[u8],
        direction: ScanDirection,
    ) -> Result<Option<Entry>, CommandError> {
        debug_assert!(self.folded.is_none() && !self.writes);
        let met = match self.batch.outcome(self.first) {
            OperationOutcome::Entry(met) => met,
            OperationOutcome::Failed(error) => return Err(error.into()),
            _ => None,
        };
        let met = met.map(|(key, stored)| (key.to_vec(), stored.to_vec()));
        let met = self.database.entries().and_then(|entries| entries.own(met));
        let over = |(_, stored): &Entry| ValueRecord::parse(stored).is_expired(self.now_ms);
        if met.as_ref().is_some_and(over) {
            // The batch has looked up one neighbor only. The search for one that has not expired
            // begins at the key once more.
            return Ok(self.database.nearest(key, direction, self.now_ms)?);
        }
        Ok(met)
    }

    /// Settles that a batch which is applied has set a key.
    ///
    /// # Errors
    /// The index has refused the write.
    #[inline]
    fn settle(&mut self, key: &[u8]) -> Result<(), CommandError> {
        match self.batch.value(self.operation) {
            // There is nothing to give up, and nothing expires.
            Some(old) if is_plain(old) => Ok(()),
            Some(old) => {
                self.give_up(key, ValueRecord::parse(old));
                Ok(())
            }
            None => match self.batch.outcome(self.operation) {
                OperationOutcome::Failed(error) => Err(match self.database.entries() {
                    Some(entries) => entries.own_error(error, key).into(),
                    None => error.into(),
                }),
                _ => Ok(()),
            },
        }
    }

    /// Changes the time at which a key expires.
    ///
    /// # Errors
    /// `NoSuchKey`; those of the index.
    pub fn set_expiry(
        &mut self,
        _key: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        let Some(folded) = &mut self.folded else {
            return Err(CommandError::NoSuchKey);
        };
        let mut value = std::mem::take(&mut folded.scratch);
        value.clear();
        let stored = folded.stored(self.batch, self.operation)?;
        value.extend_from_slice(stored.ok_or(CommandError::NoSuchKey)?);
        let record = ValueRecord {
            expires_at_ms,
            ..ValueRecord::parse(&value)
        };
        self.fold(record);
        if let Some(folded) = &mut self.folded {
            folded.scratch = value;
        }
        Ok(())
    }

    /// Sets the record of a key in a batch that is folded. Returns false in one that is applied.
    #[inline]
    fn fold(&mut self, record: ValueRecord<'_>) -> bool {
        let Some(folded) = &mut self.folded else {
            return false;
        };
        // Notes are written after the batch. Until then the key has the note of the value that was
        // read, whatever earlier commands of the batch have set.
        let note = match record.expires_at_ms {
            Some(_) if !self.keyspace.is_shared() => folded.note(self.batch, self.operation),
            _ => None,
        };
        let record = record.keeping_note(note);
        let given_up = folded.change(self.batch, self.operation, Some(record));
        self.keyspace.retire(given_up);
        true
    }

    /// Counts a change of a key. Writes are part of a batch only while nobody observes keys, so an
    /// event would have no reader.
    #[inline]
    pub fn changed(&mut self, _key: &[u8], _class: Class, _name: &'static str) {
        self.ledger.changes += 1;
    }

    /// Logs `words` in place of the command as it was sent.
    pub fn log_instead(&mut self, words: &[&[u8]]) {
        self.ledger.has_own_log = true;
        self.log_before(words);
    }
}

impl<'b> KeyStore<'b> for InBatch<'b> {
    #[inline]
    fn keyspace(&self) -> &'b Keyspace {
        self.keyspace
    }

    #[inline]
    fn database(&self) -> &Database {
        self.database
    }

    #[inline]
    fn database_number(&self) -> usize {
        self.database.number()
    }

    #[inline]
    fn over_at_ms(&self) -> Option<u64> {
        Some(self.now_ms)
    }

    #[inline]
    fn part(&self) -> (PartOf, &'b [&'b [u8]]) {
        self.part
    }

    #[inline]
    fn is_use(&self) -> bool {
        true
    }

    #[inline]
    fn may_expire(&self) -> bool {
        self.writes
    }

    #[inline]
    fn read_record<R>(
        &mut self,
        _key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, CommandError> {
        let stored = match &self.folded {
            None => value_met(self.batch, self.operation)?,
            Some(folded) => folded.stored(self.batch, self.operation)?,
        };
        Ok(stored.map(read))
    }

    /// Stores a record. A batch that is applied has done so already; this only settles it.
    #[inline]
    fn put(&mut self, key: &[u8], record: ValueRecord<'_>) -> Result<(), CommandError> {
        if !self.fold(record) {
            // The batch has inserted the words as they were sent, as plain strings. A command with
            // an expiry has more words, and is folded.
            debug_assert!(record.expires_at_ms.is_none() && record.outside().is_none());
            return self.settle(key);
        }
        // A long record may come from short arguments, which are all that is counted else.
        const LONG_BYTES: usize = 1024;
        if let RecordPayload::Inline(value) = record.payload
            && value.len() > LONG_BYTES
        {
            let bytes = 2 * value.len() as u64;
            self.keyspace.put_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Removes a record. A batch that is applied has done so already; this only settles it.
    fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        if let Some(folded) = &mut self.folded {
            let given_up = folded.change(self.batch, self.operation, None);
            self.keyspace.retire(given_up);
            return Ok(true);
        }
        let Some(old) = value_met(self.batch, self.operation)? else {
            return Ok(false);
        };
        let old = ValueRecord::parse(old);
        self.give_up(key, old);
        Ok(!old.is_expired(self.now_ms))
    }

    fn before_change(&mut self, _key: &[u8], slot: ObjectSlot) {
        let folded = self.folded.as_deref();
        let read = folded.and_then(|folded| folded.read(self.batch, self.operation));
        // An object that a command of the batch has created is dropped if the index refuses the
        // key. One that was there before stays changed.
        self.ledger.in_place |= read == Some(Outside::Slot(slot));
    }
}

impl KeyLedger for InBatch<'_> {
    #[inline]
    fn count_lookup(&mut self, is_hit: bool) {
        match is_hit {
            true => self.ledger.hits += 1,
            false => self.ledger.misses += 1,
        }
    }

    fn count_expired_key(&mut self, _began: Instant) {
        self.ledger.expired += 1;
    }

    fn count_expired_fields(&mut self, fields: usize) {
        self.ledger.expired_fields += fields as u64;
    }

    fn log_before<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        if self.ledger.logging {
            encode::words(&mut self.ledger.log, words);
        }
    }

    #[inline]
    fn happened(&mut self, _key: &[u8], _class: Class, _name: &'static str) {}

    #[inline]
    fn happened_last(&mut self, _key: &[u8], _class: Class, _name: &'static str) {}
}
