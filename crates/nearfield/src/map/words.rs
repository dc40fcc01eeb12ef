//! What a map of words has of its own: entries that are numbers.

use crate::{Local, Map, Placement};
use nearfield_core::{Error, Words};

/// A map from `u64` to `u64`, ordered as numbers. In this machine's memory, runs of dense keys take
/// 8 bytes and a bit each.
///
/// ```
/// let map = nearfield::WordMap::new()?;
/// map.insert(1, 10)?;
/// assert_eq!(map.get(1), Some(10));
/// # Ok::<(), nearfield::Error>(())
/// ```
pub type WordMap<P = Local> = Map<Words, P>;

impl Map<Words, Local> {
    /// Creates a map of entries that come in strictly ascending order of their keys, in one pass
    /// over them. Takes a fraction of the time of inserting them, and puts them into memory in
    /// their order, so that ranges read it in order, too.
    ///
    /// # Errors
    /// `NotSorted` with the position of the first key that is not greater than the one before;
    /// `OutOfMemory`.
    ///
    /// ```
    /// use nearfield::{Error, WordMap};
    ///
    /// let squares = WordMap::from_sorted((0..1000).map(|n| (n, n * n)))?;
    /// assert_eq!(squares.get(30), Some(900));
    /// let error = WordMap::from_sorted([(2, 4), (2, 4)]).unwrap_err();
    /// assert!(matches!(error, Error::NotSorted { position: 1, .. }));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn from_sorted(entries: impl IntoIterator<Item = (u64, u64)>) -> Result<Self, Error> {
        Self::builder().from_sorted(entries)
    }

    /// Creates a map of entries in any order. Of entries with equal keys, the last one's value
    /// stays.
    ///
    /// # Errors
    /// `OutOfMemory`.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_entries([(2, 20), (1, 10)])?;
    /// assert_eq!(map.first(), Some((1, 10)));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn from_entries(entries: impl IntoIterator<Item = (u64, u64)>) -> Result<Self, Error> {
        let map = Self::new()?;
        map.extend(entries)?;
        Ok(map)
    }
}

impl<P: Placement<Words>> Map<Words, P> {
    /// Inserts all entries that an iterator gives, in its order and in batches; answers how many
    /// keys were absent before.
    ///
    /// # Errors
    /// As [`insert_many`](Map::insert_many).
    ///
    /// ```
    /// let map = nearfield::WordMap::new()?;
    /// assert_eq!(map.extend((0..1000).map(|n| (n, n * n)))?, 1000);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn extend(&self, entries: impl IntoIterator<Item = (u64, u64)>) -> Result<usize, Error> {
        self.insert_all(entries, |batch, (key, value)| {
            batch.insert(key, value);
        })
    }
}
