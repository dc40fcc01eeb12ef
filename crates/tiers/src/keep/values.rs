//! What the keeper asks of a store.

use super::Warmth;
use crate::cold::Cold;
use crate::place::Place;
use std::fmt::Debug;

/// A value, or a node of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The part of the store that has the key, such as the number of a database.
    pub part: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The number of the node, if the value moves node by node; 0 is the value as a whole.
    pub node: u64,
}

/// A store whose values move, as the keeper meets and moves them.
pub trait Values {
    /// Where the walk over all keys stands; by default before the first.
    type Hand: Default + Debug;
    /// A value on its way.
    type Moving: Moving;

    /// The cold tiers.
    fn cold(&self) -> &Cold;
    /// How warm the keys are.
    fn warmth(&self) -> &Warmth;
    /// The hash by which [`warmth`](Values::warmth) knows a key.
    fn hash(&self, key: &Named) -> u64;
    /// What the store takes in memory now.
    fn size(&self) -> Size;
    /// True if memory that moves have replaced is still to be freed, beside that of the index.
    fn frees(&self) -> bool;
    /// The uses of keys since the start, also of those whose values are cold. If they are fewer
    /// than before, they are counted anew.
    fn uses(&self) -> u64;
    /// Adds the next keys of the walk to `met`, `count` at most, and answers whether the walk has
    /// come to the end; the next call begins anew.
    fn walk(&self, hand: &mut Self::Hand, count: usize, met: &mut Vec<Met>) -> bool;
    /// Whether the value of a key has to stay in memory.
    fn is_pinned(&self, key: &Named) -> bool;
    /// Claims the values of keys and reads them, as the first step of
    /// [a move](crate::claim). Of those that cannot move there is none.
    fn begin(&self, keys: &[&Named]) -> Vec<Option<Self::Moving>>;
    /// Ends a move: the key refers to the place in a cold tier from now on, or with `None` has its
    /// value in memory. If that is not possible any more, releases the place. Answers whether the
    /// value has moved, and counts it.
    fn publish(&self, moving: Self::Moving, place: Option<Place>) -> bool;
}

/// A value on its way.
pub trait Moving {
    /// The value.
    fn value(&self) -> &[u8];
    /// The tier that it was in.
    fn from(&self) -> usize;
}

/// What a store takes in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The bytes of the index, with the keys, and of values.
    pub bytes: u64,
    /// The keys. Of values that move node by node, each node counts as one.
    pub keys: usize,
}

/// A key that the walk has met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// The key.
    pub key: Named,
    /// Where its value lies.
    pub at: At,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// In memory, where it takes so many bytes.
    Memory(u64),
    /// In a cold tier.
    Place(Place),
}
