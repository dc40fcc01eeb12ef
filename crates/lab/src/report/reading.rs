//! One line under a table that says what it says.

use super::row::{Bar, bars};
use super::table::ratio;
use crate::bench::{Contestant, TableResult};
use crate::workload::Mix;

/// Rates closer than this are told as equal; the machine itself varies by as much.
const EQUAL_WITHIN: f64 = 1.1;
/// Slices further apart than this deserve a warning.
const SPREAD_MAX: f64 = 0.5;

/// The reading of a table; empty when there is nothing to compare.
pub(super) fn reading(result: &TableResult) -> String {
    let bars = bars(result);
    let is_peer = |bar: &&Bar<'_>| !bar.is_limit() && !is_ours(bar);
    let mut peers: Vec<&Bar<'_>> = bars.iter().filter(is_peer).collect();
    peers.sort_by(|a, b| b.rate_mops().total_cmp(&a.rate_mops()));
    let what = what(result.table.mix);
    let mut line = match bars.iter().find(|bar| bar.name == "nearfield") {
        Some(ours) => {
            let limit = bars.iter().find(|bar| bar.is_limit());
            about_nearfield(ours, &peers, limit, what)
        }
        None => about_peers(&peers, what),
    };
    let is_restless = |bar: &&Bar<'_>| bar.measurement.rates_mops.spread() > SPREAD_MAX;
    let restless: Vec<&str> = bars
        .iter()
        .filter(is_restless)
        .map(|bar| bar.name)
        .collect();
    if !restless.is_empty() {
        line.push_str(&format!(
            " Slices far apart: {}; measure again.",
            restless.join(", ")
        ));
    }
    line.trim().to_owned()
}

/// Nearfield beside congee, the fastest ordered peer and the limit. `peers` are sorted by rate.
fn about_nearfield(
    ours: &Bar<'_>,
    peers: &[&Bar<'_>],
    limit: Option<&Bar<'_>>,
    what: &str,
) -> String {
    let mut parts = Vec::new();
    let ordered = peers.iter().find(|bar| is_ordered(bar));
    let congee = peers.iter().find(|bar| bar.name == "congee");
    if let Some(first) = congee.or(ordered) {
        parts.push(compared(ours, first, what));
        if let Some(best) = ordered.filter(|best| best.name != first.name) {
            let ratio = ratio(ours.rate_mops() / best.rate_mops());
            parts.push(format!(
                "{ratio} those of {}, the fastest ordered peer",
                best.name
            ));
        }
    }
    if let Some(limit) = limit {
        let share = ours.rate_mops() / limit.rate_mops() * 100.0;
        let verb = if parts.is_empty() { "reaches " } else { "" };
        parts.push(format!("{verb}{share:.0} % of the machine's limit"));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!("Nearfield {}.", parts.join(", ")),
    }
}

fn about_peers(peers: &[&Bar<'_>], what: &str) -> String {
    match peers {
        [first, .., last] => {
            let ratio = ratio(first.rate_mops() / last.rate_mops());
            format!(
                "{} answers {ratio} the {what} of {}.",
                first.name, last.name
            )
        }
        _ => String::new(),
    }
}

fn compared(ours: &Bar<'_>, other: &Bar<'_>, what: &str) -> String {
    let factor = ours.rate_mops() / other.rate_mops();
    if (1.0 / EQUAL_WITHIN..EQUAL_WITHIN).contains(&factor) {
        return format!("answers about as many {what} as {}", other.name);
    }
    format!("answers {} {}'s {what}", ratio(factor), other.name)
}

fn is_ours(bar: &Bar<'_>) -> bool {
    bar.name
        .parse::<Contestant>()
        .is_ok_and(Contestant::is_ours)
}

fn is_ordered(bar: &Bar<'_>) -> bool {
    bar.name
        .parse::<Contestant>()
        .is_ok_and(Contestant::is_ordered)
}

fn what(mix: Mix) -> &'static str {
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
    use super::super::row::tests::result;
    use super::*;

    #[test]
    fn ratios_are_told_in_a_sentence() {
        assert_eq!(
            reading(&result(Mix::YcsbC, [18.2, 2.0, 6.0, 91.0])),
            "Nearfield answers 9.1x congee's gets, 20 % of the machine's limit."
        );
        assert!(
            reading(&result(Mix::YcsbE, [2.0, 2.0, 6.0, 91.0]))
                .starts_with("Nearfield answers about as many scans as congee,")
        );
        assert!(
            reading(&result(Mix::YcsbA, [1.0, 2.0, 6.0, 91.0]))
                .starts_with("Nearfield answers 0.50x congee's operations,")
        );
    }

    #[test]
    fn without_nearfield_the_extremes_are_compared() {
        let mut result = result(Mix::YcsbC, [1.0, 2.0, 6.0, 91.0]);
        result.measured.remove(0);
        assert_eq!(reading(&result), "dashmap answers 3.0x the gets of congee.");
        result.measured.clear();
        assert_eq!(reading(&result), "");
    }
}
