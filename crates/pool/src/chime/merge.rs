//! Merging of neighbours that are nearly empty, so that deleted entries use no memory. Not in the
//! paper.
//!
//! Two children of one parent are merged under the parent's lock. The children's locks are taken on
//! the parent's behalf ([`forward`]), so that one record names all changes. Each child's lock is
//! tried once and not waited for: a client that divides a child holds the child's lock while it
//! waits for the parent's, so waiting could deadlock. All entries go to the left child, because
//! other nodes hold the right child's address. The right child stays, marked as invalid, for
//! clients that reach it through a cached parent.

use super::lock::{ChimeLockWrites, ChimeNodeLock};
use super::node_io::{Buffers, NodeAt};
use super::recovery_step::{Children, RecoveryStep};
use super::root::{ChimeRoot, NODE_MAX};
use super::route::LevelSearchResult;
use super::session::ChimeSession;
use crate::cache::CacheableNode;
use crate::error::PoolError;
use crate::hopscotch;
use crate::layout::{InternalNode, LockWord, PoolLeaf};
use nearfield_fabric::recovery::lease::{HELD_BIT, forward};
use nearfield_fabric::{Endpoint, FabricError, FabricVerb, GlobalAddress, MaskedSwap};

/// Percentage in use up to which a node is merged with a neighbour.
const LOW_PERCENT: usize = 25;
/// Percentage of one node in use up to which two are merged, so that the result is not divided
/// again soon.
const MERGED_PERCENT: usize = 60;

/// The merge of two children.
struct Merger {
    writes: ChimeLockWrites,
    /// The word in the left child's lock afterwards.
    word: u64,
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Returns true if a leaf whose lock has held this word is nearly empty.
    pub(super) fn is_nearly_empty(&self, word: LockWord) -> bool {
        let occupied = self.tree.lock_words.occupied(word);
        self.tree.owner.is_some() && occupied * 100 <= self.tree.leaves.span() * LOW_PERCENT
    }

    /// Returns true if a leaf whose lock has held this word, and from which one entry was removed,
    /// may be worth merging.
    pub(super) fn is_low(&self, word: LockWord) -> bool {
        let occupied = self.tree.lock_words.occupied(word);
        self.is_nearly_empty(word)
            // A neighbour may have no room for long, so only one in some removals tries again.
            && occupied.is_multiple_of((self.tree.leaves.span() / 16).max(1))
    }

    /// Merges the leaf of a removed key with a neighbour, if they have the same parent and one has
    /// room for both; then it merges parents that have become nearly empty.
    pub(super) async fn merge(&self, key: &[u8]) -> Result<(), PoolError> {
        match self.merge_levels(key).await {
            // The removal is done, and a neighbour may be on a lost node.
            Err(PoolError::Fabric(
                FabricError::NodeLost { .. } | FabricError::NoSuchNode { .. },
            )) => Ok(()),
            merged => merged,
        }
    }

    async fn merge_levels(&self, key: &[u8]) -> Result<(), PoolError> {
        let mut level = 1;
        loop {
            let address = match self.seek_at(key, level + 1) {
                Some(kept) => kept.address(),
                None => match self.find_node(key, level + 1).await? {
                    LevelSearchResult::Node(parent) => parent.address(),
                    LevelSearchResult::Below(_) => return Ok(()),
                },
            };
            if !self.merge_below(address, key, level).await? {
                return Ok(());
            }
            level += 1;
        }
    }

