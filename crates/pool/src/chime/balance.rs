//! Moves of leaves to a memory node that was added, while clients work. Not in the paper.
//!
//! A leaf is moved as by a [drain](super::drain). The first leaf of each parent stays where it is,
//! because its move changes two parents. Each move is complete before the next one begins, so that
//! the moves may end at any time.

use super::drain::LeafDrainCounts;
use super::header::RING_ENTRIES;
use super::repair::{PARENTS, is_parent};
use super::route::{ChimeLeafRoute, LevelSearchResult};
use super::session::ChimeSession;
use super::{ChimeTree, check_nodes};
use crate::cache::CacheableNode;
use crate::error::PoolError;
use nearfield_fabric::recovery::epochs::ClosedNodes;
use nearfield_fabric::{Endpoint, NodeId};
use std::time::Duration;

/// A share of things that have weights, spread evenly over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvenShare {
    wanted: u64,
    of: u64,
    credit: u128,
}

impl EvenShare {
    /// Creates a share of `wanted` of `of`, the sum of all weights.
    ///
    /// ```
    /// use nearfield_pool::chime::EvenShare;
    ///
    /// let mut share = EvenShare::new(2, 6);
    /// let taken = [1; 6].map(|weight| share.takes(weight));
    /// assert_eq!(taken, [false, false, true, false, false, true]);
    /// ```
    pub fn new(wanted: u64, of: u64) -> EvenShare {
        EvenShare {
            wanted: wanted.min(of),
            of,
            credit: 0,
        }
    }

    /// Returns true if the next thing belongs to the share.
    pub fn takes(&mut self, weight: u64) -> bool {
        self.credit += u128::from(weight) * u128::from(self.wanted);
        let price = u128::from(weight) * u128::from(self.of);
        let is_taken = self.wanted > 0 && self.credit >= price;
        if is_taken {
            self.credit -= price;
        }
        is_taken
    }
}

/// The leaves below one parent that may be moved.
#[derive(Debug)]
struct MovableLeaves {
    /// The least key of each.
    lows: Vec<Vec<u8>>,
    /// The least key behind the parent; `None` if it is the last one.
    next: Option<Vec<u8>>,
}

impl<E: Endpoint> ChimeTree<E> {
    /// Prepares a memory node without content for the tree. Clients that open the tree with it
    /// afterwards put leaves there, unless it is [closed](ChimeTree::close_node).
    ///
    /// # Errors
    /// `Leaseless` if locks have no leases, `Node` if the root cannot name the node, and the nodes'
    /// errors.
    pub async fn add_node(&self, node: NodeId) -> Result<(), PoolError> {
        if self.owner.is_none() {
            return Err(PoolError::Leaseless);
        }
        check_nodes(&[node])?;
        self.header.extend(&self.endpoint, node).await
    }

    /// Moves a share of the leaves on some nodes to another one, and returns their number. Other
    /// clients may work meanwhile, and move leaves, too. All clients must know the other node.
    /// `go_on` gets the number of moved leaves after each of them, and after the leaves of each
    /// parent. The moves end when it returns false.
    ///
    /// # Errors
    /// `Leaseless` if locks have no leases, and the nodes' errors; `Closed` if the node is closed,
    /// and `OutOfMemory` if it has no room. What was moved stays so.
    pub async fn move_leaves(
        &self,
        from: &[NodeId],
        to: NodeId,
        mut share: EvenShare,
        mut go_on: impl AsyncFnMut(usize) -> bool,
    ) -> Result<usize, PoolError> {
        if self.owner.is_none() {
            return Err(PoolError::Leaseless);
        }
        self.retire_together();
        let counts = LeafDrainCounts::default();
        let mut key = vec![0; self.leaves.geometry().shape().key_bytes];
        loop {
            let found = self
                .run(async |session| session.movable_leaves(&key, from).await)
                .await?;
            for low in found.lows {
                if !share.takes(1) {
                    continue;
                }
                let before = counts.moved();
                self.run(async |session| session.move_leaf_at(&low, from, to, &counts).await)
                    .await?;
                // A leaf that another client changes meanwhile may stay where it is.
                if counts.moved() > before && !go_on(counts.moved()).await {
                    return Ok(counts.moved());
                }
            }
            if !go_on(counts.moved()).await {
                return Ok(counts.moved());
            }
            let Some(next) = found.next else {
                return Ok(counts.moved());
            };
            // The bounds of a damaged parent may lead back, and so in a circle.
            if next <= key {
                return Err(PoolError::Damaged { at: self.root });
            }
            key = next;
        }
    }

    /// Makes the compute node free the memory of moved leaves in large parts. Otherwise the caches
    /// of all clients would read their nodes again after some hundred moves.
    pub(super) fn retire_together(&self) {
        if let Some(epochs) = self.node.epochs.get() {
            // Other clients free what is in the ring if this one dies.
            let leaves = RING_ENTRIES as u64 * 7 / 8;
            epochs.retire_together(leaves * self.leaves.allocation_bytes() as u64);
        }
    }

