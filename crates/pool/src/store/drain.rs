//! Draining of a memory node: its part of a store is moved to the other nodes.

use super::added::{AddedNodePhase, AddedNodes};
use super::blocks::LEASE;
use super::claim::{DrainClaim, DrainClaimOutcome};
use super::client::{PIECE_MAX, PoolStoreClient, SlotRange, behind};
use super::excluded::ExcludedNodes;
use super::form::{StoreSlotValue, StoreValueBlock};
use super::{PoolEntryForm, PoolStore};
use crate::chime::KeyChangeDecision;
use crate::error::PoolError;
use crate::executor::block_on;
use nearfield_core::ScanDirection;
use nearfield_fabric::{Endpoint, NodeId};
use std::ops::Bound;

/// Number of leases of blocks after which all processes have learned that a node is closed, and
/// have published the values that they had written there.
const LEASES_OF_WAITING: u32 = 2;

/// The parts of a store that a drain has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolDrain {
    /// Number of leaves.
    pub leaves: usize,
    /// Number of long values.
    pub values: usize,
    /// Number of bytes of these.
    pub value_bytes: u64,
}

/// Reason for which a node was not drained, or only in part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolDrainError {
    /// The pool cannot be reached.
    #[error("{0}")]
    Connect(String),
    /// The node is the first one, which has the inner nodes of the index.
    #[error("memory {node} is the first one of the pool, which cannot be drained")]
    First {
        /// The node.
        node: NodeId,
    },
    /// The node is none of the pool's.
    #[error("memory {node} is no part of the pool")]
    Foreign {
        /// The node.
        node: NodeId,
    },
    /// The node, or another one, cannot be reached.
    #[error(
        "memory {node} cannot be reached; if it does not come back, repair the pool without it"
    )]
    Away {
        /// The node.
        node: NodeId,
    },
    /// The node is drained or excluded already.
    #[error("memory {node} is excluded, and cannot be used again")]
    Excluded {
        /// The node.
        node: NodeId,
    },
    /// The node is being added to the pool.
    #[error("memory {node} is being added to the pool: that must be done first")]
    Joining {
        /// The node.
        node: NodeId,
    },
    /// The drain of a node was begun, and has not ended.
    #[error("the drain of memory {node} has not ended: run it again, or cancel it")]
    Busy {
        /// The node that is drained.
        node: NodeId,
    },
    /// The drain was cancelled meanwhile.
    #[error("the drain of memory {node} was cancelled")]
    Cancelled {
        /// The node.
        node: NodeId,
    },
    /// The nodes have failed meanwhile, or the others have no room. Another drain continues this
    /// one.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl<F: PoolEntryForm, E: Endpoint + 'static> PoolStore<F, E> {
    /// Moves all leaves and long values of a node to the other nodes, and excludes it: then it may
    /// be ended. Other clients may work meanwhile. From the beginning on nothing is allocated on
    /// the node, also if the drain fails, until [`cancel_drain`](PoolStore::cancel_drain).
    ///
    /// No process may be suspended for 3 s between the moment at which it has written a long value
    /// and that at which it publishes the value: the drain may miss it.
    ///
    /// # Errors
    /// `Connect`, `First`, `Foreign`, `Away` and `Joining` before anything is changed; `Busy` if
    /// another node is drained; `Excluded` if the node is excluded already; `Cancelled`; `Pool`,
    /// with `OutOfMemory` of a node if the others have no room.
    pub fn drain(&self, node: NodeId) -> Result<PoolDrain, PoolDrainError> {
        let client = self.connect_again().map_err(PoolDrainError::Connect)?;
        block_on(client.drain(&self.nodes.get(), node))
    }

    /// Allows clients to allocate on a node again that was drained in part.
    ///
    /// # Errors
    /// As [`drain`](PoolStore::drain).
    pub fn cancel_drain(&self, node: NodeId) -> Result<(), PoolDrainError> {
        let client = self.connect_again().map_err(PoolDrainError::Connect)?;
        block_on(client.cancel_drain(&self.nodes.get(), node))
    }
}

fn claimed(outcome: DrainClaimOutcome, node: NodeId) -> Result<DrainClaim, PoolDrainError> {
    match outcome {
        DrainClaimOutcome::Claimed(claim) => Ok(claim),
        DrainClaimOutcome::Busy(node) => Err(PoolDrainError::Busy { node }),
        DrainClaimOutcome::Excluded => Err(PoolDrainError::Excluded { node }),
    }
}

