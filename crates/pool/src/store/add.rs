//! Adding of a memory node to a store that clients use.
//!
//! The node is closed before any client knows it. Then all clients get notice of it, and connect to
//! it with their next operations. Once all of them have done that, or are suspended, the node is
//! opened: from then on leaves and long values are put there. At last a part of those on other
//! nodes is moved to it, one after the other.

use super::added::{self, ADDRESS_MAX, AddedNodePhase, AddedNodes};
use super::blocks;
use super::census::PoolNodeCensus;
use super::claim::{DrainClaim, DrainClaimOutcome};
use super::client::{PIECE_MAX, PoolStoreClient, SlotRange, behind};
use super::excluded::ExcludedNodes;
use super::form::{StoreSlotValue, StoreValueBlock};
use super::{PoolEntryForm, PoolStore, opening};
use crate::chime::{EvenShare, KeyChangeDecision};
use crate::error::PoolError;
use crate::executor::block_on;
use crate::index::PoolIndexClient;
use nearfield_core::ScanDirection;
use nearfield_fabric::{Endpoint, NodeId};
use std::cell::Cell;
use std::ops::Bound;
use std::time::Duration;

/// Number of leases of blocks after which all processes have learned of a closed node.
const LEASES_OF_WAITING: u32 = 2;
/// The interval of reports during a wait.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Number of moves that cost as much as the read of a piece of the store.
const PIECE_MOVES: u32 = 16;

/// The phase of an addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolGrowthPhase {
    /// The clients of the pool connect to the node.
    #[default]
    Joining,
    /// The node is used, and leaves are moved to it.
    Leaves,
    /// Long values are moved to it.
    Values,
    /// The node has its share.
    Done,
}

/// The progress of an addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolGrowth {
    /// The phase. If the addition was stopped, it is the one that was not finished.
    pub phase: PoolGrowthPhase,
    /// Number of leaves that were moved.
    pub leaves: usize,
    /// Number of leaves of the node's share, about. A few percent stay where they are.
    pub leaves_to_move: usize,
    /// Number of long values that were moved.
    pub values: usize,
    /// Number of bytes of these.
    pub value_bytes: u64,
    /// Number of bytes of the node's share of long values, about.
    pub value_bytes_to_move: u64,
}

/// Reason for which a node was not added, or has not got its share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolAddError {
    /// The pool cannot be reached.
    #[error("{0}")]
    Connect(String),
    /// The node's number is not greater than those of the pool's nodes.
    #[error("memory {node} cannot be added: its number must be greater than that of {last}")]
    Number {
        /// The node.
        node: NodeId,
        /// The last node of the pool.
        last: NodeId,
    },
    /// The address is too long.
    #[error("an address of {bytes} bytes cannot be stored: up to {ADDRESS_MAX} are allowed")]
    Address {
        /// Its length.
        bytes: usize,
    },
    /// The table of added nodes has no room.
    #[error("no more nodes can be added to the pool")]
    Full,
    /// A node cannot be reached.
    #[error(
        "memory {node} cannot be reached; if it does not come back, repair the pool without it"
    )]
    Away {
        /// The node.
        node: NodeId,
    },
    /// A node of this number was drained, or excluded by a repair.
    #[error("memory {node} is excluded, and its number cannot be used again")]
    Excluded {
        /// The node.
        node: NodeId,
    },
    /// The drain of a node was begun, and has not ended.
    #[error("the drain of memory {node} has not ended: run it again, or cancel it")]
    Busy {
        /// The node that is drained.
        node: NodeId,
    },
    /// The nodes have failed meanwhile, or the node has no room. Another call continues this one.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// The progress of an addition, and its receiver.
struct GrowthReport<'g> {
    growth: PoolGrowth,
    /// Returns false to stop the addition.
    go_on: &'g mut dyn FnMut(&PoolGrowth) -> bool,
    /// The time between two moves.
    pause: Duration,
}

impl GrowthReport<'_> {
    fn report(&mut self) -> bool {
        (self.go_on)(&self.growth)
    }
}

/// The part of what is on other nodes that goes to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeShare {
    /// The nodes that have more than the average.
    from: Vec<NodeId>,
    wanted: u64,
    /// The amount on these nodes.
    of: u64,
}

