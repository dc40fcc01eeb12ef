//! A map of byte strings or words in the pool: an [`OrderedIndex`] over a
//! [`ChimeTree`](crate::chime::ChimeTree).
//!
//! - `form` puts keys and values of any length into slots of one length, `blocks` keeps the values
//!   that do not fit there. If slots do not hold all of a key, blocks hold the rest (`long_keys`),
//!   which is put in order by scans (`long_scan`) and changed one key at a time (`long_change`).
//! - `batch` executes a batch by its plan ([`nearfield_core::plan`]): operations on different keys
//!   are in flight at the same time, up to [`StoreOptions::in_flight`], and the operations on one
//!   key are executed as one. `change` makes the changes of all keys of a leaf under one lock.
//! - `census` counts keys and values by memory node.
//! - `repair` replaces the parts of nodes that are lost for good, and `drain` moves those of a node
//!   to others; `excluded` has these nodes, and `claim` the drain that is made. `add` adds nodes;
//!   `added` has these.
//! - `filtered` reads ranges with a filter, and aggregates, by programs at the memory nodes if
//!   these can be reached (`way`).
//! - Each thread has a client of its own, created at its first operation; all share the cache.

mod add;
mod added;
mod batch;
mod blocks;
mod census;
mod change;
mod claim;
mod client;
mod drain;
mod excluded;
mod filtered;
mod form;
mod health;
mod long_change;
mod long_keys;
mod long_scan;
mod node_list;
mod opening;
mod put;
mod repair;
mod returns;
mod way;

use crate::chime::{CacheLookups, ChimeComputeNode, ChimeLockKind, ChimeOptions};
use crate::error::PoolError;
use crate::executor::block_on;
use crate::layout::PoolIndexShape;
pub use add::{PoolAddError, PoolGrowth, PoolGrowthPhase};
pub use added::{AddedPoolNode, added_nodes};
use blocks::{BlockMemory, ValueBlockAllocator};
pub use census::PoolNodeCensus;
use client::PoolStoreClient;
pub use drain::{PoolDrain, PoolDrainError};
use excluded::ExcludedNodes;
pub use excluded::{excluded_nodes, nodes_excluded_by};
pub use filtered::{Entries, FilteredStoreRange};
use form::Codec;
pub use form::PoolEntryForm;
use health::NodeHealth;
pub use health::PoolNodeState;
use nearfield_core::{Batch, OperationError, OrderedIndex};
use nearfield_fabric::{Endpoint, NodeId};
use node_list::StoreNodeList;
pub use opening::{PoolMember, empty_nodes, pool_member, serves_alone, take_in_node};
pub use repair::{PoolRepair, PoolRepairError};
use returns::NodeReturnSearch;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use way::ProgramConnection;

/// Maximum number of bytes of a key in any store: a slot's key has up to 4,096.
pub const KEY_BYTES_MAX: usize = 4094;

/// The options of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Number of bytes of the longest key of byte strings, up to [`KEY_BYTES_MAX`]. Every slot has
    /// room for it, unless [`key_slot_bytes`](StoreOptions::key_slot_bytes) is less. Then users of
    /// a store may have different maxima, otherwise all must use the same. No effect for words.
    pub key_bytes_max: usize,
    /// Number of bytes of the longest key of byte strings that its slot holds as a whole; `None` if
    /// slots hold all keys. Of a longer key the slot holds this many bytes and a hash of the rest,
    /// and a block holds the rest and the value, which takes one more round trip. All users of a
    /// store must use the same. No effect for words.
    ///
    /// A range that begins or ends within keys of one beginning, as long as slots hold it, reads
    /// all of them.
    pub key_slot_bytes: Option<usize>,
    /// Number of bytes of the hash in the slot of a long key, 0 to 4: long keys of one beginning
    /// and one hash share a block, which every change of one of them writes again. All users of a
    /// store must use the same. No effect without
    /// [`key_slot_bytes`](StoreOptions::key_slot_bytes).
    pub key_hash_bytes: usize,
    /// Number of bytes of the longest value of byte strings that is stored in its slot, 12 to 254:
    /// every slot has room for it. Longer values take one more round trip. All users of a store
    /// must use the same. No effect for words.
    pub inline_bytes_max: usize,
    /// Number of operations of a batch that a thread may have in flight. At most 16 of them are
    /// changes; all changes of one leaf count as one.
    pub in_flight: usize,
    /// The techniques and sizes of the tree. The lengths of keys and values follow from the above.
    pub tree: ChimeOptions,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            key_bytes_max: 32,
            key_slot_bytes: None,
            key_hash_bytes: 4,
            inline_bytes_max: 16,
            in_flight: 64,
            tree: ChimeOptions {
                fills_last: true,
                locks: ChimeLockKind::Leased(LEASE),
                ..ChimeOptions::default()
            },
        }
    }
}

