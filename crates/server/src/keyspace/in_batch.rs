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

use super::fields;
use super::notes::NoteChanges;
use super::record::{PLAIN_STRING, RecordPayload, ValueRecord, is_in_slot, is_plain};
use super::slots::ObjectSlot;
use super::{Database, Entry, KeyMetadata, Keyspace, Outside};
use crate::error::CommandError;
use crate::object::{Container, HeapBytes, ObjectLimits, PartOf, RedisType, StoredObject};
use crate::resp::encode;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use nearfield::{Batch, ByteStrings, OperationError, OperationOutcome, ScanDirection};
use nearfield_core::ArenaSpan;
use nearfield_tiers::AccountedHeap;
use std::ops::Range;
use std::sync::atomic::Ordering;

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
    changes_before: u64,
    log_before: usize,
    told: bool,
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
        self.told = false;
        self.in_place = false;
    }

    /// Ends a command. Logs `request` if the command has changed something and has not logged other
    /// words. Returns the range of the command's part of the log.
    #[inline]
    pub fn end(&mut self, request: &[u8]) -> Range<usize> {
        debug_assert!(self.changes >= self.changes_before);
        debug_assert!(self.log.len() >= self.log_before);
        // A request is staged in the form of the log, so that it need not be encoded once more.
        if self.logging && self.changes > self.changes_before && !self.told {
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
    /// Gives up what was stored for a key that the batch has removed, or has set to a string that
    /// does not expire.
    fn give_up(
        keyspace: &Keyspace,
        database: &Database,
        ledger: &mut BatchEffects,
        (operation, key): (usize, &[u8]),
        old: ValueRecord<'_>,
    ) -> Result<(), OperationError> {
        keyspace.retire(old.outside());
        if keyspace.is_shared() {
            return database.note_expiry(key, old.note(), None);
        }
        ledger.notes.add(operation as u32, key, old.note(), None);
        Ok(())
    }

    /// Returns what is stored for the key at `position` among those of the command; `None` if it
    /// has expired. A command that changes keys deletes such a key.
    #[inline]
    fn met(
        &mut self,
        position: usize,
        key: &[u8],
    ) -> Result<Option<ValueRecord<'_>>, CommandError> {
        let operation = self.first + position;
        let has_expired =
            |stored: &[u8]| !is_plain(stored) && ValueRecord::parse(stored).is_expired(self.now_ms);
        let stored = match &mut self.folded {
            None => value_met(self.batch, operation)?,
            Some(folded) => {
                let stored = folded.stored(self.batch, operation)?;
                if self.writes && stored.is_some_and(has_expired) {
                    let given_up = folded.change(self.batch, operation, None);
                    self.keyspace.retire(given_up);
                    self.ledger.expired += 1;
                    // A replay of the log executes the command without looking at times. It would
                    // find the key.
                    if self.ledger.logging {
                        encode::words(&mut self.ledger.log, &[b"DEL", key]);
                    }
                    return Ok(None);
                }
                folded.stored(self.batch, operation)?
            }
        };
        let record = stored.map(ValueRecord::parse);
        Ok(record.filter(|record| !record.is_expired(self.now_ms)))
    }

    /// Returns the facts about a key, without counting a hit or miss.
    ///
    /// # Errors
    /// Those of the index.
    pub fn peek(
        &mut self,
        position: usize,
        key: &[u8],
    ) -> Result<Option<KeyMetadata>, CommandError> {
        Ok(self.met(position, key)?.map(KeyMetadata::from))
    }

    /// Returns the facts about a key that a client wants to read.
    ///
    /// # Errors
    /// Those of the index.
    #[inline]
    pub fn find(
        &mut self,
        position: usize,
        key: &[u8],
    ) -> Result<Option<KeyMetadata>, CommandError> {
        let found = self.peek(position, key)?;
        match found {
            Some(_) => self.ledger.hits += 1,
            None => self.ledger.misses += 1,
        }
        Ok(found)
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

    /// Passes the string of a key and its expiry to `read`, as
    /// [`DatabaseKeys::read_string`](super::DatabaseKeys::read_string) does.
    ///
    /// # Errors
    /// `WrongType`.
    #[inline]
    pub fn read_string<R>(
        &mut self,
        position: usize,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>, Option<u64>) -> R,
    ) -> Result<R, CommandError> {
        let (keyspace, number) = (self.keyspace, self.database.number());
        if self.folded.is_none()
            && let Some([PLAIN_STRING, value @ ..]) = self.batch.value(self.first + position)
        {
            // Most strings are plain: there is nothing to parse.
            self.ledger.hits += 1;
            return Ok(read(Some(value), None));
        }
        let Some(record) = self.met(position, key)? else {
            self.ledger.misses += 1;
            return Ok(read(None, None));
        };
        let result = match record.payload {
            _ if record.kind != RedisType::String => Err(CommandError::WrongType),
            RecordPayload::Inline(value) => Ok(read(Some(value), record.expires_at_ms)),
            RecordPayload::InSlot(slot) => {
                let object = keyspace.slots.open(slot);
                let text = object
                    .as_ref()
                    .and_then(HeapBytes::of)
                    .map(HeapBytes::bytes);
                Ok(read(text, record.expires_at_ms))
            }
            RecordPayload::InTier(place) => {
                let expires_at_ms = record.expires_at_ms;
                keyspace.cold.note_use(number, key, place);
                keyspace.read_place(key, place, |value| read(Some(value), expires_at_ms))
            }
        };
        self.ledger.hits += 1;
        result
    }

    /// Passes the object of a key to `read`, `None` if there is no key.
    ///
    /// # Errors
    /// `WrongType`.
    pub fn read<T: Container, R>(
        &mut self,
        position: usize,
        key: &[u8],
        read: impl FnOnce(Option<&T>) -> R,
    ) -> Result<R, CommandError> {
        let Some(found) = self.find(position, key)? else {
            return Ok(read(None));
        };
        match found.outside.filter(|_| found.kind == T::KIND) {
            None => Err(CommandError::WrongType),
            Some(Outside::Slot(slot)) => {
                let mut object = self.keyspace.slots.open(slot);
                let (part, args) = self.part;
                let named = (self.database.number(), key);
                let is_lent = self
                    .keyspace
                    .lend(named, &mut object, || part(args), true)?;
                object.iter_mut().for_each(|it| it.at(self.now_ms));
                let result = read(object.as_ref().and_then(T::of));
                if is_lent {
                    Keyspace::end_loan(&mut object);
                }
                Ok(result)
            }
            Some(Outside::Place(place)) => {
                let number = self.database.number();
                self.keyspace.cold.note_use(number, key, place);
                let mut object = self
                    .keyspace
                    .thaw(key, T::KIND, place, &AccountedHeap::new())?;
                object.at(self.now_ms);
                Ok(read(T::of(&object)))
            }
        }
    }

    /// Sets a key to a string. A batch that is applied has done so already; this only settles it.
    ///
    /// # Errors
    /// The index has refused the write.
    #[inline]
    pub fn set_string(
        &mut self,
        position: usize,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        let operation = self.first + position;
        let record = ValueRecord {
            expires_at_ms,
            ..ValueRecord::string(value)
        };
        if self.fold_string(operation, record) {
            return Ok(());
        }
        // The batch has inserted the words as they were sent, as plain strings. A command with an
        // expiry has more words, and is folded.
        debug_assert!(expires_at_ms.is_none());
        match self.batch.value(operation) {
            // There is nothing to give up, and nothing expires.
            Some(old) if is_plain(old) => Ok(()),
            Some(old) => {
                let (place, old) = ((operation, key), ValueRecord::parse(old));
                Self::give_up(self.keyspace, self.database, self.ledger, place, old)?;
                Ok(())
            }
            None => match self.batch.outcome(operation) {
                OperationOutcome::Failed(error) => Err(match self.database.entries() {
                    Some(entries) => entries.own_error(error, key).into(),
                    None => error.into(),
                }),
                _ => Ok(()),
            },
        }
    }

    /// Sets the key of an operation to a string that is stored in the index. Returns false in a
    /// batch that is applied, which has done so already.
    #[inline]
    fn fold_string(&mut self, operation: usize, record: ValueRecord<'_>) -> bool {
        let Some(folded) = &mut self.folded else {
            return false;
        };
        let note = match record.expires_at_ms {
            Some(_) if !self.keyspace.is_shared() => folded.note(self.batch, operation),
            _ => None,
        };
        // A long record may come from short arguments, which are all that is counted else.
        const LONG_BYTES: usize = 1024;
        if let RecordPayload::Inline(value) = record.payload
            && value.len() > LONG_BYTES
        {
            let bytes = 2 * value.len() as u64;
            self.keyspace.put_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let record = record.keeping_note(note);
        let given_up = folded.change(self.batch, operation, Some(record));
        self.keyspace.retire(given_up);
        true
    }

    /// Changes the string of a key in place, as
    /// [`DatabaseKeys::edit_string`](super::DatabaseKeys::edit_string) does. The key must exist,
    /// and the batch must be folded.
    ///
    /// # Errors
    /// `NoSuchKey`, `WrongType`; those of the index.
    pub fn edit_string<R>(
        &mut self,
        position: usize,
        key: &[u8],
        edit: impl FnOnce(&mut HeapBytes) -> R,
    ) -> Result<R, CommandError> {
        debug_assert!(self.folded.is_some());
        let found = self.peek(position, key)?.ok_or(CommandError::NoSuchKey)?;
        if matches!(found.outside, Some(Outside::Slot(_))) {
            return self.edit(position, key, |text, _| edit(text));
        }
        let heap = &self.keyspace.heap;
        let mut text = self.read_string(position, key, |value, _| {
            HeapBytes::new_in(value.unwrap_or_default(), heap.clone())
        })?;
        let result = edit(&mut text);
        if is_in_slot(true, text.bytes().len()) && !self.keyspace.is_shared() {
            self.put_object(position, key, text.wrap(), found.expires_at_ms)?;
        } else {
            let record = ValueRecord {
                raw: true,
                expires_at_ms: found.expires_at_ms,
                ..ValueRecord::string(text.bytes())
            };
            self.fold_string(self.first + position, record);
        }
        Ok(result)
    }

    /// Changes the time at which a key expires.
    ///
    /// # Errors
    /// `NoSuchKey`; those of the index.
    pub fn set_expiry(
        &mut self,
        position: usize,
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        let operation = self.first + position;
        let Some(folded) = &mut self.folded else {
            return Err(CommandError::NoSuchKey);
        };
        let mut value = std::mem::take(&mut folded.scratch);
        value.clear();
        let stored = folded.stored(self.batch, operation)?;
        value.extend_from_slice(stored.ok_or(CommandError::NoSuchKey)?);
        let note = match self.keyspace.is_shared() {
            true => None,
            false => folded.note(self.batch, operation),
        };
        let record = ValueRecord {
            expires_at_ms,
            ..ValueRecord::parse(&value)
        };
        let given_up = folded.change(self.batch, operation, Some(record.keeping_note(note)));
        folded.scratch = value;
        self.keyspace.retire(given_up);
        Ok(())
    }

    /// Passes the object of a key to `edit`, as [`DatabaseKeys::edit`](super::DatabaseKeys::edit)
    /// does.
    ///
    /// # Errors
    /// `WrongType`; those of the index.
    pub fn edit<T: Container, R>(
        &mut self,
        position: usize,
        key: &[u8],
        edit: impl FnOnce(&mut T, &ObjectLimits) -> R,
    ) -> Result<R, CommandError> {
        debug_assert!(self.folded.is_some());
        let limits = self.keyspace.limits();
        if self.database.field_notes().are_due(self.now_ms) {
            self.drop_due_fields(position, key)?;
        }
        let Some(found) = self.peek(position, key)? else {
            let mut object = T::create(&self.keyspace.heap);
            let result = edit(&mut object, &limits);
            if !object.is_empty() {
                self.put_object(position, key, object.wrap(), None)?;
            }
            return Ok(result);
        };
        let slot = match found.outside.filter(|_| found.kind == T::KIND) {
            Some(Outside::Slot(slot)) => slot,
            Some(Outside::Place(place)) => self.warm(position, key, &found, place)?,
            None => return Err(CommandError::WrongType),
        };
        let operation = self.first + position;
        let folded = self.folded.as_deref();
        let read = folded.and_then(|folded| folded.read(self.batch, operation));
        // An object that a command of the batch has created is dropped if the index refuses the
        // key. One that was there before stays changed.
        self.ledger.in_place |= read == Some(Outside::Slot(slot));
        let mut guard = self.keyspace.slots.open_to_change(slot);
        let (part, args) = self.part;
        self.keyspace.warm(key, &mut guard, || part(args))?;
        guard.iter_mut().for_each(|it| it.at(self.now_ms));
        let Some(object) = guard.as_mut().and_then(T::of_mut) else {
            unreachable!("the slot of a key holds its object")
        };
        let result = edit(object, &limits);
        let is_empty = object.is_empty();
        let object = guard.iter_mut();
        object.for_each(|it| self.database.note_fields(key, it));
        drop(guard);
        if is_empty {
            self.remove(position, key)?;
        }
        Ok(result)
    }

    /// Brings the object of a key from a cold tier into a slot.
    fn warm(
        &mut self,
        position: usize,
        key: &[u8],
        found: &KeyMetadata,
        place: nearfield_tiers::ColdPlace,
    ) -> Result<ObjectSlot, CommandError> {
        let heap = &self.keyspace.heap;
        let object = self.keyspace.thaw(key, found.kind, place, heap)?;
        let bytes = object.heap_bytes();
        let slot = self.put_object(position, key, object, found.expires_at_ms)?;
        self.keyspace.cold.count_move(place.tier(), 0, bytes);
        Ok(slot)
    }

    /// Removes expired fields of a hash before it is changed.
    #[cold]
    fn drop_due_fields(&mut self, position: usize, key: &[u8]) -> Result<(), CommandError> {
        let found = self.peek(position, key)?;
        let Some(found) = found.filter(|found| found.kind == RedisType::Hash) else {
            return Ok(());
        };
        let slot = match found.outside {
            Some(Outside::Slot(slot)) => slot,
            Some(Outside::Place(place)) if self.keyspace.cold_notes.is_due(place, self.now_ms) => {
                self.warm(position, key, &found, place)?
            }
            _ => return Ok(()),
        };
        let operation = self.first + position;
        let folded = self.folded.as_deref();
        let read = folded.and_then(|folded| folded.read(self.batch, operation));
        self.ledger.in_place |= read == Some(Outside::Slot(slot));
        let mut guard = self.keyspace.slots.open_to_change(slot);
        let Some(object) = guard.as_mut() else {
            return Ok(());
        };
        let words = fields::take_due(key, object, self.now_ms, usize::MAX, self.database);
        let is_empty = object.is_empty();
        drop(guard);
        let Some(words) = words else { return Ok(()) };
        debug_assert!(words.len() > fields::WORDS_BEFORE);
        self.ledger.expired_fields += (words.len() - fields::WORDS_BEFORE) as u64;
        if self.ledger.logging {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            encode::words(&mut self.ledger.log, &words);
        }
        if is_empty {
            self.remove(position, key)?;
        }
        Ok(())
    }

    /// Sets a key to an object.
    fn put_object(
        &mut self,
        position: usize,
        key: &[u8],
        mut object: StoredObject,
        expires_at_ms: Option<u64>,
    ) -> Result<ObjectSlot, CommandError> {
        self.database.note_fields(key, &mut object);
        let operation = self.first + position;
        let Some(folded) = &mut self.folded else {
            unreachable!("a batch in which a key is edited is folded")
        };
        let kind = object.kind();
        let Some(slot) = self.keyspace.slots.put(object) else {
            return Err(CommandError::text("OOM too many objects"));
        };
        let record = ValueRecord {
            expires_at_ms,
            ..ValueRecord::object(kind, slot)
        };
        // Notes are written after the batch. Until then the key has the note of the value that was
        // read, whatever earlier commands of the batch have set.
        let record = record.keeping_note(folded.note(self.batch, operation));
        let given_up = folded.change(self.batch, operation, Some(record));
        self.keyspace.retire(given_up);
        Ok(slot)
    }

    /// Deletes a key and returns true if it existed. A batch that is applied has done so already;
    /// this only settles it.
    ///
    /// # Errors
    /// Those of the index.
    pub fn remove(&mut self, position: usize, key: &[u8]) -> Result<bool, CommandError> {
        let operation = self.first + position;
        if self.folded.is_some() {
            let was_there = self.met(position, key)?.is_some();
            if let (true, Some(folded)) = (was_there, &mut self.folded) {
                let given_up = folded.change(self.batch, operation, None);
                self.keyspace.retire(given_up);
            }
            return Ok(was_there);
        }
        let Some(old) = value_met(self.batch, operation)? else {
            return Ok(false);
        };
        let old = ValueRecord::parse(old);
        let has_expired = old.is_expired(self.now_ms);
        if has_expired {
            self.ledger.expired += 1;
            // The key counts as absent, so that the command itself may not be logged.
            if self.ledger.logging {
                encode::words(&mut self.ledger.log, &[b"DEL", key]);
            }
        }
        let place = (operation, key);
        Self::give_up(self.keyspace, self.database, self.ledger, place, old)?;
        Ok(!has_expired)
    }

    /// Logs `words` in place of the command as it was sent.
    pub fn log_instead(&mut self, words: &[&[u8]]) {
        self.ledger.told = true;
        if self.ledger.logging {
            encode::words(&mut self.ledger.log, words);
        }
    }
}
