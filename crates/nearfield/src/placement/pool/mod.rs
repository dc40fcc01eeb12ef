//! The placement in the memory of memory nodes, which processes and machines share.

mod growth;
mod node_use;
mod nodes;
#[cfg(target_os = "linux")]
mod placed;
mod programs;
mod rejoin;
mod status;
#[cfg(target_os = "linux")]
mod transport;

use super::by_batch::scan_by_batch;
use super::{Bounds, MapPlacement, fallible_reads, sealed};
use crate::form::MapForm;
use growth::PoolNodeReach;
use nearfield_core::{
    Batch, ComparisonResult, OperationError, OrderedIndex, PointResult, ScanDirection,
};
use nearfield_fabric::membership::{EtcdMembers, MembershipError, NodeAddress};
use nearfield_fabric::{Endpoint, NodeId};
use nearfield_pool::chime::{CacheLookups, LeafReads};
use nearfield_pool::filtered::{ScanAggregates, ValueFilter};
use nearfield_pool::store::{
    FilteredStoreRange, PoolAddError, PoolDrain, PoolDrainError, PoolGrowth, PoolNodeCensus,
    PoolNodeState, PoolRepair, PoolRepairError, PoolStore, StoreOpenError, StoreOptions,
};
use nearfield_radix::Entry;
pub use node_use::PoolNodeUse;
use node_use::PoolTrafficSource;
use nodes::{KnownPoolNodes, PoolNodeEntry, PoolNodeSource, parse_entries};
pub(crate) use programs::ProgramNodes;
pub use rejoin::RejoinedPoolNode;
pub use status::{PoolNodeContent, PoolNodeStatus};
use std::fmt::Debug;
use std::mem::discriminant;
use std::str::FromStr;

/// A placement in the memory of memory nodes; its value holds the addresses of the nodes.
///
/// Threads share such a map by reference, and processes by opening it. It exists as long as its
/// nodes, even if no process has it open.
///
/// The value can be parsed from a list of nodes, or from the addresses of etcd. An entry of the
/// list may give the number that the node must have.
///
/// ```
/// use nearfield::PoolPlacement;
/// let listed: PoolPlacement = "shm:left,shm:right".parse()?;
/// let numbered: PoolPlacement = "shm:left,7=shm:right".parse()?;
/// let registered: PoolPlacement = "etcd:http://a:2379,http://b:2379".parse()?;
/// # drop((listed, numbered, registered));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PoolPlacement {
    nodes: PoolNodeSource,
    /// True if a map is opened without the nodes that have lost their memory.
    leaves_out_empty: bool,
    /// The number of nodes that have each byte: 1 or 2.
    replicas: usize,
}

impl FromStr for PoolPlacement {
    type Err = MembershipError;

    fn from_str(text: &str) -> Result<PoolPlacement, MembershipError> {
        if let Some(members) = text.strip_prefix("etcd:") {
            // The number of nodes is no part of the text; `with_at_least` sets it.
            return Ok(PoolPlacement::registered(members.parse()?, 1));
        }
        Ok(PoolPlacement::of(PoolNodeSource::Listed(parse_entries(
            text,
        )?)))
    }
}

impl PoolPlacement {
    fn of(nodes: PoolNodeSource) -> PoolPlacement {
        PoolPlacement {
            nodes,
            leaves_out_empty: false,
            replicas: 1,
        }
    }

