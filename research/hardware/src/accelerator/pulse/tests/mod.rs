//! Tests of the accelerator's times.

mod dram;
mod edges;
mod throughput;

use super::super::testing::Loop;
use super::super::{
    Departure, RackNode, TranslationPermission, TranslationRange, TranslationTable,
};
use super::{PulseAccelerator, PulseDesign, PulseMemoryModel, PulseParameters};
use crate::VirtualTime;

/// Returns a design with these numbers of pipelines.
const fn design(logic: usize, memory: usize) -> PulseDesign {
    PulseDesign::Disaggregated { logic, memory }
}

const ONE: PulseDesign = design(1, 1);

/// The paper's parameters with channels that have no banks.
const WITHOUT_BANKS: PulseParameters = PulseParameters {
    memory: PulseMemoryModel::Channels,
    ..PulseParameters::PAPER
};

/// Parameters whose sums are easy to follow: a cycle of the scheduler, DRAM alone, and channels
/// with an interconnect each that are slower than a pipeline.
const PLAIN: PulseParameters = PulseParameters {
    schedule_cycles: 1,
    access: VirtualTime::from_picoseconds(28_320),
    channel_bytes_per_second: 12.5e9,
    shares_interconnect: false,
    ..WITHOUT_BANKS
};

/// The same without a network stack, so that times begin with the request.
const BARE: PulseParameters = PulseParameters {
    network_cycles: 0,
    network_cycle: VirtualTime::from_picoseconds(1),
    ..PLAIN
};

/// Creates a table whose low half may be written, and whose high half may not.
fn table() -> TranslationTable {
    let range = |start, end, permission| TranslationRange {
        start,
        end,
        permission,
    };
    TranslationTable::new(vec![
        range(0, 1 << 30, TranslationPermission::ReadWrite),
        range(1 << 30, 2 << 30, TranslationPermission::Read),
    ])
    .unwrap()
}

fn accelerator(parameters: PulseParameters, design: PulseDesign) -> PulseAccelerator<Loop> {
    PulseAccelerator::new(parameters, design, table()).unwrap()
}

fn run(accelerator: &mut PulseAccelerator<Loop>) -> Vec<Departure<Loop>> {
    let mut departures = Vec::new();
    while accelerator.next_event().is_some() {
        accelerator.step(&mut departures);
    }
    departures
}

/// Returns the times at which these traversals, which all arrive at the start, have left.
fn times(parameters: PulseParameters, design: PulseDesign, works: &[Loop]) -> Vec<f64> {
    let mut accelerator = accelerator(parameters, design);
    for work in works {
        accelerator.submit(VirtualTime::ZERO, work.clone());
    }
    let departures = run(&mut accelerator);
    assert_eq!(departures.len(), works.len());
    departures
        .iter()
        .map(|one| one.at.as_nanoseconds())
        .collect()
}