impl NodeShare {
    fn new(
        parts: &[PoolNodeCensus],
        node: NodeId,
        amount: impl Fn(&PoolNodeCensus) -> u64,
    ) -> NodeShare {
        let all: u64 = parts.iter().map(&amount).sum();
        let average = all / (parts.len() as u64).max(1);
        let own: u64 = parts
            .iter()
            .filter(|part| part.node == node)
            .map(&amount)
            .sum();
        let is_source = |&&part: &&PoolNodeCensus| part.node != node && amount(&part) > average;
        let sources: Vec<&PoolNodeCensus> = parts.iter().filter(is_source).collect();
        let of: u64 = sources.iter().map(|&part| amount(part)).sum();
        let kept = average * sources.len() as u64;
        NodeShare {
            from: sources.iter().map(|part| part.node).collect(),
            wanted: average.saturating_sub(own).min(of - kept),
            of,
        }
    }

    fn spread(&self) -> EvenShare {
        EvenShare::new(self.wanted, self.of)
    }
}

impl<F: PoolEntryForm, E: Endpoint + 'static> PoolStore<F, E> {
    /// Adds a memory node to the store, and moves its share of leaves and long values to it, or
    /// continues that. Other clients may work meanwhile. They connect to the node by its address,
    /// if `connect` finds the [added nodes](super::added_nodes). The endpoints of this store must
    /// reach it already. At most `moves_per_second` leaves or values are moved in a second.
    ///
    /// `go_on` gets the progress often. If it returns false the call ends, and another one
    /// continues.
    ///
    /// An operation that takes seconds meanwhile, because it reads everything or its process is
    /// suspended, may fail once with `Unreachable`, as if the node were lost.
    ///
    /// # Errors
    /// `Connect`, `Number`, `Address`, `Excluded`, `Full` and `Away` before anything is changed;
    /// `Busy` while a node is drained; `Pool`, with `Stranger` if the node belongs to another pool.
    pub fn add_node(
        &self,
        node: NodeId,
        address: &str,
        moves_per_second: u32,
        go_on: &mut dyn FnMut(&PoolGrowth) -> bool,
    ) -> Result<PoolGrowth, PoolAddError> {
        let mut report = GrowthReport {
            growth: PoolGrowth::default(),
            go_on,
            pause: Duration::from_secs(1) / moves_per_second.max(1),
        };
        let client = self.connect_again().map_err(PoolAddError::Connect)?;
        let nodes = self.nodes.get();
        if !block_on(client.join(&nodes, node, address, &mut report))? {
            return Ok(report.growth);
        }
        // The client of before cannot put anything on the node.
        let client = self.connect_again().map_err(PoolAddError::Connect)?;
        let nodes = self.nodes.get();
        report.growth.phase = PoolGrowthPhase::Leaves;
        if block_on(client.balance(&nodes, node, &mut report))? {
            report.growth.phase = PoolGrowthPhase::Done;
        }
        Ok(report.growth)
    }
}

impl<E: Endpoint> PoolStoreClient<E> {
    /// Refuses nodes that cannot be added.
    async fn check_addition(
        &self,
        nodes: &[NodeId],
        node: NodeId,
        address: &str,
    ) -> Result<(), PoolAddError> {
        let endpoint = self.tree.endpoint();
        let first = nodes.first().copied().unwrap_or_default();
        let excluded = ExcludedNodes::read(endpoint, first).await?;
        if excluded.contains(node) {
            return Err(PoolAddError::Excluded { node });
        }
        if address.len() > ADDRESS_MAX {
            let bytes = address.len();
            return Err(PoolAddError::Address { bytes });
        }
        let last = nodes.last().copied().unwrap_or_default();
        // The others keep their positions.
        if !nodes.contains(&node) && node < last {
            return Err(PoolAddError::Number { node, last });
        }
        let is_away = |node: &NodeId| !endpoint.is_reachable(*node) && !excluded.contains(*node);
        match nodes.iter().copied().chain([node]).find(is_away) {
            Some(node) => Err(PoolAddError::Away { node }),
            None => Ok(()),
        }
    }

