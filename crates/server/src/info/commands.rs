//! Sections about single commands and errors.

use super::InfoPage;

/// Writes the number of calls of each command and their duration.
pub fn commandstats(page: &mut InfoPage<'_>) {
    for counts in page.server.statistics.commands() {
        let micros = counts.nanoseconds / 1000;
        let each = counts.nanoseconds as f64 / 1000.0 / (counts.calls as f64).max(1.0);
        page.field(
            &format!("cmdstat_{}", counts.name),
            format!(
                "calls={},usec={micros},usec_per_call={each:.2},rejected_calls={},failed_calls={}",
                counts.calls, counts.rejected, counts.failed
            ),
        );
    }
}

/// Writes the number of errors sent, by code.
pub fn errorstats(page: &mut InfoPage<'_>) {
    for (code, count) in page.server.statistics.errors() {
        page.field(&format!("errorstat_{code}"), format!("count={count}"));
    }
}

/// Writes the percentiles of each command's duration.
pub fn latencystats(page: &mut InfoPage<'_>) {
    if !page.server.config.is_on("latency-tracking") {
        return;
    }
    let percentiles = page.server.config.text("latency-tracking-info-percentiles");
    for counts in page.server.statistics.commands() {
        if counts.calls == 0 {
            // It was only rejected, which takes no time.
            continue;
        }
        let shown: Vec<_> = percentiles
            .split_whitespace()
            .map(|percent| {
                let micros = counts.percentile_us(percent.parse().unwrap_or(0.0));
                format!("p{percent}={micros:.3}")
            })
            .collect();
        page.field(
            &format!("latency_percentiles_usec_{}", counts.name),
            shown.join(","),
        );
    }
}
