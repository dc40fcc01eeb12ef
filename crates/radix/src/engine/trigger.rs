//! *Trigger*: the operations of a visit are executed one after the other on the value that the
//! walk has found, and what is left of them is one change at most.

use super::combine::{Plan, Visit};
use super::traverse::{Arrivals, Run, Walk};
use crate::counters::Probe;
use crate::leaf::{LeafForm, Match};
use crate::lock::Held;
use crate::node::{Inner, Kind, Ref};
use crate::shortcut::Shortcuts;
use crate::shrink::DENSE_MIN;
use crate::tree::{Change, Place, Tree};
use crossbeam_epoch::Guard;
use nearfield_core::{Error, Input, Operation, Output};

/// Executes visits at the places where their walks have ended.
pub struct Trigger<'t, 'b, 'o, F: LeafForm, P> {
    pub tree: &'t Tree<F>,
    pub keys: &'t [F::Key<'b>],
    pub plan: &'t Plan,
    pub input: Input<'b, F>,
    pub output: &'t mut Output<'o, F>,
    pub guard: &'t Guard,
    pub probe: &'t mut P,
    /// Where hot keys are offered, if anywhere.
    pub shortcuts: Option<&'t Shortcuts>,
    /// Visits that have to be made by a walk of their own; empty between rounds.
    pub postponed: Vec<u32>,
}

impl<F: LeafForm, P: Probe> Arrivals for Trigger<'_, '_, '_, F, P> {
    type Probe = P;

    #[inline]
    fn probe(&mut self) -> &mut P {
        self.probe
    }

    #[inline]
    fn single(&mut self, walk: &Walk) {
        let visit = self.plan.visits[walk.visit as usize];
        if visit.writes {
            self.write_single(walk, visit);
        } else {
            self.read_single(walk, visit);
        }
    }

    fn run(&mut self, run: &Run, ends: &[Ref]) {
        let visits =
            (run.first..run.first + run.count).filter(|&visit| ends[visit as usize] == run.node);
        if run.node.kind() == Kind::Dense {
            self.run_dense(run, visits);
        } else {
            self.run_inner(run.node, run.skipped, visits);
        }
        while let Some(visit) = self.postponed.pop() {
            self.visit_from_root(visit);
        }
    }
}

