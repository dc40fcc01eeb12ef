//! The pool's indexes as contenders: one implementation of [`PoolIndexSystem`] for each.

use super::system::{IndexLoadEntries, PoolIndexSystem, ROOT};
use nearfield_fabric::NodeId;
use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_pool::PoolError;
use nearfield_pool::chime::{self, ChimeTree};
use nearfield_pool_rivals::marlin::{self, Marlin};
use nearfield_pool_rivals::rolex::{self, Rolex};
use nearfield_pool_rivals::smart::{self, Smart};
use std::sync::Arc;

impl PoolIndexSystem for chime::ChimeOptions {
    type ComputeNode = chime::ChimeComputeNode;
    type Index = ChimeTree<SimEndpoint>;

    fn tree(&self) -> String {
        // Caches, guesses and back-off belong to clients: the loaded bytes are the same.
        let tree = chime::ChimeOptions {
            cache_bytes: 0,
            hotspot_bytes: 0,
            speculation: chime::Speculation::Always,
            backs_off: false,
            ..*self
        };
        format!("{tree:?}")
    }

    fn compute_node(&self) -> Result<Arc<chime::ChimeComputeNode>, PoolError> {
        chime::ChimeComputeNode::new(*self).map(Arc::new)
    }

    fn cache_bytes(node: &chime::ChimeComputeNode) -> usize {
        node.cache_bytes() + node.hotspot_bytes()
    }

    fn guesses(node: &chime::ChimeComputeNode) -> Option<[u64; 2]> {
        Some(node.guesses())
    }

    fn learn_from(node: &chime::ChimeComputeNode, other: &chime::ChimeComputeNode) {
        node.learn_from(other);
    }

    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<chime::ChimeComputeNode>,
        entries: IndexLoadEntries,
    ) -> Result<(), PoolError> {
        let tree = ChimeTree::create(endpoint, &nodes, ROOT, node).await?;
        entries.insert(&tree).await
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<chime::ChimeComputeNode>,
    ) -> Result<ChimeTree<SimEndpoint>, PoolError> {
        ChimeTree::open(endpoint, &nodes, ROOT, node).await
    }
}

/// A tree that is loaded in ascending order of keys, as ROLEX is.
pub(super) struct PackedTree {
    pub options: chime::ChimeOptions,
    /// The share of its nodes that is filled, in percent.
    pub percent: usize,
}

/// The compute node of a [`PackedTree`].
pub(super) struct PackedTreeNode {
    node: Arc<chime::ChimeComputeNode>,
    percent: usize,
}

impl PoolIndexSystem for PackedTree {
    type ComputeNode = PackedTreeNode;
    type Index = ChimeTree<SimEndpoint>;

    fn tree(&self) -> String {
        format!("{} to {} %", self.options.tree(), self.percent)
    }

    fn compute_node(&self) -> Result<Arc<PackedTreeNode>, PoolError> {
        let node = self.options.compute_node()?;
        let percent = self.percent;
        Ok(Arc::new(PackedTreeNode { node, percent }))
    }

    fn cache_bytes(node: &PackedTreeNode) -> usize {
        <chime::ChimeOptions as PoolIndexSystem>::cache_bytes(&node.node)
    }

    fn guesses(node: &PackedTreeNode) -> Option<[u64; 2]> {
        <chime::ChimeOptions as PoolIndexSystem>::guesses(&node.node)
    }

    fn learn_from(node: &PackedTreeNode, other: &PackedTreeNode) {
        node.node.learn_from(&other.node);
    }

    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<PackedTreeNode>,
        entries: IndexLoadEntries,
    ) -> Result<(), PoolError> {
        let (percent, node) = (node.percent, Arc::clone(&node.node));
        let entries = entries.sorted();
        let loaded = ChimeTree::load(endpoint, &nodes, ROOT, node, entries, percent).await;
        loaded.map(drop)
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<PackedTreeNode>,
    ) -> Result<ChimeTree<SimEndpoint>, PoolError> {
        ChimeTree::open(endpoint, &nodes, ROOT, Arc::clone(&node.node)).await
    }
}

