//! A B+ tree in remote memory, accessed with one-sided verbs: CHIME (SOSP 2024) and the steps from
//! Sherman to it, which leave out some of its techniques.
//!
//! Each node names its right sibling (a B-link tree). A reader that reaches a divided node
//! continues to the right, so readers never wait. A split has taken effect once its two nodes are
//! written; the parent is updated afterwards.
//!
//! Clients of one compute node share a cache of internal nodes. The cache is not notified when a
//! node changes. A stale node leads to a leaf that does not match it, and is dropped then. A leaf
//! shows the mismatch by its fence keys, or only by its sibling
//! ([`Validation`](crate::layout::Validation)).
//!
//! - `route` finds the leaf of a key. `batched_get` reads many keys by one post, at the leaves
//!   where they should be. `search` reads one key. `change` changes one under the leaf's lock, and
//!   `batched_change` changes many keys of a leaf under one lock. `split` divides full nodes,
//!   `merge` joins nearly empty ones. `load` fills a new tree with sorted entries. `scan` and
//!   `scan_back` read ranges; `filtered_scan` reads ranges through a filter, with programs at the
//!   memory nodes. `repair` replaces the leaves of lost memory nodes, `drain` moves those of a node
//!   to others, `balance` moves some to a node that was added, and `census` reads all leaves by
//!   memory node.
//! - [`ChimeOptions`] selects the techniques.
//! - `counts` counts lookups in the cache, and reads that were repeated.
//! - `session` restricts the addresses that an operation may follow while memory is freed.
//! - If locks have leases, a dead client blocks no other: the next client that takes its lock
//!   finishes its change (`lock`, `recovery_step`, `recover`).

mod balance;
mod batched_change;
mod batched_get;
mod cached_node;
mod census;
mod change;
mod counts;
mod drain;
mod filtered_scan;
mod header;
mod leaf_lock_word;
mod load;
mod lock;
mod merge;
mod neighborhood;
mod node_io;
mod options;
mod overwrite_hints;
mod owner;
mod recover;
mod recovery_step;
mod repair;
mod root;
mod route;
mod scan;
mod scan_back;
mod search;
mod session;
mod split;

use crate::coordination::{CombinedWrite, Leader};
use crate::error::PoolError;
use crate::filtered::{LeafPrograms, Protection};
use crate::index::{self, Entry, PoolIndexClient};
use crate::layout::{Arrangement, InternalLayout, PoolLeafLayout};
use batched_get::BatchedGet;
use change::Intent;
use header::ChimeHeaderAddress;
use leaf_lock_word::LeafLockWord;
use nearfield_fabric::count::ClientCounters;
use nearfield_fabric::recovery::lease::BackOff;
use nearfield_fabric::{Endpoint, FabricArena, GlobalAddress, LINE_BYTES, NodeId, WORD_BYTES};
use owner::Owner;
use root::NODE_MAX;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

pub use balance::EvenShare;
pub use cached_node::CachedNode;
pub use change::KeyChangeDecision;
pub use counts::{CacheLookups, NodeRetries};
pub use filtered_scan::LeafReads;
pub use options::{ChimeComputeNode, ChimeLockKind, ChimeOptions, Speculation};
pub use repair::LostLeafRepair;
pub use session::ChimeSession;

/// One client's view of a tree. Its tasks share it.
#[derive(Debug)]
pub struct ChimeTree<E> {
    endpoint: E,
    /// The address of the word with the address of the root.
    root: GlobalAddress,
    arena: FabricArena,
    node: Arc<ChimeComputeNode>,
    leaves: PoolLeafLayout,
    internals: InternalLayout,
    lock_words: LeafLockWord,
    /// The owner of locks with leases, if locks have these, and the length of the leases.
    owner: Option<Owner>,
    header: ChimeHeaderAddress,
    lease: Duration,
    /// The back-off of clients that wait for the paper's locks; `None` for a fixed time.
    back_off: Option<BackOff>,
    /// Spare buffers for searches.
    #[expect(clippy::vec_box, reason = "they are moved often, and are large")]
    batched_gets: RefCell<Vec<Box<BatchedGet>>>,
    /// True if nodes carry a change counter, because only words are read atomically here.
    has_counters: bool,
    /// Programs for scans with a filter.
    programs: LeafPrograms,
    counters: ClientCounters,
}