impl<F: LeafForm, P: Probe> Trigger<'_, '_, '_, F, P> {
    /// Answers a visit that only reads.
    #[inline]
    fn read_single(&mut self, walk: &Walk, visit: Visit) {
        let key = self.keys[walk.visit as usize];
        let found = match walk.node.kind() {
            Kind::Leaf => {
                self.probe.leaf();
                match F::compare(&self.tree.memory, walk.node, key, self.guard) {
                    Match::Equal => {
                        self.offer(walk.visit, walk.node, walk.parent);
                        Some(F::value_of(&self.tree.memory, walk.node, self.guard))
                    }
                    Match::Different => None,
                    Match::Dead => return self.visit_from_root(walk.visit),
                }
            }
            Kind::Dense => {
                self.probe.partial_key_match(2);
                let payload = self.tree.find_dense(walk.node, key);
                payload.map(|payload| F::from_words(F::word(key), payload).1)
            }
            _ => None,
        };
        self.answer(walk.visit as usize, visit, found);
    }

    /// Answers a visit that only reads with the value of its key.
    #[inline]
    pub fn answer(&mut self, number: usize, visit: Visit, found: Option<F::Value<'_>>) {
        if visit.count == 1 {
            let position = self.plan.order[visit.first as usize] as usize;
            self.output
                .value(position, F::shorten_key(self.keys[number]), found);
        } else {
            self.probe.duplicates(u64::from(visit.count) - 1);
            fold(&self.input, self.plan, visit, self.output, found);
        }
    }

    /// Executes a visit that may write, beginning at the place where its walk has ended.
    fn write_single(&mut self, walk: &Walk, visit: Visit) {
        let key = self.keys[walk.visit as usize];
        let depth = walk.depth().saturating_sub(1);
        let Some(symbol) = F::symbol(key, depth).filter(|_| !walk.parent.is_null()) else {
            return self.visit_from_root(walk.visit);
        };
        let place = Place {
            node: walk.parent,
            depth,
            symbol,
            child: walk.node,
            parent: None,
            skipped: walk.skipped(),
        };
        self.execute(walk.visit, visit, Some(place));
        self.offer_below(walk.visit, walk.parent, symbol);
    }

    /// Executes all visits, one after the other.
    pub fn visit_all_from_root(&mut self) {
        for number in 0..self.plan.visits.len() {
            let visit = self.plan.visits[number];
            if visit.writes {
                self.visit_from_root(number as u32);
            } else {
                self.read_from_root(number, visit);
            }
        }
    }

    fn read_from_root(&mut self, number: usize, visit: Visit) {
        let key = self.keys[number];
        let (input, plan) = (&self.input, self.plan);
        let output = &mut *self.output;
        let found = self.tree.find(key, self.guard, self.probe, |value| {
            fold(input, plan, visit, output, Some(value));
        });
        if found.is_none() {
            fold(input, plan, visit, output, None);
        }
    }

    /// Executes a visit by a walk of its own.
    fn visit_from_root(&mut self, visit: u32) {
        self.execute(visit, self.plan.visits[visit as usize], None);
    }

    fn execute(&mut self, number: u32, visit: Visit, place: Option<Place>) {
        let key = self.keys[number as usize];
        let (input, plan) = (&self.input, self.plan);
        let output = &mut *self.output;
        let mut decide = |current: Option<F::Value<'_>>| fold(input, plan, visit, output, current);
        let result = match place {
            Some(place) => self
                .tree
                .visit_from(place, key, self.guard, self.probe, &mut decide),
            None => self.tree.visit(key, self.guard, self.probe, &mut decide),
        };
        self.probe.duplicates(u64::from(visit.count) - 1);
        if let Err(error) = result {
            self.fail(number, visit, error);
        }
    }

    /// Executes the operations of a visit that failed as a whole one by one, so that those
    /// succeed that can.
    fn fail(&mut self, number: u32, visit: Visit, error: Error) {
        if visit.count == 1 {
            let position = self.plan.order[visit.first as usize];
            return self.output.fail(position as usize, error);
        }
        for first in visit.first..visit.first + visit.count {
            let single = Visit {
                first,
                count: 1,
                ..visit
            };
            self.execute(number, single, None);
        }
    }

    /// Executes visits of one dense node under its lock.
    fn run_dense(&mut self, run: &Run, visits: impl Iterator<Item = u32>) {
        let dense = self.tree.memory.dense(run.node);
        let Ok((held, waits)) = Held::lock(&dense.header().lock) else {
            self.postponed.extend(visits);
            return;
        };
        self.probe.lock(waits);
        let mut changed = false;
        let mut last = None;
        for number in visits {
            let key = self.keys[number as usize];
            if dense.base() != F::word(key) >> 8 {
                self.postponed.push(number);
                continue;
            }
            let visit = self.plan.visits[number as usize];
            self.probe.duplicates(u64::from(visit.count) - 1);
            let (input, plan) = (&self.input, self.plan);
            let output = &mut *self.output;
            let mut decide =
                |current: Option<F::Value<'_>>| fold(input, plan, visit, output, current);
            changed |= self.tree.visit_dense_held(run.node, key, &mut decide);
            last = Some(key);
        }
        let underfull = dense.header().count() <= DENSE_MIN;
        if !changed {
            return held.unlock_unchanged();
        }
        drop(held);
        if let (true, Some(key)) = (underfull, last) {
            self.tree.tidy(key, self.guard, self.probe);
        }
    }

    /// Executes visits of one inner node under its lock. Those that change more than the node
    /// itself are postponed.
    pub fn run_inner(&mut self, parent: Ref, skipped: bool, visits: impl Iterator<Item = u32>) {
        let node = self.tree.memory.inner(parent);
        let Ok((held, waits)) = Held::lock(&node.header().lock) else {
            self.postponed.extend(visits);
            return;
        };
        self.probe.lock(waits);
        let (mut changed, mut shrunk) = (false, None);
        for number in visits {
            match self.visit_in_node((parent, node), skipped, number) {
                InNode::Unchanged => {}
                InNode::Changed => changed = true,
                InNode::Removed => {
                    changed = true;
                    shrunk = Some(number);
                }
                InNode::Postponed => self.postponed.push(number),
            }
        }
        let underfull = node.is_underfull();
        if !changed {
            return held.unlock_unchanged();
        }
        drop(held);
        if let (true, Some(number)) = (underfull, shrunk) {
            self.tree
                .tidy(self.keys[number as usize], self.guard, self.probe);
        }
    }

    fn visit_in_node(
        &mut self,
        (parent, node): (Ref, Inner<'_>),
        skipped: bool,
        number: u32,
    ) -> InNode {
        let memory = &self.tree.memory;
        let key = self.keys[number as usize];
        let visit = self.plan.visits[number as usize];
        let Some(symbol) = F::symbol(key, node.header().depth()) else {
            return InNode::Postponed;
        };
        let child = node.find(symbol);
        let current = match child.kind() {
            Kind::Nothing if !(skipped || node.is_full() && symbol < 256) => None,
            Kind::Leaf => {
                self.probe.leaf();
                if F::compare(memory, child, key, self.guard) != Match::Equal {
                    return InNode::Postponed;
                }
                Some(F::value_of(memory, child, self.guard))
            }
            _ => return InNode::Postponed,
        };
        let present = current.is_some();
        let change = fold(&self.input, self.plan, visit, self.output, current);
        let done = match change {
            Change::Keep => {
                if present {
                    self.offer(number, child, parent);
                }
                InNode::Unchanged
            }
            Change::Set(value) if present => {
                match F::change(memory, child, key, value, self.guard) {
                    Ok(None) => {
                        self.offer(number, child, parent);
                        InNode::Unchanged
                    }
                    Ok(Some(new)) => {
                        F::mark_dead(memory, child, self.guard);
                        node.replace(symbol, new);
                        self.offer(number, new, parent);
                        self.tree.retire_leaf(child, self.guard);
                        InNode::Changed
                    }
                    Err(_) => return InNode::Postponed,
                }
            }
            Change::Set(value) => match F::create(memory, key, value) {
                Ok(leaf) => {
                    node.insert(symbol, leaf);
                    self.tree.count_entries(1);
                    InNode::Changed
                }
                Err(_) => return InNode::Postponed,
            },
            Change::Remove if present => {
                F::mark_dead(memory, child, self.guard);
                node.remove(symbol);
                self.tree.retire_leaf(child, self.guard);
                self.tree.count_entries(-1);
                InNode::Removed
            }
            Change::Remove => InNode::Unchanged,
        };
        self.probe.duplicates(u64::from(visit.count) - 1);
        done
    }
}

