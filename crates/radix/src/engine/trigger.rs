//! *Trigger*: the operations of a visit are executed in order on the value that the walk has found,
//! and folded into at most one change.

use super::combine::{KeyVisit, VisitPlan};
use super::traverse::{Arrivals, VisitRun, VisitWalk};
use crate::build::is_underfull;
use crate::change::RadixKeyChange;
use crate::counters::RadixProbe;
use crate::leaf::{InNode, LeafForm, LockedChangePlace, RadixLeafLookup};
use crate::lock::{VersionLock, VersionLockGuard};
use crate::node::{NodeRefKind, Ref};
use crate::shortcut::Shortcuts;
use crate::tree::{RadixTree, RadixWalkEnd};
use crate::writer::PinnedWriter;
use nearfield_core::{BatchInput, BatchOutput, IndexOperation, OperationError};

/// The executor of visits at the places where their walks have ended.
pub struct Trigger<'t, 'b, 'o, F: LeafForm, P> {
    pub tree: &'t RadixTree<F>,
    pub keys: &'t [F::Key<'b>],
    pub plan: &'t VisitPlan,
    pub input: BatchInput<'b, F>,
    pub output: &'t mut BatchOutput<'o, F>,
    pub guard: &'t PinnedWriter<'t, F>,
    pub probe: &'t mut P,
    /// The table to which hot keys are offered, if there is one.
    pub shortcuts: Option<&'t Shortcuts>,
    /// The visits that need their own walk; empty between rounds.
    pub postponed: Vec<u32>,
}

impl<F: LeafForm, P: RadixProbe> Arrivals<F> for Trigger<'_, '_, '_, F, P> {
    type Probe = P;

    #[inline]
    fn probe(&mut self) -> &mut P {
        self.probe
    }

    #[inline]
    fn coming(&mut self, walk: &VisitWalk, key: F::Key<'_>) -> F::Prepared {
        let writes = self.plan.visits[walk.visit() as usize].writes;
        F::prepare(&self.tree.memory, walk.node(), key, writes, self.guard)
    }

    #[inline]
    fn single(&mut self, walk: &VisitWalk, key: F::Key<'_>, prepared: F::Prepared) {
        let visit = self.plan.visits[walk.visit() as usize];
        if visit.writes {
            self.write_single(walk, visit);
        } else {
            self.read_single(walk, visit, key, prepared);
        }
    }

    fn run(&mut self, run: &VisitRun, ends: &[Ref]) {
        debug_assert!(self.postponed.is_empty(), "visits of another run");
        let visits =
            (run.first..run.first + run.count).filter(|&visit| ends[visit as usize] == run.node);
        if run.node.kind() == NodeRefKind::Dense {
            self.run_dense(run, visits);
        } else {
            self.run_inner(run.node, run.skipped, visits);
        }
        // The lock is released by now: these visits take others.
        while let Some(visit) = self.postponed.pop() {
            self.visit_from_root(visit);
        }
    }
}