    /// Merges two children of the node at `address`. Returns true if that node has become nearly
    /// empty.
    async fn merge_below(
        &self,
        address: GlobalAddress,
        key: &[u8],
        level: u8,
    ) -> Result<bool, PoolError> {
        // The parent's lock keeps others from merging these children meanwhile.
        let (mut lock, mut parent) = self.lock_internal(address).await?;
        if !parent.is_valid() || parent.level() != level + 1 || !parent.covers(key) {
            self.unlock(lock, 0)?;
            self.forget_node(key, level + 1);
            return Ok(false);
        }
        let (Some(pair), Some(word)) = (pair_of(&parent, key), forward(address)) else {
            // A parent with one child is nearly empty itself, so its own level is tried next.
            self.unlock(lock, 0)?;
            return Ok(true);
        };
        let has = |child: GlobalAddress| self.tree.endpoint.is_reachable(child.node());
        if !has(pair.left) || !has(pair.right) {
            // The locks of children on a lost node cannot be taken, and their entries are lost.
            self.unlock(lock, 0)?;
            return Ok(false);
        }
        let children = Children {
            level,
            left: pair.left,
            right: pair.right,
        };
        // The note comes before the locks of the children, so that these are released if this
        // client dies.
        let note = RecoveryStep::Children(children);
        if self
            .commit_and_keep(&mut lock, &ChimeLockWrites::default(), &note)
            .await?
            .is_err()
        {
            return Ok(false);
        }
        let Some(mut merger) = self.try_merger(&lock, &pair, level, word).await? else {
            self.unlock(lock, 0)?;
            return Ok(false);
        };
        parent.remove(pair.index);
        parent.count_node_write();
        merger.writes.extend(self.internal_writes(address, &parent));
        let note = RecoveryStep::Merged(children);
        let writes = &merger.writes;
        if self
            .commit_and_keep(&mut lock, writes, &note)
            .await?
            .is_err()
        {
            return Ok(false);
        }
        // The record must not contain the children's bytes any more, because other clients change
        // the children after their release.
        let (nothing, note) = (ChimeLockWrites::default(), RecoveryStep::Children(children));
        if self
            .commit_and_keep(&mut lock, &nothing, &note)
            .await?
            .is_err()
        {
            return Ok(false);
        }
        // If another client holds the lock by now, it releases these.
        for (child, word) in [(pair.right, 0), (pair.left, merger.word)] {
            self.give_back(&lock, self.child_at(child, level), word)
                .await?;
        }
        let bytes = self.child_at(pair.right, level).bytes();
        let root = ChimeRoot {
            level: level + 1,
            address,
        };
        // Other nodes with one child are merged with a neighbour; the root has none.
        if parent.count() == 0 && self.read_root().await? == root {
            if self.lower(root, lock, parent).await? {
                self.retire(pair.right, bytes).await?;
            }
            return Ok(false);
        }
        // Another client that finds the record still reads the right child.
        if self.give_back_at_once(lock, 0)? {
            self.retire(pair.right, bytes).await?;
        }
        Ok(parent.count() * 100 <= self.tree.internals.span() * LOW_PERCENT)
    }

    /// Takes the locks of two children, and returns the writes. If the children cannot be merged,
    /// releases the locks.
    async fn try_merger(
        &self,
        lock: &ChimeNodeLock<'_>,
        pair: &AdjacentChildren,
        level: u8,
        word: u64,
    ) -> Result<Option<Merger>, PoolError> {
        let nodes = [
            self.child_at(pair.left, level),
            self.child_at(pair.right, level),
        ];
        let whole = if level == 1 {
            self.tree.leaves.whole()
        } else {
            self.tree.internals.whole()
        };
        let mut buffers = nodes.map(|node| Buffers::new(node, &whole, self.tree.has_counters));
        let swap = MaskedSwap {
            expected: 0,
            compare_mask: HELD_BIT,
            desired: word,
            swap_mask: u64::MAX,
        };
        let mut verbs = Vec::new();
        let mut swaps = Vec::new();
        for (node, buffers) in nodes.iter().zip(&mut buffers) {
            swaps.push(verbs.len());
            let at = node.lock();
            verbs.push(FabricVerb::Swap { at, swap, found: 0 });
            let reads = buffers.targets().into_iter();
            verbs.extend(reads.map(|(from, into)| FabricVerb::Read { from, into }));
        }
        if !self.post_under(lock, &mut verbs).await? {
            return Ok(None);
        }
        // A swap without a result counts as one that found the lock held.
        let found = swaps
            .iter()
            .map(|&at| verbs[at].found().unwrap_or(HELD_BIT));
        let found: Vec<u64> = found.collect();
        drop(verbs);
        if found.iter().all(|&found| swap.succeeds(found)) {
            let merger = if level == 1 {
                self.merged_leaves(pair, &buffers, lock)
            } else {
                self.merged_internals(pair, &buffers)
            };
            if merger.is_some() {
                return Ok(merger);
            }
        }
        for (node, found) in nodes.iter().zip(found) {
            if swap.succeeds(found) {
                self.give_back(lock, *node, found).await?;
            }
        }
        Ok(None)
    }

