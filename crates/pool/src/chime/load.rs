//! Sorted loads: a new tree is filled with entries in ascending order. Not in the paper.
//!
//! Each node is written once, in one round trip, level by level and from left to right. Nodes are
//! filled to a chosen share, where random inserts leave about three fifths of a leaf in use. No
//! other client knows the tree before the root word leads to it, so no lock is taken, and nothing
//! is recorded.

use super::ChimeTree;
use super::options::ChimeComputeNode;
use super::root::ChimeRoot;
use crate::error::PoolError;
use crate::hopscotch;
use crate::layout::{InternalNode, PoolLeaf};
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use std::sync::Arc;

/// Minimum number of children of a full internal node, so that each has two or more.
const CHILDREN_MIN: usize = 3;

/// A node with memory, but maybe without content.
struct LoadedNode {
    /// The least key that may be below it.
    least: Vec<u8>,
    address: GlobalAddress,
}

impl<E: Endpoint> ChimeTree<E> {
    /// Creates a tree like [`create`](ChimeTree::create), with entries in ascending order of their
    /// keys. Leaves and internal nodes are filled to `percent`, or as far as a leaf's hash table
    /// has room.
    ///
    /// # Errors
    /// As [`create`](ChimeTree::create); `Key`, `Value`, and `Unsorted` if a key is not greater
    /// than the one before it.
    ///
    /// # Panics
    /// If `percent` is not 1 to 100.
    pub async fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<ChimeComputeNode>,
        entries: impl IntoIterator<Item = (K, V)>,
        percent: usize,
    ) -> Result<ChimeTree<E>, PoolError> {
        assert!((1..=100).contains(&percent), "nodes are filled to a share");
        let tree = ChimeTree::begin(endpoint, nodes, root, node).await?;
        let mut below = tree.load_leaves(entries, percent).await?;
        let mut level = 1;
        while below.len() > 1 {
            level += 1;
            below = tree.load_internals(&below, level, percent).await?;
        }
        // The tree is whole before the word leads other clients to it.
        let root = ChimeRoot {
            level,
            address: below[0].address,
        };
        let word = root.to_word().to_le_bytes();
        tree.endpoint.write(tree.root, &word).await?;
        Ok(tree)
    }

    /// Writes the leaves, and returns them; without entries there is an empty one.
    async fn load_leaves<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
        percent: usize,
    ) -> Result<Vec<LoadedNode>, PoolError> {
        let entries_max = (self.leaves.span() * percent / 100).max(1);
        let mut loaded = Vec::new();
        let mut node = self.new_leaf(self.zero_key()).await?;
        let (mut leaf, mut count) = (PoolLeaf::new(self.leaves), 0);
        let mut last = Vec::new();
        for (position, (key, value)) in entries.into_iter().enumerate() {
            let (key, value) = (key.as_ref(), value.as_ref());
            self.check_key(key)?;
            self.check_value(value)?;
            // The first key is greater than the empty string, because no key is empty.
            if *last >= *key {
                let position = position as u64;
                return Err(PoolError::Unsorted { position });
            }
            last.clear();
            last.extend_from_slice(key);
            let all = self.leaves.all_slots(key);
            if count == entries_max || hopscotch::insert(&mut leaf, all, key, value).is_err() {
                // A leaf names the next one, so it is written once that has an address.
                let next = self.new_leaf(key.to_vec()).await?;
                self.write_leaf(&node, leaf, Some(&next)).await?;
                loaded.push(std::mem::replace(&mut node, next));
                (leaf, count) = (PoolLeaf::new(self.leaves), 0);
                let inserted = hopscotch::insert(&mut leaf, all, key, value);
                debug_assert!(inserted.is_ok(), "an empty leaf has room");
            }
            count += 1;
        }
        self.write_leaf(&node, leaf, None).await?;
        loaded.push(node);
        Ok(loaded)
    }

    /// Writes the parents of nodes, which are those of this level, and returns them.
    async fn load_internals(
        &self,
        below: &[LoadedNode],
        level: u8,
        percent: usize,
    ) -> Result<Vec<LoadedNode>, PoolError> {
        let span = self.internals.span();
        let children_max = ((span + 1) * percent / 100).clamp(CHILDREN_MIN, span + 1);
        let count = below.len().div_ceil(children_max);
        // All have the same number of children, or one more, so that the last one is no worse.
        let start = |number: usize| number * below.len() / count;
        let mut loaded = Vec::with_capacity(count);
        for number in 0..count {
            let session = self.session().await?;
            let at = session.internal_at(GlobalAddress::NULL);
            loaded.push(LoadedNode {
                least: below[start(number)].least.clone(),
                address: session.allocate(at).await?,
            });
        }
        for (number, parent) in loaded.iter().enumerate() {
            let children = &below[start(number)..start(number + 1)];
            let mut node = InternalNode::new(self.internals, level, children[0].address);
            for child in &children[1..] {
                let inserted = node.insert(&child.least, child.address);
                debug_assert!(inserted.is_ok(), "a node has room for its share");
            }
            match loaded.get(number + 1) {
                Some(next) => {
                    node.set_fences(&parent.least, &next.least);
                    node.set_sibling(next.address, below[start(number + 1)].address);
                }
                None => node.set_fences(&parent.least, &self.zero_key()),
            }
            let session = self.session().await?;
            let writes = session.internal_writes(parent.address, &node).writes;
            let at = session.internal_at(parent.address);
            session.write_new(at, &writes, 0).await?;
        }
        Ok(loaded)
    }

    /// Allocates a leaf for keys from `least` on.
    async fn new_leaf(&self, least: Vec<u8>) -> Result<LoadedNode, PoolError> {
        // A session for each node, because a long one would delay the epochs of the compute node.
        let session = self.session().await?;
        let at = session.leaf_at(GlobalAddress::NULL);
        let address = session.allocate(at).await?;
        Ok(LoadedNode { least, address })
    }

    /// Writes a leaf with the next one as its sibling.
    async fn write_leaf(
        &self,
        node: &LoadedNode,
        mut leaf: PoolLeaf,
        next: Option<&LoadedNode>,
    ) -> Result<(), PoolError> {
        match next {
            Some(next) => {
                leaf.set_fences(&node.least, &next.least);
                leaf.set_sibling(next.address);
            }
            None => leaf.set_fences(&node.least, &self.zero_key()),
        }
        let session = self.session().await?;
        let (at, whole) = (session.leaf_at(node.address), self.leaves.whole());
        let word = self.lock_words.of_new(&leaf).to_bits();
        let writes = at.writes(&whole, leaf.encode(&whole));
        session.write_new(at, &writes, word).await
    }

    /// Returns the fence of the first and the last nodes.
    fn zero_key(&self) -> Vec<u8> {
        vec![0; self.leaves.geometry().shape().key_bytes]
    }
}
