//! The error of opening tiers.

use crate::specification::ParseError;
use std::path::PathBuf;

/// Reason for which tiers cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum TierOpenError {
    /// The tiers are in an order that is not allowed.
    #[error(transparent)]
    Order(#[from] ParseError),
    /// The folder cannot be written to.
    #[error("tier {tier}: cannot write to {folder}: {source}")]
    Folder {
        /// The tier as it was specified.
        tier: String,
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The tier is larger than the disk.
    #[error("tier {tier}: {folder} has only {free_bytes} bytes free")]
    DiskTooSmall {
        /// The tier as it was specified.
        tier: String,
        /// The folder.
        folder: PathBuf,
        /// Number of free bytes.
        free_bytes: u64,
    },
    /// The NUMA node does not exist.
    #[error("tier {tier}: NUMA node {node} does not exist; the nodes are {nodes:?}")]
    NoNode {
        /// The tier as it was specified.
        tier: String,
        /// The node.
        node: u32,
        /// The nodes that exist.
        nodes: Vec<u32>,
    },
    /// The tier is larger than the memory of its NUMA node.
    #[error("tier {tier}: NUMA node {node} has only {bytes} bytes")]
    NodeTooSmall {
        /// The tier as it was specified.
        tier: String,
        /// The node.
        node: u32,
        /// Number of bytes of the node.
        bytes: u64,
    },
    /// The memory of a NUMA node cannot be allocated.
    #[error("tier {tier}: {source}")]
    Memory {
        /// The tier as it was specified.
        tier: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The index of a map cannot be created.
    #[error(transparent)]
    Index(#[from] nearfield_core::OperationError),
    /// The thread that moves values cannot be started.
    #[error("no thread to move values: {0}")]
    Thread(std::io::Error),
    /// The memory tiers are larger than the memory of the machine or of the control group.
    #[error(
        "the memory tiers need {bytes} bytes, but this machine has {memory_bytes} for the process"
    )]
    MemoryTooSmall {
        /// Number of bytes of these tiers together.
        bytes: u64,
        /// Number of bytes that the process may have.
        memory_bytes: u64,
    },
}