impl<E: Endpoint> PoolStoreClient<E> {
    /// Refuses to drain nodes that cannot be drained.
    async fn check_drain(&self, nodes: &[NodeId], node: NodeId) -> Result<(), PoolDrainError> {
        let endpoint = self.tree.endpoint();
        let first = nodes.first().copied().unwrap_or_default();
        if node == first {
            return Err(PoolDrainError::First { node });
        }
        if !nodes.contains(&node) {
            return Err(PoolDrainError::Foreign { node });
        }
        let excluded = ExcludedNodes::read(endpoint, first).await?;
        if excluded.contains(node) {
            return Err(PoolDrainError::Excluded { node });
        }
        // Until all clients know it, it stays closed.
        let added = AddedNodes::read(endpoint, first).await?;
        if added.phase(node) == Some(AddedNodePhase::Joining) {
            return Err(PoolDrainError::Joining { node });
        }
        // All leaves are read, and some of those on other nodes are written.
        let is_away = |node: &NodeId| !endpoint.is_reachable(*node) && !excluded.contains(*node);
        match nodes.iter().copied().find(is_away) {
            Some(node) => Err(PoolDrainError::Away { node }),
            None => Ok(()),
        }
    }

    async fn drain(&self, nodes: &[NodeId], node: NodeId) -> Result<PoolDrain, PoolDrainError> {
        self.check_drain(nodes, node).await?;
        let endpoint = self.tree.endpoint();
        let first = nodes.first().copied().unwrap_or_default();
        let claim = claimed(DrainClaim::drain(endpoint, first, node).await?, node)?;
        self.blocks.close_node(endpoint, node, true).await?;
        let closed = endpoint.now();
        let mut drain = PoolDrain {
            leaves: self.tree.drain_leaves(node).await?,
            ..PoolDrain::default()
        };
        let waited = endpoint.now() - closed;
        let rest = (LEASES_OF_WAITING * LEASE).saturating_sub(waited);
        endpoint.sleep(rest).await;
        // A value that changes meanwhile goes to another node by itself.
        while self.drain_values(node, &mut drain).await? {}
        match claim.exclude(endpoint).await? {
            true => Ok(drain),
            false => Err(PoolDrainError::Cancelled { node }),
        }
    }

    async fn cancel_drain(&self, nodes: &[NodeId], node: NodeId) -> Result<(), PoolDrainError> {
        self.check_drain(nodes, node).await?;
        let endpoint = self.tree.endpoint();
        let first = nodes.first().copied().unwrap_or_default();
        let claim = claimed(DrainClaim::cancel(endpoint, first, node).await?, node)?;
        self.blocks.close_node(endpoint, node, false).await?;
        self.tree.close_node(node, false).await?;
        Ok(claim.end(endpoint).await?)
    }

    /// Moves the long values that are on a node. Returns true if there were any.
    async fn drain_values(&self, node: NodeId, drain: &mut PoolDrain) -> Result<bool, PoolError> {
        let ascending = ScanDirection::Ascending;
        let mut were_there = false;
        let mut rest = SlotRange::new(&self.codec, Bound::Unbounded, Bound::Unbounded);
        while let Some(range) = rest {
            let mut found = self.piece(&range, PIECE_MAX, ascending).await?;
            rest = behind(range, &mut found, PIECE_MAX, ascending);
            for (key, slot) in &found {
                let StoreSlotValue::Outside(block) = self.codec.decode_value(slot) else {
                    continue;
                };
                if block.address.node() != node {
                    continue;
                }
                were_there = true;
                if self.move_value(key, slot, block).await? {
                    drain.values += 1;
                    drain.value_bytes += u64::from(block.bytes);
                }
            }
        }
        Ok(were_there)
    }

    /// Copies the value in a block of a closed node to another node, unless the key has another
    /// value meanwhile. Returns true if it was moved.
    async fn move_value(
        &self,
        key: &[u8],
        slot: &[u8],
        block: StoreValueBlock,
    ) -> Result<bool, PoolError> {
        let endpoint = self.tree.endpoint();
        let value = self.blocks.read(endpoint, block).await?;
        let copy = self.blocks.write(endpoint, &value).await?;
        // Taken after the value is placed, which may wait for memory.
        let reading = self.blocks.enter(endpoint).await?;
        let moved = self.codec.encode_block(copy);
        // Memory of a closed node is not allocated again. So an equal slot is the same value, and
        // its block was not free when it was read.
        let decide = async |before: Option<&[u8]>| {
            Ok(match before {
                Some(now) if now == slot => KeyChangeDecision::Put(moved.clone()),
                _ => KeyChangeDecision::Keep,
            })
        };
        let before = self.tree.alter(key, decide).await?;
        let is_moved = before.as_deref() == Some(slot);
        if is_moved {
            self.blocks.retire(endpoint, &reading, block).await?;
        } else {
            self.blocks.take_back(endpoint, &reading, copy).await?;
        }
        Ok(is_moved)
    }
}
