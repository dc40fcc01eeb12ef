//! Changes that replace a node: by a larger one if it has no room, or by one that decides on an
//! earlier byte.
//!
//! A key that differs from all keys below a node in a byte that the path skips gets a node that
//! decides on that byte. Nothing else changes:
//!
//! ```text
//!   p ──▶ x          p ──▶ fork ──▶ x
//!                            └────▶ leaf
//! ```

use super::in_node::around;
use super::{Attempt, Decide, LockedAttemptResult};
use crate::build::{copy, discard, kind_for};
use crate::change::RadixKeyChange;
use crate::counters::RadixProbe;
use crate::leaf::{Entries, LeafForm, LockedChangePlace};
use crate::lock::VersionLockGuard;
use crate::node::{ChildByteRange, END, NodeRefKind, RadixInnerNode, Ref, Symbol};
use crate::tree::{Hint, RadixTree, RadixWalkEnd};
use crate::writer::PinnedWriter;
use nearfield_core::OperationError;

impl<F: LeafForm> RadixTree<F> {
    /// Replaces a node without room with a larger one, in which the change is made.
    pub(super) fn grow<'v>(
        &self,
        place: &RadixWalkEnd,
        node: RadixInnerNode<'_>,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<Attempt, OperationError> {
        self.replace(place, guard, probe, || {
            self.enlarged(place, node, key, guard, decide)
        })
    }

    /// Replaces a node without room with a larger one, in which `pieces` replace a range. `linking`
    /// is called before the larger node is linked.
    pub(super) fn grow_with(
        &self,
        place: &RadixWalkEnd,
        range: &ChildByteRange,
        pieces: &[(u8, Ref)],
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        linking: impl FnOnce(),
    ) -> Result<Attempt, OperationError> {
        let node = self.memory.inner(place.node);
        self.replace(place, guard, probe, || {
            if F::becomes_dense(node) {
                return Ok(None);
            }
            let kind = kind_for::<F>(node.header().count() + pieces.len());
            let larger = copy(&self.memory, node, kind)?;
            let inner = self.memory.inner(larger);
            inner.splice(range.start, range.end, pieces);
            inner.header().publish();
            linking();
            Ok(Some(larger))
        })
    }

    /// Replaces the node of a place, whose lock is held, with the result of `make`, if there is
    /// one.
    fn replace(
        &self,
        place: &RadixWalkEnd,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        make: impl FnOnce() -> Result<Option<Ref>, OperationError>,
    ) -> Result<Attempt, OperationError> {
        // The walks of a batch do not remember this parent. A walk from the root does.
        let Some((parent, parent_symbol)) = place.parent else {
            return Ok(Attempt::Restart);
        };
        let above = self.memory.inner(parent);
        // This thread holds the lock of the node below, so it must not wait for one above.
        let Some(held_above) = VersionLockGuard::try_lock(&above.header().lock) else {
            return Ok(Attempt::Restart);
        };
        probe.lock(0);
        // The parent was not locked during the walk.
        if !above.covering(parent_symbol as u8).same(place.node) {
            held_above.unlock_unchanged();
            return Ok(Attempt::Restart);
        }
        match make() {
            Ok(Some(larger)) => {
                debug_assert!(
                    above.header().depth() < place.depth,
                    "depths ascend on a path"
                );
                let edge = self.memory.edge(above.header().depth(), larger);
                self.relink(above, [place.node, edge], Hint::None, guard, || {
                    above.set_covering(parent_symbol as u8, edge);
                });
                Ok(Attempt::Done)
            }
            answer => {
                held_above.unlock_unchanged();
                answer.map(|_| Attempt::Restart)
            }
        }
    }

    /// Returns a larger copy of a node, in which the change has been made; `None` if the change was
    /// not possible.
    fn enlarged<'v>(
        &self,
        place: &RadixWalkEnd,
        node: RadixInnerNode<'_>,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<Option<Ref>, OperationError> {
        if F::becomes_dense(node) {
            return self.dense_instead(node, key, guard, decide).map(Some);
        }
        let kind = match node {
            RadixInnerNode::Node4(_) => NodeRefKind::Node16,
            RadixInnerNode::Node16(_) if F::HAS_NODE48 => NodeRefKind::Node48,
            _ => NodeRefKind::Node256,
        };
        let larger = copy(&self.memory, node, kind)?;
        let spot = LockedChangePlace {
            node: self.memory.inner(larger),
            symbol: place.symbol,
            skipped: false,
        };
        match self.modify_spot(spot, key, guard, decide) {
            Ok(LockedAttemptResult::Done(_)) => {
                spot.node.header().publish();
                Ok(Some(larger))
            }
            other => {
                self.memory.free_node(larger);
                other.map(|_| None)
            }
        }
    }

    /// Returns a dense node with the entries of a full node, in which the change has been made.
    fn dense_instead<'v>(
        &self,
        node: RadixInnerNode<'_>,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<Ref, OperationError> {
        let memory = &self.memory;
        let mut entries = Vec::with_capacity(16 * F::LEAF_ENTRIES_MAX);
        let mut leaves = Vec::with_capacity(16);
        node.for_each(|_, leaf| {
            let latch = self.latch(leaf, guard);
            let mut own = Entries::<F>::new();
            F::gather(memory, leaf, guard, &mut own);
            entries.extend(own);
            leaves.push((leaf, latch));
        });
        let dense = F::create_dense(memory, &entries)?;
        self.modify_in_dense(dense, key, guard, decide);
        // The latches are held until the leaves are marked: a change under a latch alone would be
        // lost.
        for (leaf, _latch) in leaves {
            self.retire_leaf(leaf, guard);
        }
        Ok(dense)
    }

    /// Inserts a key that differs from all keys below a child in a byte that the path to the child
    /// skips. A node that decides on that byte replaces the child.
    pub(super) fn fork<'v>(
        &self,
        place: &RadixWalkEnd,
        node: RadixInnerNode<'_>,
        child: Ref,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        decide: &mut Decide<'_, 'v, F>,
    ) -> Result<Attempt, OperationError> {
        let memory = &self.memory;
        let Some(other) = self.any_key(child, guard) else {
            return Ok(Attempt::Restart);
        };
        let below = match child.kind() {
            NodeRefKind::Dense => 7,
            _ => memory.inner(child).header().depth(),
        };
        let depth = match F::difference(F::shorten_key(key), F::shorten_key(other)) {
            // The key leaves the path above this node. A shorter walk ends there.
            Some(depth) if depth < place.depth => return Ok(Attempt::Leaves(depth)),
            Some(depth) if depth > place.depth && depth < below => depth,
            // The child covers the key by now.
            _ => return Ok(Attempt::Restart),
        };
        let RadixKeyChange::Set(value) = decide(None) else {
            return Ok(Attempt::Done);
        };
        let leaf = F::create(memory, &[(F::shorten_key(key), F::shorten_value(value))])?;
        let fork = match memory.allocate_inner(NodeRefKind::Node4, depth) {
            Ok(fork) => fork,
            Err(error) => {
                discard::<F>(memory, leaf);
                return Err(error);
            }
        };
        let own = F::symbol(key, depth).unwrap_or_default();
        let others = F::symbol(other, depth).unwrap_or_default() as u8;
        debug_assert_ne!(own, Symbol::from(others), "the keys differ in this byte");
        let inner = memory.inner(fork);
        let child = memory.edge(depth, child);
        let beside = |is_own: bool| if is_own { leaf } else { Ref::NULL };
        let (before, behind) = match own {
            END => {
                inner.header().set_end(leaf);
                (Ref::NULL, Ref::NULL)
            }
            own => {
                let own = own as u8;
                (beside(own < others), beside(own > others))
            }
        };
        let pieces = around(inner.range(0), others, child, before, behind);
        inner.splice(0, 255, &pieces);
        // The fork is complete before it is linked, so that its first reader finds both children.
        inner.header().publish();
        let old = place.child;
        self.relink(
            node,
            [old, fork],
            Hint::Below(F::shorten_key(key)),
            guard,
            || {
                node.set_covering(place.symbol as u8, fork);
            },
        );
        guard.count_entries(1);
        Ok(Attempt::Done)
    }
}
