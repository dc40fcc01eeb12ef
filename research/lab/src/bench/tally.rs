//! A contestant's results while its table is being measured.

use super::contestant::BenchContestant;
use super::field::LoadedContestant;
use super::report::{Row, Slices, TableResult};
use super::wire::LoadMemoryGrowth;
use crate::harness::{LatencySummary, MapCostCounts, MeasurementSample};
use crate::report::NumberOrigin;

/// The results of a contestant while its table is being measured.
pub(super) struct ContestantResults {
    pub(super) contestant: BenchContestant,
    pub(super) rates: Vec<f64>,
    pub(super) latency: Option<LatencySummary>,
    /// The memory, and the number of keys that it holds.
    pub(super) memory: Option<(LoadMemoryGrowth, usize)>,
    pub(super) counts: Option<MapCostCounts>,
    pub(super) failure: Option<String>,
}

impl ContestantResults {
    pub(super) fn of(contestant: BenchContestant) -> Self {
        ContestantResults {
            contestant,
            rates: Vec::new(),
            latency: None,
            memory: None,
            counts: None,
            failure: None,
        }
    }

    /// Calls `act` with the contestant's map; removes the map if that fails.
    pub(super) fn on_map(
        &mut self,
        maps: &mut Vec<LoadedContestant>,
        act: impl FnOnce(&mut LoadedContestant, &mut ContestantResults) -> Result<(), String>,
    ) {
        let position = maps
            .iter()
            .position(|map| map.contestant == self.contestant);
        let (Some(position), None) = (position, &self.failure) else {
            return;
        };
        if let Err(error) = act(&mut maps[position], self) {
            self.failure = Some(error);
            // After a failure the state of its process is unknown.
            maps.remove(position);
        }
    }

    /// Adds the contestant's row or failure to the table.
    pub(super) fn close(self, result: &mut TableResult) {
        let name = self.contestant.name();
        let (None, Some(rates)) = (&self.failure, MeasurementSample::new(self.rates)) else {
            let error = self
                .failure
                .unwrap_or_else(|| "was not measured".to_owned());
            return result.fail(self.contestant, error);
        };
        let growth = self.memory.map(|(memory, keys)| {
            let bytes = memory.growth_bytes as f64;
            let share = memory.huge_growth_bytes as f64 / bytes.max(1.0);
            (bytes / keys.max(1) as f64, share)
        });
        result.rows.push(Row {
            rate_mops: Some(rates.median()),
            latency_ns: self.latency,
            bytes_per_key: growth.map(|(bytes, _)| bytes),
            detail: Slices {
                rate_spread: Some(rates.spread()),
                huge_page_share: growth.map(|(_, share)| share),
                counters: None,
            },
            ..result.row(name, NumberOrigin::Measured)
        });
        if let Some(counts) = self.counts {
            let mut row = result.row(name, NumberOrigin::Counted);
            row.detail.counters = Some(counts);
            result.rows.push(row);
        }
    }
}
