//! Rows of these figures.

use super::measure::PulseOutcome;
use crate::figures::row::{Quantity, Row};
use crate::report::NumberOrigin;

/// Creates a row of a modelled number.
pub(super) fn row(figure: &str, panel: &str, peer: &str, x: Quantity, y: Quantity) -> Row {
    let mut row = Row::counted(figure, peer, x, y).in_panel(panel);
    row.kind = NumberOrigin::Modelled;
    row
}

pub(super) fn latency(nanoseconds: f64) -> Quantity {
    Quantity::new("latency", "µs", nanoseconds / 1e3)
}

pub(super) fn throughput(mops: f64) -> Quantity {
    Quantity::new("throughput", "Mops", mops)
}

pub(super) fn memory_nodes(count: usize) -> Quantity {
    Quantity::new("memory nodes", "", count as f64)
}

/// Creates a row of a run's latency, with its percentiles.
pub(super) fn of_latency(
    figure: &str,
    panel: &str,
    peer: &str,
    x: Quantity,
    outcome: &PulseOutcome,
) -> Row {
    let mut row = row(figure, panel, peer, x, latency(outcome.latency_ns));
    row.latency_ns = outcome.percentiles;
    row
}

/// Creates a row of a run's throughput.
pub(super) fn of_rate(figure: &str, panel: &str, peer: &str, x: Quantity, mops: f64) -> Row {
    let mut row = row(figure, panel, peer, x, throughput(mops));
    row.rate_mops = Some(mops);
    row
}
