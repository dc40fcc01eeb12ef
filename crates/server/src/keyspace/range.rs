//! Ranges of keys, in the order of their bytes.

use super::record::{Payload, Record};
use super::{Database, Keys, Keyspace};
use crate::object::{Container, Text};
use nearfield::Direction;
use std::ops::Bound;

/// The bounds of a range of keys.
pub type KeyBounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

impl Keys<'_> {
    /// The keys within bounds that have time left, with what is stored for each, to be taken from
    /// either end. Any key may be read so in the shared phase, as none is deleted.
    pub fn range(
        &self,
        bounds: KeyBounds<'_>,
    ) -> impl DoubleEndedIterator<Item = (Vec<u8>, Vec<u8>)> {
        let entries = self.database().entries();
        let range = entries.map(|entries| entries.range(bounds));
        let is_alive = |entry: &(Vec<u8>, Vec<u8>)| {
            let record = Record::parse(&entry.1);
            !self.is_over(record.expires_at_ms)
        };
        range.into_iter().flatten().filter(is_alive)
    }

    /// The key that is nearest to another one, itself included, with what is stored for it.
    pub fn nearest(&self, key: &[u8], direction: Direction) -> Option<(Vec<u8>, Vec<u8>)> {
        let expires = self.is_over(Some(0)).then(|| self.now_ms());
        self.database().nearest(key, direction, expires)
    }
}

impl Database {
    /// The key that is nearest to another one, itself included, with what is stored for it; keys
    /// whose time is over at `now_ms` are passed over, if that is given.
    pub fn nearest(
        &self,
        key: &[u8],
        direction: Direction,
        now_ms: Option<u64>,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let is_alive = |entry: &(Vec<u8>, Vec<u8>)| {
            !now_ms.is_some_and(|now_ms| Record::parse(&entry.1).is_expired(now_ms))
        };
        let key = Bound::Included(key);
        match direction {
            Direction::Ascending => self
                .entries()?
                .range((key, Bound::Unbounded))
                .find(is_alive),
            Direction::Descending => self
                .entries()?
                .range((Bound::Unbounded, key))
                .rev()
                .find(is_alive),
        }
    }
}

impl Keyspace {
    /// Gives the string that is stored in a record to `read`, or `None` if it holds another type.
    #[inline]
    pub fn read_stored<R>(&self, record: &Record<'_>, read: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match record.payload {
            Payload::Inline(value) => read(Some(value)),
            Payload::InSlot(slot) => {
                let object = self.slots.open(slot);
                read(object.as_ref().and_then(Text::of).map(Text::bytes))
            }
        }
    }
}
