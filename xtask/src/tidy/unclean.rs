//! The crates that do not pass a check yet. The list is a ratchet: no crate may be added, and an
//! entry that is no longer needed is a finding.

use crate::finding::Finding;
use std::collections::BTreeSet;
use std::path::Path;

/// The name of a check, and the folder of a crate that does not pass it.
pub const UNCLEAN: &[(&str, &str)] = &[];

const HERE: &str = "xtask/src/tidy/unclean.rs";

/// Drops the findings of crates that are on `list`, and adds a finding for each entry without any.
pub fn filter(findings: Vec<(&str, Finding)>, list: &[(&str, &str)]) -> Vec<Finding> {
    let mut needed = BTreeSet::new();
    let mut left = Vec::new();
    for (check, finding) in findings {
        let entry = list
            .iter()
            .find(|(name, folder)| *name == check && finding.path().starts_with(folder));
        match entry {
            Some(entry) => {
                needed.insert(entry);
            }
            None => left.push(finding),
        }
    }
    for entry in list.iter().filter(|entry| !needed.contains(entry)) {
        let (check, folder) = entry;
        let reason = format!("{folder} passes {check} now: remove its entry");
        left.push(Finding::new(Path::new(HERE), 1, reason));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(list: &[(&str, &str)]) -> Vec<String> {
        let finding = Finding::new(Path::new("crates/a/src/b.rs"), 3, "wrong");
        let left = filter(vec![("columns", finding)], list);
        left.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_is_on_the_list_is_left_out() {
        assert_eq!(left(&[("columns", "crates/a")]), [""; 0]);
        assert_eq!(left(&[]), ["crates/a/src/b.rs:3: wrong"]);
    }

    #[test]
    fn an_entry_that_is_not_needed_is_found() {
        assert_eq!(
            left(&[("columns", "crates/a"), ("cycles", "crates/a")]),
            ["xtask/src/tidy/unclean.rs:1: crates/a passes cycles now: remove its entry"]
        );
    }
}