    /// Creates a placement at nodes with these addresses, all of one transport.
    ///
    /// ```
    /// use nearfield::PoolPlacement;
    /// let addresses = ["shm:left", "shm:right"].map(str::parse);
    /// let pool = PoolPlacement::at(addresses.into_iter().collect::<Result<Vec<_>, _>>()?);
    /// # drop(pool);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn at(nodes: impl IntoIterator<Item = NodeAddress>) -> PoolPlacement {
        let numbers = (0..=u16::MAX).map(NodeId);
        let entry = |(address, number)| PoolNodeEntry {
            address,
            number,
            is_numbered: false,
        };
        let entries = nodes.into_iter().zip(numbers).map(entry).collect();
        PoolPlacement::of(PoolNodeSource::Listed(entries))
    }

    /// Creates a placement at the nodes that are registered in etcd. The map is opened once at
    /// least `count` nodes are registered, so that all processes open it on the same ones.
    ///
    /// ```
    /// use nearfield::PoolPlacement;
    ///
    /// let pool = PoolPlacement::registered("http://a:2379,http://b:2379".parse()?, 2);
    /// # drop(pool);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn registered(members: EtcdMembers, count: usize) -> PoolPlacement {
        PoolPlacement::of(PoolNodeSource::Registered(members, count.max(1)))
    }

    /// Sets the least number of nodes, if they are registered in etcd.
    ///
    /// ```
    /// use nearfield::PoolPlacement;
    ///
    /// let pool: PoolPlacement = "etcd:http://a:2379".parse()?;
    /// let pool = pool.with_at_least(3);
    /// # drop(pool);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_at_least(self, count: usize) -> PoolPlacement {
        let nodes = match self.nodes {
            PoolNodeSource::Registered(members, _) => {
                PoolNodeSource::Registered(members, count.max(1))
            }
            nodes => nodes,
        };
        PoolPlacement { nodes, ..self }
    }

    /// Makes a map be opened without the nodes that have lost their memory. Otherwise such a node
    /// is refused, because its name may be wrong. For the
    /// [`repair`](crate::OrderedMap::repair) of a pool in which an empty node is served in the
    /// place of a lost one.
    ///
    /// ```
    /// use nearfield::PoolPlacement;
    ///
    /// let pool = PoolPlacement::shm(["left", "right"]).without_empty_nodes();
    /// # drop(pool);
    /// ```
    pub fn without_empty_nodes(self) -> PoolPlacement {
        PoolPlacement {
            leaves_out_empty: true,
            ..self
        }
    }

    /// Sets the number of nodes that have each byte, 1 by default or 2. With 2, the nodes are pairs
    /// in the order of their numbers: the first with the second, the third with the fourth. If one
    /// node of a pair is lost, the map goes on with the other, and has all that was acknowledged.
    /// All processes must open the map with the same number.
    ///
    /// ```
    /// use nearfield::PoolPlacement;
    ///
    /// let pool = PoolPlacement::shm(["left", "right"]).with_replicas(2);
    /// # drop(pool);
    /// ```
    pub fn with_replicas(self, replicas: usize) -> PoolPlacement {
        PoolPlacement { replicas, ..self }
    }

    /// Creates a placement at nodes of these names in the shared memory of this machine. Each is
    /// started by `nearfield memory-node --listen shm:NAME`.
    ///
    /// ```
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let builder = WordMap::builder().pool(PoolPlacement::shm(["left", "right"]));
    /// # drop(builder);
    /// ```
    pub fn shm<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> PoolPlacement {
        let shm = |name: N| NodeAddress::Shm {
            name: name.as_ref().to_owned(),
        };
        PoolPlacement::at(names.into_iter().map(shm))
    }

    /// Opens the index on these nodes, or creates an empty one if there is none.
    pub(crate) fn open<F: MapForm>(
        &self,
        options: &StoreOptions,
        programs: Option<ProgramNodes>,
    ) -> Result<PoolMapIndex<F>, StoreOpenError> {
        let nodes = self.nodes.find()?;
        let Some(PoolNodeEntry { address: first, .. }) = nodes.entries.first() else {
            return Err(StoreOpenError::NoNodes);
        };
        // An endpoint has one transport, by which it must reach all nodes.
        let mut addresses = nodes.entries.iter().map(|node| &node.address);
        if let Some(other) = addresses.find(|node| discriminant(*node) != discriminant(first)) {
            let what = format!("no transport reaches both {first} and {other}");
            return Err(StoreOpenError::Connect(what));
        }
        let refused = |what: &str| Err(StoreOpenError::Connect(what.to_owned()));
        match self.replicas {
            1 => {}
            2 if programs.is_none() => {}
            2 => return refused("programs cannot run in a pool with two replicas"),
            _ => return refused("a pool has one or two replicas"),
        }
        #[cfg(target_os = "linux")]
        if let NodeAddress::Shm { .. } | NodeAddress::Ucx { .. } = first {
            return match self.replicas {
                2 => transport::open_mirrored(&nodes, options),
                _ => transport::open(&nodes, self.leaves_out_empty, options, programs),
            };
        }
        Err(StoreOpenError::Connect(format!(
            "no transport reaches {first}"
        )))
    }
}

/// The use of a pool by one process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolUse {
    /// The use of each memory node, in the order of their numbers.
    pub nodes: Vec<PoolNodeUse>,
    /// The number of bytes of inner nodes in the cache of this process.
    pub cache_bytes: usize,
    /// The lookups of parents of leaves in that cache.
    pub cache_lookups: CacheLookups,
    /// The number of bytes of long values that this process has replaced or removed, and that are
    /// not free yet.
    pub retired_bytes: u64,
}

