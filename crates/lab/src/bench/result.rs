//! What a table comes to.

use super::contestant::Contestant;
use super::counts::Counts;
use super::plan::Table;
use super::wire::Latency;
use crate::report::statistics::Sample;

/// What a contestant achieved.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Rates of the slices, in millions of operations for each second of CPU time.
    pub rates_mops: Sample,
    /// Latency of an operation, or of a batch where operations come in batches.
    pub latency: Option<Latency>,
    /// Growth of memory by the load, for each key.
    pub bytes_per_key: Option<f64>,
    /// The share of that growth that lies in huge pages.
    pub huge_page_share: Option<f64>,
    /// What a slice of the operations took, where that was asked for and can be told.
    pub counts: Option<Counts>,
}

/// A contestant that did not get through.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Who.
    pub contestant: Contestant,
    /// How it ended, or why it refused.
    pub error: String,
}

/// A finished table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableResult {
    /// What was measured.
    pub table: Table,
    /// The number of keys in the set.
    pub keys: usize,
    /// Who got through, in the table's order.
    pub measured: Vec<(Contestant, Measurement)>,
    /// Who did not.
    pub failures: Vec<Failure>,
    /// The most operations that the machine allows, in millions a second of CPU time, where
    /// each must read a cache line of its own.
    pub limit: Option<Measurement>,
}

impl TableResult {
    /// The result of a table of which nothing is measured yet.
    pub(super) fn of(table: &Table, keys: usize) -> Self {
        TableResult {
            table: table.clone(),
            keys,
            measured: Vec::new(),
            failures: Vec::new(),
            limit: None,
        }
    }
}
