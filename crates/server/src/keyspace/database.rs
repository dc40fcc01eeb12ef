//! A numbered database: an ordered index of keys, and an index of the times at which keys expire.

use super::home::Home;
use super::index::DatabaseIndex;
use super::record::ValueRecord;
use crate::object::FieldNotes;
use nearfield::OperationError;
use std::sync::{Arc, OnceLock};

/// The number of databases.
pub const DATABASES: usize = 16;

/// The keys of one database. Its indexes are created when first written to, unless they are shared
/// with other servers.
#[derive(Debug)]
pub struct Database {
    pub(super) home: Home,
    pub(super) number: u8,
    entries: OnceLock<DatabaseIndex>,
    /// [Notes](super::notes) of the times at which keys expire. A shared index has those of all
    /// databases.
    expiries: OnceLock<DatabaseIndex>,
    /// Notes of the hashes that have fields which expire.
    pub(super) field_notes: Arc<FieldNotes>,
}

impl Database {
    /// Creates an empty database, or opens the existing one if it is shared.
    pub fn new(home: &Home, number: usize) -> Database {
        debug_assert!(number < DATABASES);
        let database = Database {
            home: home.clone(),
            number: number as u8,
            entries: OnceLock::new(),
            expiries: OnceLock::new(),
            field_notes: Arc::default(),
        };
        if home.is_shared() {
            // Shared indexes exist already, so that nothing can fail.
            let _ = (database.entries_or_create(), database.expiries_or_create());
            debug_assert!(database.entries.get().is_some() && database.expiries.get().is_some());
        }
        database
    }

    /// Replaces this database by an empty one and returns the old one.
    pub fn replace(&mut self) -> Database {
        let empty = Database::new(&self.home, self.number.into());
        std::mem::replace(self, empty)
    }

    /// Exchanges the keys of two databases, each of which keeps its number.
    pub fn swap_keys(&mut self, other: &mut Database) {
        debug_assert!(!self.is_shared());
        std::mem::swap(self, other);
        std::mem::swap(&mut self.number, &mut other.number);
    }

    /// Returns the number of the database.
    #[inline]
    pub fn number(&self) -> usize {
        self.number.into()
    }

    /// Returns true if other servers read and change the same keys.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.home.is_shared()
    }

    /// Returns the index of keys, if a key was ever written.
    #[inline]
    pub fn entries(&self) -> Option<&DatabaseIndex> {
        self.entries.get()
    }

    /// Returns the index of keys, which is created if necessary.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub fn entries_or_create(&self) -> Result<&DatabaseIndex, OperationError> {
        get_or_create(&self.entries, || self.home.entries(self.number))
    }

    /// Returns the index of expiries, if a key ever had one.
    pub fn expiries(&self) -> Option<&DatabaseIndex> {
        self.expiries.get()
    }

    pub(super) fn expiries_or_create(&self) -> Result<&DatabaseIndex, OperationError> {
        get_or_create(&self.expiries, || self.home.expiries())
    }

    /// Returns the number of keys. To count shared keys, it reads all of them.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn len(&self) -> Result<usize, OperationError> {
        self.entries().map_or(Ok(0), DatabaseIndex::len)
    }

    /// Returns true if there are no keys.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn is_empty(&self) -> Result<bool, OperationError> {
        self.entries().map_or(Ok(true), DatabaseIndex::is_empty)
    }

    /// Returns the number of keys that expire, each of which has one note.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn expiring(&self) -> Result<usize, OperationError> {
        self.expiries().map_or(Ok(0), DatabaseIndex::len)
    }

    /// Reads what is stored for a key, expired or not.
    ///
    /// # Errors
    /// Those of the placement.
    #[inline]
    pub fn read<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(ValueRecord<'_>) -> R,
    ) -> Result<Option<R>, OperationError> {
        let Some(entries) = self.entries() else {
            return Ok(None);
        };
        let stored = entries.get(key)?;
        Ok(stored.map(|stored| read(ValueRecord::parse(&stored))))
    }

    /// Moves up to `blocks` blocks of each index, so that memory can be given back to the system.
    /// Returns true if there is more to do.
    pub fn compact(&self, blocks: usize) -> bool {
        let indexes = [self.entries(), self.expiries()];
        let mut has_more = false;
        for index in indexes.into_iter().flatten() {
            has_more |= index.compact(blocks);
        }
        has_more
    }

    /// Returns the bytes of this process's memory that the indexes use, without what they keep for
    /// reuse.
    pub fn used_bytes(&self) -> usize {
        let bytes = |index: &DatabaseIndex| index.memory().total_bytes();
        let indexes = self.entries().map_or(0, bytes) + self.expiries().map_or(0, bytes);
        indexes + self.field_notes.memory_bytes()
    }
}

#[inline]
fn get_or_create(
    index: &OnceLock<DatabaseIndex>,
    create: impl FnOnce() -> Result<DatabaseIndex, OperationError>,
) -> Result<&DatabaseIndex, OperationError> {
    if let Some(index) = index.get() {
        return Ok(index);
    }
    let created = create()?;
    // Two threads may create the index at once. The second one's is dropped: it is still empty.
    Ok(index.get_or_init(|| created))
}
