//! The accelerator's public interface.

use super::off_chip::OffChip;
use super::run::{CardRegions, DcartSimulation};
use super::{DcartError, DcartOperation, DcartParameters, DcartReport, DcartTree};

/// An accelerator with its card.
#[derive(Debug)]
pub struct DcartAccelerator {
    parameters: DcartParameters,
}

impl DcartAccelerator {
    /// Creates an accelerator with these parameters.
    ///
    /// # Errors
    /// See [`DcartParameters::check`].
    pub fn new(parameters: DcartParameters) -> Result<DcartAccelerator, DcartError> {
        parameters.check()?;
        Ok(DcartAccelerator { parameters })
    }

    /// Executes operations in batches, as fast as it can. Buffers and shortcuts are initially
    /// empty.
    ///
    /// # Errors
    /// [`DcartError::Batch`] if a batch is too large for the card's memory, [`DcartError::Tree`] if
    /// the tree outgrows half of it.
    pub fn run(
        &self,
        operations: &[DcartOperation],
        tree: &mut impl DcartTree,
    ) -> Result<DcartReport, DcartError> {
        let bytes = |batch: &[DcartOperation]| batch.iter().map(|one| u64::from(one.bytes)).sum();
        let batches = operations.chunks(self.parameters.batch);
        let given: u64 = batches.map(bytes).max().unwrap_or(0);
        // One bucket may receive all operations of a batch, so each must have room for all.
        let card = CardRegions::of(&self.parameters).bucket;
        if given > card {
            return Err(DcartError::Batch { given, card });
        }
        let off_chip = OffChip::new(&self.parameters)?;
        DcartSimulation::new(&self.parameters, operations, tree, off_chip).finish()
    }
}
