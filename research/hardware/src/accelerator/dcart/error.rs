//! The errors of parameters and loads.

use crate::dram;

/// Error of an accelerator that cannot be built, or of a run that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DcartError {
    /// A parameter without a sensible value.
    #[error("{name} is {given}, but must be {allowed}")]
    Parameter {
        /// The parameter's name.
        name: &'static str,
        /// The parameter's value.
        given: u64,
        /// Values that work.
        allowed: &'static str,
    },
    /// A parameter that does not exist.
    #[error("there is no parameter {name:?}; the names are {}", known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The existing names.
        known: &'static [&'static str],
    },
    /// A value that a parameter cannot have.
    #[error("{name} is {given:?}, but must be {allowed}")]
    Value {
        /// The parameter's name.
        name: String,
        /// The given value.
        given: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A wrong line of a text of parameters, or of a trace.
    #[error("line {line}: {error}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// The error in the line.
        error: Box<DcartError>,
    },
    /// An error while reading a trace.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
    /// Buffers that need more block memory than the card has.
    #[error("the buffers take {given} bytes, and the card has {card} bytes of block memory")]
    Buffers {
        /// Bytes of all four buffers together.
        given: u64,
        /// Bytes of the card's block memory.
        card: u64,
    },
    /// A batch that does not fit into the part of the card's memory for a bucket.
    #[error(
        "batch: the records of a batch take {given} bytes, and memory has {card} bytes for each \
         bucket"
    )]
    Batch {
        /// Bytes of the longest batch.
        given: u64,
        /// Bytes for a bucket.
        card: u64,
    },
    /// A tree that does not fit into its part of the card's memory.
    #[error(
        "memory: the tree has a node at byte {address}, and half of the card's memory, {card} \
         bytes, is for the tree"
    )]
    Tree {
        /// The address of the node.
        address: u64,
        /// Half of the card's memory.
        card: u64,
    },
    /// Contradicting parameters of the card's memory.
    #[error("the memory of the card: {0}")]
    Memory(#[from] dram::DramError),
}