impl PoolIndexSystem for smart::SmartOptions {
    type ComputeNode = smart::SmartComputeNode;
    type Index = Smart<SimEndpoint>;

    fn tree(&self) -> String {
        let tree = smart::SmartOptions {
            cache_bytes: 0,
            ..self.clone()
        };
        format!("{tree:?}")
    }

    fn compute_node(&self) -> Result<Arc<smart::SmartComputeNode>, PoolError> {
        smart::SmartComputeNode::new(self.clone()).map(Arc::new)
    }

    fn cache_bytes(node: &smart::SmartComputeNode) -> usize {
        node.cache_bytes()
    }

    fn guesses(_: &smart::SmartComputeNode) -> Option<[u64; 2]> {
        None
    }

    fn learn_from(node: &smart::SmartComputeNode, other: &smart::SmartComputeNode) {
        node.learn_from(other);
    }

    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<smart::SmartComputeNode>,
        entries: IndexLoadEntries,
    ) -> Result<(), PoolError> {
        let smart = Smart::create(endpoint, &nodes, ROOT, node).await?;
        entries.insert(&smart).await
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<smart::SmartComputeNode>,
    ) -> Result<Smart<SimEndpoint>, PoolError> {
        Smart::open(endpoint, &nodes, ROOT, node)
    }
}

impl PoolIndexSystem for marlin::MarlinOptions {
    type ComputeNode = marlin::MarlinComputeNode;
    type Index = Marlin<SimEndpoint>;

    fn tree(&self) -> String {
        let tree = marlin::MarlinOptions {
            cache_bytes: 0,
            ..self.clone()
        };
        format!("{tree:?}")
    }

    fn compute_node(&self) -> Result<Arc<marlin::MarlinComputeNode>, PoolError> {
        marlin::MarlinComputeNode::new(self.clone()).map(Arc::new)
    }

    fn cache_bytes(node: &marlin::MarlinComputeNode) -> usize {
        node.cache_bytes()
    }

    fn guesses(_: &marlin::MarlinComputeNode) -> Option<[u64; 2]> {
        None
    }

    fn learn_from(node: &marlin::MarlinComputeNode, other: &marlin::MarlinComputeNode) {
        node.learn_from(other);
    }

    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<marlin::MarlinComputeNode>,
        entries: IndexLoadEntries,
    ) -> Result<(), PoolError> {
        let index = Marlin::create(endpoint, &nodes, ROOT, node).await?;
        entries.insert(&index).await
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<marlin::MarlinComputeNode>,
    ) -> Result<Marlin<SimEndpoint>, PoolError> {
        Marlin::open(endpoint, &nodes, ROOT, node).await
    }
}

impl PoolIndexSystem for rolex::RolexOptions {
    type ComputeNode = rolex::RolexComputeNode;
    type Index = Rolex<SimEndpoint>;

    fn tree(&self) -> String {
        let tree = rolex::RolexOptions {
            cache_bytes: 0,
            hotspot_bytes: 0,
            ..self.clone()
        };
        format!("{tree:?}")
    }

    fn compute_node(&self) -> Result<Arc<rolex::RolexComputeNode>, PoolError> {
        Ok(Arc::new(rolex::RolexComputeNode::new(self.clone())))
    }

    fn cache_bytes(node: &rolex::RolexComputeNode) -> usize {
        node.cache_bytes()
    }

    fn guesses(node: &rolex::RolexComputeNode) -> Option<[u64; 2]> {
        Some(node.guesses())
    }

    fn learn_from(node: &rolex::RolexComputeNode, other: &rolex::RolexComputeNode) {
        node.learn_from(other);
    }

    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<rolex::RolexComputeNode>,
        entries: IndexLoadEntries,
    ) -> Result<(), PoolError> {
        // All entries at once, because models are trained over all keys.
        let loaded = Rolex::load(endpoint, &nodes, ROOT, node, entries.sorted()).await;
        loaded.map(drop)
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<rolex::RolexComputeNode>,
    ) -> Result<Rolex<SimEndpoint>, PoolError> {
        Rolex::open(endpoint, &nodes, ROOT, node)
    }
}
