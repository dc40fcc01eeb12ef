//! Creating and changing leaves.

use super::ReadLeaf;
use super::strings::STRINGS_MAX;
use crate::change::{Altered, Change};
use crate::memory::Memory;
use crate::node::{Inner, Ref, Symbol};
use arrayvec::ArrayVec;
use crossbeam_epoch::Guard;
use nearfield_core::{Error, Form};

/// The entries of a leaf, in ascending order, and room for one more.
pub type Entries<'g, F> =
    ArrayVec<(<F as Form>::Key<'g>, <F as Form>::Value<'g>), { STRINGS_MAX + 1 }>;

/// Where a change under a node's lock is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'n> {
    pub node: Inner<'n>,
    /// The key's symbol at the node.
    pub symbol: Symbol,
    /// True if the path to the node has skipped bytes, in which the key may differ from those
    /// below.
    pub skipped: bool,
}

/// What the walk of a key to a leaf has found out.
#[derive(Clone, Copy, Debug)]
pub struct Known<P> {
    /// True if it has skipped bytes, in which the key may differ from those of the leaf.
    pub skipped: bool,
    /// The node above, and its depth.
    pub parent: Ref,
    pub depth: usize,
    /// What was [prepared](ReadLeaf::prepare).
    pub prepared: P,
}

/// Where a leaf has room for an entry.
#[derive(Clone, Copy, Debug)]
pub enum Room {
    /// In itself.
    InPlace,
    /// In this leaf, a copy of the old one with the entry, which no other thread knows yet.
    Copy(Ref),
    /// Nowhere.
    Full,
}

/// The result of a change to a node under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InNode {
    /// Nothing that readers of the node combine.
    Unchanged,
    Changed,
    /// As `Changed`, and the node may be underfull now.
    Shrunk,
    /// Nothing: the change needs a walk of its own.
    Postponed,
}

/// How leaves are changed.
///
/// A method that changes a leaf, or decides by its content, is to be called under the lock of the
/// node above and with the leaf [latched](ModifyLeaf::latch). A leaf that comes with a guard has
/// been read from the tree under it.
pub trait ModifyLeaf: ReadLeaf {
    /// Holds the latch of a leaf.
    type Latch<'m>;

    /// Bytes of the unit in which leaves are allocated.
    const LEAF_UNIT_BYTES: usize;
    /// Units of the largest leaf.
    const LEAF_UNITS_MAX: usize;
    /// The most entries of a leaf.
    const LEAF_ENTRIES_MAX: usize;
    /// Two neighbouring leaves become one when they have no more entries together.
    const JOINED_MAX: usize;
    /// True if trees have node48s.
    const HAS_NODE48: bool;

