//! Filters and aggregates over a range of keys; the values are read as numbers.
//!
//! - [`Filter`] selects values, [`Aggregates`] has the results for those that are selected.
//! - [`ScanRange`] is the range of keys.
//! - `program` is the program that a memory node runs on the leaves of a tree, `code` its code,
//!   `scratchpad` the state that it carries from leaf to leaf; [`Programs`] runs them on the nodes.
//!
//! The tree itself is in [`chime`](crate::chime), which decides which leaves a program reads.

mod aggregates;
mod code;
mod filter;
mod program;
mod programs;
mod range;
mod scratchpad;

pub use aggregates::{Aggregates, number};
pub use filter::Filter;
pub(crate) use program::{End, LeafProgram, LeafPrograms, Protection, Walk};
pub use programs::Programs;
pub use range::ScanRange;
