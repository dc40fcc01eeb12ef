//! The results of tables, as rows. `docs/benchmarks.md` explains every field of the report.

use super::contestant::BenchContestant;
use super::plan::BenchTable;
use crate::harness::{MachineProperties, MapCostCounts};
use crate::report::{self, MeasurementSetting, NumberOrigin};
use serde::{Deserialize, Serialize};

/// The result of a contestant in a table.
pub type Row = report::ReportRow<Slices>;

/// Details of the slices besides their rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slices {
    /// Difference of the greatest and the least rate, as a share of the median.
    pub rate_spread: Option<f64>,
    /// The share of the memory growth that is in huge pages.
    pub huge_page_share: Option<f64>,
    /// Counters of a slice of the operations, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<MapCostCounts>,
}

/// A contestant that could not be measured because it failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedContestant {
    /// The setting of the measurement.
    #[serde(flatten)]
    pub setting: MeasurementSetting,
    /// The contestant.
    pub peer: String,
    /// The cause of its end, or its reason for a refusal.
    pub error: String,
}

/// A contestant that cannot be measured with these flags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkippedContestant {
    /// The requested setting.
    #[serde(flatten)]
    pub setting: MeasurementSetting,
    /// The contestant.
    pub peer: String,
    /// The reason.
    pub reason: String,
}

/// A finished table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableResult {
    /// The table that was measured.
    pub table: BenchTable,
    /// The number of keys in the set.
    pub keys: usize,
    /// Rows of contestants that succeeded, in the table's order; then the most that the machine
    /// allows if each operation must read a cache line of its own; then rows of counters.
    pub rows: Vec<Row>,
    /// Contestants that failed.
    pub failed: Vec<FailedContestant>,
}

impl TableResult {
    /// Creates the result of a table before anything is measured.
    pub(super) fn of(table: &BenchTable, keys: usize) -> Self {
        TableResult {
            table: table.clone(),
            keys,
            rows: Vec::new(),
            failed: Vec::new(),
        }
    }

    pub(super) fn setting(&self) -> MeasurementSetting {
        MeasurementSetting {
            keys: self.table.keys.to_string(),
            count: self.keys,
            mix: self.table.mix.to_string(),
            distribution: self.table.distribution.to_string(),
            threads: self.table.threads,
            batch: self.table.batch,
        }
    }

    /// Creates an empty row of this table.
    pub(super) fn row(&self, peer: &str, kind: NumberOrigin) -> Row {
        Row {
            setting: Some(self.setting()),
            ..Row::new(peer, kind, Slices::default())
        }
    }

    pub(super) fn fail(&mut self, contestant: BenchContestant, error: String) {
        self.failed.push(FailedContestant {
            setting: self.setting(),
            peer: contestant.name().to_owned(),
            error,
        });
    }

    /// Returns the rows that have a rate, with the rate.
    pub(super) fn rates(&self) -> impl Iterator<Item = (&Row, f64)> {
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((row, row.rate_mops?)))
    }
}

/// The report: everything measured so far by one call of `nearfield-bench bench`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// The commit that was measured, with `-dirty` if files differed from it.
    pub commit: String,
    /// The machine of the measurements.
    pub machine: MachineProperties,
    /// True if all tables were measured.
    pub complete: bool,
    /// The measurements.
    pub rows: Vec<Row>,
    /// Contestants that failed.
    pub failed: Vec<FailedContestant>,
    /// Contestants that cannot be measured with these flags.
    pub skipped: Vec<SkippedContestant>,
}

impl BenchReport {
    /// Creates an empty report.
    #[must_use]
    pub fn new(commit: String, machine: MachineProperties) -> Self {
        BenchReport {
            commit,
            machine,
            complete: false,
            rows: Vec::new(),
            failed: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Adds a finished table.
    pub fn add(&mut self, result: &TableResult) {
        self.rows.extend_from_slice(&result.rows);
        self.failed.extend_from_slice(&result.failed);
        let skips = result.table.skips.iter();
        self.skipped
            .extend(skips.map(|(contestant, reason)| SkippedContestant {
                setting: result.setting(),
                peer: contestant.name().to_owned(),
                reason: (*reason).to_owned(),
            }));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::harness::LatencySummary;
    use crate::report::LIMIT;
    use crate::workload::{Distribution, KeySetSpec, Mix};

    /// Creates a table with Nearfield, congee, dashmap and the limit at the rates given.
    pub(in crate::bench) fn result(mix: Mix, rates: [f64; 4]) -> TableResult {
        let contestant = |name: &str| name.parse::<BenchContestant>().unwrap();
        let names = ["nearfield", "congee", "dashmap", LIMIT];
        let table = BenchTable {
            keys: KeySetSpec::Sparse,
            count: Some(1000),
            mix,
            distribution: Distribution::ZIPF,
            threads: 1,
            batch: 4096,
            contestants: names[..3].iter().copied().map(contestant).collect(),
            counters: false,
            skips: vec![(contestant("papaya"), "no scans")],
        };
        let mut result = TableResult::of(&table, 1000);
        for (name, rate) in names.into_iter().zip(rates) {
            let is_map = name != LIMIT;
            let latency = LatencySummary {
                p50: 100,
                p99: 2_000,
                p999: 3_000_000,
            };
            result.rows.push(Row {
                rate_mops: Some(rate),
                latency_ns: is_map.then_some(latency),
                bytes_per_key: is_map.then_some(24.0),
                detail: Slices {
                    rate_spread: Some(0.2),
                    huge_page_share: Some(0.97),
                    counters: None,
                },
                ..result.row(name, NumberOrigin::Measured)
            });
        }
        result.fail(contestant("blart"), "killed".to_owned());
        result
    }

    #[test]
    fn the_schema_is_as_documented() {
        let machine = MachineProperties::here();
        let mut report = BenchReport::new("abc-dirty".to_owned(), machine);
        report.add(&result(Mix::YcsbC, [20.0, 2.0, 6.0, 40.0]));
        let json = serde_json::to_value(&report).unwrap();
        let row = &json["rows"][0];
        let keys: Vec<_> = row.as_object().unwrap().keys().collect();
        let documented = include_str!("../../../../docs/benchmarks.md");
        for key in keys {
            assert!(
                documented.contains(&format!("`{key}`")),
                "docs/benchmarks.md lacks {key}"
            );
        }
        assert_eq!(row["keys"], "sparse");
        assert_eq!(row["count"], 1000);
        assert_eq!(row["mix"], "C");
        assert_eq!(row["distribution"], "zipf:0.99");
        assert_eq!((&row["threads"], &row["batch"]), (&1.into(), &4096.into()));
        assert_eq!(row["peer"], "nearfield");
        assert_eq!(row["rate_mops"], 20.0);
        assert_eq!(row["rate_spread"], 0.2);
        assert_eq!(row["latency_ns"]["p999"], 3_000_000);
        assert_eq!(row["kind"], "measured");
        assert_eq!(json["rows"][3]["peer"], "limit");
        assert!(json["rows"][3]["latency_ns"].is_null());
        assert_eq!(json["failed"][0]["error"], "killed");
        assert_eq!(json["skipped"][0]["peer"], "papaya");
        for key in ["cpu", "cores", "memory_bytes", "huge_pages", "kernel"] {
            assert!(!json["machine"][key].is_null(), "{key}");
        }
        assert_eq!(serde_json::from_value::<BenchReport>(json).unwrap(), report);
    }
}
