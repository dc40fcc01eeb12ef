//! Figures and claims as text.

use super::paper::Title;
use super::report::FigureReport;
use super::row::{MissingFigurePoint, PaperClaim, Row};
use crate::text::rate;

/// Formats the figure's name and title.
pub(super) fn title(figure: Title, report: &FigureReport) -> String {
    let paper = report.scale.paper().name();
    let Title { name, text } = figure;
    match name.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("{paper}, figure {name}: {text}"),
        false => format!("{paper}, {}: {text}", name.to_uppercase()),
    }
}

/// Formats a figure with all its points.
pub(super) fn figure(figure: Title, report: &FigureReport) -> String {
    let of_figure = |row: &&Row| row.detail.figure == figure.name;
    let rows: Vec<&Row> = report.rows.iter().filter(of_figure).collect();
    let mut text = title(figure, report) + "\n";
    let mut panels: Vec<(&str, &str)> = Vec::new();
    for row in &rows {
        let panel = (&*row.detail.panel, &*row.detail.y.name);
        if !panels.contains(&panel) {
            panels.push(panel);
        }
    }
    for (panel, y) in panels {
        let rows = rows
            .iter()
            .filter(|row| row.detail.panel == panel && row.detail.y.name == y);
        let rows: Vec<&Row> = rows.copied().collect();
        if !panel.is_empty() {
            text.push_str(&format!("{panel}\n"));
        }
        text.push_str(&format!("{}\n", table(&rows)));
    }
    let omitted = |label, list: &[MissingFigurePoint]| {
        let mut lines: Vec<String> = Vec::new();
        for entry in list.iter().filter(|entry| entry.figure == figure.name) {
            let line = format!("{label}: {}: {}\n", entry.peer, entry.reason);
            // Several jobs of a contender may fail alike.
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.concat()
    };
    text.push_str(&omitted("failed", &report.failed));
    text.push_str(&omitted("skipped", &report.skipped));
    text
}

/// A column: its title, and the function that formats its cell of a row.
type Column = (String, Box<dyn Fn(&Row) -> Option<String>>);

/// Formats the points of a panel, with the columns that have a value in some row.
pub(super) fn table(rows: &[&Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let column = |title: &str, cell: fn(&Row) -> Option<String>| -> Column {
        (title.to_owned(), Box::new(cell))
    };
    let number = |value: f64| rate(value);
    let mut columns: Vec<Column> = vec![
        column("peer", |row| Some(row.peer.clone())),
        (
            first.detail.x.axis(),
            Box::new(move |row| Some(number(row.detail.x.value))),
        ),
        (
            first.detail.y.axis(),
            Box::new(move |row| Some(number(row.detail.y.value))),
        ),
        column("clients", |row| {
            Some(row.setting.as_ref()?.threads.to_string())
        }),
        column("Mops", |row| row.rate_mops.map(rate)),
        column("p50 µs", |row| Some(micros(row.latency_ns?.p50))),
        column("p99 µs", |row| Some(micros(row.latency_ns?.p99))),
        column("cache KiB", |row| {
            Some(format!("{:.0}", row.detail.cache_bytes? / 1024.0))
        }),
        column("of KiB", |row| {
            Some(format!("{}", row.detail.cache_bytes_max? / 1024))
        }),
        column("messages", |row| {
            Some(rate(row.detail.messages_per_operation?.iter().sum()))
        }),
        column("reads/writes/atomics", |row| {
            Some(row.detail.messages_per_operation?.map(rate).join("/"))
        }),
        column("bytes", |row| {
            Some(format!("{:.0}", row.detail.bytes_per_operation?))
        }),
        column("right guesses", |row| {
            Some(format!("{:.0} %", row.detail.hit_rate? * 100.0))
        }),
        column("rounds", |row| Some(rate(row.detail.work.as_ref()?.rounds))),
        column("hops", |row| Some(rate(row.detail.work.as_ref()?.hops))),
        column("copies", |row| Some(rate(row.detail.work.as_ref()?.copies))),
        column("moved bytes", |row| {
            let [to_modules, from_modules] = row.detail.work.as_ref()?.moved_bytes;
            Some(rate(to_modules + from_modules))
        }),
        column("fullest/mean", |row| {
            Some(format!("{:.2}", row.detail.work.as_ref()?.imbalance))
        }),
        column("modules ms", |row| {
            Some(rate(row.detail.work.as_ref()?.modules_ns / 1e6))
        }),
        column("transfer ms", |row| {
            Some(rate(row.detail.work.as_ref()?.transfer_ns / 1e6))
        }),
        column("host ms", |row| {
            Some(rate(row.detail.work.as_ref()?.host_ns / 1e6))
        }),
        // No throughput includes it: this time is measured, the row is modelled.
        column("protocol ms, measured", |row| {
            let milliseconds = row.detail.work.as_ref()?.on_the_way_ns / 1e6;
            (milliseconds > 0.0).then(|| rate(milliseconds))
        }),
        column("keys", |row| row.detail.key_source.clone()),
        column("kind", |row| Some(row.kind.name().to_owned())),
    ];
    // Leaves out columns that repeat an axis, and columns without any value.
    let on_axes = [&*first.detail.x.name, &*first.detail.y.name];
    let twice = [
        ("clients", "clients"),
        ("Mops", "throughput"),
        ("p99 µs", "p99"),
    ];
    columns.retain(|(title, cell)| {
        let is_twice = |&(column, axis)| title == column && on_axes.contains(&axis);
        !twice.iter().any(is_twice) && rows.iter().any(|row| cell(row).is_some())
    });
    let header: Vec<&String> = columns.iter().map(|(title, _)| title).collect();
    let cells = rows.iter().map(|row| {
        let cells = columns.iter().map(|(_, cell)| cell(row));
        cells
            .map(|cell| cell.unwrap_or_else(|| "–".to_owned()))
            .collect()
    });
    crate::report::table(&header, 1.., cells)
}

fn micros(nanoseconds: u64) -> String {
    rate(nanoseconds as f64 / 1e3)
}

/// Formats the claims of the paper and our results.
pub(super) fn claims(report: &FigureReport) -> String {
    let number = |value: Option<f64>, unit: &str| match value {
        Some(value) if unit == "x" => format!("{value:.2}x"),
        Some(value) => format!("{value:.1} {unit}"),
        None => "–".to_owned(),
    };
    let header = ["claim", "paper", "here", "kind", "text"];
    let rows = report.claims.iter().map(|claim| {
        let PaperClaim { id, text, unit, .. } = claim;
        vec![
            id.clone(),
            number(claim.paper, unit),
            number(claim.ours, unit),
            claim.kind.name().to_owned(),
            text.clone(),
        ]
    });
    format!("{}\n", crate::report::table(&header, 1..1, rows))
}
