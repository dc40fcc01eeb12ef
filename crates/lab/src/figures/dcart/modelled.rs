//! Runs of the model.

use super::walked::Walked;
use super::workload::Load;
use crate::figures::job::PointError;
use crate::harness::Interrupt;
use nearfield_hardware::accelerator::dcart::{Accelerator, Operation, Parameters, Report};

/// Bytes of a record beside its key: length and kind, and a value.
const RECORD: usize = 16;

/// What an accelerator is asked.
fn operations(load: &Load) -> Vec<Operation> {
    let one = |(number, writes): &(u32, bool)| Operation {
        key: u64::from(*number),
        label: load.label(*number),
        bytes: (load.key(*number).len() + RECORD) as u32,
        writes: *writes,
    };
    load.operations.iter().map(one).collect()
}

/// Executes a load on an accelerator, and checks all answers.
pub(super) fn run(
    load: &Load,
    parameters: Parameters,
    interrupt: &Interrupt,
) -> Result<Report, PointError> {
    let impossible = |error: nearfield_hardware::accelerator::dcart::Error| {
        PointError::Missing(error.to_string())
    };
    let accelerator = Accelerator::new(parameters).map_err(impossible)?;
    let mut tree = Walked::new(load, interrupt)?;
    let report = accelerator
        .run(&operations(load), &mut tree)
        .map_err(impossible)?;
    tree.check()?;
    if interrupt.is_raised() {
        return Err(PointError::Interrupted);
    }
    Ok(report)
}
