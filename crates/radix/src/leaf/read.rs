//! Reads of leaves and dense nodes.

use super::Symbols;
use crate::memory::RadixMemory;
use crate::node::{RadixInnerNode, RadixSortedNode, Ref, Symbol};
use crossbeam_epoch::Guard;
use nearfield_core::{BatchOutput, EntriesWriter, ScanDirection};
use std::ops::{Bound, ControlFlow};

/// The result of a lookup in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RadixLeafLookup<V> {
    /// The key is there, with this value.
    Found(V),
    /// The key is not there, only others.
    Absent,
    /// The leaf has been unlinked and proves nothing: the walk must restart.
    Dead,
}

/// The range of a scan in a batch.
#[derive(Clone, Copy, Debug)]
pub struct RadixScanRange<K> {
    pub from: Bound<K>,
    pub to: Bound<K>,
    pub direction: ScanDirection,
    pub limit: usize,
}

impl<K: Ord + Copy> RadixScanRange<K> {
    /// Returns true if a key is after the far bound.
    #[inline]
    pub fn is_behind(&self, key: K) -> bool {
        match (self.to, self.direction) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(to), ScanDirection::Ascending) => key > to,
            (Bound::Excluded(to), ScanDirection::Ascending) => key >= to,
            (Bound::Included(to), ScanDirection::Descending) => key < to,
            (Bound::Excluded(to), ScanDirection::Descending) => key <= to,
        }
    }

    /// Returns true if a key is not before the near bound.
    #[inline]
    pub fn is_past(&self, key: K) -> bool {
        self.is_past_bound(self.from, key)
    }

    /// Returns true if a key is after the last one that was read. If none was read, returns true if
    /// it is not before the near bound.
    #[inline]
    pub fn is_next(&self, last: Option<K>, key: K) -> bool {
        // Entries of one terminal are in order. Those of the next may not be: a dead block shows
        // its former entries, and the block before it may have been read after it had taken over
        // the range. That block then had all entries that have been in the range since the scan
        // began, so those of the dead block are skipped.
        self.is_past_bound(last.map_or(self.from, Bound::Excluded), key)
    }

    #[inline]
    fn is_past_bound(&self, from: Bound<K>, key: K) -> bool {
        match (from, self.direction) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(from), ScanDirection::Ascending) => key >= from,
            (Bound::Excluded(from), ScanDirection::Ascending) => key > from,
            (Bound::Included(from), ScanDirection::Descending) => key <= from,
            (Bound::Excluded(from), ScanDirection::Descending) => key < from,
        }
    }
}

/// Operations that read terminals.
///
/// A *terminal* is a leaf or a dense node. If a method takes a terminal and a guard, the terminal
/// must have been read from the tree, or from the shortcut table, under that guard, which keeps it
/// from being freed.
pub trait ReadLeaf: Symbols {
    /// The distance from a leaf's first line to a second one that a lookup reads; 0 if there is
    /// none.
    const LEAF_SECOND_LINE: usize;
    /// The approximate number of lines that a scan reads of a leaf.
    const LEAF_LINES: usize;
    /// The result of [`prepare`](ReadLeaf::prepare); by default empty.
    type Prepared: Copy + Default;
    /// The value that a lookup has found: lent, or copied because it may change in place.
    type Found<'g>;
    /// True if the nodes at one level are often of several kinds.
    const MIXES_KINDS: bool;

