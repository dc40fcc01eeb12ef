//! The keys and values of a store by memory node.

use super::client::PoolStoreClient;
use super::form::StoreSlotValue;
use super::{PoolEntryForm, PoolStore};
use crate::error::PoolError;
use crate::executor::block_on;
use nearfield_core::OperationError;
use nearfield_fabric::{Endpoint, NodeId};

/// The part of a map that is on one memory node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolNodeCensus {
    /// The node's number.
    pub node: NodeId,
    /// Number of leaves on the node.
    pub leaves: usize,
    /// Number of bytes of these leaves.
    pub leaf_bytes: u64,
    /// Number of keys in these leaves; 0 if the node cannot be reached.
    pub keys: usize,
    /// Number of long values on the node, of keys in leaves that can be reached.
    pub long_values: usize,
    /// Number of bytes of these values.
    pub long_value_bytes: u64,
}

impl<F: PoolEntryForm, E: Endpoint + 'static> PoolStore<F, E> {
    /// Counts the leaves, keys and long values on each node; exact if no writer is at work. Reads
    /// all leaves that can be reached.
    ///
    /// # Errors
    /// `Unreachable`.
    pub fn census(&self) -> Result<Vec<PoolNodeCensus>, OperationError> {
        let client = self.client()?;
        block_on(client.census(&self.nodes.get())).map_err(|error| OperationError::Unreachable {
            what: error.to_string(),
        })
    }
}

impl<E: Endpoint> PoolStoreClient<E> {
    pub(super) async fn census(&self, nodes: &[NodeId]) -> Result<Vec<PoolNodeCensus>, PoolError> {
        let nothing = |&node: &NodeId| PoolNodeCensus {
            node,
            ..PoolNodeCensus::default()
        };
        let mut counted: Vec<PoolNodeCensus> = nodes.iter().map(nothing).collect();
        let visited = self.tree.visit_leaves(|node, leaf| {
            let keys = leaf.map_or(0, |leaf| leaf.occupied().count());
            if let Some(part) = part_of(&mut counted, node) {
                part.leaves += 1;
                part.leaf_bytes += self.tree.leaf_bytes();
                part.keys += keys;
            }
            let Some(leaf) = leaf else {
                return;
            };
            for slot in leaf.occupied() {
                if let StoreSlotValue::Outside(block) = self.codec.decode_value(leaf.value(slot))
                    && let Some(part) = part_of(&mut counted, block.address.node())
                {
                    part.long_values += 1;
                    part.long_value_bytes += u64::from(block.bytes);
                }
            }
        });
        visited.await?;
        Ok(counted)
    }
}

fn part_of(counted: &mut [PoolNodeCensus], node: NodeId) -> Option<&mut PoolNodeCensus> {
    counted.iter_mut().find(|part| part.node == node)
}
