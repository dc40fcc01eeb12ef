//! One line under a table that says what it says.

use super::row::{LIMIT, Row, rows};
use super::table::ratio;
use crate::bench::{Contestant, TableResult};
use crate::workload::Mix;

/// Rates closer than this are told as equal; the machine itself varies by as much.
const EQUAL_WITHIN: f64 = 1.1;
/// Slices further apart than this deserve a warning.
const SPREAD_MAX: f64 = 0.5;

/// The reading of a table; empty when there is nothing to compare.
pub(super) fn reading(result: &TableResult) -> String {
    let rows = rows(result);
    let is_peer = |row: &&Row| row.peer != LIMIT && row.peer != "nearfield";
    let mut peers: Vec<&Row> = rows.iter().filter(is_peer).collect();
    peers.sort_by(|a, b| b.rate_mops.total_cmp(&a.rate_mops));
    let what = what(result.table.mix);
    let Some(ours) = rows.iter().find(|row| row.peer == "nearfield") else {
        return match peers.as_slice() {
            [first, .., last] => {
                let ratio = ratio(first.rate_mops / last.rate_mops);
                format!("{} does {ratio} the {what} of {}.", first.peer, last.peer)
            }
            _ => String::new(),
        };
    };
    let mut parts = Vec::new();
    let ordered = peers.iter().find(|row| is_ordered(row));
    let congee = peers.iter().find(|row| row.peer == "congee");
    if let Some(first) = congee.or(ordered) {
        parts.push(compared(ours, first, what));
        if let Some(best) = ordered.filter(|best| best.peer != first.peer) {
            let ratio = ratio(ours.rate_mops / best.rate_mops);
            parts.push(format!(
                "{ratio} those of {}, the fastest ordered peer",
                best.peer
            ));
        }
    }
    if let Some(limit) = rows.iter().find(|row| row.peer == LIMIT) {
        let share = ours.rate_mops / limit.rate_mops * 100.0;
        parts.push(format!("{share:.0} % of the machine's limit"));
    }
    let mut line = match parts.is_empty() {
        true => String::new(),
        false => format!("Nearfield {}.", parts.join(", ")),
    };
    let restless = rows.iter().filter(|row| row.rate_spread > SPREAD_MAX);
    let restless: Vec<&str> = restless.map(|row| row.peer.as_str()).collect();
    if !restless.is_empty() {
        line.push_str(&format!(
            " Slices far apart: {}; measure again.",
            restless.join(", ")
        ));
    }
    line.trim().to_owned()
}

fn compared(ours: &Row, other: &Row, what: &str) -> String {
    let factor = ours.rate_mops / other.rate_mops;
    if (1.0 / EQUAL_WITHIN..EQUAL_WITHIN).contains(&factor) {
        return format!("does about as many {what} as {}", other.peer);
    }
    format!("does {} {}'s {what}", ratio(factor), other.peer)
}

fn is_ordered(row: &Row) -> bool {
    row.peer
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
            "Nearfield does 9.1x congee's gets, 20 % of the machine's limit."
        );
        assert!(
            reading(&result(Mix::YcsbE, [2.0, 2.0, 6.0, 91.0]))
                .starts_with("Nearfield does about as many scans as congee,")
        );
        assert!(
            reading(&result(Mix::YcsbA, [1.0, 2.0, 6.0, 91.0]))
                .starts_with("Nearfield does 0.50x congee's operations,")
        );
    }

    #[test]
    fn without_nearfield_the_extremes_are_compared() {
        let mut result = result(Mix::YcsbC, [1.0, 2.0, 6.0, 91.0]);
        result.measured.remove(0);
        assert_eq!(reading(&result), "dashmap does 3.0x the gets of congee.");
        result.measured.clear();
        assert_eq!(reading(&result), "");
    }
}
