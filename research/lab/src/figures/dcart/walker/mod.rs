//! Trees that record their walks as the accelerator would make them: the paper's, and Nearfield's.
//!
//! A tree executes a batch in this process and reports to a [`WalkEventLog`]. Its nodes get places
//! on the card, so that each operation becomes a [`DcartWalk`] over the card's memory.

mod addresses;
mod blocks;
mod log;
mod paper;

pub(super) use blocks::BlockTree;
pub(super) use paper::PaperTree;

use super::entries::DcartEntryForm;
use nearfield_core::{Batch, OperationError};
use nearfield_hardware::accelerator::dcart::DcartWalk;

/// Bytes of a value in a leaf.
pub(super) const VALUE: u32 = 8;

/// The effect of an operation on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationEffect {
    /// No effect; the key was present.
    Read,
    /// A new value of the same size for a present key.
    Value,
    /// An insert of the key.
    Nodes,
    /// A removal of the key.
    Removed,
}

/// A tree that records its walks.
pub(super) trait Walker: Default {
    /// The form of its entries.
    type Form: DcartEntryForm;

    /// Executes a batch, and records the reads and changes of its operations.
    fn execute(&mut self, batch: &mut Batch<Self::Form>) -> Result<(), OperationError>;

    /// Returns the number of operations of the batch that was executed last.
    fn recorded(&self) -> usize;

    /// Describes the accesses of an operation of the batch. `changed` is `None` if it has found and
    /// changed nothing. Call it once for each operation, in their order.
    fn walk(&mut self, operation: usize, changed: Option<OperationEffect>, walk: &mut DcartWalk);

    /// Returns the number of entries.
    #[cfg(test)]
    fn len(&self) -> usize;
}
