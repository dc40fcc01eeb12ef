//! The reasons why an operation on the pool failed.

use crate::layout::GeometryError;
use nearfield_fabric::recovery::epochs::EpochError;
use nearfield_fabric::recovery::owners::OwnersError;
use nearfield_fabric::recovery::redo::RedoError;
use nearfield_fabric::{FabricError, GlobalAddress, LINE_BYTES, NodeId};

/// Reason for which an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// A memory node has failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Verbs are not atomic within lines, on which the readers' checks rely.
    #[error(
        "the memory nodes are accessed by {atomic} bytes as one, \
         and the index needs lines of {LINE_BYTES}"
    )]
    Lines {
        /// The atomic unit, in bytes.
        atomic: u64,
    },
    /// The records of changes under locks have no space.
    #[error(transparent)]
    Redo(RedoError),
    /// The compute node cannot take part in reclaiming memory.
    #[error(transparent)]
    Epochs(EpochError),
    /// The session took so long that other nodes take its compute node for dead: begin another.
    #[error("the session was not valid to its end")]
    Session,
    /// All client numbers are in use.
    #[error(transparent)]
    Owners(OwnersError),
    /// The index is missing, or has another version.
    #[error("no index of this version is at {at}: its format is {found:02x?}")]
    Format {
        /// The address where its header should be.
        at: GlobalAddress,
        /// The bytes in place of the format.
        found: Vec<u8>,
    },
    /// A node of the index does not become whole, or its pointer leads to no node, whatever is
    /// repaired.
    #[error(
        "the index at {at} (memory node and offset) is damaged: what lies there does not become \
         a node of it, however often it is read and repaired"
    )]
    Damaged {
        /// The node that was read last, or the root word.
        at: GlobalAddress,
    },
    /// A memory node does not belong to the others.
    #[error(
        "memory {node} is none of this pool: {found}. Give the nodes with which the pool was \
         made, in their order; if one has lost its memory, start all of them anew"
    )]
    Stranger {
        /// The node.
        node: NodeId,
        /// The state that it is in.
        found: String,
    },
    /// The sizes are invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The budget of a compute node has no room for an internal node.
    #[error("a cache of {bytes} bytes, hotspots not counted, has no room for a node of {needed}")]
    Cache {
        /// The room for internal nodes, in bytes.
        bytes: usize,
        /// The memory of a node, in bytes.
        needed: usize,
    },
    /// The length of a key differs from that of the index's keys, or the key is all zeros.
    #[error("a key of {length} bytes is none: keys have {expected} bytes, not all of them zero")]
    Key {
        /// Its length in bytes.
        length: usize,
        /// The length of keys in bytes.
        expected: usize,
    },
    /// The length of a value differs from that of the index's values.
    #[error("a value of {length} bytes is none: values have {expected} bytes")]
    Value {
        /// Its length in bytes.
        length: usize,
        /// The length of values in bytes.
        expected: usize,
    },
    /// Another client of the compute node should have done this write with its own, and was dropped
    /// in the middle of it. The write may have taken effect, or may do so, once or not at all.
    #[error(
        "the client that did this write with its own is gone, and whether it is done is unknown"
    )]
    Interrupted,
    /// Entries to load are not in strictly ascending order of their keys.
    #[error("entry {position} of those to load is not greater than the one before")]
    Unsorted {
        /// The position of the entry, from 0 on.
        position: u64,
    },
    /// No index of this kind and these sizes is at the root.
    #[error("there is no index at {root} that was made with these sizes")]
    NoIndex {
        /// The root word.
        root: GlobalAddress,
    },
    /// The index does not support keys or values of these lengths.
    #[error(
        "keys of {key_bytes} bytes and values of {value_bytes} are none: \
         keys have 1 to {key_bytes_max}, values 0 to {value_bytes_max}"
    )]
    Sizes {
        /// The length of keys in bytes.
        key_bytes: usize,
        /// The length of values in bytes.
        value_bytes: usize,
        /// Maximum length of keys in bytes.
        key_bytes_max: usize,
        /// Maximum length of values in bytes.
        value_bytes_max: usize,
    },
    /// A memory node has a number that is too large for the index's pointers.
    #[error("memory {node} is beyond what pointers reach: nodes have numbers up to {max}")]
    Node {
        /// The node.
        node: NodeId,
        /// The greatest possible number.
        max: u16,
    },
}

// The failure of a node is one error, whatever the request was.
impl From<RedoError> for PoolError {
    fn from(error: RedoError) -> PoolError {
        match error {
            RedoError::Fabric(error) => PoolError::Fabric(error),
            other => PoolError::Redo(other),
        }
    }
}

impl From<EpochError> for PoolError {
    fn from(error: EpochError) -> PoolError {
        match error {
            EpochError::Fabric(error) => PoolError::Fabric(error),
            other => PoolError::Epochs(other),
        }
    }
}

impl From<OwnersError> for PoolError {
    fn from(error: OwnersError) -> PoolError {
        match error {
            OwnersError::Fabric(error) => PoolError::Fabric(error),
            other => PoolError::Owners(other),
        }
    }
}
