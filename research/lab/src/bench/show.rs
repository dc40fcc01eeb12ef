//! A table as text.

use super::report::{Row, TableResult};
use crate::harness::LatencySummary;
use crate::report::{LIMIT, table};
use crate::text::{duration, grouped, rate, ratio};

/// Renders the table of a result, with a title above and the contestants left out below.
pub(super) fn render(result: &TableResult) -> String {
    let reference = result.rates().find(|(row, _)| row.peer == "nearfield");
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
    let rows = result.rates().map(|(row, rate)| {
        let mut cells = cells(row, rate);
        cells.extend(reference.map(|(_, reference)| ratio(reference / rate)));
        cells
    });
    let failed = result.failed.iter();
    let failed = failed.map(|failed| vec![failed.peer.clone(), "failed".to_owned()]);
    let mut text = format!(
        "{}\n{}\n",
        title(result),
        table(&header, 1.., rows.chain(failed))
    );
    result
        .rows
        .iter()
        .for_each(|row| text.push_str(&counted(row)));
    for failed in &result.failed {
        text.push_str(&format!("failed: {}: {}\n", failed.peer, failed.error));
    }
    for (contestant, reason) in &result.table.skips {
        text.push_str(&format!("skipped: {contestant}: {reason}\n"));
    }
    text
}

/// Formats the setting in words.
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

fn cells(row: &Row, rate_mops: f64) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let latency = |pick: fn(&LatencySummary) -> u64| {
        or_dash(
            row.latency_ns
                .as_ref()
                .map(|latency| duration(pick(latency))),
        )
    };
    let spread = row.detail.rate_spread.filter(|_| row.peer != LIMIT);
    vec![
        row.peer.clone(),
        rate(rate_mops),
        or_dash(spread.map(percent)),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        latency(|latency| latency.p999),
        or_dash(row.bytes_per_key.map(|bytes| format!("{bytes:.0}"))),
        or_dash(row.detail.huge_page_share.map(percent)),
    ]
}

/// Formats the mean counters of an operation, if they were counted.
fn counted(row: &Row) -> String {
    let Some(counts) = &row.detail.counters else {
        return String::new();
    };
    let average = |(name, count): (&str, u64)| {
        let each = count as f64 / counts.operations.max(1) as f64;
        format!("{} {each:.3}", name.replace('_', " "))
    };
    let averages = counts.named().map(average).join(", ");
    format!("counted for each operation: {}: {averages}\n", row.peer)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::result;
    use super::*;
    use crate::workload::Mix;

    #[test]
    fn a_table_shows_rates_ratios_and_missing_contestants() {
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
}
