//! Draining of a memory node: its leaves are moved to other nodes while clients work. Not in the
//! paper.
//!
//! A leaf is moved under its own lock, like one that is divided into nothing and all of it:
//!
//! 1. A copy is written to another node. Then the leaf becomes empty and leads to its copy, by a
//!    recorded commit whose note names the rest of the move. Readers continue to the copy. Writers
//!    wait for the lock, or complete the move of a dead client.
//! 2. Under the lock of the parent, one commit makes the parent lead to the copy, and the leaf to
//!    the left, too. That leaf's lock is taken on behalf of the parent, and tried once, as in a
//!    merge: its holder may wait for the parent's lock.
//! 3. The former leaf becomes invalid and is retired.
//!
//! The leaf to the left of a parent's first one has another parent. That parent still expects the
//! former leaf, and so does the leaf lead there, which is consistent. A later step makes both lead
//! to the copy by one commit. The former leaf is retired only then. Until then the two parents are
//! not merged.
//!
//! Each step does nothing where it was done before, so a drain may die anywhere, and several may
//! run at once.

use super::lock::{ChimeLockWrites, ChimeNodeLock};
use super::node_io::Buffers;
use super::recovery_step::{Children, ChimeNodeDivision, RecoveryStep};
use super::repair::{PARENTS, fences_of, is_parent};
use super::root::ChimeRoot;
use super::route::LevelSearchResult;
use super::session::ChimeSession;
use super::{BACK_OFF, ChimeTree};
use crate::cache::CacheableNode;
use crate::canary::Check;
use crate::error::PoolError;
use crate::hopscotch;
use crate::layout::{InternalNode, PoolLeaf, is_empty_key};
use nearfield_fabric::recovery::lease::{HELD_BIT, forward};
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress, MaskedSwap, NodeId};
use std::cell::Cell;

/// Maximum number of leaves that are looked at by one post.
const LEAVES_MAX: usize = 32;
/// Number of times that one parent is looked at without a change.
const TRIES_MAX: u32 = 1000;
/// Number of these after which a client waits longer: the holder of a lock may have died.
const QUICK_TRIES: u32 = 16;
/// Number of times that a lock which is held again is taken once more.
const COMPLETIONS_MAX: u32 = 8;
/// Maximum number of passes over all parents. Usually there are two or three: the first leaf of a
/// parent needs a second one, and the last pass finds nothing.
const PASSES_MAX: u32 = 100;

/// The counts of a drain in progress.
#[derive(Debug, Default)]
pub(super) struct LeafDrainCounts {
    /// Number of leaves that were moved.
    moved: Cell<usize>,
    /// Number of parents and leaves that lead to the copy of another parent's first leaf.
    followed: Cell<usize>,
}

/// The continuation of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LeafDrainStep {
    /// The parent of this key is next.
    Next(Vec<u8>),
    /// The same parent is looked at again.
    Again,
    End,
}

impl LeafDrainCounts {
    /// Returns the number of leaves that were moved.
    pub fn moved(&self) -> usize {
        self.moved.get()
    }

    fn sum(&self) -> usize {
        self.moved.get() + self.followed.get()
    }
}

impl<E: Endpoint> ChimeTree<E> {
    /// Closes a memory node, so that clients put no further leaves there, or opens it again. What
    /// is there stays. Other clients learn of it at an operation, within an eighth of the lease of
    /// their sessions, which is 16 leases of locks; their operations in flight may still put a leaf
    /// there.
    ///
    /// # Errors
    /// `Leaseless` if locks have no leases, `FirstNode` for the node with the root, which has all
    /// inner nodes, and the nodes' errors.
    pub async fn close_node(&self, node: NodeId, is_closed: bool) -> Result<(), PoolError> {
        let Some(epochs) = self.node.epochs.get() else {
            return Err(PoolError::Leaseless);
        };
        if node == self.root.node() {
            return Err(PoolError::FirstNode { node });
        }
        Ok(epochs.close_node(&self.endpoint, node, is_closed).await?)
    }

