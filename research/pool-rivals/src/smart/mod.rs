//! SMART (OSDI 2023): a KV-discrete radix tree in remote memory, with each entry in a leaf of its
//! own. A search reads only its entry; in exchange a compute node caches the address of each entry.
//! A rival of the [tree](nearfield_pool::chime), in its best configuration.
//!
//! Internal nodes ([`SmartNodeHeader`], [`SmartSlot`]) have 4 to 256 slots, in no order, and memory
//! for 256, so that they grow in place. They are never locked: a swap of its word takes a slot,
//! always the first unused one. When a new key differs from a slot's child, a swap puts a new node
//! between them. Leaves are locked and written in place.
//!
//! # Linearizability
//!
//! - A node covers all keys with the bytes up to the end of its prefix, forever: nodes are never
//!   removed, and splits only put other nodes above them.
//! - A slot belongs to its partial key forever, and a client takes the first unused one. So a
//!   partial key has one slot in a node, and a client that has read the node without it has seen it
//!   absent.
//! - A leaf has one key forever. Removal marks it in its lock and its valid byte, under the lock:
//!   at that moment the key is gone. The slot is made vacant afterwards, by a swap; a client that
//!   finds a removed leaf in a slot takes the key as absent.
//! - So a key that is *found* is valid by any route to it, also through a cache that is long
//!   outdated. A key is proved *absent* only by words that were read during the operation: a slot
//!   from the cache is read once more.
//!
//! # Copies
//!
//! With [`SmartUpdate::Copy`] a leaf is never written again, except for its last word, its
//! *successor*, which is set once, by a swap. At that moment the new leaf has the key, or the key
//! is gone. The slot is swapped afterwards. A client that finds a replaced leaf in a slot swaps it
//! itself, so a client that dies in between leaves nothing to repair, and nobody waits. A leaf
//! without a successor is current, by any route to it.
//!
//! # Differences from the public implementation
//!
//! - Checksums are XXH3 of key, value, valid byte and version (CRC64 of key and value there).
//! - The lock's byte has a version of 6 bits, so that an update takes the lock with the value that
//!   it has read, and knows the old value without reading again.
//! - A write without notification repairs reverse pointers, where an atomic is used there: no
//!   result of operations on keys depends on them ([`SmartScanGuarantee::Cached`] does).
//! - A node's prefix is not shortened when a node is put above it, because the header has the depth
//!   at which the prefix begins. This saves an atomic.
//! - A node's type grows before the first slot of the new part is taken, in the same post, not
//!   after.
//! - Leaves that are not written atomically are written in two parts, the one with the lock last.
//! - Keys can be removed, unlike in the public implementation. A removed leaf's memory and its slot
//!   are not reclaimed; the same partial key uses the slot again. Locks of clients that die stay
//!   held, as in that implementation.
//! - The public implementation's copies swap the slot, and then mark the old leaf invalid: a client
//!   with a cached slot reads the old value between the two. Successors cost an atomic more.
//! - [`SmartScanGuarantee::Complete`] reads nodes again; the published
//!   [`SmartScanGuarantee::Cached`] misses entries that its cache does not know.

mod cache;
mod copy;
mod insert;
mod layout;
mod locate;
mod lock;
mod memory;
mod place;
mod remove;
mod scan;
mod search;
mod split;
mod table;

pub use layout::{
    ALIGNMENT, HEADER_OFFSET, LeafWrite, NODE_BYTES, NODES, NodeType, PREFIX_BYTES,
    SmartLeafLayout, SmartNodeHeader, SmartSlot, SmartSlotChild, slot_offset,
};

use cache::SmartNodeCache;
use memory::SmartClientMemory;
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};
use nearfield_pool::coordination::{ClientCoordination, CombinedWrite, Leader};
use nearfield_pool::{Entry, PoolError, PoolIndexClient, check_bound, check_key, check_value};
use std::sync::Arc;

const KEY_BYTES_MAX: usize = 4096;
const VALUE_BYTES_MAX: usize = 65_536;

/// A budget that no cache reaches (the published figures call this SMART-Opt).
pub const UNLIMITED: usize = usize::MAX;

/// The guarantee of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmartScanGuarantee {
    /// All entries that existed during the whole scan: cached nodes name the leaves to read, and
    /// are read again in the same post.
    Complete,
    /// The published guarantee: cached slots are trusted if the reverse pointer of the leaf agrees,
    /// so that only leaves are read; entries that others have added since a node was cached are
    /// missing.
    Cached,
}

/// The form in which the value of an existing key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmartUpdate {
    /// A write to the leaf of the key, under its lock.
    InPlace,
    /// A new leaf, which replaces the old one (read, copy, update). The paper of CHIME compares
    /// this form, SMART-RCU, by keys and values of any length.
    Copy,
}

/// The options. The default is the paper's: keys and values of 8 bytes.
#[derive(Clone, Debug)]
pub struct SmartOptions {
    /// The length of every key, in bytes: 1 to 4,096.
    pub key_bytes: usize,
    /// The length of every value, in bytes: 0 to 65,536.
    pub value_bytes: usize,
    /// The budget of a compute node's cache, in bytes; [`UNLIMITED`] for no limit.
    pub cache_bytes: usize,
    /// The size of a client's chunks of a memory node, in bytes.
    pub chunk_bytes: u64,
    /// The guarantee of scans.
    pub scan: SmartScanGuarantee,
    /// The form of updates.
    pub update: SmartUpdate,
    /// True if one client of a compute node reads a key for all clients that want it (read
    /// delegation).
    pub delegates_reads: bool,
    /// True if one client of a compute node writes a key for all concurrent writers, except for
    /// removals (write combining).
    pub combines_writes: bool,
}

