//! Figures and claims as text.

use super::paper::Title;
use super::report::FigureReport;
use super::row::{ClaimBasis, ClaimDirection, MissingFigurePoint, PaperClaim, Row};
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

/// Formats the claims of the paper and our results: first predictions, then what the model was
/// fitted to.
pub(super) fn claims(report: &FigureReport) -> String {
    let of = |basis: ClaimBasis| {
        let claims = report.claims.iter().filter(|claim| claim.basis == basis);
        claims.collect::<Vec<&PaperClaim>>()
    };
    let calibrated = of(ClaimBasis::Calibrated);
    let mut text = claim_table(&of(ClaimBasis::Predicted));
    if !calibrated.is_empty() {
        text += "calibrated: inputs of the model decide these, so their agreement is no evidence\n";
        text += &claim_table(&calibrated);
    }
    text
}

fn claim_table(claims: &[&PaperClaim]) -> String {
    let number = |value: Option<f64>, unit: &str| match value {
        Some(value) if unit == "x" => format!("{}x", three_digits(value)),
        Some(value) => format!("{} {unit}", three_digits(value)),
        None => "–".to_owned(),
    };
    let header = ["claim", "paper", "here", "agrees", "kind", "text"];
    let rows = claims.iter().map(|claim| {
        let PaperClaim { id, text, unit, .. } = claim;
        let bound = match claim.direction {
            ClaimDirection::AtLeast if claim.paper.is_some() => "≥ ",
            ClaimDirection::AtMost if claim.paper.is_some() => "≤ ",
            _ => "",
        };
        let agrees = match claim.agrees() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "–",
        };
        vec![
            id.clone(),
            format!("{bound}{}", number(claim.paper, unit)),
            number(claim.ours, unit),
            agrees.to_owned(),
            claim.kind.name().to_owned(),
            text.clone(),
        ]
    });
    format!("{}\n", crate::report::table(&header, 1..1, rows))
}

/// Formats a number with three digits, and at most three decimals.
fn three_digits(number: f64) -> String {
    let decimals = match number.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_claims_have_three_digits() {
        let numbers = [0.4864, 1.044, 47.93, 168.14, -4.6, 0.0].map(three_digits);
        assert_eq!(numbers, ["0.486", "1.04", "47.9", "168", "-4.60", "0.000"]);
    }

    #[test]
    fn claims_show_their_direction_and_their_agreement() {
        let claim = PaperClaim {
            id: "paper.speed".to_owned(),
            text: "faster".to_owned(),
            paper: Some(1.0),
            ours: Some(0.986),
            unit: "x".to_owned(),
            kind: crate::report::NumberOrigin::Modelled,
            direction: ClaimDirection::AtLeast,
            basis: ClaimBasis::Predicted,
        };
        let text = claim_table(&[&claim]);
        for part in ["≥ 1.00x", "0.986x", " no ", "modelled"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let equal = PaperClaim {
            direction: ClaimDirection::Equal,
            ..claim
        };
        assert!(claim_table(&[&equal]).contains(" yes "));
    }
}
