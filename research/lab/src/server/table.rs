//! The rows of a contest as a table.

use super::contest::{Row, ServerRequestDetail};
use crate::report::table;

/// Formats a table of servers at one pipeline, with a title above.
#[must_use]
pub fn render(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let header = [
        "server",
        "version",
        "CPU µs/op",
        "spread",
        "first/this",
        "kops",
        "p50 µs",
        "p99 µs",
        "B/key",
    ];
    let cells = rows.iter().map(|row| {
        let (detail, latency) = (&row.detail, row.latency_ns.unwrap_or_default());
        vec![
            row.peer.clone(),
            detail.version.clone(),
            format!("{:.3}", detail.cpu_us),
            format!("{:.0} %", detail.cpu_spread * 100.0),
            format!("{:.2}x", detail.ratio),
            format!("{:.0}", detail.kops),
            format!("{:.0}", latency.p50 as f64 / 1e3),
            format!("{:.0}", latency.p99 as f64 / 1e3),
            format!("{:.1}", row.bytes_per_key.unwrap_or(0.0)),
        ]
    });
    let table = table(&header, 2.., cells);
    let ServerRequestDetail {
        task,
        keys,
        key_bytes,
        value_bytes,
        connections,
        pipeline,
        appendonly,
        ..
    } = &first.detail;
    let log = if *appendonly {
        " · log synced each second"
    } else {
        ""
    };
    format!(
        "{task} · {keys} keys of {key_bytes} B · values of {value_bytes} B · \
         {connections} connections · pipeline {pipeline}{log}\n{table}\n"
    )
}
