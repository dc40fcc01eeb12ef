//! Errors between a client and a memory node.

use crate::address::{GlobalAddress, NodeId};

/// The reason why a verb, or a call to a node, failed. Other verbs of the same post may have had
/// their effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// No memory node has this number.
    #[error("memory {node} does not exist")]
    NoSuchNode {
        /// The number.
        node: NodeId,
    },
    /// The node does not respond. The request may have been executed or not.
    #[error("no reply from memory {node}")]
    NodeLost {
        /// The node.
        node: NodeId,
    },
    /// The node has no memory there.
    #[error("{bytes} bytes at {address} reach beyond the node's memory of {size} bytes")]
    OutOfRange {
        /// The first byte.
        address: GlobalAddress,
        /// The number of bytes.
        bytes: u64,
        /// The size of the node's memory, in bytes.
        size: u64,
    },
    /// The word of a swap or an addition is not at a multiple of 8.
    #[error("the word at {address} is not aligned to 8 bytes")]
    Misaligned {
        /// The word.
        address: GlobalAddress,
    },
    /// The node has too little free memory.
    #[error("memory {node} has no {bytes} free bytes")]
    OutOfMemory {
        /// The node.
        node: NodeId,
        /// The requested size in bytes.
        bytes: u64,
    },
    /// The memory to free is not allocated.
    #[error("{bytes} bytes at {address} are not one allocation")]
    NotAllocated {
        /// The first byte.
        address: GlobalAddress,
        /// The number of bytes.
        bytes: u64,
    },
}