/// The default lease of locks. A thread that shares its processor is suspended for tens of
/// milliseconds now and then, and its locks must not expire meanwhile: each that expires takes one
/// of its 62 places for records until a client finds the same lock.
const LEASE: Duration = Duration::from_millis(100);

/// Time for which all operations of threads without a client are refused after the first node could
/// not be reached.
const AWAY: Duration = Duration::from_secs(1);

/// A function that connects one thread to the nodes, or returns the reason for which it cannot.
type Connect<E> = Arc<dyn Fn() -> Result<E, String> + Send + Sync>;

/// Reason for which a store cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreOpenError {
    /// The memory nodes cannot be reached.
    #[error("{0}")]
    Connect(String),
    /// No memory nodes were given.
    #[error("a store needs at least one memory node")]
    NoNodes,
    /// The length of keys exceeds the maximum.
    #[error("invalid key length of {found} bytes: up to {KEY_BYTES_MAX} are allowed")]
    KeyBytes {
        /// The given value.
        found: usize,
    },
    /// The nodes hold another store, or fail.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// A map in the memory of memory nodes, which any number of threads and processes share.
///
/// It keeps the guarantees of [`nearfield_core`] for batches. Operations have one round trip to
/// read, and two or three to write, if the route to the key's leaf is cached; a batch has many of
/// them in flight.
///
/// A thread has a client from its first operation on, which takes an owner number for locks and
/// some memory: threads should be few and live long.
pub struct PoolStore<F, E> {
    connect: Connect<E>,
    nodes: StoreNodeList,
    /// The identity of the pool.
    identity: u64,
    node: Arc<ChimeComputeNode>,
    codec: Codec,
    in_flight: usize,
    /// The identity of this store, by which threads find its client.
    name: Arc<()>,
    /// The memory of long values; `None` for words, which have none.
    blocks: Option<Arc<BlockMemory>>,
    /// Time when the first node could not be reached last, and the reason.
    refused: Mutex<Option<(Instant, String)>>,
    search: Arc<NodeReturnSearch>,
    /// The number of repairs of the pool that clients have noticed.
    repairs: Arc<AtomicU64>,
    health: Arc<NodeHealth>,
    /// The function that connects to programs at the memory nodes, if there are any.
    programs: Arc<OnceLock<Box<way::Connect>>>,
    form: PhantomData<F>,
}

/// A thread's client of the store with this identity.
type Kept = (Weak<()>, Rc<dyn Any>);

