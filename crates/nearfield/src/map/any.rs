//! Methods of maps whose placement is chosen at run time.

use super::Map;
use crate::form::MapForm;
#[cfg(feature = "pim")]
use crate::placement::Pim;
#[cfg(feature = "pool")]
use crate::placement::Pool;
use crate::placement::{AnyIndex, AnyPlacement, Local};
use nearfield_core::Bytes;
use nearfield_radix::MemoryUse;

impl<F: MapForm> Map<F, AnyPlacement> {
    /// Returns the name of the placement: `local`, `pool` or `pim`.
    ///
    /// ```
    /// use nearfield::{AnyPlacement, Map, WordMap, Words};
    ///
    /// let map: Map<Words, AnyPlacement> = WordMap::new()?.into();
    /// assert_eq!(map.placement_name(), "local");
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn placement_name(&self) -> &'static str {
        match &self.index {
            AnyIndex::Local(_) => "local",
            #[cfg(feature = "pool")]
            AnyIndex::Pool(_) => "pool",
            #[cfg(feature = "pim")]
            AnyIndex::Pim(_) => "pim",
        }
    }

    /// Returns the memory that the map takes by kind of node, if it is in this machine's memory.
    ///
    /// ```
    /// use nearfield::{AnyPlacement, Map, WordMap, Words};
    ///
    /// let map: Map<Words, AnyPlacement> = WordMap::from_sorted([(1, 10)])?.into();
    /// assert_eq!(map.local_memory().map(|memory| memory.leaf_bytes), Some(128));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn local_memory(&self) -> Option<MemoryUse> {
        match &self.index {
            AnyIndex::Local(radix) => Some(radix.memory()),
            #[cfg(any(feature = "pool", feature = "pim"))]
            _ => None,
        }
    }
}

impl Map<Bytes, AnyPlacement> {
    /// Moves entries as [`compact`](Map#method.compact) does, if the map is in this machine's
    /// memory. Other placements have nothing to move, and return false.
    ///
    /// ```
    /// use nearfield::{AnyPlacement, Bytes, Map};
    ///
    /// let map: Map<Bytes, AnyPlacement> = Map::<Bytes>::new()?.into();
    /// assert!(!map.compact(64));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn compact(&self, blocks: usize) -> bool {
        match &self.index {
            AnyIndex::Local(radix) => radix.compact(blocks),
            #[cfg(any(feature = "pool", feature = "pim"))]
            _ => false,
        }
    }
}

impl<F: MapForm> From<Map<F, Local>> for Map<F, AnyPlacement> {
    fn from(map: Map<F, Local>) -> Self {
        Map::of(AnyIndex::Local(map.index))
    }
}

#[cfg(feature = "pool")]
impl<F: MapForm> From<Map<F, Pool>> for Map<F, AnyPlacement> {
    fn from(map: Map<F, Pool>) -> Self {
        Map::of(AnyIndex::Pool(map.index))
    }
}

#[cfg(feature = "pim")]
impl<F: MapForm> From<Map<F, Pim>> for Map<F, AnyPlacement> {
    fn from(map: Map<F, Pim>) -> Self {
        Map::of(AnyIndex::Pim(map.index))
    }
}
