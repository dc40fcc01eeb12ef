//! Runs of the model.

use super::walked::Walked;
use super::walker::{BlockTree, PaperTree, Walker};
use super::workload::Load;
use crate::figures::job::PointError;
use crate::harness::Interrupt;
use nearfield_core::{Bytes, Words};
use nearfield_hardware::accelerator::dcart::{
    Accelerator, Action, Error, Operation, Parameters, Recording, Report,
};

/// Bytes of a record besides its key: length and kind, and a value.
const RECORD: usize = 16;

/// A load that a tree has executed: the operations for an accelerator, and a recording of the
/// tree's accesses.
#[derive(Debug)]
pub(super) struct Executed {
    operations: Vec<Operation>,
    recording: Recording,
}

impl Executed {
    /// Executes a load on the paper's tree, and checks all outcomes.
    pub(super) fn new(load: &Load, interrupt: &Interrupt) -> Result<Executed, PointError> {
        Executed::by::<PaperTree>(load, interrupt)
    }

    /// Executes a load on Nearfield's tree.
    pub(super) fn on_blocks(load: &Load, interrupt: &Interrupt) -> Result<Executed, PointError> {
        match load.is_words() {
            true => Executed::by::<BlockTree<Words>>(load, interrupt),
            false => Executed::by::<BlockTree<Bytes>>(load, interrupt),
        }
    }

    fn by<W: Walker>(load: &Load, interrupt: &Interrupt) -> Result<Executed, PointError> {
        let one = |(number, action): &(u32, Action)| Operation {
            key: u64::from(*number),
            label: load.label(*number),
            bytes: (load.key(*number).len() + RECORD) as u32,
            writes: action.writes(),
        };
        let operations: Vec<Operation> = load.operations.iter().map(one).collect();
        let mut tree = Walked::<W>::new(load, interrupt)?;
        let recording = Recording::of(&mut tree, operations.len());
        tree.check()?;
        Ok(Executed {
            operations,
            recording,
        })
    }

    /// Computes how an accelerator would have executed the load.
    pub(super) fn on(
        &self,
        parameters: Parameters,
        interrupt: &Interrupt,
    ) -> Result<Report, PointError> {
        if interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
        let impossible = |error: Error| PointError::Missing(error.to_string());
        let accelerator = Accelerator::new(parameters).map_err(impossible)?;
        let report = accelerator.run(&self.operations, &mut &self.recording);
        report.map_err(impossible)
    }
}
