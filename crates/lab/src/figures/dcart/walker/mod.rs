//! Trees whose walks are recorded as the accelerator would make them: the paper's, and Nearfield's.
//!
//! A tree executes a batch in this process and reports to a [`Log`]. Its nodes get places on the
//! card, so that each operation becomes a [`Walk`] over the card's memory.

mod addresses;
mod blocks;
mod log;
mod paper;

pub(super) use blocks::BlockTree;
pub(super) use paper::PaperTree;

use super::entries::Entries;
use nearfield_core::{Batch, Error};
use nearfield_hardware::accelerator::dcart::Walk;

/// The bytes of a value, for which a leaf has room.
pub(super) const VALUE: u32 = 8;

/// What an operation of a batch has done to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// Nothing; its key was there.
    Read,
    /// It has set the value of a key that was there, to one of as many bytes.
    Value,
    /// It has inserted it.
    Nodes,
    /// It has removed it.
    Removed,
}

/// A tree whose walks are recorded.
pub(super) trait Walker: Default {
    /// Its entries.
    type Form: Entries;

    /// Executes a batch, and records what its operations read and change.
    fn execute(&mut self, batch: &mut Batch<Self::Form>) -> Result<(), Error>;

    /// The operations of the batch that was executed last.
    fn recorded(&self) -> usize;

    /// Describes what an operation of the batch took. `changed` is `None` if it has found and
    /// changed nothing. Operations are asked for in their order, each once.
    fn walk(&mut self, operation: usize, changed: Option<Changed>, walk: &mut Walk);

    /// The number of entries.
    #[cfg(test)]
    fn len(&self) -> usize;
}