/// The size of a client's chunks of a node's memory, in bytes.
const CHUNK_BYTES: u64 = 1 << 16;
/// Time after which a client takes another for dead if locks have no leases. Nothing repairs what
/// that has left, but an operation that finds damaged memory ends.
const LEASELESS_PATIENCE: Duration = Duration::from_secs(1);
/// Delay until a client tries a held lock again: about a round trip.
const BACK_OFF: Duration = Duration::from_micros(2);
/// Maximum of that delay for a client that [backs off](ChimeOptions::backs_off): as for a lock with
/// a lease of 10 ms.
const BACK_OFF_MAX: Duration = Duration::from_micros(625);

/// Refuses memory nodes with numbers that do not fit into the root word.
fn check_nodes(nodes: &[NodeId]) -> Result<(), PoolError> {
    let beyond = nodes.iter().find(|node| node.0 > NODE_MAX);
    beyond.map_or(Ok(()), |&node| {
        Err(PoolError::Node {
            node,
            max: NODE_MAX,
        })
    })
}

impl<E: Endpoint> ChimeTree<E> {
    /// Creates an empty tree. Its root is found by the line at `root`, which is outside the
    /// allocated memory; on the other nodes, the line at the same offset is used, too. One client
    /// calls this before others open the tree.
    ///
    /// # Errors
    /// As [`open`](ChimeTree::open).
    pub async fn create(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<ChimeComputeNode>,
    ) -> Result<ChimeTree<E>, PoolError> {
        let tree = ChimeTree::begin(endpoint, nodes, root, node).await?;
        tree.session().await?.create_root().await?;
        Ok(tree)
    }

    /// Creates a tree without a root.
    async fn begin(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<ChimeComputeNode>,
    ) -> Result<ChimeTree<E>, PoolError> {
        check_nodes(nodes)?;
        // The header comes first, because `open` refuses memory without one, and the root is made
        // by a session of the opened tree.
        let header = ChimeHeaderAddress::new(root, nodes);
        header.create(&endpoint, node.geometry.shape()).await?;
        ChimeTree::open(endpoint, nodes, root, node).await
    }

    /// Opens a tree that was created with the same sizes, for one client of a compute node.
    ///
    /// # Errors
    /// `Format` and `NoIndex` if there is another index or none, `Node` if there are more memory
    /// nodes than the root can name, and the nodes' errors.
    pub async fn open(
        endpoint: E,
        nodes: &[NodeId],
        root: GlobalAddress,
        node: Arc<ChimeComputeNode>,
    ) -> Result<ChimeTree<E>, PoolError> {
        check_nodes(nodes)?;
        let header = ChimeHeaderAddress::new(root, nodes);
        header.check(&endpoint, node.geometry.shape()).await?;
        let (owner, lease) = match node.options.locks {
            ChimeLockKind::Spinning => (None, Duration::ZERO),
            ChimeLockKind::Leased(lease) => {
                let owner = header.join(&endpoint, lease, node.geometry).await?;
                if node.epochs.get().is_none() {
                    let retired = node.options.retired_bytes;
                    let epochs = header.take_part(&endpoint, lease, retired).await?;
                    if let Err(second) = node.epochs.set(epochs) {
                        // Another client of the compute node was faster.
                        second.leave(&endpoint).await?;
                    }
                }
                (Some(owner), lease)
            }
        };
        // The versions of lines detect concurrent writes only if a reader gets each line as a
        // whole.
        let has_counters = endpoint.atomic_bytes() < LINE_BYTES;
        debug_assert!(
            endpoint.atomic_bytes() >= WORD_BYTES,
            "words are always atomic"
        );
        let leaves = PoolLeafLayout::new(node.geometry);
        // A stamp is the number of an acquisition, which only locks with leases have.
        let is_stamped =
            owner.is_some() && node.options.shape.arrangement == Arrangement::Neighborhood;
        // Without a counter or a stamp a program could not detect that a leaf changed under it.
        let protection = match has_counters {
            true => Some(Protection::Counter),
            false => is_stamped.then_some(Protection::Stamp),
        };
        Ok(ChimeTree {
            has_counters,
            programs: LeafPrograms::new(leaves, protection),
            endpoint,
            batched_gets: RefCell::default(),
            root,
            arena: FabricArena::new(nodes, CHUNK_BYTES),
            leaves,
            internals: InternalLayout::new(node.geometry),
            lock_words: LeafLockWord::new(node.geometry.shape()),
            owner,
            header,
            lease,
            back_off: node.options.backs_off.then(|| BackOff::new(BACK_OFF_MAX)),
            counters: node.client_counters(nodes),
            node,
        })
    }

