//! The rows of a contest, for people.

use super::contest::ContestRow;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// A line under the header and nothing else.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// A table of servers at one pipeline, with a title above.
#[must_use]
pub fn render(rows: &[ContestRow]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header([
        "server",
        "CPU µs/op",
        "spread",
        "first/this",
        "kops",
        "p50 µs",
        "p99 µs",
        "B/key",
    ]);
    for row in rows {
        table.add_row([
            row.server.clone(),
            format!("{:.3}", row.cpu_us),
            format!("{:.0} %", row.cpu_spread * 100.0),
            format!("{:.2}x", row.ratio),
            format!("{:.0}", row.kops),
            format!("{:.0}", row.latency_ns.p50 as f64 / 1e3),
            format!("{:.0}", row.latency_ns.p99 as f64 / 1e3),
            format!("{:.1}", row.bytes_per_key),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{} · {} keys · values of {} B · {} connections · pipeline {}\n{table}\n",
        first.task, first.keys, first.value_bytes, first.connections, first.pipeline
    )
}
