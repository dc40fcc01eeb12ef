//! The interface of commands to keys.

use super::draft::DraftCommitOutcome;
use super::effects::{Class, Effects};
use super::found::KeyMetadata;
use super::record::{RecordPayload, ValueRecord, is_in_slot};
use super::slots::ObjectSlot;
use super::{DATABASES, Database, Databases, Keyspace, Outside};
use crate::error::CommandError;
use crate::object::node::all;
use crate::object::{Container, HeapBytes, ObjectLimits, PartOf, RedisType, StoredObject};
use nearfield_tiers::AccountedHeap;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The access of a command to the databases.
#[derive(Debug)]
pub enum DatabaseAccess<'c> {
    /// No access.
    None,
    /// Access in the shared phase, with the stripe of the command's key.
    Shared(&'c Databases),
    /// Access in the exclusive phase.
    Exclusive(&'c mut Databases),
}

/// The keys of one database, as a command sees them: expired keys are absent.
///
/// In the shared phase only the key whose stripe is held may be touched. Functions that change a
/// key do not report it themselves, because only the command knows the event's name: it calls
/// [`changed`](DatabaseKeys::changed) for each key that it has changed.
#[derive(Debug)]
pub struct DatabaseKeys<'c> {
    keyspace: &'c Keyspace,
    access: DatabaseAccess<'c>,
    database: usize,
    now_ms: u64,
    /// True if expired keys are hidden and deleted. False for the reader of the log, which sees
    /// them and deletes them only when the log says so.
    expires: bool,
    /// True if expired keys are hidden, but not deleted.
    keeps_expired: bool,
    /// True if reads count as uses, which may promote a cold value to memory.
    is_use: bool,
    /// The function that returns the part of each key's object that the command touches, and its
    /// arguments.
    part: (PartOf, &'c [&'c [u8]]),
    effects: &'c mut Effects,
    scratch: Vec<u8>,
}

