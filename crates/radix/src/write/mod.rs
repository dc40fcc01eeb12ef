//! Changes of the tree: the caller gets the value of a key, and the caller's decision is applied to
//! the key, in one atomic step.
//!
//! - A change that affects only a leaf is made under its latch alone, if that is allowed.
//! - `in_node` has the changes that affect only the node above the leaf, under that node's lock.
//! - `grow` has the changes that replace nodes.
//! - `run` inserts many neighbours at once.
//!
//! An attempt that encounters another thread, or finds that its place has changed, walks again.

mod grow;
mod in_node;
pub mod run;

use crate::build::is_underfull;
use crate::change::{LeafChangeResult, RadixKeyChange};
use crate::counters::RadixProbe;
use crate::leaf::{InNode, LeafForm, LeafWalkContext, LockedChangePlace};
use crate::lock::{VersionLockGuard, pause};
use crate::node::{NodeRefKind, Ref};
use crate::tree::{RadixTree, RadixWalkEnd};
use crate::writer::PinnedWriter;
use nearfield_core::{EntryForm, OperationError};

/// The result of an attempt to change a place.
#[derive(Clone, Copy, Debug)]
pub enum Attempt {
    Done,
    /// The key leaves the path at this depth, in bytes that the path skips.
    Leaves(usize),
    /// Another thread was faster.
    Restart,
}

/// The result of an attempt under a node's lock.
enum LockedAttemptResult {
    Done(InNode),
    /// The key differs from those below the node in this byte, which the path skips.
    Above(usize),
    /// The node has no room for another range.
    Full,
    /// The child is not a leaf.
    Below(Ref),
    /// Another thread is changing the nodes that this attempt must read.
    Unknown,
}

