//! The accelerator's public interface.

use super::off_chip::OffChip;
use super::run::{Regions, Run};
use super::{Error, Operation, Parameters, Report, Tree};

/// An accelerator with its card.
#[derive(Debug)]
pub struct Accelerator {
    parameters: Parameters,
}

impl Accelerator {
    /// Creates an accelerator with these parameters.
    ///
    /// # Errors
    /// See [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Result<Accelerator, Error> {
        parameters.check()?;
        Ok(Accelerator { parameters })
    }

    /// Executes operations in batches, as fast as it can. Buffers and shortcuts are initially
    /// empty.
    ///
    /// # Errors
    /// [`Error::Batch`] if a batch is too large for the card's memory, [`Error::Tree`] if the tree
    /// outgrows half of it.
    pub fn run(&self, operations: &[Operation], tree: &mut impl Tree) -> Result<Report, Error> {
        let bytes = |batch: &[Operation]| batch.iter().map(|one| u64::from(one.bytes)).sum();
        let batches = operations.chunks(self.parameters.batch);
        let given: u64 = batches.map(bytes).max().unwrap_or(0);
        let card = Regions::of(&self.parameters).bucket;
        if given > card {
            return Err(Error::Batch { given, card });
        }
        let off_chip = OffChip::new(&self.parameters)?;
        Run::new(&self.parameters, operations, tree, off_chip).finish()
    }
}
