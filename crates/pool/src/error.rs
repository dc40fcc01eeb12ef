//! The reasons why an operation on the pool failed.

use crate::layout::GeometryError;
use nearfield_fabric::recovery::epochs::EpochError;
use nearfield_fabric::recovery::owners::OwnersError;
use nearfield_fabric::recovery::redo::RedoError;
use nearfield_fabric::{FabricError, GlobalAddress, LINE_BYTES, NodeId};

/// Why an operation was not done.
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
    /// There is no place for the records of changes under locks.
    #[error(transparent)]
    Redo(RedoError),
    /// The compute node could not take part in giving memory back.
    #[error(transparent)]
    Epochs(EpochError),
    /// The session took so long that others take its compute node for dead: begin another.
    #[error("the session was not valid to its end")]
    Session,
    /// There is no number for one more client.
    #[error(transparent)]
    Owners(OwnersError),
    /// There is no index, or one of another version.
    #[error("no index of this version is at {at}: its format is {found:02x?}")]
    Format {
        /// Where its header should be.
        at: GlobalAddress,
        /// The bytes in place of the format.
        found: Vec<u8>,
    },
    /// A node of the index does not become whole, or leads nowhere, whatever is repaired.
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
    /// The sizes are not possible.
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
    /// A key has not the length that the index's have, or is all zeros.
    #[error("a key of {length} bytes is none: keys have {expected} bytes, not all of them zero")]
    Key {
        /// Its length in bytes.
        length: usize,
        /// The length of keys in bytes.
        expected: usize,
    },
    /// A value has not the length that the index's have.
    #[error("a value of {length} bytes is none: values have {expected} bytes")]
    Value {
        /// Its length in bytes.
        length: usize,
        /// The length of values in bytes.
        expected: usize,
    },
    /// Another client of the compute node was to do this write with its own, and was dropped in the
    /// middle of it. It may have taken effect, or may do so, once or not at all.
    #[error(
        "the client that did this write with its own is gone, and whether it is done is unknown"
    )]
    Interrupted,
    /// Entries to load must be in strictly ascending order of their keys.
    #[error("entry {position} of those to load is not greater than the one before")]
    Unsorted {
        /// The position of the entry, from 0 on.
        position: u64,
    },
    /// There is no index at the root, or not one of this kind and these sizes.
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
        /// The length of keys in bytes is no more than this.
        key_bytes_max: usize,
        /// The length of values in bytes is no more than this.
        value_bytes_max: usize,
    },
    /// A memory node has a number that the index's pointers have no room for.
    #[error("memory {node} is beyond what pointers reach: nodes have numbers up to {max}")]
    Node {
        /// The node.
        node: NodeId,
        /// The greatest number.
        max: u16,
    },
}

// A node's failure is one error, whatever the request was.
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
