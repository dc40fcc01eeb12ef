//! The report as programs read it. `docs/benchmarks.md` explains every field.

use crate::bench::{Counts, Latency, Machine, Measurement, Table, TableResult};
use serde::{Deserialize, Serialize};

/// A report: everything measured so far by one call of `nearfield bench`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The commit that was measured, with `-dirty` when files differed from it.
    pub commit: String,
    /// Where it was measured.
    pub machine: Machine,
    /// Whether all tables were measured.
    pub complete: bool,
    /// The measurements.
    pub rows: Vec<Row>,
    /// Contestants that did not get through.
    pub failed: Vec<Failed>,
    /// Contestants that cannot be measured with these flags.
    pub skipped: Vec<Skipped>,
}

/// What was measured, in the words of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The key set.
    pub keys: String,
    /// The number of keys in it.
    pub count: usize,
    /// The mix of operations.
    pub mix: String,
    /// How keys are chosen.
    pub distribution: String,
    /// Threads that share the map.
    pub threads: usize,
    /// Operations in a batch of Nearfield; 1 is one at a time. Peers always do one at a time.
    pub batch: usize,
}

/// How a number came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// By a clock.
    Measured,
    /// By counting events.
    Counted,
    /// From a model of hardware.
    Modelled,
}

/// One contestant's measurement in one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// The contestant's name, or `limit` for the machine's.
    pub peer: String,
    /// Median rate of the slices, in millions of operations for each second of CPU time.
    /// Null where nothing was timed.
    pub rate_mops: Option<f64>,
    /// Greatest less least rate, as a share of the median.
    pub rate_spread: Option<f64>,
    /// Latencies; of batches where operations come in batches.
    pub latency_ns: Option<Latency>,
    /// Growth of memory by the load, for each key.
    pub bytes_per_key: Option<f64>,
    /// The share of that growth in huge pages.
    pub huge_page_share: Option<f64>,
    /// What a slice of the operations took, where it was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counts>,
    /// How the numbers came to be.
    pub kind: Kind,
}

/// A contestant that did not get through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// What was to be measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// Who.
    pub peer: String,
    /// How it ended.
    pub error: String,
}

/// A contestant that cannot be measured with these flags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// What was asked for.
    #[serde(flatten)]
    pub setting: Setting,
    /// Who.
    pub peer: String,
    /// Why.
    pub reason: String,
}

/// The name under which the machine's limit is reported.
pub(super) const LIMIT: &str = "limit";

impl Report {
    /// A report of nothing yet.
    #[must_use]
    pub fn new(commit: String, machine: Machine) -> Self {
        Report {
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
        let setting = Setting::of(&result.table, result.keys);
        self.rows.extend(rows(result));
        self.failed
            .extend(result.failures.iter().map(|failure| Failed {
                setting: setting.clone(),
                peer: failure.contestant.name().to_owned(),
                error: failure.error.clone(),
            }));
        self.skipped
            .extend(result.table.skips.iter().map(|skip| Skipped {
                setting: setting.clone(),
                peer: skip.contestant.name().to_owned(),
                reason: skip.reason.clone(),
            }));
    }
}

impl Setting {
    pub(super) fn of(table: &Table, count: usize) -> Self {
        Setting {
            keys: table.keys.to_string(),
            count,
            mix: table.mix.to_string(),
            distribution: table.distribution.to_string(),
            threads: table.threads,
            batch: table.batch,
        }
    }
}

/// The rows of a table: measured ones, the limit last, then counted ones.
fn rows(result: &TableResult) -> Vec<Row> {
    let setting = Setting::of(&result.table, result.keys);
    let row = |bar: &Bar<'_>| Row {
        setting: setting.clone(),
        peer: bar.name.to_owned(),
        rate_mops: Some(bar.rate_mops()),
        rate_spread: Some(bar.measurement.rates_mops.spread()),
        latency_ns: bar.measurement.latency,
        bytes_per_key: bar.measurement.bytes_per_key,
        huge_page_share: bar.measurement.huge_page_share,
        counters: None,
        kind: Kind::Measured,
    };
    let counted = |bar: &Bar<'_>| {
        bar.measurement.counts.map(|counts| Row {
            setting: setting.clone(),
            peer: bar.name.to_owned(),
            rate_mops: None,
            rate_spread: None,
            latency_ns: None,
            bytes_per_key: None,
            huge_page_share: None,
            counters: Some(counts),
            kind: Kind::Counted,
        })
    };
    let bars = bars(result);
    bars.iter()
        .map(row)
        .chain(bars.iter().filter_map(counted))
        .collect()
}