    /// Borrows the value that was found.
    fn found<'f>(found: &'f Self::Found<'_>) -> Self::Value<'f>;
    /// Returns the child for a symbol. Validate it by the version, unless under the lock or for a
    /// node256.
    fn child(node: RadixInnerNode<'_>, symbol: Symbol) -> Ref;
    /// Returns the child like [`child`](ReadLeaf::child), for a known kind.
    fn child_of_small<N: RadixSortedNode>(node: &N, symbol: Symbol) -> Ref;
    /// Returns the number of entries that a subtree is expected to hold, by the tag of its top.
    fn entries_expected(tag: usize) -> usize;

    /// Finds a key in a terminal that was read from the tree.
    fn lookup<'g>(
        memory: &'g RadixMemory,
        terminal: Ref,
        key: Self::Key<'_>,
        prepared: Self::Prepared,
        guard: &'g Guard,
    ) -> Option<Self::Found<'g>>;
    /// Finds a key like [`lookup`](ReadLeaf::lookup), in a terminal that some earlier walk has
    /// reached, and that may have been unlinked since. `Absent` does not prove that the key is
    /// absent now.
    fn lookup_again<'g>(
        memory: &'g RadixMemory,
        terminal: Ref,
        key: Self::Key<'_>,
        prepared: Self::Prepared,
        guard: &'g Guard,
    ) -> RadixLeafLookup<Self::Found<'g>>;
    /// Finds a key like [`lookup_again`](ReadLeaf::lookup_again), and writes the outcome of the get
    /// at a position. The outcome of a dead leaf is that of its last state.
    fn answer(
        memory: &RadixMemory,
        terminal: Ref,
        key: Self::Key<'_>,
        prepared: Self::Prepared,
        guard: &Guard,
        at: (usize, &mut BatchOutput<'_, Self>),
    ) -> RadixLeafLookup<()>;
    /// Prefetches the lines of a terminal that a lookup, or a write, reads besides its first ones,
    /// which have already been prefetched. The result serves lookups of the same key in this
    /// terminal.
    fn prepare(
        memory: &RadixMemory,
        terminal: Ref,
        key: Self::Key<'_>,
        writes: bool,
        guard: &Guard,
    ) -> Self::Prepared;
    /// Returns some key of a terminal; `None` if it is dead or empty.
    fn any_key<'g>(
        memory: &'g RadixMemory,
        terminal: Ref,
        guard: &'g Guard,
    ) -> Option<Self::Key<'g>>;
    /// Returns true if a key that shares `shared` bytes with those of a terminal, which is a child
    /// of a node of `depth`, belongs in the terminal.
    fn covers(terminal: Ref, depth: usize, shared: usize) -> bool;
    /// Calls `visit` for the entries of a terminal in `direction`, as of one instant. Those before
    /// the bound may be skipped.
    fn entries<'g>(
        memory: &'g RadixMemory,
        terminal: Ref,
        from: Bound<Self::Key<'_>>,
        direction: ScanDirection,
        guard: &'g Guard,
        visit: impl FnMut(Self::Key<'g>, Self::Value<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()>;
    /// Writes the entries of a terminal that are in the range of a scan, and sets `last` to the
    /// last one. Breaks when the scan is complete.
    #[inline]
    fn write_entries<'g>(
        memory: &'g RadixMemory,
        terminal: Ref,
        scan: &RadixScanRange<Self::Key<'g>>,
        last: &mut Option<Self::Key<'g>>,
        guard: &'g Guard,
        writer: &mut EntriesWriter<'_, Self>,
    ) -> ControlFlow<()> {
        write_each(memory, terminal, scan, last, guard, writer)
    }
}

/// Writes the entries of a terminal that are in the range of a scan, one by one.
#[inline]
pub(super) fn write_each<'g, F: ReadLeaf>(
    memory: &'g RadixMemory,
    terminal: Ref,
    scan: &RadixScanRange<F::Key<'g>>,
    last: &mut Option<F::Key<'g>>,
    guard: &'g Guard,
    writer: &mut EntriesWriter<'_, F>,
) -> ControlFlow<()> {
    let (from, direction) = (scan.from, scan.direction);
    let mut is_first = true;
    F::entries(memory, terminal, from, direction, guard, |key, value| {
        if is_first && !scan.is_next(*last, key) {
            return ControlFlow::Continue(());
        }
        is_first = false;
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
