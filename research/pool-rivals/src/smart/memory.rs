//! Memory for leaves and nodes.

use super::layout::{ALIGNMENT, NODE_BYTES};
use nearfield_fabric::{Endpoint, FabricArena, GlobalAddress, NodeId};
use nearfield_pool::PoolError;
use std::cell::RefCell;

/// Number of nodes that are allocated and cleared at once, at most, and within an eighth of a
/// chunk.
const NODES_AT_ONCE: u64 = 16;
const NODE_STRIDE: u64 = NODE_BYTES.next_multiple_of(ALIGNMENT);

/// The memory of one client. It reuses memory that it has allocated and not used, because another
/// client was first; used memory is never freed.
#[derive(Debug)]
pub struct SmartClientMemory {
    arena: FabricArena,
    nodes_at_once: u64,
    /// Nodes that are cleared, except for the slots that a node has initially.
    nodes: RefCell<Vec<GlobalAddress>>,
    leaves: RefCell<Vec<GlobalAddress>>,
}

impl SmartClientMemory {
    pub fn new(nodes: &[NodeId], chunk_bytes: u64) -> SmartClientMemory {
        SmartClientMemory {
            arena: FabricArena::aligned(nodes, chunk_bytes, ALIGNMENT),
            nodes_at_once: (chunk_bytes / 8 / NODE_STRIDE).clamp(1, NODES_AT_ONCE),
            nodes: RefCell::default(),
            leaves: RefCell::default(),
        }
    }

    /// Allocates memory for a leaf of this size; all leaves have the same.
    pub async fn leaf(
        &self,
        endpoint: &impl Endpoint,
        bytes: u64,
    ) -> Result<GlobalAddress, PoolError> {
        debug_assert!(bytes.is_multiple_of(ALIGNMENT));
        let spare = self.leaves.borrow_mut().pop();
        match spare {
            Some(leaf) => Ok(leaf),
            None => Ok(self.arena.allocate(endpoint, bytes).await?),
        }
    }

    /// Allocates memory for a node, in which all slots are unused except those that a node has
    /// initially.
    pub async fn node(&self, endpoint: &impl Endpoint) -> Result<GlobalAddress, PoolError> {
        loop {
            if let Some(node) = self.nodes.borrow_mut().pop() {
                return Ok(node);
            }
            let bytes = self.nodes_at_once * NODE_STRIDE;
            let first = self.arena.allocate(endpoint, bytes).await?;
            debug_assert!(first.offset().is_multiple_of(ALIGNMENT));
            // Nodes grow in place, so their slots must be unused before another client knows the
            // node, and the content of allocated memory is not specified. Without waiting: the
            // later writes of this client to the same memory node come after this one.
            endpoint.write_unsignalled(first, &vec![0; bytes as usize])?;
            let all = (0..self.nodes_at_once).map(|number| first.plus(number * NODE_STRIDE));
            // They are taken from the end.
            self.nodes.borrow_mut().extend(all.rev());
        }
    }

    /// Takes back a leaf that no client knows.
    pub fn leaf_unused(&self, leaf: GlobalAddress) {
        self.leaves.borrow_mut().push(leaf);
    }

    /// Takes back nodes that no client knows, and of which only the first slots were written.
    pub fn nodes_unused(&self, nodes: impl IntoIterator<Item = GlobalAddress>) {
        self.nodes.borrow_mut().extend(nodes);
    }
}
