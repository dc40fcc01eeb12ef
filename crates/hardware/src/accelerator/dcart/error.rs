//! What is wrong with parameters or with a load.

use crate::dram;

/// Why there is no such accelerator, or no such run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter has no sensible value.
    #[error("{name} is {given}, but has to be {allowed}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        given: u64,
        /// Values that work.
        allowed: &'static str,
    },
    /// The buffers need more block memory than the card has.
    #[error("the buffers take {given} bytes, and the card has {card} bytes of block memory")]
    Buffers {
        /// All four together.
        given: u64,
        /// What the card has.
        card: u64,
    },
    /// The tree does not fit into the part of the card's memory that it has.
    #[error("the tree has a node at byte {address}, and the card has {card} bytes for it")]
    Tree {
        /// The node.
        address: u64,
        /// Half of the card's memory.
        card: u64,
    },
    /// The parameters of the card's memory contradict each other.
    #[error("the memory of the card: {0}")]
    Memory(#[from] dram::Error),
}
