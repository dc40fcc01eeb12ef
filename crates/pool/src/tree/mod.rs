//! A B+ tree in remote memory, by one-sided verbs: CHIME's search, insert and node split (sections
//! 4.1 to 4.3 of the paper) with fence keys in its leaves, and deletion of entries.
//!
//! Nodes know their right siblings and the keys that belong to them, so that whoever comes to a
//! node that was divided since goes right (a B-link tree): a split is done once its two nodes are
//! written, and its parent learns of it afterwards. Nobody waits to read.
//!
//! Clients of one compute node share a [`Cache`] of internal nodes, of which nobody is told when
//! they change: a stale one leads to a leaf left of the right one, and is forgotten then.
//!
//! What is not here yet: the use of the vacancy bitmap (an insert reads the whole leaf),
//! speculation, sibling-based validation, merging, scans, and recovery of the locks of dead clients.

mod internal;
mod kept;
mod leaf;
mod root;

use crate::cache::Cache;
use crate::error::PoolError;
use crate::layout::{Geometry, InternalLayout, LeafLayout, LockWordLayout, is_empty_key};
use nearfield_fabric::lease::HELD_BIT;
use nearfield_fabric::{Arena, Endpoint, GlobalAddress, LINE_BYTES, MaskedSwap, NodeId, Verb};
use std::sync::Arc;
use std::time::Duration;

pub use kept::CachedNode;

/// One client's view of a tree. Its tasks share it.
#[derive(Debug)]
pub struct Tree<E> {
    endpoint: E,
    /// The word that says where the root is.
    root: GlobalAddress,
    arena: Arena,
    cache: Arc<Cache<CachedNode>>,
    leaves: LeafLayout,
    internals: InternalLayout,
    lock_words: LockWordLayout,
}

/// What a client takes from a node at once, in bytes.
const CHUNK_BYTES: u64 = 1 << 16;
/// How long a client waits before it asks for a lock again that is held: about a round trip.
const BACK_OFF: Duration = Duration::from_micros(2);

impl<E: Endpoint> Tree<E> {
    /// Makes an empty tree whose root is found at the word `root`, which lies outside what nodes
    /// give out. To be called by one client, before others open it.
    ///
    /// # Errors
    /// What nodes answer.
    pub async fn create(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        geometry: Geometry,
        cache: Arc<Cache<CachedNode>>,
    ) -> Result<Tree<E>, PoolError> {
        let tree = Tree::open(endpoint, nodes, root, geometry, cache)?;
        tree.create_root().await?;
        Ok(tree)
    }

    /// Opens a tree that was made with the same sizes. The clients of a compute node share `cache`.
    ///
    /// # Errors
    /// `Lines`.
    pub fn open(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        geometry: Geometry,
        cache: Arc<Cache<CachedNode>>,
    ) -> Result<Tree<E>, PoolError> {
        let atomic = endpoint.atomic_bytes();
        if atomic < LINE_BYTES {
            return Err(PoolError::Lines { atomic });
        }
        Ok(Tree {
            endpoint,
            root,
            arena: Arena::new(nodes, CHUNK_BYTES),
            cache,
            leaves: LeafLayout::new(geometry),
            internals: InternalLayout::new(geometry),
            lock_words: LockWordLayout::new(geometry.shape().leaf_span),
        })
    }

    /// Reads the value of a key. One round trip if the leaf's parent is cached, and one more for an
    /// absent key.
    ///
    /// # Errors
    /// `Key`, and what nodes answer.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        let leaf = self.find(key, 1).await?;
        self.get_at(leaf, key).await
    }

    /// Sets the value of a key and answers the one before. Three round trips at the leaf.
    ///
    /// # Errors
    /// `Key`, `Value`, and what nodes answer.
    pub async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        let expected = self.leaves.geometry().shape().value_bytes;
        if value.len() != expected {
            let length = value.len();
            return Err(PoolError::Value { length, expected });
        }
        let leaf = self.find(key, 1).await?;
        self.insert_at(leaf, key, value).await
    }

    /// Removes a key and answers its value. Three round trips at the leaf.
    ///
    /// # Errors
    /// `Key`, and what nodes answer.
    pub async fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        let leaf = self.find(key, 1).await?;
        self.remove_at(leaf, key).await
    }

    fn check_key(&self, key: &[u8]) -> Result<(), PoolError> {
        let expected = self.leaves.geometry().shape().key_bytes;
        let length = key.len();
        if length != expected || is_empty_key(key) {
            return Err(PoolError::Key { length, expected });
        }
        Ok(())
    }

    /// Takes the lock of a node, by spinning with the paper's masked swap: all bits are set.
    async fn lock(&self, word: GlobalAddress) -> Result<(), PoolError> {
        let swap = MaskedSwap {
            expected: 0,
            compare_mask: HELD_BIT,
            desired: u64::MAX,
            swap_mask: u64::MAX,
        };
        loop {
            let mut verbs = [Verb::Swap {
                at: word,
                swap,
                found: 0,
            }];
            self.endpoint.post(&mut verbs).await?;
            if verbs[0].found().is_some_and(|found| swap.succeeds(found)) {
                return Ok(());
            }
            self.endpoint.sleep(BACK_OFF).await;
        }
    }

    /// Gives a lock back; `word` is what lies in it while it is free.
    fn unlock(&self, at: GlobalAddress, word: u64) -> Result<(), PoolError> {
        let bytes = word.to_le_bytes();
        Ok(self.endpoint.write_unsignalled(at, &bytes)?)
    }
}
