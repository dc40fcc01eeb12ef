//! The examples, run as programs.

use std::path::PathBuf;
use std::process::Command;

/// Returns the path of an example. Cargo builds the examples of a package with its tests.
pub fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    assert!(
        path.exists(),
        "{path:?} is not built: run cargo test without --test"
    );
    path
}

/// The example compares its results with those of a `BTreeMap`.
#[test]
fn a_structure_of_ones_own_takes_less_than_a_hundred_lines() {
    let output = Command::new(example("skip_list")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = include_str!("../../examples/skip_list.rs").lines().count();
    assert!(lines < 100, "{lines}");
}

/// The example checks its results.
#[test]
fn memory_nodes_a_switch_and_a_client_work_together() {
    let output = Command::new(example("two_nodes")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["1100 look-ups", "switch: ", "node 0: ", "node 1: "] {
        assert!(text.contains(part), "{text}");
    }
    // Lookups that left a node went on at the other one.
    assert!(!text.contains(" 0 passed on"), "{text}");
}
