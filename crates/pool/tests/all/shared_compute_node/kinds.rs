//! Trees with nodes that are so small that a few dozens of keys make several.

use crate::trees::small;
use nearfield_fabric::NodeId;
use nearfield_fabric_testkit::INDEX_ROOT;
use nearfield_fabric_testkit::shared_node::{SharedIndexKind, SlowEndpoint};
use nearfield_pool::chime::{ChimeTree, Speculation};
use nearfield_pool::layout::{Arrangement, PoolIndexShape};
use nearfield_pool::{PoolError, chime};
use std::sync::Arc;

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
    type Index = ChimeTree<SlowEndpoint>;

    fn compute_node(&self) -> Arc<chime::ChimeComputeNode> {
        Arc::new(chime::ChimeComputeNode::new(self.0).expect("sizes"))
    }

    async fn create(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<chime::ChimeComputeNode>,
    ) -> Result<ChimeTree<SlowEndpoint>, PoolError> {
        ChimeTree::create(endpoint, nodes, INDEX_ROOT, node).await
    }

    async fn open(
        &self,
        endpoint: SlowEndpoint,
        nodes: &[NodeId],
        node: Arc<chime::ChimeComputeNode>,
    ) -> Result<ChimeTree<SlowEndpoint>, PoolError> {
        ChimeTree::open(endpoint, nodes, INDEX_ROOT, node).await
    }
}
