//! The interface of a contender.

use super::keys::PermutedKeys;
use crate::harness::Interrupt;
use nearfield_fabric::transport::sim::SimEndpoint;
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_pool::{Entry, PoolError, PoolIndexClient};
use std::future::Future;
use std::sync::Arc;

/// The address of the word that points to the root of an index.
pub(super) const ROOT: GlobalAddress = GlobalAddress::new(NodeId(0), 64);

/// An index with its sizes and techniques chosen.
pub(super) trait PoolIndexSystem {
    /// The state that the clients of one compute node share.
    type ComputeNode;
    /// One client's view.
    type Index: PoolIndexClient + 'static;

    /// Describes all that [`load`](PoolIndexSystem::load) depends on besides the setup: the sizes
    /// and techniques, without the caches of compute nodes.
    fn tree(&self) -> String;

    /// Creates a compute node with an empty cache.
    ///
    /// # Errors
    /// The index is not possible.
    fn compute_node(&self) -> Result<Arc<Self::ComputeNode>, PoolError>;

    /// Returns the bytes in its cache.
    fn cache_bytes(node: &Self::ComputeNode) -> usize;

    /// Returns the numbers of right and wrong guesses of a compute node's clients so far; `None`
    /// for an index that does not guess.
    fn guesses(node: &Self::ComputeNode) -> Option<[u64; 2]>;

    /// Copies another compute node's cached knowledge into a compute node.
    fn learn_from(node: &Self::ComputeNode, other: &Self::ComputeNode);

    /// Loads entries into a new index.
    fn load(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<Self::ComputeNode>,
        entries: IndexLoadEntries,
    ) -> impl Future<Output = Result<(), PoolError>> + 'static;

    /// Opens the loaded index for one client.
    fn open(
        endpoint: SimEndpoint,
        nodes: Vec<NodeId>,
        node: Arc<Self::ComputeNode>,
    ) -> impl Future<Output = Result<Self::Index, PoolError>> + 'static;
}

/// The entries that an index is loaded with.
pub(super) struct IndexLoadEntries {
    pub keys: PermutedKeys,
    pub count: usize,
    pub values: EntryValueForm,
    pub interrupt: Interrupt,
}

/// The form of an entry's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryValueForm {
    /// The value itself.
    Inline,
    /// The value's address: blocks of this size, in the order of positions.
    At { first: GlobalAddress, stride: u64 },
}

impl IndexLoadEntries {
    /// Inserts them one by one. Stops early when interrupted.
    pub(super) async fn insert(self, index: &impl PoolIndexClient) -> Result<(), PoolError> {
        for position in 0..self.count {
            let (key, value) = self.entry(position);
            index.insert(&key, &value).await?;
            if self.interrupt.is_raised() {
                // The caller checks the interrupt, too, and drops the index.
                break;
            }
        }
        Ok(())
    }

    /// Returns all of them, in ascending order of their keys; none if interrupted.
    pub(super) fn sorted(self) -> impl Iterator<Item = Entry> {
        let count = if self.interrupt.is_raised() {
            0
        } else {
            self.count
        };
        let mut positions: Vec<(u64, usize)> = (0..count)
            .map(|position| (self.keys.word(position), position))
            .collect();
        positions.sort_unstable();
        positions
            .into_iter()
            .map(move |(_, position)| self.entry(position))
    }

    fn entry(&self, position: usize) -> Entry {
        let value = match self.values {
            EntryValueForm::Inline => self.keys.value(position, 0),
            EntryValueForm::At { first, stride } => {
                let at = first.plus(position as u64 * stride);
                at.to_bits().to_le_bytes().to_vec()
            }
        };
        (self.keys.key(position), value)
    }
}
