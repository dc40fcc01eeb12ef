//! Tests in layers: the edges of each constraint, sequences of commands, closed forms, and random
//! traffic, whose commands a separate checker judges. Presets are compared with published tables,
//! and runs with published results of an independent simulator.

mod checker;
mod edges;
mod forms;
mod ramulator;
mod sequences;
mod standards;
mod traffic;

use super::channel::{Channel, DramCommandObserver, DramCommandRecord};
use super::map::DramLocation;
use super::{DramAccess, DramCommand, DramParameters, DramPreset};

/// The commands of a channel, with their clocks.
#[derive(Clone, Debug, Default)]
struct DramCommandLog(Vec<(u64, DramCommandRecord)>);

impl DramCommandObserver for DramCommandLog {
    fn issued(&mut self, clock: u64, issued: DramCommandRecord) {
        self.0.push((clock, issued));
    }
}

fn place(bank: u32, row: u32, column: u32) -> DramLocation {
    DramLocation {
        channel: 0,
        bank,
        row,
        column,
    }
}

/// Returns an address of the line at a place, which no other place has.
fn address(place: DramLocation) -> u64 {
    (u64::from(place.bank) << 48) | (u64::from(place.row) << 24) | u64::from(place.column)
}

/// Sends the requests to one channel, each at its clock, executes until `until`, and returns the
/// commands.
fn commands(
    parameters: &DramParameters,
    requests: &[(u64, DramAccess, DramLocation)],
    until: u64,
) -> Vec<(u64, DramCommandRecord)> {
    let mut channel = Channel::new(parameters, DramCommandLog::default());
    for (clock, access, place) in requests {
        channel.advance(*clock);
        while !channel.has_room(*access) {
            channel.step();
        }
        channel.submit(address(*place), *place, *access);
    }
    channel.advance(until);
    channel.observer().0.clone()
}

/// Returns DDR4 parameters without refresh.
fn ddr4() -> DramParameters {
    DramParameters {
        t_refi: 0,
        ..DramPreset::Ddr4X8.parameters()
    }
}
