//! The findings that crates may still have. The list is a ratchet: a number may only fall, and a
//! number that is too high is a finding itself.

use crate::finding::TidyFinding;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The name of a check, the folder of a crate that does not pass it, and its number of findings.
pub const UNCLEAN: &[(&str, &str, usize)] = &[];

const HERE: &str = "xtask/src/tidy/unclean.rs";

/// Leaves out the findings that `list` allows, and objects to numbers that are too high.
pub fn filter(
    findings: Vec<(&str, TidyFinding)>,
    list: &[(&str, &str, usize)],
) -> Vec<TidyFinding> {
    let mut of_entries = BTreeMap::<_, BTreeSet<TidyFinding>>::new();
    let mut left = Vec::new();
    for (check, finding) in findings {
        let entry = list
            .iter()
            .find(|(name, folder, _)| *name == check && finding.path().starts_with(folder));
        match entry {
            Some(entry) => {
                of_entries.entry(entry).or_default().insert(finding);
            }
            None => left.push(finding),
        }
    }
    for entry in list {
        let (check, folder, allowed) = entry;
        let found = of_entries.remove(entry).unwrap_or_default();
        let count = found.len();
        if count < *allowed {
            // A number that stays too high would let new findings pass.
            let reason = format!("{folder} has {count} findings of {check}: lower its number");
            left.push(TidyFinding::new(Path::new(HERE), 1, reason));
        } else if count > *allowed {
            let reason = format!(
                "{folder} has {count} findings of {check}, {allowed} are allowed; all are listed"
            );
            left.push(TidyFinding::new(Path::new(HERE), 1, reason));
            left.extend(found);
        }
    }
    debug_assert!(
        of_entries.is_empty(),
        "each finding belongs to an entry or is left"
    );
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(list: &[(&str, &str, usize)]) -> Vec<String> {
        let finding = |line| TidyFinding::new(Path::new("crates/a/src/b.rs"), line, "wrong");
        let findings = vec![("columns", finding(3)), ("columns", finding(4))];
        let left = filter(findings, list);
        left.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_is_on_the_list_is_left_out() {
        assert_eq!(left(&[("columns", "crates/a", 2)]), [""; 0]);
        let both = ["crates/a/src/b.rs:3: wrong", "crates/a/src/b.rs:4: wrong"];
        assert_eq!(left(&[]), both);
        let more = left(&[("columns", "crates/a", 1)]);
        assert_eq!(more.get(1..), Some(&both.map(str::to_owned)[..]));
    }

    #[test]
    fn a_number_that_is_too_high_is_found() {
        let list = [("columns", "crates/a", 2), ("cycles", "crates/a", 1)];
        let reason = "crates/a has 0 findings of cycles: lower its number";
        assert_eq!(left(&list), [format!("{HERE}:1: {reason}")]);
    }
}
