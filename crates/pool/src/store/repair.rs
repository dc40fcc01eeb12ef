//! Repair of a store that has lost memory nodes for good.

use super::client::{PIECE_MAX, PoolStoreClient, SlotRange, behind};
use super::excluded::{ExcludedNodes, count_repair, exclude};
use super::form::StoreSlotValue;
use super::{PoolEntryForm, PoolStore};
use crate::chime::KeyChangeDecision;
use crate::error::PoolError;
use crate::executor::block_on;
use nearfield_core::ScanDirection;
use nearfield_fabric::{Endpoint, NodeId};
use std::ops::Bound;

/// The changes of a repair, and the values that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolRepair {
    /// Number of lost leaves that were replaced by empty ones.
    pub leaves: usize,
    /// Number of leaves that led to a lost one, and lead to its successor.
    pub links: usize,
    /// Number of keys that are left, but whose long values are lost.
    pub lost_values: usize,
    /// Number of these that were removed.
    pub forgotten: usize,
}

/// Reason for which a pool was not repaired, or only in part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolRepairError {
    /// The pool cannot be reached.
    #[error("{0}")]
    Connect(String),
    /// A node to exclude is served and has its memory.
    #[error("memory {node} is served, and has its part of the pool")]
    Served {
        /// The node.
        node: NodeId,
    },
    /// A node to exclude is none of the pool's.
    #[error("memory {node} is no part of the pool")]
    Foreign {
        /// The node.
        node: NodeId,
    },
    /// A node cannot be reached, and is not named.
    #[error(
        "memory {node} cannot be reached either; name it among the lost ones if it does not come \
         back, or start the repair again when it has"
    )]
    Away {
        /// The node.
        node: NodeId,
    },
    /// The nodes have failed meanwhile. Another repair continues this one.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

impl<F: PoolEntryForm, E: Endpoint + 'static> PoolStore<F, E> {
    /// Excludes the nodes `lost`, which no client must reach, and replaces their leaves by empty
    /// ones on other nodes: their keys are absent then, instead of failing. Other clients may work
    /// meanwhile, and notice the repair within a second or two. Counts the keys of other nodes
    /// whose long values are lost; if `forgets`, removes these.
    ///
    /// A node that was excluded stays so, whether it comes back with its memory or without. Its
    /// position in the list of nodes stays taken.
    ///
    /// # Errors
    /// `Connect`, `Served`, `Foreign` and `Away` before anything is changed; `Pool`.
    pub fn repair(&self, lost: &[NodeId], forgets: bool) -> Result<PoolRepair, PoolRepairError> {
        // This thread's client may not have noticed yet which nodes are gone.
        let client = self.connect_again().map_err(PoolRepairError::Connect)?;
        block_on(client.repair(&self.nodes.get(), lost, forgets))
    }
}

impl<E: Endpoint> PoolStoreClient<E> {
    async fn repair(
        &self,
        nodes: &[NodeId],
        lost: &[NodeId],
        forgets: bool,
    ) -> Result<PoolRepair, PoolRepairError> {
        let endpoint = self.tree.endpoint();
        let first = nodes.first().copied().unwrap_or_default();
        let mut excluded = ExcludedNodes::read(endpoint, first).await?;
        for &node in lost {
            if !nodes.contains(&node) {
                return Err(PoolRepairError::Foreign { node });
            }
            if endpoint.is_reachable(node) {
                return Err(PoolRepairError::Served { node });
            }
        }
        // The leaves of all nodes that are away would be replaced.
        let is_away = |node: &NodeId| !endpoint.is_reachable(*node) && !excluded.contains(*node);
        let mut away = nodes.iter().copied().filter(is_away);
        if let Some(node) = away.find(|node| !lost.contains(node)) {
            return Err(PoolRepairError::Away { node });
        }
        // Excluded first: a client must not find the former leaves again while they are replaced.
        for &node in lost {
            exclude(endpoint, first, node).await?;
        }
        excluded = ExcludedNodes::read(endpoint, first).await?;
        let replaced = self.tree.replace_lost_leaves().await?;
        let mut repair = PoolRepair {
            leaves: replaced.leaves,
            links: replaced.links,
            ..PoolRepair::default()
        };
        self.tree.forget_routes();
        // All leaves can be used from here on, and the rest may take long.
        count_repair(endpoint, first).await?;
        self.find_lost_values(&excluded, forgets, &mut repair)
            .await?;
        if repair.forgotten > 0 {
            count_repair(endpoint, first).await?;
        }
        Ok(repair)
    }

    /// Counts the keys whose values are on excluded nodes, and removes them if `forgets`. Another
    /// node may have been added since this client has connected, or be away for a while.
    async fn find_lost_values(
        &self,
        excluded: &ExcludedNodes,
        forgets: bool,
        repair: &mut PoolRepair,
    ) -> Result<(), PoolError> {
        let ascending = ScanDirection::Ascending;
        let mut rest = SlotRange::new(&self.codec, Bound::Unbounded, Bound::Unbounded);
        while let Some(range) = rest {
            let mut found = self.piece(&range, PIECE_MAX, ascending).await?;
            rest = behind(range, &mut found, PIECE_MAX, ascending);
            for (key, slot) in &found {
                if !self.is_value_on(excluded, slot) {
                    continue;
                }
                repair.lost_values += 1;
                if forgets && self.forget_value(key, slot).await? {
                    repair.forgotten += 1;
                }
            }
        }
        Ok(())
    }

    fn is_value_on(&self, nodes: &ExcludedNodes, slot: &[u8]) -> bool {
        match self.codec.decode_value(slot) {
            StoreSlotValue::Inline(_) => false,
            StoreSlotValue::Outside(block) => nodes.contains(block.address.node()),
        }
    }

    /// Removes a key whose value is lost, unless it has another value meanwhile. Returns true if it
    /// was removed.
    async fn forget_value(&self, key: &[u8], slot: &[u8]) -> Result<bool, PoolError> {
        // Memory of a lost node is never allocated again, so that an equal slot is the same value.
        let decide = async |before: Option<&[u8]>| {
            Ok(match before {
                Some(now) if now == slot => KeyChangeDecision::Remove,
                _ => KeyChangeDecision::Keep,
            })
        };
        let before = self.tree.alter(key, decide).await?;
        Ok(before.as_deref() == Some(slot))
    }
}
