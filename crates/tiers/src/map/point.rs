//! Operations on one key.

use super::inner::TieredIndexCore;
use super::record;
use crate::cold::ColdPlaceGuard;
use crossbeam_epoch::{Guard, pin};
use nearfield_core::{ByteStrings, EntryForm, MAX_VALUE_BYTES, OperationError, OrderedIndex};
use std::fmt::Debug;

/// Maximum number of bytes of a value: a record has one byte more.
pub(super) const VALUE_BYTES_MAX: usize = MAX_VALUE_BYTES - 1;

/// Refuses keys and values that are too long.
pub(super) fn check(key: &[u8], value: Option<&[u8]>) -> Result<(), OperationError> {
    ByteStrings::check(key, value)?;
    match value {
        Some(value) if value.len() > VALUE_BYTES_MAX => Err(OperationError::ValueTooLong {
            key: OperationError::shorten(key),
            length: value.len(),
            limit: VALUE_BYTES_MAX,
        }),
        _ => Ok(()),
    }
}

/// Result of a comparing operation: true if it was applied, and the value before.
type Compared = Result<(bool, Option<Vec<u8>>), OperationError>;

impl<I: OrderedIndex<ByteStrings> + Debug> TieredIndexCore<I> {
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        let guard = pin();
        let stored = self.entries.get(key)?;
        self.note(key, stored.as_deref());
        stored
            .map(|stored| self.load(guard, key, stored))
            .transpose()
    }

    pub(super) fn insert(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, OperationError> {
        check(key, Some(value))?;
        self.make_room(1, key.len() + value.len())?;
        let replaced = self.entries.insert(key, &record::here(value))?;
        // Without the old record: an overwritten value in a cold tier is not used.
        self.note(key, None);
        replaced.map(|stored| self.take(key, stored)).transpose()
    }

    pub(super) fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, OperationError> {
        let removed = self.entries.remove(key)?;
        removed.map(|stored| self.take(key, stored)).transpose()
    }

    pub(super) fn update(
        &self,
        key: &[u8],
        previous: Option<&[u8]>,
        value: &[u8],
    ) -> Result<(bool, Option<Vec<u8>>), OperationError> {
        check(key, Some(value))?;
        self.make_room(1, key.len() + value.len())?;
        let new = record::here(value);
        self.note(key, None);
        let replace = |old: Option<&[u8]>| self.entries.update(key, old, &new);
        self.compare(key, previous, replace)
    }

    pub(super) fn remove_if(
        &self,
        key: &[u8],
        expected: &[u8],
    ) -> Result<(bool, Option<Vec<u8>>), OperationError> {
        // An absent key has no record to remove.
        let remove = |old: Option<&[u8]>| self.entries.remove_if(key, old.unwrap_or(&[]));
        self.compare(key, Some(expected), remove)
    }

    /// Calls `replace` to change the record of a key if its value is `expected`. `replace` gets the
    /// record that must be there, `None` for an absent key.
    fn compare(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        replace: impl Fn(Option<&[u8]>) -> Compared,
    ) -> Compared {
        // First try as if the value were in the index.
        let mut guard = pin();
        let (applied, mut met) = replace(expected.map(record::here).as_deref())?;
        if applied {
            return Ok((true, expected.map(<[u8]>::to_vec)));
        }
        loop {
            let Some(stored) = met else {
                return Ok((false, None));
            };
            // While the place is held, it is not reused for another value. So the record that
            // `replace` compares with stands for this value.
            let (held, value) = self.hold(guard, key, &stored)?;
            if expected != Some(&*value) {
                return Ok((false, Some(value)));
            }
            guard = pin();
            let (applied, other) = replace(Some(&stored))?;
            if applied {
                self.give_up(held.iter().map(ColdPlaceGuard::place).collect());
                return Ok((true, Some(value)));
            }
            met = other;
        }
    }

    /// Reads the value of a record that a pinned thread found, and holds its place.
    fn hold(
        &self,
        guard: Guard,
        key: &[u8],
        stored: &[u8],
    ) -> Result<(Option<ColdPlaceGuard>, Vec<u8>), OperationError> {
        match record::take(stored.to_vec()) {
            Ok(value) => Ok((None, value)),
            Err(place) => {
                let held = ColdPlaceGuard::new(&self.cold, place);
                drop(guard);
                let value = self.read(key, place)?;
                Ok((Some(held), value))
            }
        }
    }
}
