//! Batches of point operations only, each walking by itself and executed in the batch's order.
//! Visits are positions of the batch, and there is no plan.
//!
//! Walks begin before earlier operations have been executed. An operation therefore checks that the
//! end of its walk is still valid. A leaf that has been replaced, by any thread, is obsolete before
//! its replacement changes. A key is absent only if the walk would end at the same place now.

use super::traverse::{Arrivals, VisitRun, VisitWalk, Visits};
use super::trigger::{fold_at, is_current};
use crate::change::RadixKeyChange;
use crate::counters::RadixProbe;
use crate::leaf::{LeafForm, LeafWalkContext, RadixLeafLookup};
use crate::node::Ref;
use crate::tree::{RadixTree, RadixWalkEnd};
use crate::writer::PinnedWriter;
use nearfield_core::{BatchInput, BatchOutput, IndexOperation};

/// The operations of a batch, each of them a visit.
#[derive(Clone, Copy, Debug)]
pub struct Operations<'b, F: LeafForm> {
    pub input: BatchInput<'b, F>,
    /// The position of the first operation that has not been executed.
    pub first: usize,
    /// True if writes are expected to need the lock of the node above the leaf.
    pub lock_parents: bool,
}

impl<F: LeafForm> Visits<F> for Operations<'_, F> {
    #[inline]
    fn may_lock(self) -> bool {
        self.lock_parents
    }

    #[inline]
    fn first(self) -> usize {
        self.first
    }

    #[inline]
    fn count(self) -> usize {
        self.input.operations().len()
    }

    #[inline]
    fn key<'k>(self, visit: usize) -> F::Key<'k>
    where
        Self: 'k,
    {
        match self.input.operations()[visit].point_key() {
            Some(key) => F::shorten_key(self.input.key(key)),
            None => unreachable!("a batch of point operations only"),
        }
    }

    #[inline]
    fn locks_parent(self, visit: usize) -> bool {
        self.input.operations()[visit].is_write()
    }
}

/// The executor of operations at the places where their walks have ended.
pub struct InOrder<'t, 'b, 'o, F: LeafForm, P> {
    pub tree: &'t RadixTree<F>,
    pub input: BatchInput<'b, F>,
    pub output: &'t mut BatchOutput<'o, F>,
    pub guard: &'t PinnedWriter<'t, F>,
    pub probe: &'t mut P,
    /// Number of operations that have locked a node above a leaf.
    pub parents_locked: usize,
}

impl<F: LeafForm, P: RadixProbe> Arrivals<F> for InOrder<'_, '_, '_, F, P> {
    type Probe = P;

    #[inline]
    fn probe(&mut self) -> &mut P {
        self.probe
    }

    #[inline]
    fn coming(&mut self, walk: &VisitWalk, key: F::Key<'_>) -> F::Prepared {
        let writes = self.input.operations()[walk.visit() as usize].is_write();
        F::prepare(&self.tree.memory, walk.node(), key, writes, self.guard)
    }

    #[inline]
    fn single(&mut self, walk: &VisitWalk, key: F::Key<'_>, prepared: F::Prepared) {
        match self.input.operations()[walk.visit() as usize] {
            IndexOperation::Get { .. } => self.get(walk, key, prepared),
            IndexOperation::Insert { value, .. } => {
                self.insert(walk, key, self.input.value(value), prepared);
            }
            IndexOperation::Update { .. } => self.update(walk, key, prepared),
            IndexOperation::Remove { .. } | IndexOperation::RemoveIf { .. } => {
                self.write(walk, key)
            }
            _ => unreachable!("a batch of point operations only"),
        }
    }

    fn run(&mut self, _run: &VisitRun, _ends: &[Ref]) {
        unreachable!("unsorted visits have no runs")
    }
}