/// One measurement of a table with the name it is shown under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar<'r> {
    pub(super) name: &'static str,
    pub(super) measurement: &'r Measurement,
}

impl Bar<'_> {
    pub(super) fn rate_mops(&self) -> f64 {
        self.measurement.rates_mops.median()
    }

    /// Whether it is the machine's limit and not a map.
    pub(super) fn is_limit(&self) -> bool {
        self.name == LIMIT
    }
}

/// The measurements of a table, the limit last.
pub(super) fn bars(result: &TableResult) -> Vec<Bar<'_>> {
    let measured = result.measured.iter();
    let measured = measured.map(|(who, measurement)| Bar {
        name: who.name(),
        measurement,
    });
    let limit = result.limit.iter().map(|measurement| Bar {
        name: LIMIT,
        measurement,
    });
    measured.chain(limit).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::{Contestant, Failure, Skip};
    use crate::report::statistics::Sample;
    use crate::workload::{Distribution, KeySpec, Mix};

    /// A table with Nearfield, congee, dashmap and the limit at the rates given.
    pub(in crate::report) fn result(mix: Mix, rates: [f64; 4]) -> TableResult {
        let contestant = |name: &str| name.parse::<Contestant>().unwrap();
        let measurement = |rate: f64| Measurement {
            rates_mops: Sample::new(vec![rate * 0.9, rate, rate * 1.1]).unwrap(),
            latency: Some(Latency {
                p50: 100,
                p99: 2_000,
                p999: 3_000_000,
            }),
            bytes_per_key: Some(24.0),
            huge_page_share: Some(0.97),
            counts: None,
        };
        let names = ["nearfield", "congee", "dashmap"];
        let measured: Vec<_> = names
            .iter()
            .zip(rates)
            .map(|(n, r)| (contestant(n), measurement(r)))
            .collect();
        TableResult {
            table: Table {
                keys: KeySpec::Sparse,
                count: Some(1000),
                mix,
                distribution: Distribution::ZIPF,
                threads: 1,
                batch: 4096,
                contestants: names.map(contestant).to_vec(),
                counters: false,
                skips: vec![Skip {
                    contestant: contestant("papaya"),
                    reason: "no scans".to_owned(),
                }],
            },
            keys: 1000,
            measured,
            failures: vec![Failure {
                contestant: contestant("blart"),
                error: "killed".to_owned(),
            }],
            limit: Some(Measurement {
                latency: None,
                bytes_per_key: None,
                ..measurement(rates[3])
            }),
        }
    }

    #[test]
    fn the_schema_is_as_documented() {
        let machine = Machine::here();
        let mut report = Report::new("abc-dirty".to_owned(), machine);
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
        assert!((row["rate_spread"].as_f64().unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(row["latency_ns"]["p999"], 3_000_000);
        assert_eq!(row["kind"], "measured");
        assert_eq!(json["rows"][3]["peer"], "limit");
        assert!(json["rows"][3]["latency_ns"].is_null());
        assert_eq!(json["failed"][0]["error"], "killed");
        assert_eq!(json["skipped"][0]["peer"], "papaya");
        for key in ["cpu", "cores", "memory_bytes", "huge_pages", "kernel"] {
            assert!(!json["machine"][key].is_null(), "{key}");
        }
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    }
}
