//! The default measurements.

use super::plan::{BenchPlan, BenchRequest};
use crate::error::LabError;
use crate::workload::{KeySetSpec, Mix};

/// Creates the default suite: generated and real-like keys, small enough for two minutes on two
/// cores.
///
/// # Errors
/// As [`BenchPlan::new`], if memory is very short.
pub fn default_suite() -> Result<BenchPlan, LabError> {
    let sets = [
        (KeySetSpec::Sparse, 2_000_000),
        (KeySetSpec::Dense, 1_000_000),
        (KeySetSpec::Words, 400_000),
        (KeySetSpec::Ipv4, 139_614),
    ];
    let mut suite = BenchPlan::default();
    for (keys, count) in sets {
        let request = BenchRequest {
            keys: vec![keys],
            counts: vec![count],
            // The last one needs processes of its own, the others share loaded maps.
            mixes: vec![Mix::YcsbC, Mix::YcsbA, Mix::YcsbE, Mix::Load],
            ..BenchRequest::default()
        };
        let plan = BenchPlan::new(&request)?;
        suite.tables.extend(plan.tables);
    }
    Ok(suite)
}
