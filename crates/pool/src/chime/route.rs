//! The route to a key's leaf.

use super::cached_node::CachedNode;
use super::recover::WAY_NODES_MAX;
use super::root::ChimeRoot;
use super::session::ChimeSession;
use crate::cache::CacheableNode;
use crate::error::PoolError;
use nearfield_fabric::{Endpoint, GlobalAddress};
use std::sync::Arc;

/// A leaf, and the expectations of the parent that led to it.
#[derive(Clone, Debug)]
pub(super) struct ChimeLeafRoute {
    pub leaf: GlobalAddress,
    /// The sibling that the leaf should have.
    pub sibling: GlobalAddress,
    /// The parent, if it was cached: then it may have changed since.
    pub kept: Option<Arc<CachedNode>>,
}

/// Number of moves to the right after which an operation searches for a new route.
pub(super) const RIGHT_MOVES_MAX: usize = 8;

impl ChimeLeafRoute {
    /// Creates the route to a child of a parent.
    pub fn of(parent: &Arc<CachedNode>, position: usize, is_kept: bool) -> ChimeLeafRoute {
        let route = parent.route_at(position);
        ChimeLeafRoute {
            leaf: route.child,
            sibling: route.sibling,
            kept: is_kept.then(|| Arc::clone(parent)),
        }
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Finds the leaf to which a key belongs, or one left of it if that was divided and its parent
    /// is not updated yet.
    pub(super) async fn find_leaf(&self, key: &[u8]) -> Result<ChimeLeafRoute, PoolError> {
        Ok(match self.find_parent_of_leaf(key).await? {
            Ok((parent, is_kept)) => ChimeLeafRoute::of(&parent, parent.position(key), is_kept),
            Err(way) => way,
        })
    }

    /// Finds the parent of the leaf to which a key belongs, and whether it was cached; or returns
    /// the route to the leaf if that is the root.
    pub(super) async fn find_parent_of_leaf(
        &self,
        key: &[u8],
    ) -> Result<Result<(Arc<CachedNode>, bool), ChimeLeafRoute>, PoolError> {
        if let Some(kept) = self.seek_at(key, 2) {
            self.note_hits(1);
            return Ok(Ok((kept, true)));
        }
        Ok(match self.find_node(key, 2).await? {
            LevelSearchResult::Node(parent) => {
                self.note_miss();
                Ok((parent, false))
            }
            LevelSearchResult::Below(root) => Err(ChimeLeafRoute {
                leaf: root.address,
                sibling: GlobalAddress::NULL,
                kept: None,
            }),
        })
    }

    /// Reads the internal node of a level that covers a key, starting from the lowest cached node
    /// above it, or from the root.
    pub(super) async fn find_node(
        &self,
        key: &[u8],
        level: u8,
    ) -> Result<LevelSearchResult, PoolError> {
        let mut patience = self.patience();
        'restart: loop {
            self.look_after(&mut patience, key).await?;
            // The lowest cached node saves the most round trips, and its mistakes are found at the
            // next node.
            let mut kept = self.seek(key, level + 1);
            let (mut address, mut at) = if let Some(kept) = &kept {
                (kept.route(key).child, kept.level() - 1)
            } else {
                let root = self.read_root().await?;
                if root.level < level {
                    return Ok(LevelSearchResult::Below(root));
                }
                (root.address, root.level)
            };
            for _ in 0..WAY_NODES_MAX {
                let node = self.read_internal(address).await?;
                // The node may be retired, or its memory reused. A node that begins right of the
                // key cannot be left again, because siblings lead only to the right.
                let is_left = node.low_fence() <= key;
                if !node.is_valid() || node.level() != at || !is_left {
                    self.note_stale(address);
                    if let Some(stale) = kept {
                        self.tree.node.cache.invalidate(&stale);
                    }
                    continue 'restart;
                }
                if !node.covers(key) {
                    // The node was divided since its parent was read; keys do not move to the left.
                    self.note_stale(address);
                    if let Some(stale) = kept.take() {
                        self.tree.node.cache.invalidate(&stale);
                    }
                    address = node.sibling();
                    continue;
                }
                // Cached on the way: the next search of this part begins lower.
                let found = self.keep(address, &node);
                debug_assert!(at >= level, "the walk begins at the level or above it");
                if at == level {
                    return Ok(LevelSearchResult::Node(found));
                }
                // This step did not come from the cached node, so a later mismatch is none of its
                // faults.
                kept = None;
                address = found.route(key).child;
                at -= 1;
            }
        }
    }

    /// Drops the cached parent that led to a leaf that does not match it.
    pub(super) fn forget(&self, way: &ChimeLeafRoute) {
        self.note_stale(way.leaf);
        if let Some(stale) = &way.kept {
            self.tree.node.cache.invalidate(stale);
        }
    }
}

/// The result of a search at a level.
pub(super) enum LevelSearchResult {
    /// The node that covers the key.
    Node(Arc<CachedNode>),
    /// The root, which is below the level.
    Below(ChimeRoot),
}
