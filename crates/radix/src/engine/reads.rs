//! Batches of nothing but gets, each walking on its own: the plainest case has the leanest path,
//! without a plan.

use super::traverse::{Arrivals, Run, Walk};
use crate::counters::Probe;
use crate::leaf::{LeafForm, Match};
use crate::node::{Kind, Ref};
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
    fn single(&mut self, walk: &Walk) {
        let key = self.keys[walk.visit as usize];
        let position = walk.visit as usize;
        let found = match walk.node.kind() {
            Kind::Leaf => {
                self.probe.leaf();
                match F::compare(&self.tree.memory, walk.node, key, self.guard) {
                    Match::Equal => Some(F::value_of(&self.tree.memory, walk.node, self.guard)),
                    Match::Different => None,
                    Match::Dead => return self.walk_alone(position),
                }
            }
            Kind::Dense => {
                self.probe.partial_key_match(2);
                let payload = self.tree.find_dense(walk.node, key);
                payload.map(|payload| F::from_words(F::word(key), payload).1)
            }
            _ => None,
        };
        self.output.value(position, F::shorten_key(key), found);
    }

    fn run(&mut self, _run: &Run, _ends: &[Ref]) {
        unreachable!("gets that are not sorted make no runs")
    }
}

impl<F: LeafForm, P: Probe> Reads<'_, '_, '_, F, P> {
    /// Answers a get whose leaf has died meanwhile.
    #[cold]
    fn walk_alone(&mut self, position: usize) {
        let key = self.keys[position];
        let output = &mut *self.output;
        let found = self.tree.find(key, self.guard, self.probe, |value| {
            output.value(position, F::shorten_key(key), Some(value));
        });
        if found.is_none() {
            output.value(position, F::shorten_key(key), None);
        }
    }
}
