//! Leaves, and what the two forms of a map do differently with them.
//!
//! *Bytes*: a leaf is a [record] of one key and its value. It hangs at the depth where
//! its key is unique, at a child of its own; see [`records`](crate::records) for its changes.
//!
//! *Words*: a leaf is a [block] of up to seven keys and payloads, which covers the
//! neighbouring symbols of a node whose keys it has room for; see [`blocks`](crate::blocks).
//!
//! Either way a look-up ends by comparing whole keys, which also makes up for the bytes that
//! paths skip.

pub mod block;
pub mod record;
pub mod word;

use crate::bulk::{Packed, Subtree};
use crate::counters::Probe;
use crate::memory::Memory;
use crate::node::{Inner, Ref, Sorted, Symbol};
use crate::shortcut::Tables;
use crate::tree::{Attempt, Change, InNode, Place, Tree};
use crate::writer::Writer;
use crossbeam_epoch::Guard;
use nearfield_core::{Direction, Error, Form};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// What a look-up in a leaf has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<V> {
    /// The key, with this value.
    Found(V),
    /// Other keys than the key.
    Absent,
    /// A leaf that has been unlinked and does not tell: the walk has to begin anew.
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

/// How a [`Form`] is stored in the tree.
///
/// A *terminal* is a leaf or a dense node. Where a method takes one and a guard, it must have
/// been read from the tree, or from the shortcut table, under that guard, which keeps it from
/// being freed.
pub trait LeafForm: Form {
    /// Bytes of the unit in which leaves are allocated.
    const LEAF_UNIT_BYTES: usize;
    /// Units of the largest leaf.
    const LEAF_UNITS_MAX: usize;
    /// The distance from a leaf's first line of a second one that a look-up reads; 0 for none.
    const LEAF_SECOND_LINE: usize;

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
    /// Where the range of the child for a symbol starts. Under the lock, or to be validated.
    fn range_start(node: Inner<'_>, symbol: Symbol) -> Symbol;
    /// Exchanges an inner or dense child for another child, or for nothing. Under the lock.
    fn exchange(node: Inner<'_>, symbol: Symbol, child: Ref);
    /// Entries that a subtree is expected to hold, by the tag of its top.
    fn entries_expected(tag: usize) -> usize;

    /// The byte that a dense node decides on.
    fn last_byte(key: Self::Key<'_>) -> usize;
    /// Finds a key in a terminal that was read from the tree.
    fn lookup<'g>(
        memory: &'g Memory,
        terminal: Ref,
        key: Self::Key<'_>,
        guard: &'g Guard,
    ) -> Lookup<Self::Value<'g>>;
    /// As [`lookup`](LeafForm::lookup) in a terminal that some earlier walk has come to, which
    /// may have been unlinked since. `Absent` does not say that the key is absent now.
    fn lookup_again<'g>(
        memory: &'g Memory,
        terminal: Ref,
        key: Self::Key<'_>,
        guard: &'g Guard,
    ) -> Lookup<Self::Value<'g>>;
    /// Some key of a terminal; `None` if it is dead or empty.
    fn any_key<'g>(memory: &'g Memory, terminal: Ref, guard: &'g Guard) -> Option<Self::Key<'g>>;
    /// True if a key that shares `shared` bytes with those of a terminal, which hangs at a node
    /// of `depth`, has its own place in the terminal.
    fn covers(terminal: Ref, depth: usize, shared: usize) -> bool;
    /// Calls `visit` for the entries of a terminal in `direction` from the bound on, as they are
    /// at one instant; `None` if it is dead.
    fn entries<'g>(
        memory: &'g Memory,
        terminal: Ref,
        from: Bound<Self::Key<'_>>,
        direction: Direction,
        guard: &'g Guard,
        visit: impl FnMut(Self::Key<'g>, Self::Value<'g>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>>;

    /// Makes a visit to a key whose walk has ended at a place: one attempt.
    fn visit_at<'v>(
        tree: &Tree<Self>,
        place: &Place,
        key: Self::Key<'_>,
        guard: &Writer<'_, Self>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<Self::Value<'_>>) -> Change<Self::Value<'v>>,
    ) -> Result<Attempt, Error>;
    /// Makes a visit under the lock of a node, unless it changes more than that node.
    fn visit_in_node<'v>(
        tree: &Tree<Self>,
        spot: Spot<'_>,
        key: Self::Key<'_>,
        guard: &Writer<'_, Self>,
        decide: &mut impl FnMut(Option<Self::Value<'_>>) -> Change<Self::Value<'v>>,
    ) -> InNode;
    /// Makes a visit under the lock of a dense node.
    fn visit_in_dense<'v>(
        tree: &Tree<Self>,
        node: Ref,
        key: Self::Key<'_>,
        guard: &Writer<'_, Self>,
        decide: &mut impl FnMut(Option<Self::Value<'_>>) -> Change<Self::Value<'v>>,
    ) -> InNode;

    /// True if an inner or dense node has so few entries that it ought to be of a smaller kind,
    /// or not be at all.
    fn is_underfull(memory: &Memory, node: Ref) -> bool;
    /// What is to stand in place of an underfull node. Under the locks of it and its parent.
    fn smaller(tree: &Tree<Self>, node: Ref) -> Result<Ref, Error>;

    /// What stands for an entry of sorted input, the last so far.
    fn begin(
        memory: &Memory,
        key: Self::Key<'_>,
        value: Self::Value<'_>,
        pending: &mut Vec<(u64, u64)>,
    ) -> Result<Subtree, Error>;
    /// What a node of a depth is to hold for its children in sorted input, or what is to stand
    /// in its place.
    fn pack(
        memory: &Memory,
        depth: usize,
        children: &[(Symbol, Subtree)],
        pending: &mut Vec<(u64, u64)>,
    ) -> Result<Packed, Error>;
    /// Fills a node, which nobody else can reach, with what `pack` has answered.
    fn fill(node: Inner<'_>, children: &[(Symbol, Ref)]);

    /// Frees nodes and leaves that were unlinked a grace period ago.
    ///
    /// # Safety
    /// No thread may reach them through the tree, and they are freed only once.
    unsafe fn free_unlinked(memory: &Arc<Memory>, shortcuts: &Tables, unlinked: &[Ref]);
    /// Frees what a leaf keeps outside the leaf region.
    ///
    /// # Safety
    /// No thread may reach the leaf, then or later.
    unsafe fn free_outside(memory: &Memory, leaf: Ref);
}
