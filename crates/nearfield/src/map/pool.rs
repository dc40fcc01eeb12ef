//! Methods of maps in a pool.

use super::OrderedMap;
use crate::form::MapForm;
use crate::placement::{PoolPlacement, PoolUse};
use nearfield_core::OperationError;
use nearfield_fabric::NodeId;
use nearfield_fabric::membership::NodeAddress;
use nearfield_pool::chime::LeafReads;
use nearfield_pool::store::{
    PoolAddError, PoolDrain, PoolDrainError, PoolGrowth, PoolNodeCensus, PoolRepair,
    PoolRepairError,
};

impl<F: MapForm> OrderedMap<F, PoolPlacement> {
    /// Sets the value of a key, present or not, without returning the old one. This is cheaper than
    /// [`insert`](OrderedMap::insert): an old value outside its leaf is not read, nor is a word
    /// that this process has put recently.
    ///
    /// # Errors
    /// `KeyTooLong`, `OutOfMemory`, `Unreachable` if nothing was changed, and `Unknown` if a memory
    /// node was lost meanwhile.
    ///
    /// ```no_run
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left"])).build()?;
    /// map.put(7, 1)?;
    /// map.put(7, 2)?;
    /// assert_eq!(map.get(7)?, Some(2));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn put(&self, key: F::Key<'_>, value: F::Value<'_>) -> Result<(), OperationError> {
        self.index.put(key, value)
    }

    /// Returns the number of bytes of inner nodes in this process's cache.
    pub fn cache_bytes(&self) -> usize {
        self.index.cache_bytes()
    }

    /// Returns the use of the pool by this process: the state of each memory node, as operations
    /// have found it, the verbs that were posted to it, and the cache. No round trip.
    ///
    /// ```no_run
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left", "right"])).build()?;
    /// assert!(map.pool_use().nodes.iter().all(|node| node.state.is_served));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn pool_use(&self) -> PoolUse {
        self.index.pool_use()
    }

    /// Counts the leaves, keys and long values on each memory node; exact if no client writes.
    /// Reads all leaves that can be reached.
    ///
    /// # Errors
    /// `Unreachable`.
    ///
    /// ```no_run
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left", "right"])).build()?;
    /// for part in map.pool_census()? {
    ///     println!("{}: {} keys", part.node, part.keys);
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn pool_census(&self) -> Result<Vec<PoolNodeCensus>, OperationError> {
        self.index.census()
    }

    /// Excludes the memory nodes `lost`, which must be gone for all clients, and puts empty leaves
    /// on other nodes in the places of theirs: the keys there are absent then, instead of failing.
    /// Other clients may work meanwhile, and notice the repair within a second or two. Counts the
    /// keys on other nodes whose long values are lost; if `forgets`, removes these. Another call
    /// continues a repair that has failed.
    ///
    /// A node that was excluded is not used again, whether it is started again or comes back with
    /// its memory. Its place in the list of nodes stays taken. The first node of a pool cannot be
    /// excluded.
    ///
    /// # Errors
    /// `Connect`; `Served` if a node is served and has its memory, `Foreign` if it is no part of
    /// the pool, and `Away` if another node cannot be reached; `Pool` if a node fails meanwhile.
    ///
    /// ```no_run
    /// use nearfield::{NodeId, PoolPlacement, WordMap};
    ///
    /// let pool = PoolPlacement::shm(["left", "right"]).without_empty_nodes();
    /// let map = WordMap::builder().pool(pool).build()?;
    /// let repaired = map.repair(&[NodeId(1)], true)?;
    /// println!("{} leaves are empty", repaired.leaves);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn repair(&self, lost: &[NodeId], forgets: bool) -> Result<PoolRepair, PoolRepairError> {
        self.index.repair(lost, forgets)
    }

    /// Moves all leaves and long values of a memory node to the other nodes, and excludes it: then
    /// it may be ended. Other clients may work meanwhile. From the beginning on nothing is
    /// allocated on the node, also if the drain fails; another call continues it, and
    /// [`cancel_drain`](OrderedMap::cancel_drain) ends that.
    ///
    /// The place of the node in the list of nodes stays taken. The first node of a pool cannot be
    /// drained. No process may be suspended for 3 s between the moment at which it has written a
    /// long value and that at which it publishes the value: the drain may miss it.
    ///
    /// # Errors
    /// `Connect`; `First`; `Foreign` if the node is no part of the pool, `Away` if it or another
    /// node cannot be reached, and `Excluded` if it is excluded already; `Busy` while another node
    /// is drained; `Cancelled`; `Pool` if a node fails meanwhile, or the others have no room.
    ///
    /// ```no_run
    /// use nearfield::{NodeId, PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left", "right"])).build()?;
    /// let drained = map.drain(NodeId(1))?;
    /// println!("{} leaves were moved", drained.leaves);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain(&self, node: NodeId) -> Result<PoolDrain, PoolDrainError> {
        self.index.drain(node)
    }

    /// Allows clients to allocate on a memory node again whose [`drain`](OrderedMap::drain) has
    /// failed.
    ///
    /// # Errors
    /// As [`drain`](OrderedMap::drain).
    ///
    /// ```no_run
    /// use nearfield::{NodeId, PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left", "right"])).build()?;
    /// if map.drain(NodeId(1)).is_err() {
    ///     map.cancel_drain(NodeId(1))?;
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_drain(&self, node: NodeId) -> Result<(), PoolDrainError> {
        self.index.cancel_drain(node)
    }

    /// Adds the memory node at an address to the pool, and moves its share of leaves and long
    /// values to it, at most `moves_per_second` of them in a second. Other clients may work
    /// meanwhile: they connect to the node by its address, which the pool keeps, whichever nodes
    /// they were opened with. The number of the node must be greater than those of the others.
    ///
    /// `go_on` gets the progress several times a second. If it returns false the call ends, and a
    /// later one continues, also of another process. It takes some 7 s until the node is used. A
    /// node that was added stays in the pool until it is [drained](OrderedMap::drain).
    ///
    /// # Errors
    /// `Connect` if a node cannot be reached, and in a pool with two replicas; `Number`, `Address`,
    /// `Excluded`, `Full` and `Away`, before anything is changed; `Busy` while a node is drained;
    /// `Pool` if a node fails meanwhile, has no room, or belongs to another pool.
    ///
    /// ```no_run
    /// use nearfield::{NodeAddress, PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left", "right"])).build()?;
    /// let third: NodeAddress = "shm:third".parse()?;
    /// let grown = map.add_node(&third, 1000, |growth| {
    ///     println!("{} of {} leaves", growth.leaves, growth.leaves_to_move);
    ///     true
    /// })?;
    /// println!("{} long values were moved", grown.values);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_node(
        &self,
        address: &NodeAddress,
        moves_per_second: u32,
        mut go_on: impl FnMut(&PoolGrowth) -> bool,
    ) -> Result<PoolGrowth, PoolAddError> {
        self.index.add_node(address, moves_per_second, &mut go_on)
    }

    /// Returns the numbers of leaves that ranges of this process have read: in this process, and by
    /// programs at the memory nodes.
    ///
    /// ```no_run
    /// use nearfield::{PoolPlacement, WordMap};
    ///
    /// let map = WordMap::builder().pool(PoolPlacement::shm(["left"])).build()?;
    /// map.range(..).aggregate()?;
    /// assert_eq!(map.leaf_reads().at_nodes, 0, "it was built without programs");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn leaf_reads(&self) -> LeafReads {
        self.index.leaf_reads()
    }
}