    /// Makes all clients know a node, and use it. Returns false if that was stopped.
    async fn join(
        &self,
        nodes: &[NodeId],
        node: NodeId,
        address: &str,
        report: &mut GrowthReport<'_>,
    ) -> Result<bool, PoolAddError> {
        self.check_addition(nodes, node, address).await?;
        let endpoint = self.tree.endpoint();
        let first = nodes.first().copied().unwrap_or_default();
        let phase = AddedNodes::read(endpoint, first).await?.phase(node);
        let is_founder = phase.is_none() && nodes.contains(&node);
        if !is_founder && phase != Some(AddedNodePhase::Joined) {
            let position = nodes.iter().filter(|&&other| other != node).count();
            opening::join_pool(endpoint, first, node, position).await?;
            self.tree.add_node(node).await?;
            self.blocks.close_node(endpoint, node, true).await?;
            self.tree.close_node(node, true).await?;
            // No client that connects to the node puts anything there.
            if !self.wait_for_clients(report).await {
                return Ok(false);
            }
            if !added::enter(endpoint, first, node, address).await? {
                return Err(PoolAddError::Full);
            }
            self.tree.notify().await?;
            if !self.wait_for_clients(report).await {
                return Ok(false);
            }
            added::note_joined(endpoint, first, node).await?;
        }
        // A client that has closed the node may have died. A drain has closed it, too, and keeps
        // it so.
        let claim = match DrainClaim::open(endpoint, first, node).await? {
            DrainClaimOutcome::Claimed(claim) => claim,
            DrainClaimOutcome::Busy(node) => return Err(PoolAddError::Busy { node }),
            DrainClaimOutcome::Excluded => return Err(PoolAddError::Excluded { node }),
        };
        self.blocks.close_node(endpoint, node, false).await?;
        self.tree.close_node(node, false).await?;
        claim.end(endpoint).await?;
        Ok(true)
    }

    /// Waits until all clients have learned of a change, or are suspended. Returns false if that
    /// was stopped.
    async fn wait_for_clients(&self, report: &mut GrowthReport<'_>) -> bool {
        let of_blocks = match self.blocks.is_used() {
            true => LEASES_OF_WAITING * blocks::LEASE,
            false => Duration::ZERO,
        };
        let time = self.tree.learning_time().max(of_blocks);
        self.wait(time, report).await
    }

    /// Waits, with reports. Returns false if that was stopped.
    async fn wait(&self, time: Duration, report: &mut GrowthReport<'_>) -> bool {
        let endpoint = self.tree.endpoint();
        let until = endpoint.now() + time;
        loop {
            if !report.report() {
                return false;
            }
            let rest = until.saturating_sub(endpoint.now());
            if rest.is_zero() {
                return true;
            }
            endpoint.sleep(rest.min(REPORT_INTERVAL)).await;
        }
    }

    /// Moves leaves and long values to a node until it has its share. Returns false if that was
    /// stopped.
    async fn balance(
        &self,
        nodes: &[NodeId],
        node: NodeId,
        report: &mut GrowthReport<'_>,
    ) -> Result<bool, PoolAddError> {
        let endpoint = self.tree.endpoint();
        let first = nodes.first().copied().unwrap_or_default();
        let excluded = ExcludedNodes::read(endpoint, first).await?;
        let closed = self.tree.closed_nodes();
        let is_usable = |part: &PoolNodeCensus| {
            let node = part.node;
            endpoint.is_reachable(node) && !excluded.contains(node) && !closed.contains(node)
        };
        let mut parts = self.census(nodes).await?;
        parts.retain(is_usable);
        let share = NodeShare::new(&parts, node, |part| part.leaves as u64);
        report.growth.leaves_to_move = share.wanted as usize;
        let is_stopped = Cell::new(false);
        let go_on = async |moved: usize| {
            report.growth.leaves = moved;
            endpoint.sleep(report.pause).await;
            is_stopped.set(!report.report());
            !is_stopped.get()
        };
        let (from, spread) = (&share.from[..], share.spread());
        self.tree.move_leaves(from, node, spread, go_on).await?;
        if is_stopped.get() {
            return Ok(false);
        }
        report.growth.phase = PoolGrowthPhase::Values;
        let share = NodeShare::new(&parts, node, |part| part.long_value_bytes);
        report.growth.value_bytes_to_move = share.wanted;
        if share.wanted == 0 {
            return Ok(true);
        }
        self.share_values(&share, node, report).await
    }

