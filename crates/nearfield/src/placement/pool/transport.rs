//! Transports to memory nodes.

use super::node_use::PoolTrafficSource;
use super::placed::PlacedEndpoint;
use super::rejoin::RejoinedPoolNode;
use super::status::FoundPoolNode;
use super::{KnownPoolNodes, PoolMapIndex, PoolNodeEntry, PoolNodeReach, ProgramNodes};
use crate::form::MapForm;
use nearfield_fabric::count::{ClientTraffic, TrafficLedger};
use nearfield_fabric::membership::NodeAddress;
use nearfield_fabric::mirror::{MirroredEndpoint, NodePair};
use nearfield_fabric::transport::shm::ShmEndpoint;
use nearfield_fabric::transport::ucx::UcxEndpoint;
use nearfield_fabric::{
    ClientProcessorWork, Endpoint, FabricError, FabricVerb, GlobalAddress, NodeId,
};
use nearfield_pool::PoolError;
use nearfield_pool::chime::ChimeLockKind;
use nearfield_pool::store::{
    PoolStore, StoreOpenError, StoreOptions, added_nodes, empty_nodes, excluded_nodes,
    nodes_excluded_by, pool_member, serves_alone, take_in_node,
};
use std::mem::discriminant;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Time in which a creator of a pool makes both nodes of a pair members of it.
const PAIRING: Duration = Duration::from_millis(100);

/// A client's access to the nodes of a pool, on either transport.
///
/// The store is compiled once for both: it is large, and a branch for each post costs little beside
/// the post.
#[derive(Debug)]
pub(super) struct PoolEndpoint {
    transport: PoolTransport,
    /// The nodes of the pool that were not served, had lost their memory, or were excluded by a
    /// repair, when this client connected. They count as lost.
    absent: Vec<NodeId>,
    traffic: ClientTraffic,
}

#[derive(Debug)]
enum PoolTransport {
    Shm(ShmEndpoint),
    Ucx(UcxEndpoint),
}

/// Evaluates an expression on the endpoint of either transport.
macro_rules! on_either {
    ($transport:expr, $each:ident => $call:expr) => {
        match $transport {
            PoolTransport::Shm($each) => $call,
            PoolTransport::Ucx($each) => $call,
        }
    };
}

impl PoolEndpoint {
    fn check(&self, node: NodeId) -> Result<(), FabricError> {
        if self.absent.contains(&node) {
            self.traffic.note_loss(node);
            return Err(FabricError::NodeLost { node });
        }
        Ok(())
    }

