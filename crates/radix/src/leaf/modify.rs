//! Creation and change of leaves.

use super::ReadLeaf;
use super::strings::STRINGS_MAX;
use crate::change::{LeafChangeResult, RadixKeyChange};
use crate::memory::RadixMemory;
use crate::node::{RadixInnerNode, Ref, Symbol};
use arrayvec::ArrayVec;
use crossbeam_epoch::Guard;
use nearfield_core::{EntryForm, OperationError};

/// The entries of a leaf, in ascending order, and room for one more.
pub type Entries<'g, F> =
    ArrayVec<(<F as EntryForm>::Key<'g>, <F as EntryForm>::Value<'g>), { STRINGS_MAX + 1 }>;

/// The place of a change under a node's lock.
#[derive(Clone, Copy, Debug)]
pub struct LockedChangePlace<'n> {
    pub node: RadixInnerNode<'n>,
    /// The key's symbol at the node.
    pub symbol: Symbol,
    /// True if the path to the node has skipped bytes, in which the key may differ from the keys
    /// below.
    pub skipped: bool,
}

/// The knowledge that a key's walk to a leaf has gained.
#[derive(Clone, Copy, Debug)]
pub struct LeafWalkContext<P> {
    /// True if the walk has skipped bytes, in which the key may differ from those of the leaf.
    pub skipped: bool,
    /// The node above, and its depth.
    pub parent: Ref,
    pub depth: usize,
    /// The result of [`prepare`](ReadLeaf::prepare).
    pub prepared: P,
}

/// The room for an entry in a leaf.
#[derive(Clone, Copy, Debug)]
pub enum LeafEntryRoom {
    /// Room in the leaf itself.
    InPlace,
    /// A copy of the leaf that includes the entry, which no other thread can reach yet.
    Copy(Ref),
    /// No room.
    Full,
}

/// The result of a change to a node under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InNode {
    /// Nothing changed that readers of the node combine.
    Unchanged,
    Changed,
    /// Same as `Changed`, and the node may now be underfull.
    Shrunk,
    /// Nothing changed: the change needs its own walk.
    Postponed,
}

/// Operations that change leaves.
///
/// A method that changes a leaf, or decides by its content, must be called under the lock of the
/// node above and with the leaf [latched](ModifyLeaf::latch). A leaf that is passed with a guard
/// must have been read from the tree under that guard.
pub trait ModifyLeaf: ReadLeaf {
    /// Guard that holds the latch of a leaf.
    type Latch<'m>;

    /// The size in bytes of the unit in which leaves are allocated.
    const LEAF_UNIT_BYTES: usize;
    /// Number of units of the largest leaf.
    const LEAF_UNITS_MAX: usize;
    /// The maximum number of entries in a leaf.
    const LEAF_ENTRIES_MAX: usize;
    /// The maximum number of entries that two neighbouring leaves have together to become one.
    const JOINED_MAX: usize;
    /// True if trees have node48s.
    const HAS_NODE48: bool;

