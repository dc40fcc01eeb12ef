//! Batches of gets alone, each walking by itself: this simplest case has the shortest path, without
//! a plan.

use super::traverse::{Arrivals, Run, Walk};
use crate::counters::Probe;
use crate::leaf::LeafForm;
use crate::node::Ref;
use crate::tree::Tree;
use crossbeam_epoch::Guard;
use nearfield_core::Output;

/// Answers gets at the places where their walks have ended. Visits are positions of the batch.
pub struct Reads<'t, 'b, 'o, F: LeafForm, P> {
    pub tree: &'t Tree<F>,
    pub keys: &'t [F::Key<'b>],
    pub output: &'t mut Output<'o, F>,
    pub guard: &'t Guard,
    pub probe: &'t mut P,
}

impl<F: LeafForm, P: Probe> Arrivals for Reads<'_, '_, '_, F, P> {
    type Probe = P;

    #[inline]
    fn probe(&mut self) -> &mut P {
        self.probe
    }

    #[inline]
    fn coming(&mut self, walk: &Walk) {
        if !F::PREPARES {
            return;
        }
        let key = self.keys[walk.visit() as usize];
        F::prepare(&self.tree.memory, walk.node(), key, self.guard);
    }

    #[inline]
    fn single(&mut self, walk: &Walk) {
        let key = self.keys[walk.visit() as usize];
        let position = walk.visit() as usize;
        let found = if walk.node().is_null() {
            None
        } else {
            self.probe.leaf();
            F::lookup(&self.tree.memory, walk.node(), key, self.guard)
        };
        self.output.value(position, F::shorten_key(key), found);
    }

    fn run(&mut self, _run: &Run, _ends: &[Ref]) {
        unreachable!("gets that are not sorted make no runs")
    }
}
