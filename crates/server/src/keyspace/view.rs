//! The rules by which a command sees and changes its keys.
//!
//! Each rule exists once, in [`KeyView`], over two seams:
//!
//! - The [store](KeyStore) holds the records of the keys: the index itself or a
//!   [draft](super::draft) for a command that is executed [alone](super::DatabaseKeys), and the
//!   outcomes of operations for a command of a [batch](super::InBatch).
//! - The [ledger](KeyLedger) takes what is counted, logged and told to observers.

use super::effects::Class;
use super::record::{PLAIN_STRING, RecordPayload, ValueRecord, is_in_slot};
use super::slots::ObjectSlot;
use super::{Database, KeyMetadata, Keyspace, Outside, cold, fields};
use crate::error::CommandError;
use crate::object::{Container, HeapBytes, ObjectLimits, PartOf, RedisType, StoredObject};
use nearfield_tiers::AccountedHeap;
use std::time::Instant;

/// The records of the keys of a command, without rules. See the [module](self).
pub trait KeyStore<'k> {
    /// Returns the state that is shared between databases.
    fn keyspace(&self) -> &'k Keyspace;

    /// Returns the database of the keys.
    fn database(&self) -> &Database;

    /// Returns the number of the database.
    fn database_number(&self) -> usize;

    /// Returns the time up to which keys and fields have expired; `None` while a log is replayed,
    /// when they are deleted only if the log says so.
    fn over_at_ms(&self) -> Option<u64>;

    /// Returns the function that returns the part of each key's object that the command touches,
    /// and its arguments.
    fn part(&self) -> (PartOf, &'k [&'k [u8]]);

    /// Returns true if reads count as uses, which may promote a cold value to memory.
    fn is_use(&self) -> bool;

    /// Returns true if the command deletes an expired key that it finds.
    fn may_expire(&self) -> bool;

    /// Passes the record of a key, expired or not, to `read` as it is stored.
    ///
    /// # Errors
    /// Those of the index.
    fn read_record<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, CommandError>;

    /// Stores the record of a key, and gives up what the record before referred to.
    ///
    /// # Errors
    /// Those of the index; the key keeps its record then.
    fn put(&mut self, key: &[u8], record: ValueRecord<'_>) -> Result<(), CommandError>;

    /// Removes the record of a key, and gives up what it referred to. Returns true if there was a
    /// key that had not expired.
    ///
    /// # Errors
    /// Those of the index.
    fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError>;

    /// Prepares for a change of the object of a key in its slot, which is not open.
    fn before_change(&mut self, key: &[u8], slot: ObjectSlot);
}

/// The account of what a command does to its keys. See the [module](self).
pub trait KeyLedger {
    /// Counts the lookup of a key that a client wants to read.
    fn count_lookup(&mut self, is_hit: bool);

    /// Counts an expired key, whose deletion began at `began`.
    fn count_expired_key(&mut self, began: Instant);

    /// Counts expired fields of hashes.
    fn count_expired_fields(&mut self, fields: usize);

    /// Logs `words` before the command.
    fn log_before<W: AsRef<[u8]>>(&mut self, words: &[W]);

