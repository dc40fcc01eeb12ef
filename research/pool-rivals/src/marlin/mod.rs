//! Marlin (ICPP 2023): a B+ tree for keys and values of any length in remote memory, whose inserts,
//! updates and removals of one leaf do not exclude each other. CHIME's paper compares it in its
//! figure of variable lengths.
//!
//! A leaf has slots of one word, each with the address of a *block*, which has a key and its value.
//! A write puts a new block into memory, and swaps one slot.
//!
//! ```text
//! inner nodes   key ──> leaf with the last bound that is at most the key
//! leaf          | successor | bounds | slot | slot | ...
//!                                       │
//! block                                 └──> | lengths | key | value |
//! ```
//!
//! # Linearizability
//!
//! - A slot belongs to its key as long as its leaf exists, and a client takes the first unused one.
//!   So a key has one slot in a leaf, and a client that has read a leaf without it has seen it
//!   absent. A removal marks the slot, by a swap.
//! - A client that divides a leaf first *freezes* its slots: each swap of them fails from then on.
//!   It copies them to new leaves, and sets the leaf's *successor*, by a swap. Until that moment
//!   the frozen slots are valid, and after it the new leaves are. Several clients may do this at
//!   once, and one of them succeeds. Nobody waits for a client that dies.
//! - The bounds of a leaf never change, and a divided leaf leads to those that have replaced it. So
//!   an outdated route to a leaf costs reads, and no more.
//! - The inner nodes lead to a leaf only once they lead to the one behind it, too. So a division is
//!   published after that which has made its leaf, also if the client of the former has died.
//!
//! # Differences from the paper
//!
//! - The paper's divisions lock a leaf, and its other writers share the lock. Frozen slots replace
//!   the lock: one swap for each slot of a divided leaf, all of them in one post.
//! - Inner nodes are a [`ChimeTree`] from bounds to leaves. Compute nodes cache leaves by their
//!   bounds, and look up the tree where they know none.
//! - Leaves are not merged. A leaf whose slots are mostly those of removed keys is replaced by one
//!   leaf. Blocks and divided leaves are not freed.
//! - Lengths of keys and values are fixed for an index, as in its rivals here. Blocks have them as
//!   in the paper.

mod divide;
mod layout;
mod leaf_map;
mod locate;
mod options;
mod scan;
mod write;

use nearfield_fabric::{Endpoint, FabricArena, GlobalAddress, NodeId};
use nearfield_pool::chime::ChimeTree;
use nearfield_pool::coordination::{CombinedWrite, Leader};
use nearfield_pool::{Entry, PoolError, PoolIndexClient, check_bound, check_key, check_value};
use std::sync::Arc;

pub use layout::MarlinLayout;
pub use options::{MarlinComputeNode, MarlinOptions};

use layout::{MarlinLeaf, NODES};

/// The size of a client's chunks of a node, in bytes.
const CHUNK_BYTES: u64 = 1 << 16;

/// One client's view of an index. Its tasks share it.
#[derive(Debug)]
pub struct Marlin<E> {
    /// The inner nodes: the addresses of leaves by their lower bounds.
    inner: ChimeTree<E>,
    root: GlobalAddress,
    arena: FabricArena,
    node: Arc<MarlinComputeNode>,
    layout: MarlinLayout,
}

impl<E: Endpoint> Marlin<E> {
    /// Creates an empty index. It is found through the word `root`, which is outside the allocated
    /// memory. One client calls this before others open the index.
    ///
    /// # Errors
    /// `Node`, and the nodes' errors.
    pub async fn create(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<MarlinComputeNode>,
    ) -> Result<Marlin<E>, PoolError> {
        check_nodes(nodes)?;
        let inner = ChimeTree::create(endpoint, nodes, root, Arc::clone(&node.inner)).await?;
        let index = Marlin::of_inner(inner, nodes, root, node);
        // No key is less than this one, because a key of zeros is invalid.
        let mut low = vec![0; index.node.options.key_bytes];
        if let Some(last) = low.last_mut() {
            *last = 1;
        }
        let first = index
            .store_leaf(&MarlinLeaf::new(&low, None, Vec::new()))
            .await?;
        index.publish(&low, first).await?;
        Ok(index)
    }

    /// Opens an index that was created with the same sizes on the same nodes.
    ///
    /// # Errors
    /// `Node`, and the nodes' errors.
    pub async fn open(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<MarlinComputeNode>,
    ) -> Result<Marlin<E>, PoolError> {
        check_nodes(nodes)?;
        let inner = ChimeTree::open(endpoint, nodes, root, Arc::clone(&node.inner)).await?;
        Ok(Marlin::of_inner(inner, nodes, root, node))
    }

    fn of_inner(
        inner: ChimeTree<E>,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<MarlinComputeNode>,
    ) -> Marlin<E> {
        Marlin {
            inner,
            root,
            arena: FabricArena::new(nodes, CHUNK_BYTES),
            layout: node.options.layout(),
            node,
        }
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &E {
        self.inner.endpoint()
    }

    /// Returns the state that it shares with the other clients of its compute node.
    pub fn compute_node(&self) -> &MarlinComputeNode {
        &self.node
    }

    /// Does a write, or lets another client of the compute node do it with its own.
    async fn write(&self, key: &[u8], write: CombinedWrite) -> Result<Option<Vec<u8>>, PoolError> {
        let lead = async |leader: &mut Leader<'_>| self.store(key, leader).await;
        self.node.delegation.write(key, write, lead).await
    }

    fn check_key(&self, key: &[u8]) -> Result<(), PoolError> {
        check_key(key, self.node.options.key_bytes)
    }

    fn check_value(&self, value: &[u8]) -> Result<(), PoolError> {
        check_value(value, self.node.options.value_bytes)
    }
}

/// The round trips assume that the leaf is cached, and no concurrent writers.
impl<E: Endpoint> PoolIndexClient for Marlin<E> {
    /// Reads in two round trips: the leaf, and the block.
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        let delegation = &self.node.delegation;
        delegation.read(key, async || self.search(key).await).await
    }

    /// Writes in three round trips for an existing key, and in two for an absent one; one more for
    /// a block on another node than its leaf.
    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.write(key, CombinedWrite::Insert(value.to_vec())).await
    }

    /// Writes at the cost of an insert; for an absent key, reads the leaf.
    async fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.write(key, CombinedWrite::Update(value.to_vec())).await
    }

    /// Removes in three round trips.
    async fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.take(key).await
    }

    /// Reads in two round trips for each 32 leaves.
    async fn scan(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        check_bound(from, self.node.options.key_bytes)?;
        self.collect(from, count).await
    }
}

fn check_nodes(nodes: &[NodeId]) -> Result<(), PoolError> {
    match nodes.iter().find(|node| node.0 >= NODES) {
        Some(&node) => Err(PoolError::Node {
            node,
            max: NODES - 1,
        }),
        None => Ok(()),
    }
}
