//! The interface between the keeper and a store.

use super::Warmth;
use crate::cold::ColdTiers;
use crate::place::ColdPlace;
use std::fmt::Debug;

/// A value, or a node of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueName {
    /// The part of the store that has the key, such as the number of a database.
    pub part: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The number of the node, if the value moves node by node; 0 is the value as a whole.
    pub node: u64,
}

/// A store that moves values, as the keeper sees it.
pub trait MovableValues {
    /// Cursor of the walk over all keys; by default before the first.
    type Hand: Default + Debug;
    /// A value that is being moved.
    type Moving: MovingValue;

    /// Returns the cold tiers.
    fn cold(&self) -> &ColdTiers;
    /// Returns the warmth of the keys.
    fn warmth(&self) -> &Warmth;
    /// Returns the hash that identifies a key in [`warmth`](MovableValues::warmth).
    fn hash(&self, key: &ValueName) -> u64;
    /// Returns the memory that the store uses now.
    fn size(&self) -> StoreMemorySize;
    /// Returns true if memory that moves replaced is still to be freed, besides that of the index.
    fn frees(&self) -> bool;
    /// Returns the number of uses of keys since the start, including those with cold values. If it
    /// is less than before, counting began again.
    fn uses(&self) -> u64;
    /// Adds the next keys of the walk to `met`, `count` at most, and returns whether the walk has
    /// reached the end; the next call begins again.
    fn walk(&self, hand: &mut Self::Hand, count: usize, met: &mut Vec<VisitedKey>) -> bool;
    /// Returns true if the value of a key must stay in memory.
    fn is_pinned(&self, key: &ValueName) -> bool;
    /// Claims the values of keys and reads them, as the first step of [a move](crate::claim).
    /// Returns `None` for those that cannot move.
    fn begin(&self, keys: &[&ValueName]) -> Vec<Option<Self::Moving>>;
    /// Ends a move: the key refers to the place in a cold tier from now on, or with `None` has its
    /// value in memory. If that is no longer possible, releases the place. Returns whether the
    /// value moved, and counts it.
    fn publish(&self, moving: Self::Moving, place: Option<ColdPlace>) -> bool;
}

/// A value that is being moved.
pub trait MovingValue {
    /// Returns the value.
    fn value(&self) -> &[u8];
    /// Returns the tier that it was in.
    fn from(&self) -> usize;
}

/// The memory that a store uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMemorySize {
    /// Number of bytes of the index, with the keys, and of values.
    pub bytes: u64,
    /// Number of keys. Of values that move node by node, each node counts as one.
    pub keys: usize,
}

/// A key that the walk has visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitedKey {
    /// The key.
    pub key: ValueName,
    /// The position of its value.
    pub at: ValuePosition,
}

/// The position of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuePosition {
    /// Memory, with the number of bytes that it uses there.
    Memory(u64),
    /// A cold tier.
    Place(ColdPlace),
}