impl Default for SmartOptions {
    fn default() -> SmartOptions {
        SmartOptions {
            key_bytes: 8,
            value_bytes: 8,
            cache_bytes: 100 << 20,
            chunk_bytes: 1 << 20,
            scan: SmartScanGuarantee::Complete,
            update: SmartUpdate::InPlace,
            delegates_reads: true,
            combines_writes: true,
        }
    }
}

impl SmartOptions {
    /// Returns the layout of the leaves.
    pub fn leaf_layout(&self) -> SmartLeafLayout {
        match self.update {
            SmartUpdate::InPlace => SmartLeafLayout::new(self.key_bytes, self.value_bytes),
            SmartUpdate::Copy => SmartLeafLayout::copied(self.key_bytes, self.value_bytes),
        }
    }
}

/// The state that the clients of one compute node share: the cache of one tree, and their
/// coordination.
#[derive(Debug)]
pub struct SmartComputeNode {
    options: SmartOptions,
    cache: SmartNodeCache,
    delegation: ClientCoordination,
}

impl SmartComputeNode {
    /// Creates a compute node with an empty cache.
    ///
    /// # Errors
    /// `Sizes`.
    pub fn new(options: SmartOptions) -> Result<SmartComputeNode, PoolError> {
        let (key_bytes, value_bytes) = (options.key_bytes, options.value_bytes);
        if !(1..=KEY_BYTES_MAX).contains(&key_bytes) || value_bytes > VALUE_BYTES_MAX {
            return Err(PoolError::Sizes {
                key_bytes,
                value_bytes,
                key_bytes_max: KEY_BYTES_MAX,
                value_bytes_max: VALUE_BYTES_MAX,
            });
        }
        Ok(SmartComputeNode {
            cache: SmartNodeCache::new(options.cache_bytes),
            delegation: ClientCoordination::new(options.delegates_reads, options.combines_writes),
            options,
        })
    }

    /// Returns its options.
    pub fn options(&self) -> &SmartOptions {
        &self.options
    }

    /// Copies the cache of another compute node of the same options.
    pub fn learn_from(&self, other: &SmartComputeNode) {
        self.cache.learn_from(&other.cache);
    }

    /// Returns the bytes of the cache with its content.
    pub fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }
}

/// One client's view of a SMART tree.
#[derive(Debug)]
pub struct Smart<E> {
    endpoint: E,
    root: GlobalAddress,
    node: Arc<SmartComputeNode>,
    memory: SmartClientMemory,
    leaves: SmartLeafLayout,
}

impl<E: Endpoint> Smart<E> {
    /// Creates an empty tree. Its root is found through the word `root`, which is outside the
    /// allocated memory. One client calls this before others open the tree.
    ///
    /// # Errors
    /// `Node`, and the nodes' errors.
    pub async fn create(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<SmartComputeNode>,
    ) -> Result<Smart<E>, PoolError> {
        let tree = Smart::open(endpoint, nodes, root, node)?;
        let nothing = SmartSlot::default().to_word().to_le_bytes();
        tree.endpoint.write(root, &nothing).await?;
        Ok(tree)
    }

    /// Opens a tree that was created with keys and values of the same lengths, and the same form of
    /// updates.
    ///
    /// # Errors
    /// `Node`.
    pub fn open(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<SmartComputeNode>,
    ) -> Result<Smart<E>, PoolError> {
        if let Some(&beyond) = nodes.iter().find(|node| node.0 >= NODES) {
            return Err(PoolError::Node {
                node: beyond,
                max: NODES - 1,
            });
        }
        let options = &node.options;
        Ok(Smart {
            endpoint,
            root,
            memory: SmartClientMemory::new(nodes, options.chunk_bytes),
            leaves: options.leaf_layout(),
            node,
        })
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// Does a write, or lets another client of the compute node do it with its own.
    async fn write(&self, key: &[u8], write: CombinedWrite) -> Result<Option<Vec<u8>>, PoolError> {
        let lead = async |leader: &mut Leader<'_>| match leader.write() {
            CombinedWrite::Insert(_) | CombinedWrite::Put(_) => self.put(key, leader).await,
            CombinedWrite::Update(_) | CombinedWrite::Overwrite(_) => {
                self.replace(key, leader).await
            }
        };
        self.node.delegation.write(key, write, lead).await
    }

    fn cache(&self) -> &SmartNodeCache {
        &self.node.cache
    }

    fn check_key(&self, key: &[u8]) -> Result<(), PoolError> {
        check_key(key, self.node.options.key_bytes)
    }

    fn check_value(&self, value: &[u8]) -> Result<(), PoolError> {
        check_value(value, self.node.options.value_bytes)
    }
}

/// The round trips assume that all internal nodes are cached, and that there are no concurrent
/// writers.
impl<E: Endpoint> PoolIndexClient for Smart<E> {
    /// Reads in one round trip for an existing key, two or three if the cache is out of date, two
    /// for an absent key.
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        let delegation = &self.node.delegation;
        delegation.read(key, async || self.search(key).await).await
    }

    /// Writes in three round trips, whether the key exists or not; one more for a copy on another
    /// node than its predecessor.
    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.write(key, CombinedWrite::Insert(value.to_vec())).await
    }

    /// Writes in three round trips; one more for a copy on another node than its predecessor.
    async fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.write(key, CombinedWrite::Update(value.to_vec())).await
    }

    /// Removes in three round trips, or four if the leaf and the slot that leads to it are on
    /// different nodes.
    async fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.take(key).await
    }

    /// Reads in one round trip for all that is cached, and one more for each level that is not.
    async fn scan(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        check_bound(from, self.node.options.key_bytes)?;
        self.read_range(from, count).await
    }
}
