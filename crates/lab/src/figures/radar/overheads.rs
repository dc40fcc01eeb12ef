//! Figure 11: what it takes to withstand skew, beside PIM-tree.

use super::contender;
use crate::figures::row::{Quantity, Row, Work};
use crate::report::Kind;

/// What is compared: its name, of which operations, and how it follows from a row.
struct Overhead {
    name: &'static str,
    of: Of,
    /// Of what batches took, each of so many operations.
    amount: fn(&Work, f64) -> f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Points,
    Ranges,
    Both,
}

const OVERHEADS: [Overhead; 13] = [
    Overhead {
        name: "pointers followed, points",
        of: Of::Points,
        amount: |work, _| work.hops,
    },
    Overhead {
        name: "pointers followed, ranges",
        of: Of::Ranges,
        amount: |work, _| work.hops,
    },
    Overhead {
        name: "keys compared, points",
        of: Of::Points,
        amount: |work, _| work.compares,
    },
    Overhead {
        name: "keys compared, ranges",
        of: Of::Ranges,
        amount: |work, _| work.compares,
    },
    Overhead {
        name: "copies, points",
        of: Of::Points,
        amount: |work, _| work.copies,
    },
    Overhead {
        name: "copies, ranges",
        of: Of::Ranges,
        amount: |work, _| work.copies,
    },
    Overhead {
        name: "contention nodes",
        of: Of::Both,
        amount: |work, _| work.pulled,
    },
    Overhead {
        name: "rounds",
        of: Of::Both,
        amount: |work, _| work.rounds,
    },
    Overhead {
        name: "rounds between modules",
        of: Of::Both,
        amount: |work, _| work.rounds_between,
    },
    Overhead {
        name: "bytes moved",
        of: Of::Both,
        amount: |work, batch| work.moved_bytes.iter().sum::<f64>() * batch,
    },
    Overhead {
        name: "host idle",
        of: Of::Both,
        amount: |work, _| work.host_idle_ns,
    },
    Overhead {
        name: "modules idle",
        of: Of::Both,
        amount: |work, _| work.modules_idle_ns,
    },
    Overhead {
        name: "energy",
        of: Of::Both,
        amount: |work, batch| work.microjoules * batch,
    },
];

/// What the numbers are, once there is a PIM-tree to compare with, and until then.
pub(super) const NORMALIZED: &str = "part of PIM-tree's";
const ABSOLUTE: &str = "amount";

/// From a row for each operation, a row for each overhead: averages over operations, as parts of
/// those of PIM-tree at the same skew if that was run.
pub(super) fn normalize(rows: &[Row]) -> Vec<Row> {
    let mut found = Vec::new();
    for overhead in &OVERHEADS {
        let mut points: Vec<(&Row, f64)> = Vec::new();
        for row in rows {
            let same = |(other, _): &&(&Row, f64)| other.peer == row.peer && other.x == row.x;
            if points.iter().find(same).is_none()
                && let Some(mean) = mean(rows, overhead, row)
            {
                points.push((row, mean));
            }
        }
        let base = |row: &Row| {
            let mut base = points.iter();
            let is_base = |(other, _): &&(&Row, f64)| {
                other.peer == contender::PIM_TREE.name && other.x == row.x
            };
            base.find(is_base).map(|(_, mean)| *mean)
        };
        for (row, mean) in &points {
            // What PIM-tree has nothing of cannot be compared with.
            let (name, value) = match base(row) {
                Some(base) if base > 0.0 => (NORMALIZED, mean / base),
                Some(_) => continue,
                None => (ABSOLUTE, *mean),
            };
            let y = Quantity::new(name, "", value);
            found.push(Row {
                panel: overhead.name.to_owned(),
                device: row.device.clone(),
                modules: row.modules,
                scale: row.scale,
                kind: Kind::Modelled,
                ..Row::counted(&row.figure, &row.peer, row.x.clone(), y)
            });
        }
    }
    found
}

/// The average over the operations of a contender at a degree of skew.
fn mean(rows: &[Row], overhead: &Overhead, of: &Row) -> Option<f64> {
    let is_wanted = |row: &&Row| {
        let is_range = row.panel == super::work::Verb::Scan.name();
        let kind = if is_range { Of::Ranges } else { Of::Points };
        row.peer == of.peer && row.x == of.x && [kind, Of::Both].contains(&overhead.of)
    };
    let amount = |row: &Row| {
        let batch = row.setting.as_ref()?.batch as f64;
        Some((overhead.amount)(row.work.as_ref()?, batch))
    };
    let amounts: Vec<f64> = rows.iter().filter(is_wanted).filter_map(amount).collect();
    (!amounts.is_empty()).then(|| amounts.iter().sum::<f64>() / amounts.len() as f64)
}