    /// Returns the time after which all clients have learned of a change of nodes, or have been
    /// suspended since, and the locks that they had taken before have expired.
    pub fn learning_time(&self) -> Duration {
        let sessions = self.header.session_lease(self.lease);
        2 * sessions + 2 * self.lease
    }

    /// Gives all clients notice that the tree has another node: each of them should open the tree
    /// again. They learn of it like of [closed nodes](ChimeTree::close_node).
    ///
    /// # Errors
    /// `Leaseless` if locks have no leases, and the nodes' errors.
    pub async fn notify(&self) -> Result<(), PoolError> {
        let epochs = self.node.epochs.get().ok_or(PoolError::Leaseless)?;
        Ok(epochs.notify(&self.endpoint).await?)
    }

    /// Returns the number of notices that the compute node has learned of. Asks for others, if it
    /// is time for the next operation to do so.
    ///
    /// # Errors
    /// The nodes' errors.
    pub async fn notices(&self) -> Result<u64, PoolError> {
        let Some(epochs) = self.node.epochs.get() else {
            return Ok(0);
        };
        epochs.tend(&self.endpoint).await?;
        Ok(epochs.notices())
    }

    /// Returns true if it is time for the next operation to learn of notices.
    pub(crate) fn is_notice_due(&self) -> bool {
        let epochs = self.node.epochs.get();
        epochs.is_some_and(|epochs| epochs.is_due(&self.endpoint))
    }

    /// Returns the nodes on which no leaf is put, as far as is known.
    pub(crate) fn closed_nodes(&self) -> ClosedNodes {
        let epochs = self.node.epochs.get();
        let closed = epochs.map(|epochs| epochs.closed_nodes());
        closed.unwrap_or_default()
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Returns the leaves on some nodes below the parent of a key's leaf, except for its first one.
    async fn movable_leaves(
        &self,
        key: &[u8],
        from: &[NodeId],
    ) -> Result<MovableLeaves, PoolError> {
        let parent = match self.find_node(key, PARENTS).await? {
            LevelSearchResult::Node(parent) => parent,
            // A tree of one leaf has nothing to share.
            LevelSearchResult::Below(_) => {
                return Ok(MovableLeaves {
                    lows: Vec::new(),
                    next: None,
                });
            }
        };
        let children = parent.children();
        let is_movable = |position: &usize| {
            let way = ChimeLeafRoute::of(&parent, *position, false);
            from.contains(&way.leaf.node())
        };
        let movable = (1..children).filter(is_movable);
        Ok(MovableLeaves {
            lows: movable.map(|position| parent.least(position)).collect(),
            next: parent.bound(children - 1),
        })
    }

    /// Moves the leaf whose least key is `low` to a node, if it is on one of the others, and not
    /// the first one of its parent.
    async fn move_leaf_at(
        &self,
        low: &[u8],
        from: &[NodeId],
        to: NodeId,
        counts: &LeafDrainCounts,
    ) -> Result<(), PoolError> {
        let LevelSearchResult::Node(parent) = self.find_node(low, PARENTS).await? else {
            return Ok(());
        };
        let parent = self.read_internal(parent.address()).await?;
        if !is_parent(&parent, low) {
            return Ok(());
        }
        let mut children = parent.child_addresses().enumerate().skip(1);
        let found = children.find(|(position, _)| parent.separator(position - 1) == low);
        match found {
            Some((_, leaf)) if from.contains(&leaf.node()) => {
                self.move_leaf(leaf, low, Some(to), counts).await
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_spread_evenly_whatever_the_weights_are() {
        for (wanted, of) in [(0, 9), (1, 3), (2, 5), (7, 7), (9, 4), (0, 0)] {
            let mut share = EvenShare::new(wanted, of);
            let taken: Vec<bool> = (0..of).map(|_| share.takes(1)).collect();
            let count = |taken: &[bool]| taken.iter().filter(|&&taken| taken).count() as u64;
            assert_eq!(count(&taken), wanted.min(of));
            for half in [of / 2, of / 3] {
                let (half_of, half_wanted) =
                    (half * wanted.min(of), count(&taken[..half as usize]));
                assert_eq!(half_wanted, half_of / of.max(1), "{wanted} of {of}");
            }
        }
        let weights = [1, 100, 3, 70, 12, 900, 1, 1, 40, 300];
        let all: u64 = weights.iter().sum();
        let mut share = EvenShare::new(all / 2, all);
        let taken = weights.iter().filter(|&&weight| share.takes(weight));
        let taken: u64 = taken.sum();
        assert!(taken.abs_diff(all / 2) <= 900, "{taken} of {all}");
    }
}
