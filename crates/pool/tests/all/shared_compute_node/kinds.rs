//! The indexes, with nodes that are so small that a few dozens of keys make several.

use super::slow::Slow;
use crate::numbers::ROOT;
use nearfield_fabric::NodeId;
use nearfield_pool::chime::{Speculation, Tree};
use nearfield_pool::layout::{Arrangement, Geometry, Shape};
use nearfield_pool::rivals::rolex::{Leaves, Rolex};
use nearfield_pool::rivals::smart::Smart;
use nearfield_pool::rivals::{rolex, smart};
use nearfield_pool::{PoolError, PoolIndex, chime};
use std::sync::Arc;

/// The first key of a plan, behind some of the keys that a learned index is loaded with.
const FIRST: u64 = 2001;
const LOADED: u64 = 60;

pub fn key(number: u64) -> [u8; 8] {
    (FIRST + number).to_be_bytes()
}

/// An index, and the shared state of its clients.
pub trait Kind: Clone + 'static {
    type Node: 'static;
    type Index: PoolIndex + 'static;

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

fn small() -> Shape {
    Shape {
        leaf_span: 8,
        internal_span: 4,
        neighborhood: 4,
        ..Shape::default()
    }
}

#[derive(Clone, Debug)]
pub struct Trees(pub chime::Options);

impl Trees {
    fn small(options: chime::Options) -> Trees {
        Trees(chime::Options {
            shape: Shape {
                arrangement: options.shape.arrangement,
                ..small()
            },
            cache_bytes: 1 << 20,
            hotspot_bytes: options.hotspot_bytes.min(1 << 12),
            ..options
        })
    }

    pub fn chime() -> Trees {
        Trees::small(chime::Options::chime())
    }

    pub fn sherman() -> Trees {
        Trees::small(chime::Options::sherman())
    }

    pub fn nearfield() -> Trees {
        Trees::small(chime::Options {
            // Runs are too short for the gate to decide.
            speculation: Speculation::Always,
            ..chime::Options::nearfield()
        })
    }

    pub fn sharing(Trees(options): Trees, shares: bool) -> Trees {
        Trees(chime::Options {
            delegates_reads: shares,
            combines_writes: shares,
            ..options
        })
    }

    /// Returns a kind in which each client does its own operations, so that they compete for locks.
    pub fn queueing(kind: Trees, hand_overs: Option<u32>) -> Trees {
        let Trees(options) = Trees::sharing(kind, false);
        Trees(chime::Options {
            hand_overs,
            ..options
        })
    }

    /// Returns the kinds that dead clients do not stop.
    pub fn leased() -> Vec<Trees> {
        let ours = Trees::nearfield();
        let apart = [None, Some(8)].map(|times| Trees::queueing(ours.clone(), times));
        [ours].into_iter().chain(apart).collect()
    }

    pub fn all() -> Vec<Trees> {
        let sherman = Trees::sherman();
        assert_eq!(sherman.0.shape.arrangement, Arrangement::Unordered);
        let spinning = [Trees::chime(), sherman];
        let mut all = Trees::leased();
        for times in [None, Some(1), Some(8)] {
            all.extend(spinning.clone().map(|kind| Trees::queueing(kind, times)));
        }
        let read_at_once = Trees(chime::Options {
            lock_and_read: true,
            ..Trees::queueing(Trees::chime(), Some(8)).0
        });
        all.extend(spinning.into_iter().chain([read_at_once]));
        all
    }
}

impl Kind for Trees {
    type Node = chime::ComputeNode;
    type Index = Tree<Slow>;

    fn compute_node(&self) -> Arc<chime::ComputeNode> {
        Arc::new(chime::ComputeNode::new(self.0).expect("sizes"))
    }

    async fn create(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<chime::ComputeNode>,
    ) -> Result<Tree<Slow>, PoolError> {
        Tree::create(endpoint, nodes, ROOT, node).await
    }

    async fn open(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<chime::ComputeNode>,
    ) -> Result<Tree<Slow>, PoolError> {
        Tree::open(endpoint, nodes, ROOT, node).await
    }
}

#[derive(Clone, Debug)]
pub struct Radix(smart::Options);

impl Radix {
    pub fn new(shares: bool) -> Radix {
        Radix(smart::Options {
            cache_bytes: 1 << 20,
            chunk_bytes: 1 << 14,
            delegates_reads: shares,
            combines_writes: shares,
            ..smart::Options::default()
        })
    }
}

impl Kind for Radix {
    type Node = smart::ComputeNode;
    type Index = Smart<Slow>;

    fn compute_node(&self) -> Arc<smart::ComputeNode> {
        Arc::new(smart::ComputeNode::new(self.0.clone()).expect("sizes"))
    }

    async fn create(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<smart::ComputeNode>,
    ) -> Result<Smart<Slow>, PoolError> {
        Smart::create(endpoint, nodes, ROOT, node).await
    }

    async fn open(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<smart::ComputeNode>,
    ) -> Result<Smart<Slow>, PoolError> {
        Smart::open(endpoint, nodes, ROOT, node)
    }
}

#[derive(Clone, Debug)]
pub struct Learned(rolex::Options);

impl Learned {
    fn new(leaf_span: usize, leaves: Leaves) -> Learned {
        let shape = Shape {
            leaf_span,
            ..small()
        };
        Learned(rolex::Options {
            geometry: Geometry::new(shape).expect("sizes"),
            leaves,
            error: 1,
            delegates_reads: true,
            combines_writes: true,
            ..rolex::Options::default()
        })
    }

    pub fn arrays() -> Learned {
        Learned::new(4, Leaves::Arrays)
    }

    pub fn sharing(Learned(options): Learned, shares: bool) -> Learned {
        Learned(rolex::Options {
            delegates_reads: shares,
            combines_writes: shares,
            ..options
        })
    }

    pub fn all() -> [Learned; 2] {
        let vacancy_piggyback = true;
        let tables = Leaves::Hopscotch { vacancy_piggyback };
        [Learned::arrays(), Learned::new(8, tables)]
    }
}

impl Kind for Learned {
    type Node = rolex::ComputeNode;
    type Index = Rolex<Slow>;

    fn compute_node(&self) -> Arc<rolex::ComputeNode> {
        Arc::new(rolex::ComputeNode::new(self.0.clone()))
    }

    async fn create(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<rolex::ComputeNode>,
    ) -> Result<Rolex<Slow>, PoolError> {
        let entries = (1..=LOADED).map(|key| ((key * 100).to_be_bytes(), [1; 8]));
        Rolex::load(endpoint, nodes, ROOT, node, entries).await
    }

    async fn open(
        &self,
        endpoint: Slow,
        nodes: &[NodeId],
        node: Arc<rolex::ComputeNode>,
    ) -> Result<Rolex<Slow>, PoolError> {
        Rolex::open(endpoint, nodes, ROOT, node)
    }
}
