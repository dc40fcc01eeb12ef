//! A contestant's results while its table is being measured.

use super::contestant::Contestant;
use super::counts::Counts;
use super::field::Seat;
use super::result::{Failure, Measurement, TableResult};
use super::wire::{Latency, Memory};
use crate::report::statistics::Sample;

/// What is known of a contestant while its table is being measured.
pub(super) struct Tally {
    pub(super) contestant: Contestant,
    pub(super) rates: Vec<f64>,
    pub(super) latency: Option<Latency>,
    /// With the number of keys that it is for.
    pub(super) memory: Option<(Memory, usize)>,
    pub(super) counts: Option<Counts>,
    pub(super) failure: Option<String>,
}

impl Tally {
    pub(super) fn of(contestant: Contestant) -> Self {
        Tally {
            contestant,
            rates: Vec::new(),
            latency: None,
            memory: None,
            counts: None,
            failure: None,
        }
    }

    /// Calls `act` with the contestant's seat; one that fails loses it.
    pub(super) fn on_seat(
        &mut self,
        seats: &mut Vec<Seat>,
        act: impl FnOnce(&mut Seat, &mut Tally) -> Result<(), String>,
    ) {
        let position = seats
            .iter()
            .position(|seat| seat.contestant == self.contestant);
        let (Some(position), None) = (position, &self.failure) else {
            return;
        };
        if let Err(error) = act(&mut seats[position], self) {
            self.failure = Some(error);
            seats.remove(position);
        }
    }

    /// Adds what came of it to the table.
    pub(super) fn close(self, result: &mut TableResult) {
        let contestant = self.contestant;
        match (self.failure, Sample::new(self.rates)) {
            (None, Some(rates_mops)) => {
                let per_key = |(memory, keys): (Memory, usize)| {
                    memory.growth_bytes as f64 / keys.max(1) as f64
                };
                let huge = |(memory, _): (Memory, usize)| {
                    memory.huge_growth_bytes as f64 / memory.growth_bytes.max(1) as f64
                };
                let measurement = Measurement {
                    rates_mops,
                    latency: self.latency,
                    bytes_per_key: self.memory.map(per_key),
                    huge_page_share: self.memory.map(huge),
                    counts: self.counts,
                };
                result.measured.push((contestant, measurement));
            }
            (failure, _) => {
                let error = failure.unwrap_or_else(|| "was not measured".to_owned());
                result.failures.push(Failure { contestant, error });
            }
        }
    }
}
