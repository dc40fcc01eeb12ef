//! Leaves, and their differences between the two forms of a map.
//!
//! A leaf is a block of entries in ascending order. It covers as many neighbouring bytes of a node
//! as it has room for the keys of; [`visits`](crate::visits) has its changes. Blocks of
//! [words](block) are changed in place, blocks of [byte strings](strings) are replaced, so that
//! readers can use values in place.
//!
//! A look-up ends by comparing whole keys, which also checks the bytes that paths skip.

pub mod block;
mod bytes;
pub mod strings;
mod word;

use crate::change::{Altered, Change};
use crate::memory::Memory;
use crate::node::{Inner, Ref, Sorted, Symbol};
use crate::shortcut::Tables;
use crate::tree::{InNode, Place, Tree};
use crate::writer::Writer;
use arrayvec::ArrayVec;
use crossbeam_epoch::Guard;
use nearfield_core::{Direction, EntriesWriter, Error, Form};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// The entries of a leaf, in ascending order, and room for one more.
pub type Entries<'g, F> =
    ArrayVec<(<F as Form>::Key<'g>, <F as Form>::Value<'g>), { strings::STRINGS_MAX + 1 }>;

/// The result of a look-up in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<V> {
    /// The key, with this value.
    Found(V),
    /// Other keys than the key.
    Absent,
    /// A leaf that has been unlinked and proves nothing: the walk has to restart.
    Dead,
}

/// Where a visit under a node's lock is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'n> {
    pub node: Inner<'n>,
    /// The key's symbol at the node.
    pub symbol: Symbol,
    /// True if the path to the node has skipped bytes, in which the key may differ from those
    /// below.
    pub skipped: bool,
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

/// The range of a scan in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Scan<K> {
    pub from: Bound<K>,
    pub to: Bound<K>,
    pub direction: Direction,
    pub limit: usize,
}

impl<K: Ord + Copy> Scan<K> {
    /// True if a key lies behind the far bound.
    #[inline]
    pub fn is_behind(&self, key: K) -> bool {
        match (self.to, self.direction) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(to), Direction::Ascending) => key > to,
            (Bound::Excluded(to), Direction::Ascending) => key >= to,
            (Bound::Included(to), Direction::Descending) => key < to,
            (Bound::Excluded(to), Direction::Descending) => key <= to,
        }
    }

    /// True if a key does not lie before the near bound.
    #[inline]
    pub fn is_past(&self, key: K) -> bool {
        match (self.from, self.direction) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(from), Direction::Ascending) => key >= from,
            (Bound::Excluded(from), Direction::Ascending) => key > from,
            (Bound::Included(from), Direction::Descending) => key <= from,
            (Bound::Excluded(from), Direction::Descending) => key < from,
        }
    }
}

/// The storage of a [`Form`] in the tree.
///
/// A *terminal* is a leaf or a dense node. Where a method takes one and a guard, it must have been
/// read from the tree, or from the shortcut table, under that guard, which keeps it from being
/// freed. A method that changes a leaf, or decides by its content, is to be called under the lock
/// of the node above and with the leaf [latched](LeafForm::latch).
pub trait LeafForm: Form {
    /// Holds the latch of a leaf.
    type Latch<'m>;

    /// Bytes of the unit in which leaves are allocated.
    const LEAF_UNIT_BYTES: usize;
    /// Units of the largest leaf.
    const LEAF_UNITS_MAX: usize;
    /// The distance from a leaf's first line of a second one that a look-up reads; 0 for none.
    const LEAF_SECOND_LINE: usize;
    /// Lines that a scan reads of a leaf, about.
    const LEAF_LINES: usize;
    /// The most entries of a leaf.
    const LEAF_ENTRIES_MAX: usize;
    /// Two neighbouring leaves become one when they have no more entries together.
    const JOINED_MAX: usize;

    /// True if look-ups read more of a leaf than its first lines, see
    /// [`prepare`](LeafForm::prepare).
    const PREPARES: bool;

    /// True if trees have node48s.
    const HAS_NODE48: bool;
    /// True if the nodes at one level are often of several kinds.
    const MIXES_KINDS: bool;

