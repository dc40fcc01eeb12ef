//! The changes of a command to keys that other servers change at the same time.
//!
//! A server that has its keys to itself locks them while a command works on them. Servers that
//! share a pool have no lock in common. There a command works on a draft:
//!
//! 1. The first read of a key is kept. All later reads of the command are served from the draft.
//! 2. Changes go to the draft.
//! 3. [`Draft::commit`] writes each change as a comparison with the value that was read. If another
//!    server has changed the key meanwhile, nothing is written, and the command runs again.
//!
//! A key that the client watches is compared twice. `EXEC` compares the entry of `WATCH` with the
//! entry that the draft reads, and the commit compares the latter once more. The commit compares
//! only the key that it changes, so a transaction that changes one key and watches another is
//! refused.
//!
//! So a command that changes one key is atomic. A transaction or a script has one draft for all of
//! its commands, so that it is atomic, too. The pool has no atomic operation on several keys, so a
//! draft that changes several keys is refused as a whole. Commands that treat each key separately
//! (`DEL`, `MSET`) have no draft: each of their changes is one atomic operation of the pool.

use super::index::DatabaseIndex;
use super::{DATABASES, Database, Databases, ValueRecord};
use crate::error::CommandError;
use nearfield::OperationError;

/// The keys that a command has read or changed. See the [module](self).
#[derive(Debug, Default)]
pub struct Draft {
    keys: Vec<DraftKey>,
}

/// A key of a draft.
#[derive(Debug)]
struct DraftKey {
    database: usize,
    key: Vec<u8>,
    /// The value in the pool at the first read of the key; `None` if it was not read.
    read: Option<Option<Vec<u8>>>,
    /// The new value, `None` if it stays as it is.
    written: Option<Option<Vec<u8>>>,
    /// True if the client watches the key: the changes are written only if it is as it was read.
    expected: bool,
}

/// The result of committing a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftCommitOutcome {
    /// The changes are written.
    Done,
    /// Another server has changed the key since it was read. Nothing was written.
    Conflict,
}

/// The maximum number of times that a command runs again because of other servers. Each time
/// another server has made progress, so that only a command that takes far longer than theirs runs
/// this often.
pub const ATTEMPTS_MAX: usize = 10_000;

impl Draft {
    /// Forgets all keys.
    #[inline]
    pub fn clear(&mut self) {
        self.keys.clear();
    }

    /// Returns true if a key will be changed.
    pub fn has_changes(&self) -> bool {
        self.keys.iter().any(|key| key.written.is_some())
    }

    fn entry(&mut self, database: usize, key: &[u8]) -> &mut DraftKey {
        debug_assert!(database < DATABASES);
        let is = |drafted: &DraftKey| drafted.database == database && drafted.key == key;
        let position = self.keys.iter().position(is).unwrap_or_else(|| {
            self.keys.push(DraftKey {
                database,
                key: key.to_vec(),
                read: None,
                written: None,
                expected: false,
            });
            self.keys.len() - 1
        });
        &mut self.keys[position]
    }

    /// Returns what a key holds for the command: what the command has written, or else what it has
    /// read.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn stored(
        &mut self,
        number: usize,
        database: &Database,
        key: &[u8],
    ) -> Result<Option<&[u8]>, OperationError> {
        let drafted = self.entry(number, key);
        // A second read could find another server's value, and the comparison at the commit would
        // then not notice the change.
        if drafted.written.is_none() && drafted.read.is_none() {
            let stored = match database.entries() {
                Some(entries) => entries.get(key)?.map(Into::into),
                None => None,
            };
            drafted.read = Some(stored);
        }
        let now = drafted.written.as_ref().or(drafted.read.as_ref());
        Ok(now.and_then(Option::as_deref))
    }

    /// Makes [`commit`](Draft::commit) write changes only if a key that was read is unchanged.
    pub fn expect(&mut self, database: usize, key: &[u8]) {
        self.entry(database, key).expected = true;
    }

    /// Sets the new value of a key.
    pub fn set(&mut self, database: usize, key: &[u8], stored: Option<&[u8]>) {
        self.entry(database, key).written = Some(stored.map(<[u8]>::to_vec));
    }

    /// Writes the changes, and forgets all keys.
    ///
    /// # Errors
    /// Several keys would be changed, or a key other than an expected one: nothing was written.
    /// Those of the placement: `Unknown` leaves open whether the change was written.
    pub fn commit(&mut self, databases: &Databases) -> Result<DraftCommitOutcome, CommandError> {
        let keys = std::mem::take(&mut self.keys);
        let mut changed = keys.iter().filter(|key| key.is_changed());
        let Some(drafted) = changed.next() else {
            return Ok(DraftCommitOutcome::Done);
        };
        if changed.next().is_some() {
            return Err(CommandError::text(
                "ERR the placement pool changes one key at a time: this would change several keys \
                 at once; nothing was changed",
            ));
        }
        if keys.iter().any(|key| key.expected && !key.is_changed()) {
            return Err(CommandError::text(
                "ERR the placement pool compares only the key that a transaction changes: this \
                 changes a key and watches another; nothing was changed",
            ));
        }
        let Some(database) = databases.get(drafted.database) else {
            return Ok(DraftCommitOutcome::Done);
        };
        drafted.write(database)
    }
}

impl DraftKey {
    /// Returns true if the new value differs from what was read.
    fn is_changed(&self) -> bool {
        let written = self.written.as_ref();
        // A key that is set to the value it has takes no atomic operation, and a command may change
        // only one key.
        written.is_some_and(|written| self.read.as_ref() != Some(written))
    }

    fn write(&self, database: &Database) -> Result<DraftCommitOutcome, CommandError> {
        let entries = database.entries_or_create()?;
        let Some(written) = &self.written else {
            return Ok(DraftCommitOutcome::Done);
        };
        let before = match (&self.read, written) {
            // The command has not read the key, so its change depends on no value.
            (None, Some(value)) => entries.insert(&self.key, value)?,
            (None, None) => entries.remove(&self.key)?,
            (Some(read), written) => {
                if !compare_and_set(entries, &self.key, read.as_deref(), written.as_deref())? {
                    return Ok(DraftCommitOutcome::Conflict);
                }
                read.clone()
            }
        };
        let note = |stored: &Option<Vec<u8>>| {
            let stored = stored.as_ref();
            stored.and_then(|stored| ValueRecord::parse(stored).note())
        };
        // After the key, because a server that removes the same note reads the key last.
        database.note_shared_expiry(&self.key, note(&before), note(written));
        Ok(DraftCommitOutcome::Done)
    }
}

/// Stores `after` for a key if `before` is stored for it; `None` stands for an absent key. Returns
/// true if it did.
///
/// # Errors
/// Those of the placement.
pub fn compare_and_set(
    entries: &DatabaseIndex,
    key: &[u8],
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Result<bool, OperationError> {
    match (before, after) {
        (before, Some(after)) => entries.update(key, before, after),
        (Some(before), None) => entries.remove_if(key, before),
        (None, None) => Ok(true),
    }
}