    /// Collects an event of a key for observers.
    fn happened(&mut self, key: &[u8], class: Class, name: &'static str);

    /// Collects an event that comes after those of the command.
    fn happened_last(&mut self, key: &[u8], class: Class, name: &'static str);
}

/// The keys of one database, as a command sees them: expired keys are absent.
pub trait KeyView<'k>: KeyStore<'k> + KeyLedger + Sized {
    /// Returns true if a key with this expiry has expired. Always false while a log is replayed.
    #[inline]
    fn has_expired(&self, expires_at_ms: Option<u64>) -> bool {
        let over_at_ms = self.over_at_ms();
        expires_at_ms.is_some_and(|time| over_at_ms.is_some_and(|over| time <= over))
    }

    /// Returns the time up to which fields have expired: 0 while a log is replayed.
    #[inline]
    fn field_time_ms(&self) -> u64 {
        self.over_at_ms().unwrap_or(0)
    }

    // ---- Looking up ------------------------------------------------------------------------

    /// Returns the facts about a key, without counting a hit or miss. An expired key is deleted,
    /// if the command may do so.
    ///
    /// # Errors
    /// Those of the index.
    fn peek(&mut self, key: &[u8]) -> Result<Option<KeyMetadata>, CommandError> {
        let found = self.read_record(key, |stored| ValueRecord::parse(stored).into())?;
        match found {
            Some(KeyMetadata { expires_at_ms, .. }) if self.has_expired(expires_at_ms) => {
                if self.may_expire() {
                    self.expire(key)?;
                }
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Deletes an expired key.
    ///
    /// # Errors
    /// Those of the index.
    fn expire(&mut self, key: &[u8]) -> Result<(), CommandError> {
        let began = Instant::now();
        self.remove(key)?;
        self.count_expired_key(began);
        // A replay of the log does not look at times.
        self.log_before(&[b"DEL".as_slice(), key]);
        self.happened(key, Class::Expired, "expired");
        Ok(())
    }

    /// Returns the facts about a key that a client wants to read.
    ///
    /// # Errors
    /// Those of the index.
    #[inline]
    fn find(&mut self, key: &[u8]) -> Result<Option<KeyMetadata>, CommandError> {
        let found = self.peek(key)?;
        self.count_lookup(found.is_some());
        Ok(found)
    }

    /// Returns true if the key exists.
    ///
    /// # Errors
    /// Those of the index.
    fn exists(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        Ok(self.peek(key)?.is_some())
    }

    /// Returns the type of a key that exists.
    ///
    /// # Errors
    /// Those of the index.
    fn kind(&mut self, key: &[u8]) -> Result<Option<RedisType>, CommandError> {
        Ok(self.peek(key)?.map(|found| found.kind))
    }

    // ---- Strings ---------------------------------------------------------------------------

    /// Passes the string of a key to `read`, `None` if there is no key.
    ///
    /// # Errors
    /// `WrongType`.
    fn read_string<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, CommandError> {
        self.read_string_and_expiry(key, |value, _| read(value))
    }

    /// Passes the string of a key to `read`, as [`read_string`](KeyView::read_string) does, and the
    /// time at which the key expires.
    ///
    /// # Errors
    /// `WrongType`.
    #[inline]
    fn read_string_and_expiry<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>, Option<u64>) -> R,
    ) -> Result<R, CommandError> {
        // For an absent or expired key, the reader is called at the end, without a value.
        let (keyspace, mut read) = (self.keyspace(), Some(read));
        let (number, is_use, over_at_ms) =
            (self.database_number(), self.is_use(), self.over_at_ms());
        let met = self.read_record(key, |stored| {
            if let [PLAIN_STRING, value @ ..] = stored {
                // Most strings are plain: there is nothing to parse.
                return read.take().map(|read| Ok(read(Some(value), None)));
            }
            let mut result = None;
            let read = &mut |value: Option<&[u8]>, expires_at_ms: Option<u64>| {
                result = read.take().map(|read| read(value, expires_at_ms));
            };
            match read_other_string(keyspace, (number, key), is_use, over_at_ms, stored, read) {
                Ok(()) => result.map(Ok),
                Err(error) => Some(Err(error)),
            }
        })?;
        let (is_stored, result) = (met.is_some(), met.flatten());
        // A key of another type is a hit, as in Redis, which looks a key up before it checks the
        // type.
        self.count_lookup(result.is_some());
        if let Some(result) = result {
            return result;
        }
        if is_stored {
            // The key has expired, so that `peek` deletes it.
            self.peek(key)?;
        }
        match read {
            Some(read) => Ok(read(None, None)),
            None => unreachable!("a reader that was called has a result"),
        }
    }

    /// Returns a copy of the string of a key.
    ///
    /// # Errors
    /// `WrongType`.
    fn string(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
        self.read_string(key, |value| value.map(<[u8]>::to_vec))
    }

    /// Sets a key to a string, replacing any value; it expires at `expires_at_ms`, or never.
    ///
    /// # Errors
    /// Those of the index.
    #[inline]
    fn set_string(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        let record = ValueRecord {
            expires_at_ms,
            ..ValueRecord::string(value)
        };
        // Slots belong to this process: a value in a pool must be readable for other servers.
        if !is_in_slot(false, value.len()) || self.keyspace().is_shared() {
            return self.put(key, record);
        }
        let text = HeapBytes::new_in(value, self.keyspace().heap.clone());
        self.put_object(key, text.wrap(), expires_at_ms)
    }

    /// Changes the string of a key in place. An absent key counts as an empty string; a key whose
    /// string is empty afterwards is kept only if it existed before. The expiry stays.
    ///
    /// # Errors
    /// `WrongType`.
    fn edit_string<R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut HeapBytes) -> R,
    ) -> Result<R, CommandError> {
        let keyspace = self.keyspace();
        let found = self.peek(key)?;
        if found.is_some_and(|found| found.kind != RedisType::String) {
            return Err(CommandError::WrongType);
        }
        if let Some(Outside::Slot(slot)) = found.and_then(|found| found.outside) {
            // Before the slot is opened, because a snapshot opens it to write the string.
            self.before_change(key, slot);
            let mut object = keyspace.slots.open_to_change(slot);
            let Some(text) = object.as_mut().and_then(HeapBytes::of_mut) else {
                unreachable!("the slot of a string holds a string")
            };
            return Ok(edit(text));
        }
        let copy = |value: Option<&[u8]>| {
            HeapBytes::new_in(value.unwrap_or_default(), keyspace.heap.clone())
        };
        let mut text = match found {
            Some(_) => self.read_string(key, copy)?,
            None => copy(None),
        };
        let result = edit(&mut text);
        if found.is_none() && text.bytes().is_empty() {
            return Ok(result);
        }
        let expires_at_ms = found.and_then(|found| found.expires_at_ms);
        if is_in_slot(true, text.bytes().len()) && !keyspace.is_shared() {
            self.put_object(key, text.wrap(), expires_at_ms)?;
        } else {
            let record = ValueRecord {
                raw: true,
                expires_at_ms,
                ..ValueRecord::string(text.bytes())
            };
            self.put(key, record)?;
        }
        Ok(result)
    }

    // ---- Objects ---------------------------------------------------------------------------

    /// Passes the object of a key to `read`, `None` if there is no key.
    ///
    /// # Errors
    /// `WrongType`.
    fn read<T: Container, R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(Option<&T>) -> R,
    ) -> Result<R, CommandError> {
        let Some(found) = self.find(key)? else {
            return Ok(read(None));
        };
        if found.kind != T::KIND {
            return Err(CommandError::WrongType);
        }
        if let (true, Some(Outside::Place(place))) = (self.is_use(), found.outside) {
            let number = self.database_number();
            self.keyspace().cold.note_use(number, key, place);
        }
        let read = |object: &StoredObject| read(T::of(object));
        match self.read_object(key, &found, read)? {
            Some(result) => Ok(result),
            None => Err(CommandError::WrongType),
        }
    }

