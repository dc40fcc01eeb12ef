//! Why tiers cannot be opened.

use crate::specification::ParseError;
use std::path::PathBuf;

/// Why tiers cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// They are in no order that is possible.
    #[error(transparent)]
    Order(#[from] ParseError),
    /// A folder cannot be written to.
    #[error("tier {tier}: cannot write to {folder}: {source}")]
    Folder {
        /// The tier as it was named.
        tier: String,
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The tier is larger than the disk.
    #[error("tier {tier}: {folder} has only {free_bytes} bytes free")]
    DiskTooSmall {
        /// The tier as it was named.
        tier: String,
        /// The folder.
        folder: PathBuf,
        /// What is free.
        free_bytes: u64,
    },
    /// There is no such NUMA node.
    #[error("tier {tier}: there is no NUMA node {node}; there are {nodes:?}")]
    NoNode {
        /// The tier as it was named.
        tier: String,
        /// The node.
        node: u32,
        /// Those that there are.
        nodes: Vec<u32>,
    },
    /// The tier is larger than the memory of its NUMA node.
    #[error("tier {tier}: NUMA node {node} has only {bytes} bytes")]
    NodeTooSmall {
        /// The tier as it was named.
        tier: String,
        /// The node.
        node: u32,
        /// What it has.
        bytes: u64,
    },
    /// A tier in the memory of a node cannot be had.
    #[error("tier {tier}: {source}")]
    Memory {
        /// The tier as it was named.
        tier: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The index of a map cannot be had.
    #[error(transparent)]
    Index(#[from] nearfield_core::Error),
    /// The thread that moves values cannot be started.
    #[error("no thread to move values: {0}")]
    Thread(std::io::Error),
    /// The memory tiers are larger than the machine's memory.
    #[error("the memory tiers take {bytes} bytes, and this machine has {memory_bytes}")]
    MemoryTooSmall {
        /// What they take together.
        bytes: u64,
        /// What there is.
        memory_bytes: u64,
    },
}