    /// Returns true if a leaf has room for entries, which are at most one more than the maximum.
    fn fits(entries: &[(Self::Key<'_>, Self::Value<'_>)]) -> bool;
    /// Returns true if two leaves with these entries should be joined.
    fn joins(entries: &[(Self::Key<'_>, Self::Value<'_>)]) -> bool;
    /// Creates a leaf from one or more entries that fit. No other thread can reach it yet. The
    /// caller must link or [discard](ModifyLeaf::discard_leaf) it.
    fn create(
        memory: &RadixMemory,
        entries: &[(Self::Key<'_>, Self::Value<'_>)],
    ) -> Result<Ref, OperationError>;
    /// Creates two leaves, or none.
    fn create_two(
        memory: &RadixMemory,
        left: &[(Self::Key<'_>, Self::Value<'_>)],
        right: &[(Self::Key<'_>, Self::Value<'_>)],
    ) -> Result<[Ref; 2], OperationError>;
    /// Creates two leaves from the entries of a leaf without room and another entry, which may
    /// replace one of them. They are divided where keys differ in the byte at `depth`. Also returns
    /// the first byte of the second leaf. `is_last` is true if the leaf is the last of its node.
    /// Returns `None` if that is impossible, or if the form leaves it to the caller.
    fn divided(
        _memory: &RadixMemory,
        _leaf: Ref,
        _depth: usize,
        _is_last: bool,
        _entry: (Self::Key<'_>, Self::Value<'_>),
        _guard: &Guard,
    ) -> Option<Result<(u8, [Ref; 2]), OperationError>> {
        None
    }
    /// Frees a leaf that no other thread can reach.
    fn discard_leaf(memory: &RadixMemory, leaf: Ref);
    /// Adds all entries of a leaf to `entries`, which has room for them.
    fn gather<'g>(
        memory: &'g RadixMemory,
        leaf: Ref,
        guard: &'g Guard,
        entries: &mut Entries<'g, Self>,
    );
    /// Keeps other threads from changing a leaf by [`alter_in_leaf`](ModifyLeaf::alter_in_leaf)
    /// while the result lives, if that is `needed`: see [`latching`](crate::latching). Only under
    /// the lock of the node above.
    fn latch(memory: &RadixMemory, leaf: Ref, needed: bool) -> Self::Latch<'_>;
    /// Applies the decision of `decide` to a key, without the lock of the node above the leaf, if
    /// the [rule](crate::latching::Rule) allows it and the change affects only the leaf. `decide`
    /// may have been called without an effect.
    #[inline]
    fn alter_in_leaf<'v>(
        _memory: &RadixMemory,
        _leaf: Ref,
        _key: Self::Key<'_>,
        _known: LeafWalkContext<Self::Prepared>,
        _guard: &Guard,
        _decide: &mut impl FnMut(Option<Self::Value<'_>>) -> RadixKeyChange<Self::Value<'v>>,
    ) -> LeafChangeResult {
        LeafChangeResult::Not
    }
    /// Returns the number of entries in a leaf.
    fn count(memory: &RadixMemory, leaf: Ref, guard: &Guard) -> usize;
    /// Returns the place of a key in a leaf, and its value.
    fn find<'g>(
        memory: &'g RadixMemory,
        leaf: Ref,
        key: Self::Key<'_>,
        guard: &'g Guard,
    ) -> Option<(usize, Self::Value<'g>)>;
    /// Sets the value of the entry at a place, in place or in a copy.
    fn set(
        memory: &RadixMemory,
        leaf: Ref,
        position: usize,
        value: Self::Value<'_>,
        guard: &Guard,
    ) -> Result<LeafEntryRoom, OperationError>;
    /// Makes room for an absent key. After `InPlace` the caller must call
    /// [`insert`](ModifyLeaf::insert). The key agrees with the keys of the leaf in the bytes before
    /// `depth`, the depth of the node above.
    fn make_room(
        memory: &RadixMemory,
        leaf: Ref,
        entry: (Self::Key<'_>, Self::Value<'_>),
        depth: usize,
        guard: &Guard,
    ) -> Result<LeafEntryRoom, OperationError>;
    /// Adds an entry for which there is room in place.
    fn insert(
        memory: &RadixMemory,
        leaf: Ref,
        entry: (Self::Key<'_>, Self::Value<'_>),
        depth: usize,
        guard: &Guard,
    );
    /// Removes the entry at a place.
    fn remove(memory: &RadixMemory, leaf: Ref, position: usize, guard: &Guard);
    /// Returns a copy without the removed entries, if they take much of the leaf.
    fn compacted(
        memory: &RadixMemory,
        leaf: Ref,
        guard: &Guard,
    ) -> Option<Result<Ref, OperationError>>;
    /// Returns true if a leaf takes so little memory that it should be joined with a small
    /// neighbour.
    fn is_small(_memory: &RadixMemory, _leaf: Ref, _guard: &Guard) -> bool {
        false
    }
    /// Marks a leaf as replaced.
    fn kill(memory: &RadixMemory, leaf: Ref);
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