    /// Closes a memory node, and moves its leaves to other nodes. Returns their number. Other
    /// clients may work meanwhile, and drain nodes, too. When this returns no leaf is on the node,
    /// and no client's cache leads to it.
    ///
    /// # Errors
    /// As [`close_node`](ChimeTree::close_node), `OutOfMemory` if the other nodes have no room, and
    /// `Damaged` if a parent does not become free of the node. What was moved stays so, and
    /// another call continues.
    pub async fn drain_leaves(&self, node: NodeId) -> Result<usize, PoolError> {
        self.retire_together();
        self.close_node(node, true).await?;
        // A client may have allocated a leaf before it learns of this, and enter it into a parent
        // until the lease of its lock expires.
        self.endpoint.sleep(self.learning_time()).await;
        let counts = LeafDrainCounts::default();
        let mut passes = 0;
        loop {
            let before = counts.sum();
            self.drain_pass(node, &counts).await?;
            if counts.sum() == before {
                break;
            }
            passes += 1;
            if passes > PASSES_MAX {
                return Err(PoolError::Damaged { at: self.root });
            }
        }
        if let Some(epochs) = self.node.epochs.get() {
            epochs.advance(&self.endpoint).await?;
        }
        Ok(counts.moved())
    }

    /// Looks at all parents of leaves from left to right.
    async fn drain_pass(&self, node: NodeId, counts: &LeafDrainCounts) -> Result<(), PoolError> {
        let mut key = vec![0; self.leaves.geometry().shape().key_bytes];
        let mut tries = 0;
        loop {
            let before = counts.sum();
            let step = self
                .run(async |session| session.drain_parent(&key, node, counts).await)
                .await?;
            match step {
                LeafDrainStep::End => return Ok(()),
                LeafDrainStep::Next(next) => {
                    key = next;
                    tries = 0;
                }
                LeafDrainStep::Again if counts.sum() > before => tries = 0,
                LeafDrainStep::Again => {
                    tries += 1;
                    if tries > TRIES_MAX {
                        return Err(PoolError::Damaged { at: self.root });
                    }
                    let pause = match tries {
                        0..=QUICK_TRIES => BACK_OFF,
                        _ => self.lease / 16,
                    };
                    self.endpoint.sleep(pause).await;
                }
            }
        }
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Makes one step of the drain of a node below the parent of a key's leaf.
    async fn drain_parent(
        &self,
        key: &[u8],
        node: NodeId,
        counts: &LeafDrainCounts,
    ) -> Result<LeafDrainStep, PoolError> {
        let address = match self.find_node(key, PARENTS).await? {
            LevelSearchResult::Node(parent) => parent.address(),
            LevelSearchResult::Below(root) => {
                return self.drain_root_leaf(root, node, counts).await;
            }
        };
        let mut parent = self.read_internal(address).await?;
        if !is_parent(&parent, key) {
            return Ok(LeafDrainStep::Again);
        }
        if self.release_held(&parent).await? {
            // A change of a dead client may have been completed.
            parent = self.read_internal(address).await?;
            if !is_parent(&parent, key) {
                return Ok(LeafDrainStep::Again);
            }
        }
        let mut children = parent.child_addresses().enumerate();
        if let Some((position, leaf)) = children.find(|(_, child)| child.node() == node) {
            let [low, _] = fences_of(&parent, position);
            self.move_leaf(leaf, &low, None, counts).await?;
            return Ok(LeafDrainStep::Again);
        }
        if !self.follows_first(address, &parent, key, counts).await? {
            return Ok(LeafDrainStep::Again);
        }
        Ok(match parent.sibling().is_null() {
            true => LeafDrainStep::End,
            false => LeafDrainStep::Next(parent.high_fence().to_vec()),
        })
    }

    /// Moves the leaf that is the root, if it is on the node.
    async fn drain_root_leaf(
        &self,
        root: ChimeRoot,
        node: NodeId,
        counts: &LeafDrainCounts,
    ) -> Result<LeafDrainStep, PoolError> {
        if root.address.node() == node {
            let low = vec![0; self.tree.leaves.geometry().shape().key_bytes];
            self.move_leaf(root.address, &low, None, counts).await?;
            return Ok(LeafDrainStep::Again);
        }
        // This completes the division of a dead client, and waits for that of a living one.
        self.repair_leaf(root.address).await?;
        Ok(match self.read_root().await? == root {
            true => LeafDrainStep::End,
            false => LeafDrainStep::Again,
        })
    }

    /// Takes and releases each lock of the leaves below a parent that is held: a dead client may
    /// have recorded the division of a leaf whose right half is on the node. Returns true if there
    /// was one.
    async fn release_held(&self, parent: &InternalNode) -> Result<bool, PoolError> {
        if !Check::HeldLocks.is_made() {
            return Ok(false);
        }
        let leaves = parent.child_addresses().filter(|&leaf| !self.is_lost(leaf));
        let leaves: Vec<GlobalAddress> = leaves.collect();
        let mut was_held = false;
        for leaves in leaves.chunks(LEAVES_MAX) {
            let mut words = vec![[0_u8; 8]; leaves.len()];
            let reads = leaves.iter().zip(&mut words);
            let reads = reads.map(|(&leaf, word)| FabricVerb::Read {
                from: self.leaf_at(leaf).lock(),
                into: word,
            });
            let mut verbs: Vec<FabricVerb<'_>> = reads.collect();
            self.tree.endpoint.post(&mut verbs).await?;
            drop(verbs);
            for (&leaf, word) in leaves.iter().zip(&words) {
                let mut word = *word;
                // If the parent's lock was abandoned, too, the lock of the leaf expires before the
                // division is in the parent. The next holder completes it.
                for _ in 0..COMPLETIONS_MAX {
                    if u64::from_le_bytes(word) & HELD_BIT == 0 {
                        break;
                    }
                    self.repair_leaf(leaf).await?;
                    was_held = true;
                    let lock = self.leaf_at(leaf).lock();
                    self.tree.endpoint.read(lock, &mut word).await?;
                }
            }
        }
        Ok(was_held)
    }

    /// Moves a leaf to a node, or to any that is not closed. `low` is the least key that belongs to
    /// it.
    pub(super) async fn move_leaf(
        &self,
        leaf: GlobalAddress,
        low: &[u8],
        to: Option<NodeId>,
        counts: &LeafDrainCounts,
    ) -> Result<(), PoolError> {
        // Memory is allocated before the lock is taken, because a call to a node takes long.
        let at = self.leaf_at(GlobalAddress::NULL);
        let memory = match to {
            Some(node) => self.allocate_on(node, at.bytes()).await?,
            None => self.allocate(at).await?,
        };
        let division = ChimeNodeDivision {
            level: 1,
            separator: low.into(),
            right: memory,
        };
        if self.move_to(leaf, division, counts).await? {
            return Ok(());
        }
        self.retire(memory, self.leaf_at(memory).bytes()).await
    }

    /// Moves a leaf to the memory that `moved` names. Returns false if that was not used.
    async fn move_to(
        &self,
        address: GlobalAddress,
        moved: ChimeNodeDivision,
        counts: &LeafDrainCounts,
    ) -> Result<bool, PoolError> {
        // Once the lock is taken, all divisions of this leaf are in its parent.
        let (mut lock, mut leaf) = self.lock_whole(address).await?;
        let next = self.expected_next(address, &moved.separator).await?;
        if !leaf.is_valid(0) || next != Some(leaf.sibling(0)) {
            let word = self.free_word(&lock, &leaf);
            self.unlock(lock, word)?;
            return Ok(false);
        }
        let whole = self.tree.leaves.whole();
        let at = self.leaf_at(moved.right);
        let word = self.tree.lock_words.of_leaf(&leaf, &lock).to_bits();
        let writes = at.writes(&whole, leaf.encode(&whole));
        self.write_new(at, &writes, word).await?;
        hopscotch::pass_on(&mut leaf, moved.right);
        let writes = self.leaf_writes(address, &leaf, &whole, false);
        let note = RecoveryStep::Moved(moved.clone());
        if self
            .commit_and_keep(&mut lock, &writes, &note)
            .await?
            .is_err()
        {
            return Ok(false);
        }
        counts.moved.set(counts.moved.get() + 1);
        if self.tell_of_move(address, &moved, &lock).await? {
            self.retire_moved(address, lock, leaf).await?;
        } else {
            // If the lease has expired the lock stays, and its next holder completes the move.
            let word = self.tree.lock_words.of_leaf(&leaf, &lock).to_bits();
            self.unlock(lock, word)?;
        }
        Ok(true)
    }

    /// Makes a moved leaf, whose lock is held, invalid, and retires it. No leaf and no parent leads
    /// there any more.
    async fn retire_moved(
        &self,
        address: GlobalAddress,
        lock: ChimeNodeLock<'_>,
        mut leaf: PoolLeaf,
    ) -> Result<(), PoolError> {
        hopscotch::retire(&mut leaf);
        let writes = self.leaf_writes(address, &leaf, &self.tree.leaves.whole(), false);
        let word = self.tree.lock_words.of_leaf(&leaf, &lock).to_bits();
        if self.commit(lock, &writes, word).await?.is_ok() {
            self.retire(address, self.leaf_at(address).bytes()).await?;
        }
        Ok(())
    }

    /// Returns the word of the free lock of a leaf that is not changed under it.
    fn free_word(&self, lock: &ChimeNodeLock<'_>, leaf: &PoolLeaf) -> u64 {
        match lock.before {
            Some(word) => word,
            None => self.tree.lock_words.of_leaf(leaf, lock).to_bits(),
        }
    }

    /// Returns the leaf that the parent of a leaf expects to the right of it: null behind the last
    /// one. Returns `None` if the leaf is not below the parent that covers a key.
    async fn expected_next(
        &self,
        leaf: GlobalAddress,
        key: &[u8],
    ) -> Result<Option<GlobalAddress>, PoolError> {
        match self.find_node(key, PARENTS).await? {
            LevelSearchResult::Node(_) => self.next_leaf(leaf, key).await,
            LevelSearchResult::Below(root) => {
                Ok((root.address == leaf).then_some(GlobalAddress::NULL))
            }
        }
    }

    /// Makes the parent of a moved leaf lead to the copy, and the leaf to the left, too. `under` is
    /// the lock of the leaf; once another client may hold it, that one does this. Returns true if
    /// nothing leads to the leaf any more.
    pub(super) async fn tell_of_move(
        &self,
        leaf: GlobalAddress,
        moved: &ChimeNodeDivision,
        under: &ChimeNodeLock<'_>,
    ) -> Result<bool, PoolError> {
        let mut patience = self.patience();
        loop {
            if self.is_late(under) {
                return Ok(false);
            }
            if patience.has_ended(&self.tree.endpoint) {
                self.wait_again(&mut patience, leaf)?;
            }
            let address = match self.find_node(&moved.separator, PARENTS).await? {
                LevelSearchResult::Node(parent) => parent.address(),
                LevelSearchResult::Below(root) => {
                    return self.swing_root_leaf(root, leaf, moved.right, under).await;
                }
            };
            let (mut lock, mut parent) = self.lock_internal(address).await?;
            if !is_parent(&parent, &moved.separator) {
                // There is a better parent by now.
                self.unlock(lock, 0)?;
                self.forget_node(&moved.separator, PARENTS);
                continue;
            }
            if self.is_late(under) {
                self.unlock(lock, 0)?;
                return Ok(false);
            }
            // The parent must not be written once another client may update it from the record.
            lock.bind(under);
            let children: Vec<GlobalAddress> = parent.child_addresses().collect();
            let Some(position) = children.iter().position(|&child| child == leaf) else {
                // Another client has done this.
                self.unlock(lock, 0)?;
                return Ok(false);
            };
            parent.replace_child(position, moved.right);
            parent.count_node_write();
            if let Some(left) = position.checked_sub(1) {
                let leaves = [children[left], leaf, moved.right];
                if self.lead_past(address, lock, &parent, leaves).await? {
                    return Ok(true);
                }
                self.tree.endpoint.sleep(BACK_OFF).await;
                continue;
            }
            // The leaf to the left has another parent, which expects the moved leaf.
            let is_first = is_empty_key(parent.low_fence());
            let writes = self.internal_writes(address, &parent);
            if self.commit(lock, &writes, 0).await?.is_ok() {
                self.keep(address, &parent);
                return Ok(is_first);
            }
        }
    }

    /// Makes the copy of a moved leaf the root in place of it. Returns false if it was not the
    /// root, or if another client may hold its lock.
    async fn swing_root_leaf(
        &self,
        root: ChimeRoot,
        leaf: GlobalAddress,
        copy: GlobalAddress,
        under: &ChimeNodeLock<'_>,
    ) -> Result<bool, PoolError> {
        if root.address != leaf {
            return Ok(false);
        }
        // Only the holder of this leaf's lock changes the word, and the address is not used again
        // before the leaf is retired.
        let after = ChimeRoot {
            address: copy,
            ..root
        };
        let (before, after) = (root.to_word(), after.to_word());
        let mut swap = [FabricVerb::compare_swap(self.tree.root, before, after)];
        let is_posted = self.post_under(under, &mut swap).await?;
        Ok(is_posted && swap[0].found() == Some(before))
    }

    /// Writes a changed parent, whose lock is held, and makes the leaf `left`, which led to
    /// `former`, lead to `copy`, by one commit. Returns false if nothing was changed.
    async fn lead_past(
        &self,
        address: GlobalAddress,
        mut lock: ChimeNodeLock<'_>,
        parent: &InternalNode,
        [left, former, copy]: [GlobalAddress; 3],
    ) -> Result<bool, PoolError> {
        if self.is_lost(left) || !Check::MovedSiblings.is_made() {
            // A repair replaces a lost leaf by one that leads to the parent's next child.
            let writes = self.internal_writes(address, parent);
            return Ok(self.commit(lock, &writes, 0).await?.is_ok());
        }
        let Some(word) = forward(address) else {
            self.unlock(lock, 0)?;
            return Err(PoolError::Damaged { at: address });
        };
        // The note comes before the lock of the leaf, so that this is released if the client dies.
        let note = RecoveryStep::Children(Children {
            level: 1,
            left,
            right: left,
        });
        let nothing = ChimeLockWrites::default();
        if self
            .commit_and_keep(&mut lock, &nothing, &note)
            .await?
            .is_err()
        {
            return Ok(false);
        }
        let (at, whole) = (self.leaf_at(left), self.tree.leaves.whole());
        let swap = MaskedSwap {
            expected: 0,
            compare_mask: HELD_BIT,
            desired: word,
            swap_mask: u64::MAX,
        };
        let mut buffers = Buffers::new(at, &whole, self.tree.has_counters);
        let mut verbs = vec![FabricVerb::Swap {
            at: at.lock(),
            swap,
            found: 0,
        }];
        let reads = buffers.targets().into_iter();
        verbs.extend(reads.map(|(from, into)| FabricVerb::Read { from, into }));
        if !self.post_under(&lock, &mut verbs).await? {
            return Ok(false);
        }
        // A swap without a result counts as one that found the lock held.
        let found = verbs[0].found().unwrap_or(HELD_BIT);
        drop(verbs);
        if !swap.succeeds(found) {
            self.unlock(lock, 0)?;
            // Its holder may have died, or wait for the lock of the parent.
            self.repair_leaf(left).await?;
            return Ok(false);
        }
        let mut leaf = PoolLeaf::new(self.tree.leaves);
        let is_read = buffers.take_in(&whole, &mut leaf);
        if !is_read || !leaf.is_valid(0) || leaf.sibling(0) != former {
            self.give_back(&lock, at, found).await?;
            self.unlock(lock, 0)?;
            return Ok(false);
        }
        leaf.set_sibling(copy);
        leaf.count_node_write();
        let mut writes = self.leaf_writes(left, &leaf, &whole, false);
        writes.extend(self.internal_writes(address, parent));
        if self
            .commit_and_keep(&mut lock, &writes, &note)
            .await?
            .is_err()
        {
            return Ok(false);
        }
        self.keep(address, parent);
        // The record must not contain the leaf's bytes any more, because other clients change it
        // after its release.
        if self
            .commit_and_keep(&mut lock, &nothing, &note)
            .await?
            .is_ok()
        {
            let word = self.tree.lock_words.of_leaf(&leaf, &lock).to_bits();
            self.give_back(&lock, at, word).await?;
            self.unlock(lock, 0)?;
        }
        Ok(true)
    }

    /// Makes a parent and its last leaf lead to the first leaf of the next parent, if that was
    /// moved. Returns false if one of them may have changed.
    async fn follows_first(
        &self,
        address: GlobalAddress,
        known: &InternalNode,
        key: &[u8],
        counts: &LeafDrainCounts,
    ) -> Result<bool, PoolError> {
        let right = known.sibling();
        if right.is_null() || self.is_lost(known.sibling_leftmost()) {
            return Ok(true);
        }
        let next = self.read_internal(right).await?;
        if !next.is_valid() || next.level() != PARENTS {
            return Ok(false);
        }
        if next.leftmost() == known.sibling_leftmost() {
            return Ok(true);
        }
        let (lock, mut parent) = self.lock_internal(address).await?;
        let (right, former) = (parent.sibling(), parent.sibling_leftmost());
        let last = parent.child_addresses().last();
        let Some(last) = last.filter(|_| is_parent(&parent, key) && !right.is_null()) else {
            self.unlock(lock, 0)?;
            return Ok(false);
        };
        // The lock keeps the parent to the right from being merged with this one.
        let copy = self.read_internal(right).await?.leftmost();
        if copy == former {
            self.unlock(lock, 0)?;
            return Ok(false);
        }
        parent.set_sibling(right, copy);
        parent.count_node_write();
        let leaves = [last, former, copy];
        if self.lead_past(address, lock, &parent, leaves).await? {
            counts.followed.set(counts.followed.get() + 1);
            let (lock, leaf) = self.lock_whole(former).await?;
            if leaf.is_valid(0) && leaf.occupied().next().is_none() {
                self.retire_moved(former, lock, leaf).await?;
            } else {
                let word = self.free_word(&lock, &leaf);
                self.unlock(lock, word)?;
            }
        }
        Ok(false)
    }
}
