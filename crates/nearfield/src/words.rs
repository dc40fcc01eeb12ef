//! What a map of words has of its own: reads that cannot fail, and nothing to borrow.

use crate::Map;
use nearfield_core::{Direction, Error, Words};
use std::ops::Bound;

/// A map from `u64` to `u64`, ordered as numbers. Runs of dense keys take 8 bytes and a bit each.
///
/// ```
/// let map = nearfield::WordMap::new()?;
/// map.insert(1, 10)?;
/// assert_eq!(map.get(1), Some(10));
/// # Ok::<(), nearfield::Error>(())
/// ```
pub type WordMap = Map<Words>;

impl Map<Words> {
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

    /// Reads the value of a key, `None` if it is absent.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10)])?;
    /// assert_eq!((map.get(1), map.get(2)), (Some(10), None));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    #[inline]
    pub fn get(&self, key: u64) -> Option<u64> {
        self.read(key, |value| value)
    }

    /// True if the key is present.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10)])?;
    /// assert!(map.contains(1) && !map.contains(10));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    #[inline]
    pub fn contains(&self, key: u64) -> bool {
        self.get(key).is_some()
    }

    /// The entry with the greatest key at or below the given one.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (5, 50)])?;
    /// assert_eq!((map.predecessor(4), map.predecessor(0)), (Some((1, 10)), None));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn predecessor(&self, key: u64) -> Option<(u64, u64)> {
        self.nearest(Bound::Included(key), Direction::Descending)
    }

    /// The entry with the least key at or above the given one.
    ///
    /// ```
    /// let map = nearfield::WordMap::from_sorted([(1, 10), (5, 50)])?;
    /// assert_eq!((map.successor(2), map.successor(6)), (Some((5, 50)), None));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn successor(&self, key: u64) -> Option<(u64, u64)> {
        self.nearest(Bound::Included(key), Direction::Ascending)
    }
}
