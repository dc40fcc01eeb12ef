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
        "the memory nodes are atomic in units of {atomic} bytes, but the index needs lines of \
         {LINE_BYTES}"
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
    /// The locks of the index have no leases, so that a dead client's change cannot be told from a
    /// living one's.
    #[error("an index whose locks have no leases can be neither repaired nor drained")]
    Leaseless,
    /// The first node has the root and all inner nodes, so it stays open.
    #[error("memory {node} is the first one of the pool, and cannot be closed")]
    FirstNode {
        /// The node.
        node: NodeId,
    },
    /// Nothing is put on the node, which is drained or about to be added.
    #[error("memory {node} is closed: it is drained, or about to be added")]
    Closed {
        /// The node.
        node: NodeId,
    },
    /// The session took so long that other nodes take its compute node for dead: begin another.
    #[error("the session expired before its end")]
    Session,
    /// All client numbers are in use.
    #[error(transparent)]
    Owners(OwnersError),
    /// The index is missing, or has another version.
    #[error("the index at {at} has format {found:02x?}, which this version does not read")]
    Format {
        /// The address where its header should be.
        at: GlobalAddress,
        /// The bytes in place of the format.
        found: Vec<u8>,
    },
    /// A part of the index is damaged: a node that does not become whole or that a pointer leads to
    /// in vain, whatever is repaired, or a word that leads nowhere.
    #[error(
        "the index at {at} (memory node and offset) is damaged: the bytes there are not valid, and \
         do not become so, however often they are read and repaired"
    )]
    Damaged {
        /// The node that was read last, the root word, a word of the header, or the block of a
        /// value.
        at: GlobalAddress,
    },
    /// A memory node does not belong to the others.
    #[error(
        "memory {node} does not belong to this pool: {found}. Name the nodes with which the \
         pool was created, in the same order; if one has lost its memory, end it and repair the \
         pool without it, or restart all of them"
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
    #[error(
        "a cache of {bytes} bytes, without the hotspot buffer, is too small for a node of {needed}"
    )]
    Cache {
        /// The room for internal nodes, in bytes.
        bytes: usize,
        /// The memory of a node, in bytes.
        needed: usize,
    },
    /// The length of a key differs from that of the index's keys, or the key is all zeros.
    #[error("invalid key of {length} bytes: keys have {expected} bytes and are not all zero")]
    Key {
        /// Its length in bytes.
        length: usize,
        /// The length of keys in bytes.
        expected: usize,
    },
    /// The length of a value differs from that of the index's values.
    #[error("invalid value of {length} bytes: values have {expected} bytes")]
    Value {
        /// Its length in bytes.
        length: usize,
        /// The length of values in bytes.
        expected: usize,
    },
    /// Another client of the compute node should have done this write with its own, and was dropped
    /// in the middle of it. The write may have taken effect, or may do so, once or not at all.
    #[error(
        "the client that combined this write with its own has ended; the outcome of the write is \
         unknown"
    )]
    Interrupted,
    /// A node has failed in a change, which may have been made: it had no memory to complete it, or
    /// the change was one of several keys.
    #[error("{0}; the change may have been made")]
    Undetermined(FabricError),
    /// Entries to load are not in strictly ascending order of their keys.
    #[error("entry {position} to load is not greater than the one before it")]
    Unsorted {
        /// The position of the entry, from 0 on.
        position: u64,
    },
    /// No index of this kind and these sizes is at the root.
    #[error("there is no index with these sizes at {root}")]
    NoIndex {
        /// The root word.
        root: GlobalAddress,
    },
    /// The index does not support keys or values of these lengths.
    #[error(
        "invalid sizes, keys of {key_bytes} bytes and values of {value_bytes}: keys have 1 to \
         {key_bytes_max} bytes, values 0 to {value_bytes_max}"
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
    #[error("invalid number of memory {node}: pointers hold numbers up to {max}")]
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
