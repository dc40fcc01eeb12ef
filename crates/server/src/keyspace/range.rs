//! Ranges of keys, in the order of their bytes.

use super::index::{Entry, KeyBounds};
use super::record::{RecordPayload, ValueRecord};
use super::{Database, DatabaseKeys, KeyView, Keyspace};
use crate::error::CommandError;
use crate::object::{Container, HeapBytes, RedisType};
use nearfield::{OperationError, ScanDirection};
use std::ops::Bound;

impl DatabaseKeys<'_> {
    /// Returns the keys within bounds that have not expired, with what is stored for each, to be
    /// taken from either end. Any key may be read this way in the shared phase, because nothing is
    /// deleted.
    ///
    /// # Errors
    /// The command has changed keys that other servers share: these changes are written when the
    /// command ends, so that ranges would not see them. Items are errors of the placement.
    pub fn range(
        &self,
        bounds: KeyBounds<'_>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Entry, OperationError>>, CommandError> {
        if self.has_unwritten_changes() {
            return Err(CommandError::text(
                "ERR the placement pool cannot read ranges of keys after a change in the same \
                 transaction or script",
            ));
        }
        let entries = self.database().entries();
        let range = entries.map(|entries| entries.range(bounds));
        // Errors count as alive, because the caller must see them.
        let is_alive = |entry: &Result<Entry, OperationError>| {
            let over =
                |(_, stored): &Entry| self.has_expired(ValueRecord::parse(stored).expires_at_ms);
            !entry.as_ref().is_ok_and(over)
        };
        Ok(range.into_iter().flatten().filter(is_alive))
    }

    /// Returns the key that is nearest to another one, itself included, with what is stored for it.
    ///
    /// # Errors
    /// As [`range`](DatabaseKeys::range).
    pub fn nearest(
        &self,
        key: &[u8],
        direction: ScanDirection,
    ) -> Result<Option<Entry>, CommandError> {
        let bounds = match direction {
            ScanDirection::Ascending => (Bound::Included(key), Bound::Unbounded),
            ScanDirection::Descending => (Bound::Unbounded, Bound::Included(key)),
        };
        let mut range = self.range(bounds)?;
        let nearest = match direction {
            ScanDirection::Ascending => range.next(),
            ScanDirection::Descending => range.next_back(),
        };
        Ok(nearest.transpose()?)
    }
}

impl Database {
    /// Returns the key that is nearest to another one, itself included, with what is stored for it.
    /// Skips keys that have expired at `now_ms`.
    ///
    /// # Errors
    /// Those of the placement.
    pub fn nearest(
        &self,
        key: &[u8],
        direction: ScanDirection,
        now_ms: u64,
    ) -> Result<Option<Entry>, OperationError> {
        let Some(entries) = self.entries() else {
            return Ok(None);
        };
        let is_alive = |entry: &Result<Entry, OperationError>| {
            let over = |(_, stored): &Entry| ValueRecord::parse(stored).is_expired(now_ms);
            !entry.as_ref().is_ok_and(over)
        };
        let key = Bound::Included(key);
        let nearest = match direction {
            ScanDirection::Ascending => entries.range((key, Bound::Unbounded)).find(is_alive),
            ScanDirection::Descending => {
                entries.range((Bound::Unbounded, key)).rev().find(is_alive)
            }
        };
        nearest.transpose()
    }
}

impl Keyspace {
    /// Passes the string that is stored in the record of a key to `read`, or `None` if it holds
    /// another type.
    ///
    /// # Errors
    /// The string is stored in a cold tier and cannot be read.
    #[inline]
    pub fn read_stored<R>(
        &self,
        key: &[u8],
        record: &ValueRecord<'_>,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, CommandError> {
        match record.payload {
            RecordPayload::Inline(value) => Ok(read(Some(value))),
            RecordPayload::InSlot(slot) => {
                let object = self.slots.open(slot);
                Ok(read(
                    object
                        .as_ref()
                        .and_then(HeapBytes::of)
                        .map(HeapBytes::bytes),
                ))
            }
            RecordPayload::InTier(_) if record.kind != RedisType::String => Ok(read(None)),
            RecordPayload::InTier(place) => self.read_place(key, place, |value| read(Some(value))),
        }
    }
}
