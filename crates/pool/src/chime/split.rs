//! Division of full leaves and internal nodes, and updates of their parents.

use super::BACK_OFF;
use super::lock::ChimeNodeLock;
use super::recovery_step::{ChimeNodeDivision, RecoveryStep};
use super::root::ChimeRoot;
use super::route::LevelSearchResult;
use super::session::ChimeSession;
use crate::cache::CacheableNode;
use crate::error::PoolError;
use crate::hopscotch;
use crate::layout::{InternalNode, PoolLeaf, is_empty_key};
use nearfield_fabric::{Endpoint, GlobalAddress};

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Divides a full leaf, whose lock is held, and puts a key into the half where it belongs.
    /// `leaf` may have changes that are not written yet: the division writes them. Returns false if
    /// the lock was held for too long; then nothing was done.
    pub(super) async fn divide(
        &self,
        address: GlobalAddress,
        mut lock: ChimeNodeLock<'_>,
        mut leaf: PoolLeaf,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, PoolError> {
        // Memory is allocated before anything is written, so that a lack of it leaves the leaf as
        // it was.
        let right = match self.allocate(self.leaf_at(GlobalAddress::NULL)).await {
            Ok(right) => right,
            Err(error) => {
                // Otherwise the next client would wait until the lease of the lock has expired.
                if let Some(word) = lock.before {
                    self.unlock(lock, word)?;
                }
                return Err(error);
            }
        };
        let separator: Box<[u8]> = match self.is_behind_all(&leaf, key) {
            true => key.into(),
            false => hopscotch::split_key(&leaf, key),
        };
        let mut other = hopscotch::split(&mut leaf, &separator, right);
        let half = if key < &*separator {
            &mut leaf
        } else {
            &mut other
        };
        // The separator makes room, unless damage has put one key into several slots.
        if hopscotch::insert(half, self.tree.leaves.all_slots(key), key, value).is_err() {
            return Err(PoolError::Damaged { at: address });
        }
        debug_assert_eq!(
            leaf.sibling(0),
            right,
            "a reader of the left half finds the right one"
        );
        // The right half is written first: a reader that sees the new left half finds its sibling.
        let whole = self.tree.leaves.whole();
        let at = self.leaf_at(right);
        let word = self.tree.lock_words.of_leaf(&other, &lock).to_bits();
        let writes = at.writes(&whole, other.encode(&whole));
        self.write_new(at, &writes, word).await?;
        let writes = self.leaf_writes(address, &leaf, &whole, false);
        let word = self.tree.lock_words.of_leaf(&leaf, &lock).to_bits();
        let division = ChimeNodeDivision {
            level: 1,
            separator,
            right,
        };
        // From here on the change may be made, possibly by another client that repeats it. So the
        // operation must not restart, unless the writes turn out to be too late.
        self.note_change(true);
        if self.tree.owner.is_none() {
            if writes.marks.is_empty() {
                // Verbs of one client on one node take effect in order, so the client may release
                // the lock without waiting for these writes.
                for (to, bytes) in writes.writes {
                    self.tree.endpoint.write_unsignalled(to, &bytes)?;
                }
                self.give_back_at_once(lock, word)?;
            } else if self.commit(lock, &writes, word).await?.is_err() {
                return Ok(false);
            }
            self.tell_parents(address, division, None).await?;
            return Ok(true);
        }
        // With leases the client keeps the leaf's lock until the parent is updated, so that the
        // client that takes the lock over, if this one dies, updates the parent. The paper releases
        // the lock before.
        let note = RecoveryStep::Divided(division.clone());
        if self
            .commit_and_keep(&mut lock, &writes, &note)
            .await?
            .is_err()
        {
            self.note_change(false);
            return Ok(false);
        }
        self.tell_parents(address, division, Some(&lock)).await?;
        self.unlock(lock, word)?;
        Ok(true)
    }

    /// Returns true if a full leaf keeps its keys, because it is the last one and the new key is
    /// greater than all of them.
    fn is_behind_all(&self, leaf: &PoolLeaf, key: &[u8]) -> bool {
        let greatest = leaf.max_slot().and_then(|slot| leaf.key(slot));
        self.tree.node.options.fills_last
            && leaf.sibling(0).is_null()
            && greatest.is_some_and(|greatest| greatest < key)
    }

    /// Completes the step that a dead holder of the lock has left.
    pub(super) async fn resume(
        &self,
        address: GlobalAddress,
        note: RecoveryStep,
        lock: &ChimeNodeLock<'_>,
    ) -> Result<(), PoolError> {
        match note {
            RecoveryStep::Divided(division) => {
                self.tell_parents(address, division, Some(lock)).await
            }
            RecoveryStep::Moved(moved) => {
                self.tell_of_move(address, &moved, lock).await?;
                Ok(())
            }
            RecoveryStep::Children(children) | RecoveryStep::Merged(children) => {
                self.give_back_children(address, children, lock).await
            }
            RecoveryStep::Lowered { level, child } => {
                self.swing_root(ChimeRoot { level, address }, child, lock)
                    .await
            }
        }
    }

    /// Updates the parent of the divided node `left`, and divides the parent if it is full. With
    /// `under`, the lock of the divided node, it stops once another client may hold that lock,
    /// which then updates the parent.
    async fn tell_parents(
        &self,
        left: GlobalAddress,
        division: ChimeNodeDivision,
        under: Option<&ChimeNodeLock<'_>>,
    ) -> Result<(), PoolError> {
        let level = division.level + 1;
        let mut patience = self.patience();
        loop {
            if under.is_some_and(|lock| self.is_late(lock)) {
                return Ok(());
            }
            if patience.has_ended(&self.tree.endpoint) {
                self.wait_again(&mut patience, left)?;
            }
            let Some(parent) = self.find_parent(left, &division, under).await? else {
                return Ok(());
            };
            let (mut lock, mut node) = self.lock_internal(parent).await?;
            if !node.is_valid() || node.level() != level || !node.covers(&division.separator) {
                // There is a better parent by now.
                self.unlock(lock, 0)?;
                self.forget_node(&division.separator, level);
                continue;
            }
            if let Some(under) = under {
                if self.is_late(under) {
                    return self.unlock(lock, 0);
                }
                // The parent must not be written once another client may update it from the record.
                lock.bind(under);
            }
            // A repeated update does no harm: the entry with this separator gets the same child.
            if node.insert(&division.separator, division.right).is_ok() {
                node.count_node_write();
                let writes = self.internal_writes(parent, &node);
                if self.commit(lock, &writes, 0).await?.is_ok() {
                    self.keep(parent, &node);
                    return Ok(());
                }
                continue;
            }
            let divided = self.divide_internal(parent, lock, node, &division);
            if Box::pin(divided).await? {
                return Ok(());
            }
        }
    }

    /// Divides a full internal node, whose lock is held, and adds the child that did not fit.
    /// Returns false if the lock was held for too long; then nothing was done.
    async fn divide_internal(
        &self,
        address: GlobalAddress,
        mut lock: ChimeNodeLock<'_>,
        mut node: InternalNode,
        child: &ChimeNodeDivision,
    ) -> Result<bool, PoolError> {
        // As for a leaf: a lack of memory leaves the node as it was.
        let right = self.allocate(self.internal_at(GlobalAddress::NULL)).await?;
        let level = node.level();
        let mut half = node.split(right);
        // A damaged node may have unused entries among the others.
        if is_empty_key(&half.separator) {
            return Err(PoolError::Damaged { at: address });
        }
        let target = if *child.separator < *half.separator {
            &mut node
        } else {
            &mut half.node
        };
        debug_assert!(
            target.covers(&child.separator),
            "the child belongs to this half"
        );
        let inserted = target.insert(&child.separator, child.right);
        debug_assert!(inserted.is_ok(), "half a node has room");
        let writes = self.internal_writes(right, &half.node).writes;
        // Written before the left half names it as its sibling, so that no reader finds it half
        // made.
        self.write_new(self.internal_at(right), &writes, 0).await?;
        let writes = self.internal_writes(address, &node);
        let division = ChimeNodeDivision {
            level,
            separator: half.separator,
            right,
        };
        if self.tree.owner.is_none() {
            // The lock is released with the node, which does not fail without a lease.
            let _ = self.commit(lock, &writes, 0).await?;
            self.keep_both(address, &node, right, &half.node);
            self.tell_parents(address, division, None).await?;
            return Ok(true);
        }
        let note = RecoveryStep::Divided(division.clone());
        if self
            .commit_and_keep(&mut lock, &writes, &note)
            .await?
            .is_err()
        {
            return Ok(false);
        }
        // Cached at once: otherwise this client would follow the former node, and learn of the
        // right half by a round trip.
        self.keep_both(address, &node, right, &half.node);
        self.tell_parents(address, division, Some(&lock)).await?;
        self.unlock(lock, 0)?;
        Ok(true)
    }

    fn keep_both(
        &self,
        left: GlobalAddress,
        node: &InternalNode,
        right: GlobalAddress,
        half: &InternalNode,
    ) {
        self.keep(left, node);
        self.keep(right, half);
    }

    /// Finds the node above the divided node `left` that covers the separator, or one left of it.
    /// Returns `None` if there was none, and it is created now, or if another client may hold the
    /// lock of the divided node.
    async fn find_parent(
        &self,
        left: GlobalAddress,
        division: &ChimeNodeDivision,
        under: Option<&ChimeNodeLock<'_>>,
    ) -> Result<Option<GlobalAddress>, PoolError> {
        let level = division.level + 1;
        let mut patience = self.patience();
        loop {
            // A cached parent may be stale: the caller checks it under its lock.
            if let Some(kept) = self.seek_at(&division.separator, level) {
                return Ok(Some(kept.address()));
            }
            let root = match self.find_node(&division.separator, level).await? {
                LevelSearchResult::Node(parent) => return Ok(Some(parent.address())),
                LevelSearchResult::Below(root) => root,
            };
            let divided = ChimeRoot {
                level: division.level,
                address: left,
            };
            // Only the node that was the root when it was divided has no parent.
            if root == divided {
                let (separator, right) = (&division.separator, division.right);
                if self.grow(root, separator, right, under).await?
                    || under.is_some_and(|lock| self.is_late(lock))
                {
                    return Ok(None);
                }
            }
            // The client that divided the root puts another above it.
            self.tree.endpoint.sleep(BACK_OFF).await;
            if patience.has_ended(&self.tree.endpoint) {
                self.wait_again(&mut patience, left)?;
                if root != divided {
                    // The other client may have died. The next one that takes the root's lock makes
                    // the step, and changes to the right of the root do not take this lock.
                    self.repair(self.root_at(root)).await?;
                }
            }
        }
    }

    /// Drops the cached node of a level for a key.
    pub(super) fn forget_node(&self, key: &[u8], level: u8) {
        if let Some(kept) = self.seek_at(key, level) {
            self.tree.node.cache.invalidate(&kept);
        }
    }
}
