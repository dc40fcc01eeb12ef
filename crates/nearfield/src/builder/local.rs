//! Creation of maps in the memory of this machine.

use super::Builder;
use crate::form::MapForm;
use crate::map::Map;
use crate::placement::Local;
use nearfield_core::{Bytes, Error, Words};

impl<F: MapForm> Map<F, Local> {
    /// Creates an empty map without a memory limit.
    ///
    /// # Errors
    /// `OutOfMemory` if the system grants no address space.
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::new()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Creates a builder of a map with a memory limit, engine options, or another placement; see
    /// [`Builder`].
    ///
    /// ```
    /// let map = nearfield::WordMap::builder().memory_limit(1 << 20).build()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn builder() -> Builder<F> {
        Builder::default()
    }
}

impl Map<Bytes, Local> {
    /// Creates a map from entries in strictly ascending order of their keys, owned or borrowed, in
    /// one pass. This takes a fraction of the time of inserting them. Entries are stored in key
    /// order, so that later scans read memory in order, too.
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

    /// Creates a map of entries in any order. Of entries with equal keys, the last one wins.
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    ///
    /// ```
    /// let map = nearfield::Map::<nearfield::Bytes>::from_entries([("bob", "2"), ("ann", "1")])?;
    /// assert_eq!(map.first(), Some((b"ann".to_vec(), b"1".to_vec())));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn from_entries<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, Error> {
        let map = Self::new()?;
        map.extend(entries)?;
        Ok(map)
    }
}

impl Map<Words, Local> {
    /// Creates a map from entries in strictly ascending order of their keys, in one pass. This
    /// takes a fraction of the time of inserting them. Entries are stored in key order, so that
    /// later scans read memory in order, too.
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

    /// Creates a map of entries in any order. Of entries with equal keys, the last one wins.
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