thread_local! {
    static CLIENTS: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

impl<F: PoolEntryForm, E: Endpoint + 'static> PoolStore<F, E> {
    /// Opens the store on all nodes that `connect` reaches, or creates an empty one if there is
    /// none. Each thread calls `connect` once.
    ///
    /// # Errors
    /// `Connect`, `NoNodes`, `KeyBytes`; `Pool` with `NoIndex` or `Format` if there is a store of
    /// other lengths or sizes, with `Geometry` or `Cache` if the sizes are invalid, and with the
    /// nodes' errors.
    pub fn open(
        connect: impl Fn() -> Result<E, String> + Send + Sync + 'static,
        options: &StoreOptions,
    ) -> Result<PoolStore<F, E>, StoreOpenError> {
        let found = options.key_bytes_max;
        if !F::IS_WORDS && found > KEY_BYTES_MAX {
            return Err(StoreOpenError::KeyBytes { found });
        }
        let codec = Codec::new::<F>(options);
        let shape = PoolIndexShape {
            key_bytes: codec.slot_key_bytes(),
            value_bytes: codec.slot_value_bytes(),
            ..options.tree.shape
        };
        let node = ChimeComputeNode::new(ChimeOptions {
            shape,
            ..options.tree
        })?;
        let endpoint = connect().map_err(StoreOpenError::Connect)?;
        let listed = endpoint.nodes();
        if listed.is_empty() {
            return Err(StoreOpenError::NoNodes);
        }
        let nodes = block_on(opening::pool_nodes(&endpoint, &listed))?;
        let first = nodes.first().copied().unwrap_or_default();
        let node = Arc::new(node);
        let key_form = codec.key_form();
        let tree = opening::create_or_open(endpoint, &nodes, Arc::clone(&node), key_form);
        let tree = block_on(tree)?;
        // A notice of nodes that were added since makes the thread connect once more.
        let noticed = node.notices();
        let known = block_on(opening::pool_nodes(tree.endpoint(), &listed))?;
        let notices = if known == nodes { noticed } else { 0 };
        let identity = block_on(opening::identity(tree.endpoint(), first))?;
        let excluded = block_on(ExcludedNodes::read(tree.endpoint(), first))?;
        let blocks = if F::IS_WORDS {
            None
        } else {
            let opened = BlockMemory::open(tree.endpoint(), opening::blocks(first));
            Some(Arc::new(block_on(opened)?))
        };
        let health = NodeHealth::new(&nodes);
        health.note_connection(tree.endpoint());
        health.note_excluded(|node| excluded.contains(node));
        let store = PoolStore {
            connect: Arc::new(connect),
            nodes: StoreNodeList::new(&nodes),
            identity,
            node,
            codec,
            in_flight: options.in_flight,
            name: Arc::new(()),
            blocks,
            refused: Mutex::default(),
            search: Arc::default(),
            repairs: Arc::new(AtomicU64::new(excluded.repairs())),
            health,
            programs: Arc::default(),
            form: PhantomData,
        };
        store.keep(store.client_of(tree, &nodes, notices));
        Ok(store)
    }

    /// Returns the number of entries; exact if no writer is at work. Reads all leaves.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn count(&self) -> Result<usize, OperationError> {
        let client = self.client()?;
        block_on(client.count()).map_err(|error| OperationError::Unreachable {
            what: error.to_string(),
        })
    }

    /// Returns the bytes of internal nodes that this process caches.
    pub fn cache_bytes(&self) -> usize {
        self.node.cache_bytes()
    }

    /// Returns the lookups of parents of leaves in the cache of this process.
    pub fn cache_lookups(&self) -> CacheLookups {
        self.node.cache_lookups()
    }

    /// Returns the state of each node, as operations of this process have found it, in the order of
    /// their numbers. No round trip.
    pub fn node_states(&self) -> Vec<PoolNodeState> {
        self.health.states(|nodes| self.node.retries(nodes))
    }

    /// Returns the bytes of long values that this process has replaced or removed, and that are not
    /// free yet: some operation might still read them, or they wait for the next values.
    pub fn retired_bytes(&self) -> u64 {
        let blocks = self.blocks.as_ref();
        blocks.map_or(0, |blocks| blocks.retired_bytes())
    }

    /// Creates a client of a tree on these nodes, which has followed some notices.
    fn client_of(
        &self,
        tree: crate::chime::ChimeTree<E>,
        nodes: &[NodeId],
        notices: u64,
    ) -> Rc<PoolStoreClient<E>> {
        Rc::new(PoolStoreClient {
            tree,
            codec: self.codec,
            blocks: ValueBlockAllocator::new(nodes, self.blocks.clone()),
            has_failed: Cell::new(false),
            has_lost_node: Cell::new(false),
            returns: Cell::new(self.search.returns()),
            notices: Cell::new(notices),
            health: Arc::clone(&self.health),
            way: RefCell::new(ProgramConnection::new(Arc::clone(&self.programs))),
        })
    }

    /// Makes this thread remember its client, and forget those of dropped stores.
    fn keep(&self, client: Rc<PoolStoreClient<E>>) {
        let name = Arc::downgrade(&self.name);
        let gone = CLIENTS.with_borrow_mut(|clients| {
            let is_gone = |kept: &mut Kept| kept.0.strong_count() == 0;
            let gone: Vec<Kept> = clients.extract_if(.., is_gone).collect();
            clients.push((name, client));
            gone
        });
        // The clients are dropped outside of the borrow, because ending a connection may take long.
        drop(gone);
    }

    /// Returns this thread's client: a new one if it has none, or if the last one has failed.
    fn client(&self) -> Result<Rc<PoolStoreClient<E>>, OperationError> {
        let name = Arc::as_ptr(&self.name);
        let found = CLIENTS.with_borrow(|clients| {
            let is_mine = |kept: &&Kept| std::ptr::eq(kept.0.as_ptr(), name);
            let (_, client) = clients.iter().find(is_mine)?;
            Rc::clone(client).downcast::<PoolStoreClient<E>>().ok()
        });
        if let Some(client) = found {
            let notices = self.notices(&client);
            return Ok(if client.notices.get() != notices {
                self.renewed(client, notices)
            } else if client.has_failed.get() || client.has_lost_node.get() {
                self.replacement(client)
            } else {
                client
            });
        }
        self.refuse_while_away()?;
        let connected = self.connect_again();
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = match &connected {
            Ok(_) => None,
            Err(what) => Some((Instant::now(), what.clone())),
        };
        let client = connected.map_err(|what| OperationError::Unreachable { what })?;
        self.keep(Rc::clone(&client));
        Ok(client)
    }

    /// Returns the number of notices to clients. Learns of others before the next operation would:
    /// that might meet a node that its client does not know.
    fn notices(&self, client: &PoolStoreClient<E>) -> u64 {
        if client.tree.is_notice_due() {
            // The next operation reports the failure of a node.
            let _ = block_on(client.tree.notices());
        }
        self.node.notices()
    }

    /// Returns a new client, because the pool has more nodes; the same one if they cannot be
    /// reached.
    fn renewed(&self, client: Rc<PoolStoreClient<E>>, notices: u64) -> Rc<PoolStoreClient<E>> {
        let Ok(new) = self.connect_again() else {
            // Tried again after the next notice or failure, because a try may take seconds.
            client.notices.set(notices);
            return client;
        };
        self.forget();
        self.keep(Rc::clone(&new));
        new
    }

    /// Returns a new client in place of one that has failed, or whose lost nodes can be reached
    /// again. Otherwise returns the same one, which serves the keys of the nodes that it reaches.
    fn replacement(&self, client: Rc<PoolStoreClient<E>>) -> Rc<PoolStoreClient<E>> {
        let returns = self.search.returns();
        let are_back = client.returns.replace(returns) != returns;
        if client.has_failed.get() || are_back {
            if let Ok(new) = self.connect_again() {
                self.forget();
                self.keep(Rc::clone(&new));
                return new;
            }
            // Tried again when all nodes have been found, because a try may take seconds.
            client.has_failed.set(false);
            client.has_lost_node.set(true);
        }
        let (connect, nodes) = (Arc::clone(&self.connect), self.nodes.get());
        let (identity, health) = (self.identity, Arc::clone(&self.health));
        let repairs = Arc::clone(&self.repairs);
        self.search.begin(move || {
            let Ok(endpoint) = connect() else {
                return false;
            };
            let reached = block_on(opening::reaches_others(&endpoint, &nodes, identity));
            let Some(excluded) = reached else {
                return false;
            };
            health.note_excluded(|node| excluded.contains(node));
            let is_repaired =
                repairs.swap(excluded.repairs(), Ordering::Relaxed) != excluded.repairs();
            // New clients would not find a node that was excluded either. Without a repair since,
            // or the return of another node, they would meet the same loss.
            let are_back = excluded.is_empty()
                || is_repaired
                || health.has_lost(|node| !excluded.contains(node));
            if are_back {
                health.note_return();
            }
            are_back
        });
        client
    }

    /// Refuses operations shortly after the first node could not be reached. Waiting for a node
    /// takes seconds, in which a thread would do nothing else.
    fn refuse_while_away(&self) -> Result<(), OperationError> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match &*refused {
            Some((when, what)) if when.elapsed() < AWAY => {
                Err(OperationError::Unreachable { what: what.clone() })
            }
            _ => Ok(()),
        }
    }

    fn connect_again(&self) -> Result<Rc<PoolStoreClient<E>>, String> {
        // A notice that comes meanwhile makes the thread connect once more.
        let notices = self.node.notices();
        let endpoint = (self.connect)()?;
        let nodes = block_on(opening::pool_nodes(&endpoint, &self.nodes.get()));
        let nodes = nodes.map_err(|error| error.to_string())?;
        self.nodes.extend(&nodes);
        self.health.extend(&nodes);
        // The cache has addresses of this pool, which may have been replaced on the same nodes.
        let (node, identity) = (Arc::clone(&self.node), Some(self.identity));
        let tree = opening::open(endpoint, &nodes, node, identity);
        let tree = block_on(tree).map_err(|error| error.to_string())?;
        if self.health.note_connection(tree.endpoint()) {
            tree.forget_routes();
        }
        Ok(self.client_of(tree, &nodes, notices))
    }

    /// Drops this thread's client.
    fn forget(&self) {
        let name = Arc::as_ptr(&self.name);
        let gone = CLIENTS.with_borrow_mut(|clients| {
            let is_mine = |kept: &mut Kept| std::ptr::eq(kept.0.as_ptr(), name);
            clients.extract_if(.., is_mine).collect::<Vec<Kept>>()
        });
        // The clients are dropped outside of the borrow, as in `keep`.
        drop(gone);
    }
}

impl<F: PoolEntryForm, E: Endpoint + 'static> OrderedIndex<F> for PoolStore<F, E> {
    /// Executes a batch; see [`nearfield_core`].
    ///
    /// # Errors
    /// `BatchTooLarge`, and `Unreachable` if this thread is new and cannot reach the nodes. Single
    /// operations fail with `KeyTooLong`, `OutOfMemory`, `Unreachable`, and `Unknown`.
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        let client = self.client()?;
        batch::execute(&client, self.in_flight, batch)
    }

    /// Returns the same as [`count`](PoolStore::count); 0 if the nodes do not respond.
    fn len(&self) -> usize {
        self.count().unwrap_or(0)
    }
}

impl<F, E> fmt::Debug for PoolStore<F, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Store")
            .field("nodes", &self.nodes)
            .field("codec", &self.codec)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