    /// Passes the object of any type to `read`, for callers that treat all types alike. Returns
    /// `None` for strings that are stored in the index, or would be without cold tiers.
    ///
    /// # Errors
    /// The object is stored in a cold tier and cannot be read.
    fn read_object<R>(
        &self,
        key: &[u8],
        found: &KeyMetadata,
        read: impl FnOnce(&StoredObject) -> R,
    ) -> Result<Option<R>, CommandError> {
        let (mut read, mut result) = (Some(read), None);
        self.lend_object(key, found, &mut |object| {
            result = read.take().map(|read| read(object));
        })?;
        Ok(result)
    }

    /// Passes an object to `read` as [`read_object`](KeyView::read_object) does. It is compiled
    /// once for all readers, because it is long beside the call.
    ///
    /// # Errors
    /// As `read_object`.
    fn lend_object(
        &self,
        key: &[u8],
        found: &KeyMetadata,
        read: &mut dyn FnMut(&StoredObject),
    ) -> Result<(), CommandError> {
        let keyspace = self.keyspace();
        match found.outside {
            None => {}
            Some(Outside::Slot(slot)) => {
                let mut object = keyspace.slots.open(slot);
                let (part, args) = self.part();
                let named = (self.database_number(), key);
                let is_lent = keyspace.lend(named, &mut object, || part(args), self.is_use())?;
                if let Some(object) = object.as_mut() {
                    object.at(self.field_time_ms());
                    read(object);
                }
                if is_lent {
                    Keyspace::end_loan(&mut object);
                }
            }
            Some(Outside::Place(_)) if found.kind == RedisType::String => {}
            Some(Outside::Place(place)) => {
                // The copy is freed after the command, and does not count as memory of the keys.
                let mut object = keyspace.thaw(key, found.kind, place, &AccountedHeap::new())?;
                object.at(self.field_time_ms());
                read(&object);
            }
        }
        Ok(())
    }

