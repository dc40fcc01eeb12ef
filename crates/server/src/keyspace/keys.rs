//! The keys of a command that is executed alone: those of the index, or of a [draft](super::draft).

use super::draft::DraftCommitOutcome;
use super::effects::{Class, Effects};
use super::record::ValueRecord;
use super::slots::ObjectSlot;
use super::view::{KeyLedger, KeyStore, KeyView};
use super::{DATABASES, Database, Databases, Keyspace};
use crate::error::CommandError;
use crate::object::node::all;
use crate::object::{ObjectLimits, PartOf};
use std::sync::atomic::Ordering;

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
    /// True if no key is deleted that the command does not name: expired keys are hidden, and none
    /// is evicted.
    keeps_all: bool,
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
            keeps_all: false,
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
            keeps_all: self.keeps_all,
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

    /// Sets whether expired keys stay in place and none is evicted because nothing may change
    /// (`CLIENT PAUSE`).
    pub fn set_keeps_all(&mut self, keeps_all: bool) {
        self.keeps_all = keeps_all;
    }

    /// Returns true if no key may be evicted.
    pub fn keeps_all(&self) -> bool {
        self.keeps_all
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

    /// Passes the record of a key in the draft to `read`.
    #[cold]
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

    /// Makes a running snapshot save the key as it is. Must be called before each change of a key.
    #[inline]
    fn save_before_change(&self, key: &[u8]) {
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
            let expiry = |stored: &[u8]| ValueRecord::parse(stored).expires_at_ms;
            let expires_at_ms = self.draft_entry(key, expiry)?;
            self.effects.draft.set(self.database, key, None);
            return Ok(expires_at_ms.is_some_and(|time| !self.has_expired(time)));
        }
        self.save_before_change(key);
        let Some(old) = self.database().remove(key)? else {
            return Ok(false);
        };
        let old = ValueRecord::parse(&old);
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
        let note = self.read_record(key, |stored_before| {
            let record = ValueRecord::parse(stored_before);
            let before = record.note();
            let changed = ValueRecord {
                expires_at_ms,
                ..record
            };
            let changed = changed.keeping_note(before.filter(|_| keeps_note));
            changed.write(&mut stored);
            before
        });
        let result = match note {
            Ok(Some(before)) => self.store(key, &stored, before).map(drop),
            Ok(None) => Err(CommandError::NoSuchKey),
            Err(error) => Err(error),
        };
        self.scratch = stored;
        result
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
        self.save_before_change(source);
        // Removed before it is put: two records must never name one slot.
        let Some(stored) = self.database().remove(source)? else {
            return Ok(false);
        };
        let record = ValueRecord::parse(&stored);
        let source_database = std::mem::replace(&mut self.database, target_database);
        let result = self.put(target, record);
        if result.is_ok() {
            self.note_renamed(target, &record);
        }
        self.database = source_database;
        if let Err(error) = result {
            // Nothing may be lost: the record returns to the source, from where it has just been
            // removed.
            self.put(source, record)?;
            return Err(error);
        }
        Ok(true)
    }

    fn put_stored(
        &mut self,
        key: &[u8],
        stored: &[u8],
        before: Option<u64>,
    ) -> Result<(), CommandError> {
        // A record may be much longer than the arguments of its command.
        // Blocks that were just divided are half empty.
        let bytes = 2 * (key.len() + stored.len()) as u64;
        self.keyspace.put_bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_drafted = self.has_draft();
        match self.store(key, stored, before)? {
            Some(old) => self.keyspace.retire(ValueRecord::parse(&old).outside()),
            // The commit of a draft finds out if its key is new.
            None if is_drafted => {}
            None => self.happened(key, Class::New, "new"),
        }
        Ok(())
    }

    /// Stores a record, of which the command has the parts outside of the index. Returns the record
    /// before, unless that is drafted. `before` is as in [`Database::store`].
    fn store(
        &mut self,
        key: &[u8],
        stored: &[u8],
        before: Option<u64>,
    ) -> Result<Option<Vec<u8>>, CommandError> {
        if self.has_draft() {
            self.effects.draft.set(self.database, key, Some(stored));
            return Ok(None);
        }
        self.save_before_change(key);
        Ok(self.database().store(key, stored, before)?)
    }

    /// Deletes a key to make room.
    pub fn evict(&mut self, key: &[u8]) -> Result<(), CommandError> {
        self.remove(key)?;
        // A replay of the log does not evict.
        self.log_before(&[b"DEL".as_slice(), key]);
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

impl<'c> KeyStore<'c> for DatabaseKeys<'c> {
    #[inline]
    fn keyspace(&self) -> &'c Keyspace {
        self.keyspace
    }

    #[inline]
    fn database(&self) -> &Database {
        DatabaseKeys::database(self)
    }

    #[inline]
    fn database_number(&self) -> usize {
        self.database
    }

    #[inline]
    fn over_at_ms(&self) -> Option<u64> {
        self.expires.then_some(self.now_ms)
    }

    #[inline]
    fn part(&self) -> (PartOf, &'c [&'c [u8]]) {
        self.part
    }

    #[inline]
    fn is_use(&self) -> bool {
        self.is_use
    }

    /// Returns true if the command deletes an expired key that it finds. Shared keys are left to
    /// [`expire_due`](DatabaseKeys::expire_due).
    fn may_expire(&self) -> bool {
        // Observers are notified in the exclusive phase only. If there are any, a key that is found
        // outside of it is left to the expiry in that phase.
        let may_tell = self.is_exclusive() || !self.keyspace.is_observed();
        may_tell && !self.keeps_all && !self.is_shared()
    }

    #[inline]
    fn read_record<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, CommandError> {
        if self.has_draft() {
            return self.draft_entry(key, read);
        }
        match self.database().entries() {
            Some(entries) => Ok(entries.get(key)?.map(|stored| read(&stored))),
            None => Ok(None),
        }
    }

    fn put(&mut self, key: &[u8], record: ValueRecord<'_>) -> Result<(), CommandError> {
        let mut stored = std::mem::take(&mut self.scratch);
        stored.clear();
        // Only a key that expires before and after the write can keep its note.
        let note = match record.expires_at_ms {
            Some(_) if !self.is_shared() => self.database().read(key, |old| old.note()),
            _ => Ok(None),
        };
        let result = note.map_err(CommandError::from).and_then(|note| {
            let before = note.flatten();
            record.keeping_note(before).write(&mut stored);
            self.put_stored(key, &stored, before)
        });
        self.scratch = stored;
        result
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        DatabaseKeys::remove(self, key)
    }

    fn before_change(&mut self, key: &[u8], _slot: ObjectSlot) {
        self.save_before_change(key);
    }
}
