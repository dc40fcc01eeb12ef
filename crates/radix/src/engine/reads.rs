//! Batches of gets only, each walking by itself. This simplest case has the shortest path, without
//! a plan.

use super::traverse::{Arrivals, VisitRun, VisitWalk, Visits};
use crate::counters::RadixProbe;
use crate::leaf::LeafForm;
use crate::node::Ref;
use crate::tree::RadixTree;
use crossbeam_epoch::Guard;
use nearfield_core::{BatchInput, BatchOutput, IndexOperation};

/// The gets of a batch, each of them a visit.
#[derive(Clone, Copy, Debug)]
pub struct GetVisits<'b, F: LeafForm>(pub BatchInput<'b, F>);

impl<F: LeafForm> Visits<F> for GetVisits<'_, F> {
    #[inline]
    fn may_lock(self) -> bool {
        false
    }

    #[inline]
    fn count(self) -> usize {
        self.0.operations().len()
    }

    #[inline]
    fn key<'k>(self, visit: usize) -> F::Key<'k>
    where
        Self: 'k,
    {
        match self.0.operations()[visit] {
            IndexOperation::Get { key } => F::shorten_key(self.0.key(key)),
            _ => unreachable!("a batch of gets only"),
        }
    }

    #[inline]
    fn locks_parent(self, _visit: usize) -> bool {
        false
    }
}

/// The executor of gets at the places where their walks have ended. Visits are positions of the
/// batch.
pub struct GetExecutor<'t, 'o, F: LeafForm, P> {
    pub tree: &'t RadixTree<F>,
    pub output: &'t mut BatchOutput<'o, F>,
    pub guard: &'t Guard,
    pub probe: &'t mut P,
}

impl<F: LeafForm, P: RadixProbe> Arrivals<F> for GetExecutor<'_, '_, F, P> {
    type Probe = P;

    #[inline]
    fn probe(&mut self) -> &mut P {
        self.probe
    }

    #[inline]
    fn coming(&mut self, walk: &VisitWalk, key: F::Key<'_>) -> F::Prepared {
        F::prepare(&self.tree.memory, walk.node(), key, false, self.guard)
    }

    #[inline]
    fn single(&mut self, walk: &VisitWalk, key: F::Key<'_>, prepared: F::Prepared) {
        let position = walk.visit() as usize;
        if walk.node().is_null() {
            return self.output.value(position, F::shorten_key(key), None);
        }
        self.probe.leaf();
        let (memory, answer) = (&self.tree.memory, (position, &mut *self.output));
        F::answer(memory, walk.node(), key, prepared, self.guard, answer);
    }

    fn run(&mut self, _run: &VisitRun, _ends: &[Ref]) {
        unreachable!("unsorted gets have no runs")
    }
}