impl<'c> DatabaseKeys<'c> {
    /// Creates the view of `database` for a command that runs at `now_ms`.
    pub fn new(
        keyspace: &'c Keyspace,
        access: DatabaseAccess<'c>,
        database: usize,
        now_ms: u64,
        effects: &'c mut Effects,
    ) -> DatabaseKeys<'c> {
        debug_assert!(database < DATABASES);
        effects.logging = keyspace.is_logging();
        DatabaseKeys {
            keyspace,
            access,
            database,
            now_ms,
            expires: true,
            keeps_expired: false,
            is_use: true,
            part: (all, &[]),
            effects,
            scratch: Vec::new(),
        }
    }

    /// Creates the same view for another command that is executed within this one.
    pub fn nested(&mut self) -> DatabaseKeys<'_> {
        DatabaseKeys {
            keyspace: self.keyspace,
            access: match &mut self.access {
                DatabaseAccess::None => DatabaseAccess::None,
                DatabaseAccess::Shared(databases) => DatabaseAccess::Shared(databases),
                DatabaseAccess::Exclusive(databases) => DatabaseAccess::Exclusive(databases),
            },
            database: self.database,
            now_ms: self.now_ms,
            expires: self.expires,
            keeps_expired: self.keeps_expired,
            is_use: self.is_use,
            part: self.part,
            effects: self.effects,
            scratch: Vec::new(),
        }
    }

    /// Leaves expired keys as they are, for the reader of a log.
    pub fn without_expiry(mut self) -> Self {
        self.expires = false;
        self
    }

    /// Sets whether the command leaves expired keys in place because nothing may change
    /// (`CLIENT PAUSE`).
    pub fn set_keeps_expired(&mut self, keeps_expired: bool) {
        self.keeps_expired = keeps_expired;
    }

    /// Sets whether the command's reads count as uses. A command that only inspects values, or
    /// passes them on as they are, uses none, and values stay in their tiers.
    pub fn set_use(&mut self, is_use: bool) {
        self.is_use = is_use;
    }

    /// Sets the part of each key's object that the command touches. Large objects may have nodes in
    /// cold tiers, and only those of this part are brought in for the command.
    pub fn touch(&mut self, part: PartOf, args: &'c [&'c [u8]]) {
        self.part = (part, args);
    }

    /// Returns the state that is shared between databases.
    pub fn keyspace(&self) -> &'c Keyspace {
        self.keyspace
    }

    /// Returns the effects of the command so far.
    pub fn effects(&mut self) -> &mut Effects {
        self.effects
    }

    /// Returns the time of the command, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the number of the database.
    pub fn database_number(&self) -> usize {
        self.database
    }

    /// Selects another database for what follows.
    pub fn select(&mut self, database: usize) {
        debug_assert!(database < DATABASES);
        self.database = database;
    }

    /// Returns all databases.
    pub fn databases(&self) -> &Databases {
        match &self.access {
            DatabaseAccess::Shared(databases) => databases,
            DatabaseAccess::Exclusive(databases) => databases,
            DatabaseAccess::None => panic!("a command that holds no phase asks for keys"),
        }
    }

    /// Returns all databases, to be changed as a whole.
    ///
    /// # Panics
    /// In the shared phase: a command that does this must be declared exclusive.
    pub fn databases_mut(&mut self) -> &mut Databases {
        match &mut self.access {
            DatabaseAccess::Shared(_) | DatabaseAccess::None => {
                panic!("a command that is not exclusive changes whole databases")
            }
            DatabaseAccess::Exclusive(databases) => {
                let keyspace = self.keyspace;
                // Changes of a whole database pass the hook of single keys.
                keyspace.snapshot.before_all_change(keyspace, databases);
                databases
            }
        }
    }

    /// Returns the selected database.
    #[expect(
        clippy::indexing_slicing,
        reason = "only databases that exist are selected"
    )]
    pub fn database(&self) -> &Database {
        &self.databases()[self.database]
    }

    /// Returns true if the command is in a phase, so that it must not wait for one.
    pub fn is_in_phase(&self) -> bool {
        !matches!(self.access, DatabaseAccess::None)
    }

    /// Returns true if the command has the keyspace to itself.
    pub fn is_exclusive(&self) -> bool {
        matches!(self.access, DatabaseAccess::Exclusive(_))
    }

    /// Returns the sizes up to which objects have their small forms.
    pub fn limits(&self) -> ObjectLimits {
        self.keyspace.limits()
    }

    /// Returns true if other servers read and change the same keys.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.keyspace.is_shared()
    }

    /// Writes the command's changes to shared keys. If another server has changed the key
    /// meanwhile, nothing is written, and the command must run again.
    ///
    /// # Errors
    /// As [`Draft::commit`](super::draft::Draft::commit).
    #[inline]
    pub fn commit(&mut self) -> Result<DraftCommitOutcome, CommandError> {
        if !self.is_shared() {
            return Ok(DraftCommitOutcome::Done);
        }
        let mut draft = std::mem::take(&mut self.effects.draft);
        debug_assert!(self.is_in_phase() || !draft.has_changes());
        match &self.access {
            DatabaseAccess::None => Ok(DraftCommitOutcome::Done),
            DatabaseAccess::Shared(databases) => draft.commit(databases),
            DatabaseAccess::Exclusive(databases) => draft.commit(databases),
        }
    }

    // ---- Looking up ------------------------------------------------------------------------

    /// Passes what is stored for a key, expired or not, to `read`.
    #[inline]
    fn read_record<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(ValueRecord<'_>) -> R,
    ) -> Result<Option<R>, CommandError> {
        if self.has_draft() {
            return self.read_draft(key, read);
        }
        Ok(self.database().read(key, read)?)
    }

    /// Returns true if the command reads and writes through a draft.
    #[inline]
    fn has_draft(&self) -> bool {
        self.is_shared() && !self.effects.key_by_key
    }

    /// Returns true if changes of the command are not written yet.
    pub fn has_unwritten_changes(&self) -> bool {
        self.effects.draft.has_changes()
    }

    /// Returns the entry of a shared key. Changes of the command are written only if the key keeps
    /// this entry. Returns `None` if the key is absent or expired, and if it is not shared.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn expect_entry(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
        if !self.has_draft() {
            return Ok(None);
        }
        self.effects.draft.expect(self.database, key);
        match self.exists(key)? {
            true => self.draft_entry(key, <[u8]>::to_vec),
            false => Ok(None),
        }
    }

    #[cold]
    fn read_draft<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(ValueRecord<'_>) -> R,
    ) -> Result<Option<R>, CommandError> {
        self.draft_entry(key, |stored| read(ValueRecord::parse(stored)))
    }

    fn draft_entry<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, CommandError> {
        let databases: &Databases = match &self.access {
            DatabaseAccess::Shared(databases) => databases,
            DatabaseAccess::Exclusive(databases) => databases,
            DatabaseAccess::None => return Ok(None),
        };
        let Some(database) = databases.get(self.database) else {
            return Ok(None);
        };
        let stored = self.effects.draft.stored(self.database, database, key)?;
        Ok(stored.map(read))
    }

    /// Returns the facts about a key, without counting a hit or miss. An expired key is deleted.
    pub fn peek(&mut self, key: &[u8]) -> Result<Option<KeyMetadata>, CommandError> {
        let found = self.read_record(key, |record| KeyMetadata::from(record))?;
        match found {
            // Expired keys that are shared are left to `expire_due`.
            Some(found) if self.has_expired(found.expires_at_ms) && self.is_shared() => Ok(None),
            Some(found) if self.has_expired(found.expires_at_ms) => {
                // Observers are notified in the exclusive phase only. If there are any, a key that
                // is found outside of it is left to the expiry in that phase.
                let may_change = self.is_exclusive() || !self.keyspace.is_observed();
                if may_change && !self.keeps_expired {
                    self.expire(key)?;
                }
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Returns the facts about a key that a client wants to read.
    pub fn find(&mut self, key: &[u8]) -> Result<Option<KeyMetadata>, CommandError> {
        let found = self.peek(key)?;
        let counter = match found {
            Some(_) => &self.keyspace.hits,
            None => &self.keyspace.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(found)
    }

    /// Returns true if the key exists.
    pub fn exists(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        Ok(self.peek(key)?.is_some())
    }

    /// Returns the type of a key that exists.
    pub fn kind(&mut self, key: &[u8]) -> Result<Option<RedisType>, CommandError> {
        Ok(self.peek(key)?.map(|found| found.kind))
    }

    /// Returns true if a key with this expiry has expired. Always false while a log is replayed:
    /// there keys are deleted when the log says so.
    pub fn has_expired(&self, expires_at_ms: Option<u64>) -> bool {
        self.expires && expires_at_ms.is_some_and(|time| time <= self.now_ms)
    }

    // ---- Strings ---------------------------------------------------------------------------

    /// Passes the string of a key to `read`, `None` if there is no key.
    ///
    /// # Errors
    /// `WrongType`.
    pub fn read_string<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, CommandError> {
        self.read_string_and_expiry(key, |value, _| read(value))
    }

    /// Passes the string of a key to `read`, as [`read_string`](DatabaseKeys::read_string) does,
    /// and the time at which the key expires.
    ///
    /// # Errors
    /// `WrongType`.
    pub fn read_string_and_expiry<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>, Option<u64>) -> R,
    ) -> Result<R, CommandError> {
        // For an absent or expired key, the reader is called at the end, without a value.
        let (keyspace, mut read) = (self.keyspace, Some(read));
        let (hit, result) = {
            let (is_use, database) = (self.is_use, self.database);
            let over_at_ms = self.expires.then_some(self.now_ms);
            let has_expired =
                |record: &ValueRecord<'_>| over_at_ms.is_some_and(|now| record.is_expired(now));
            let met = self.read_record(key, |record| match record.payload {
                _ if has_expired(&record) => None,
                _ if record.kind != RedisType::String => Some(Err(CommandError::WrongType)),
                _ => {
                    if let (true, RecordPayload::InTier(place)) = (is_use, record.payload) {
                        keyspace.cold.note_use(database, key, place);
                    }
                    let read = read.take()?;
                    let expires_at_ms = record.expires_at_ms;
                    let read = |value: Option<&[u8]>| read(value, expires_at_ms);
                    Some(keyspace.read_stored(key, &record, read))
                }
            })?;
            (met.is_some(), met.flatten())
        };
        // A key of another type is a hit, as in Redis, which looks a key up before it checks the
        // type.
        let counter = match result {
            Some(_) => &keyspace.hits,
            None => &keyspace.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(result) = result {
            return result;
        }
        if hit {
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
    pub fn string(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
        self.read_string(key, |value| value.map(<[u8]>::to_vec))
    }

    /// Sets a key to a string, replacing any value; it expires at `expires_at_ms`, or never.
    pub fn set_string(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        // Slots belong to this process: a value in a pool must be readable for other servers.
        if is_in_slot(false, value.len()) && !self.is_shared() {
            let text = HeapBytes::new_in(value, self.keyspace.heap.clone());
            return self.put_object(key, text.wrap(), expires_at_ms);
        }
        let record = ValueRecord {
            expires_at_ms,
            ..ValueRecord::string(value)
        };
        self.put(key, record)
    }

    /// Changes the string of a key in place. An absent key counts as an empty string; a key whose
    /// string is empty afterwards is kept only if it existed before. The expiry stays.
    ///
    /// # Errors
    /// `WrongType`.
    pub fn edit_string<R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut HeapBytes) -> R,
    ) -> Result<R, CommandError> {
        let found = self.peek(key)?;
        match found {
            Some(found) if found.kind != RedisType::String => Err(CommandError::WrongType),
            Some(KeyMetadata {
                outside: Some(Outside::Slot(slot)),
                ..
            }) => {
                // Before the slot is opened, because a snapshot opens it to write the string.
                self.before_change(key);
                let mut object = self.keyspace.slots.open_to_change(slot);
                let Some(text) = object.as_mut().and_then(HeapBytes::of_mut) else {
                    unreachable!("the slot of a string holds a string")
                };
                Ok(edit(text))
            }
            _ => {
                let value = match found {
                    Some(_) => self.string(key)?.unwrap_or_default(),
                    None => Vec::new(),
                };
                let mut text = HeapBytes::new_in(&value, self.keyspace.heap.clone());
                let result = edit(&mut text);
                if found.is_none() && text.bytes().is_empty() {
                    return Ok(result);
                }
                let expires_at_ms = found.and_then(|found| found.expires_at_ms);
                if is_in_slot(true, text.bytes().len()) && !self.is_shared() {
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
        }
    }

    // ---- Objects ---------------------------------------------------------------------------

    /// Passes the object of a key to `read`, `None` if there is no key.
    ///
    /// # Errors
    /// `WrongType`.
    pub fn read<T: Container, R>(
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
        if let (true, Some(Outside::Place(place))) = (self.is_use, found.outside) {
            self.keyspace.cold.note_use(self.database, key, place);
        }
        let read = |object: &StoredObject| read(T::of(object));
        match self.read_object(key, &found, read)? {
            Some(result) => Ok(result),
            None => Err(CommandError::WrongType),
        }
    }

    /// Passes the object of a key to `edit`, an empty one if there is no key. A key whose object is
    /// empty afterwards is deleted, or not created.
    ///
    /// # Errors
    /// `WrongType`.
    pub fn edit<T: Container, R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut T, &ObjectLimits) -> R,
    ) -> Result<R, CommandError> {
        let limits = self.limits();
        self.drop_due_fields(key)?;
        if let Some(found) = self.peek(key)? {
            return self.edit_found(key, &found, |object| edit(object, &limits));
        }
        let mut object = T::create(&self.keyspace.heap);
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
    pub fn edit_present<T: Container, R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut T) -> R,
    ) -> Result<Option<R>, CommandError> {
        self.drop_due_fields(key)?;
        match self.peek(key)? {
            None => Ok(None),
            Some(found) => self.edit_found(key, &found, edit).map(Some),
        }
    }

    fn edit_found<T: Container, R>(
        &mut self,
        key: &[u8],
        found: &KeyMetadata,
        edit: impl FnOnce(&mut T) -> R,
    ) -> Result<R, CommandError> {
        let slot = match found.outside.filter(|_| found.kind == T::KIND) {
            Some(Outside::Slot(slot)) => slot,
            Some(Outside::Place(place)) => self.warm(key, found, place)?,
            None => return Err(CommandError::WrongType),
        };
        // Before the slot is opened, because a snapshot opens it to write the object.
        self.before_change(key);
        let mut guard = self.keyspace.slots.open_to_change(slot);
        let (part, args) = self.part;
        self.keyspace.warm(key, &mut guard, || part(args))?;
        guard.iter_mut().for_each(|it| it.at(self.field_time_ms()));
        let Some(object) = guard.as_mut().and_then(T::of_mut) else {
            unreachable!("the slot of a key holds its object")
        };
        let result = edit(object);
        let empty = object.is_empty();
        let object = guard.iter_mut();
        object.for_each(|it| self.database().note_fields(key, it));
        drop(guard);
        if empty {
            self.remove(key)?;
            if self.effects.observed {
                // Redis announces the deletion after the event of the command, which is still to
                // be reported.
                let event = self.event(key, Class::Generic, "del");
                self.effects.last_events.push(event);
            }
        }
        Ok(result)
    }

    /// Sets a key to an object, replacing any value.
    pub fn put_object(
        &mut self,
        key: &[u8],
        object: StoredObject,
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        self.put_in_slot(key, object, expires_at_ms).map(drop)
    }

    pub(super) fn put_in_slot(
        &mut self,
        key: &[u8],
        mut object: StoredObject,
        expires_at_ms: Option<u64>,
    ) -> Result<ObjectSlot, CommandError> {
        let kind = object.kind();
        if self.is_shared() {
            let name = kind.name();
            return Err(CommandError::owned(format!(
                "ERR the placement pool holds strings only, and this would store a {name}"
            )));
        }
        self.database().note_fields(key, &mut object);
        let Some(slot) = self.keyspace.slots.put(object) else {
            return Err(CommandError::text("OOM too many objects"));
        };
        let record = ValueRecord {
            expires_at_ms,
            ..ValueRecord::object(kind, slot)
        };
        let result = self.put(key, record);
        if result.is_err() {
            // No record has named the slot, so that no thread can be reading it.
            self.keyspace.slots.withdraw(slot);
        }
        result.map(|()| slot)
    }

    /// Passes the object of any type to `read`, for callers that treat all types alike. Returns
    /// `None` for strings that are stored in the index, or would be without cold tiers.
    ///
    /// # Errors
    /// The object is stored in a cold tier and cannot be read.
    pub fn read_object<R>(
        &self,
        key: &[u8],
        found: &KeyMetadata,
        read: impl FnOnce(&StoredObject) -> R,
    ) -> Result<Option<R>, CommandError> {
        match found.outside {
            None => Ok(None),
            Some(Outside::Slot(slot)) => {
                let mut object = self.keyspace.slots.open(slot);
                let (part, args) = self.part;
                let named = (self.database, key);
                let is_lent = self
                    .keyspace
                    .lend(named, &mut object, || part(args), self.is_use)?;
                object.iter_mut().for_each(|it| it.at(self.field_time_ms()));
                let result = object.as_ref().map(read);
                if is_lent {
                    Keyspace::end_loan(&mut object);
                }
                Ok(result)
            }
            Some(Outside::Place(_)) if found.kind == RedisType::String => Ok(None),
            Some(Outside::Place(place)) => {
                // The copy is freed after the command, and does not count as memory of the keys.
                let mut object =
                    self.keyspace
                        .thaw(key, found.kind, place, &AccountedHeap::new())?;
                object.at(self.field_time_ms());
                Ok(Some(read(&object)))
            }
        }
    }

    /// Makes a running snapshot save the key as it is. Must be called before each change of a key.
    #[inline]
    pub(super) fn before_change(&self, key: &[u8]) {
        let (keyspace, number) = (self.keyspace, self.database);
        let database = self.database();
        keyspace
            .snapshot
            .before_change(keyspace, number, database, key);
    }

    // ---- Keys as a whole -------------------------------------------------------------------

    /// Deletes a key and returns true if it existed. Frees its object.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        if self.has_draft() {
            let expires_at_ms = self.read_draft(key, |record| record.expires_at_ms)?;
            self.effects.draft.set(self.database, key, None);
            return Ok(expires_at_ms.is_some_and(|time| !self.has_expired(time)));
        }
        self.before_change(key);
        let Some(entries) = self.database().entries() else {
            return Ok(false);
        };
        let Some(old) = entries.remove(key)? else {
            return Ok(false);
        };
        let old = ValueRecord::parse(&old);
        self.database().note_expiry(key, old.note(), None)?;
        // A read that holds no stripe may have found the object just before.
        self.keyspace.retire(old.outside());
        Ok(!self.has_expired(old.expires_at_ms))
    }

    /// Changes the time at which a key expires; the key must exist.
    ///
    /// # Errors
    /// `NoSuchKey`.
    pub fn set_expiry(
        &mut self,
        key: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        let mut stored = std::mem::take(&mut self.scratch);
        stored.clear();
        // In a pool each note is at its key's time.
        let keeps_note = !self.is_shared();
        let notes = self.read_record(key, |record| {
            let before = record.note();
            let changed = ValueRecord {
                expires_at_ms,
                ..record
            };
            let changed = changed.keeping_note(before.filter(|_| keeps_note));
            changed.write(&mut stored);
            (before, changed.note())
        });
        let result = match notes {
            Ok(Some((before, after))) => self.replace(key, &stored, before, after),
            Ok(None) => Err(CommandError::NoSuchKey),
            Err(error) => Err(error),
        };
        self.scratch = stored;
        result
    }

    fn replace(
        &mut self,
        key: &[u8],
        stored: &[u8],
        before: Option<u64>,
        after: Option<u64>,
    ) -> Result<(), CommandError> {
        if self.has_draft() {
            self.effects.draft.set(self.database, key, Some(stored));
            return Ok(());
        }
        self.before_change(key);
        let database = self.database();
        // A note that is refused leaves the record as it was. A record that is refused takes its
        // note back.
        database.note_expiry(key, before, after)?;
        let inserted = database
            .entries_or_create()
            .and_then(|entries| entries.insert(key, stored));
        if let Err(error) = inserted {
            database.note_expiry(key, after, before)?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Moves a key to another name in another database, or the same. Replaces what the target held.
    /// Returns true if there was a key.
    pub fn rename(
        &mut self,
        source: &[u8],
        target_database: usize,
        target: &[u8],
    ) -> Result<bool, CommandError> {
        if self.peek(source)?.is_none() {
            return Ok(false);
        }
        if target_database == self.database && source == target {
            return Ok(true);
        }
        debug_assert!(target_database < DATABASES);
        self.before_change(source);
        // Removed before it is put: two records must never name one slot.
        let removed = self.database().entries().map(|index| index.remove(source));
        let Some(stored) = removed.transpose()?.flatten() else {
            return Ok(false);
        };
        let record = ValueRecord::parse(&stored);
        self.database().note_expiry(source, record.note(), None)?;
        let source_database = std::mem::replace(&mut self.database, target_database);
        let result = self.put(target, record);
        let result = result.and_then(|()| self.note_renamed(target));
        self.database = source_database;
        if let Err(error) = result {
            // Nothing may be lost: the record returns to the source, from where it has just been
            // removed.
            self.put(source, record)?;
            return Err(error);
        }
        Ok(true)
    }

    /// Stores a record, and frees what it replaces.
    fn put(&mut self, key: &[u8], record: ValueRecord<'_>) -> Result<(), CommandError> {
        let mut stored = std::mem::take(&mut self.scratch);
        stored.clear();
        // Only a key that expires before and after the write can keep its note.
        let note = match record.expires_at_ms {
            Some(_) if !self.is_shared() => self.database().read(key, |old| old.note()),
            _ => Ok(None),
        };
        let result = note.map_err(CommandError::from).and_then(|note| {
            let record = record.keeping_note(note.flatten());
            record.write(&mut stored);
            self.put_stored(key, &stored, record.note())
        });
        self.scratch = stored;
        result
    }

    fn put_stored(
        &mut self,
        key: &[u8],
        stored: &[u8],
        note: Option<u64>,
    ) -> Result<(), CommandError> {
        debug_assert_eq!(ValueRecord::parse(stored).note(), note);
        // A record may be much longer than the arguments of its command.
        // Blocks that were just divided are half empty.
        let bytes = 2 * (key.len() + stored.len()) as u64;
        self.keyspace.put_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.has_draft() {
            self.effects.draft.set(self.database, key, Some(stored));
            return Ok(());
        }
        self.before_change(key);
        let database = self.database();
        let old = database.entries_or_create()?.insert(key, stored)?;
        match &old {
            None => {
                // Without a note, an expired key would stay until it is read.
                if let Err(error) = database.note_expiry(key, None, note) {
                    database.entries_or_create()?.remove(key)?;
                    return Err(error.into());
                }
                self.happened(key, Class::New, "new");
            }
            Some(old) => {
                let record = ValueRecord::parse(old);
                if let Err(error) = database.note_expiry(key, record.note(), note) {
                    database.entries_or_create()?.insert(key, old)?;
                    return Err(error.into());
                }
                self.keyspace.retire(record.outside());
            }
        }
        Ok(())
    }

    /// Deletes an expired key.
    fn expire(&mut self, key: &[u8]) -> Result<(), CommandError> {
        let began = Instant::now();
        self.remove(key)?;
        let longest = &mut self.effects.longest_expiry;
        *longest = began.elapsed().max(*longest);
        self.keyspace.expired_keys.fetch_add(1, Ordering::Relaxed);
        // A replay of the log does not look at times.
        self.log_before(vec![b"DEL".to_vec(), key.to_vec()]);
        self.happened(key, Class::Expired, "expired");
        Ok(())
    }

    /// Deletes a key to make room.
    pub fn evict(&mut self, key: &[u8]) -> Result<(), CommandError> {
        self.remove(key)?;
        // A replay of the log does not evict.
        self.log_before(vec![b"DEL".to_vec(), key.to_vec()]);
        self.happened(key, Class::Evicted, "evicted");
        Ok(())
    }

    /// Deletes expired keys of the database in the order of their notes. Visits up to `limit`
    /// notes, and returns their number. Needs the exclusive phase.
    pub fn expire_due(&mut self, limit: usize) -> Result<usize, CommandError> {
        debug_assert!(self.is_exclusive());
        if self.is_shared() {
            let (notes, keys) = self.database().expire_shared(self.now_ms, limit)?;
            let expired = &self.keyspace.expired_keys;
            expired.fetch_add(keys, Ordering::Relaxed);
            return Ok(notes);
        }
        let notes = self.database().notes(self.now_ms, limit)?;
        let times = self.database().check_notes(&notes)?;
        debug_assert!(notes.is_empty() || times.len() == notes.len());
        for ((_, key), time) in notes.iter().zip(times) {
            // A note that was early has moved, and its key stays.
            if time.is_some_and(|time| time <= self.now_ms) {
                self.expire(key)?;
            }
        }
        Ok(notes.len())
    }
}
