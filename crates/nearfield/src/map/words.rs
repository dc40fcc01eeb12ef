//! Methods of maps of words.

use super::OrderedMap;
use crate::placement::{Local, MapPlacement};
use nearfield_core::{OperationError, Words};

/// A map from `u64` to `u64`, ordered as numbers. In this machine's memory, runs of dense keys take
/// little more than 8 bytes each.
///
/// ```
/// let map = nearfield::WordMap::new()?;
/// map.insert(1, 10)?;
/// assert_eq!(map.get(1), Some(10));
/// # Ok::<(), nearfield::OperationError>(())
/// ```
pub type WordMap<P = Local> = OrderedMap<Words, P>;

impl<P: MapPlacement<Words>> OrderedMap<Words, P> {
    /// Inserts all entries of an iterator, in its order and in batches; returns the number of keys
    /// that were absent before.
    ///
    /// # Errors
    /// As [`insert_many`](OrderedMap::insert_many).
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// assert_eq!(map.extend((0..1000).map(|n| (n, n * n)))?, 1000);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn extend(
        &self,
        entries: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<usize, OperationError> {
        self.insert_all(entries, |batch, (key, value)| {
            batch.insert(key, value);
        })
    }
}