impl<F: LeafForm, P: RadixProbe> Trigger<'_, '_, '_, F, P> {
    /// Executes a visit that only reads.
    #[inline]
    fn read_single(
        &mut self,
        walk: &VisitWalk,
        visit: KeyVisit,
        key: F::Key<'_>,
        prepared: F::Prepared,
    ) {
        let memory = &self.tree.memory;
        let found = if walk.node().is_null() {
            RadixLeafLookup::Absent
        } else if visit.count == 1 {
            return self.answer_single(walk, visit, key, prepared);
        } else {
            self.probe.leaf();
            match self.plan.in_order {
                true => F::lookup_again(memory, walk.node(), key, prepared, self.guard),
                false => F::lookup(memory, walk.node(), key, prepared, self.guard)
                    .map_or(RadixLeafLookup::Absent, RadixLeafLookup::Found),
            }
        };
        let found = match found {
            RadixLeafLookup::Found(value) => {
                self.offer(walk.visit(), walk.node(), walk.parent());
                Some(value)
            }
            RadixLeafLookup::Absent if !self.plan.in_order || is_current(self.tree, walk, key) => {
                None
            }
            _ => return self.visit_from_root(walk.visit()),
        };
        let value = found.as_ref().map(F::found);
        self.answer(walk.visit() as usize, visit, value);
    }

    /// Executes a visit of one get, whose walk has ended at a terminal.
    #[inline]
    fn answer_single(
        &mut self,
        walk: &VisitWalk,
        visit: KeyVisit,
        key: F::Key<'_>,
        prepared: F::Prepared,
    ) {
        self.probe.leaf();
        let position = self.plan.order[visit.first as usize] as usize;
        let (memory, at) = (&self.tree.memory, (position, &mut *self.output));
        match F::answer(memory, walk.node(), key, prepared, self.guard, at) {
            RadixLeafLookup::Found(()) => self.offer(walk.visit(), walk.node(), walk.parent()),
            RadixLeafLookup::Absent | RadixLeafLookup::Dead if !self.plan.in_order => {}
            RadixLeafLookup::Absent if is_current(self.tree, walk, key) => {}
            _ => self.visit_from_root(walk.visit()),
        }
    }

    /// Writes the outcomes of a visit that only reads, given the value of its key.
    #[inline]
    pub fn answer(&mut self, number: usize, visit: KeyVisit, found: Option<F::Value<'_>>) {
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
    fn write_single(&mut self, walk: &VisitWalk, visit: KeyVisit) {
        let key = self.keys[walk.visit() as usize];
        let depth = walk.depth().saturating_sub(1);
        let Some(symbol) = F::symbol(key, depth).filter(|_| !walk.parent().is_null()) else {
            return self.visit_from_root(walk.visit());
        };
        let place = RadixWalkEnd {
            node: walk.parent(),
            depth,
            symbol,
            child: walk.node(),
            parent: None,
            skipped: walk.skipped(),
        };
        self.execute(walk.visit(), visit, Some(&place));
        if self.shortcuts.is_some() {
            let parent = self.tree.memory.inner(walk.parent());
            let leaf = self.tree.child(parent, symbol);
            self.offer_if_found(walk.visit(), leaf, walk.parent());
        }
    }

    /// Executes all visits, one at a time.
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

    fn read_from_root(&mut self, number: usize, visit: KeyVisit) {
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

    /// Executes a visit by its own walk.
    fn visit_from_root(&mut self, visit: u32) {
        self.execute(visit, self.plan.visits[visit as usize], None);
    }

    fn execute(&mut self, number: u32, visit: KeyVisit, place: Option<&RadixWalkEnd>) {
        let key = self.keys[number as usize];
        let (input, plan) = (&self.input, self.plan);
        let output = &mut *self.output;
        let mut decide = |current: Option<F::Value<'_>>| fold(input, plan, visit, output, current);
        let result = match place {
            Some(place) => self
                .tree
                .modify_from(place, key, self.guard, self.probe, &mut decide),
            None => self.tree.modify(key, self.guard, self.probe, &mut decide),
        };
        self.probe.duplicates(u64::from(visit.count) - 1);
        if let Err(error) = result {
            self.fail(number, visit, error);
        }
    }

    /// Executes the operations of a visit that failed as a whole one at a time, so that those
    /// succeed that can.
    fn fail(&mut self, number: u32, visit: KeyVisit, error: OperationError) {
        // A single operation cannot be divided further.
        if visit.count == 1 {
            let position = self.plan.order[visit.first as usize];
            return self.output.fail(position as usize, error);
        }
        for first in visit.first..visit.first + visit.count {
            let single = KeyVisit {
                first,
                count: 1,
                ..visit
            };
            self.execute(number, single, None);
        }
    }

    /// Executes visits of one dense node under its lock.
    fn run_dense(&mut self, run: &VisitRun, visits: impl Iterator<Item = u32>) {
        let lock = &self.tree.memory.dense(run.node).header().lock;
        self.run_under_lock(run.node, lock, visits, |trigger, number| {
            let key = trigger.keys[number as usize];
            let visit = trigger.plan.visits[number as usize];
            let (input, plan) = (&trigger.input, trigger.plan);
            let output = &mut *trigger.output;
            let mut decide =
                |current: Option<F::Value<'_>>| fold(input, plan, visit, output, current);
            trigger
                .tree
                .modify_in_dense(run.node, key, trigger.guard, &mut decide)
        });
    }

    /// Executes visits of one inner node under its lock. Visits that change more than the node
    /// itself are postponed.
    pub fn run_inner(&mut self, parent: Ref, skipped: bool, visits: impl Iterator<Item = u32>) {
        let node = self.tree.memory.inner(parent);
        let lock = &node.header().lock;
        self.run_under_lock(parent, lock, visits, |trigger, number| {
            let key = trigger.keys[number as usize];
            let visit = trigger.plan.visits[number as usize];
            let Some(symbol) = F::symbol(key, node.header().depth()) else {
                return InNode::Postponed;
            };
            let spot = LockedChangePlace {
                node,
                symbol,
                skipped,
            };
            let (input, plan) = (&trigger.input, trigger.plan);
            let output = &mut *trigger.output;
            let mut decide =
                |current: Option<F::Value<'_>>| fold(input, plan, visit, output, current);
            let done = trigger
                .tree
                .modify_in_node(spot, key, trigger.guard, &mut decide);
            trigger.probe.leaf();
            trigger.offer_if_found(number, F::child(node, symbol), parent);
            done
        });
    }

    /// Executes visits of one node under its lock, and postpones those that need more locks.
    fn run_under_lock(
        &mut self,
        node: Ref,
        lock: &VersionLock,
        visits: impl Iterator<Item = u32>,
        mut execute: impl FnMut(&mut Self, u32) -> InNode,
    ) {
        // The node was replaced, so all visits walk again.
        let Ok((held, waits)) = VersionLockGuard::lock(lock) else {
            self.postponed.extend(visits);
            return;
        };
        self.probe.lock(waits);
        let (mut changed, mut shrunk) = (false, None);
        for number in visits {
            let done = execute(self, number);
            match done {
                InNode::Unchanged => {}
                InNode::Changed => changed = true,
                InNode::Shrunk => {
                    changed = true;
                    shrunk = Some(number);
                }
                InNode::Postponed => {
                    self.postponed.push(number);
                    continue;
                }
            }
            let operations = self.plan.visits[number as usize].count;
            // Postponed visits are counted by their own walk.
            self.probe.duplicates(u64::from(operations) - 1);
        }
        // Underfull or not is decided under the lock; `tidy` locks from above, and needs this lock
        // free.
        let shrunk = shrunk.filter(|_| is_underfull::<F>(&self.tree.memory, node));
        if !changed {
            return held.unlock_unchanged();
        }
        drop(held);
        if let Some(number) = shrunk {
            let key = self.keys[number as usize];
            self.tree.tidy(key, self.guard, self.probe);
        }
    }
}

/// Returns true if a walk would certainly end at the same place now, after the writes of earlier
/// visits.
#[cold]
pub fn is_current<F: LeafForm>(tree: &RadixTree<F>, walk: &VisitWalk, key: F::Key<'_>) -> bool {
    let symbol = F::symbol(key, walk.depth().saturating_sub(1));
    let Some(symbol) = symbol.filter(|_| !walk.parent().is_null() && !walk.skipped()) else {
        return false;
    };
    let parent = tree.memory.inner(walk.parent());
    !parent.header().lock.is_obsolete() && tree.child(parent, symbol) == walk.node()
}

/// Executes the operations of a visit in order on a value, writes their outcomes, and returns the
/// change of the value.
pub fn fold<'b, F: LeafForm>(
    input: &BatchInput<'b, F>,
    plan: &VisitPlan,
    visit: KeyVisit,
    output: &mut BatchOutput<'_, F>,
    current: Option<F::Value<'_>>,
) -> RadixKeyChange<F::Value<'b>> {
    fold_at(
        input,
        &plan.order[visit.first as usize..][..visit.count as usize],
        output,
        current,
    )
}

