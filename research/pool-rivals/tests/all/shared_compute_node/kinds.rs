//! The rivals, with leaves that are so small that a few dozens of keys make several.

use crate::marlin_simulated;
use nearfield_fabric::NodeId;
use nearfield_fabric_testkit::INDEX_ROOT;
use nearfield_fabric_testkit::shared_node::{SharedIndexKind, SlowEndpoint};
use nearfield_pool::PoolError;
use nearfield_pool::layout::{Geometry, PoolIndexShape};
use nearfield_pool_rivals::marlin::Marlin;
use nearfield_pool_rivals::rolex::{Rolex, RolexLeafKind};
use nearfield_pool_rivals::smart::Smart;
use nearfield_pool_rivals::{marlin, rolex, smart};
use std::sync::Arc;

/// Number of keys that ROLEX is loaded with, in steps of 100, around the keys of the plans.
const LOADED: u64 = 60;

#[derive(Clone, Debug)]
pub struct SharedSmartIndex(smart::SmartOptions);

impl SharedSmartIndex {
    pub fn new(shares: bool) -> SharedSmartIndex {
        SharedSmartIndex(smart::SmartOptions {
            cache_bytes: 1 << 20,
            chunk_bytes: 1 << 14,
            delegates_reads: shares,
            combines_writes: shares,
            ..smart::SmartOptions::default()
        })
    }

    /// Returns trees whose leaves are copied.
    pub fn copied() -> SharedSmartIndex {
        let SharedSmartIndex(options) = SharedSmartIndex::new(true);
        SharedSmartIndex(smart::SmartOptions {
            update: smart::SmartUpdate::Copy,
            ..options
        })
    }
}

impl SharedIndexKind for SharedSmartIndex {
    type Node = smart::SmartComputeNode;
    type Index = Smart<SlowEndpoint>;

    fn compute_node(&self) -> Arc<smart::SmartComputeNode> {
        Arc::new(smart::SmartComputeNode::new(self.0.clone()).expect("sizes"))
    }

    async fn create(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<smart::SmartComputeNode>,
    ) -> Result<Smart<SlowEndpoint>, PoolError> {
        Smart::create(endpoint, nodes, INDEX_ROOT, node).await
    }

    async fn open(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<smart::SmartComputeNode>,
    ) -> Result<Smart<SlowEndpoint>, PoolError> {
        Smart::open(endpoint, nodes, INDEX_ROOT, node)
    }
}

#[derive(Clone, Debug)]
pub struct SharedMarlinIndex(marlin::MarlinOptions);

impl SharedMarlinIndex {
    pub fn sharing() -> SharedMarlinIndex {
        SharedMarlinIndex(marlin_simulated::small(8))
    }
}

impl SharedIndexKind for SharedMarlinIndex {
    type Node = marlin::MarlinComputeNode;
    type Index = Marlin<SlowEndpoint>;

    fn compute_node(&self) -> Arc<marlin::MarlinComputeNode> {
        Arc::new(marlin::MarlinComputeNode::new(self.0.clone()).expect("sizes"))
    }

    async fn create(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<marlin::MarlinComputeNode>,
    ) -> Result<Marlin<SlowEndpoint>, PoolError> {
        Marlin::create(endpoint, nodes, INDEX_ROOT, node).await
    }

    async fn open(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<marlin::MarlinComputeNode>,
    ) -> Result<Marlin<SlowEndpoint>, PoolError> {
        Marlin::open(endpoint, nodes, INDEX_ROOT, node).await
    }
}

#[derive(Clone, Debug)]
pub struct SharedRolexIndex(rolex::RolexOptions);

impl SharedRolexIndex {
    fn new(leaf_span: usize, leaves: RolexLeafKind) -> SharedRolexIndex {
        let shape = PoolIndexShape {
            leaf_span,
            neighborhood: 4,
            ..PoolIndexShape::default()
        };
        SharedRolexIndex(rolex::RolexOptions {
            geometry: Geometry::new(shape).expect("sizes"),
            leaves,
            error: 1,
            // Arrays ignore it.
            hotspot_bytes: 1 << 12,
            delegates_reads: true,
            combines_writes: true,
            ..rolex::RolexOptions::default()
        })
    }

    pub fn arrays() -> SharedRolexIndex {
        SharedRolexIndex::new(4, RolexLeafKind::Arrays)
    }

    pub fn sharing(SharedRolexIndex(options): SharedRolexIndex, shares: bool) -> SharedRolexIndex {
        SharedRolexIndex(rolex::RolexOptions {
            delegates_reads: shares,
            combines_writes: shares,
            ..options
        })
    }

    pub fn all() -> [SharedRolexIndex; 2] {
        let vacancy_piggyback = true;
        let tables = RolexLeafKind::Hopscotch { vacancy_piggyback };
        [SharedRolexIndex::arrays(), SharedRolexIndex::new(8, tables)]
    }
}

impl SharedIndexKind for SharedRolexIndex {
    type Node = rolex::RolexComputeNode;
    type Index = Rolex<SlowEndpoint>;

    fn compute_node(&self) -> Arc<rolex::RolexComputeNode> {
        Arc::new(rolex::RolexComputeNode::new(self.0.clone()))
    }

    async fn create(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<rolex::RolexComputeNode>,
    ) -> Result<Rolex<SlowEndpoint>, PoolError> {
        let entries = (1..=LOADED).map(|key| ((key * 100).to_be_bytes(), [1; 8]));
        Rolex::load(endpoint, nodes, INDEX_ROOT, node, entries).await
    }

    async fn open(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<rolex::RolexComputeNode>,
    ) -> Result<Rolex<SlowEndpoint>, PoolError> {
        Rolex::open(endpoint, nodes, INDEX_ROOT, node)
    }
}
