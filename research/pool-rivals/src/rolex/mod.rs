//! ROLEX (Li, Hua, Zhou and others, FAST 2023): a learned index in remote memory, as CHIME's
//! authors rebuilt it for their comparison.
//!
//! Lines that are trained over the sorted keys at the load ([`Models`]) predict the position of a
//! key, up to an error, and a client reads all leaves that may have it in one round trip. Leaves
//! are at computed addresses, so a compute node must keep only the models.
//!
//! ```text
//! models      key ──> ranks p − e − 1 ..= p + e + 1
//! leaves      | 16 loaded keys | 16 loaded keys | 16 loaded keys | ...
//!                      │ synonym leaves, for inserted keys
//!                      v
//!                   | leaf | ──> | leaf |
//! ```
//!
//! - **The leaf of a key.** Each leaf except the first keeps forever the least key that was loaded
//!   into it, its *bound*. A key belongs to the last leaf with a bound that is at most the key,
//!   which is among the leaves read. It is in that leaf or in one of the synonym leaves behind it,
//!   and in no more than one of these at any time.
//! - **Writers** take the lock of the leaf, which guards its synonym leaves as well, read them
//!   again, write one of them as a whole and release the lock in the same post.
//! - **Readers** do not wait. A key moves between leaves only by removal and insertion, so a reader
//!   that finds it in none of the leaves has proved that it was absent at some time meanwhile, in
//!   any order of the reads.
//!
//! With [`RolexLeafKind::Hopscotch`] leaves are CHIME's, and clients read only neighborhoods, or
//! with [`RolexOptions::hotspot_bytes`] one entry: the steps of its figure 15b.
//!
//! # Differences from the public implementations
//!
//! - The original's insert is unfinished, and the one by CHIME's authors stops when a leaf's only
//!   synonym leaf is full. Here synonym leaves have further ones.
//! - Both find the leaf of a new key in an array of all loaded keys at each compute node. Bounds in
//!   the leaves replace it, and cost no memory.
//! - Keys are byte strings of any one length: many may have the same prefix, and these are found by
//!   bisection. Entries can be removed. Scans are of keys, not of all numbers in a range.
//! - Only one of the leaves read can have relevant synonym leaves, and only those are read with
//!   them.
//!
//! There is no retraining, as in CHIME's comparison: endless inserts make the chains of synonym
//! leaves longer. Nothing is merged or freed, and the lock of a client that died is not taken over.

mod hopscotch;
mod hopscotch_write;
mod leaf;
mod load;
mod locate;
mod model;
mod options;
mod speculate;
mod synonyms;
mod table;
mod write;

use nearfield_fabric::{Endpoint, FabricArena, GlobalAddress, LINE_BYTES, NodeId};
use nearfield_pool::coordination::{CombinedWrite, Leader};
use nearfield_pool::{Entry, PoolError, PoolIndexClient, check_bound, check_key, check_value};
use std::sync::Arc;

pub use leaf::RolexLeafLayout;
pub use model::{Models, RolexModelTrainer, prefix};
use options::Hopscotch;
pub use options::{RolexComputeNode, RolexLeafKind, RolexOptions};

/// The size of a client's chunks of a node for synonym leaves, in bytes.
const CHUNK_BYTES: u64 = 1 << 14;
/// Number of leaves that a scan reads at once.
const SCAN_LEAVES: u64 = 32;

/// One client's view of an index. Its tasks share it.
#[derive(Debug)]
pub struct Rolex<E> {
    endpoint: E,
    root: GlobalAddress,
    /// One arena for each node: a synonym leaf is on the node of its leaf, so that verbs to both
    /// take effect in order.
    arenas: Vec<(NodeId, FabricArena)>,
    node: Arc<RolexComputeNode>,
    /// The layout of leaves that are arrays.
    leaves: RolexLeafLayout,
    /// The layout of leaves that are hash tables.
    hopscotch: Option<Hopscotch>,
}

impl<E: Endpoint> Rolex<E> {
    /// Creates an index of entries in strictly ascending order of their keys. It is found through
    /// the word `root`, which is outside the allocated memory. One client calls this before others
    /// open the index. Meanwhile it keeps at most one piece of 64 KiB and the models.
    ///
    /// # Errors
    /// `Key` and `Value` for an invalid entry, `Unsorted`, `Lines`, and the nodes' errors.
    pub async fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<RolexComputeNode>,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Rolex<E>, PoolError> {
        let rolex = Rolex::open(endpoint, nodes, root, node)?;
        rolex.build(nodes, entries).await?;
        Ok(rolex)
    }