    fn merged_leaves(
        &self,
        pair: &AdjacentChildren,
        buffers: &[Buffers; 2],
        lock: &ChimeNodeLock<'_>,
    ) -> Option<Merger> {
        let whole = self.tree.leaves.whole();
        let read = |buffers: &Buffers| {
            let mut leaf = PoolLeaf::new(self.tree.leaves);
            buffers.take_in(&whole, &mut leaf).then_some(leaf)
        };
        let (mut left, mut right) = (read(&buffers[0])?, read(&buffers[1])?);
        let occupied = left.occupied().count() + right.occupied().count();
        // A child may have been divided without the parent knowing: then the two are not
        // neighbours.
        let fits = left.is_valid(0)
            && right.is_valid(0)
            && left.sibling(0) == pair.right
            && occupied * 100 <= self.tree.leaves.span() * MERGED_PERCENT;
        if !fits || hopscotch::merge(&mut left, &right).is_err() {
            return None;
        }
        // A speculative read of one entry sees no metadata. So the right leaf is emptied as well,
        // because its keys change elsewhere from here on.
        hopscotch::retire(&mut right);
        let mut writes = self.leaf_writes(pair.left, &left, &whole, false);
        writes.extend(self.leaf_writes(pair.right, &right, &whole, false));
        Some(Merger {
            writes,
            word: self.tree.lock_words.of_leaf(&left, lock).to_bits(),
        })
    }

    fn merged_internals(&self, pair: &AdjacentChildren, buffers: &[Buffers; 2]) -> Option<Merger> {
        let mut left = self.decode_internal(&buffers[0])?;
        let mut right = self.decode_internal(&buffers[1])?;
        let count = left.count() + right.count() + 1;
        let fits = left.is_valid()
            && right.is_valid()
            && left.sibling() == pair.right
            // Otherwise a drain has moved the right one's first leaf, and the leaf to the left
            // still leads to the former place.
            && left.sibling_leftmost() == right.leftmost()
            && count * 100 <= self.tree.internals.span() * MERGED_PERCENT;
        if !fits || left.merge(&pair.separator, &right).is_err() {
            return None;
        }
        left.count_node_write();
        right.set_valid(false);
        right.count_node_write();
        let mut writes = self.internal_writes(pair.left, &left);
        writes.extend(self.internal_writes(pair.right, &right));
        Some(Merger { writes, word: 0 })
    }

