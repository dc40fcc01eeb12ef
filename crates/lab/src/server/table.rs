//! The rows of a contest, for people.

use super::contest::ContestRow;
use crate::report::table;

/// A table of servers at one pipeline, with a title above.
#[must_use]
pub fn render(rows: &[ContestRow]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let header = [
        "server",
        "CPU µs/op",
        "spread",
        "first/this",
        "kops",
        "p50 µs",
        "p99 µs",
        "B/key",
    ];
    let cells = rows.iter().map(|row| {
        vec![
            row.server.clone(),
            format!("{:.3}", row.cpu_us),
            format!("{:.0} %", row.cpu_spread * 100.0),
            format!("{:.2}x", row.ratio),
            format!("{:.0}", row.kops),
            format!("{:.0}", row.latency_ns.p50 as f64 / 1e3),
            format!("{:.0}", row.latency_ns.p99 as f64 / 1e3),
            format!("{:.1}", row.bytes_per_key),
        ]
    });
    let table = table(&header, 1.., cells);
    format!(
        "{} · {} keys · values of {} B · {} connections · pipeline {}\n{table}\n",
        first.task, first.keys, first.value_bytes, first.connections, first.pipeline
    )
}
