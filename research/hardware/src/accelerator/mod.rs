//! Accelerators next to memory, at the level of cycles, and their racks.
//!
//! An accelerator runs *traversals*: for each it fetches a node, computes the next step, and
//! continues until the traversal ends. A model contains no programs. It calls a
//! [`HardwareTraversal`] for the bytes to fetch and for the computation on them, at the moment when
//! the hardware would. So a traversal that runs a real program gives real results, and the model
//! gives the time that they take.
//!
//! - [`pulse`]: the accelerator of pulse (ASPLOS 2025), with its area and energy.
//! - [`cores`]: general-purpose cores in its place.
//! - [`dcart`]: the accelerator of DCART (DAC 2025), for operations on a radix tree.
//! - [`rack`]: callers, a switch, and memory nodes with either.
//! - [`paging`]: remote memory as swap space.
//! - [`cxl`]: pulse's study of memory that is attached by CXL.

pub mod cores;
pub mod cxl;
pub mod dcart;
mod node;
pub mod paging;
pub mod pulse;
pub mod rack;
mod translation;
mod traversal;

pub use node::{Departure, DepartureReason, RackNode};
pub use translation::{
    TableError, TranslationPermission, TranslationRange, TranslationRefusal, TranslationTable,
};
pub use traversal::{HardwareTraversal, Iteration, MemorySpan, Verdict};

#[cfg(test)]
mod testing;