/// The change of a key, given the present value.
type Decide<'d, 'v, F> = dyn FnMut(Option<ValueOf<'_, F>>) -> RadixKeyChange<ValueOf<'v, F>> + 'd;

type ValueOf<'v, F> = <F as EntryForm>::Value<'v>;

impl<F: LeafForm> RadixTree<F> {
    /// Finds a key and applies the decision of `decide`, given its present value. The read of the
    /// value and the change are one atomic step. `decide` may be called several times; the last
    /// call counts.
    ///
    /// # Errors
    /// `OutOfMemory`; nothing has been changed then.
    pub fn modify<'v>(
        &self,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<(), OperationError> {
        let place = self.descend(key, usize::MAX, probe);
        self.report_leaf(place.child, key, guard, probe);
        self.modify_from(&place, key, guard, probe, decide)
    }

    /// Changes a key like [`modify`](RadixTree::modify), if its place is known.
    #[inline]
    pub fn modify_from<'v>(
        &self,
        place: &RadixWalkEnd,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<(), OperationError> {
        let known = LeafWalkContext {
            skipped: place.skipped,
            parent: place.node,
            depth: place.depth,
            prepared: F::Prepared::default(),
        };
        if self.alter_in_leaf(place.child, known, key, guard, probe, decide) {
            return Ok(());
        }
        self.modify_below_lock(place, key, guard, probe, decide)
    }

    /// Makes a change without the lock of the node above the leaf that a walk has reached. `known`
    /// is the walk's knowledge. Returns false if the change needs the lock; `decide` may have been
    /// called then.
    #[inline]
    pub fn alter_in_leaf<'v>(
        &self,
        leaf: Ref,
        known: LeafWalkContext<F::Prepared>,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> bool {
        if !leaf.is_leaf() || !guard.latching().alone {
            return false;
        }
        match F::alter_in_leaf(&self.memory, leaf, key, known, guard, decide) {
            LeafChangeResult::Not => return false,
            LeafChangeResult::InPlace => {}
            LeafChangeResult::Inserted => guard.count_entries(1),
        }
        probe.lock(0);
        true
    }

    /// Changes a key like [`modify_from`](RadixTree::modify_from), if the lock of a node is needed.
    #[inline]
    pub fn modify_below_lock<'v>(
        &self,
        place: &RadixWalkEnd,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<(), OperationError> {
        match self.modify_at(place, key, guard, probe, decide)? {
            Attempt::Done => Ok(()),
            attempt => {
                self.modify_again(attempt, place.parent.is_some(), key, guard, probe, decide)
            }
        }
    }

    /// Continues after an attempt that was not the last. `knew_parent` is true if the place of that
    /// attempt had everything that a change needs.
    #[cold]
    fn modify_again<'v>(
        &self,
        mut attempt: Attempt,
        mut knew_parent: bool,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<(), OperationError> {
        let mut waits = 0;
        loop {
            let until = match attempt {
                Attempt::Done => return Ok(()),
                Attempt::Leaves(depth) => depth,
                Attempt::Restart => {
                    probe.restart();
                    // The first restart often only lacks the parent. Then there is nothing to wait
                    // for.
                    if waits > 0 || knew_parent {
                        pause(&mut waits);
                    }
                    usize::MAX
                }
            };
            let place = self.descend(key, until, probe);
            self.report_leaf(place.child, key, guard, probe);
            knew_parent = place.parent.is_some();
            attempt = self.modify_at(&place, key, guard, probe, decide)?;
        }
    }

    /// Makes a change to a key whose walk has ended at a place, in one attempt.
    pub fn modify_at<'v>(
        &self,
        place: &RadixWalkEnd,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<Attempt, OperationError> {
        if place.child.kind() == NodeRefKind::Dense
            && F::is_in_dense(&self.memory, place.child, key)
        {
            return Ok(self.modify_dense(place.child, key, guard, probe, decide));
        }
        let node = self.memory.inner(place.node);
        let Ok((held, waits)) = VersionLockGuard::lock(&node.header().lock) else {
            return Ok(Attempt::Restart);
        };
        probe.lock(waits);
        // Another thread has changed the slot since the walk.
        if F::child(node, place.symbol) != place.child {
            held.unlock_unchanged();
            return Ok(Attempt::Restart);
        }
        let spot = LockedChangePlace {
            node,
            symbol: place.symbol,
            skipped: place.skipped,
        };
        let attempt = match self.modify_spot(spot, key, guard, decide) {
            Ok(LockedAttemptResult::Done(InNode::Changed)) => {
                drop(held);
                return Ok(Attempt::Done);
            }
            Ok(LockedAttemptResult::Done(InNode::Shrunk)) => {
                let underfull = is_underfull::<F>(&self.memory, place.node);
                drop(held);
                if underfull {
                    // `tidy` locks from above, so the lock of this node is released first.
                    self.tidy(key, guard, probe);
                }
                return Ok(Attempt::Done);
            }
            Ok(LockedAttemptResult::Done(_)) => Ok(Attempt::Done),
            Ok(LockedAttemptResult::Above(depth)) => Ok(Attempt::Leaves(depth)),
            Ok(LockedAttemptResult::Unknown) => Ok(Attempt::Restart),
            Ok(LockedAttemptResult::Full) => {
                match self.grow(place, node, key, guard, probe, decide) {
                    Ok(Attempt::Done) => {
                        // Walks that have reached the old node may finish there; writers must
                        // restart.
                        held.unlock_obsolete();
                        guard.retire(place.node);
                        return Ok(Attempt::Done);
                    }
                    attempt => attempt,
                }
            }
            Ok(LockedAttemptResult::Below(child)) => {
                match self.fork(place, node, child, key, guard, decide) {
                    Ok(Attempt::Done) => {
                        drop(held);
                        return Ok(Attempt::Done);
                    }
                    attempt => attempt,
                }
            }
            Err(error) => Err(error),
        };
        held.unlock_unchanged();
        attempt
    }

    /// Makes a change in a dense node, in one attempt.
    fn modify_dense<'v>(
        &self,
        node: Ref,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Attempt {
        let Ok((held, waits)) = VersionLockGuard::lock(&self.memory.dense(node).header().lock)
        else {
            return Attempt::Restart;
        };
        probe.lock(waits);
        match self.modify_in_dense(node, key, guard, decide) {
            InNode::Unchanged => held.unlock_unchanged(),
            InNode::Changed => drop(held),
            InNode::Shrunk => {
                let underfull = F::is_dense_underfull(&self.memory, node);
                drop(held);
                if underfull {
                    self.tidy(key, guard, probe);
                }
            }
            InNode::Postponed => {
                held.unlock_unchanged();
                return Attempt::Restart;
            }
        }
        Attempt::Done
    }

    /// Makes a change in a dense node under its lock, or in one that no other thread can reach.
    #[inline]
    pub fn modify_in_dense<'v>(
        &self,
        node: Ref,
        key: F::Key<'_>,
        guard: &PinnedWriter<'_, F>,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> InNode {
        let done = F::modify_in_dense(&self.memory, node, key, decide);
        match done {
            InNode::Changed => guard.count_entries(1),
            InNode::Shrunk => guard.count_entries(-1),
            InNode::Unchanged | InNode::Postponed => {}
        }
        done
    }
}
