//! Filters and aggregates over a range of keys; the values are read as numbers.
//!
//! - [`ValueFilter`] selects values, [`ScanAggregates`] has the results for those that are
//!   selected.
//! - [`PoolScanRange`] is the range of keys.
//! - `program` is the program that a memory node runs on the leaves of a tree, `code` its code,
//!   `scratchpad` the state that it carries from leaf to leaf; [`PoolProgramExecutor`] runs them on
//!   the nodes.
//!
//! The tree itself is in [`chime`](crate::chime), which decides which leaves a program reads.

mod aggregates;
mod code;
mod filter;
mod program;
mod programs;
mod range;
mod scratchpad;

pub use aggregates::{ScanAggregates, number};
pub use filter::ValueFilter;
pub(crate) use program::{LeafProgram, LeafProgramEnd, LeafPrograms, Protection, ScanResultKind};
pub use programs::PoolProgramExecutor;
pub use range::PoolScanRange;