    /// True if a leaf has room for entries, which are at most one more than a leaf may have.
    fn fits(entries: &[(Self::Key<'_>, Self::Value<'_>)]) -> bool;
    /// True if two leaves of entries are better joined.
    fn joins(entries: &[(Self::Key<'_>, Self::Value<'_>)]) -> bool;
    /// Creates a leaf of entries, at least one, that fit, which no other thread knows yet. It must
    /// be linked then, or [discarded](ModifyLeaf::discard_leaf).
    fn create(memory: &Memory, entries: &[(Self::Key<'_>, Self::Value<'_>)]) -> Result<Ref, Error>;
    /// Creates two leaves, or none.
    fn create_two(
        memory: &Memory,
        left: &[(Self::Key<'_>, Self::Value<'_>)],
        right: &[(Self::Key<'_>, Self::Value<'_>)],
    ) -> Result<[Ref; 2], Error>;
    /// Creates two leaves of the entries of one without room and another entry, which may replace
    /// one of them, divided where keys differ in the byte at `depth`; also returns the first byte
    /// of the second. `is_last` tells whether the leaf is the last of its node. `None` if that is
    /// impossible, or if the form leaves it to the caller.
    fn divided(
        _memory: &Memory,
        _leaf: Ref,
        _depth: usize,
        _is_last: bool,
        _entry: (Self::Key<'_>, Self::Value<'_>),
        _guard: &Guard,
    ) -> Option<Result<(u8, [Ref; 2]), Error>> {
        None
    }
    /// Frees a leaf that no other thread knows.
    fn discard_leaf(memory: &Memory, leaf: Ref);
    /// Adds all entries of a leaf, for which there is room.
    fn gather<'g>(memory: &'g Memory, leaf: Ref, guard: &'g Guard, entries: &mut Entries<'g, Self>);
    /// Keeps others from changing a leaf by [`alter_in_leaf`](ModifyLeaf::alter_in_leaf) as long as
    /// it lives, if that is `needed`: see [`latching`](crate::latching). Only under the lock of the
    /// node above.
    fn latch(memory: &Memory, leaf: Ref, needed: bool) -> Self::Latch<'_>;
    /// Changes a key as `decide` says, without the lock of the node above the leaf, if the
    /// [rule](crate::latching::Rule) allows that and the change needs only the leaf. `decide` may
    /// have been called without an effect.
    #[inline]
    fn alter_in_leaf<'v>(
        _memory: &Memory,
        _leaf: Ref,
        _key: Self::Key<'_>,
        _known: Known<Self::Prepared>,
        _guard: &Guard,
        _decide: &mut impl FnMut(Option<Self::Value<'_>>) -> Change<Self::Value<'v>>,
    ) -> Altered {
        Altered::Not
    }
    /// The number of entries of a leaf.
    fn count(memory: &Memory, leaf: Ref, guard: &Guard) -> usize;
    /// The place of a key in a leaf, and its value.
    fn find<'g>(
        memory: &'g Memory,
        leaf: Ref,
        key: Self::Key<'_>,
        guard: &'g Guard,
    ) -> Option<(usize, Self::Value<'g>)>;
    /// Sets the value of the entry at a place, in place or in a copy.
    fn set(
        memory: &Memory,
        leaf: Ref,
        position: usize,
        value: Self::Value<'_>,
        guard: &Guard,
    ) -> Result<Room, Error>;
    /// Makes room for a key that is absent: `InPlace` is to be followed by
    /// [`insert`](ModifyLeaf::insert). It agrees with the keys of the leaf in the bytes before
    /// `depth`, that of the node above.
    fn make_room(
        memory: &Memory,
        leaf: Ref,
        entry: (Self::Key<'_>, Self::Value<'_>),
        depth: usize,
        guard: &Guard,
    ) -> Result<Room, Error>;
    /// Adds an entry where there is room in place.
    fn insert(
        memory: &Memory,
        leaf: Ref,
        entry: (Self::Key<'_>, Self::Value<'_>),
        depth: usize,
        guard: &Guard,
    );
    /// Removes the entry at a place.
    fn remove(memory: &Memory, leaf: Ref, position: usize, guard: &Guard);
    /// A copy without the entries that have been removed, if they take much of the leaf.
    fn compacted(memory: &Memory, leaf: Ref, guard: &Guard) -> Option<Result<Ref, Error>>;
    /// True if a leaf takes so little memory that it is to be joined with a small neighbour.
    fn is_small(_memory: &Memory, _leaf: Ref, _guard: &Guard) -> bool {
        false
    }
    /// Marks a leaf as replaced.
    fn kill(memory: &Memory, leaf: Ref);
}

/// Adds an entry to those of a leaf, or replaces a value.
pub fn put_entry<'e, F: ModifyLeaf>(
    entries: &mut Entries<'e, F>,
    key: F::Key<'e>,
    value: F::Value<'e>,
) {
    let position = entries.partition_point(|entry| entry.0 < key);
    match entries.get_mut(position) {
        Some(entry) if entry.0 == key => entry.1 = value,
        _ => entries.insert(position, (key, value)),
    }
}
