//! The reasons why a memory node cannot be created or attached to.

use crate::address::NodeId;
use std::io;

/// The reason why a memory node in shared memory cannot be created or attached to. `name` is the
/// node's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShmError {
    /// The name does not have 1 to 200 letters, digits, dots, hyphens and underscores.
    #[error("{name:?} is not a name of a memory node: use 1 to 200 of A-Z, a-z, 0-9, ., - and _")]
    Name {
        /// The name.
        name: String,
    },
    /// The size is not more than the reserved bytes, or header and memory together exceed 48 bits.
    #[error("memory node {name} cannot have {bytes} bytes")]
    Size {
        /// The name.
        name: String,
        /// The requested size, in bytes.
        bytes: u64,
    },
    /// A living process serves a node of this name.
    #[error("memory node {name} is already served by process {process}")]
    InUse {
        /// The name.
        name: String,
        /// The process's number.
        process: u32,
    },
    /// No node has this name.
    #[error(
        "memory node {name} does not exist; create it with `nearfield memory-node --listen \
         shm:{name}`"
    )]
    Absent {
        /// The name.
        name: String,
    },
    /// The object of this name is not a memory node.
    #[error("/dev/shm/nearfield-{name} is not a memory node")]
    Foreign {
        /// The name.
        name: String,
    },
    /// Another version of this library has created the node.
    #[error(
        "memory node {name} has a layout of version {found}, and this program has version {known}"
    )]
    Version {
        /// The name.
        name: String,
        /// The version of the node.
        found: u64,
        /// The version that can be read.
        known: u64,
    },
    /// The object does not have the size in its header.
    #[error("memory node {name} must have {stated} bytes with its header, but has {found}")]
    OtherSize {
        /// The name.
        name: String,
        /// The size in the header, in bytes.
        stated: u64,
        /// The length of the object, in bytes.
        found: u64,
    },
    /// The node is being created. Retry soon.
    #[error("memory node {name} is not ready yet")]
    NotReady {
        /// The name.
        name: String,
    },
    /// The process that served the node has ended, and its memory is out of use.
    #[error("the process that served memory node {name} has ended")]
    Lost {
        /// The name.
        name: String,
    },
    /// Two nodes of one endpoint have the same number, so addresses would be ambiguous.
    #[error("memory nodes {name} and {other} are both {node}")]
    SameNumber {
        /// The name.
        name: String,
        /// The other one's name.
        other: String,
        /// Their number.
        node: NodeId,
    },
    /// The system refuses.
    #[error("cannot {action} memory node {name}: {source}")]
    System {
        /// The name.
        name: String,
        /// The attempted action.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
