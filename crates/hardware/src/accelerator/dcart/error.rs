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
    /// There is no such parameter.
    #[error("there is no parameter {name:?}; the names are {}", known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: &'static [&'static str],
    },
    /// A parameter was given as something that it cannot be.
    #[error("{name} is {given:?}, but has to be {allowed}")]
    Value {
        /// Its name.
        name: String,
        /// What was given.
        given: String,
        /// What works.
        allowed: &'static str,
    },
    /// A line of a text of parameters, or of a trace, is wrong.
    #[error("line {line}: {error}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        error: Box<Error>,
    },
    /// A trace cannot be read on.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
    /// The buffers need more block memory than the card has.
    #[error("the buffers take {given} bytes, and the card has {card} bytes of block memory")]
    Buffers {
        /// All four together.
        given: u64,
        /// What the card has.
        card: u64,
    },
    /// A batch does not fit into the part of the card's memory that a bucket has.
    #[error(
        "batch: the records of a batch take {given} bytes, and memory has {card} bytes for each \
         bucket"
    )]
    Batch {
        /// The longest batch.
        given: u64,
        /// What a bucket has.
        card: u64,
    },
    /// The tree does not fit into the part of the card's memory that it has.
    #[error(
        "memory: the tree has a node at byte {address}, and half of the card's memory, {card} \
         bytes, is for the tree"
    )]
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