    /// The symbol of a key at a depth, [`END`](crate::node::END) if it ends there. `None` if it
    /// ends before.
    fn symbol(key: Self::Key<'_>, depth: usize) -> Option<Symbol>;
    /// The position of the first byte in which two keys differ, or the length of the shorter if
    /// it is the beginning of the other; `None` if they are equal.
    fn difference(a: Self::Key<'_>, b: Self::Key<'_>) -> Option<usize>;
    /// Eight bytes of a key from a depth on, big-endian and padded with zeros.
    fn slice(key: Self::Key<'_>, depth: usize) -> u64;
    /// A hash of the key.
    fn hash(key: Self::Key<'_>) -> u64;
    /// The first bytes of a key, for people.
    fn show(key: Self::Key<'_>) -> String;

    /// The child for a symbol. To be validated by the version unless under the lock or of a
    /// node256.
    fn child(node: Inner<'_>, symbol: Symbol) -> Ref;
    /// As [`child`](LeafForm::child), where the kind is known.
    fn child_of_small<N: Sorted>(node: &N, symbol: Symbol) -> Ref;
    /// Entries that a subtree is expected to hold, by the tag of its top.
    fn entries_expected(tag: usize) -> usize;

    /// Finds a key in a terminal that was read from the tree.
    fn lookup<'g>(
        memory: &'g Memory,
        terminal: Ref,
        key: Self::Key<'_>,
        guard: &'g Guard,
    ) -> Option<Self::Value<'g>>;
    /// As [`lookup`](LeafForm::lookup) in a terminal that some earlier walk has reached, which may
    /// have been unlinked since. `Absent` does not prove that the key is absent now.
    fn lookup_again<'g>(
        memory: &'g Memory,
        terminal: Ref,
        key: Self::Key<'_>,
        guard: &'g Guard,
    ) -> Lookup<Self::Value<'g>>;
    /// Prefetches the lines that a look-up reads of a terminal besides its first ones, which have
    /// been prefetched before.
    fn prepare(memory: &Memory, terminal: Ref, key: Self::Key<'_>, guard: &Guard);
    /// Some key of a terminal; `None` if it is dead or empty.
    fn any_key<'g>(memory: &'g Memory, terminal: Ref, guard: &'g Guard) -> Option<Self::Key<'g>>;
    /// True if a key that shares `shared` bytes with those of a terminal, which is a child of a
    /// node of `depth`, has its own place in the terminal.
    fn covers(terminal: Ref, depth: usize, shared: usize) -> bool;
    /// Calls `visit` for the entries of a terminal in `direction`, as they are at one instant.
    /// Those before the bound may be left out.
    fn entries<'g>(
        memory: &'g Memory,
        terminal: Ref,
        from: Bound<Self::Key<'_>>,
        direction: Direction,
        guard: &'g Guard,
        visit: impl FnMut(Self::Key<'g>, Self::Value<'g>) -> ControlFlow<()>,
    ) -> ControlFlow<()>;
    /// Writes the entries of a terminal that a scan is to read, and sets `last` to the last.
    /// Breaks when the scan is complete.
    #[inline]
    fn write_entries<'g>(
        memory: &'g Memory,
        terminal: Ref,
        scan: &Scan<Self::Key<'g>>,
        last: &mut Option<Self::Key<'g>>,
        guard: &'g Guard,
        writer: &mut EntriesWriter<'_, Self>,
    ) -> ControlFlow<()> {
        write_each(memory, terminal, scan, last, guard, writer)
    }

    /// True if a leaf has room for entries, which are at most one more than a leaf may have.
    fn fits(entries: &[(Self::Key<'_>, Self::Value<'_>)]) -> bool;
    /// True if two leaves of entries are better joined.
    fn joins(entries: &[(Self::Key<'_>, Self::Value<'_>)]) -> bool;
    /// Creates a leaf of entries, at least one, that fit, which no other thread knows yet. It must
    /// be linked then, or [discarded](LeafForm::discard_leaf).
    fn create(memory: &Memory, entries: &[(Self::Key<'_>, Self::Value<'_>)]) -> Result<Ref, Error>;
    /// Creates two leaves, or none.
    fn create_two(
        memory: &Memory,
        left: &[(Self::Key<'_>, Self::Value<'_>)],
        right: &[(Self::Key<'_>, Self::Value<'_>)],
    ) -> Result<[Ref; 2], Error>;
    /// Frees a leaf that no other thread knows.
    fn discard_leaf(memory: &Memory, leaf: Ref);
    /// Adds all entries of a leaf, for which there is room.
    fn gather<'g>(memory: &'g Memory, leaf: Ref, guard: &'g Guard, entries: &mut Entries<'g, Self>);
    /// Keeps others from changing a leaf by [`alter_in_leaf`](LeafForm::alter_in_leaf) as long as
    /// it lives, if that is `needed`: see [`latching`](crate::latching). Only under the lock of the
    /// node above.
    fn latch(memory: &Memory, leaf: Ref, needed: bool) -> Self::Latch<'_>;
    /// Changes a key as `decide` says, without the lock of the node above the leaf, if the
    /// [rule](crate::latching::Rule) allows that and the change needs only the leaf. `decide` may
    /// have been called without an effect. `belongs` tells that the walk to the leaf has skipped no
    /// bytes.
    #[inline]
    fn alter_in_leaf<'v>(
        _memory: &Memory,
        _leaf: Ref,
        _key: Self::Key<'_>,
        _belongs: bool,
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
    /// [`insert`](LeafForm::insert).
    fn make_room(
        memory: &Memory,
        leaf: Ref,
        key: Self::Key<'_>,
        value: Self::Value<'_>,
        guard: &Guard,
    ) -> Result<Room, Error>;
    /// Adds an entry where there is room in place.
    fn insert(memory: &Memory, leaf: Ref, key: Self::Key<'_>, value: Self::Value<'_>);
    /// Removes the entry at a place.
    fn remove(memory: &Memory, leaf: Ref, position: usize);
    /// A copy without the entries that have been removed, if they take much of the leaf.
    fn compacted(memory: &Memory, leaf: Ref, guard: &Guard) -> Option<Result<Ref, Error>>;
    /// Marks a leaf as replaced.
    fn kill(memory: &Memory, leaf: Ref);

    /// The byte that a dense node decides on.
    fn last_byte(key: Self::Key<'_>) -> usize;
    /// True if a dense node is the place of a key.
    fn is_in_dense(memory: &Memory, node: Ref, key: Self::Key<'_>) -> bool;
    /// Makes a visit under the lock of a dense node.
    fn visit_in_dense<'v>(
        tree: &Tree<Self>,
        node: Ref,
        key: Self::Key<'_>,
        guard: &Writer<'_, Self>,
        decide: &mut impl FnMut(Option<Self::Value<'_>>) -> Change<Self::Value<'v>>,
    ) -> InNode;
    /// Makes a visit in a dense node that replaces a full one, if one should; returns it.
    fn grow_dense<'v>(
        tree: &Tree<Self>,
        place: &Place,
        node: Inner<'_>,
        key: Self::Key<'_>,
        guard: &Writer<'_, Self>,
        decide: &mut impl FnMut(Option<Self::Value<'_>>) -> Change<Self::Value<'v>>,
    ) -> Result<Option<Ref>, Error>;
    /// A dense node of sorted entries that agree in all bytes before a depth, if they are better
    /// kept in one.
    fn build_dense(
        memory: &Memory,
        depth: usize,
        entries: &[(Self::OwnedKey, Self::OwnedValue)],
    ) -> Result<Option<Ref>, Error>;
    /// True if a dense node has so few entries that it ought not to be.
    fn is_dense_underfull(memory: &Memory, node: Ref) -> bool;
    /// The replacement of an underfull dense node. Under the locks of it and its parent.
    fn smaller_than_dense(memory: &Memory, node: Ref) -> Result<Ref, Error>;

    /// Frees nodes and leaves that were unlinked a grace period ago.
    ///
    /// # Safety
    /// No thread may reach them through the tree, and they are freed only once.
    unsafe fn free_unlinked(memory: &Arc<Memory>, shortcuts: &Tables, unlinked: &[Ref]);
    /// Frees the memory that a leaf keeps outside the leaf region.
    ///
    /// # Safety
    /// No thread may reach the leaf, then or later.
    unsafe fn free_outside(memory: &Memory, leaf: Ref);
}

/// Writes the entries of a terminal that a scan is to read, one by one.
#[inline]
fn write_each<'g, F: LeafForm>(
    memory: &'g Memory,
    terminal: Ref,
    scan: &Scan<F::Key<'g>>,
    last: &mut Option<F::Key<'g>>,
    guard: &'g Guard,
    writer: &mut EntriesWriter<'_, F>,
) -> ControlFlow<()> {
    let (from, direction) = (scan.from, scan.direction);
    F::entries(memory, terminal, from, direction, guard, |key, value| {
        // Entries come in order: none lies before the bound after one that does not.
        if last.is_none() && !scan.is_past(key) {
            return ControlFlow::Continue(());
        }
        if scan.is_behind(key) {
            return ControlFlow::Break(());
        }
        *last = Some(key);
        writer.push(F::shorten_key(key), F::shorten_value(value))?;
        match writer.count() < scan.limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })
}

/// Adds an entry to those of a leaf, or replaces a value.
pub fn put_entry<'e, F: LeafForm>(
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
