//! Ranges of keys, in the order of their bytes.

use super::Keys;
use super::record::{Payload, Record};
use crate::object::{Container, Text};
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

    /// Gives the string that is stored in a record to `read`, or `None` if it holds another type.
    pub fn read_stored<R>(&self, record: &Record<'_>, read: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match record.payload {
            Payload::Inline(value) => read(Some(value)),
            Payload::InSlot(slot) => {
                let object = self.keyspace().slots.open(slot);
                read(object.as_ref().and_then(Text::of).map(Text::bytes))
            }
        }
    }
}
