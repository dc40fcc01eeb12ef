//! A radix tree whose nodes are never locked. [SMART](super::smart) and [Heart](super::heart) are
//! of this kind.
//!
//! A slot is a word with a byte of the key, the kind of the child and its address, so that one swap
//! changes all three. A new key takes a slot for its byte, or inserts a node in place of a leaf, or
//! above a node with a prefix. If a node has no slot for a byte, its slots are frozen, which
//! excludes swaps, and copied. The copy replaces the node in its parent or, if slots are stored
//! *apart* from the node, the slots in the node. Writers that encounter a frozen slot also make the
//! copy, and the first swap counts. Nodes that have lost their entries stay.
//!
//! # Linearizability
//!
//! - A byte has one slot of a node, and a slot its byte, until the slots are replaced: writers take
//!   the first unused one. A slot changes only by swaps, and not after it was frozen.
//! - Frozen slots show the tree's state up to the instant when they are replaced; a thread that
//!   reads them later encountered them before that instant. A node always covers the keys with its
//!   first bytes, even if nodes are inserted above.
//! - A swap sets each value, with a new leaf. Alternatively, values that are words are written *in
//!   place*; then operations on one key must exclude each other.

mod change;
mod check;
mod node;
mod slot;
mod walk;

use super::design::RivalDesign;
use super::entries::EntryCount;
use super::leaf::{RivalForm, RivalLeaf};
use super::scan;
use crossbeam_epoch::Guard;
use nearfield_core::ScanDirection;
use nearfield_radix::{RadixKeyChange, RadixProbe};
use node::{SwapNode, SwapNodeSize};
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

/// The tree; see the [module](self).
#[derive(Debug)]
pub struct SwapTree<F: RivalForm, const APART: bool, const IN_PLACE: bool> {
    /// The root, which has 256 slots and is never replaced.
    root: SwapNode<'static, APART>,
    pub entries: EntryCount,
    form: PhantomData<F>,
}

// SAFETY: nodes consist of atomics and of fields that never change; those below the root belong to
// the tree. Leaves hold only bytes.
unsafe impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> Send
    for SwapTree<F, APART, IN_PLACE>
{
}
// SAFETY: as above.
unsafe impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> Sync
    for SwapTree<F, APART, IN_PLACE>
{
}

impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> Default
    for SwapTree<F, APART, IN_PLACE>
{
    fn default() -> Self {
        SwapTree {
            root: SwapNode::new(SwapNodeSize::S256, 0, &[]),
            entries: EntryCount::default(),
            form: PhantomData,
        }
    }
}

impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> RivalDesign<F>
    for SwapTree<F, APART, IN_PLACE>
{
    #[inline]
    fn read<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        let key = F::bytes(key);
        let leaf = self.find(key.as_ref(), guard, probe)?;
        Some(read(leaf.value()))
    }

    fn modify<'v>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>> + Send),
    ) {
        self.change(F::bytes(key).as_ref(), guard, probe, decide);
    }

    fn scan<'g>(
        &'g self,
        from: Bound<&'g [u8]>,
        direction: ScanDirection,
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
        visit: impl FnMut(RivalLeaf<'g, F>) -> ControlFlow<()>,
    ) {
        scan::scan(self, from, direction, guard, probe, visit);
    }

    fn entries(&self) -> usize {
        self.entries.sum()
    }

    fn check_invariants(&self) {
        self.check();
    }
}
