//! Rows of these figures.

use crate::figures::row::{Quantity, Row};
use crate::report::Kind;

/// A modelled number.
pub(super) fn modelled(figure: &str, panel: &str, peer: &str, x: Quantity, y: Quantity) -> Row {
    of_kind(Kind::Modelled, figure, panel, peer, x, y)
}

/// A number of a kind.
pub(super) fn of_kind(
    kind: Kind,
    figure: &str,
    panel: &str,
    peer: &str,
    x: Quantity,
    y: Quantity,
) -> Row {
    let mut row = Row::counted(figure, peer, x, y).in_panel(panel);
    row.kind = kind;
    row
}

pub(super) fn workload(workload: super::workload::Workload) -> Quantity {
    Quantity::new("workload", "", workload.number())
}

pub(super) fn throughput(operations_per_second: f64) -> Quantity {
    Quantity::new("throughput", "Mops", operations_per_second / 1e6)
}
