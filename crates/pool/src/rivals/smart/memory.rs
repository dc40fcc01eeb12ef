//! Memory for leaves and nodes.

use super::layout::{ALIGNMENT, NODE_BYTES};
use crate::error::PoolError;
use nearfield_fabric::{Arena, Endpoint, GlobalAddress, NodeId};
use std::cell::RefCell;

/// Nodes are brought and cleared so many at once at most, and no more than an eighth of a chunk has
/// room for.
const NODES_AT_ONCE: u64 = 16;
const NODE_STRIDE: u64 = NODE_BYTES.next_multiple_of(ALIGNMENT);

/// The memory of one client. What it has taken and not used, because another client was first, it
/// uses the next time; what was used is never given back.
#[derive(Debug)]
pub struct Memory {
    arena: Arena,
    nodes_at_once: u64,
    /// Cleared, but for the slots that a node has at first.
    nodes: RefCell<Vec<GlobalAddress>>,
    leaves: RefCell<Vec<GlobalAddress>>,
}

impl Memory {
    pub fn new(nodes: &[NodeId], chunk_bytes: u64) -> Memory {
        Memory {
            arena: Arena::aligned(nodes, chunk_bytes, ALIGNMENT),
            nodes_at_once: (chunk_bytes / 8 / NODE_STRIDE).clamp(1, NODES_AT_ONCE),
            nodes: RefCell::default(),
            leaves: RefCell::default(),
        }
    }

    /// Memory of so many bytes for a leaf; all leaves have as many.
    pub async fn leaf(
        &self,
        endpoint: &impl Endpoint,
        bytes: u64,
    ) -> Result<GlobalAddress, PoolError> {
        let spare = self.leaves.borrow_mut().pop();
        match spare {
            Some(leaf) => Ok(leaf),
            None => Ok(self.arena.allocate(endpoint, bytes).await?),
        }
    }

    /// Memory for a node, in which all slots are unused but those that a node has at first.
    ///
    /// Nodes grow in place, so that slots have to be unused before anybody knows of the node, and
    /// what memory holds is not specified. It is cleared many nodes at once, without waiting:
    /// whatever this client writes to the same memory node afterwards comes after that.
    pub async fn node(&self, endpoint: &impl Endpoint) -> Result<GlobalAddress, PoolError> {
        loop {
            if let Some(node) = self.nodes.borrow_mut().pop() {
                return Ok(node);
            }
            let bytes = self.nodes_at_once * NODE_STRIDE;
            let first = self.arena.allocate(endpoint, bytes).await?;
            endpoint.write_unsignalled(first, &vec![0; bytes as usize])?;
            let all = (0..self.nodes_at_once).map(|number| first.plus(number * NODE_STRIDE));
            self.nodes.borrow_mut().extend(all.rev());
        }
    }

    /// Takes back a leaf that nobody knows of.
    pub fn leaf_unused(&self, leaf: GlobalAddress) {
        self.leaves.borrow_mut().push(leaf);
    }

    /// Takes back nodes that nobody knows of, and of which no more than the first slots were
    /// written.
    pub fn nodes_unused(&self, nodes: impl IntoIterator<Item = GlobalAddress>) {
        self.nodes.borrow_mut().extend(nodes);
    }
}
