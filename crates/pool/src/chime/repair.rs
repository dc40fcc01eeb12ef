//! Repair after the loss of a memory node: its leaves are replaced by empty ones on other nodes.
//! Not in the paper.
//!
//! The parents of leaves are repaired from left to right, each until it and its leaves are whole:
//!
//! 1. If the first leaf below the parent to the right was replaced, this parent expects the new
//!    one.
//! 2. Under the parent's lock all its lost children are replaced by one commit. Each new leaf leads
//!    to the next child.
//! 3. A leaf that still leads to a lost one gets the next child as its sibling, under its own lock.
//!    The parent's lock is free by then: a client that divides a leaf holds the leaf's lock while
//!    it waits for the parent's.
//!
//! A parent therefore expects a new leaf before the leaf to the left leads there. Meanwhile a
//! reader follows the former sibling, and its operation fails with `NodeLost` as before.
//!
//! A dead client may have recorded a change that links a lost leaf, and the next client that takes
//! the lock would complete it. So a lock that is held is taken and released once. Each step does
//! nothing where it was done before, so a repair may die anywhere, and several may run at once.

use super::node_io::Buffers;
use super::root::ChimeRoot;
use super::route::LevelSearchResult;
use super::session::ChimeSession;
use super::{BACK_OFF, ChimeTree};
use crate::cache::CacheableNode;
use crate::canary::Check;
use crate::error::PoolError;
use crate::layout::{InternalNode, LockWord, PoolLeaf};
use nearfield_fabric::recovery::lease::HELD_BIT;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use std::cell::Cell;

/// The level of the parents of leaves.
pub(super) const PARENTS: u8 = 2;
/// Maximum number of leaves that are looked at by one post.
const LEAVES_MAX: usize = 32;
/// Number of times that one parent is repaired. Each time a client has changed it or a leaf of it,
/// or a dead client's change was completed.
const TRIES_MAX: u32 = 1000;

/// The changes of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostLeafRepair {
    /// Number of lost leaves that were replaced by empty ones.
    pub leaves: usize,
    /// Number of leaves that led to a lost one, and lead to its successor.
    pub links: usize,
}

/// The counts of a repair in progress.
#[derive(Debug, Default)]
struct LeafRepairCounts {
    leaves: Cell<usize>,
    links: Cell<usize>,
}

/// The continuation of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LeafRepairStep {
    /// The parent of this key is next.
    Next(Vec<u8>),
    /// The same parent is looked at again.
    Again,
    End,
}

impl LeafRepairCounts {
    fn add(count: &Cell<usize>, more: usize) {
        count.set(count.get() + more);
    }
}

impl LeafRepairStep {
    /// Returns the step to the parent on the right of one that is whole.
    fn after(parent: &InternalNode) -> LeafRepairStep {
        if parent.sibling().is_null() {
            LeafRepairStep::End
        } else {
            LeafRepairStep::Next(parent.high_fence().to_vec())
        }
    }
}