    /// Creates an index without entries: one leaf, behind which all inserted entries form one
    /// chain. [`load`](Rolex::load) known entries instead.
    ///
    /// # Errors
    /// `Lines`, and the nodes' errors.
    pub async fn create(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<RolexComputeNode>,
    ) -> Result<Rolex<E>, PoolError> {
        let nothing: [(Vec<u8>, Vec<u8>); 0] = [];
        Rolex::load(endpoint, nodes, root, node, nothing).await
    }

    /// Opens an index that was created with the same sizes and error on the same nodes.
    ///
    /// # Errors
    /// `Lines`. If there is no index, operations fail with `NoIndex`.
    pub fn open(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<RolexComputeNode>,
    ) -> Result<Rolex<E>, PoolError> {
        let atomic = endpoint.atomic_bytes();
        // Each line has one version, so a reader would not notice a line that is torn.
        if atomic < LINE_BYTES {
            return Err(PoolError::Lines { atomic });
        }
        let arena = |&node| (node, FabricArena::new(&[node], CHUNK_BYTES));
        Ok(Rolex {
            endpoint,
            root,
            arenas: nodes.iter().map(arena).collect(),
            leaves: RolexLeafLayout::new(node.options.geometry),
            hopscotch: node.options.hopscotch(),
            node,
        })
    }

    /// Returns the endpoint that it was opened with.
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// Returns the state that it shares with the other clients of its compute node.
    pub fn compute_node(&self) -> &RolexComputeNode {
        &self.node
    }

    async fn search(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        if let Some(hopscotch) = &self.hopscotch {
            return self.hopscotch_get(hopscotch, key).await;
        }
        let mut located = self.locate(key).await?;
        let found = self.find(&mut located, key).await?;
        Ok(found.map(|(number, slot)| located.chain[number].leaf.value(slot).to_vec()))
    }

    /// Does a write, or lets another client of the compute node do it with its own.
    async fn write(&self, key: &[u8], write: CombinedWrite) -> Result<Option<Vec<u8>>, PoolError> {
        let lead = async |leader: &mut Leader<'_>| {
            if let Some(hopscotch) = &self.hopscotch {
                return self.hopscotch_put(hopscotch, key, leader).await;
            }
            let mut located = self.locate(key).await?;
            // An update of an absent key ends here, without the lock.
            if !leader.write().inserts() && self.find(&mut located, key).await?.is_none() {
                return Ok(None);
            }
            self.put(located, key, leader).await
        };
        self.node.delegation.write(key, write, lead).await
    }

    fn check_key(&self, key: &[u8]) -> Result<(), PoolError> {
        check_key(key, self.node.options.geometry.shape().key_bytes)
    }

    fn check_value(&self, value: &[u8]) -> Result<(), PoolError> {
        check_value(value, self.node.options.geometry.shape().value_bytes)
    }
}

/// The costs assume cached models, and keys with a prefix that few others have.
impl<E: Endpoint> PoolIndexClient for Rolex<E> {
    /// Reads in one round trip, which fetches three or four leaves; one more for each synonym leaf
    /// on the route to the key that the compute node does not know.
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        let delegation = &self.node.delegation;
        delegation.read(key, async || self.search(key).await).await
    }

    /// Writes in four round trips, and one more for each synonym leaf that the compute node does
    /// not know.
    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.write(key, CombinedWrite::Insert(value.to_vec())).await
    }

    /// Writes at the cost of an insert; for an absent key, of [`get`](PoolIndexClient::get).
    async fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.write(key, CombinedWrite::Update(value.to_vec())).await
    }

    /// Removes at the cost of an update.
    async fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        if let Some(hopscotch) = &self.hopscotch {
            return self.hopscotch_take(hopscotch, key).await;
        }
        let mut located = self.locate(key).await?;
        if self.find(&mut located, key).await?.is_none() {
            return Ok(None);
        }
        self.take(located, key).await
    }

    /// Reads in one round trip initially, one for each 32 leaves, and one for each synonym leaf in
    /// a row that the compute node does not know.
    async fn scan(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        check_bound(from, self.node.options.geometry.shape().key_bytes)?;
        match &self.hopscotch {
            Some(hopscotch) => self.hopscotch_collect(hopscotch, from, count).await,
            None => self.collect(from, count).await,
        }
    }
}
