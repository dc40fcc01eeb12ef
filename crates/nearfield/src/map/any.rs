//! Methods of maps whose placement is chosen at run time.

use super::OrderedMap;
use crate::form::MapForm;
#[cfg(feature = "pim")]
use crate::placement::Pim;
use crate::placement::{AnyIndex, AnyPlacement, Local};
#[cfg(feature = "pool")]
use crate::placement::{PoolPlacement, PoolUse};
use nearfield_core::ByteStrings;
use nearfield_radix::MemoryUse;

impl<F: MapForm> OrderedMap<F, AnyPlacement> {
    /// Returns the name of the placement: `local`, `pool` or `pim`.
    ///
    /// ```
    /// use nearfield::{AnyPlacement, OrderedMap, WordMap, Words};
    ///
    /// let map: OrderedMap<Words, AnyPlacement> = WordMap::new()?.into();
    /// assert_eq!(map.placement_name(), "local");
    /// # Ok::<(), nearfield::OperationError>(())
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

    /// Returns the use of the pool by this process, if the map is in one.
    ///
    /// ```
    /// use nearfield::{AnyPlacement, OrderedMap, WordMap, Words};
    ///
    /// let map: OrderedMap<Words, AnyPlacement> = WordMap::new()?.into();
    /// assert_eq!(map.pool_use(), None);
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    #[cfg(feature = "pool")]
    pub fn pool_use(&self) -> Option<PoolUse> {
        match &self.index {
            AnyIndex::Pool(index) => Some(index.pool_use()),
            _ => None,
        }
    }

    /// Returns the memory that the map takes by kind of node, if it is in this machine's memory.
    ///
    /// ```
    /// use nearfield::{AnyPlacement, OrderedMap, WordMap, Words};
    ///
    /// let map: OrderedMap<Words, AnyPlacement> = WordMap::from_sorted([(1, 10)])?.into();
    /// assert_eq!(map.local_memory().map(|memory| memory.leaf_bytes), Some(128));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn local_memory(&self) -> Option<MemoryUse> {
        match &self.index {
            AnyIndex::Local(radix) => Some(radix.memory()),
            #[cfg(any(feature = "pool", feature = "pim"))]
            _ => None,
        }
    }
}

impl OrderedMap<ByteStrings, AnyPlacement> {
    /// Moves entries as [`compact`](OrderedMap#method.compact) does, if the map is in this
    /// machine's memory. Other placements have nothing to move, and return false.
    ///
    /// ```
    /// use nearfield::{AnyPlacement, ByteStrings, OrderedMap};
    ///
    /// let map: OrderedMap<ByteStrings, AnyPlacement> = OrderedMap::<ByteStrings>::new()?.into();
    /// assert!(!map.compact(64));
    /// # Ok::<(), nearfield::OperationError>(())
    /// ```
    pub fn compact(&self, blocks: usize) -> bool {
        match &self.index {
            AnyIndex::Local(radix) => radix.compact(blocks),
            #[cfg(any(feature = "pool", feature = "pim"))]
            _ => false,
        }
    }
}

impl<F: MapForm> From<OrderedMap<F, Local>> for OrderedMap<F, AnyPlacement> {
    fn from(map: OrderedMap<F, Local>) -> Self {
        OrderedMap::of(AnyIndex::Local(map.index))
    }
}

#[cfg(feature = "pool")]
impl<F: MapForm> From<OrderedMap<F, PoolPlacement>> for OrderedMap<F, AnyPlacement> {
    fn from(map: OrderedMap<F, PoolPlacement>) -> Self {
        OrderedMap::of(AnyIndex::Pool(map.index))
    }
}

#[cfg(feature = "pim")]
impl<F: MapForm> From<OrderedMap<F, Pim>> for OrderedMap<F, AnyPlacement> {
    fn from(map: OrderedMap<F, Pim>) -> Self {
        OrderedMap::of(AnyIndex::Pim(map.index))
    }
}
