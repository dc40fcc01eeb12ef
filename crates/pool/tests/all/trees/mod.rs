//! Trees of small nodes for the testkit.

use super::numbers::{Numbers, ROOT, fabric};
use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{Endpoint, FabricError, NodeId};
use nearfield_fabric_testkit::{Fault, Faulty, Planted, System};
use nearfield_pool::chime::{ComputeNode, Locks, Options, Speculation, Tree};
use nearfield_pool::layout::{Arrangement, Shape};
use std::sync::Arc;
use std::time::Duration;

/// Returns nodes that are so small that a few dozens of keys make a tree of several levels.
pub fn small() -> Shape {
    Shape {
        leaf_span: 8,
        internal_span: 4,
        neighborhood: 4,
        ..Shape::default()
    }
}

/// Returns CHIME with small nodes.
pub fn chime() -> Options {
    Options {
        shape: small(),
        cache_bytes: 1 << 20,
        hotspot_bytes: 1 << 12,
        ..Options::chime()
    }
}

/// Returns our variant with small nodes.
pub fn nearfield() -> Options {
    Options {
        shape: Shape {
            arrangement: Arrangement::Neighborhood,
            ..small()
        },
        cache_bytes: 1 << 20,
        hotspot_bytes: 1 << 12,
        // Memory is reused as soon as possible.
        retired_bytes: 1,
        locks: Locks::Leased(Duration::from_micros(300)),
        // Runs are too short for the gate to decide.
        speculation: Speculation::Always,
        ..Options::nearfield()
    }
}

/// Trees of which each client has its own compute node.
pub struct SmallTrees {
    pub options: Options,
    pub fault: Fault,
}

impl SmallTrees {
    pub fn new(options: Options) -> SmallTrees {
        SmallTrees {
            options,
            fault: Fault::None,
        }
    }
}

pub fn compute_node(options: Options) -> Arc<ComputeNode> {
    Arc::new(ComputeNode::new(options).expect("sizes"))
}

pub fn key(number: u64) -> [u8; 8] {
    // A key of zeros is invalid.
    (number + 1).to_be_bytes()
}

impl System for SmallTrees {
    type Index = Numbers<Tree<Faulty<Planted>>>;

    fn create(
        &self,
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
    ) -> impl Future<Output = Result<(), FabricError>> + 'static {
        let node = compute_node(self.options);
        async move {
            let made = Tree::create(endpoint, &nodes, ROOT, node).await;
            made.map(drop).map_err(fabric)
        }
    }

    fn open(
        &self,
        endpoint: SimEndpoint,
    ) -> impl Future<Output = Result<Self::Index, FabricError>> + 'static {
        let node = compute_node(self.options);
        let nodes = endpoint.nodes();
        let endpoint = Faulty::new(endpoint, Planted::new(self.fault));
        let value_bytes = self.options.shape.value_bytes;
        async move {
            let tree = Tree::open(endpoint, &nodes, ROOT, node).await;
            let tree = tree.map_err(fabric)?;
            let key = |number| key(number).to_vec();
            Ok(Numbers::new(tree, value_bytes, key, fabric))
        }
    }
}
