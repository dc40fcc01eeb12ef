//! Reads of all leaves, with the memory nodes that they are on.

use super::ChimeTree;
use super::node_io::NodeAt;
use super::repair::PARENTS;
use super::route::{ChimeLeafRoute, LevelSearchResult};
use super::session::ChimeSession;
use crate::error::PoolError;
use crate::layout::PoolLeaf;
use nearfield_fabric::{Endpoint, GlobalAddress, NodeId};

/// Maximum number of leaves that are read at once.
const LEAVES_MAX: usize = 32;

/// A leaf and the node that it is on; `None` if that cannot be reached.
type LocatedLeaf = (NodeId, Option<PoolLeaf>);

impl<E: Endpoint> ChimeTree<E> {
    /// Returns the number of bytes of memory of a leaf.
    pub(crate) fn leaf_bytes(&self) -> u64 {
        NodeAt::of_leaf(&self.leaves, GlobalAddress::NULL).bytes()
    }

    /// Passes the node of each leaf to `visit`, and the leaf, unless the node cannot be reached.
    /// Leaves that are divided or merged meanwhile may be missed, or be passed twice.
    pub(crate) async fn visit_leaves(
        &self,
        mut visit: impl FnMut(NodeId, Option<&PoolLeaf>),
    ) -> Result<(), PoolError> {
        let mut key = vec![0; self.leaves.geometry().shape().key_bytes];
        loop {
            let (leaves, next) = self
                .run(async |session| session.located_leaves(&key).await)
                .await?;
            for (node, leaf) in &leaves {
                visit(*node, leaf.as_ref());
            }
            let Some(next) = next else {
                return Ok(());
            };
            // The bounds of a damaged parent may lead back, and so in a circle.
            if next <= key {
                return Err(PoolError::Damaged { at: self.root });
            }
            key = next;
        }
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Returns the leaves below the parent of a key's leaf, and the least key behind them; `None`
    /// if there is none.
    async fn located_leaves(
        &self,
        key: &[u8],
    ) -> Result<(Vec<LocatedLeaf>, Option<Vec<u8>>), PoolError> {
        let (ways, next) = match self.find_node(key, PARENTS).await? {
            LevelSearchResult::Node(parent) => {
                let children = parent.children();
                let way = |position| ChimeLeafRoute::of(&parent, position, false);
                let ways: Vec<ChimeLeafRoute> = (0..children).map(way).collect();
                (ways, parent.bound(children - 1))
            }
            LevelSearchResult::Below(root) => {
                let way = ChimeLeafRoute {
                    leaf: root.address,
                    sibling: GlobalAddress::NULL,
                    kept: None,
                };
                (vec![way], None)
            }
        };
        let (lost, there): (Vec<ChimeLeafRoute>, Vec<ChimeLeafRoute>) =
            ways.into_iter().partition(|way| self.is_lost(way.leaf));
        let lost = lost.into_iter().map(|way| (way.leaf.node(), None));
        let mut located: Vec<LocatedLeaf> = lost.collect();
        for ways in there.chunks(LEAVES_MAX) {
            let leaves = self.read_leaves(ways).await?;
            let nodes = ways.iter().map(|way| way.leaf.node());
            located.extend(nodes.zip(leaves.into_iter().map(Some)));
        }
        Ok((located, next))
    }
}