/// What a visit has done to a node under its lock.
enum InNode {
    Unchanged,
    Changed,
    Removed,
    /// Nothing: the visit needs a walk of its own.
    Postponed,
}

/// Executes the operations of a visit in order on a value, writes their outcomes, and answers
/// what is to become of the value.
pub fn fold<'b, F: LeafForm>(
    input: &Input<'b, F>,
    plan: &Plan,
    visit: Visit,
    output: &mut Output<'_, F>,
    current: Option<F::Value<'_>>,
) -> Change<F::Value<'b>> {
    let mut current = current.map(F::shorten_value);
    let mut change = Change::Keep;
    let existed = current.is_some();
    for &position in &plan.order[visit.first as usize..][..visit.count as usize] {
        let position = position as usize;
        match input.operations()[position] {
            Operation::Get { key } => output.value(position, input.key(key), current),
            Operation::Insert { key, value } => {
                output.value(position, input.key(key), current);
                current = Some(F::shorten_value(input.value(value)));
                change = Change::Set(input.value(value));
            }
            Operation::Update {
                key,
                previous,
                value,
            } => {
                let previous = previous.map(|value| F::shorten_value(input.value(value)));
                let applied = previous == current;
                output.updated(position, input.key(key), applied, current);
                if applied {
                    current = Some(F::shorten_value(input.value(value)));
                    change = Change::Set(input.value(value));
                }
            }
            Operation::Remove { key } => {
                output.value(position, input.key(key), current);
                current = None;
                change = if existed {
                    Change::Remove
                } else {
                    Change::Keep
                };
            }
            _ => unreachable!("only point operations are visited"),
        }
    }
    change
}
