//! Tables for people.

use super::row::{Bar, bars};
use crate::bench::{Latency, TableResult};
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// A line under the header and nothing else.
pub(crate) const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// The table of a result, with a title above and what was left out below.
pub(super) fn render(result: &TableResult) -> String {
    let bars = bars(result);
    let reference = bars
        .iter()
        .find(|bar| bar.name == "nearfield")
        .map(Bar::rate_mops);
    let mut table = Table::new();
    table.load_style(STYLE);
    let mut header = vec![
        "peer",
        "Mops",
        "spread",
        "p50",
        "p99",
        "p99.9",
        "B/key",
        "huge pages",
    ];
    header.extend(reference.map(|_| "nearfield/peer"));
    table.set_header(&header);
    for bar in &bars {
        let mut cells = cells(bar);
        cells.extend(reference.map(|reference| ratio(reference / bar.rate_mops())));
        table.add_row(cells);
    }
    for failure in &result.failures {
        table.add_row([failure.contestant.name(), "failed"]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{}\n{table}\n", title(result));
    bars.iter().for_each(|bar| text.push_str(&counted(bar)));
    for failure in &result.failures {
        text.push_str(&format!(
            "failed: {}: {}\n",
            failure.contestant, failure.error
        ));
    }
    for skip in &result.table.skips {
        text.push_str(&format!("skipped: {}: {}\n", skip.contestant, skip.reason));
    }
    text
}

/// The setting in words.
pub(super) fn title(result: &TableResult) -> String {
    let table = &result.table;
    let threads = if table.threads == 1 {
        "thread"
    } else {
        "threads"
    };
    let batch = match table.batch {
        1 => "one operation at a time".to_owned(),
        batch => format!("nearfield in batches of {}", grouped(batch)),
    };
    format!(
        "{} · {} keys · mix {} · {} · {} {threads} · {batch}",
        table.keys,
        grouped(result.keys),
        table.mix,
        table.distribution,
        table.threads,
    )
}

fn cells(bar: &Bar<'_>) -> Vec<String> {
    let measurement = bar.measurement;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let latency = |pick: fn(&Latency) -> u64| {
        or_dash(
            measurement
                .latency
                .as_ref()
                .map(|latency| duration(pick(latency))),
        )
    };
    let spread = (!bar.is_limit()).then(|| percent(measurement.rates_mops.spread()));
    vec![
        bar.name.to_owned(),
        rate(bar.rate_mops()),
        or_dash(spread),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        latency(|latency| latency.p999),
        or_dash(measurement.bytes_per_key.map(|bytes| format!("{bytes:.0}"))),
        or_dash(measurement.huge_page_share.map(percent)),
    ]
}

/// What an operation took on average, where it was counted.
fn counted(bar: &Bar<'_>) -> String {
    let Some(counts) = bar.measurement.counts else {
        return String::new();
    };
    let average = |(name, count): (&str, u64)| {
        format!(
            "{} {:.3}",
            name.replace('_', " "),
            count as f64 / counts.operations.max(1) as f64
        )
    };
    let averages = counts.named().map(average).join(", ");
    format!("counted for each operation: {}: {averages}\n", bar.name)
}

/// Three digits that matter.
pub(crate) fn rate(mops: f64) -> String {
    let decimals = match mops {
        100.0.. => 0,
        10.0.. => 1,
        0.1.. => 2,
        _ => 3,
    };
    format!("{mops:.decimals$}")
}

/// A ratio with its sign, as in `9.1x`.
pub(super) fn ratio(ratio: f64) -> String {
    match ratio {
        10.0.. => format!("{ratio:.0}x"),
        1.0.. => format!("{ratio:.1}x"),
        _ => format!("{ratio:.2}x"),
    }
}

fn duration(nanoseconds: u64) -> String {
    match nanoseconds {
        0..10_000 => format!("{nanoseconds} ns"),
        10_000..10_000_000 => format!("{} µs", nanoseconds / 1000),
        _ => format!("{} ms", nanoseconds / 1_000_000),
    }
}

/// A count with commas between thousands.
pub(crate) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in (0..digits.len()).rev().zip(digits.chars()) {
        text.push(digit);
        if place > 0 && place % 3 == 0 {
            text.push(',');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::result;
    use super::*;
    use crate::workload::Mix;

    #[test]
    fn a_table_shows_rates_ratios_and_what_is_missing() {
        let text = render(&result(Mix::YcsbC, [20.0, 2.0, 6.0, 40.0]));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("sparse · 1,000 keys · mix C · zipf:0.99 · 1 thread"),
            "{text}"
        );
        let line = |name: &str| {
            *lines
                .iter()
                .find(|line| line.trim().starts_with(name))
                .unwrap()
        };
        for part in [
            "2.00", "20 %", "100 ns", "2000 ns", "3000 µs", "24", "97 %", "10x",
        ] {
            assert!(line("congee").contains(part), "{part} in\n{text}");
        }
        assert!(line("dashmap").contains("3.3x"), "{text}");
        assert!(line("limit").contains("0.50x"), "{text}");
        assert!(line("blart").contains("failed"), "{text}");
        assert!(
            text.contains("failed: blart: killed\nskipped: papaya: no scans\n"),
            "{text}"
        );
    }

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!(
            [123.4, 12.34, 1.234, 0.0123].map(rate),
            ["123", "12.3", "1.23", "0.012"]
        );
        assert_eq!([12.3, 1.26, 0.5].map(ratio), ["12x", "1.3x", "0.50x"]);
        assert_eq!(
            [1, 1000, 1_234_567].map(grouped),
            ["1", "1,000", "1,234,567"]
        );
    }
}