/// Executes operations like `fold`, given their positions.
#[inline]
pub fn fold_at<'b, F: LeafForm>(
    input: &BatchInput<'b, F>,
    positions: &[u32],
    output: &mut BatchOutput<'_, F>,
    current: Option<F::Value<'_>>,
) -> RadixKeyChange<F::Value<'b>> {
    let mut current = current.map(F::shorten_value);
    let mut change = RadixKeyChange::Keep;
    let existed = current.is_some();
    for &position in positions {
        let position = position as usize;
        match input.operations()[position] {
            IndexOperation::Get { key } => output.value(position, input.key(key), current),
            IndexOperation::Insert { key, value } => {
                output.replaced(position, input.key(key), current);
                current = Some(F::shorten_value(input.value(value)));
                change = RadixKeyChange::Set(input.value(value));
            }
            IndexOperation::Update {
                key,
                previous,
                value,
            } => {
                let previous = input.previous(previous).map(F::shorten_value);
                let applied = previous == current;
                output.updated(position, input.key(key), applied, current);
                if applied {
                    current = Some(F::shorten_value(input.value(value)));
                    change = RadixKeyChange::Set(input.value(value));
                }
            }
            IndexOperation::Remove { key } => {
                output.replaced(position, input.key(key), current);
                current = None;
                change = removal(existed);
            }
            IndexOperation::RemoveIf { key, previous } => {
                let previous = input.previous(previous).map(F::shorten_value);
                let applied = current.is_some() && previous == current;
                output.updated(position, input.key(key), applied, current);
                if applied {
                    current = None;
                    change = removal(existed);
                }
            }
            _ => unreachable!("only point operations are visited"),
        }
    }
    change
}

/// Returns the change that removes a key, if it `existed`.
fn removal<V>(existed: bool) -> RadixKeyChange<V> {
    match existed {
        true => RadixKeyChange::Remove,
        false => RadixKeyChange::Keep,
    }
}
