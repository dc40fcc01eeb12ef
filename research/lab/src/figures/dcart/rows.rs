//! Rows of these figures.

use super::workload::DcartWorkloadKind;
use crate::figures::row::{Quantity, Row};
use crate::report::NumberOrigin;

/// Finds the workload of a point, if it has one.
pub(super) fn workload_of(row: &Row) -> Option<DcartWorkloadKind> {
    let point = &row.detail;
    if point.x.name == WORKLOAD {
        return DcartWorkloadKind::of_number(point.x.value);
    }
    let named = [&*point.panel, &*row.peer]
        .into_iter()
        .find_map(|text| DcartWorkloadKind::of_name(text.split(',').next().unwrap_or(text)));
    // These figures have one workload.
    let only =
        matches!(&*point.figure, "2d" | "2e" | "12a" | "12b").then_some(DcartWorkloadKind::Ipgeo);
    named.or(only)
}

/// Creates a row of a modelled number.
pub(super) fn modelled(figure: &str, panel: &str, peer: &str, x: Quantity, y: Quantity) -> Row {
    of_kind(NumberOrigin::Modelled, figure, panel, peer, x, y)
}

/// Creates a row of a number of this kind.
pub(super) fn of_kind(
    kind: NumberOrigin,
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

/// The name of the axis of workloads.
const WORKLOAD: &str = "workload";

pub(super) fn workload(workload: DcartWorkloadKind) -> Quantity {
    Quantity::new(WORKLOAD, "", workload.number())
}

pub(super) fn throughput(operations_per_second: f64) -> Quantity {
    Quantity::new("throughput", "Mops", operations_per_second / 1e6)
}
