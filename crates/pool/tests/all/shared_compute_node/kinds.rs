//! The indexes, with nodes that are so small that a few dozens of keys make several.

use super::slow::Slow;
use crate::numbers::ROOT;
use nearfield_fabric::NodeId;
use nearfield_pool::chime::{ChimeTree, Speculation};
use nearfield_pool::layout::{Arrangement, Geometry, PoolIndexShape};
use nearfield_pool::rivals::rolex::{Rolex, RolexLeafKind};
use nearfield_pool::rivals::smart::Smart;
use nearfield_pool::rivals::{rolex, smart};
use nearfield_pool::{PoolError, PoolIndexClient, chime};
use std::sync::Arc;

/// The first key of a plan, behind some of the keys that a learned index is loaded with.
const FIRST: u64 = 2001;
const LOADED: u64 = 60;

pub fn key(number: u64) -> [u8; 8] {
    (FIRST + number).to_be_bytes()
}

/// An index, and the shared state of its clients.
pub trait SharedIndexKind: Clone + 'static {
    type Node: 'static;
    type Index: PoolIndexClient + 'static;

    fn compute_node(&self) -> Arc<Self::Node>;

    async fn create(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<Self::Node>,
    ) -> Result<Self::Index, PoolError>;

    async fn open(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<Self::Node>,
    ) -> Result<Self::Index, PoolError>;
}

fn small() -> PoolIndexShape {
    PoolIndexShape {
        leaf_span: 8,
        internal_span: 4,
        neighborhood: 4,
        ..PoolIndexShape::default()
    }
}

#[derive(Clone, Debug)]
pub struct SharedChimeIndex(pub chime::ChimeOptions);

impl SharedChimeIndex {
    fn small(options: chime::ChimeOptions) -> SharedChimeIndex {
        SharedChimeIndex(chime::ChimeOptions {
            shape: PoolIndexShape {
                arrangement: options.shape.arrangement,
                ..small()
            },
            cache_bytes: 1 << 20,
            hotspot_bytes: options.hotspot_bytes.min(1 << 12),
            ..options
        })
    }

    pub fn chime() -> SharedChimeIndex {
        SharedChimeIndex::small(chime::ChimeOptions::chime())
    }

    pub fn sherman() -> SharedChimeIndex {
        SharedChimeIndex::small(chime::ChimeOptions::sherman())
    }

    pub fn nearfield() -> SharedChimeIndex {
        SharedChimeIndex::small(chime::ChimeOptions {
            // Runs are too short for the gate to decide.
            speculation: Speculation::Always,
            ..chime::ChimeOptions::nearfield()
        })
    }

    pub fn sharing(SharedChimeIndex(options): SharedChimeIndex, shares: bool) -> SharedChimeIndex {
        SharedChimeIndex(chime::ChimeOptions {
            delegates_reads: shares,
            combines_writes: shares,
            ..options
        })
    }

    /// Returns a kind in which each client does its own operations, so that they compete for locks.
    pub fn queueing(kind: SharedChimeIndex, hand_overs: Option<u32>) -> SharedChimeIndex {
        let SharedChimeIndex(options) = SharedChimeIndex::sharing(kind, false);
        SharedChimeIndex(chime::ChimeOptions {
            hand_overs,
            ..options
        })
    }

    /// Returns the kinds that dead clients do not stop.
    pub fn leased() -> Vec<SharedChimeIndex> {
        let ours = SharedChimeIndex::nearfield();
        let apart = [None, Some(8)].map(|times| SharedChimeIndex::queueing(ours.clone(), times));
        [ours].into_iter().chain(apart).collect()
    }

    pub fn all() -> Vec<SharedChimeIndex> {
        let sherman = SharedChimeIndex::sherman();
        assert_eq!(sherman.0.shape.arrangement, Arrangement::Unordered);
        let spinning = [SharedChimeIndex::chime(), sherman];
        let mut all = SharedChimeIndex::leased();
        for times in [None, Some(1), Some(8)] {
            all.extend(
                spinning
                    .clone()
                    .map(|kind| SharedChimeIndex::queueing(kind, times)),
            );
        }
        let read_at_once = SharedChimeIndex(chime::ChimeOptions {
            lock_and_read: true,
            ..SharedChimeIndex::queueing(SharedChimeIndex::chime(), Some(8)).0
        });
        all.extend(spinning.into_iter().chain([read_at_once]));
        all
    }
}

impl SharedIndexKind for SharedChimeIndex {
    type Node = chime::ChimeComputeNode;
    type Index = ChimeTree<Slow>;

    fn compute_node(&self) -> Arc<chime::ChimeComputeNode> {
        Arc::new(chime::ChimeComputeNode::new(self.0).expect("sizes"))
    }

    async fn create(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<chime::ChimeComputeNode>,
    ) -> Result<ChimeTree<Slow>, PoolError> {
        ChimeTree::create(endpoint, nodes, ROOT, node).await
    }

    async fn open(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<chime::ChimeComputeNode>,
    ) -> Result<ChimeTree<Slow>, PoolError> {
        ChimeTree::open(endpoint, nodes, ROOT, node).await
    }
}

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
}

impl SharedIndexKind for SharedSmartIndex {
    type Node = smart::SmartComputeNode;
    type Index = Smart<Slow>;

    fn compute_node(&self) -> Arc<smart::SmartComputeNode> {
        Arc::new(smart::SmartComputeNode::new(self.0.clone()).expect("sizes"))
    }

    async fn create(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<smart::SmartComputeNode>,
    ) -> Result<Smart<Slow>, PoolError> {
        Smart::create(endpoint, nodes, ROOT, node).await
    }

    async fn open(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<smart::SmartComputeNode>,
    ) -> Result<Smart<Slow>, PoolError> {
        Smart::open(endpoint, nodes, ROOT, node)
    }
}

#[derive(Clone, Debug)]
pub struct SharedRolexIndex(rolex::RolexOptions);

impl SharedRolexIndex {
    fn new(leaf_span: usize, leaves: RolexLeafKind) -> SharedRolexIndex {
        let shape = PoolIndexShape {
            leaf_span,
            ..small()
        };
        SharedRolexIndex(rolex::RolexOptions {
            geometry: Geometry::new(shape).expect("sizes"),
            leaves,
            error: 1,
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
    type Index = Rolex<Slow>;

    fn compute_node(&self) -> Arc<rolex::RolexComputeNode> {
        Arc::new(rolex::RolexComputeNode::new(self.0.clone()))
    }

    async fn create(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<rolex::RolexComputeNode>,
    ) -> Result<Rolex<Slow>, PoolError> {
        let entries = (1..=LOADED).map(|key| ((key * 100).to_be_bytes(), [1; 8]));
        Rolex::load(endpoint, nodes, ROOT, node, entries).await
    }

    async fn open(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<rolex::RolexComputeNode>,
    ) -> Result<Rolex<Slow>, PoolError> {
        Rolex::open(endpoint, nodes, ROOT, node)
    }
}