    /// Moves long values to a node. Returns false if that was stopped.
    async fn share_values(
        &self,
        share: &NodeShare,
        node: NodeId,
        report: &mut GrowthReport<'_>,
    ) -> Result<bool, PoolAddError> {
        let (endpoint, ascending) = (self.tree.endpoint(), ScanDirection::Ascending);
        let mut spread = share.spread();
        let mut rest = SlotRange::new(&self.codec, Bound::Unbounded, Bound::Unbounded);
        while let Some(range) = rest {
            let mut found = self.piece(&range, PIECE_MAX, ascending).await?;
            rest = behind(range, &mut found, PIECE_MAX, ascending);
            for (key, slot) in &found {
                let StoreSlotValue::Outside(block) = self.codec.decode_value(slot) else {
                    continue;
                };
                let is_source = share.from.contains(&block.address.node());
                if !is_source || !spread.takes(u64::from(block.bytes)) {
                    continue;
                }
                if self.share_value(key, slot, block, node).await? {
                    report.growth.values += 1;
                    report.growth.value_bytes += u64::from(block.bytes);
                    endpoint.sleep(report.pause).await;
                    if !report.report() {
                        return Ok(false);
                    }
                }
            }
            if !self.wait(report.pause * PIECE_MOVES, report).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Copies the value in a block to a node, unless the key has another value meanwhile. Returns
    /// true if it was moved.
    async fn share_value(
        &self,
        key: &[u8],
        slot: &[u8],
        block: StoreValueBlock,
        node: NodeId,
    ) -> Result<bool, PoolError> {
        let endpoint = self.tree.endpoint();
        // While this guard is valid the block is not used for another value. So an equal slot is
        // the same value.
        let reading = self.blocks.enter(endpoint).await?;
        let found = self.tree.get(key).await?;
        if found.as_deref() != Some(slot) {
            return Ok(false);
        }
        let value = self.blocks.read(endpoint, block).await?;
        if !reading.is_valid(endpoint).await? {
            return Ok(false);
        }
        let copy = self.blocks.write_on(endpoint, node, &value).await?;
        let moved = self.codec.encode_block(copy);
        let is_moved = Cell::new(false);
        let decide = async |before: Option<&[u8]>| {
            is_moved.set(before == Some(slot) && reading.is_valid(endpoint).await?);
            Ok(match is_moved.get() {
                true => KeyChangeDecision::Put(moved.clone()),
                false => KeyChangeDecision::Keep,
            })
        };
        self.tree.alter(key, decide).await?;
        if is_moved.get() {
            self.blocks.retire(endpoint, &reading, block).await?;
        } else {
            self.blocks.take_back(endpoint, &reading, copy).await?;
        }
        Ok(is_moved.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_what_others_have_above_the_average() {
        let share = |leaves: &[usize], node: u16| {
            let part = |(number, &leaves): (usize, &usize)| PoolNodeCensus {
                node: NodeId(number as u16),
                leaves,
                ..PoolNodeCensus::default()
            };
            let parts: Vec<PoolNodeCensus> = leaves.iter().enumerate().map(part).collect();
            let share = NodeShare::new(&parts, NodeId(node), |part| part.leaves as u64);
            let from: Vec<u16> = share.from.iter().map(|node| node.0).collect();
            (from, share.wanted, share.of)
        };
        assert_eq!(share(&[60, 60, 0], 2), (vec![0, 1], 40, 120));
        assert_eq!(share(&[90, 30, 0], 2), (vec![0], 40, 90));
        assert_eq!(share(&[41, 39, 40], 2), (vec![0], 0, 41));
        assert_eq!(share(&[10, 10, 70], 2), (vec![], 0, 0));
        assert_eq!(share(&[0, 0], 1), (vec![], 0, 0));
        assert_eq!(share(&[], 1), (vec![], 0, 0));
        // The rest cannot come from nodes that have the average or less.
        assert_eq!(share(&[25, 20, 0, 15], 2), (vec![0, 1], 15, 45));
    }
}
