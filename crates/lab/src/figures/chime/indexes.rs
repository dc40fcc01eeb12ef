//! The pool's indexes as contenders: one implementation of [`System`] for each.

use super::system::{Entries, ROOT, System};
use nearfield_fabric::NodeId;
use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_pool::PoolError;
use nearfield_pool::chime::{self, Tree};
use nearfield_pool::rivals::rolex::{self, Rolex};
use nearfield_pool::rivals::smart::{self, Smart};
use std::sync::Arc;

impl System for chime::Options {
    type ComputeNode = chime::ComputeNode;
    type Index = Tree<SimEndpoint>;

    fn tree(&self) -> String {
        let tree = chime::Options {
            cache_bytes: 0,
            hotspot_bytes: 0,
            speculation: chime::Speculation::Always,
            backs_off: false,
            ..*self
        };
        format!("{tree:?}")
    }

    fn compute_node(&self) -> Result<Arc<chime::ComputeNode>, PoolError> {
        chime::ComputeNode::new(*self).map(Arc::new)
    }

    fn cache_bytes(node: &chime::ComputeNode) -> usize {
        node.cache_bytes() + node.hotspot_bytes()
    }

    fn guesses(node: &chime::ComputeNode) -> Option<[u64; 2]> {
        Some(node.guesses())
    }

    fn learn_from(node: &chime::ComputeNode, other: &chime::ComputeNode) {
        node.learn_from(other);
    }

    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<chime::ComputeNode>,
        entries: Entries,
    ) -> Result<(), PoolError> {
        let tree = Tree::create(endpoint, &nodes, ROOT, node).await?;
        entries.insert(&tree).await
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<chime::ComputeNode>,
    ) -> Result<Tree<SimEndpoint>, PoolError> {
        Tree::open(endpoint, &nodes, ROOT, node).await
    }
}

impl System for smart::Options {
    type ComputeNode = smart::ComputeNode;
    type Index = Smart<SimEndpoint>;

    fn tree(&self) -> String {
        let tree = smart::Options {
            cache_bytes: 0,
            ..self.clone()
        };
        format!("{tree:?}")
    }

    fn compute_node(&self) -> Result<Arc<smart::ComputeNode>, PoolError> {
        smart::ComputeNode::new(self.clone()).map(Arc::new)
    }

    fn cache_bytes(node: &smart::ComputeNode) -> usize {
        node.cache_bytes()
    }

    fn guesses(_: &smart::ComputeNode) -> Option<[u64; 2]> {
        None
    }

    fn learn_from(node: &smart::ComputeNode, other: &smart::ComputeNode) {
        node.learn_from(other);
    }

    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<smart::ComputeNode>,
        entries: Entries,
    ) -> Result<(), PoolError> {
        let smart = Smart::create(endpoint, &nodes, ROOT, node).await?;
        entries.insert(&smart).await
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<smart::ComputeNode>,
    ) -> Result<Smart<SimEndpoint>, PoolError> {
        Smart::open(endpoint, &nodes, ROOT, node)
    }
}

impl System for rolex::Options {
    type ComputeNode = rolex::ComputeNode;
    type Index = Rolex<SimEndpoint>;

    fn tree(&self) -> String {
        let tree = rolex::Options {
            cache_bytes: 0,
            ..self.clone()
        };
        format!("{tree:?}")
    }

    fn compute_node(&self) -> Result<Arc<rolex::ComputeNode>, PoolError> {
        Ok(Arc::new(rolex::ComputeNode::new(self.clone())))
    }

    fn cache_bytes(node: &rolex::ComputeNode) -> usize {
        node.cache_bytes()
    }

    fn guesses(_: &rolex::ComputeNode) -> Option<[u64; 2]> {
        None
    }

    fn learn_from(node: &rolex::ComputeNode, other: &rolex::ComputeNode) {
        node.learn_from(other);
    }

    /// Loads all entries at once, because models are trained over all keys.
    async fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<rolex::ComputeNode>,
        entries: Entries,
    ) -> Result<(), PoolError> {
        let loaded = Rolex::load(endpoint, &nodes, ROOT, node, entries.sorted()).await;
        loaded.map(drop)
    }

    async fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<rolex::ComputeNode>,
    ) -> Result<Rolex<SimEndpoint>, PoolError> {
        Rolex::open(endpoint, &nodes, ROOT, node)
    }
}