    /// Makes the only child of the root the root. Returns false if another client got the lock
    /// before its release.
    async fn lower(
        &self,
        root: ChimeRoot,
        mut lock: ChimeNodeLock<'_>,
        mut node: InternalNode,
    ) -> Result<bool, PoolError> {
        // The former root becomes invalid in the record that names the swing of the root word. So
        // if this client dies between the two, another makes the swing.
        let child = node.leftmost();
        check_root(child, root.address)?;
        node.set_valid(false);
        node.count_node_write();
        let writes = self.internal_writes(root.address, &node);
        let note = RecoveryStep::Lowered {
            level: root.level,
            child,
        };
        if self
            .commit_and_keep(&mut lock, &writes, &note)
            .await?
            .is_ok()
        {
            self.swing_root(root, child, &lock).await?;
            if self.give_back_at_once(lock, 0)? {
                let bytes = self.internal_at(root.address).bytes();
                self.retire(root.address, bytes).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a child of the root the root, unless another node is the root already. The root is no
    /// leaf.
    pub(super) async fn swing_root(
        &self,
        former: ChimeRoot,
        child: GlobalAddress,
        lock: &ChimeNodeLock<'_>,
    ) -> Result<(), PoolError> {
        check_root(child, former.address)?;
        debug_assert!(former.level > 1, "a note of another level names no step");
        let root = ChimeRoot {
            level: former.level - 1,
            address: child,
        };
        // A swap, because a client that repeats this step may come after the root has grown again.
        let (before, after) = (former.to_word(), root.to_word());
        let mut swap = [FabricVerb::compare_swap(self.tree.root, before, after)];
        // If another client holds the lock by now, it makes the swap.
        self.post_under(lock, &mut swap).await?;
        Ok(())
    }

    /// Releases the locks of children that may be held on behalf of the node at `address`, whose
    /// lock is held.
    pub(super) async fn give_back_children(
        &self,
        address: GlobalAddress,
        children: Children,
        lock: &ChimeNodeLock<'_>,
    ) -> Result<(), PoolError> {
        for child in [children.right, children.left] {
            let child = self.child_at(child, children.level);
            self.give_back_child(address, child, lock).await?;
        }
        Ok(())
    }

    /// Releases the lock of a child that is held on behalf of a node whose merger was abandoned,
    /// even without a record: a record that replaces another may be torn.
    pub(super) async fn give_back_orphan(
        &self,
        address: GlobalAddress,
        child: NodeAt,
    ) -> Result<(), PoolError> {
        // Taking the lock finishes the dead client's change, if it was begun.
        let lock = Box::pin(self.lock(self.internal_at(address), &mut [])).await?;
        self.give_back_child(address, child, &lock).await?;
        self.unlock(lock, 0)
    }

    async fn give_back_child(
        &self,
        address: GlobalAddress,
        child: NodeAt,
        lock: &ChimeNodeLock<'_>,
    ) -> Result<(), PoolError> {
        if !self.tree.endpoint.is_reachable(child.lock().node()) {
            // The lock is lost with its node, and must not keep others from that of the parent.
            return Ok(());
        }
        let mut found = [0; 8];
        self.tree.endpoint.read(child.lock(), &mut found).await?;
        // The lock may be free, or in the hands of another client, since the record was written.
        if Some(u64::from_le_bytes(found)) != forward(address) {
            return Ok(());
        }
        // The merger may have changed one replica of the child only.
        self.align(lock, child).await?;
        // The former word is lost, so the word of a leaf is made from its content.
        let free = if child.is_leaf {
            let whole = self.tree.leaves.whole();
            let read = Box::pin(self.read_leaf(child.address, &whole)).await?;
            self.tree.lock_words.of_leaf(&read, lock).to_bits()
        } else {
            0
        };
        self.give_back(lock, child, free).await
    }

    /// Releases the lock of a child, which is held on behalf of its parent. The parent's lock is
    /// held.
    pub(super) async fn give_back(
        &self,
        parent: &ChimeNodeLock<'_>,
        child: NodeAt,
        word: u64,
    ) -> Result<(), PoolError> {
        let word = word.to_le_bytes();
        let mut verbs = [FabricVerb::Write {
            to: child.lock(),
            bytes: &word,
        }];
        self.post_under(parent, &mut verbs).await?;
        Ok(())
    }

    fn child_at(&self, address: GlobalAddress, level: u8) -> NodeAt {
        if level == 1 {
            self.leaf_at(address)
        } else {
            self.internal_at(address)
        }
    }
}

/// Refuses a child of the node at `of` that the root word cannot name: a damaged pointer.
fn check_root(child: GlobalAddress, of: GlobalAddress) -> Result<(), PoolError> {
    if child.node().0 > NODE_MAX {
        return Err(PoolError::Damaged { at: of });
    }
    Ok(())
}

/// Two adjacent children of a node.
struct AdjacentChildren {
    left: GlobalAddress,
    right: GlobalAddress,
    /// Index of the entry of the right one.
    index: usize,
    separator: Box<[u8]>,
}

/// Returns the child that a key leads to and the one to its right, or to its left if it is the
/// last.
fn pair_of(parent: &InternalNode, key: &[u8]) -> Option<AdjacentChildren> {
    let count = parent.count();
    let position = (0..count)
        .take_while(|&index| parent.separator(index) <= key)
        .count();
    let index = position.min(count.checked_sub(1)?);
    let left = match index {
        0 => parent.leftmost(),
        _ => parent.child(index - 1),
    };
    Some(AdjacentChildren {
        left,
        right: parent.child(index),
        index,
        separator: parent.separator(index).into(),
    })
}
