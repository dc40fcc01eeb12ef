//! The reasons why a memory node cannot be served or connected to.

use crate::address::NodeId;
use std::io;

/// The reason why a memory node cannot be served or connected to over UCX. `address` is the given
/// address of the node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UcxError {
    /// The library cannot be loaded.
    #[error(
        "UCX is needed, and its library libucp.so.0 cannot be loaded: {reason}; install Debian's \
         package libucx0, version 1.13 or newer (apt install libucx0)"
    )]
    Library {
        /// The system's message.
        reason: String,
    },
    /// The library is older than 1.13, or of another interface.
    #[error(
        "the library libucp.so.0 is UCX {major}.{minor}; 1.13 or a newer 1.x is needed (Debian's \
         package libucx0)"
    )]
    Old {
        /// The library's version, before the dot.
        major: u32,
        /// The library's version, after the dot.
        minor: u32,
    },
    /// The text is not an address of this machine or another.
    #[error("{address:?} is not HOST:PORT: {source}")]
    Address {
        /// The text.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The size is not more than the reserved bytes, or exceeds 48 bits.
    #[error("memory node {address} cannot have {bytes} bytes")]
    Size {
        /// The address.
        address: String,
        /// The requested size, in bytes.
        bytes: u64,
    },
    /// The system has no room for the node's memory.
    #[error("cannot map {bytes} bytes for memory node {address}: {source}")]
    Memory {
        /// The address.
        address: String,
        /// The requested size, in bytes.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// No node listens there.
    #[error(
        "there is no memory node at {address} ({reason}); create it with `nearfield memory-node \
         --listen ucx:{address}`"
    )]
    Absent {
        /// The address.
        address: String,
        /// UCX's message, or a timeout.
        reason: String,
    },
    /// The process there is not a memory node.
    #[error("the process at {address} is not a memory node")]
    Foreign {
        /// The address.
        address: String,
    },
    /// Another version of this library serves the node.
    #[error("memory node {address} uses version {found}, and this program uses version {known}")]
    Version {
        /// The address.
        address: String,
        /// The version of the node.
        found: u32,
        /// The version that is understood here.
        known: u32,
    },
    /// UCX would copy from and to the node's memory by this process's processor, at the same time
    /// as the node and other clients, so that words could be seen half written.
    #[error(
        "UCX maps the memory of memory node {address} into this process, where copies tear words: \
         set UCX_TLS=^xpmem, or use a node in shared memory (shm:NAME)"
    )]
    Mapped {
        /// The address.
        address: String,
    },
    /// Two nodes of one endpoint have the same number, so addresses would be ambiguous.
    #[error("memory nodes {address} and {other} are both {node}")]
    SameNumber {
        /// The address.
        address: String,
        /// The other one's address.
        other: String,
        /// Their number.
        node: NodeId,
    },
    /// UCX refuses.
    #[error("UCX cannot {action}: {reason}")]
    Refused {
        /// The attempted action.
        action: String,
        /// UCX's message.
        reason: String,
    },
}