impl<E: Endpoint> ChimeTree<E> {
    /// Replaces the leaves on nodes that the endpoint cannot reach by empty ones on other nodes.
    /// Their keys are absent then, instead of failing. Other clients may work meanwhile, and repair
    /// too. Nothing is done to a tree without lost leaves.
    ///
    /// The nodes must be lost to all clients, and must not come back with their memory: a client
    /// that reaches one would read and write its former leaves. A cached parent may lead to a lost
    /// leaf until its client [forgets it](ChimeTree::forget_routes). When this returns, no
    /// operation caches a parent that it has read before the repair.
    ///
    /// # Errors
    /// `Leaseless` if locks have no leases; `Damaged` if a parent does not become whole; the nodes'
    /// errors, also if an inner node is lost, or another node is lost meanwhile. What was repaired
    /// stays so, and another call continues.
    pub async fn replace_lost_leaves(&self) -> Result<LostLeafRepair, PoolError> {
        if self.owner.is_none() {
            return Err(PoolError::Leaseless);
        }
        // A client that has divided a lost leaf may enter the right half into the parent until the
        // lease of its lock expires.
        self.endpoint.sleep(2 * self.lease).await;
        let counts = LeafRepairCounts::default();
        let mut key = vec![0; self.leaves.geometry().shape().key_bytes];
        let mut tries = 0;
        loop {
            let step = self
                .run(async |session| session.repair_parent(&key, &counts).await)
                .await?;
            match step {
                LeafRepairStep::End => break,
                LeafRepairStep::Next(next) => {
                    key = next;
                    tries = 0;
                }
                LeafRepairStep::Again => {
                    tries += 1;
                    if tries > TRIES_MAX {
                        return Err(PoolError::Damaged { at: self.root });
                    }
                    self.endpoint.sleep(BACK_OFF).await;
                }
            }
        }
        let sessions = self.header.session_lease(self.lease);
        self.endpoint.sleep(sessions).await;
        Ok(LostLeafRepair {
            leaves: counts.leaves.get(),
            links: counts.links.get(),
        })
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Makes one step of the repair of the parent of a key's leaf.
    async fn repair_parent(
        &self,
        key: &[u8],
        counts: &LeafRepairCounts,
    ) -> Result<LeafRepairStep, PoolError> {
        let address = match self.find_node(key, PARENTS).await? {
            LevelSearchResult::Node(parent) => parent.address(),
            LevelSearchResult::Below(root) => return self.repair_root_leaf(root, counts).await,
        };
        let parent = self.read_internal(address).await?;
        if !is_parent(&parent, key) || !self.expects_next(address, &parent, key, counts).await? {
            return Ok(LeafRepairStep::Again);
        }
        if self.count_lost(&parent) > 0 {
            self.replace_children(address, key, counts).await?;
            return Ok(LeafRepairStep::Again);
        }
        Ok(match self.are_linked(&parent, key, counts).await? {
            true => LeafRepairStep::after(&parent),
            false => LeafRepairStep::Again,
        })
    }

    /// Repairs the leaf that is the root.
    async fn repair_root_leaf(
        &self,
        root: ChimeRoot,
        counts: &LeafRepairCounts,
    ) -> Result<LeafRepairStep, PoolError> {
        if self.is_lost(root.address) {
            let address = self.allocate(self.leaf_at(GlobalAddress::NULL)).await?;
            self.write_empty_leaf(address, GlobalAddress::NULL, None)
                .await?;
            let (before, after) = (root.to_word(), ChimeRoot { address, ..root }.to_word());
            // The address of a lost leaf is not used again, so the word changes once.
            let swap = self
                .tree
                .endpoint
                .compare_swap(self.tree.root, before, after);
            if swap.await? == before {
                LeafRepairCounts::add(&counts.leaves, 1);
            } else {
                self.retire(address, self.leaf_at(address).bytes()).await?;
            }
            return Ok(LeafRepairStep::Again);
        }
        // This completes the division of a dead client, and waits for that of a living one.
        self.repair_leaf(root.address).await?;
        let head = self.tree.leaves.single_entry(0);
        let leaf = self.read_leaf(root.address, &head).await?;
        Ok(match leaf.is_valid(0) && leaf.sibling(0).is_null() {
            true => LeafRepairStep::End,
            false => LeafRepairStep::Again,
        })
    }

    /// Makes a parent expect the first leaf below the parent to its right. Returns false if one of
    /// them may have changed.
    async fn expects_next(
        &self,
        address: GlobalAddress,
        parent: &InternalNode,
        key: &[u8],
        counts: &LeafRepairCounts,
    ) -> Result<bool, PoolError> {
        let right = parent.sibling();
        if right.is_null() {
            return Ok(true);
        }
        let next = self.read_internal(right).await?;
        if !next.is_valid() || next.level() != PARENTS {
            return Ok(false);
        }
        if self.is_lost(next.leftmost()) {
            self.replace_children(right, parent.high_fence(), counts)
                .await?;
            return Ok(false);
        }
        // A drain that moves the first leaf makes both this parent and its last leaf lead there.
        let former = parent.sibling_leftmost();
        if next.leftmost() == former || !self.is_lost(former) {
            return Ok(true);
        }
        let (lock, mut parent) = self.lock_internal(address).await?;
        let right = parent.sibling();
        if !is_parent(&parent, key) || right.is_null() {
            self.unlock(lock, 0)?;
            return Ok(false);
        }
        // The lock keeps the parent to the right from being merged with this one.
        let leftmost = self.read_internal(right).await?.leftmost();
        if self.is_lost(leftmost) || !self.is_lost(parent.sibling_leftmost()) {
            self.unlock(lock, 0)?;
            return Ok(false);
        }
        parent.set_sibling(right, leftmost);
        parent.count_node_write();
        let writes = self.internal_writes(address, &parent);
        if self.commit(lock, &writes, 0).await?.is_ok() {
            self.keep(address, &parent);
        }
        Ok(false)
    }

    /// Replaces all lost leaves below a parent that covers a key, by one commit.
    async fn replace_children(
        &self,
        address: GlobalAddress,
        key: &[u8],
        counts: &LeafRepairCounts,
    ) -> Result<(), PoolError> {
        let lost = self.count_lost(&self.read_internal(address).await?);
        // Memory is allocated before the lock is taken, because a call to a node takes long.
        let mut spares = Vec::with_capacity(lost);
        for _ in 0..lost {
            spares.push(self.allocate(self.leaf_at(GlobalAddress::NULL)).await?);
        }
        let (lock, mut parent) = self.lock_internal(address).await?;
        let lost = self.count_lost(&parent);
        let mut used = 0;
        if is_parent(&parent, key) && (1..=spares.len()).contains(&lost) {
            self.put_empty_leaves(&mut parent, &spares[..lost]).await?;
            parent.count_node_write();
            let writes = self.internal_writes(address, &parent);
            if self.commit(lock, &writes, 0).await?.is_ok() {
                self.keep(address, &parent);
                used = lost;
            }
        } else {
            self.unlock(lock, 0)?;
        }
        LeafRepairCounts::add(&counts.leaves, used);
        for &spare in &spares[used..] {
            self.retire(spare, self.leaf_at(spare).bytes()).await?;
        }
        Ok(())
    }

    /// Writes an empty leaf for each lost child of a parent, and makes these the children in the
    /// copy of the parent.
    async fn put_empty_leaves(
        &self,
        parent: &mut InternalNode,
        memory: &[GlobalAddress],
    ) -> Result<(), PoolError> {
        let children: Vec<GlobalAddress> = parent.child_addresses().collect();
        let mut memory = memory.iter();
        // From the last one on, so that the leaf to the right of each is known.
        let mut next = parent.sibling_leftmost();
        for (position, &child) in children.iter().enumerate().rev() {
            if !self.is_lost(child) {
                next = child;
                continue;
            }
            let Some(&address) = memory.next() else {
                break;
            };
            let fences = fences_of(parent, position);
            self.write_empty_leaf(address, next, Some(&fences)).await?;
            parent.replace_child(position, address);
            next = address;
        }
        Ok(())
    }

    /// Writes an empty leaf to memory that no other client knows.
    async fn write_empty_leaf(
        &self,
        address: GlobalAddress,
        sibling: GlobalAddress,
        fences: Option<&[Vec<u8>; 2]>,
    ) -> Result<(), PoolError> {
        let mut leaf = PoolLeaf::new(self.tree.leaves);
        leaf.set_sibling(sibling);
        if let Some([low, high]) = fences {
            leaf.set_fences(low, high);
        }
        let (at, whole) = (self.leaf_at(address), self.tree.leaves.whole());
        let word = self.tree.lock_words.of_new(&leaf).to_bits();
        let writes = at.writes(&whole, leaf.encode(&whole));
        self.write_new(at, &writes, word).await
    }

    /// Makes each leaf below a parent, of which none is lost, lead to the next one if it leads to a
    /// lost one. Returns false if a leaf did not lead to the next one.
    async fn are_linked(
        &self,
        parent: &InternalNode,
        key: &[u8],
        counts: &LeafRepairCounts,
    ) -> Result<bool, PoolError> {
        let leaves = leaves_from(parent);
        let head = self.tree.leaves.single_entry(0);
        let pairs: Vec<[GlobalAddress; 2]> =
            leaves.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        for pairs in pairs.chunks(LEAVES_MAX) {
            let heads = self.read_heads(pairs).await?;
            for (&[leaf, next], (mut found, word)) in pairs.iter().zip(heads) {
                if word & HELD_BIT != 0 && Check::HeldLocks.is_made() {
                    // A dead holder may have recorded a change that is not made yet.
                    self.repair_leaf(leaf).await?;
                    found = self.read_leaf(leaf, &head).await?;
                }
                let sibling = found.sibling(0);
                if found.is_valid(0) && (sibling == next || !Check::LostSiblings.is_made()) {
                    continue;
                }
                if found.is_valid(0) && self.is_lost(sibling) {
                    self.relink(leaf, key, counts).await?;
                } else {
                    // The leaf is divided or merged by another client.
                    self.repair_leaf(leaf).await?;
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the first metadata and the lock word of the first leaf of each pair, with one
    /// notification of each node.
    async fn read_heads(
        &self,
        pairs: &[[GlobalAddress; 2]],
    ) -> Result<Vec<(PoolLeaf, u64)>, PoolError> {
        let head = self.tree.leaves.single_entry(0);
        let has_counters = self.tree.has_counters;
        let buffers = pairs
            .iter()
            .map(|[leaf, _]| Buffers::new(self.leaf_at(*leaf), &head, has_counters));
        let mut buffers: Vec<Buffers> = buffers.collect();
        let mut words = vec![[0_u8; 8]; pairs.len()];
        let mut verbs: Vec<FabricVerb<'_>> = Vec::new();
        for (([leaf, _], buffers), word) in pairs.iter().zip(&mut buffers).zip(&mut words) {
            let reads = buffers.targets().into_iter();
            verbs.extend(reads.map(|(from, into)| FabricVerb::Read { from, into }));
            let from = self.leaf_at(*leaf).lock();
            verbs.push(FabricVerb::Read { from, into: word });
        }
        self.tree.endpoint.post(&mut verbs).await?;
        drop(verbs);
        let mut heads = Vec::with_capacity(pairs.len());
        for (([leaf, _], buffers), word) in pairs.iter().zip(&buffers).zip(&words) {
            let mut found = PoolLeaf::new(self.tree.leaves);
            if !buffers.take_in(&head, &mut found) {
                self.note_torn(*leaf);
                found = self.read_leaf(*leaf, &head).await?;
            }
            heads.push((found, u64::from_le_bytes(*word)));
        }
        Ok(heads)
    }

    /// Makes a leaf lead to the next child of its parent, which covers a key, if it leads to a lost
    /// leaf.
    async fn relink(
        &self,
        address: GlobalAddress,
        key: &[u8],
        counts: &LeafRepairCounts,
    ) -> Result<(), PoolError> {
        // Once the lock is taken, all divisions of this leaf are in its parent.
        let (lock, mut leaf) = self.lock_whole(address).await?;
        let word = match lock.before {
            Some(word) => LockWord::from_bits(word),
            None => self.tree.lock_words.of_leaf(&leaf, &lock),
        };
        let next = self.next_leaf(address, key).await?;
        let next = next.filter(|&next| !self.is_lost(next));
        let Some(next) = next.filter(|_| leaf.is_valid(0) && self.is_lost(leaf.sibling(0))) else {
            return self.unlock(lock, word.to_bits());
        };
        leaf.set_sibling(next);
        leaf.count_node_write();
        let writes = self.leaf_writes(address, &leaf, &self.tree.leaves.whole(), false);
        let word = self.tree.lock_words.of_leaf(&leaf, &lock);
        if self.commit(lock, &writes, word.to_bits()).await?.is_ok() {
            LeafRepairCounts::add(&counts.links, 1);
        }
        Ok(())
    }

    /// Returns the leaf to the right of one below the parent that covers a key, as that parent
    /// knows it: null behind the last one. Returns `None` if the leaf is not below that parent.
    pub(super) async fn next_leaf(
        &self,
        leaf: GlobalAddress,
        key: &[u8],
    ) -> Result<Option<GlobalAddress>, PoolError> {
        let LevelSearchResult::Node(parent) = self.find_node(key, PARENTS).await? else {
            return Ok(None);
        };
        let parent = self.read_internal(parent.address()).await?;
        if !is_parent(&parent, key) {
            return Ok(None);
        }
        let leaves = leaves_from(&parent);
        let mut pairs = leaves.windows(2);
        let pair = pairs.find(|pair| pair[0] == leaf);
        Ok(pair.map(|pair| pair[1]))
    }

    fn count_lost(&self, parent: &InternalNode) -> usize {
        let children = parent.child_addresses();
        children.filter(|&child| self.is_lost(child)).count()
    }

    /// Returns true if a node is on a memory node that cannot be reached. One that was added after
    /// this client had connected may be served.
    pub(super) fn is_lost(&self, address: GlobalAddress) -> bool {
        let (tree, node) = (self.tree, address.node());
        !address.is_null() && tree.header.knows(node) && !tree.endpoint.is_reachable(node)
    }
}

/// Returns true if a node is the parent of a key's leaf.
pub(super) fn is_parent(node: &InternalNode, key: &[u8]) -> bool {
    node.is_valid() && node.level() == PARENTS && node.covers(key)
}

/// Returns the leaves below a parent, and the one behind them.
fn leaves_from(parent: &InternalNode) -> Vec<GlobalAddress> {
    let mut leaves: Vec<GlobalAddress> = parent.child_addresses().collect();
    leaves.push(parent.sibling_leftmost());
    leaves
}

/// Returns the fence keys of the child at a position.
pub(super) fn fences_of(parent: &InternalNode, position: usize) -> [Vec<u8>; 2] {
    let low = match position.checked_sub(1) {
        None => parent.low_fence(),
        Some(index) => parent.separator(index),
    };
    let high = if position < parent.count() {
        parent.separator(position)
    } else {
        parent.high_fence()
    };
    [low.to_vec(), high.to_vec()]
}
