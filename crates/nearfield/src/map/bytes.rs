//! Methods of maps of byte strings: ranges of a prefix, and insertion of borrowed entries.

use super::{MapRange, OrderedMap};
use crate::placement::MapPlacement;
use nearfield_core::{ByteStrings, OperationError};
use std::ops::Bound;

impl<P: MapPlacement<ByteStrings>> OrderedMap<ByteStrings, P> {
    /// Inserts all entries of an iterator, in its order and in batches; returns the number of keys
    /// that were absent before.
    ///
    /// # Errors
    /// As [`insert_many`](OrderedMap::insert_many).
    ///
    /// ```
    /// let map = nearfield::OrderedMap::<nearfield::ByteStrings>::new()?;
    /// assert_eq!(map.extend([("ann", "1"), ("bob", "2"), ("ann", "3")])?, 2);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn extend<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<usize, OperationError> {
        self.insert_all(entries, |batch, (key, value)| {
            batch.insert(key.as_ref(), value.as_ref());
        })
    }

    /// Returns the entries whose keys begin with `prefix`; see [`range`](OrderedMap::range).
    ///
    /// ```
    /// let entries = [("user:1", "ann"), ("user:2", "bob"), ("word", "")];
    /// let map = nearfield::OrderedMap::<nearfield::ByteStrings>::from_sorted(entries)?;
    /// assert_eq!(map.prefix(b"user:").count(), 2);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn prefix(&self, prefix: &[u8]) -> MapRange<'_, ByteStrings, P> {
        // The upper bound is the prefix without its trailing bytes of 255, and with one added to
        // the last byte that remains.
        let last = prefix.iter().rposition(|&byte| byte != u8::MAX);
        let high = match last {
            // Nothing sorts between the keys of such a prefix and the end.
            None => Bound::Unbounded,
            Some(last) => {
                let mut high = prefix[..=last].to_vec();
                high[last] += 1;
                Bound::Excluded(high)
            }
        };
        MapRange::new(self, Bound::Included(prefix.to_vec()), high)
    }
}
