//! The default measurements.

use super::plan::{Plan, Request};
use crate::error::LabError;
use crate::workload::{KeySpec, Mix};

/// Creates the default suite: generated and real-like keys, small enough for two minutes on two
/// cores.
///
/// # Errors
/// As [`Plan::new`], if memory is very short.
pub fn default_suite() -> Result<Plan, LabError> {
    let sets = [
        (KeySpec::Sparse, 2_000_000),
        (KeySpec::Dense, 1_000_000),
        (KeySpec::Words, 400_000),
        (KeySpec::Ipv4, 139_614),
    ];
    let mut suite = Plan::default();
    for (keys, count) in sets {
        let request = Request {
            keys: vec![keys],
            counts: vec![count],
            mixes: vec![Mix::YcsbC, Mix::YcsbA, Mix::YcsbE, Mix::Load],
            ..Request::default()
        };
        let plan = Plan::new(&request)?;
        suite.tables.extend(plan.tables);
    }
    Ok(suite)
}
