//! Runs of the model.

use super::walked::RecordedTree;
use super::walker::{BlockTree, PaperTree, Walker};
use super::workload::DcartWorkload;
use crate::figures::job::PointError;
use crate::harness::Interrupt;
use nearfield_core::{ByteStrings, Words};
use nearfield_hardware::accelerator::dcart::{
    DcartAccelerator, DcartAction, DcartError, DcartOperation, DcartParameters, DcartReport,
    WalkRecording,
};

/// Bytes of a record besides its key: length and kind, and a value.
const RECORD: usize = 16;

/// A load that a tree has executed: the operations for an accelerator, and a recording of the
/// tree's accesses.
#[derive(Debug)]
pub(super) struct ExecutedWorkload {
    operations: Vec<DcartOperation>,
    recording: WalkRecording,
}

impl ExecutedWorkload {
    /// Executes a load on the paper's tree, and checks all outcomes.
    pub(super) fn new(
        load: &DcartWorkload,
        interrupt: &Interrupt,
    ) -> Result<ExecutedWorkload, PointError> {
        ExecutedWorkload::by::<PaperTree>(load, interrupt)
    }

    /// Executes a load on Nearfield's tree.
    pub(super) fn on_blocks(
        load: &DcartWorkload,
        interrupt: &Interrupt,
    ) -> Result<ExecutedWorkload, PointError> {
        match load.is_words() {
            true => ExecutedWorkload::by::<BlockTree<Words>>(load, interrupt),
            false => ExecutedWorkload::by::<BlockTree<ByteStrings>>(load, interrupt),
        }
    }

    fn by<W: Walker>(
        load: &DcartWorkload,
        interrupt: &Interrupt,
    ) -> Result<ExecutedWorkload, PointError> {
        let one = |(number, action): &(u32, DcartAction)| DcartOperation {
            key: u64::from(*number),
            label: load.label(*number),
            bytes: (load.key(*number).len() + RECORD) as u32,
            writes: action.writes(),
        };
        let operations: Vec<DcartOperation> = load.operations.iter().map(one).collect();
        let mut tree = RecordedTree::<W>::new(load, interrupt)?;
        let recording = WalkRecording::of(&mut tree, operations.len());
        tree.check()?;
        Ok(ExecutedWorkload {
            operations,
            recording,
        })
    }

    /// Computes how an accelerator would have executed the load.
    pub(super) fn on(
        &self,
        parameters: DcartParameters,
        interrupt: &Interrupt,
    ) -> Result<DcartReport, PointError> {
        if interrupt.is_raised() {
            return Err(PointError::Interrupted);
        }
        let impossible = |error: DcartError| PointError::Missing(error.to_string());
        let accelerator = DcartAccelerator::new(parameters).map_err(impossible)?;
        let report = accelerator.run(&self.operations, &mut &self.recording);
        report.map_err(impossible)
    }
}