/// Returns the knowledge that a walk has gained.
#[inline]
fn known<F: LeafForm>(walk: &VisitWalk, prepared: F::Prepared) -> LeafWalkContext<F::Prepared> {
    LeafWalkContext {
        skipped: walk.skipped(),
        parent: walk.parent(),
        depth: walk.depth().saturating_sub(1),
        prepared,
    }
}

impl<F: LeafForm, P: RadixProbe> InOrder<'_, '_, '_, F, P> {
    #[inline]
    fn get(&mut self, walk: &VisitWalk, key: F::Key<'_>, prepared: F::Prepared) {
        let position = walk.visit() as usize;
        let found = if walk.node().is_null() {
            self.output.value(position, F::shorten_key(key), None);
            RadixLeafLookup::Absent
        } else {
            self.probe.leaf();
            let (memory, answer) = (&self.tree.memory, (position, &mut *self.output));
            F::answer(memory, walk.node(), key, prepared, self.guard, answer)
        };
        match found {
            RadixLeafLookup::Found(()) => {}
            RadixLeafLookup::Absent if is_current(self.tree, walk, key) => {}
            _ => self.get_from_root(position, key),
        }
    }

    #[cold]
    fn get_from_root(&mut self, position: usize, key: F::Key<'_>) {
        let output = &mut *self.output;
        let found = self.tree.find(key, self.guard, self.probe, |value| {
            output.value(position, F::shorten_key(key), Some(value));
        });
        if found.is_none() {
            output.value(position, F::shorten_key(key), None);
        }
    }

    /// Executes an insert. Most inserts of many batches find their key. Without the generality of
    /// `write`, such an insert takes hardly longer than a get.
    #[inline]
    fn insert(
        &mut self,
        walk: &VisitWalk,
        key: F::Key<'_>,
        value: F::Value<'_>,
        prepared: F::Prepared,
    ) {
        let output = &mut *self.output;
        let mut decide = |before: Option<F::Value<'_>>| {
            output.replaced(walk.visit() as usize, F::shorten_key(key), before);
            RadixKeyChange::Set(F::shorten_value(value))
        };
        let (tree, guard) = (self.tree, self.guard);
        let known = known::<F>(walk, prepared);
        if !tree.alter_in_leaf(walk.node(), known, key, guard, self.probe, &mut decide) {
            self.write(walk, key);
        }
    }

    fn update(&mut self, walk: &VisitWalk, key: F::Key<'_>, prepared: F::Prepared) {
        let (input, output) = (&self.input, &mut *self.output);
        let positions = [walk.visit()];
        let mut decide =
            |current: Option<F::Value<'_>>| fold_at(input, &positions, output, current);
        let (tree, guard) = (self.tree, self.guard);
        let known = known::<F>(walk, prepared);
        if !tree.alter_in_leaf(walk.node(), known, key, guard, self.probe, &mut decide) {
            self.write(walk, key);
        }
    }

    /// Executes a write that needs the lock of a node, beginning at the place where its walk has
    /// ended.
    #[inline(never)]
    fn write(&mut self, walk: &VisitWalk, key: F::Key<'_>) {
        // The share of such operations decides if the next batch prefetches the locks.
        self.parents_locked += 1;
        let positions = [walk.visit()];
        let depth = walk.depth().saturating_sub(1);
        let (input, output) = (&self.input, &mut *self.output);
        let mut decide =
            |current: Option<F::Value<'_>>| fold_at(input, &positions, output, current);
        let symbol = F::symbol(key, depth).filter(|_| !walk.parent().is_null());
        let result = match symbol {
            Some(symbol) => {
                let place = RadixWalkEnd {
                    node: walk.parent(),
                    depth,
                    symbol,
                    child: walk.node(),
                    parent: None,
                    skipped: walk.skipped(),
                };
                self.tree
                    .modify_below_lock(&place, key, self.guard, self.probe, &mut decide)
            }
            None => self.tree.modify(key, self.guard, self.probe, &mut decide),
        };
        if let Err(error) = result {
            self.output.fail(walk.visit() as usize, error);
        }
    }
}