    /// Changes a key as `decide` returns, under the lock of the key's leaf, and returns the old
    /// value. `decide` gets the old value, and may be called more than once: the last decision
    /// counts.
    ///
    /// # Errors
    /// `Key`, `Value`, the nodes' errors, and those of `decide`. The key was not changed if the
    /// error is `Fabric`, and may have been changed after `Undetermined`.
    pub async fn alter(
        &self,
        key: &[u8],
        mut decide: impl AsyncFnMut(Option<&[u8]>) -> Result<KeyChangeDecision, PoolError>,
    ) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        // A value is checked under the lock, because only the old value decides which one it is.
        let mut checked = async |before: Option<&[u8]>| {
            let decision = decide(before).await?;
            if let KeyChangeDecision::Put(value) = &decision {
                self.check_value(value)?;
            }
            Ok(decision)
        };
        self.run(async |session| {
            let changed = session.change(key, Intent::Alter, &mut checked).await;
            changed.map_err(|error| session.after_change(error))
        })
        .await
    }

    /// Returns the last `count` entries with keys up to `from`, in descending order. `from` has the
    /// length of keys.
    ///
    /// # Errors
    /// `Key`, and the nodes' errors.
    pub async fn scan_back(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        self.run(async |session| session.scan_back(from, count).await)
            .await
    }

    /// Does a write, or lets another client of the compute node do it with its own.
    async fn write(&self, key: &[u8], write: CombinedWrite) -> Result<Option<Vec<u8>>, PoolError> {
        let lead = async |leader: &mut Leader<'_>| {
            let intent = match leader.write() {
                CombinedWrite::Insert(_) => Intent::Insert,
                CombinedWrite::Put(_) => Intent::Put,
                CombinedWrite::Update(_) => Intent::Update,
                CombinedWrite::Overwrite(_) => Intent::Overwrite,
            };
            self.run(async |session| {
                // If the lock was held for too long this runs again, and closes the combined writes
                // once more.
                let decide = async |before: Option<&[u8]>| {
                    Ok(leader
                        .close(before)
                        .map_or(KeyChangeDecision::Keep, KeyChangeDecision::Put))
                };
                session.change(key, intent, decide).await
            })
            .await
        };
        self.node.delegation.write(key, write, lead).await
    }

    /// Forgets all cached nodes of the compute node. After the loss of a memory node, a leaf there
    /// may have been merged with one elsewhere, where a cached parent does not lead, or may have
    /// been [replaced](ChimeTree::replace_lost_leaves).
    pub fn forget_routes(&self) {
        self.node.cache.clear();
    }

    /// Returns the endpoint that it was given.
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    fn check_key(&self, key: &[u8]) -> Result<(), PoolError> {
        index::check_key(key, self.leaves.geometry().shape().key_bytes)
    }

    fn check_bound(&self, from: &[u8]) -> Result<(), PoolError> {
        index::check_bound(from, self.leaves.geometry().shape().key_bytes)
    }

    fn check_value(&self, value: &[u8]) -> Result<(), PoolError> {
        index::check_value(value, self.leaves.geometry().shape().value_bytes)
    }
}

impl<E: Endpoint> PoolIndexClient for ChimeTree<E> {
    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        let delegation = &self.node.delegation;
        let read = async || {
            let search =
                async |session: &ChimeSession<'_, E>| session.search(key, <[u8]>::to_vec).await;
            self.run(search).await
        };
        delegation.read(key, read).await
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.write(key, CombinedWrite::Insert(value.to_vec())).await
    }

    async fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.write(key, CombinedWrite::Update(value.to_vec())).await
    }

    /// Overwrites without reading the entry if this compute node overwrote it recently: two round
    /// trips, of four messages and three.
    async fn overwrite(&self, key: &[u8], value: &[u8]) -> Result<bool, PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        let before = self
            .write(key, CombinedWrite::Overwrite(value.to_vec()))
            .await?;
        Ok(before.is_some())
    }

    /// Puts like [`overwrite`](PoolIndexClient::overwrite) if the key was overwritten recently.
    async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), PoolError> {
        self.check_key(key)?;
        self.check_value(value)?;
        self.write(key, CombinedWrite::Put(value.to_vec()))
            .await
            .map(drop)
    }

    async fn remove(&self, key: &[u8]) -> Result<Option<Vec<u8>>, PoolError> {
        self.check_key(key)?;
        let remove = async |_: Option<&[u8]>| Ok(KeyChangeDecision::Remove);
        self.run(async |session| session.change(key, Intent::Remove, remove).await)
            .await
    }

    async fn scan(&self, from: &[u8], count: usize) -> Result<Vec<Entry>, PoolError> {
        self.run(async |session| session.scan(from, count).await)
            .await
    }
}
