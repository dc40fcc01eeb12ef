//! What a map of byte strings has of its own: keys that can be too long.

use crate::Map;
use nearfield_core::{Bytes, Direction, Error, Form};
use nearfield_radix::Entry;
use std::ops::Bound;

impl Map<Bytes> {
    /// Creates a map of entries that come in strictly ascending order of their keys, owned or
    /// borrowed, in one pass over them. Takes a fraction of the time of inserting them, and puts
    /// them into memory in their order, so that ranges read it in order, too.
    ///
    /// # Errors
    /// `NotSorted` with the position of the first key that is not greater than the one before;
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`.
    ///
    /// ```
    /// use nearfield::{Bytes, Error, Map};
    ///
    /// let map = Map::<Bytes>::from_sorted([("ann", "1"), ("bob", "2")])?;
    /// assert_eq!(map.len(), 2);
    /// let error = Map::<Bytes>::from_sorted([("bob", "2"), ("ann", "1")]).unwrap_err();
    /// assert!(matches!(error, Error::NotSorted { position: 1, .. }));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn from_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, Error> {
        Self::builder().from_sorted(entries)
    }

    /// True if the key is present.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::from_sorted([("ann", "1")])?;
    /// assert!(map.contains(b"ann")? && !map.contains(b"bob")?);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    #[inline]
    pub fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        Bytes::check(key, None)?;
        Ok(self.read(key, |_| ()).is_some())
    }

    /// The entry with the greatest key at or below the given one, copied.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::from_sorted([("ann", "1"), ("bob", "2")])?;
    /// assert_eq!(map.predecessor(b"bill")?, Some((b"ann".to_vec(), b"1".to_vec())));
    /// assert_eq!(map.predecessor(b"abe")?, None);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn predecessor(&self, key: &[u8]) -> Result<Option<Entry<Bytes>>, Error> {
        Bytes::check(key, None)?;
        Ok(self.nearest(Bound::Included(key), Direction::Descending))
    }

    /// The entry with the least key at or above the given one, copied.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::from_sorted([("ann", "1"), ("bob", "2")])?;
    /// assert_eq!(map.successor(b"ann")?, Some((b"ann".to_vec(), b"1".to_vec())));
    /// assert_eq!(map.successor(b"cid")?, None);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn successor(&self, key: &[u8]) -> Result<Option<Entry<Bytes>>, Error> {
        Bytes::check(key, None)?;
        Ok(self.nearest(Bound::Included(key), Direction::Ascending))
    }
}