    /// Passes the object of a key to `edit`, an empty one if there is no key. A key whose object is
    /// empty afterwards is deleted, or not created.
    ///
    /// # Errors
    /// `WrongType`.
    fn edit<T: Container, R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut T, &ObjectLimits) -> R,
    ) -> Result<R, CommandError> {
        let limits = self.keyspace().limits();
        if let Some(found) = fields::find_to_change(self, key)? {
            return edit_found(self, key, &found, |object| edit(object, &limits));
        }
        let mut object = T::create(&self.keyspace().heap);
        let result = edit(&mut object, &limits);
        if !object.is_empty() {
            self.put_object(key, object.wrap(), None)?;
        }
        Ok(result)
    }

    /// Passes the object of a key to `edit`, if there is one. A key whose object is empty
    /// afterwards is deleted.
    ///
    /// # Errors
    /// `WrongType`.
    fn edit_present<T: Container, R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut T) -> R,
    ) -> Result<Option<R>, CommandError> {
        match fields::find_to_change(self, key)? {
            None => Ok(None),
            Some(found) => edit_found(self, key, &found, edit).map(Some),
        }
    }

    /// Sets a key to an object, replacing any value.
    ///
    /// # Errors
    /// Those of the index; the placement holds no objects.
    fn put_object(
        &mut self,
        key: &[u8],
        object: StoredObject,
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        self.put_in_slot(key, object, expires_at_ms).map(drop)
    }

    /// Sets a key to an object like [`put_object`](KeyView::put_object), and returns its slot.
    ///
    /// # Errors
    /// As `put_object`.
    fn put_in_slot(
        &mut self,
        key: &[u8],
        mut object: StoredObject,
        expires_at_ms: Option<u64>,
    ) -> Result<ObjectSlot, CommandError> {
        let (keyspace, kind) = (self.keyspace(), object.kind());
        if keyspace.is_shared() {
            let name = kind.name();
            return Err(CommandError::owned(format!(
                "ERR the placement pool holds strings only, and this would store a {name}"
            )));
        }
        self.database().note_fields(key, &mut object);
        let Some(slot) = keyspace.slots.put(object) else {
            return Err(CommandError::text("OOM too many objects"));
        };
        let record = ValueRecord {
            expires_at_ms,
            ..ValueRecord::object(kind, slot)
        };
        let result = self.put(key, record);
        if result.is_err() {
            // No record has named the slot, so that no thread can be reading it.
            keyspace.slots.withdraw(slot);
        }
        result.map(|()| slot)
    }
}

impl<'k, V: KeyStore<'k> + KeyLedger> KeyView<'k> for V {}

/// A reader of a string, `None` if there is none, and of the time at which its key expires.
type StringReader<'r> = dyn FnMut(Option<&[u8]>, Option<u64>) + 'r;

/// Passes the string of a record that is not plain to `read`, and the time at which the key
/// expires. It does nothing if the key has expired.
///
/// # Errors
/// `WrongType`; the string is stored in a cold tier and cannot be read.
fn read_other_string(
    keyspace: &Keyspace,
    (number, key): (usize, &[u8]),
    is_use: bool,
    over_at_ms: Option<u64>,
    stored: &[u8],
    read: &mut StringReader<'_>,
) -> Result<(), CommandError> {
    let record = ValueRecord::parse(stored);
    if over_at_ms.is_some_and(|now| record.is_expired(now)) {
        return Ok(());
    }
    if record.kind != RedisType::String {
        return Err(CommandError::WrongType);
    }
    if let (true, RecordPayload::InTier(place)) = (is_use, record.payload) {
        keyspace.cold.note_use(number, key, place);
    }
    keyspace.read_stored(key, &record, |value| read(value, record.expires_at_ms))
}

/// Passes the object of a key that exists to `edit`.
fn edit_found<'v, T: Container, R>(
    view: &mut impl KeyView<'v>,
    key: &[u8],
    found: &KeyMetadata,
    edit: impl FnOnce(&mut T) -> R,
) -> Result<R, CommandError> {
    let (mut edit, mut result) = (Some(edit), None);
    change_object(view, key, found, T::KIND, &mut |object| {
        let (Some(object), Some(edit)) = (T::of_mut(object), edit.take()) else {
            unreachable!("the slot of a key holds its object")
        };
        result = Some(edit(object));
        object.is_empty()
    })?;
    match result {
        Some(result) => Ok(result),
        None => unreachable!("an object that was found is passed on"),
    }
}

/// Passes the object of a key that exists to `edit`, which returns true if the object is empty
/// afterwards. It is compiled once for all commands, because it is long beside the call.
fn change_object<'v>(
    view: &mut impl KeyView<'v>,
    key: &[u8],
    found: &KeyMetadata,
    kind: RedisType,
    edit: &mut dyn FnMut(&mut StoredObject) -> bool,
) -> Result<(), CommandError> {
    let slot = match found.outside.filter(|_| found.kind == kind) {
        Some(Outside::Slot(slot)) => slot,
        Some(Outside::Place(place)) => cold::warm(view, key, found, place)?,
        None => return Err(CommandError::WrongType),
    };
    // Before the slot is opened, because a snapshot opens it to write the object.
    view.before_change(key, slot);
    let keyspace = view.keyspace();
    let mut guard = keyspace.slots.open_to_change(slot);
    let (part, args) = view.part();
    keyspace.warm(key, &mut guard, || part(args))?;
    let Some(object) = guard.as_mut() else {
        unreachable!("the slot of a key holds its object")
    };
    object.at(view.field_time_ms());
    let is_empty = edit(object);
    view.database().note_fields(key, object);
    drop(guard);
    if is_empty {
        view.remove(key)?;
        // Redis announces the deletion after the event of the command, which is still to be
        // reported.
        view.happened_last(key, Class::Generic, "del");
    }
    Ok(())
}