    fn check_all(&self, verbs: &[FabricVerb<'_>]) -> Result<(), FabricError> {
        // Usually all nodes are served.
        if self.absent.is_empty() {
            return Ok(());
        }
        verbs.iter().try_for_each(|verb| self.check(verb.node()))
    }
}

// Each method with a body of its own in a transport is passed on: the body in the trait is a slower
// or weaker one.
impl Endpoint for PoolEndpoint {
    fn nodes(&self) -> Vec<NodeId> {
        let mut nodes = on_either!(&self.transport, it => it.nodes());
        nodes.extend(&self.absent);
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    fn is_reachable(&self, node: NodeId) -> bool {
        !self.absent.contains(&node) && on_either!(&self.transport, it => it.is_reachable(node))
    }

    fn atomic_bytes(&self) -> u64 {
        on_either!(&self.transport, it => it.atomic_bytes())
    }

    async fn post(&self, verbs: &mut [FabricVerb<'_>]) -> Result<(), FabricError> {
        self.check_all(verbs)?;
        let posted = on_either!(&self.transport, it => it.post(verbs).await);
        self.traffic.note_post(verbs, posted.as_ref().err());
        posted
    }

    async fn post_by(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        self.check_all(verbs)?;
        let posted = on_either!(&self.transport, it => it.post_by(deadline, verbs).await);
        if !matches!(posted, Ok(false)) {
            self.traffic.note_post(verbs, posted.as_ref().err());
        }
        posted
    }

    fn write_unsignalled(&self, to: GlobalAddress, bytes: &[u8]) -> Result<(), FabricError> {
        self.check(to.node())?;
        let written = on_either!(&self.transport, it => it.write_unsignalled(to, bytes));
        let write = FabricVerb::Write { to, bytes };
        self.traffic.note_post(&[write], written.as_ref().err());
        written
    }

    fn write_unsignalled_by(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        self.check(to.node())?;
        let written =
            on_either!(&self.transport, it => it.write_unsignalled_by(deadline, to, bytes));
        if !matches!(written, Ok(false)) {
            let write = FabricVerb::Write { to, bytes };
            self.traffic.note_post(&[write], written.as_ref().err());
        }
        written
    }

    async fn settle(&self) -> Result<(), FabricError> {
        on_either!(&self.transport, it => it.settle().await)
    }

    async fn allocate(&self, node: NodeId, bytes: u64) -> Result<GlobalAddress, FabricError> {
        self.check(node)?;
        let allocated = on_either!(&self.transport, it => it.allocate(node, bytes).await);
        self.traffic.note_call(node, allocated.as_ref().err());
        allocated
    }

    async fn allocate_at(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.check(address.node())?;
        let allocated = on_either!(&self.transport, it => it.allocate_at(address, bytes).await);
        self.traffic
            .note_call(address.node(), allocated.as_ref().err());
        allocated
    }

    async fn find_memory(
        &self,
        from: GlobalAddress,
        is_allocated: bool,
    ) -> Result<Option<GlobalAddress>, FabricError> {
        self.check(from.node())?;
        let found = on_either!(&self.transport, it => it.find_memory(from, is_allocated).await);
        self.traffic.note_call(from.node(), found.as_ref().err());
        found
    }

    async fn free(&self, address: GlobalAddress, bytes: u64) -> Result<(), FabricError> {
        self.check(address.node())?;
        let freed = on_either!(&self.transport, it => it.free(address, bytes).await);
        self.traffic.note_call(address.node(), freed.as_ref().err());
        freed
    }

    async fn charge(&self, work: ClientProcessorWork) {
        on_either!(&self.transport, it => it.charge(work).await);
    }

    fn now(&self) -> Duration {
        on_either!(&self.transport, it => it.now())
    }

    async fn sleep(&self, time: Duration) {
        on_either!(&self.transport, it => it.sleep(time).await);
    }
}

/// Returns the addresses without the names of their transports.
fn bare_addresses(nodes: &[PoolNodeEntry]) -> Vec<String> {
    let bare = |node: &PoolNodeEntry| {
        let address = node.address.to_string();
        match address.split_once(':') {
            Some((_, bare)) => bare.to_owned(),
            None => address,
        }
    };
    nodes.iter().map(bare).collect()
}

/// The connections of a process to the nodes of one transport.
#[derive(Debug)]
struct PoolConnector {
    nodes: KnownPoolNodes,
    /// The nodes behind these: those that were added to the pool, as connections have found them,
    /// and those that this process adds.
    more: Mutex<Vec<PoolNodeEntry>>,
    /// The numbers of the nodes that this process adds.
    candidates: Mutex<Vec<NodeId>>,
    is_shm: bool,
    /// The endpoint that all threads share, in shared memory.
    shared: Mutex<Option<ShmEndpoint>>,
    /// True once the index is open. From then on a node that has lost its memory counts as lost.
    /// Before, its name may be wrong, so it is refused.
    leaves_out_empty: AtomicBool,
    traffic: TrafficLedger,
}

impl PoolConnector {
    fn new(nodes: KnownPoolNodes, leaves_out_empty: bool) -> PoolConnector {
        let first = nodes.entries.first().map(|node| &node.address);
        let is_shm = matches!(first, Some(NodeAddress::Shm { .. }));
        PoolConnector {
            nodes,
            more: Mutex::default(),
            candidates: Mutex::default(),
            is_shm,
            shared: Mutex::default(),
            leaves_out_empty: AtomicBool::new(leaves_out_empty),
            traffic: TrafficLedger::default(),
        }
    }

    /// Connects a thread to single nodes.
    fn connect_nodes(&self) -> Result<PlacedEndpoint, String> {
        let endpoint = self.connect()?;
        self.traffic.note_connection(&endpoint);
        Ok(PlacedEndpoint::Nodes(endpoint))
    }

    /// Connects a thread to some nodes, as far as they are served, at least to one.
    fn connect_to(&self, entries: &[PoolNodeEntry]) -> Result<PoolEndpoint, String> {
        let addresses = bare_addresses(entries);
        let transport = if self.is_shm {
            PoolTransport::Shm(self.attach(&addresses)?)
        } else {
            let connected = UcxEndpoint::connect_reachable(&addresses);
            PoolTransport::Ucx(connected.map_err(|error| error.to_string())?)
        };
        let reached = on_either!(&transport, it => it.nodes());
        let is_missing = |node: &NodeId| !reached.contains(node);
        let missing = self.nodes.missing.iter().copied();
        let mut absent: Vec<NodeId> = missing.filter(is_missing).collect();
        for (node, address) in entries.iter().zip(&addresses) {
            match on_either!(&transport, it => it.number_of(address)) {
                Some(number) => node.check(number).map_err(|error| error.to_string())?,
                // Without a number in the list, another node may have this one.
                None if reached.contains(&node.number) => {}
                None => absent.push(node.number),
            }
        }
        let traffic = self.traffic.client(&[&reached[..], &absent[..]].concat());
        Ok(PoolEndpoint {
            transport,
            absent,
            traffic,
        })
    }

    /// Connects a thread to the nodes that are served, at least to one.
    fn connect(&self) -> Result<PoolEndpoint, String> {
        let mut endpoint = loop {
            let entries = self.entries();
            let endpoint = self.connect_to(&entries)?;
            self.note_added(&endpoint);
            // Another thread may have found further nodes meanwhile.
            if self.entries().len() == entries.len() {
                break endpoint;
            }
        };
        // A node that was excluded is not used again, whatever its memory holds.
        let excluded = excluded_nodes(&endpoint);
        endpoint.absent.extend(excluded);
        if self.leaves_out_empty.load(Ordering::Acquire) {
            let mut empty = empty_nodes(&endpoint);
            let candidates = self.candidates.lock();
            let candidates = candidates.unwrap_or_else(PoisonError::into_inner);
            empty.retain(|node| !candidates.contains(node));
            endpoint.absent.extend(empty);
        }
        Ok(endpoint)
    }

    fn more(&self) -> MutexGuard<'_, Vec<PoolNodeEntry>> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all known nodes.
    fn entries(&self) -> Vec<PoolNodeEntry> {
        let listed = self.nodes.entries.iter();
        listed.chain(&*self.more()).cloned().collect()
    }

    /// Notes the nodes that were added to the pool, and are not listed.
    fn note_added(&self, endpoint: &PoolEndpoint) {
        let reached = on_either!(&endpoint.transport, it => it.nodes());
        let added = added_nodes(endpoint);
        let mut more = self.more();
        for added in added {
            let mut known = self.nodes.entries.iter().chain(&*more);
            let is_it = |entry: &PoolNodeEntry| entry.is_numbered && entry.number == added.node;
            let is_known = reached.contains(&added.node) || known.any(is_it);
            // An address that another version has stored may have another form.
            if !is_known && let Ok(address) = added.address.parse() {
                more.push(PoolNodeEntry {
                    address,
                    number: added.node,
                    is_numbered: true,
                });
            }
        }
    }

    /// Makes connections reach a node from here on that is about to be added. Returns its number.
    fn reach(&self, address: &NodeAddress) -> Result<NodeId, String> {
        let first = self.nodes.entries.first().map(|node| &node.address);
        if let Some(first) = first.filter(|first| discriminant(*first) != discriminant(address)) {
            return Err(format!("no transport reaches both {first} and {address}"));
        }
        let known = self.entries();
        let is_known = known.iter().any(|entry| entry.address == *address);
        let entry = PoolNodeEntry {
            address: address.clone(),
            number: NodeId::default(),
            is_numbered: false,
        };
        let nodes = KnownPoolNodes {
            entries: vec![entry.clone()],
            missing: Vec::new(),
        };
        let single = PoolConnector::new(nodes, false);
        let alone = single.connect_to(&single.nodes.entries)?;
        let number = alone.nodes().first().copied().unwrap_or_default();
        if !is_known {
            // All connections would fail from here on.
            if self.connect()?.nodes().contains(&number) {
                return Err(format!("the pool has another {number} than {address}"));
            }
            self.more().push(PoolNodeEntry {
                number,
                is_numbered: true,
                ..entry
            });
        }
        let candidates = self.candidates.lock();
        candidates
            .unwrap_or_else(PoisonError::into_inner)
            .push(number);
        Ok(number)
    }

    /// Connects a thread to pairs of nodes, whose locks have this lease.
    fn connect_mirrored(
        self: &Arc<Self>,
        pairs: &[NodePair],
        lease: Duration,
    ) -> Result<PlacedEndpoint, String> {
        let endpoint = self.connect_pairs(pairs)?;
        let (connector, same) = (Arc::clone(self), pairs.to_vec());
        // A node that was taken in has another connection than the lost one.
        let reconnect = move || connector.connect_pairs(&same).ok();
        let endpoint = MirroredEndpoint::new(endpoint, pairs, lease).with_reconnection(reconnect);
        Ok(PlacedEndpoint::Pairs(Box::new(endpoint)))
    }

    /// Connects a thread to the single nodes of pairs.
    fn connect_pairs(&self, pairs: &[NodePair]) -> Result<PoolEndpoint, String> {
        let mut endpoint = self.connect()?;
        let excluded = excluded_pairs(&endpoint, pairs);
        // A pair is excluded as a whole.
        endpoint.absent.extend(excluded.iter().flat_map(nodes_of));
        let empty: Vec<NodeId> = pairs
            .iter()
            .filter_map(|pair| empty_node_of(&endpoint, pair))
            .collect();
        // The other node has what was acknowledged.
        endpoint.absent.extend(empty);
        self.traffic.note_connection(&endpoint);
        Ok(endpoint)
    }

    /// Returns the endpoint of all threads: a new one if a node was lost, because the memory of a
    /// node that is served again is another.
    fn attach(&self, addresses: &[String]) -> Result<ShmEndpoint, String> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = &*shared {
            let nodes = endpoint.nodes();
            let are_served = nodes.iter().all(|&node| endpoint.is_reachable(node));
            if nodes.len() == addresses.len() && are_served {
                return Ok(endpoint.clone());
            }
        }
        let attached = ShmEndpoint::attach_reachable(addresses);
        let attached = attached.map_err(|error| error.to_string())?;
        // Single operations lose little by prefetching.
        let attached = attached.prefetching();
        *shared = Some(attached.clone());
        Ok(attached)
    }
}

/// Returns the node of a pair that has lost its memory: it belongs to no pool, and the other does.
fn empty_node_of(endpoint: &PoolEndpoint, pair: &NodePair) -> Option<NodeId> {
    let began = endpoint.now();
    loop {
        let is_member = |node: NodeId| pool_member(endpoint, node).map(|member| member.is_some());
        // Nothing is known of the memory of a node that cannot be reached.
        let primary = is_member(pair.primary).ok()?;
        let backup = is_member(pair.backup).ok()?;
        if primary == backup {
            return None;
        }
        // Otherwise a creator of the pool may have reached one of them only.
        if endpoint.now() - began > PAIRING {
            return Some(if primary { pair.backup } else { pair.primary });
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the pairs of nodes: each node with the next one, in the order of their numbers.
fn pairs_of(nodes: &KnownPoolNodes) -> Result<Vec<NodePair>, StoreOpenError> {
    let numbers = nodes.entries.iter().map(|node| node.number);
    let mut numbers: Vec<NodeId> = numbers.chain(nodes.missing.iter().copied()).collect();
    numbers.sort_unstable();
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        let count = numbers.len();
        return Err(StoreOpenError::Connect(format!(
            "two replicas need pairs of memory nodes, and there are {count} nodes"
        )));
    }
    let pair = |&[primary, backup]: &[NodeId; 2]| NodePair {
        number: primary,
        primary,
        backup,
    };
    Ok(pairs.iter().map(pair).collect())
}

fn nodes_of(pair: &NodePair) -> [NodeId; 2] {
    [pair.primary, pair.backup]
}

/// Returns the pairs that were excluded, as either node of the first pair has it.
fn excluded_pairs(endpoint: &PoolEndpoint, pairs: &[NodePair]) -> Vec<NodePair> {
    let first = pairs.first().into_iter().flat_map(nodes_of);
    let excluded = first.flat_map(|node| nodes_excluded_by(endpoint, node));
    let excluded: Vec<NodeId> = excluded.collect();
    let is_excluded = |pair: &&NodePair| excluded.contains(&pair.number);
    pairs.iter().filter(is_excluded).copied().collect()
}

/// Returns the nodes with their numbers, which decide which of them are a pair, even if some cannot
/// be reached.
fn with_numbers(nodes: &KnownPoolNodes) -> KnownPoolNodes {
    let mut nodes = nodes.clone();
    for entry in &mut nodes.entries {
        entry.is_numbered = true;
    }
    nodes
}

/// Takes each node that has come back empty into its pair.
pub fn rejoin(nodes: &KnownPoolNodes) -> Result<Vec<RejoinedPoolNode>, StoreOpenError> {
    let pairs = pairs_of(nodes)?;
    // All maps have this lease.
    let ChimeLockKind::Leased(lease) = StoreOptions::default().tree.locks else {
        let what = "two replicas need locks with leases".to_owned();
        return Err(StoreOpenError::Connect(what));
    };
    let connector = PoolConnector::new(with_numbers(nodes), false);
    let endpoint = connector.connect().map_err(StoreOpenError::Connect)?;
    let excluded = excluded_pairs(&endpoint, &pairs);
    let endpoint = MirroredEndpoint::new(endpoint, &pairs, lease);
    let mut rejoined = Vec::new();
    for pair in pairs.iter().filter(|pair| !excluded.contains(pair)) {
        let Some(number) = node_to_take_in(&endpoint.endpoint(), pair)? else {
            continue;
        };
        let copied_bytes = take_in_node(&endpoint, number)
            .map_err(|error| StoreOpenError::Connect(error.to_string()))?;
        rejoined.push(RejoinedPoolNode {
            number,
            copied_bytes,
        });
    }
    Ok(rejoined)
}

/// Returns the node of a pair that the other one serves without, if it can be taken in.
fn node_to_take_in(
    endpoint: &PoolEndpoint,
    pair: &NodePair,
) -> Result<Option<NodeId>, StoreOpenError> {
    // Both must be reached.
    for node in [pair.primary, pair.backup] {
        pool_member(endpoint, node)?;
    }
    if let Some(node) = empty_node_of(endpoint, pair) {
        return Ok(Some(node));
    }
    // A node that an attempt has filled in part is refused later, with the remedy.
    Ok(if serves_alone(endpoint, pair.primary)? {
        Some(pair.backup)
    } else if serves_alone(endpoint, pair.backup)? {
        Some(pair.primary)
    } else {
        None
    })
}

/// Opens the index like [`open`], on pairs of nodes.
pub fn open_mirrored<F: MapForm>(
    nodes: &KnownPoolNodes,
    options: &StoreOptions,
) -> Result<PoolMapIndex<F>, StoreOpenError> {
    let pairs = pairs_of(nodes)?;
    let ChimeLockKind::Leased(lease) = options.tree.locks else {
        let what = "two replicas need locks with leases".to_owned();
        return Err(StoreOpenError::Connect(what));
    };
    let connector = Arc::new(PoolConnector::new(with_numbers(nodes), false));
    let traffic = PoolTrafficSource {
        ledger: connector.traffic.clone(),
        pairs: pairs.clone(),
    };
    let connects = Arc::clone(&connector);
    let connect = move || connects.connect_mirrored(&pairs, lease);
    let store = PoolStore::open(connect, options)?;
    connector.leaves_out_empty.store(true, Ordering::Release);
    Ok(PoolMapIndex::new(store, None, traffic, None))
}

/// Looks at one node. Returns the reason if it cannot be reached.
pub fn look(node: &PoolNodeEntry) -> Result<FoundPoolNode, String> {
    let nodes = KnownPoolNodes {
        entries: vec![node.clone()],
        missing: Vec::new(),
    };
    let connector = PoolConnector::new(nodes, false);
    // The other nodes of the pool are looked at by themselves.
    let endpoint = connector.connect_to(&connector.nodes.entries)?;
    connector.note_added(&endpoint);
    let added = connector.more().clone();
    let number = endpoint.nodes().first().copied().unwrap_or(node.number);
    let member = pool_member(&endpoint, number).map_err(|error| error.to_string())?;
    let serves_alone = serves_alone(&endpoint, number).map_err(|error| error.to_string())?;
    Ok(FoundPoolNode {
        number,
        memory: on_either!(&endpoint.transport, it => it.memory_of(number)),
        member,
        excluded: excluded_nodes(&endpoint),
        added,
        serves_alone,
    })
}

/// Opens the index on nodes of one transport. All threads share the nodes in shared memory; each
/// thread has its own UCX connections.
pub fn open<F: MapForm>(
    nodes: &KnownPoolNodes,
    leaves_out_empty: bool,
    options: &StoreOptions,
    programs: Option<ProgramNodes>,
) -> Result<PoolMapIndex<F>, StoreOpenError> {
    let connector = Arc::new(PoolConnector::new(nodes.clone(), leaves_out_empty));
    let connects = Arc::clone(&connector);
    let connect = move || connects.connect_nodes();
    let store = match PoolStore::open(connect, options) {
        Err(StoreOpenError::Pool(PoolError::Fabric(error @ FabricError::NodeLost { .. }))) => {
            return Err(StoreOpenError::Connect(format!(
                "{error}: the first node of a pool must be served, and all of them when the pool \
                 is created"
            )));
        }
        opened => opened?,
    };
    connector.leaves_out_empty.store(true, Ordering::Release);
    let traffic = PoolTrafficSource {
        ledger: connector.traffic.clone(),
        pairs: Vec::new(),
    };
    let reach = PoolNodeReach::new(move |address| connector.reach(address));
    Ok(PoolMapIndex::new(store, programs, traffic, Some(reach)))
}

#[cfg(test)]
mod tests {
    use super::super::PoolPlacement;
    use super::*;
    use nearfield_fabric_testkit::ShmNodes;
    use nearfield_testkit::polling::block_on;

    /// A search for the records of a dead client reads both nodes of a pair.
    #[test]
    fn the_backup_of_a_pair_can_be_read() {
        let nodes = ShmNodes::serve(2, 1 << 20).expect("nodes");
        let known = PoolPlacement::shm(nodes.names()).nodes.find();
        let known = known.expect("a list");
        let pairs = pairs_of(&known).expect("a pair");
        let connector = Arc::new(PoolConnector::new(known, false));
        let endpoint = connector.connect_mirrored(&pairs, Duration::from_secs(1));
        let endpoint = endpoint.expect("both nodes are served");
        let at = GlobalAddress::new(NodeId(0), 4096);
        assert_eq!(block_on(endpoint.write(at, &[7; 8])), Ok(()));
        let mut found = [0; 8];
        assert_eq!(block_on(endpoint.read_backup(at, &mut found)), Ok(true));
        assert_eq!(found, [7; 8]);
        let traffic = connector.traffic.of(&[NodeId(0), NodeId(1)]);
        let written = traffic.iter().map(|of_node| of_node.written_bytes);
        assert!(written.eq([8, 8]), "{traffic:?}");
    }
}
