//! Trees of small nodes for the testkit.

use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricError, NodeId};
use nearfield_fabric_testkit::{
    FaultInterference, FaultySimEndpoint, INDEX_ROOT, NumberKeyIndex, RemoteIndexFactory,
    SimEndpointFault, fabric_error,
};
use nearfield_pool::PoolIndexClient;
use nearfield_pool::chime::{
    ChimeComputeNode, ChimeLockKind, ChimeOptions, ChimeTree, Speculation,
};
use nearfield_pool::layout::{Arrangement, PoolIndexShape};
use std::sync::Arc;
use std::time::Duration;

/// Returns nodes that are so small that a few dozens of keys make a tree of several levels.
pub fn small() -> PoolIndexShape {
    PoolIndexShape {
        leaf_span: 8,
        internal_span: 4,
        neighborhood: 4,
        ..PoolIndexShape::default()
    }
}

/// Returns CHIME with small nodes.
pub fn chime() -> ChimeOptions {
    ChimeOptions {
        shape: small(),
        cache_bytes: 1 << 20,
        hotspot_bytes: 1 << 12,
        ..ChimeOptions::chime()
    }
}

/// Returns our variant with small nodes.
pub fn nearfield() -> ChimeOptions {
    ChimeOptions {
        shape: PoolIndexShape {
            arrangement: Arrangement::Neighborhood,
            ..small()
        },
        cache_bytes: 1 << 20,
        hotspot_bytes: 1 << 12,
        // Memory is reused as soon as possible.
        retired_bytes: 1,
        locks: ChimeLockKind::Leased(Duration::from_micros(300)),
        // Runs are too short for the gate to decide.
        speculation: Speculation::Always,
        ..ChimeOptions::nearfield()
    }
}

/// The endpoint and the tree of a client in runs.
pub type FaultyTreeEndpoint = FaultySimEndpoint<FaultInterference>;
pub type FaultyChimeTree = ChimeTree<FaultyTreeEndpoint>;

/// Trees of which each client has its own compute node, and works through a `C`.
pub struct SmallTrees<C = FaultyChimeTree> {
    pub options: ChimeOptions,
    pub fault: SimEndpointFault,
    pub client: fn(FaultyChimeTree) -> C,
}

impl SmallTrees {
    pub fn new(options: ChimeOptions) -> SmallTrees {
        SmallTrees::of_clients(options, |tree| tree)
    }
}

impl<C> SmallTrees<C> {
    pub fn of_clients(options: ChimeOptions, client: fn(FaultyChimeTree) -> C) -> SmallTrees<C> {
        SmallTrees {
            options,
            fault: SimEndpointFault::None,
            client,
        }
    }
}

pub fn compute_node(options: ChimeOptions) -> Arc<ChimeComputeNode> {
    Arc::new(ChimeComputeNode::new(options).expect("sizes"))
}

pub fn key(number: u64) -> [u8; 8] {
    // A key of zeros is invalid.
    (number + 1).to_be_bytes()
}

impl<C: PoolIndexClient + 'static> RemoteIndexFactory for SmallTrees<C> {
    type Index = NumberKeyIndex<C>;

    fn create(
        &self,
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        let node = compute_node(self.options);
        async move {
            let made = ChimeTree::create(endpoint, &nodes, INDEX_ROOT, node).await;
            made.map(drop).map_err(fabric_error)
        }
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Self::Index, FabricError>> + 'static {
        let node = compute_node(self.options);
        let nodes = endpoint.nodes();
        let endpoint = FaultySimEndpoint::new(endpoint, FaultInterference::new(self.fault));
        let (value_bytes, client) = (self.options.shape.value_bytes, self.client);
        async move {
            let tree = ChimeTree::open(endpoint, &nodes, INDEX_ROOT, node).await;
            let tree = client(tree.map_err(fabric_error)?);
            let key = |number| key(number).to_vec();
            Ok(NumberKeyIndex::new(tree, value_bytes, key, fabric_error))
        }
    }
}
