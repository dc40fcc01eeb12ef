//! Creation of maps in the memory of this machine.

use super::MapBuilder;
use crate::form::MapForm;
use crate::map::OrderedMap;
use crate::placement::Local;
use nearfield_core::{ByteStrings, OperationError, Words};

impl<F: MapForm> OrderedMap<F, Local> {
    /// Creates an empty map without a memory limit.
    ///
    /// # Errors
    /// `OutOfMemory` if the system grants no address space.
    ///
    /// ```
    /// let map = nearfield::OrderedMap::<nearfield::ByteStrings>::new()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn new() -> Result<Self, OperationError> {
        Self::builder().build()
    }

    /// Creates a builder of a map with a memory limit, engine options, or another placement; see
    /// [`MapBuilder`].
    ///
    /// ```
    /// let map = nearfield::WordMap::builder().memory_limit(1 << 20).build()?;
    /// assert!(map.is_empty());
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn builder() -> MapBuilder<F> {
        MapBuilder::default()
    }
}

impl OrderedMap<ByteStrings, Local> {
    /// Creates a map from entries in strictly ascending order of their keys, owned or borrowed, in
    /// one pass. This takes a fraction of the time of inserting them. Entries are stored in key
    /// order, so that later scans read memory in order, too.
    ///
    /// # Errors
    /// `NotSorted` with the position of the first key that is not greater than the one before;
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`.
    ///
    /// ```
    /// use nearfield::{ByteStrings, OperationError, OrderedMap};
    ///
    /// let map = OrderedMap::<ByteStrings>::from_sorted([("ann", "1"), ("bob", "2")])?;
    /// assert_eq!(map.len(), 2);
    /// let entries = [("bob", "2"), ("ann", "1")];
    /// let error = OrderedMap::<ByteStrings>::from_sorted(entries).unwrap_err();
    /// assert!(matches!(error, OperationError::NotSorted { position: 1, .. }));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn from_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, OperationError> {
        Self::builder().from_sorted(entries)
    }

    /// Creates a map of entries in any order. Of entries with equal keys, the last one wins.
    ///
    /// # Errors
    /// As [`insert`](OrderedMap::insert).
    ///
    /// ```
    /// use nearfield::{ByteStrings, OrderedMap};
    ///
    /// let map = OrderedMap::<ByteStrings>::from_entries([("bob", "2"), ("ann", "1")])?;
    /// assert_eq!(map.first(), Some((b"ann".to_vec(), b"1".to_vec())));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn from_entries<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, OperationError> {
        let map = Self::new()?;
        map.extend(entries)?;
        Ok(map)
    }
}

impl OrderedMap<Words, Local> {
    /// Creates a map from entries in strictly ascending order of their keys, in one pass. This
    /// takes a fraction of the time of inserting them. Entries are stored in key order, so that
    /// later scans read memory in order, too.
    ///
    /// # Errors
    /// `NotSorted` with the position of the first key that is not greater than the one before;
    /// `OutOfMemory`.
    ///
    /// ```
    /// use nearfield::{OperationError, WordMap};
    ///
    /// let squares = WordMap::from_sorted((0..1000).map(|n| (n, n * n)))?;
    /// assert_eq!(squares.get(30), Some(900));
    /// let error = WordMap::from_sorted([(2, 4), (2, 4)]).unwrap_err();
    /// assert!(matches!(error, OperationError::NotSorted { position: 1, .. }));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn from_sorted(
        entries: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Self, OperationError> {
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
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn from_entries(
        entries: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Self, OperationError> {
        let map = Self::new()?;
        map.extend(entries)?;
        Ok(map)
    }
}
