//! What can go wrong between a client and a memory node.

use crate::address::{GlobalAddress, NodeId};

/// Why a verb, or a call to a node, was not done. Of several verbs that were posted together some
/// may have been done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// No memory node has this number.
    #[error("there is no memory {node}")]
    NoSuchNode {
        /// The number.
        node: NodeId,
    },
    /// The node does not answer. Nobody can say whether what was asked has been done.
    #[error("memory {node} does not answer")]
    NodeLost {
        /// The node.
        node: NodeId,
    },
    /// The node has no memory there.
    #[error("{bytes} bytes at {address} reach beyond the node's memory of {size} bytes")]
    OutOfRange {
        /// The first byte.
        address: GlobalAddress,
        /// How many.
        bytes: u64,
        /// The size of the node's memory, in bytes.
        size: u64,
    },
    /// A word that is to be swapped or added to does not lie at a multiple of 8.
    #[error("the word at {address} is not aligned to 8 bytes")]
    Misaligned {
        /// The word.
        address: GlobalAddress,
    },
    /// The node has no room for so much.
    #[error("memory {node} has no {bytes} bytes left")]
    OutOfMemory {
        /// The node.
        node: NodeId,
        /// What was asked for, in bytes.
        bytes: u64,
    },
    /// What is to be freed is not what was allocated.
    #[error("{bytes} bytes at {address} were not allocated as such")]
    NotAllocated {
        /// The first byte.
        address: GlobalAddress,
        /// How many.
        bytes: u64,
    },
}
