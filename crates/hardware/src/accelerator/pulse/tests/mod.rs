//! Tests of the accelerator's times.

mod edges;
mod throughput;

use super::super::testing::Loop;
use super::super::{Departure, Node, Permission, Range, Table};
use super::{Accelerator, Design, Parameters};
use crate::Time;

const ONE: Design = Design::Disaggregated {
    logic: 1,
    memory: 1,
};

/// The parameters without a network stack, so that times begin with the request.
const BARE: Parameters = Parameters {
    network_cycles: 0,
    network_cycle: Time::from_picoseconds(1),
    ..Parameters::PAPER
};

/// Creates a table whose low half may be written, and whose high half may not.
fn table() -> Table {
    let range = |start, end, permission| Range {
        start,
        end,
        permission,
    };
    Table::new(vec![
        range(0, 1 << 30, Permission::ReadWrite),
        range(1 << 30, 2 << 30, Permission::Read),
    ])
    .unwrap()
}

fn accelerator(parameters: Parameters, design: Design) -> Accelerator<Loop> {
    Accelerator::new(parameters, design, table()).unwrap()
}

fn run(accelerator: &mut Accelerator<Loop>) -> Vec<Departure<Loop>> {
    let mut departures = Vec::new();
    while accelerator.next_event().is_some() {
        accelerator.step(&mut departures);
    }
    departures
}

/// Returns the times at which these traversals, which all arrive at the start, have left.
fn times(parameters: Parameters, design: Design, works: &[Loop]) -> Vec<f64> {
    let mut accelerator = accelerator(parameters, design);
    for work in works {
        accelerator.submit(Time::ZERO, work.clone());
    }
    let departures = run(&mut accelerator);
    assert_eq!(departures.len(), works.len());
    departures
        .iter()
        .map(|one| one.at.as_nanoseconds())
        .collect()
}
