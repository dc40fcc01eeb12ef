//! The content of memory nodes, as a start for other simulations.

use super::executor::FabricSimulation;
use super::node::SimNode;
use crate::address::{NodeId, RESERVED_BYTES};
use crate::chunks::Chunks;
use std::fmt;

/// The memory of all nodes of a simulation up to the last allocation, and the list of allocations.
/// Clients, requests and times are not part of it. Freed memory after the last allocation is zero
/// in nodes that are created from it.
#[derive(Clone, PartialEq, Eq)]
pub struct Image(Vec<NodeImage>);

#[derive(Clone, PartialEq, Eq)]
struct NodeImage {
    /// Size of the node.
    bytes: usize,
    /// The memory up to the last allocation. The rest is zero.
    memory: Vec<u8>,
    chunks: Chunks,
}

impl Image {
    /// Returns its size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|node| node.memory.len()).sum()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, bytes) = (self.0.len(), self.bytes());
        write!(formatter, "Image {{ nodes: {nodes}, bytes: {bytes} }}")
    }
}

impl FabricSimulation {
    /// Copies the present content of the nodes. Linear in the bytes up to the last allocation.
    pub fn image(&self) -> Image {
        let image = |node: &SimNode| {
            let memory = &node.memory;
            let end = node.chunks.end().max(RESERVED_BYTES) as usize;
            NodeImage {
                bytes: memory.len(),
                memory: memory[..end.min(memory.len())].to_vec(),
                chunks: node.chunks.clone(),
            }
        };
        Image(self.state.borrow().nodes.iter().map(image).collect())
    }

    /// Adds nodes with the content of an image.
    pub fn add_image(&mut self, image: &Image) -> Vec<NodeId> {
        let add = |from: &NodeImage| {
            let number = self.add_node(from.bytes);
            let node = &mut self.state.borrow_mut().nodes[usize::from(number.0)];
            node.memory[..from.memory.len()].copy_from_slice(&from.memory);
            node.chunks = from.chunks.clone();
            number
        };
        image.0.iter().map(add).collect()
    }
}