/// The operations of a store that a map calls, on any transport.
trait AnyStore<F: MapForm>: OrderedIndex<F> + Debug {
    fn count(&self) -> Result<usize, OperationError>;
    fn put(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<(), OperationError>;
    fn cache_bytes(&self) -> usize;
    fn cache_lookups(&self) -> CacheLookups;
    fn retired_bytes(&self) -> u64;
    fn node_states(&self) -> Vec<PoolNodeState>;
    fn repair(&self, lost: &[NodeId], forgets: bool) -> Result<PoolRepair, PoolRepairError>;
    fn drain(&self, node: NodeId) -> Result<PoolDrain, PoolDrainError>;
    fn cancel_drain(&self, node: NodeId) -> Result<(), PoolDrainError>;
    fn add_node(
        &self,
        node: NodeId,
        address: &str,
        moves_per_second: u32,
        go_on: &mut dyn FnMut(&PoolGrowth) -> bool,
    ) -> Result<PoolGrowth, PoolAddError>;
    fn census(&self) -> Result<Vec<PoolNodeCensus>, OperationError>;
    fn leaf_reads(&self) -> LeafReads;
    fn selection(&self, bounds: Bounds<'_, F>, filter: ValueFilter) -> FilteredStoreRange;
    fn aggregate(&self, selection: &FilteredStoreRange) -> Result<ScanAggregates, OperationError>;
    fn select(
        &self,
        selection: &mut FilteredStoreRange,
    ) -> Result<Option<Vec<Entry<F>>>, OperationError>;
}

impl<F: MapForm, E: Endpoint + 'static> AnyStore<F> for PoolStore<F, E> {
    fn count(&self) -> Result<usize, OperationError> {
        PoolStore::count(self)
    }

    fn put(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<(), OperationError> {
        PoolStore::put(self, key, value)
    }

    fn cache_bytes(&self) -> usize {
        PoolStore::cache_bytes(self)
    }

    fn cache_lookups(&self) -> CacheLookups {
        PoolStore::cache_lookups(self)
    }

    fn retired_bytes(&self) -> u64 {
        PoolStore::retired_bytes(self)
    }

    fn node_states(&self) -> Vec<PoolNodeState> {
        PoolStore::node_states(self)
    }

    fn repair(&self, lost: &[NodeId], forgets: bool) -> Result<PoolRepair, PoolRepairError> {
        PoolStore::repair(self, lost, forgets)
    }

    fn drain(&self, node: NodeId) -> Result<PoolDrain, PoolDrainError> {
        PoolStore::drain(self, node)
    }

    fn cancel_drain(&self, node: NodeId) -> Result<(), PoolDrainError> {
        PoolStore::cancel_drain(self, node)
    }

    fn add_node(
        &self,
        node: NodeId,
        address: &str,
        moves_per_second: u32,
        go_on: &mut dyn FnMut(&PoolGrowth) -> bool,
    ) -> Result<PoolGrowth, PoolAddError> {
        PoolStore::add_node(self, node, address, moves_per_second, go_on)
    }

    fn census(&self) -> Result<Vec<PoolNodeCensus>, OperationError> {
        PoolStore::census(self)
    }

    fn leaf_reads(&self) -> LeafReads {
        PoolStore::leaf_reads(self)
    }

    fn selection(&self, bounds: Bounds<'_, F>, filter: ValueFilter) -> FilteredStoreRange {
        PoolStore::selection(self, bounds, filter)
    }

    fn aggregate(&self, selection: &FilteredStoreRange) -> Result<ScanAggregates, OperationError> {
        PoolStore::aggregate(self, selection)
    }

    fn select(
        &self,
        selection: &mut FilteredStoreRange,
    ) -> Result<Option<Vec<Entry<F>>>, OperationError> {
        PoolStore::select(self, selection)
    }
}

/// The store of a map, as a trait object: a call takes at least a round trip, so that the cost of
/// dynamic dispatch is negligible.
#[doc(hidden)]
#[derive(Debug)]
pub struct PoolMapIndex<F: MapForm> {
    store: Box<dyn AnyStore<F>>,
    traffic: PoolTrafficSource,
    /// The way to nodes that are about to be added; `None` if none can be.
    reach: Option<PoolNodeReach>,
}

impl<F: MapForm> PoolMapIndex<F> {
    /// Creates the index of a store. Programs run at `programs`.
    fn new<E: Endpoint + 'static>(
        store: PoolStore<F, E>,
        programs: Option<ProgramNodes>,
        traffic: PoolTrafficSource,
        reach: Option<PoolNodeReach>,
    ) -> PoolMapIndex<F> {
        let store = match programs {
            Some(programs) => store.with_programs(move || programs.connect()),
            None => store,
        };
        let store = Box::new(store);
        PoolMapIndex {
            store,
            traffic,
            reach,
        }
    }

    pub(crate) fn put(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<(), OperationError> {
        self.store.put(key, value)
    }

    /// Returns the number of bytes of inner nodes in this process's cache.
    pub(crate) fn cache_bytes(&self) -> usize {
        self.store.cache_bytes()
    }

    /// Returns the use of the pool by this process.
    pub(crate) fn pool_use(&self) -> PoolUse {
        PoolUse {
            nodes: self.traffic.node_uses(self.store.node_states()),
            cache_bytes: self.store.cache_bytes(),
            cache_lookups: self.store.cache_lookups(),
            retired_bytes: self.store.retired_bytes(),
        }
    }

    pub(crate) fn repair(
        &self,
        lost: &[NodeId],
        forgets: bool,
    ) -> Result<PoolRepair, PoolRepairError> {
        self.store.repair(lost, forgets)
    }

    pub(crate) fn drain(&self, node: NodeId) -> Result<PoolDrain, PoolDrainError> {
        self.store.drain(node)
    }

    pub(crate) fn cancel_drain(&self, node: NodeId) -> Result<(), PoolDrainError> {
        self.store.cancel_drain(node)
    }

    /// Adds the node at an address. See [`PoolStore::add_node`].
    pub(crate) fn add_node(
        &self,
        address: &NodeAddress,
        moves_per_second: u32,
        go_on: &mut dyn FnMut(&PoolGrowth) -> bool,
    ) -> Result<PoolGrowth, PoolAddError> {
        let Some(reach) = &self.reach else {
            let what = "nodes cannot be added to a pool with two replicas".to_owned();
            return Err(PoolAddError::Connect(what));
        };
        let node = reach.reach(address).map_err(PoolAddError::Connect)?;
        let address = address.to_string();
        self.store.add_node(node, &address, moves_per_second, go_on)
    }

    pub(crate) fn census(&self) -> Result<Vec<PoolNodeCensus>, OperationError> {
        self.store.census()
    }

    pub(crate) fn leaf_reads(&self) -> LeafReads {
        self.store.leaf_reads()
    }

    pub(crate) fn selection(
        &self,
        bounds: Bounds<'_, F>,
        filter: ValueFilter,
    ) -> FilteredStoreRange {
        self.store.selection(bounds, filter)
    }

    pub(crate) fn aggregate(
        &self,
        selection: &FilteredStoreRange,
    ) -> Result<ScanAggregates, OperationError> {
        self.store.aggregate(selection)
    }

    pub(crate) fn select(
        &self,
        selection: &mut FilteredStoreRange,
    ) -> Result<Option<Vec<Entry<F>>>, OperationError> {
        self.store.select(selection)
    }
}

impl<F: MapForm> OrderedIndex<F> for PoolMapIndex<F> {
    fn execute(&self, batch: &mut Batch<F>) -> Result<(), OperationError> {
        self.store.execute(batch)
    }

    fn len(&self) -> usize {
        self.store.len()
    }

    fn get(&self, key: F::Key<'_>) -> PointResult<F> {
        self.store.get(key)
    }

    fn insert(&self, key: F::Key<'_>, value: F::Value<'_>) -> PointResult<F> {
        self.store.insert(key, value)
    }

    fn update(
        &self,
        key: F::Key<'_>,
        previous: Option<F::Value<'_>>,
        value: F::Value<'_>,
    ) -> ComparisonResult<F> {
        self.store.update(key, previous, value)
    }

    fn remove(&self, key: F::Key<'_>) -> PointResult<F> {
        self.store.remove(key)
    }

    fn remove_if(&self, key: F::Key<'_>, expected: F::Value<'_>) -> ComparisonResult<F> {
        self.store.remove_if(key, expected)
    }
}

impl sealed::SealedPlacement for PoolPlacement {}

impl<F: MapForm> MapPlacement<F> for PoolPlacement {
    fallible_reads!(F);
    type Value<'m> = F::OwnedValue;
    type Index = PoolMapIndex<F>;

    fn get(index: &PoolMapIndex<F>, key: F::Key<'_>) -> PointResult<F> {
        OrderedIndex::get(index, key)
    }

    fn len(index: &PoolMapIndex<F>) -> Result<usize, OperationError> {
        index.store.count()
    }

    fn scan(
        index: &PoolMapIndex<F>,
        bounds: Bounds<'_, F>,
        direction: ScanDirection,
        limit: usize,
        found: impl FnMut(Entry<F>),
    ) -> Result<bool, OperationError> {
        scan_by_batch(index, bounds, direction, limit, found)
    }
}
