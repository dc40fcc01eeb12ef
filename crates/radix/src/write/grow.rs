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
use super::{Attempt, Decide, Step};
use crate::build::{copy, discard, kind_for};
use crate::change::Change;
use crate::counters::Probe;
use crate::leaf::{Entries, LeafForm, Spot};
use crate::lock::Held;
use crate::node::{END, Inner, Kind, Range, Ref};
use crate::tree::{Hint, Place, Tree};
use crate::writer::Writer;
use nearfield_core::Error;

impl<F: LeafForm> Tree<F> {
    /// Replaces a node without room with a larger one, in which the change is made.
    pub(super) fn grow<'v>(
        &self,
        place: &Place,
        node: Inner<'_>,
        key: F::Key<'_>,
        guard: &Writer<'_, F>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<Attempt, Error> {
        self.replace(place, guard, probe, || {
            self.enlarged(place, node, key, guard, decide)
        })
    }

    /// Replaces a node without room with a larger one, in which `pieces` replace a range. `linking`
    /// is called before the larger node is linked.
    pub(super) fn grow_with(
        &self,
        place: &Place,
        range: &Range,
        pieces: &[(u8, Ref)],
        guard: &Writer<'_, F>,
        probe: &mut impl Probe,
        linking: impl FnOnce(),
    ) -> Result<Attempt, Error> {
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
        place: &Place,
        guard: &Writer<'_, F>,
        probe: &mut impl Probe,
        make: impl FnOnce() -> Result<Option<Ref>, Error>,
    ) -> Result<Attempt, Error> {
        let Some((parent, parent_symbol)) = place.parent else {
            return Ok(Attempt::Restart);
        };
        let above = self.memory.inner(parent);
        let Some(held_above) = Held::try_lock(&above.header().lock) else {
            return Ok(Attempt::Restart);
        };
        probe.lock(0);
        if !above.covering(parent_symbol as u8).same(place.node) {
            held_above.unlock_unchanged();
            return Ok(Attempt::Restart);
        }
        match make() {
            Ok(Some(larger)) => {
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
        place: &Place,
        node: Inner<'_>,
        key: F::Key<'_>,
        guard: &Writer<'_, F>,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<Option<Ref>, Error> {
        if F::becomes_dense(node) {
            return self.dense_instead(node, key, guard, decide).map(Some);
        }
        let kind = match node {
            Inner::Node4(_) => Kind::Node16,
            Inner::Node16(_) if F::HAS_NODE48 => Kind::Node48,
            _ => Kind::Node256,
        };
        let larger = copy(&self.memory, node, kind)?;
        let spot = Spot {
            node: self.memory.inner(larger),
            symbol: place.symbol,
            skipped: false,
        };
        match self.modify_spot(spot, key, guard, decide) {
            Ok(Step::Done(_)) => {
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
        node: Inner<'_>,
        key: F::Key<'_>,
        guard: &Writer<'_, F>,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<Ref, Error> {
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
        for (leaf, _latch) in leaves {
            self.retire_leaf(leaf, guard);
        }
        Ok(dense)
    }

    /// Inserts a key that differs from all keys below a child in a byte that the path to the child
    /// skips. A node that decides on that byte replaces the child.
    pub(super) fn fork<'v>(
        &self,
        place: &Place,
        node: Inner<'_>,
        child: Ref,
        key: F::Key<'_>,
        guard: &Writer<'_, F>,
        decide: &mut Decide<'_, 'v, F>,
    ) -> Result<Attempt, Error> {
        let memory = &self.memory;
        let Some(other) = self.any_key(child, guard) else {
            return Ok(Attempt::Restart);
        };
        let below = match child.kind() {
            Kind::Dense => 7,
            _ => memory.inner(child).header().depth(),
        };
        let depth = match F::difference(F::shorten_key(key), F::shorten_key(other)) {
            Some(depth) if depth < place.depth => return Ok(Attempt::Leaves(depth)),
            Some(depth) if depth > place.depth && depth < below => depth,
            // The child covers the key by now.
            _ => return Ok(Attempt::Restart),
        };
        let Change::Set(value) = decide(None) else {
            return Ok(Attempt::Done);
        };
        let leaf = F::create(memory, &[(F::shorten_key(key), F::shorten_value(value))])?;
        let fork = match memory.allocate_inner(Kind::Node4, depth) {
            Ok(fork) => fork,
            Err(error) => {
                discard::<F>(memory, leaf);
                return Err(error);
            }
        };
        let own = F::symbol(key, depth).unwrap_or_default();
        let others = F::symbol(other, depth).unwrap_or_default() as u8;
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
