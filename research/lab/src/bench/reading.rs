//! The line under a table that sums it up.

use super::contestant::BenchContestant;
use super::report::TableResult;
use crate::report::LIMIT;
use crate::text::ratio;
use crate::workload::Mix;

/// The ratio up to which rates count as equal; the machine itself varies by as much.
const EQUAL_WITHIN: f64 = 1.1;
/// The spread of slices above which a warning is printed.
const SPREAD_MAX: f64 = 0.5;

/// The name and the rate of a row.
type Bar<'r> = (&'r str, f64);

/// Returns the summary of a table; empty if there is nothing to compare.
pub(super) fn reading(result: &TableResult) -> String {
    let bars: Vec<Bar<'_>> = result
        .rates()
        .map(|(row, rate)| (&*row.peer, rate))
        .collect();
    let is_peer = |(name, _): &&Bar<'_>| *name != LIMIT && !holds(name, BenchContestant::is_ours);
    let mut peers: Vec<Bar<'_>> = bars.iter().filter(is_peer).copied().collect();
    peers.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rate_of = |wanted| bars.iter().find(|bar| bar.0 == wanted).map(|bar| bar.1);
    let operations = operations_name(result.table.mix);
    let mut line = match rate_of("nearfield") {
        Some(ours) => about_nearfield(ours, &peers, rate_of(LIMIT), operations),
        None => about_peers(&peers, operations),
    };
    let unsteady = result.rows.iter();
    let unsteady = unsteady.filter(|row| row.detail.rate_spread > Some(SPREAD_MAX));
    let unsteady: Vec<&str> = unsteady.map(|row| &*row.peer).collect();
    if !unsteady.is_empty() {
        let unsteady = unsteady.join(", ");
        line.push_str(&format!(" Slices far apart: {unsteady}; measure again."));
    }
    line.trim().to_owned()
}

/// Compares Nearfield with congee, the fastest ordered peer and the limit. `peers` are sorted by
/// rate.
fn about_nearfield(ours: f64, peers: &[Bar<'_>], limit: Option<f64>, operations: &str) -> String {
    let mut parts = Vec::new();
    let ordered = peers
        .iter()
        .find(|(name, _)| holds(name, BenchContestant::is_ordered));
    let congee = peers.iter().find(|(name, _)| *name == "congee");
    if let Some(first) = congee.or(ordered) {
        parts.push(compared(ours, first, operations));
        if let Some((best, rate)) = ordered.filter(|best| best.0 != first.0) {
            let ratio = ratio(ours / rate);
            parts.push(format!("{ratio} those of {best}, the fastest ordered peer"));
        }
    }
    if let Some(limit) = limit {
        let share = ours / limit * 100.0;
        let verb = if parts.is_empty() { "reaches " } else { "" };
        parts.push(format!("{verb}{share:.0} % of the machine's limit"));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!("Nearfield {}.", parts.join(", ")),
    }
}

fn about_peers(peers: &[Bar<'_>], operations: &str) -> String {
    let [(first, most), .., (last, least)] = peers else {
        return String::new();
    };
    format!(
        "{first} executes {} the {operations} of {last}.",
        ratio(most / least)
    )
}

fn compared(ours: f64, (name, rate): &Bar<'_>, operations: &str) -> String {
    let factor = ours / rate;
    if (1.0 / EQUAL_WITHIN..EQUAL_WITHIN).contains(&factor) {
        return format!("executes about as many {operations} as {name}");
    }
    format!("executes {} {name}'s {operations}", ratio(factor))
}

/// Returns true if `property` holds for the contestant of this name.
fn holds(name: &str, property: fn(BenchContestant) -> bool) -> bool {
    name.parse().is_ok_and(property)
}

fn operations_name(mix: Mix) -> &'static str {
    let shares = mix.shares();
    match (shares.read, shares.update, shares.insert, shares.scan) {
        (100, ..) => "gets",
        (_, 100, ..) => "updates",
        (_, _, 100, _) => "insertions",
        (_, _, _, 95..) => "scans",
        _ => "operations",
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::result;
    use super::*;

    #[test]
    fn ratios_are_summarized_in_a_sentence() {
        assert_eq!(
            reading(&result(Mix::YcsbC, [18.2, 2.0, 6.0, 91.0])),
            "Nearfield executes 9.1x congee's gets, 20 % of the machine's limit."
        );
        assert!(
            reading(&result(Mix::YcsbE, [2.0, 2.0, 6.0, 91.0]))
                .starts_with("Nearfield executes about as many scans as congee,")
        );
        assert!(
            reading(&result(Mix::YcsbA, [1.0, 2.0, 6.0, 91.0]))
                .starts_with("Nearfield executes 0.50x congee's operations,")
        );
    }

    #[test]
    fn without_nearfield_the_extremes_are_compared() {
        let mut result = result(Mix::YcsbC, [1.0, 2.0, 6.0, 91.0]);
        result.rows.remove(0);
        assert_eq!(
            reading(&result),
            "dashmap executes 3.0x the gets of congee."
        );
        result.rows.clear();
        assert_eq!(reading(&result), "");
    }
}
