//! Figure 11: the overheads of resistance to skew, compared with PIM-tree.

use super::contender;
use crate::figures::row::{ModuleWorkCounts, Quantity, Row};
use crate::report::NumberOrigin;

/// An overhead: its name, its operations, and the function that computes it from a row.
struct Overhead {
    name: &'static str,
    of: OverheadScope,
    /// Function of the work of batches, and of the number of operations of a batch.
    amount: fn(&ModuleWorkCounts, f64) -> f64,
}

use OverheadScope::{Both, Points, Ranges};

#[derive(Clone, Copy, PartialEq, Eq)]
enum OverheadScope {
    Points,
    Ranges,
    Both,
}

const fn over(
    name: &'static str,
    of: OverheadScope,
    amount: fn(&ModuleWorkCounts, f64) -> f64,
) -> Overhead {
    Overhead { name, of, amount }
}

const OVERHEADS: [Overhead; 13] = [
    over("pointers followed, points", Points, |work, _| work.hops),
    over("pointers followed, ranges", Ranges, |work, _| work.hops),
    over("keys compared, points", Points, |work, _| work.compares),
    over("keys compared, ranges", Ranges, |work, _| work.compares),
    over("copies, points", Points, |work, _| work.copies),
    over("copies, ranges", Ranges, |work, _| work.copies),
    over("contention nodes", Both, |work, _| work.pulled),
    over("rounds", Both, |work, _| work.rounds),
    over("rounds between modules", Both, |work, _| {
        work.rounds_between
    }),
    over("bytes moved", Both, |work, batch| {
        work.moved_bytes.iter().sum::<f64>() * batch
    }),
    over("host idle", Both, |work, _| work.host_idle_ns),
    over("modules idle", Both, |work, _| work.modules_idle_ns),
    over("energy", Both, |work, batch| work.microjoules * batch),
];

/// The name of the numbers relative to PIM-tree. The next constant is their name while there is no
/// PIM-tree to compare with.
pub(super) const NORMALIZED: &str = "part of PIM-tree's";
const ABSOLUTE: &str = "amount";

/// Computes a row for each overhead from a row for each operation: means over operations, relative
/// to those of PIM-tree at the same skew if that was run.
pub(super) fn normalize(rows: &[Row]) -> Vec<Row> {
    let mut found = Vec::new();
    for overhead in &OVERHEADS {
        let mut points: Vec<(&Row, f64)> = Vec::new();
        for row in rows {
            let same = |(other, _): &&(&Row, f64)| {
                other.peer == row.peer && other.detail.x == row.detail.x
            };
            if points.iter().find(same).is_none()
                && let Some(mean) = mean(rows, overhead, row)
            {
                points.push((row, mean));
            }
        }
        let base = |row: &Row| {
            let mut base = points.iter();
            let is_base = |(other, _): &&(&Row, f64)| {
                other.peer == contender::PIM_TREE.name && other.detail.x == row.detail.x
            };
            base.find(is_base).map(|(_, mean)| *mean)
        };
        for (row, mean) in &points {
            // If PIM-tree's overhead is zero, there is no ratio.
            let (name, value) = match base(row) {
                Some(base) if base > 0.0 => (NORMALIZED, mean / base),
                Some(_) => continue,
                None => (ABSOLUTE, *mean),
            };
            let y = Quantity::new(name, "", value);
            let mut part = Row {
                setting: None,
                bytes_per_key: None,
                ..Row::clone(row)
                    .aside(y, NumberOrigin::Modelled)
                    .in_panel(overhead.name)
            };
            part.detail.device = row.detail.device.clone();
            found.push(part);
        }
    }
    found
}

/// Computes the mean over the operations of a contender at a degree of skew.
fn mean(rows: &[Row], overhead: &Overhead, of: &Row) -> Option<f64> {
    let is_wanted = |row: &&Row| {
        let is_range = row.detail.panel == super::work::RadarOperationKind::Scan.name();
        let kind = if is_range { Ranges } else { Points };
        row.peer == of.peer && row.detail.x == of.detail.x && [kind, Both].contains(&overhead.of)
    };
    let amount = |row: &Row| {
        let batch = row.setting.as_ref()?.batch as f64;
        Some((overhead.amount)(row.detail.work.as_ref()?, batch))
    };
    let amounts: Vec<f64> = rows.iter().filter(is_wanted).filter_map(amount).collect();
    (!amounts.is_empty()).then(|| amounts.iter().sum::<f64>() / amounts.len() as f64)
}
