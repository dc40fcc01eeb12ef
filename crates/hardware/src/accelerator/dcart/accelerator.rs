//! The accelerator, as its users see it.

use super::off_chip::OffChip;
use super::run::Run;
use super::{Error, Operation, Parameters, Report, Tree};

/// An accelerator with its card.
#[derive(Debug)]
pub struct Accelerator {
    parameters: Parameters,
}

impl Accelerator {
    /// An accelerator with these parameters.
    ///
    /// # Errors
    /// See [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Result<Accelerator, Error> {
        parameters.check()?;
        Ok(Accelerator { parameters })
    }

    /// Executes operations in batches, as fast as it can. Buffers and shortcuts are empty at first.
    ///
    /// # Errors
    /// [`Error::Tree`] if the tree outgrows half of the card's memory.
    pub fn run(&self, operations: &[Operation], tree: &mut impl Tree) -> Result<Report, Error> {
        let off_chip = OffChip::new(&self.parameters)?;
        Run::new(&self.parameters, operations, tree, off_chip).finish()
    }
}
